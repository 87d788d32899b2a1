"""Properties that are one of a few words: attributes that enumerate them.

    PadMode = choice("graph.pad_mode", "constant", "edge", "reflect", "wrap")
    mode = choice_def(PadMode, "constant")

In the text of an op the word stands behind the property's name, `mode edge`; an attribute by itself
is `#graph<pad_mode edge>`.
"""

import sys
from difflib import get_close_matches
from types import new_class
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    BaseAttr,
    VerificationContext,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
)
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

ROUNDINGS = ("half_even", "tflite", "power_of_two", "float32")  # see `graph.requantize`


class ChoiceAttr(Data[StrEnum], SpacedOpaqueSyntaxAttribute):
    """One of the words of `enum_type`. There is one attribute for each."""

    enum_type: ClassVar[type[StrEnum]]
    made: ClassVar[dict[str, "ChoiceAttr"]]

    @classmethod
    def words(cls) -> tuple[str, ...]:
        return tuple(word.value for word in cls.enum_type)

    @classmethod
    def new(cls, params: Any) -> Self:
        if (known := cls.made.get(params)) is None:
            known = cls.made[params] = super().new(params)
        return cast(Self, known)

    @classmethod
    def of(cls, word: str, name: str = "") -> Self:
        """The attribute of a word. Raises VerifyException, which names the property."""
        if (known := cls.made.get(word)) is not None:
            return cast(Self, known)
        if word not in cls.words():
            raise VerifyException(cls.unknown(word, name))
        return cls.new(cls.enum_type(word))

    @classmethod
    def unknown(cls, word: str, name: str = "") -> str:
        name, words = name or cls.name.partition(".")[2], cls.words()
        close = get_close_matches(word, words, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        return f"{name} is one of {', '.join(words)}, not '{word}'{hint}"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> StrEnum:
        return cls.parse_word(parser)

    @classmethod
    def parse_word(cls, parser: AttrParser, name: str = "") -> StrEnum:
        """The word, of the property `name`. Raises ParseError, which names the nearest one."""
        start = parser.pos
        if (word := parser.parse_optional_identifier()) in cls.words():
            return cls.enum_type(word)
        if word is None:
            word = parser.parse_optional_str_literal() or ""  # not a second way to write it
            if word in cls.words():
                parser.raise_error(f"{word} stands without quotes", start, parser.pos)
        parser.raise_error(cls.unknown(word, name), start, parser.pos)


def choice(name: str, *words: str) -> type[ChoiceAttr]:
    """The attribute `name` of a dialect, which the calling module defines."""
    title = name.partition(".")[2].title().replace("_", "")
    enum_type = cast("type[StrEnum]", cast(Any, StrEnum)(title, {word: word for word in words}))
    body: dict[str, Any] = {
        "name": name,
        "made": dict[str, ChoiceAttr](),
        "__doc__": f"One of {', '.join(words)}: `#{name.replace('.', '<')} {words[0]}>`.",
        "__module__": sys._getframe(1).f_globals["__name__"],  # pyright: ignore[reportPrivateUsage]
    }
    bases = ChoiceAttr, cast(Any, EnumAttribute)[enum_type]
    made = new_class(f"{title}Attr", bases, {}, lambda namespace: namespace.update(body))
    return irdl_attr_definition(cast("type[ChoiceAttr]", made))


class ChoiceConstraint(BaseAttr[ChoiceAttr]):
    """Attributes that are one of the words of a choice."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, self.attr):
            words, (dialect, name) = self.attr.words(), self.attr.name.split(".", 1)
            expected = f"one of {', '.join(words)}, as in #{dialect}<{name} {words[0]}>"
            raise VerifyException(f"expected {expected}, not {attr}")


def choice_def(kind: type[ChoiceAttr], default: str | None = None) -> ChoiceAttr:
    """A property that is one of the words of a choice."""
    value = None if default is None else kind.of(default)
    return prop_def(ChoiceConstraint(kind), default_value=value)


def opt_choice_def(kind: type[ChoiceAttr]) -> ChoiceAttr | None:
    return opt_prop_def(ChoiceConstraint(kind))
