"""Completion at a place of a text: ops, their attributes and words, values, blocks, symbols, types.
A text is seldom whole while it is written, so completion looks at the words before the place."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from xdsl.context import Context
from xdsl.ir import Operation, TypeAttribute
from xdsl.irdl import IRDLOperation

from ge.dialects.support.constraints import ChoiceConstraint
from ge.tools.lsp.analysis import TextChunk
from ge.tools.lsp.hover import (
    attribute_text,
    attributes_of,
    documentation,
    keywords_of,
    kind_named,
)
from ge.tools.lsp.recording import IN_LINE, Extent, NameKind

BACK = 20_000  # characters before the place in which its op begins
OP_START = re.compile(
    r'^[ \t]*(?:%[^=\n]*=[ \t]*)?"?(?P<name>[A-Za-z_][\w$]*\.[\w$.]+)(?![\w$.]|\s*=)', re.MULTILINE
)
NEW_OP = re.compile(r'^[ \t]*(?:%[^=\n]*=[ \t]*)?"?(?P<word>(?:[A-Za-z_][\w$.]*)?)$')
NAME = re.compile(r"(?P<sigil>[%^@!#])(?P<word>[\w$.-]*)$")
WORD = re.compile(r"(?P<word>[A-Za-z_][\w$]*)?$")
CHOICE = re.compile(r"\b(?P<attribute>[A-Za-z_]\w*)[ \t]+(?P<word>\w*)$")
AFTER_COLON = re.compile(r"(?::|->|[(,<x])\s*(?P<word>[A-Za-z_]\w*)?$")

BUILTIN_TYPES = (
    "tensor<", "memref<", "index", "i1", "i8", "i16", "i32", "i64", "ui8", "f16", "bf16", "f32",
    "f64", "f8E4M3FN", "f8E5M2",
)  # fmt: skip


class Sort(Enum):
    """Sort of a proposal; an editor draws each as it likes."""

    OP = "op"
    DIALECT = "dialect"
    ATTRIBUTE = "attribute"
    WORD = "word"
    VALUE = "value"
    BLOCK = "block"
    SYMBOL = "symbol"
    TYPE = "type"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something to write in place of `extent`; `more` is Markdown."""

    text: str
    sort: Sort
    extent: Extent
    detail: str = ""
    more: str = ""


@dataclass
class Completer:
    """Proposals in one part. `former` is the part when it could be parsed last, and `former_at` the
    place there: what stood there is proposed, too."""

    part: TextChunk
    ctx: Context
    former: TextChunk | None = None
    former_at: int = 0

    def at(self, offset: int) -> list[Proposal]:
        before = self.part.text[max(offset - BACK, 0) : offset]
        line = before[before.rfind("\n") + 1 :]
        if any(m["comment"] for m in IN_LINE.finditer(line)):
            return []
        if (match := NAME.search(line)) is not None:
            extent = Extent(offset - len(match["word"]) - 1, offset)
            return list(self.names(match["sigil"], extent, offset))
        kind, written = self.op_before(before)
        has_regions = kind is not None and bool(kind.get_irdl_definition().regions)
        is_new = kind is None or has_regions or not is_open(written)
        if is_new and (match := NEW_OP.match(line)) is not None:
            return list(self.ops(match["word"], Extent(offset - len(match["word"]), offset)))
        return self.inside_op(kind, written, line, offset)

    # ---- ops ---------------------------------------------------------------------------------

    def ops(self, word: str, extent: Extent) -> Iterator[Proposal]:
        """Dialects; behind the name of one its ops."""
        dialect, dot, _ = word.rpartition(".")
        while dot:
            known = self.dialect_ops(dialect)
            if known is not None:
                yield from known_ops(known, extent)
                return
            dialect, dot, _ = dialect.rpartition(".")
        for name in sorted(self.ctx.registered_dialect_names):
            yield Proposal(f"{name}.", Sort.DIALECT, extent)

    def dialect_ops(self, name: str) -> list[type[Operation]] | None:
        """The ops of a dialect; None if no dialect of that name loads."""
        try:
            dialect = self.ctx.get_optional_dialect(name)
        except Exception:
            return None
        return None if dialect is None else list(dialect.operations)

    def op_before(self, before: str) -> tuple[type[IRDLOperation] | None, str]:
        """The class of the last op that begins in a text, and the text from there on."""
        starts = list(OP_START.finditer(before))
        if not starts:
            return None, ""
        return kind_named(self.ctx, starts[-1]["name"]), before[starts[-1].start() :]

    def inside_op(
        self, kind: type[IRDLOperation] | None, written: str, line: str, offset: int
    ) -> list[Proposal]:
        """Return what may follow the name of an op: words of its syntax, properties, and types;
        properties in braces in the generic form."""
        extent = self.word(line, offset)
        proposals = list[Proposal]()
        if kind is not None:
            if (match := CHOICE.search(line)) is not None:
                words = list(choices(kind, match["attribute"], extent))
                if words:
                    return words
            is_generic = f'"{kind.name}"' in written
            if is_open(written):
                return list(missing(kind, written, extent, " = ")) if is_generic else []
            proposals += [Proposal(w, Sort.WORD, extent) for w in keywords_of(kind)]
            proposals += [] if is_generic else missing(kind, written, extent, " ")
        if AFTER_COLON.search(line):
            proposals = [*self.types(extent, offset), *proposals]
        return proposals

    def word(self, line: str, offset: int) -> Extent:
        match = WORD.search(line)
        length = len(match["word"] or "") if match is not None else 0
        return Extent(offset - length, offset)

    # ---- names -------------------------------------------------------------------------------

    def names(self, sigil: str, extent: Extent, offset: int) -> Iterator[Proposal]:
        if sigil in "!#":
            yield from self.dialect_attributes(sigil, extent)
            return
        kind, seen = NameKind(sigil), set[str]()
        places = [(self.part, offset)]
        if self.former is not None:
            places.append((self.former, self.former_at))
        for part, at in places:
            names = part.index.names if kind is NameKind.SYMBOL else part.index.visible(at, kind)
            for name in names:
                if name.kind is kind and name.text not in seen and name.definition is not None:
                    seen.add(name.text)
                    detail = ", ".join(str(v.type) for v in name.values)
                    detail = name.op.name if name.op is not None else detail
                    sort = {NameKind.VALUE: Sort.VALUE, NameKind.BLOCK: Sort.BLOCK}.get(
                        kind, Sort.SYMBOL
                    )
                    yield Proposal(f"{sigil}{name.text}", sort, extent, detail)

    # ---- types -------------------------------------------------------------------------------

    def types(self, extent: Extent, offset: int) -> Iterator[Proposal]:
        """The types of the values around, then those of every module."""
        seen = dict[str, None]()
        for part, at in [(self.part, offset), (self.former, self.former_at)]:
            for name in part.index.visible(at, NameKind.VALUE) if part is not None else ():
                seen |= {str(value.type): None for value in name.values}
        for text in dict.fromkeys([*reversed(seen), *BUILTIN_TYPES]):
            yield Proposal(text, Sort.TYPE, extent)

    def dialect_attributes(self, sigil: str, extent: Extent) -> Iterator[Proposal]:
        """Attributes (#) or types (!) of the dialects that are loaded, and aliases."""
        for name in self.part.index.names:
            if name.kind is NameKind.ALIAS and name.text.startswith(sigil):
                yield Proposal(name.text, Sort.TYPE, extent)
        for dialect in sorted(self.ctx.loaded_dialects, key=lambda d: d.name):
            for attribute in dialect.attributes:
                if dialect.name != "builtin" and issubclass(attribute, TypeAttribute) == (
                    sigil == "!"
                ):
                    text, more = f"{sigil}{attribute.name}", told(attribute)[1]
                    yield Proposal(text, Sort.TYPE, extent, more)


def told(kind: type) -> tuple[str, str]:
    """The first line of a class's description, and all of it."""
    text = documentation(kind)
    return text.partition("\n")[0], text


def known_ops(kinds: Iterable[type[Operation]], extent: Extent) -> Iterator[Proposal]:
    for kind in sorted(kinds, key=lambda k: k.name):
        yield Proposal(kind.name, Sort.OP, extent, *told(kind))


def choices(kind: type[IRDLOperation], attribute: str, extent: Extent) -> Iterator[Proposal]:
    """Yield the words that a property may be, if it is one of a few."""
    part = attributes_of(kind).get(attribute)
    if part is not None and isinstance(part.constr, ChoiceConstraint):
        for choice in part.constr.attr.words():
            yield Proposal(choice, Sort.WORD, extent)


def missing(
    kind: type[IRDLOperation], written: str, extent: Extent, end: str
) -> Iterator[Proposal]:
    """The properties of an op that its text does not have yet, each with what stands behind its
    name. Those that the format places are words of the syntax, unless it is the generic form."""
    form = "" if "=" in end else kind.get_irdl_definition().assembly_format or ""
    for name in attributes_of(kind):
        if not re.search(rf"\b{re.escape(name)}\b", written) and f"${name}" not in form:
            yield Proposal(f"{name}{end}", Sort.ATTRIBUTE, extent, "", attribute_text(kind, name))


def is_open(text: str) -> bool:
    """Return whether a brace is open at the end of a text."""
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*+"', "", text)
    return bare.count("{") > bare.count("}")
