"""What ops are, in words: from their definitions, as in the reference of the documentation."""

import inspect
import re

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Operation
from xdsl.irdl import AttributeDef, IRDLOperation, PropertyDef

KEYWORD = re.compile(r"`([a-z_][\w]*)`", re.IGNORECASE)  # in a format


def defined(kind: type[Operation]) -> type[IRDLOperation] | None:
    """The class of ops again, where somebody defines them."""
    if issubclass(kind, UnregisteredOp) or not issubclass(kind, IRDLOperation):
        return None
    return kind


def kind_named(ctx: Context, name: str) -> type[IRDLOperation] | None:
    """The class of the ops of a name; its dialect is imported for that. None where there is none,
    or where the dialect does not load."""
    try:
        kind = ctx.get_optional_op(name)
    except Exception:
        return None
    return None if kind is None else defined(kind)


def documentation(kind: type) -> str:
    """The docstring of a class; not one that it inherits, nor one that a dataclass has by
    itself."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return "" if text.startswith(f"{kind.__name__}(") else text


def described(kind: type[Operation]) -> str:
    """The documentation of an op as Markdown: what it does, its syntax and its parts."""
    from ge.tools.reference import ops as reference  # brings numpy
    from ge.tools.reference.markdown import from_docstring, paragraphs, table

    head, op = f"**{kind.name}**", defined(kind)
    if op is None:
        return head
    traits = reference.traits_of(op)
    return paragraphs(
        head,
        from_docstring(documentation(op)),
        reference.syntax(op) if op.get_irdl_definition().assembly_format else "",
        table(["operand", "is", "how many"], reference.operand_rows(op)),
        table(["attribute", "is", "default"], reference.attribute_rows(op)),
        table(["result", "is", "how many"], reference.result_rows(op)),
        f"traits: {', '.join(traits)}" if traits else "",
    )


def attributes_of(kind: type[IRDLOperation]) -> dict[str, PropertyDef | AttributeDef]:
    """The attributes that a text may give an op, by name; not what xDSL counts segments with."""
    definition = kind.get_irdl_definition()
    both = {**definition.properties, **definition.attributes}
    return {name: part for name, part in both.items() if not name.endswith("SegmentSizes")}


def attribute_text(kind: type[IRDLOperation], name: str) -> str:
    """What an attribute of an op may be, and what it is where none is given, in one line."""
    from ge.tools.reference.ops import attribute_rows

    row = next((row for row in attribute_rows(kind) if row[0] == f"`{name}`"), None)
    return f"`{name}`" if row is None else f"`{name}`: {row[1]}; {row[2]}"


def keywords_of(kind: type[IRDLOperation]) -> list[str]:
    """The words of an op's syntax, and those that the properties in it are one of."""
    form = kind.get_irdl_definition().assembly_format or ""
    words: list[str] = KEYWORD.findall(form)
    for name, part in attributes_of(kind).items():
        for base in part.constr.get_bases() or ():
            if issubclass(base, EnumAttribute) and f"${name}" in form:
                words += [str(value) for value in base.enum_type]
    return list(dict.fromkeys(words))
