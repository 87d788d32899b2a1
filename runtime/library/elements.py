"""Kernels that gather elements at indices along an axis, and kernels that put them there in a copy
of a tensor.

Along the last axis a core has some lines whole, and each has indices of its own. Along another one
it has a few columns of all rows, one behind the other as they come (`Lines`), of which column c of
row r is element r * width + c:

    for b in share(columns)
      load input[p, .., c..] to t                   # size x width elements, one row
      for k in range(indices / high)
        load indices[p, k.., c..] to i              # high x width
        gather t at i * width + (0, 1, .. width - 1, 0, 1, ..);  store

An input that does not fit comes in parts, of which each gives the elements that it has: the
results so far are loaded and stored again.

Where elements are put, the cores share boxes of the result, and each selects: an element of a box
is that of an update where the update's index is the element's own number. Updates come in their
order, one line of them at a time, so that the last of several stays, and sums are those of the
kernel's body:

    for b in share(boxes)                         rows along the axis, columns behind it
      load input[p, r.., c..] to t
      for j in range(updates)
        t = select(numbers of rows == indices[p, j, c..], updates[p, j, c..], t)
      store t

Along the last axis, columns have the numbers, and an update is a column. All updates pass over all
boxes; boxes have many rows, which an update passes at once. Where that takes longer, elements are
put one by one. An index that is none of the axis changes nothing here, where the
kernel's body refuses it.

Elements that the scalar unit puts at indices along an axis, one after the other, as the chips'
library does (`scatter_elements_v2` of ops-nn): where an axis is so long that no update can pass
over all of it:

    for b in share(columns x parts of the axis)
      load input[p, part.., c..] to t
      for k in range(updates / high)
        load indices[p, k.., c..] to i, updates[p, k.., c..] to u     # high x width
        scatter u at (i - part) * width + (0, 1, .. width - 1, 0, 1, ..) to t
      store t

Elements outside of a part are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from typing import Generic, TypeAlias, TypeVar

from xdsl.dialects.builtin import bf16, f32, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import AndOp, FloorOp, MaximumOp, MinimumOp, MulOp
from ge.dialects.graph.indexing import GatherElementsOp, ScatterElementsOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.moves import MOST_SINGLE, lower_moves
from ge.runtime.library.rows.vector import LEAST, lower_vector, place, shared

NUMBERS = 12  # bytes of the numbers made of an index on the way

Op = TypeVar("Op", bound=GatherElementsOp | ScatterElementsOp)


@dataclass(frozen=True)
class Lines(Generic[Op]):
    """`before` x `size` x `after` elements of the input, the middle ones along the axis; `count`
    indices of each line along it."""

    op: Op
    before: int
    size: int
    after: int
    count: int

    @classmethod
    def of(cls, op: Op) -> "Lines[Op]":
        """Raises NotLowered if there is no program for it here."""
        shape, indices = shape_of(op.input), shape_of(op.indices)
        axis = normalize_axis(op.axis.value.data, len(shape))
        if numel(shape) == 0 or numel(indices) == 0:
            raise NotLowered("it has no elements")
        if bitwidth(element_type(op.input)) < 8:
            raise NotLowered("elements of less than a byte are not moved")
        return cls(op, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), indices[axis])

    @property
    def is_last(self) -> bool:
        return self.after == 1

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return bitwidth(element_type(self.op.input)) // 8

    @property
    def index_bytes(self) -> int:
        return bitwidth(element_type(self.op.indices)) // 8

    @property
    def unit(self) -> int:
        """Elements of rows of tiles are multiples of it."""
        return BLOCK // min(self.bytes, self.index_bytes, 4)

    def shapes(self) -> dict[SSAValue, Shape]:
        op, inner = self.op, () if self.is_last else (self.after,)
        axis = normalize_axis(op.axis.value.data, len(shape_of(op.input)))
        values = (*op.operands, *op.results)
        return {value: (self.before, shape_of(value)[axis], *inner) for value in values}


def counted(index: v.Expression, size: int) -> v.Expression:
    """Indices of `size` elements, of which those below 0 count from the end."""
    at = v.cast(index, i32)
    return v.where(at < 0, at + size, at)


def columns_of(c: Tracer, lines: int, width: int) -> v.Tile:
    """The columns of elements that come row after row: 0, 1, .. width - 1, 0, 1, .."""
    found = c.ub(1, lines * width, i32)
    number = v.cast(v.columns(lines * width), f32)
    rows = v.unary(FloorOp, (number + 0.5) / float(width))
    found[:] = v.cast(number - rows * float(width), i32)
    return found


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
    """True if loading elements one by one, in a block each, takes fewer bytes than the whole input,
    or if the indices are of a part of it."""
    shape, indices = shape_of(op.input), shape_of(op.indices)
    axis = normalize_axis(op.axis.value.data, len(shape))
    dims = enumerate(zip(shape, indices, strict=True))
    of_part = any(d != n for i, (d, n) in dims if i != axis)
    size = numel(shape) * bitwidth(element_type(op.input)) // 8
    return of_part or (numel(indices) * BLOCK < size and numel(indices) <= MOST_SINGLE)


def cut_of(w: Gathered, launch: Launch) -> GatherCut:
    """The cut of a gather; three quarters of UB are for the input's elements. Raises NotLowered if
    f32 cannot hold all places."""
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
        """Gather the elements that a part has; others stay."""
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


Scattered: TypeAlias = Lines[ScatterElementsOp]


@dataclass(frozen=True)
class ScatterCut:
    """`lines` of a tile, along the last axis, or `width` columns; of which `part` elements along
    the axis come at once, and `high` updates."""

    lines: int
    width: int
    part: int
    high: int

    @staticmethod
    def of(p: Scattered, target: Target) -> "ScatterCut":
        """Three quarters of UB are for what updates are put into."""
        room, unit, cores = target.ub_bytes * 3 // 4, p.unit, target.vector_cores
        most = room // p.bytes // unit * unit  # elements
        lines = width = 1
        if p.is_last:
            lines = max(min(most // align_up(p.size, unit), ceil(p.before / cores)), 1)
            part = min(align_up(p.size, unit), most // lines // unit * unit)
        else:
            width = min(align_up(ceil(p.before * p.after / cores), unit), most // p.size)
            width = min(max(width // unit * unit, unit), p.after)
            part = min(p.size, most // align_up(width, unit))
        if (few := p.before * ceil(p.after / width)) < cores and lines == 1:  # share the axis
            part = min(part, align_up(ceil(p.size / (cores // few)), unit))
        grain = unit if p.is_last else 1
        part = align_up(ceil(p.size / ceil(p.size / part)), grain)
        each = 2 * (p.index_bytes + p.bytes) + 4 * (1 + (width > 1)) + NUMBERS
        high = (target.ub_bytes - room) // (each * lines * width)
        high = min(max(high // grain * grain, grain), align_up(p.count, grain))
        return ScatterCut(lines, width, part, high)

    def items(self, p: Scattered) -> int:
        """Number of items that cores share."""
        return prod(self.counts(p))

    def counts(self, p: Scattered) -> tuple[int, int, int]:
        """Planes or groups of lines, columns, and parts of the axis."""
        return ceil(p.before / self.lines), ceil(p.after / self.width), ceil(p.size / self.part)

    def cycles(self, p: Scattered, target: Target) -> float:
        """Cycles of the busiest core's scalars, beside which nothing else counts."""
        each = Core.of(target).scattered(p.count * self.lines * self.width)
        return ceil(self.items(p) / target.vector_cores) * each


def one_by_one(p: Scattered, cut: ScatterCut, target: Target) -> Written:
    cores = min(cut.items(p), target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        ScatterWriter(c, p, cut).write(given)

    return Written(write, cores, p.shapes())


class ScatterWriter:
    """The program, while it is written."""

    def __init__(self, c: Tracer, p: Scattered, cut: ScatterCut) -> None:
        self.c, self.p, self.cut = c, p, cut
        element = element_type(p.op.input)
        whole, some = cut.part * cut.width, cut.high * cut.width
        fits = 8 * cut.lines * whole * p.bytes <= 3 * c.target.ub_bytes
        self.into = c.ub(cut.lines, whole, element, copies=2 if fits else 1)
        self.indices = c.ub(cut.lines, some, element_type(p.op.indices), copies=2)
        self.updates = c.ub(cut.lines, some, element, copies=2)
        self.places = c.ub(cut.lines, some, i32)
        if cut.width > 1:
            self.inner = columns_of(c, cut.high, cut.width)

    def write(self, given: Arguments) -> None:
        c, p, cut, op = self.c, self.p, self.cut, self.p.op
        _, across, parts = cut.counts(p)
        for i in c.share(cut.items(p)):
            block = c.now(i // parts)
            first = c.now(i % parts * cut.part)
            plane, col = block // across * cut.lines, c.now(block % across * cut.width)
            lines = plane, first, col, cut.part
            tile = c.load(self.into[i], self.box(given[op.input], *lines), pad=0)
            for k in c.range(ceil(p.count / cut.high)):
                at = plane, k * cut.high, col, cut.high
                # what lies behind the last update is for none of the columns that are stored
                index = c.load(self.indices[k], self.box(given[op.indices], *at), pad=p.size)
                update = c.load(self.updates[k], self.box(given[op.updates], *at), pad=0)
                self.places[:] = self.place(index, first)
                c.scatter(tile, update, self.places, op.reduction.data)
            c.store(self.box(given[op.result], *lines), tile)

    def place(self, index: v.Tile, first: Scalar) -> v.Expression:
        """Place of an index in the tile."""
        at = counted(index, self.p.size)
        if self.cut.part < self.p.size:
            at = at - v.columns(1, first)
        return at * self.cut.width + self.inner if self.cut.width > 1 else at

    def box(self, of: Argument, plane: Scalar, row: Scalar, col: Scalar, count: int) -> v.Subview:
        """The box of so many elements along the axis."""
        if self.p.is_last:
            return of[plane:, row:]
        return of[plane, row:, col:].sized(count, self.cut.width)


MOST = 4096  # elements of a box
COUNTED = "cast compare scalar select cast"  # on a line of indices

COMBINED: dict[str, Callable[[v.Expression, v.Expression], v.Expression]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: v.binary(MulOp, old, new),
    "max": lambda old, new: v.binary(MaximumOp, old, new),
    "min": lambda old, new: v.binary(MinimumOp, old, new),
}


def sizes_of(w: Scattered, cores: int) -> Shape:
    """Sizes of boxes of the result."""
    shape, element = w.shapes()[w.op.result], element_type(w.op.input)
    unit = BLOCK * 8 // min(bitwidth(element), 32)
    each = min(max(ceil(prod(shape) / cores / 2), LEAST), MOST)
    rows = 1 if w.is_last else min(max(each // (16 * unit), 1), shape[-2])  # pieces of 512 bytes
    cols = min(align_up(shape[-1], unit), align_up(ceil(each / rows), unit))
    rows = min(max(each // cols, 1), shape[-2])
    return (rows, cols) if w.is_last else (1, rows, cols)


def lower_scatter_elements(launch: Launch) -> Written:
    """Elements at indices along an axis, in a copy of the rest."""
    op = launch.only(ScatterElementsOp)
    w, target = Scattered.of(op), launch.target
    check(op)
    shape, sizes = w.shapes()[op.result], sizes_of(w, target.vector_cores)
    count = prod(ceil(d / n) for d, n in zip(shape, sizes, strict=True))
    cores, cut = min(count, target.vector_cores), ScatterCut.of(w, target)
    if cut.cycles(w, target) < ceil(count / cores) * passing(w, sizes, target):
        return one_by_one(w, cut, target)

    def write(c: Tracer, given: Arguments) -> None:
        boxes = Boxes(c, w, given, sizes)
        for i in shared(c, count, cores):
            boxes.write(i, place(i, shape, sizes))

    return Written(write, cores, w.shapes())


def check(op: ScatterElementsOp) -> None:
    """Raises NotLowered if there is no program for it here."""
    axis = normalize_axis(op.axis.value.data, len(shape_of(op.input)))
    dims = enumerate(zip(shape_of(op.input), shape_of(op.indices), strict=True))
    if any(d != n for i, (d, n) in dims if i != axis):
        raise NotLowered("its indices are of a part of the input")
    if element_type(op.input) == bf16 and op.reduction.data != "none":
        raise NotLowered("what bf16 is combined to is rounded once, at the end")


def passing(w: Scattered, sizes: Shape, target: Target) -> float:
    """Cycles of all updates that pass over a box, whose lines come and are counted first."""
    core, (rows, cols) = Core.of(target), sizes[-2:]
    kind = {"none": "", "add": "add"}.get(w.op.reduction.data, "max")
    narrow = "cast cast" if bitwidth(element_type(w.op.input)) < 32 else ""
    line = (rows, 1) if w.is_last else (1, cols)
    vector = core.vector(f"compare select {kind}", rows, cols * 4, rows > 1)
    vector += core.vector(narrow, rows, cols * 4) + core.vector(COUNTED, line[0], line[1] * 4)
    load = sum(core.ub(line[0], line[1] * size) for size in (w.bytes, w.index_bytes))
    return cycles_of_blocks(w.count, (load, 1), (vector, 1))


class Boxes:
    """The program, while it is written."""

    def __init__(self, c: Tracer, w: Scattered, given: Arguments, sizes: Shape) -> None:
        self.c, self.w, self.given = c, w, given
        self.rows, self.cols = sizes[-2:]
        line = (self.rows, 1) if w.is_last else (1, self.cols)
        element = element_type(w.op.input)
        self.tiles = c.ub(self.rows, self.cols, element, copies=2)
        self.indices = c.ub(*line, element_type(w.op.indices), copies=2)
        self.updates = c.ub(*line, element, copies=2)

    def write(self, turn: Scalar, at: tuple[Scalar, ...]) -> None:
        c, op = self.c, self.w.op
        *lead, row, col = at
        tile = c.load(self.tiles[turn], self.given[op.input][*lead, row:, col:], pad=0)
        own = v.columns(self.cols, col) if self.w.is_last else v.rows(self.rows, row)
        numbers = c.tile_of(own)
        for j in c.range(self.w.count):
            index = self.line(self.indices[j], self.given[op.indices], at, j, self.w.size)
            update = self.line(self.updates[j], self.given[op.updates], at, j, 0)
            where = counted(index, self.w.size)
            new = COMBINED[op.reduction.data](tile, update)
            c.assign(tile, v.where(v.compare("eq", numbers, where), new, tile))
        c.store(self.given[op.result][*lead, row:, col:], tile)

    def line(
        self, tile: v.Tile, of: Argument, at: tuple[Scalar, ...], number: Scalar, pad: int
    ) -> v.Tile:
        """Load the elements of update `number` for the lines of a box."""
        *lead, row, col = at
        box = of[row:, number] if self.w.is_last else of[*lead, number, col:]
        return self.c.load(tile, box, pad=pad)
