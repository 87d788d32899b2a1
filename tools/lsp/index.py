"""What stands where in a text: built from the record of its parser."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ge.tools.lsp.positions import Extent, code_end
from ge.tools.lsp.recording import Name, NameKind, Record, RegionText

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
        """The innermost op whose text has an offset, -1 where there is none. What is not complete
        goes on to the end."""
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
        """Where the name of an op stands, without quotes."""
        start = self.record.ops[number].start
        results = RESULTS.match(self.text, start)
        match = OP_NAME.match(self.text, start if results is None else results.end())
        return Extent(start, start) if match is None else Extent(*match.span("name"))

    def head_end(self, number: int) -> int:
        """Where the first region of an op begins, or where the op ends."""
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
