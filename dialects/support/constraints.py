"""Constraints of the types of operands and results, shared by definitions of ops.

    input = operand_def(FLOATS)
    lengths = opt_operand_def(INTEGERS.of_rank(1))

Each is of ranked tensors without an encoding, of elements that kernels take.

Properties that are one of a few words: attributes that enumerate them.

    PadMode = choice("graph.pad_mode", "constant", "edge", "reflect", "wrap")
    mode = choice_def(PadMode, "constant")

In the text of an op the word stands behind the property's name, `mode edge`; an attribute by itself
is `#graph<pad_mode edge>`.

Assembly formats of ge's ops: conventions that hold for all of them, and directives that xDSL
lacks.

    $input `,` $indices attr-dict `:` functional-type(operands, results)

Properties that a format does not name stand before `attr-dict`, each behind its name. All types
stand at the end, those of optional operands too."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import new_class
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ArrayOfConstraint,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
    UnrankedTensorType,
    f8E4M3FN,
    f8E5M2,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, AttributeCovT, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    AtLeast,
    AttrConstraint,
    BaseAttr,
    IRDLOperation,
    MessageConstraint,
    ParamAttrConstraint,
    RangeOf,
    VerificationContext,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    FormatDirective,
    KeywordDirective,
    OperandsDirective,
    OptionalGroupDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    TypedAttributeVariable,
    irdl_custom_directive,
)
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.irdl.operations import AttrSizedSegments
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind
from xdsl.utils.str_enum import StrEnum

from ge.dialects.support.element_types import ELEMENT_TYPES, row_of, ui8

RANKS = {0: "a scalar", 1: "a vector", 2: "a matrix"}


@dataclass(frozen=True, init=False)
class Named(MessageConstraint[AttributeCovT]):
    """A constraint whose message says what is expected."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        try:
            self.constr.verify(attr, constraint_context)
        except VerifyException:
            text = f"expected {self.message}, not {attr}{self.way_out(attr)}"
            raise VerifyException(text) from None

    def way_out(self, attr: Attribute) -> str:
        """Advice for a user whose attribute is refused; "" if there is none."""
        return ""


@cache
def one_of(elements: tuple[Attribute, ...]) -> AttrConstraint:
    """The constraint that tensors of these elements share, whatever their rank is."""
    return AnyOf.get(*elements)


@dataclass(frozen=True, init=False)
class TensorOf(Named[Attribute]):
    """Tensors of some element types, which `words` name, of one rank or of any."""

    elements: tuple[Attribute, ...]
    words: str

    def __init__(
        self,
        elements: Iterable[Attribute],
        words: str,
        rank: int | None = None,
        unranked: bool = False,
    ):
        elements = tuple(elements)
        element = one_of(elements)
        shape = AnyAttr() if rank is None else ArrayAttr.constr(RangeOf(AnyAttr()).of_length(rank))
        constr = ParamAttrConstraint.get(TensorType, shape, element, NoneAttr())
        kind = "a ranked tensor" if rank is None else RANKS.get(rank, f"a tensor of rank {rank}")
        if unranked:
            constr = AnyOf.get(constr, ParamAttrConstraint.get(UnrankedTensorType, element))
            kind = "a tensor"
        super().__init__(constr, f"{kind} of {words}")
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "words", words)

    def of_rank(self, rank: int) -> "TensorOf":
        return TensorOf(self.elements, self.words, rank)

    def or_unranked(self) -> "TensorOf":
        """The same of tensors whose rank may be known only at run time, too."""
        return TensorOf(self.elements, self.words, unranked=True)

    def way_out(self, attr: Attribute) -> str:
        element = getattr(attr, "element_type", None)
        row = None if element is None else row_of(element)
        if row is None or not row.storage_only or element in self.elements:
            return ""
        return f"; {element} is only stored: cast it to compute with it"


@dataclass(frozen=True)
class FloatRange(AttrConstraint[FloatAttr[Float64Type]]):
    """Finite f64 that are not below the least one."""

    least: float

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, FloatAttr):
            raise VerifyException(f"{attr} is no float")
        typed = cast("FloatAttr[AnyFloat]", attr)
        if typed.type != f64 or not self.least <= typed.value.data < math.inf:
            raise VerifyException(f"{attr} is not in range")

    def get_bases(self) -> set[type[Attribute]]:
        return {FloatAttr}

    def mapping_type_vars(self, type_var_mapping: object) -> "FloatRange":
        return self


_COMPUTED = [row for row in ELEMENT_TYPES if not row.storage_only]
_INTEGERS = [row.type for row in _COMPUTED if not row.is_float and row.type != i1]
_FLOATS = [row.type for row in _COMPUTED if row.is_float]
_TYPES = [row.type for row in ELEMENT_TYPES]

ELEMENT = Named(AnyOf.get(*_TYPES), "an element type of ge")
FLOAT = Named(AnyOf.get(*(row.type for row in ELEMENT_TYPES if row.is_float)), "a float type")

ANY = TensorOf(_TYPES, "elements that ge has")  # of ops that move elements, or read none
VALUES = ANY.or_unranked()  # of ops that hand on what they are given
COMPUTED = TensorOf([*_FLOATS, *_INTEGERS, i1], "numbers or truth values")
NUMBERS = TensorOf([*_FLOATS, *_INTEGERS], "numbers")
FLOATS = TensorOf(_FLOATS, "floats")
INTEGERS = TensorOf(_INTEGERS, "integers")
BITS = TensorOf([*_INTEGERS, i1], "integers or truth values")
TRUTHS = TensorOf([i1], "truth values (i1)")
INDICES = TensorOf([i64], "i64")  # that ops compute

BUFFERS = Named(
    ParamAttrConstraint.get(
        MemRefType,
        AnyAttr(),
        AnyOf.get(*_TYPES),
        AnyOf.get(NoneAttr, StridedLayoutAttr),
        AnyAttr(),  # the space: npu_task verifies it
    ),
    "a memref of elements that ge has",
)
SHAPED = Named(AnyOf.get(ANY, BUFFERS), "a ranked tensor or memref of elements that ge has")

# Properties. Numbers that are no elements have one width. Assembly formats know these of xDSL's.
INT = IntegerAttr.constr(i64)
INTS = DenseArrayBase.constr(i64)
COUNT = IntegerAttr.constr(i64, value=AtLeast(1))
F64 = FloatAttr.constr(f64)
F64S = DenseArrayBase.constr(f64)
NOT_NEGATIVE = Named(FloatRange(0.0), "a finite f64 that is not negative")
POSITIVE = Named(FloatRange(math.ulp(0.0)), "a finite f64 above 0")
INTEGER = Named(
    ParamAttrConstraint.get(IntegerAttr, None, AnyOf.get(*_INTEGERS)),
    "an integer of a type of elements",
)
SCALAR = Named(
    AnyOf.get(
        ParamAttrConstraint.get(FloatAttr, None, AnyOf.get(*_FLOATS)),
        ParamAttrConstraint.get(IntegerAttr, None, AnyOf.get(*_INTEGERS, i1)),
    ),
    "a number or truth value of a type of elements",
)

FACTORS = TensorOf([*_FLOATS, f8E4M3FN, f8E5M2, *_INTEGERS], "numbers that are multiplied")
QUANTIZED = TensorOf(
    [
        *(row.type for row in ELEMENT_TYPES if not row.is_float and 1 < row.bits <= 16),
        i32,
        *(row.type for row in ELEMENT_TYPES if row.is_float and row.storage_only and row.is_signed),
    ],
    "quantized elements",
)
BYTES = TensorOf([i8, ui8], "integers of 8 bits")


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


BEHIND = ("attributes", "loc")  # words that may stand behind the properties of an op


@irdl_custom_directive
class Parameter(CustomDirective):
    """`custom<Parameter>($x_value, $x)`"""

    operand: OptionalOperandVariable
    property: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if (operand := parser.parse_optional_unresolved_operand()) is not None:
            self.operand.set(state, operand)
            return
        self.set_empty(state)
        position = parser.pos
        self.property.parse(parser, state)
        if parser.pos == position:
            name = self.property.name
            parser.raise_error(f"expected a constant or an operand, as in '{name} %0'")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.operand.get(op)
        if value is None:
            self.property.print(printer, state, op)
            return
        self.operand.print(printer, state, op)

    def set_empty(self, state: ParsingState) -> None:
        self.operand.set_empty(state)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.operand.is_present(op) or self.property.is_present(op)

    def is_anchorable(self) -> bool:
        return True


@dataclass(frozen=True)
class Properties(FormatDirective):
    """The part of a format behind the first operands, each item behind its name, in any order:
    other operands, parameters, and the properties that a format does not place. Those that have
    their defaults are left out."""

    groups: Mapping[str, OptionalGroupDirective]
    goes_on: bool  # whether something else follows: a word, then, is no beginning of another op

    def parse(self, parser: Parser, state: ParsingState) -> None:
        given = set[str]()
        while name := next(filter(parser.parse_optional_keyword, self.groups), None):
            if name in given:
                parser.raise_error(f"'{name}' is given twice")
            given.add(name)
            for element in self.groups[name].then_elements:
                element.parse(parser, state)
        op, token = state.op_type.name, parser._current_token  # pyright: ignore[reportPrivateUsage]
        is_word = token.kind is MLIRTokenKind.BARE_IDENT and token.text not in BEHIND
        if self.goes_on and is_word:
            close = get_close_matches(token.text, self.groups, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            parser.raise_error(f"{op} has no '{token.text}'{hint}")
        for name, group in self.groups.items():
            if name in given:
                continue
            for element in group.then_elements:
                element.set_empty(state)
            if self.is_needed(name):
                parser.raise_error(f"{op} needs `{name}` and its value here")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        for group in self.groups.values():
            group.print(printer, state, op)

    def text(self, form: str) -> str:
        """A format with the properties that it does not place."""
        names = [name for name in self.groups if f"`{name}`" not in form]
        texts = [f"`{n}` ${n}" if self.is_needed(n) else f"(`{n}` ${n}^)?" for n in names]
        return form.replace("attr-dict", " ".join((*texts, "attr-dict")))

    def is_needed(self, name: str) -> bool:
        """True if all ops of the class have it, and it has no default."""
        return not self.groups[name].anchor.is_anchorable()


@dataclass(frozen=True)
class ChoiceVariable(AttributeVariable):
    """A word: `tanh`."""

    kind: type[ChoiceAttr]

    def parse_attr(self, parser: Parser) -> Attribute | None:
        return self.kind.new(self.kind.parse_word(parser, self.name))

    def print_attr(self, printer: Printer, attr: Attribute) -> None:
        printer.print_string(cast(ChoiceAttr, attr).data.value)


@dataclass(frozen=True)
class ChoicesVariable(ChoiceVariable):
    """A list of words: `[tanh, sigmoid]`."""

    def parse_attr(self, parser: Parser) -> Attribute | None:
        words = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: self.kind.parse_word(parser, self.name)
        )
        return ArrayAttr(map(self.kind.new, words))

    def print_attr(self, printer: Printer, attr: Attribute) -> None:
        words = ", ".join(word.data for word in cast("ArrayAttr[ChoiceAttr]", attr))
        printer.print_string(f"[{words}]")


class OperandTypes(OperandsDirective):
    """The types of all operands in the order of their definitions, where several definitions may
    have none or many: the names stand before."""

    def set_types(self, state: ParsingState, types: Sequence[Attribute]) -> None:
        counts = [len(names or ()) for names in state.operands]
        if sum(counts) != len(types):
            expected = f"expected {sum(counts)} operand types, as there are operands"
            raise VerifyException(f"{expected}, got {len(types)}")
        rest = iter(types)
        state.operand_types = [[next(rest) for _ in range(count)] for count in counts]


class PartsParser(FormatParser):
    """Reads the format of an op: with directives that xDSL has not."""

    def verify_properties(self, elements: list[FormatDirective], attr_dict_idx: int) -> None:
        segments = [
            o.attribute_name for o in self.op_def.options if isinstance(o, AttrSizedSegments)
        ]
        names = [n for n in self.op_def.properties if n not in (*segments, *self.seen_properties)]
        # those that each op of the class has stand first
        names.sort(key=lambda n: self.variable(n).is_anchorable())
        groups = [self.group(name) for name in names]
        super().verify_properties(elements, attr_dict_idx)
        start = attr_dict_idx
        while start and isinstance(elements[start - 1], OptionalGroupDirective):
            group = cast(OptionalGroupDirective, elements[start - 1])
            if not isinstance(group.then_first, KeywordDirective) or group.else_elements:
                break
            groups.insert(0, group)
            start -= 1
        if groups:
            named = {cast(KeywordDirective, g.then_first).keyword: g for g in groups}
            behind = elements[attr_dict_idx + 1 :]
            goes_on = bool(behind) and not isinstance(behind[0], OptionalGroupDirective)
            elements[start:attr_dict_idx] = [Properties(named, goes_on)]

    def group(self, name: str) -> OptionalGroupDirective:
        """A property behind its name."""
        self.seen_properties.add(name)
        variable, keyword = self.variable(name), KeywordDirective(name)
        return OptionalGroupDirective(variable, (), keyword, (variable,), ())

    def variable(self, name: str) -> AttributeVariable:
        """The value of a property."""
        parser = PartsParser(f"${name}", self.op_def)
        return cast(AttributeVariable, parser.parse_optional_variable(True))

    def parse_optional_variable(
        self, inside_ref: bool, *, qualified: bool = False
    ) -> FormatDirective | None:
        """Parse a variable, as one whose value is printed as short as the definition of the
        property lets it be."""
        found = super().parse_optional_variable(inside_ref, qualified=qualified)
        if not isinstance(found, AttributeVariable) or not found.is_property:
            return found
        own = found.name, True, found.is_optional, found.default_value
        match self.op_def.properties[found.name].constr:
            case ChoiceConstraint(attr=kind):
                return ChoiceVariable(*own, kind)
            case ArrayOfConstraint(
                elem_range_constraint=RangeOf(constr=ChoiceConstraint(attr=kind))
            ):
                return ChoicesVariable(*own, kind)
            case MessageConstraint(constr=FloatRange()):
                return TypedAttributeVariable(*own, FloatAttr, f64)
            case _:
                return found

    def create_operands_directive(self, inside_type: bool, inside_ref: bool) -> OperandsDirective:
        if not inside_type or inside_ref or any(self.seen_operand_types):
            return super().create_operands_directive(inside_type, inside_ref)
        self.seen_operand_types = [True] * len(self.seen_operand_types)
        return OperandTypes()
