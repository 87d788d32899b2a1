"""Kernels that gather elements at indices along an axis.

Along the last axis rows come whole, and each has indices of its own. Along another one a core has a
few columns of all rows, one behind the other as they come, of which column c of row r is element
r * width + c:

    for b in share(columns)
      load input[p, .., c..] to t                   # size x width elements, one row
      for k in range(indices / high)
        load indices[p, k.., c..] to i              # high x width
        gather t at i * width + (0, 1, .. width - 1, 0, 1, ..);  store

What of an input does not fit comes in parts, of which each gives the elements that it has: the
results so far are loaded and stored again.
"""

from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

from xdsl.dialects.builtin import i32

from ge.dialects.graph.elementwise import AndOp
from ge.dialects.graph.indexing import GatherElementsOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.moves.moves import MOST_SINGLE, lower_moves
from ge.runtime.library.rows.vector import lower_vector
from ge.runtime.library.scatters.lines import NUMBERS, Lines, columns_of, counted

Gathered: TypeAlias = Lines[GatherElementsOp]

EXACT = 1 << 23  # numbers of elements that f32 has, with halves


@dataclass(frozen=True)
class GatherCut:
    """`width` columns (or rows, along the last axis) of a core at a time, of which `part` elements
    along the axis come at once, and `high` indices."""

    width: int
    part: int
    high: int


def lower_gather_elements(launch: Launch) -> Written:
    """Elements at indices along an axis."""
    op, *others = launch.body.ops
    if any(other.ACCESS is Access.ROWS for other in others):
        return lower_vector(launch)  # moves reduce nothing but sums and extremes
    if others or not isinstance(op, GatherElementsOp) or is_sparse(op):
        return lower_moves(launch)
    w = Gathered.of(op)
    cut, target = cut_of(w, launch), launch.target
    count = w.before * ceil(w.after / cut.width) if w.after > 1 else ceil(w.before / cut.width)
    cores = min(count, target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        GatherWriter(c, w, cut, given).write(count)

    return Written(write, cores, w.shapes())


def is_sparse(op: GatherElementsOp) -> bool:
    """Whether one by one elements, which are blocks each, are fewer bytes than all of the input, or
    the indices are of a part of it."""
    shape, indices = shape_of(op.input), shape_of(op.indices)
    axis = normalize_axis(op.axis.value.data, len(shape))
    dims = enumerate(zip(shape, indices, strict=True))
    of_part = any(d != n for i, (d, n) in dims if i != axis)
    size = numel(shape) * bitwidth(element_type(op.input)) // 8
    return of_part or (numel(indices) * BLOCK < size and numel(indices) <= MOST_SINGLE)


def cut_of(w: Gathered, launch: Launch) -> GatherCut:
    """Three quarters of UB are for what is gathered of. Raises NotLowered where f32 has not all
    places."""
    room, cores = launch.target.ub_bytes * 3 // 4, launch.target.vector_cores
    left = launch.target.ub_bytes - room
    unit = w.unit
    size = align_up(w.size, unit)
    index = 2 * w.index_bytes + 3 * w.bytes + NUMBERS
    if w.is_last:
        if size * w.bytes > room or align_up(w.count, unit) * index > left:
            raise NotLowered(f"a row of {w.size} elements does not fit into ub")
        most = min(room // (size * w.bytes), left // (align_up(w.count, unit) * index))
        return GatherCut(max(min(most, ceil(w.before / cores)), 1), w.size, w.count)
    most = min(ceil(w.before * w.after / cores), room // (w.size * w.bytes))
    width = min(align_up(max(most, 1), unit), w.after)
    part = min(w.size, room // (width * w.bytes))
    if width * w.size >= EXACT:
        raise NotLowered(f"f32 has not all numbers of {width} x {w.size} elements")
    return GatherCut(
        width, ceil(w.size / ceil(w.size / part)), min(w.count, left // (width * index))
    )


class GatherWriter:
    """The program, while it is written."""

    def __init__(self, c: Tracer, w: Gathered, cut: GatherCut, given: Arguments) -> None:
        self.c, self.w, self.cut, self.given = c, w, cut, given
        element, index = element_type(w.op.input), element_type(w.op.indices)
        if w.is_last:
            lines, columns, rows = align_up(w.size, w.unit), align_up(w.count, w.unit), cut.width
        else:
            lines, columns, rows = cut.part * cut.width, cut.high * cut.width, 1
        fits = 8 * rows * lines * w.bytes <= 3 * c.target.ub_bytes
        self.source = c.ub(rows, lines, element, copies=2 if fits else 1)
        self.indices = c.ub(rows, columns, index, copies=2)
        self.places = c.ub(rows, columns, i32)
        self.found = c.ub(rows, columns, element, copies=2)
        if cut.part < w.size:
            self.one = c.ub(rows, columns, element)

    def write(self, count: int) -> None:
        c, w, cut = self.c, self.w, self.cut
        if not w.is_last:
            self.inner = columns_of(c, cut.high, cut.width)
        for i in c.share(count):
            if w.is_last:
                self.rows(i, i * cut.width)
            else:
                across = ceil(w.after / cut.width)
                self.columns(i, i // across, i % across * cut.width)

    def rows(self, turn: Scalar, row: Scalar) -> None:
        """Rows whole, each with its own indices."""
        c, op = self.c, self.w.op
        tile = c.load(self.source[turn], self.given[op.input][row:, 0:], pad=0)
        index = c.load(self.indices[turn], self.given[op.indices][row:, 0:], pad=0)
        self.places[:] = counted(index, self.w.size)
        own = tile[:, : self.w.size]  # an index beyond is refused, not one of the padding
        found = c.gather(self.found[turn], own, self.places)
        c.store(self.given[op.result][row:, 0:], found)

    def columns(self, turn: Scalar, plane: Scalar, col: Scalar) -> None:
        """Columns of all rows, in as many parts as there are."""
        c, w, cut, op = self.c, self.w, self.cut, self.w.op
        high = cut.high
        for p in range(ceil(w.size / cut.part)):
            tile = self.load(turn if cut.part == w.size else p, plane, p * cut.part, col)
            for k in c.range(ceil(w.count / high)):
                box = self.given[op.indices][plane, k * high :, col:]
                index = c.load(self.indices[k], self.row(box, high), pad=0)
                result = self.row(self.given[op.result][plane, k * high :, col:], high)
                found = self.found[k]
                if p:
                    c.load(found, result, pad=0)
                if cut.part == w.size:
                    self.places[:] = counted(index, w.size) * cut.width + self.inner
                    c.gather(found, tile, self.places)
                else:
                    self.part(tile, index, found, p)
                c.store(result, found)

    def part(self, tile: v.Tile, index: v.Tile, found: v.Tile, number: int) -> None:
        """Those of the elements that a part has; others stay."""
        at = counted(index, self.w.size) - number * self.cut.part
        last = self.cut.part - 1
        inside = v.minimum(v.maximum(at, 0), last)
        self.places[:] = inside * self.cut.width + self.inner
        self.c.gather(self.one if number else found, tile, self.places)
        if number:
            here = v.binary(AndOp, at >= 0, at <= last)
            found[:] = v.where(here, self.one, found)

    def load(self, turn: Scalar, plane: Scalar, row: Scalar, col: Scalar) -> v.Tile:
        box = self.given[self.w.op.input][plane, row:, col:]
        return self.c.load(self.source[turn], self.row(box, self.cut.part), pad=0)

    def row(self, box: v.Subview, lines: int) -> v.Subview:
        """A box of lines as one row."""
        return box.sized(lines, self.cut.width)
