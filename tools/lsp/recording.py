"""A parser that keeps where ops, values, blocks and regions stand in the text. Of a text with an
error it has what stands before."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from xdsl.context import Context
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Span

from ge.dialects.support.operation import operands_of
from ge.dialects.text.reading import LocatingParser, SourceText
from ge.dialects.text.spellings import NAME, Line, Spelling
from ge.tools.lsp.positions import Extent


class Cancelled(BaseException):
    """Nobody waits for the result any more. It is no Exception, which parsing turns into an error
    in the text."""


class NameKind(Enum):
    """What a name is of."""

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
    """What a parser has met, in the order of the text."""

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
