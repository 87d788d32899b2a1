"""Who wrote each byte of a memory last, and who has read it since: what the proof of a plan keeps.

Some columns of a tensor are many runs of bytes, equally far apart (a *comb*): millions in a program
with concatenated heads. So the bytes are kept as cells: stretches of memory that repeat one pattern
with some pitch. A task that touches a comb changes the patterns of a few cells.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import lcm, prod

from xdsl.ir import SSAValue

from ge.dialects.npu_task.boxes import ByteBox

# How often a pattern is repeated to fit one of another pitch, before it is written out
MOST_REPEATS = 64

MOST_COMBS = 1 << 14  # combs that the bytes of one access may be

# Stretch [low, high) of memory, pitch, width: the first `width` bytes of each `pitch`
Runs = tuple[int, int, int, int]


def runs_of(box: ByteBox) -> Iterator[Runs]:
    """The bytes of a box as runs of one pitch. Raises ValueError where that takes too many."""
    if not box.dims:
        yield box.low, box.low + box.width, box.width, box.width
        return
    longest = max(range(len(box.dims)), key=lambda i: box.dims[i][0])
    count, pitch = box.dims[longest]
    others = [d for i, d in enumerate(box.dims) if i != longest]
    if prod(n for n, _ in others) > MOST_COMBS:
        raise ValueError("too many runs of bytes")
    for at in product(*(range(0, n * step, step) for n, step in others)):
        low = box.low + sum(at)
        last = low + (count - 1) * pitch
        yield low, last, pitch, box.width
        yield last, last + box.width, box.width, box.width


@dataclass(frozen=True, slots=True)
class History:
    """Bytes were written last by task `writer` for `buffer`, and read by `readers`."""

    buffer: SSAValue
    writer: int
    readers: tuple[int, ...] = ()


@dataclass(slots=True)
class CellPart:
    """Bytes [start, end) of each repetition of a cell's pattern have one history."""

    start: int
    end: int
    history: History


@dataclass(slots=True)
class Cell:
    """Bytes [low, high), in which a pattern of `pitch` bytes is repeated; bytes of no part were
    never written."""

    low: int
    high: int
    pitch: int
    parts: list[CellPart]

    def key(self) -> Hashable:
        """Equal for cells in which the same bytes belong to the same buffers."""
        parts = tuple((p.start, p.end, p.history.buffer) for p in self.parts)
        return self.low, self.high, self.pitch, parts

    @property
    def is_uniform(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].end - self.parts[0].start == self.pitch

    def between(self, low: int, high: int) -> list["Cell"]:
        """Some of the bytes: whole repetitions of the pattern, turned so that it begins at `low`,
        and the rest of it."""
        turned: list[CellPart] = []
        shift = (low - self.low) % self.pitch
        for p in self.parts:
            start = p.start if p.end - p.start == self.pitch else (p.start - shift) % self.pitch
            end = start + p.end - p.start
            turned.append(CellPart(start, min(end, self.pitch), p.history))
            if end > self.pitch:
                turned.append(CellPart(0, end - self.pitch, p.history))
        turned.sort(key=lambda p: p.start)
        middle = high - (high - low) % self.pitch
        rest = [CellPart(p.start, min(p.end, high - middle), p.history) for p in turned]
        cells = (
            Cell(low, middle, self.pitch, turned),
            Cell(middle, high, high - middle, [p for p in rest if p.start < p.end]),
        )
        return [c for c in cells if c.low < c.high and c.parts]

    def repeated(self, pitch: int) -> list["Cell"]:
        """The same bytes with another pitch, a multiple of this one if there are several parts."""
        if self.is_uniform:
            parts = [CellPart(0, pitch, self.parts[0].history)]
        else:
            starts = range(0, pitch, self.pitch)
            parts = [
                CellPart(s + p.start, s + p.end, p.history) for s in starts for p in self.parts
            ]
        return Cell(self.low, self.high, pitch, parts).between(self.low, self.high)

    def fitted(self, pitch: int) -> list["Cell"]:
        """The same bytes, in patterns in which runs with this pitch repeat as well."""
        length = self.high - self.low
        common = pitch if self.is_uniform else lcm(self.pitch, pitch)
        if common <= length and common <= MOST_REPEATS * min(self.pitch, pitch):
            return self.repeated(common)
        return self.repeated(length)

    def split(self, origin: int, pitch: int, width: int) -> None:
        """Cut the parts so that each is inside of runs of `width` bytes, `pitch` apart, one of them
        at byte `origin`, or outside."""
        parts: list[CellPart] = []
        for p in self.parts:
            at = p.start
            while at < p.end:
                ahead = (self.low + at - origin) % pitch
                end = min(p.end, at + (width if ahead < width else pitch) - ahead)
                parts.append(CellPart(at, end, p.history))
                at = end
        self.parts = parts

    def is_inside(self, part: CellPart, origin: int, pitch: int, width: int) -> bool:
        return (self.low + part.start - origin) % pitch < width

    def write(self, new: History, origin: int, pitch: int, width: int) -> None:
        parts = [p for p in self.parts if not self.is_inside(p, origin, pitch, width)]
        first = (origin - self.low) % pitch - pitch
        for start in range(first, self.pitch, pitch):
            low, high = max(start, 0), min(start + width, self.pitch)
            if low < high:
                parts.append(CellPart(low, high, new))
        self.parts = sorted(parts, key=lambda p: p.start)


class Bytes:
    """The cells of one memory, in order. Bytes in no cell were never written."""

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self.cells = list(cells)
        self.lows = [c.low for c in self.cells]

    def copy(self) -> "Bytes":
        return Bytes(
            Cell(c.low, c.high, c.pitch, [CellPart(p.start, p.end, p.history) for p in c.parts])
            for c in self.cells
        )

    def put(self, where: slice, cells: list[Cell]) -> None:
        self.cells[where] = cells
        self.lows[where] = [c.low for c in cells]

    def cut(self, at: int) -> None:
        i = bisect_right(self.lows, at) - 1
        if i >= 0 and (cell := self.cells[i]).low < at < cell.high:
            self.put(slice(i, i + 1), cell.between(cell.low, at) + cell.between(at, cell.high))

    def between(self, low: int, high: int) -> slice:
        """The cells in a range of bytes, cut at its ends."""
        self.cut(low)
        self.cut(high)
        return slice(bisect_left(self.lows, low), bisect_left(self.lows, high))

    def parts(self, low: int, high: int, pitch: int, width: int) -> Iterator[tuple[CellPart, int]]:
        """The parts of the runs of `width` bytes, `pitch` apart, in a range that begins with one;
        each with the number of its bytes. They hold no other bytes."""
        where = self.between(low, high)
        cells = self.cells[where]
        if pitch != width:
            cells = [fitted for c in cells for fitted in c.fitted(pitch)]
            for cell in cells:
                cell.split(low, pitch, width)
            self.put(where, cells)
        for cell in cells:
            times = (cell.high - cell.low) // cell.pitch
            for part in cell.parts:
                if cell.is_inside(part, low, pitch, width):
                    yield part, times * (part.end - part.start)

    def write(self, new: History, low: int, high: int, pitch: int, width: int) -> None:
        """Give the same runs, whose parts were asked for just before, a new history."""
        where = self.between(low, high)
        runs = Cell(low, high, pitch, [CellPart(0, width, new)])
        cells: list[Cell] = []
        at = low
        for cell in self.cells[where] if pitch != width else ():
            if all(cell.is_inside(p, low, pitch, width) for p in cell.parts):
                continue
            cell.write(new, low, pitch, width)
            cells += [*runs.between(at, cell.low), cell]
            at = cell.high
        self.put(where, [*cells, *runs.between(at, high)])

    def overwrite(self, new: History, low: int, high: int, pitch: int, width: int) -> None:
        for _ in self.parts(low, high, pitch, width):
            pass
        self.write(new, low, high, pitch, width)

    def stretches(self, low: int = 0, high: int = 1 << 62) -> Iterator[tuple[int, int, History]]:
        """All stretches of bytes with one history in a range, in order."""
        first = max(bisect_right(self.lows, low) - 1, 0)
        for cell in self.cells[first : bisect_left(self.lows, high)]:
            for start in range(cell.low, cell.high, cell.pitch):
                for part in cell.parts:
                    begin, end = max(start + part.start, low), min(start + part.end, high)
                    if begin < end:
                        yield begin, end, part.history

    def merged(self, other: "Bytes") -> "Bytes":
        """The bytes that belong to the same buffer in both."""
        mine, theirs = ({c.key(): c for c in b.cells} for b in (self, other))
        common = [c for key, c in mine.items() if key in theirs]
        rest = Bytes(c for key, c in mine.items() if key not in theirs)
        other = Bytes(c for key, c in theirs.items() if key not in mine)
        return Bytes(sorted([*common, *rest.intersection(other)], key=lambda c: c.low))

    def intersection(self, other: "Bytes") -> Iterator[Cell]:
        theirs = other.stretches()
        stretch = next(theirs, None)
        for low, high, history in self.stretches():
            while stretch is not None and stretch[0] < high:
                start, end = max(low, stretch[0]), min(high, stretch[1])
                if start < end and stretch[2].buffer is history.buffer:
                    yield Cell(start, end, end - start, [CellPart(0, end - start, history)])
                if stretch[1] > high:
                    break
                stretch = next(theirs, None)
