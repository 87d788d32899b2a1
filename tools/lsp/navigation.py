"""Navigation: where names are defined and used, where an op comes from, and what a text is made
of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
)
from xdsl.ir import Attribute, Operation

from ge.dialects.support.diagnostics import SourceLocation
from ge.tools.lsp.analysis import TextChunk
from ge.tools.lsp.recording import Extent, NameKind, symbol_of

MOST_HINTS = 500  # in one answer
LONGEST_NAME = 200  # characters of a type that is hinted
LARGEST_FILE = 1 << 24  # bytes of a file that is searched for a node


class LineIn(NamedTuple):
    """A place in another file; both count from 1."""

    file: Path
    line: int
    column: int

    @classmethod
    def of(cls, location: SourceLocation) -> "LineIn":
        return cls(Path(location.file).absolute(), location.line, max(location.column, 1))


@dataclass
class Symbol:
    """An op with a name, the ops with names in it, and where both stand."""

    name: str
    detail: str
    extent: Extent
    name_extent: Extent
    children: list["Symbol"] = field(default_factory=list["Symbol"])


def definition_at(part: TextChunk, offset: int) -> Extent | None:
    """Return where the name at an offset is defined; None for no name, and for one defined
    nowhere."""
    found = part.index.name_at(offset)
    return None if found is None else found[1].definition


def references_at(part: TextChunk, offset: int, with_definition: bool = True) -> list[Extent]:
    """The uses of the name at an offset; at the name of an op, those of its results."""
    found = part.index.name_at(offset)
    if found is not None:
        names = [found[1]]
    else:
        op = op_at(part, offset)
        names = [n for n in part.record.names if n.values and n.values[0].owner is op]
    return [e for n in names for e in (n.extents if with_definition else n.uses)]


# ---- the source of an op -------------------------------------------------------------------------


def op_at(part: TextChunk, offset: int) -> Operation | None:
    """The op whose name an offset is in, or that defines the value at it."""
    found = part.index.name_at(offset)
    if found is not None and found[1].kind is NameKind.VALUE and found[1].values:
        owner = found[1].values[0].owner
        return owner if isinstance(owner, Operation) else None
    number = part.index.op_number(offset)
    return part.record.ops[number].op if number >= 0 else None


def sources_at(part: TextChunk, offset: int, folder: Path) -> list[LineIn]:
    """The lines of other files that the op at an offset came from: those that its location names,
    and for the name of a node the ops in files of `folder` with `loc("name")`."""
    op = op_at(part, offset)
    if op is None:
        return []
    found = dict[LineIn, None]()
    names = list[str]()
    for location in _parts_of(op.location):
        if isinstance(location, FileLineColLoc):
            file = folder / location.filename.data
            line = location.line.data
            if file.is_file() and line > 0:
                found[LineIn(file, line, max(location.column.data, 1))] = None
        elif isinstance(location, NameLoc):
            names.append(location.desc.data)
    if not found and names:
        found |= dict.fromkeys(nodes_in(folder, names))
    return list(found)


def _parts_of(location: Attribute) -> Iterator[LocationAttr]:
    match location:
        case FusedLoc():
            for part in cast(ArrayAttr[Attribute], location.locations):
                yield from _parts_of(part)
        case CallSiteLoc():
            yield from _parts_of(location.callee)
            yield from _parts_of(location.caller)
        case NameLoc():
            yield location
            yield from _parts_of(location.location)
        case FileLineColLoc():
            yield location
        case _:
            pass


def nodes_in(folder: Path, names: list[str]) -> Iterator[LineIn]:
    """The lines of the .mlir files of a folder that end in the location of one of the nodes."""
    marks = [f'loc("{name}"' for name in names]
    for file in sorted(folder.glob("*.mlir")):
        if file.stat().st_size > LARGEST_FILE:
            continue
        text = file.read_text("utf-8", errors="replace")
        if not any(mark in text for mark in marks):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if any(mark in line for mark in marks):
                yield LineIn(file, number, len(line) - len(line.lstrip()) + 1)


# ---- the outline ---------------------------------------------------------------------------------


def symbols_of(part: TextChunk) -> list[Symbol]:
    """The ops with names, each with those in it."""
    top, inside = list[Symbol](), dict[int, Symbol]()
    index = part.index
    for number, entry in enumerate(part.record.ops):
        name = None if entry.op is None else symbol_of(entry.op)
        if name is None or entry.op is None:
            continue
        extent = index.op_extent(number)
        symbol = inside[number] = Symbol(name, entry.op.name, extent, index.op_name(number))
        around = entry.parent
        while around >= 0 and around not in inside:
            around = part.record.ops[around].parent
        (inside[around].children if around >= 0 else top).append(symbol)
    return top


def folds_of(part: TextChunk) -> Iterator[tuple[int, int]]:
    """The first and the last line of each region of several lines, from 0."""
    for region in part.record.regions:
        extent = part.index.region_extent(region)
        first = part.text.count("\n", 0, extent.start)
        last = first + part.text.count("\n", extent.start, extent.end) - (region.end is not None)
        if last > first:
            yield first, last


def hints_in(part: TextChunk, wanted: Extent) -> Iterator[tuple[int, str]]:
    """(offset, text) of the types of results that the text of their ops does not have."""
    count = 0
    for number, entry in enumerate(part.record.ops):
        if entry.op is None or not entry.op.results or not wanted.has(entry.start):
            continue
        text = part.text[entry.start : part.index.op_extent(number).end]
        types = [t for t in map(lambda r: str(r.type), entry.op.results) if t not in text]
        if types and count < MOST_HINTS:
            count += 1
            start = part.index.op_name(number).start
            before = part.text.rfind("=", entry.start, start)
            if before > 0:
                place = entry.start + len(part.text[entry.start : before].rstrip())
                yield place, ": " + ", ".join(t[:LONGEST_NAME] for t in types)
