"""Kernels that put rows where the scalar unit reads, into a copy of a tensor or a cache that stays.

Updates that are added go to all cores: each adds some of them to the copy, when all of it is there.
Cores with later numbers have later updates, so that sums are those of updates in their order.

    for b in share(rows x columns): load input[b]; store to result[b]           the copy
    barrier
    for k in range(updates / cores)
      load updates[first + k.., c..];  for each row: add to result[indices[first + k], c..]

Where they replace earlier rows, a core has some columns of all rows (of a plane, where there are
several), whatever the indices are: so no two cores store one element, and of several updates of a
row the last one stays, as stores of a core come one after the other.

    for b in share(planes x columns)
      for r in range(rows)                        the copy
        load input[p, r.., c..]; store to result[p, r.., c..]
      for k in range(updates)
        load updates[p, k, c..]; store to result[p, indices[k], c..]

Where a row is one element, a core has all of them (22 ns each, simulated on the 910B2).

Appending to a cache that stays where it is: the rows alone are written.

    %3 = graph.append %cache, %rows at %length axis 2      rows [b, h, i] to [b, h, length - n + i]

The ops that compute the rows run by tiles. The place is read from device memory; where rows lie in
blocks, so is the block, and no two blocks are in the same place."""

from dataclasses import dataclass
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects.builtin import f16, f32, i8, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AppendOp
from ge.dialects.graph.indexing import ScatterNdOp, TensorScatterOp
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language.indices import Index, Scalar, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument, Subview
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.pulling import Pull
from ge.runtime.library.rows.vector import place, shared

Scatter: TypeAlias = ScatterNdOp | TensorScatterOp

ADDED = (f32, f16, i8, i32)  # that stores add; sums of bf16 are rounded once, at the end
MOST = 8192  # elements of a tile
MOST_PLACED = 1 << 17  # elements that one core puts to their places one by one: about 3 ms
LEAST_BYTES = 512  # of a row that a core has of several


@dataclass(frozen=True)
class ScatterRows:
    """`planes` x `rows` x `cols` elements, and `count` rows that are put into each plane."""

    op: Scatter
    planes: int
    rows: int
    cols: int
    count: int

    @classmethod
    def of(cls, op: Scatter) -> "ScatterRows":
        """Raises NotLowered for a reduction that stores have not."""
        shape = shape_of(op.input)
        if isinstance(op, TensorScatterOp):
            axis = normalize_axis(op.axis.value.data, len(shape))
            count = shape_of(op.updates)[axis]
            return cls(op, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), count)
        if op.reduction.data not in ("none", "add"):
            raise NotLowered(f'stores do not combine by "{op.reduction.data}"')
        if op.reduction.data == "add" and element_type(op.input) not in ADDED:
            raise NotLowered(f"stores do not add {element_type(op.input)} as the kernel does")
        *places, depth = shape_of(op.indices)
        return cls(op, 1, prod(shape[:depth]), prod(shape[depth:]), prod(places))

    @property
    def adds(self) -> bool:
        return isinstance(self.op, ScatterNdOp) and self.op.reduction.data == "add"

    def shapes(self) -> dict[SSAValue, Shape]:
        """Shapes of memrefs: rows of one element are one row."""
        inner = (self.cols,) if self.cols > 1 else ()
        shapes: dict[SSAValue, Shape] = dict.fromkeys(
            (self.op.input, self.op.result), (self.planes, self.rows, *inner)
        )
        shapes[self.op.updates] = self.planes, self.count, *inner
        if isinstance(self.op, ScatterNdOp):
            shapes[self.op.indices] = self.count, shape_of(self.op.indices)[-1]
        return shapes

    def box(
        self, of: Argument, plane: Scalar, row: Scalar, col: Scalar, is_one: bool = False
    ) -> Subview:
        """Rows, or one, and the columns from `col` on."""
        if self.cols == 1:
            return of[plane, row:]
        return of[plane, row, col:] if is_one else of[plane, row:, col:]

    def row(self, c: Tracer, given: Arguments, plane: Scalar, number: Index) -> Scalar:
        """The row that an update belongs to. Indices below 0 count from the end; indices of no row
        are refused."""
        op, shape = self.op, shape_of(self.op.input)
        if isinstance(op, TensorScatterOp):
            if op.write_indices is None:
                return number
            batch = plane // (self.planes // shape[0])
            wraps = op.mode.data == "circular"
            most = (1 << 31) if wraps else self.rows - self.count + 1
            first = c.read(given[op.write_indices][batch], below=most)
            return (first + number) % self.rows if wraps else first + number
        found: Scalar = 0
        for k in range(shape_of(op.indices)[-1]):
            size = shape[k]
            found = found * size + c.read_index(given[op.indices][number, k], size)
        return found


def lower_scatter(launch: Launch) -> Written:
    """Rows at indices, in a copy of the rest."""
    (op,) = (op for op in launch.body.ops if isinstance(op, Scatter))
    if len(launch.body.ops) > 1:
        raise NotLowered(f"there are ops beside {op.name}")
    if numel(shape_of(op.input)) == 0 or numel(shape_of(op.updates)) == 0:
        raise NotLowered("it has no elements")
    w, bits = ScatterRows.of(op), bitwidth(element_type(op.input))
    if bits < 8:
        raise NotLowered("elements of less than a byte are not moved")
    if w.cols == 1 and w.planes * w.count > MOST_PLACED:
        raise NotLowered("elements at indices would be moved one by one")
    cores = launch.target.vector_cores
    if w.adds and w.cols > 1:
        return by_updates(launch, w)
    width = align_up(ceil(w.cols / ceil(cores / w.planes)), LEAST_BYTES * 8 // bits)
    return by_columns(launch, w, min(width, MOST))


def by_columns(launch: Launch, w: ScatterRows, width: int) -> Written:
    """A program with so many columns of a plane at a time."""
    op, element = w.op, element_type(w.op.input)
    across = ceil(w.cols / width)
    count = w.planes * across
    cores = min(count, launch.target.vector_cores)
    unit = BLOCK * 8 // bitwidth(element)
    tall = max(MOST // width, 1)
    shape = (min(tall, w.rows), width) if w.cols > 1 else (1, min(MOST, align_up(w.rows, unit)))
    step = shape[0] if w.cols > 1 else shape[1]

    def write(c: Tracer, given: Arguments) -> None:
        source, result, updates = (given[x] for x in (op.input, op.result, op.updates))
        tiles = c.ub(*shape, element, copies=2)
        rows = c.ub(1, shape[1] if w.cols > 1 else 1, element, copies=2)
        for i in shared(c, count, cores):
            plane, col = i // across, i % across * width
            for r in c.range(ceil(w.rows / step)):
                c.load(tiles[r], w.box(source, plane, r * step, col), pad=0)
                c.store(w.box(result, plane, r * step, col), tiles[r])
            for k in c.range(w.count):
                c.load(rows[k], w.box(updates, plane, k, col, True), pad=0)
                to = w.box(result, plane, w.row(c, given, plane, k), col, True)
                c.store(to, rows[k], add=w.adds)

    return Written(write, cores, w.shapes())


@dataclass(frozen=True)
class Share:
    """The way that cores share updates: the number of parts, and the columns of each."""

    parts: int
    width: int

    @classmethod
    def of(cls, w: ScatterRows, cores: int) -> "Share":
        """Rows whole, if there are enough of them."""
        bits = bitwidth(element_type(w.op.input))
        unit = BLOCK * 8 // bits
        across = ceil(w.cols / MOST)
        parts = min(max(cores // across, 1), w.count)
        across = max(across, min(cores // parts, w.cols * bits // (8 * LEAST_BYTES)))
        return cls(parts, align_up(ceil(w.cols / across), unit))


def by_updates(launch: Launch, w: ScatterRows) -> Written:
    """Updates of rows, shared by the cores."""
    op, element, most = w.op, element_type(w.op.input), launch.target.vector_cores
    share = Share.of(w, most)
    across, parts, tall = ceil(w.cols / share.width), share.parts, max(MOST // share.width, 1)
    each = ceil(w.count / parts)
    high, deep = min(tall, w.rows), min(tall, each)
    copies = ceil(w.rows / high) * across
    cores = min(most, max(parts * across, copies))

    def write(c: Tracer, given: Arguments) -> None:
        source, result, updates = (given[x] for x in (op.input, op.result, op.updates))
        tiles = c.ub(high, share.width, element, copies=2)
        rows = c.ub(deep, share.width, element, copies=2)
        for i in c.share(copies):
            at = i // across * high, i % across * share.width
            c.load(tiles[i], w.box(source, 0, *at), pad=0)
            c.store(w.box(result, 0, *at), tiles[i])
        c.barrier()
        for i in c.share(parts * across):
            first, col = c.now(i // across * each), i % across * share.width
            for j in c.range(ceil(each / deep)):
                begin = first + j * deep
                c.load(rows[j], w.box(updates, 0, begin, col), pad=0)
                end = minimum(minimum(first + each, w.count) - begin, deep)
                for k in c.range(end):
                    row = w.row(c, given, 0, begin + k)
                    part = rows[j].part(k, 0, (1, share.width))
                    c.store(w.box(result, 0, row, col, True), part, add=True)

    return Written(write, cores, w.shapes())


def lower_append(launch: Launch) -> Written:
    """Rows that are appended to a cache in device memory."""
    (op,) = (op for op in launch.body.ops if isinstance(op, AppendOp))
    numbers = [v for v in (op.length, op.table) if v is not None]
    if not {op.cache, *numbers} <= {*launch.body.inputs} or [*launch.body.outputs] != [op.result]:
        raise NotLowered("there is none for what appends to a cache that is computed")
    rank, rows = len(shape_of(op.cache)), shape_of(op.rows)
    axis = normalize_axis(op.axis.value.data, rank)
    if axis == rank - 1:
        raise NotLowered("elements are appended within rows")
    sizes = boxes(op, axis)
    count = prod(ceil(d / n) for d, n in zip(rows, sizes, strict=True))
    cores = min(count, launch.target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        pull = Pull(c, launch, given)
        for i in shared(c, count, cores):
            offsets = place(i, rows, sizes)
            tile = pull.tile(op.rows, Box(offsets, sizes))
            to = list(offsets)
            to[axis] = row_of(c, op, given, offsets[axis], axis)
            c.store(pull.box(op.result, Box(tuple(to), sizes)), tile)

    shapes: dict[SSAValue, Shape] = {v: (numel(shape_of(v)),) for v in numbers}
    return Written(write, cores, shapes)


def boxes(op: AppendOp, axis: int) -> Shape:
    """Sizes of boxes of the rows: of one row of the cache, and along its longest other dimension if
    rows of tiles have multiples of 32 bytes."""
    rows, narrow = shape_of(op.rows), bitwidth(element_type(op.rows))
    sizes = [1] * len(rows)
    sizes[-1] = min(rows[-1], MOST)
    others = [d for d in range(len(rows) - 1) if d != axis]
    if others and sizes[-1] * narrow % (8 * BLOCK) == 0:
        longest = max(others, key=lambda d: rows[d])
        sizes[longest] = min(rows[longest], max(MOST // sizes[-1], 1))
    return tuple(sizes)


def row_of(c: Tracer, op: AppendOp, given: Arguments, number: Scalar, axis: int) -> Scalar:
    """The row of the cache that a new row belongs to."""
    size, count = shape_of(op.cache)[axis], shape_of(op.rows)[axis]
    end = c.now(c.read(given[op.length][0], below=size + 1, least=count))
    row = c.now(end - count + number)
    if op.table is None:
        return row
    table: Argument = given[op.table]
    block = size // table.shape[0]
    place = c.read(table[row // block], below=table.shape[0], distinct=True)
    return c.now(place * block + row % block)
