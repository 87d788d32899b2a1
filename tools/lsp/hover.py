"""Hover texts of a name, an op, a type or an attribute in a text: Markdown for an editor, of ops
from their definitions, as in the reference of the documentation."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import AttributeDef, IRDLOperation, PropertyDef
from xdsl.utils.exceptions import ParseError

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import byte_size, numel
from ge.dialects.text.reading import LocatingParser, SourceText
from ge.tools.lsp.analysis import TextChunk
from ge.tools.lsp.recording import Extent, Name, NameKind

if TYPE_CHECKING:
    from ge.tools.lsp.facts import ModuleFacts


KEYWORD = re.compile(r"`([a-z_][\w]*)`", re.IGNORECASE)  # in a format


def defined(kind: type[Operation]) -> type[IRDLOperation] | None:
    """The class of ops again, where somebody defines them."""
    if issubclass(kind, UnregisteredOp) or not issubclass(kind, IRDLOperation):
        return None
    return kind


def kind_named(ctx: Context, name: str) -> type[IRDLOperation] | None:
    """Return the class of the ops of a name; its dialect is imported for that. None if there is
    none, or if the dialect does not load."""
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
    """Return what an attribute of an op may be, and its default if none is given, in one line."""
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


LONGEST = 300  # characters of an op's text that are shown

SNIPPET = 4000  # characters in which a type or an attribute ends

TYPE_OR_ATTRIBUTE = re.compile(
    r"[!#][A-Za-z_][\w$.]*"
    r"|(?<![\w%@^.])(?:tensor|memref|vector|tuple|complex|index|none|dense|array|affine_map"
    r"|bf16|tf32|f\d+\w*|[su]?i\d+)\b"
)

WORD = re.compile(r"[A-Za-z_][\w$.]*")


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown about a part of the text."""

    text: str
    extent: Extent


@dataclass
class Hovers:
    """Answers for one part of the text of a file. `target` is the name of one instead of the
    module's own."""

    part: TextChunk
    ctx: Context
    file: str = ""
    target: str = ""

    @property
    def facts(self) -> "ModuleFacts | None":
        from ge.tools.lsp.facts import ModuleFacts  # brings numpy and the clock

        part = self.part
        if part.facts is None and part.module is not None:
            part.facts = ModuleFacts(part.module, self.file, self.target)
        return part.facts

    def at(self, offset: int) -> Hover | None:
        """Return the text for what stands at an offset; None if there is nothing to say."""
        if (found := self.part.index.name_at(offset)) is not None:
            extent, name = found
            return Hover(self.of_name(name, extent), extent)
        number = self.part.index.op_number(offset)
        op = self.part.record.ops[number].op if number >= 0 else None
        if op is None:
            return self.of_attribute(offset)
        extent = self.part.index.op_name(number)
        if extent.has(offset):
            return Hover(self.of_op(op), extent)
        return self.of_attribute_name(op, offset) or self.of_attribute(offset)

    # ---- names -------------------------------------------------------------------------------

    def of_name(self, name: Name, at: Extent) -> str:
        match name.kind:
            case NameKind.VALUE:
                return self.of_values(name, at)
            case NameKind.BLOCK:
                return self.of_block(name)
            case NameKind.SYMBOL:
                return self.of_op(name.op) if name.op is not None else f"`@{name.text}`"
            case NameKind.ALIAS:
                return self.fenced(self.line_of(name.definition))

    def of_values(self, name: Name, at: Extent) -> str:
        values = name.values
        if not values:
            return f"`%{name.text}` is not defined before the first error of this text"
        if len(values) > 1 and (one := re.match(r"#(\d+)", self.part.text[at.end :])) is not None:
            values = values[int(one[1]) : int(one[1]) + 1] or values
        parts = [self.of_value(name, name.values.index(v), v) for v in values]
        owner = values[0].owner
        if isinstance(owner, Operation):
            parts.append(self.fenced(self.text_of(owner)))
            parts += self.listed(self.op_lines(owner))
        return "\n\n".join(parts)

    def of_value(self, name: Name, number: int, value: SSAValue) -> str:
        index = f"#{number}" if len(name.values) > 1 else ""
        what = "an argument" if isinstance(value.owner, Block) else f"of `{value.owner.name}`"
        head = f"`%{name.text}{index}` : `{value.type}`, {what}"
        lines = [] if self.facts is None else list(self.facts.of_value(value))
        return "\n\n".join([head, *self.listed(lines)])

    def of_block(self, name: Name) -> str:
        uses = len(name.uses)
        return f"block `^{name.text}`, which {uses} op{'s' * (uses != 1)} may go to"

    # ---- ops ---------------------------------------------------------------------------------

    def of_op(self, op: Operation) -> str:
        return "\n\n".join([described(type(op)), *self.listed(self.op_lines(op))])

    def op_lines(self, op: Operation) -> list[str]:
        return [] if self.facts is None else list(self.facts.of_op(op))

    def text_of(self, op: Operation) -> str:
        """The text of an op up to its regions."""
        number = self.part.index.numbers.get(op)
        if number is None:
            return op.name
        start = self.part.record.ops[number].start
        text = self.part.text[start : self.part.index.head_end(number)].strip()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."

    # ---- attributes --------------------------------------------------------------------------

    def of_attribute_name(self, op: Operation, offset: int) -> Hover | None:
        """Return what an op's attribute may be, at its name."""
        kind, extent = defined(type(op)), self.word_at(offset)
        if kind is None or extent is None:
            return None
        word = self.part.text[extent.start : extent.end]
        if word not in attributes_of(kind):
            return None
        value = op.properties.get(word) or op.attributes.get(word)
        here = "" if value is None else f"\n\nhere `{str(value)[:LONGEST]}`"
        return Hover(f"attribute of `{op.name}`, {attribute_text(kind, word)}{here}", extent)

    def of_attribute(self, offset: int) -> Hover | None:
        """The innermost type or attribute around an offset."""
        line = self.part.text.rfind("\n", 0, offset) + 1
        starts = [m.start() for m in TYPE_OR_ATTRIBUTE.finditer(self.part.text, line, offset + 80)]
        for start in reversed([s for s in starts if s <= offset]):
            snippet = self.part.text[start : start + SNIPPET].partition("\n")[0]
            parsed = self.parsed(snippet)
            if parsed is not None and offset < start + parsed[1]:
                extent = Extent(start, start + parsed[1])
                return Hover("\n\n".join(attribute_lines(parsed[0])), extent)
        return None

    def parsed(self, snippet: str) -> tuple[Attribute, int] | None:
        """The type or attribute that a text begins with, and its length."""
        try:
            parser = LocatingParser(self.ctx, SourceText("", snippet))
            attribute = parser.parse_optional_type() or parser.parse_optional_attribute()
        except ParseError:
            return None
        return None if attribute is None else (attribute, len(snippet[: parser.pos].rstrip()))

    def word_at(self, offset: int) -> Extent | None:
        line = self.part.text.rfind("\n", 0, offset) + 1
        for match in WORD.finditer(self.part.text, line, offset + 80):
            if match.start() <= offset <= match.end():
                return Extent(*match.span())
        return None

    # ---- text --------------------------------------------------------------------------------

    def line_of(self, extent: Extent | None) -> str:
        if extent is None:
            return ""
        end = self.part.text.find("\n", extent.start)
        return self.part.text[extent.start : end if end >= 0 else None][:LONGEST]

    def fenced(self, text: str) -> str:
        return f"```mlir\n{text}\n```"

    def listed(self, lines: list[str]) -> list[str]:
        return ["\n".join(f"- {line}" for line in lines)] if lines else []


def attribute_lines(attribute: Attribute) -> Iterator[str]:
    """Yield what a type or an attribute is, and how many elements and bytes a type of a shape
    has."""
    yield f"`{str(attribute)[:LONGEST]}`"
    try:
        elements = numel(data_type(attribute)[1])
        yield f"{elements:,} elements, {byte_size(attribute):,} bytes"
    except (GeError, ValueError, AssertionError, AttributeError):
        pass  # it has no shape, or a size is open
    if text := documentation(type(attribute)):
        yield text
