"""Index of the things in a text, built from the record of a parser that keeps where ops, values,
blocks and regions stand. For a text with an error it has all that stands before the error.

Positions: offsets count characters from a text's start, as xDSL's parser does; an editor counts
lines from 0 and in a line the code units of an encoding that it has chosen."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import islice
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Span

from ge.dialects.support.operation import operands_of
from ge.dialects.text.reading import NAME, Line, LocatingParser, SourceText, Spelling

LINE_END = re.compile(r"\r\n|\n|\r")  # what the protocol takes for the end of a line

IN_LINE = re.compile(r'"(?:[^"\\\n]|\\.)*+"|(?P<comment>//)')


class Encoding(StrEnum):
    """The unit that a column counts: bytes, pairs of bytes, or characters."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"

    def units(self, text: str) -> int:
        """Return how many code units a text takes."""
        match self:
            case Encoding.UTF8:
                return len(text.encode("utf-8", "surrogatepass"))
            case Encoding.UTF16:
                return len(text.encode("utf-16-le", "surrogatepass")) // 2
            case Encoding.UTF32:
                return len(text)


class Extent(NamedTuple):
    """A part of a text, from `start` up to `end`."""

    start: int
    end: int

    def moved(self, by: int) -> "Extent":
        return Extent(self.start + by, self.end + by)

    def has(self, offset: int) -> bool:
        """Return whether an offset is inside, or a cursor stands just behind the end."""
        return self.start <= offset <= self.end


class TextPosition(NamedTuple):
    """A line, and a column in it; both count from 0."""

    line: int
    column: int


class Lines:
    """The beginnings of the lines of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in LINE_END.finditer(text))]

    def line(self, number: int) -> str:
        """Return a line without its end; empty if there is none of that number."""
        if not 0 <= number < len(self.starts):
            return ""
        last = number + 1 == len(self.starts)
        end = len(self.text) if last else self.starts[number + 1]
        return self.text[self.starts[number] : end].rstrip("\r\n")

    def offset(self, place: TextPosition, encoding: Encoding) -> int:
        """The offset of a place. Behind the end of a line it is that end, behind the last line the
        end of the text, inside of a character the start of it."""
        if place.line < 0:
            return 0
        if place.line >= len(self.starts):
            return len(self.text)
        line, column = self.line(place.line), max(place.column, 0)
        if line.isascii() or encoding is Encoding.UTF32:
            return self.starts[place.line] + min(column, len(line))
        units = 0
        for index, character in enumerate(line):
            units += encoding.units(character)
            if units > column:
                return self.starts[place.line] + index
        return self.starts[place.line] + len(line)

    def place(self, offset: int, encoding: Encoding) -> TextPosition:
        """The place of an offset, which may be outside of the text."""
        offset = min(max(offset, 0), len(self.text))
        number = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[number] : offset].rstrip("\r\n")
        return TextPosition(number, len(before) if before.isascii() else encoding.units(before))


def code_end(text: str, start: int, following: int) -> int:
    """Return where what begins at `start` ends, if the token behind it begins at `following`:
    blanks and comments in between are left out."""
    end = following
    while True:
        end = start + len(text[start:end].rstrip())
        line = max(text.rfind("\n", start, end) + 1, start)
        comment = next((m.start() for m in IN_LINE.finditer(text, line, end) if m["comment"]), -1)
        if comment < 0:
            return end
        end = comment


class Cancelled(BaseException):
    """Nobody waits for the result any more. It is no Exception, which parsing turns into an error
    in the text."""


class NameKind(Enum):
    """The kind of thing that a name is of."""

    VALUE = "%"
    BLOCK = "^"
    SYMBOL = "@"
    ALIAS = "#"


@dataclass(slots=True, eq=False)
class Name:
    """A name, where it is defined (None: nowhere yet) and where it is used."""

    kind: NameKind
    text: str
    definition: Extent | None = None
    uses: list[Extent] = field(default_factory=list[Extent])
    values: Sequence[SSAValue] = ()  # of %name:N several
    op: Operation | None = None  # that has the symbol
    region: "RegionText | None" = None  # the innermost one around the definition, if any is

    @property
    def extents(self) -> list[Extent]:
        """The definition, then the uses."""
        return [*([] if self.definition is None else [self.definition]), *self.uses]


@dataclass(slots=True, eq=False)
class OpText:
    """The text of an op. `end` is where the next token begins, None in an op that is not
    complete."""

    start: int
    parent: int  # the number of the op around it, -1: none
    op: Operation | None = None
    end: int | None = None


@dataclass(slots=True, eq=False)
class RegionText:
    """The text of a region with its braces; `end` as of an op."""

    start: int
    end: int | None = None


@dataclass(slots=True)
class Record:
    """The record of what a parser has met, in the order of the text."""

    ops: list[OpText] = field(default_factory=list[OpText])
    regions: list[RegionText] = field(default_factory=list[RegionText])
    names: list[Name] = field(default_factory=list[Name])


def extent_of(span: Span) -> Extent:
    return Extent(span.start, span.end)


class RecordingParser(LocatingParser):
    """`cancelled` is asked at each op; where it says so, parsing ends with Cancelled."""

    def __init__(self, ctx: Context, source: SourceText, cancelled: Callable[[], bool]) -> None:
        super().__init__(ctx, source)
        self.record = Record()
        self._cancelled = cancelled
        self._around = -1  # the number of the op that is being parsed
        self._region: RegionText | None = None  # the one that is being parsed
        self._label = Extent(0, 0)  # of the block that is being parsed
        self._defined: dict[int, Name] = {}  # by the id of a value or block, which lives as long
        self._open: dict[str, Name] = {}  # values that are used, but not defined yet
        self._used: set[int] = set()  # where values are used

    # ---- ops and regions ---------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        if self._cancelled():
            raise Cancelled
        around, self._around = self._around, len(self.record.ops)
        entry = OpText(self.pos, around)
        self.record.ops.append(entry)
        entry.op = super().parse_operation()
        entry.end = self.pos
        self._around = around
        return entry.op

    def _known_op(self, line: Line, spelling: Spelling) -> Operation | None:
        if self._cancelled():
            raise Cancelled
        if line.text is not None and "%" in line.text:
            return None  # what looks like a name may be none
        op = super()._known_op(line, spelling)
        if op is None:
            return None
        self.record.ops.append(OpText(line.start, self._around, op, line.next))
        found = NAME.finditer(self.lexer.input.content, line.start, line.end)
        # a location behind them may hold more of what looks like names
        extents = [Extent(*m.span()) for m in islice(found, len(line.names))]
        count = len(op.results)
        for extent, result in zip(extents[:count], op.results, strict=True):
            self._define(extent, (result,))
        for extent, operand in zip(extents[count:], operands_of(op), strict=True):
            self._defined[id(operand)].uses.append(extent)
        return op

    def parse_optional_region(
        self, arguments: Iterable[Parser.Argument] | None = None
    ) -> Region | None:
        regions = self.record.regions
        number, entry, around = len(regions), RegionText(self.pos), self._region
        regions.append(entry)
        self._region = entry
        region = super().parse_optional_region(arguments)
        self._region = around
        if region is None:
            del regions[number]
        else:
            entry.end = self.pos
        return region

    # ---- values ------------------------------------------------------------------------------

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        self._define(extent_of(span), tuple(values))

    def _define(self, extent: Extent, values: Sequence[SSAValue]) -> None:
        name = self.lexer.input.content[extent.start + 1 : extent.end]
        found = self._open.pop(name, None)
        if found is None:
            found = Name(NameKind.VALUE, name)
            self.record.names.append(found)
        found.definition, found.values, found.region = extent, values, self._region
        for value in values:
            self._defined[id(value)] = found

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        operand = super().parse_optional_unresolved_operand()
        if operand is not None:
            self._use(operand)
        return operand

    def resolve_operand(self, operand: UnresolvedOperand, type: object) -> SSAValue:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._use(operand)  # of affine maps, whose parser is another one
        return super().resolve_operand(operand, type)  # pyright: ignore[reportArgumentType]

    def _use(self, operand: UnresolvedOperand) -> None:
        start = operand.span.start
        if start in self._used:
            return
        self._used.add(start)
        name = operand.operand_name
        values = self.ssa_values.get(name)
        found = self._defined.get(id(values[0])) if values else self._open.get(name)
        if found is None:
            found = self._open[name] = Name(NameKind.VALUE, name)
            self.record.names.append(found)
        found.uses.append(extent_of(operand.span))

    # ---- blocks ------------------------------------------------------------------------------

    def _parse_block(self) -> Block:
        self._label = extent_of(self._current_token.span)
        return super()._parse_block()

    def _parse_optional_block_arg_list(self, block: Block) -> Block | None:
        name = self._name_of(block, self._label)
        name.definition, name.region = self._label, self._region
        return super()._parse_optional_block_arg_list(block)

    def parse_optional_successor(self) -> Block | None:
        extent = extent_of(self._current_token.span)
        block = super().parse_optional_successor()
        if block is not None:
            self._name_of(block, extent).uses.append(extent)
        return block

    def _name_of(self, block: Block, extent: Extent) -> Name:
        found = self._defined.get(id(block))
        if found is None:
            text = self.lexer.input.content[extent.start + 1 : extent.end]
            found = self._defined[id(block)] = Name(NameKind.BLOCK, text)
            self.record.names.append(found)
        return found


# Symbols and aliases, and what hides them
TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*'
    r'|(?P<symbol>@(?:[A-Za-z_][\w$.]*|"(?:[^"\\\n]|\\.)*+"))'
    r"|(?P<alias>[#!][A-Za-z_]\w*)(?![\w$.<])"
)

ALIAS_DEFINED = re.compile(r"[ \t]*=(?!=)")
# The results of an op in front of its name
RESULTS = re.compile(r"(?:%[\w$.-]+(?::\d+)?\s*,\s*)*%[\w$.-]+(?::\d+)?\s*=\s*")

OP_NAME = re.compile(r'"?(?P<name>[A-Za-z_][\w$.]*)"?')


def symbol_of(op: Operation) -> str | None:
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None


@dataclass
class Index:
    """Finds ops and names by offset, and the text of an op. All offsets are of `text`."""

    text: str
    record: Record
    numbers: dict[Operation, int] = field(init=False)  # in the order of the text
    names: list[Name] = field(init=False)

    def __post_init__(self) -> None:
        ops = self.record.ops
        self.numbers = {entry.op: i for i, entry in enumerate(ops) if entry.op is not None}
        self._op_starts = [entry.start for entry in ops]
        self.names = [*self.record.names, *self._symbols_and_aliases()]
        self._found = sorted(
            ((extent, name) for name in self.names for extent in name.extents),
            key=lambda found: found[0],
        )
        self._name_starts = [extent.start for extent, _ in self._found]

    # ---- ops ---------------------------------------------------------------------------------

    def op_number(self, offset: int) -> int:
        """Return the innermost op whose text has an offset, -1 if there is none. An op that is not
        complete goes on to the end."""
        number = bisect_right(self._op_starts, offset) - 1
        while number >= 0 and not self.op_extent(number).has(offset):
            number = self.record.ops[number].parent
        return number

    def op_extent(self, number: int) -> Extent:
        entry = self.record.ops[number]
        if entry.end is None:
            return Extent(entry.start, len(self.text))
        return Extent(entry.start, code_end(self.text, entry.start, entry.end))

    def op_name(self, number: int) -> Extent:
        """Return where the name of an op stands, without quotes."""
        start = self.record.ops[number].start
        results = RESULTS.match(self.text, start)
        match = OP_NAME.match(self.text, start if results is None else results.end())
        return Extent(start, start) if match is None else Extent(*match.span("name"))

    def head_end(self, number: int) -> int:
        """Return where the first region of an op begins, or where the op ends."""
        start, end = self.op_extent(number)
        starts = [region.start for region in self.record.regions]
        first = bisect_left(starts, start)
        inner = next((op.start for op in self.record.ops[number + 1 : number + 2]), end)
        return min([end, inner, *starts[first : first + 1]])

    def extent_of(self, op: Operation | None) -> Extent | None:
        """The name of an op in this text, or that of the nearest op around it that is in it."""
        while op is not None:
            if (number := self.numbers.get(op)) is not None:
                return self.op_name(number)
            op = op.parent_op()
        return None

    # ---- names -------------------------------------------------------------------------------

    def name_at(self, offset: int) -> tuple[Extent, Name] | None:
        """The name that an offset is in or just behind, and where."""
        last = bisect_right(self._name_starts, offset) - 1
        if last < 0:
            return None
        extent, name = self._found[last]
        if not extent.has(offset) and name.kind is NameKind.VALUE:  # the number of one of several
            follows = re.compile(r"#\d+").match(self.text, extent.end)
            return (extent, name) if follows is not None and offset <= follows.end() else None
        return (extent, name) if extent.has(offset) else None

    def visible(self, offset: int, kind: NameKind) -> Iterator[Name]:
        """The values, or blocks, that may be used at an offset: values that are defined before it
        in a region around it, the blocks of the innermost such region."""
        around = [r for r in self.record.regions if self.region_extent(r).has(offset - 1)]
        ops = set(self._ops_around(offset))  # whose results are not there yet
        for name in self.names:
            if name.kind is not kind or name.definition is None:
                continue
            if kind is NameKind.BLOCK:
                if around and name.region is around[-1]:
                    yield name
            elif name.definition.end < offset and (name.region is None or name.region in around):
                if not (name.values and name.values[0].owner in ops):
                    yield name

    def _ops_around(self, offset: int) -> Iterator[Operation]:
        number = self.op_number(offset)
        while number >= 0:
            entry = self.record.ops[number]
            if entry.op is not None:
                yield entry.op
            number = entry.parent

    def region_extent(self, region: RegionText) -> Extent:
        """A region with its braces. One that is not complete goes on to the end of the text."""
        if region.end is None:
            return Extent(region.start, len(self.text))
        return Extent(region.start, code_end(self.text, region.start, region.end))

    # ---- symbols and aliases -----------------------------------------------------------------

    def _symbols_and_aliases(self) -> list[Name]:
        tokens = [m for m in TOKEN.finditer(self.text) if m["symbol"] or m["alias"]]
        symbols = [Extent(*m.span()) for m in tokens if m["symbol"]]
        aliases = [Extent(*m.span()) for m in tokens if m["alias"]]
        return [*self._symbols(symbols), *self._aliases(aliases)]

    def _aliases(self, tokens: list[Extent]) -> list[Name]:
        names: dict[str, Name] = {}
        for extent in tokens:
            text = self.text[extent.start : extent.end]
            line = self.text[self.text.rfind("\n", 0, extent.start) + 1 : extent.start]
            is_definition = not line.strip() and ALIAS_DEFINED.match(self.text, extent.end)
            name = names.setdefault(text, Name(NameKind.ALIAS, text))
            if is_definition and name.definition is None:
                name.definition = extent
            else:
                name.uses.append(extent)
        return [name for name in names.values() if name.definition is not None]

    def _symbols(self, tokens: list[Extent]) -> list[Name]:
        """Symbols by the op that has their table, and their uses."""
        tables: dict[tuple[int, str], Name] = {}
        own: dict[int, Name] = {}
        starts = [t.start for t in tokens]
        for number, entry in enumerate(self.record.ops):
            text = None if entry.op is None else symbol_of(entry.op)
            if text is None:
                continue
            name = own[number] = tables[entry.parent, text] = Name(
                NameKind.SYMBOL, text, op=entry.op
            )
            first = bisect_left(starts, entry.start)
            name.definition = self.op_name(number)
            if first < len(tokens) and self._symbol_text(tokens[first]) == text:
                name.definition = tokens[first]
        defined = {name.definition for name in own.values()}
        table = -1
        for before, extent in zip([None, *tokens], tokens, strict=False):
            if extent in defined:
                continue
            nested = before is not None and self.text[before.end : extent.start].strip() == "::"
            number = table if nested else self.op_number(extent.start)
            found, table = self._look_up(tables, number, self._symbol_text(extent))
            if found is not None:
                found.uses.append(extent)
        return list(own.values())

    def _look_up(
        self, tables: dict[tuple[int, str], Name], number: int, text: str
    ) -> tuple[Name | None, int]:
        """The symbol in the nearest table, and the number of its op (-1 without one)."""
        while True:
            if (found := tables.get((number, text))) is not None:
                return found, -1 if found.op is None else self.numbers.get(found.op, -1)
            if number < 0:
                return None, -1
            number = self.record.ops[number].parent

    def _symbol_text(self, extent: Extent) -> str:
        return self.text[extent.start + 1 : extent.end].strip('"')
