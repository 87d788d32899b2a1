"""What ops are, in words: from their definitions."""

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrConstraint,
    AttributeDef,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    OpDef,
    OptionalDef,
    PropertyDef,
    VariadicDef,
)

from ge.dialects.support.choices import ChoiceConstraint

KEYWORD = re.compile(r"`([a-z_][\w]*)`", re.IGNORECASE)  # in a format


@cache
def definition_of(kind: type[Operation]) -> OpDef | None:
    """What xDSL knows of the ops of a class; None for an op that nobody defines."""
    if issubclass(kind, UnregisteredOp) or not issubclass(kind, IRDLOperation):
        return None
    return kind.get_irdl_definition()


def kind_named(ctx: Context, name: str) -> type[Operation] | None:
    """The class of the ops of a name; its dialect is imported for that. None where there is none,
    or where the dialect does not load."""
    try:
        kind = ctx.get_optional_op(name)
    except Exception:
        return None
    return None if kind is None or issubclass(kind, UnregisteredOp) else kind


def summary(kind: type) -> str:
    """The first line of a class's own docstring."""
    return documentation(kind).partition("\n")[0]


def documentation(kind: type) -> str:
    """The docstring of a class; not one that it inherits from xDSL's base classes, nor one that a
    dataclass has by itself."""
    text = inspect.getdoc(kind) or ""
    inherited = any(text == inspect.getdoc(base) for base in _BASES)
    return "" if inherited or text.startswith(f"{kind.__name__}(") else text


_BASES = (IRDLOperation, Operation, Attribute, object)


def described(kind: type[Operation]) -> str:
    """The documentation of an op as Markdown: what it does, its parts, its syntax."""
    parts = [f"**{kind.name}**"]
    if text := documentation(kind):
        parts.append(text)
    definition = definition_of(kind)
    if definition is not None:
        rows = list(_parts(definition))
        if rows:
            parts.append("\n".join(rows))
        if definition.assembly_format:
            format_text = " ".join(definition.assembly_format.split())
            parts.append(f"```text\n{kind.name} {format_text}\n```")
    return "\n\n".join(parts)


def _parts(definition: OpDef) -> Iterator[str]:
    listed = {
        "operands": _named(definition.operands),
        "results": _named(definition.results),
        "regions": _named(definition.regions),
        "successors": _named(definition.successors),
    }
    for what, names in listed.items():
        if names:
            yield f"- {what}: {', '.join(names)}"
    for name, part in attributes_of(definition).items():
        yield f"- attribute {attribute_text(name, part)}"
    if traits := sorted({type(t).__name__ for t in definition.traits}):
        yield f"- traits: {', '.join(traits)}"


def _named(parts: Iterable[tuple[str, object]]) -> list[str]:
    return [f"`{name}`{_count(part)}" for name, part in parts]


def _count(part: object) -> str:
    if isinstance(part, OptionalDef):
        return " (optional)"
    return " (any number)" if isinstance(part, VariadicDef) else ""


def attributes_of(definition: OpDef) -> dict[str, PropertyDef | AttributeDef]:
    """The attributes that a text may give an op, by name; not what xDSL counts segments with."""
    both = {**definition.properties, **definition.attributes}
    return {name: part for name, part in both.items() if "egmentSizes" not in name}


def attribute_text(name: str, part: PropertyDef | AttributeDef) -> str:
    """An attribute in one line of Markdown: what it may be, and what it is where none is given."""
    text = f"`{name}`{_count(part)}"
    if kinds := constraint_text(part.constr):
        text += f": {kinds}"
    if part.default_value is not None:
        text += f", `{part.default_value}` where none is given"
    return text


def constraint_text(constraint: AttrConstraint) -> str:
    """What a constraint admits, where that is short."""
    if isinstance(constraint, ChoiceConstraint):
        return " or ".join(f'`"{choice}"`' for choice in constraint.choices)
    if isinstance(constraint, EqAttrConstraint):
        return f"`{constraint.attr}`"
    if isinstance(constraint, BaseAttr):
        return str(constraint.attr.__name__)
    bases = constraint.get_bases()
    return " or ".join(sorted(base.__name__ for base in bases)) if bases else ""


def keywords_of(definition: OpDef) -> list[str]:
    """The words of an op's syntax."""
    return list(dict.fromkeys(KEYWORD.findall(definition.assembly_format or "")))
