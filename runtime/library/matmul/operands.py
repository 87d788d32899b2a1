"""Operands of matmuls: their places in device memory, or the ops that compute them.

    %w = graph.dequantize %codes, %scales axis 1
    %y = graph.matmul %x, %w

Boxes of %x are loaded into L1. Those of %w the vector cores compute (`pulling.py`), in parts that
they share, and a fifo takes them to L1. Elements beyond the last of the products' terms are
0 in both.

Operands whose rows do not begin at multiples of 512 bytes, or lie farther apart than the field of
an instruction says, may be copied: vector cores bring them to a workspace with longer rows, which
is what the cube loads, as the chips' library does (`nd2nz` of its matmuls).

    vector core:   some rows to UB, zeros behind each, to the workspace
    barrier
    cube core:     blocks, as without

Where the estimate says that this takes less time: an operand is read once by all vector cores, and
what the cube loads again and again comes at the full rate. What the vector cores compute of an
operand may be copied in the same way: each element is computed once then, not for each block that
needs it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import ceil, lcm, prod
from typing import Any

from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.boxes import MOVING, Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.instruction import zero_of
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.attention.facts import seen_through
from ge.runtime.library.costs.cycles import MOST_STRIDE, instructions_of, share_of
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar, ceil_div
from ge.runtime.library.language.tracing import Queue, Tracer
from ge.runtime.library.language.values import Tile, Transposed
from ge.runtime.library.launch import Arguments, Launch, NotLowered
from ge.runtime.library.matmul.blocks import Computing, rows_at_a_time
from ge.runtime.library.matmul.outputs import AnyMatmul
from ge.runtime.library.pulling import Pull, between
from ge.runtime.library.tile_ops import long_dims


@dataclass(frozen=True)
class MatmulOperand:
    """One side of a matmul: matrices, `turned` where the matmul takes them transposed. `shape` is
    that of its memref, or of the value where it is computed; `side`: whether the terms of products
    are its rows (0) or its columns (1); `groups`: numbers of matrices, where these are named."""

    launch: Launch = field(compare=False)
    value: SSAValue
    shape: Shape
    turned: bool
    side: int
    groups: SSAValue | None = None

    def tile_shape(self, rows: int, cols: int) -> tuple[int, int]:
        """Shape of a tile of as many rows and columns of the operand as the matmul takes it."""
        return (cols, rows) if self.turned else (rows, cols)

    def box(self, lead: Sequence[Scalar], at: tuple[Scalar, Scalar], shape: v.Shape) -> Box:
        """The box from there on, of the operand as the matmul takes it."""
        row, col = at[::-1] if self.turned else at
        return Box((*lead, row, col), (*(1 for _ in lead), *self.tile_shape(*shape)))

    def matrix(self, batch: Shape, number: Scalar, c: Tracer, arguments: Arguments) -> list[Scalar]:
        """The place of the matrix that matmul `number` takes: dimensions of 1 are repeated."""
        own = self.shape[:-2] if self.groups is None else shape_of(self.groups)
        batch = batch[len(batch) - len(own) :]
        place = [
            0 if size == 1 else number // prod(batch[i + 1 :]) % size for i, size in enumerate(own)
        ]
        if self.groups is None:
            return place
        if not own or not is_given(self.launch, self.groups):
            raise NotLowered("numbers of groups are computed")
        count, (argument, ones) = self.shape[0], (arguments[self.groups], (1,) * len(own))
        return [c.now(c.read_index(v.Subview(argument, tuple(place), (), ones), count))]

    def as_taken(self, tile: Tile) -> Tile | Transposed:
        return tile.T if self.turned else tile

    # ---- where it comes from

    def in_memory(self, box: Box) -> tuple[SSAValue, Box, Sequence[int]] | None:
        """The input that has a box of it, the box of that, and which of its dimensions are rows and
        columns; None where it is computed."""
        rank = len(self.shape)
        if is_given(self.launch, self.value):
            return self.value, box, (rank - 2, rank - 1)
        found, there = seen_through(self.launch, self.value, box)
        dims, ends = long_dims(there), shape_of(found)
        whole = [ends[d] for d in dims] == list(self.shape[-2:])
        return (found, there, dims) if whole and is_given(self.launch, found) else None

    @property
    def element(self) -> Attribute:
        return element_type(self.value)

    @property
    def bits(self) -> int:
        return bitwidth(self.element)

    def stride(self, is_copied: bool) -> int:
        """Elements from one of its rows to the next, where they are loaded from."""
        return padded_stride(self.shape[-1], self.bits) if is_copied else self.shape[-1]

    @property
    def comes_apart(self) -> bool:
        """True if there are several matrices, or rows of a copy come apart."""
        return bool(self.shape[:-2]) or self.shape[-1] > self.stride(is_copied=True)

    @property
    def is_plain(self) -> bool:
        """True if it lies in memory in the form that the matmul takes."""
        return is_given(self.launch, self.value)

    @cached_property
    def ops(self) -> tuple[TensorOp, ...]:
        """The ops that compute it, the last one first; none if it lies in memory. Raises NotLowered
        if they take a matmul's result."""
        corner = Box((0,) * len(self.shape), (*(1 for _ in self.shape[2:]), FRACTAL, FRACTAL))
        if self.in_memory(corner) is not None:
            return ()
        needed, found = {self.value}, list[TensorOp]()
        for op in reversed(self.launch.body.ops):
            if not needed.isdisjoint(op.results):
                if isinstance(op, AnyMatmul):
                    raise NotLowered("a matmul takes what another one computes")
                needed.update(op.operands)
                found.append(op)
        return tuple(found)

    @cached_property
    def sources(self) -> list[SSAValue]:
        values = dict.fromkeys(v for op in self.ops for v in op.operands)
        return [v for v in values if is_given(self.launch, v)]

    @property
    def computing(self) -> Computing | None:
        """Cost of computing an element; None if it lies in memory."""
        if not self.ops:
            return None
        count = numel(shape_of(self.value))
        large = [s for s in self.sources if 2 * numel(shape_of(s)) > count]
        computed = [op for op in self.ops if op.ACCESS not in MOVING]
        instructions = sum(len(instructions_of(op)) for op in computed)
        cycles = Core.of(self.launch.target).each(computed)
        size = sum(bitwidth(element_type(s)) * numel(shape_of(s)) for s in large) / 8
        blocks = self.block_along(0), self.block_along(1)
        return Computing(instructions, cycles, size / count, self.side == 0, blocks)

    @cached_property
    def units(self) -> tuple[int, int]:
        """Rows and columns, of the operand as the matmul takes it, that its tiles have multiples
        of: rows of tiles have multiples of 32 bytes, and tiles whole blocks of scales."""
        if not self.ops:
            return 1, 1
        values = [self.value, *(v for op in self.ops for v in op.operands)]
        found = [1, max(BLOCK * 8 // max(bitwidth(element_type(v)), 4) for v in values)]
        for op in self.ops:
            if isinstance(op, DequantizeOp) and (block := op.block_size.value.data):
                side = self.side_of(op)
                found[side] = lcm(found[side], block)
        rows, cols = found
        return self.tile_shape(rows, cols)

    def block_along(self, side: int) -> int:
        """Number of rows (0) or columns (1) of a tile that have one row or column of scales."""
        blocks = [
            op for op in self.ops if isinstance(op, DequantizeOp) and self.side_of(op) == side
        ]
        return max((op.block_size.value.data for op in blocks), default=0)

    @staticmethod
    def side_of(op: DequantizeOp) -> int:
        """The side that scales are along: the rows (0) or the columns (1)."""
        rank = len(shape_of(op.input))
        axis = normalize_axis(0 if op.axis is None else op.axis.value.data, rank)
        return int(axis == rank - 1)


def is_given(launch: Launch, value: SSAValue) -> bool:
    return value in launch.body.inputs


@dataclass
class Feed:
    """Delivery of boxes of operands to L1. `most`: elements that a vector core
    computes at a time."""

    c: Tracer
    launch: Launch
    arguments: Arguments
    most: int
    copies: dict[MatmulOperand, Any] = field(
        default_factory=dict[MatmulOperand, Any]
    )  # `padding.Copy`
    passing: dict[Any, tuple[Any, Queue]] = field(default_factory=dict[Any, tuple[Any, Queue]])
    rings: dict[Any, Tile] = field(default_factory=dict[Any, Tile])  # of tiles that are copied

    def __post_init__(self) -> None:
        self.pull = Pull(self.c, self.launch, self.arguments)

    def fill(self, tile: Tile, operand: MatmulOperand, box: Box, copy: Index) -> Tile:
        """Bring a box to a tile of L1, copy number `copy` of a ring."""
        if (copy_of_it := self.copies.get(operand)) is not None:
            return self.c.load(tile, copy_of_it.box(box.offsets), 0)
        if (place := operand.in_memory(box)) is None:
            return self.compute(tile, operand, box, copy)
        value, there, dims = place
        ones = (1,) * len(there.sizes)
        return self.c.load(
            tile, v.Subview(self.arguments[value], there.offsets, tuple(dims), ones), 0
        )

    def compute(self, tile: Tile, operand: MatmulOperand, box: Box, copy: Index) -> Tile:
        rows, cols = tile.shape
        each = self.rows_of(operand, tile.shape)
        together = each * self.c.parts
        count = rows // together
        *lead, (row, _), columns = box.spans
        first = self.c.now(copy * count) if count > 1 else copy
        for i in self.c.range(count) if count > 1 else (0,):
            at = i * together
            own = row + at + self.c.part * each if self.c.parts > 1 else row + at
            ring, queue = self.passing_of((each, cols), element_type(operand.value))
            target = ring[first + i]
            self.pulled(target, operand, Box.of([*lead, (own, each), columns]))
            queue.push(target)
            queue.pop(tile.part(at, 0, (together, cols)) if count > 1 else tile)
        return tile

    def rows_of(self, operand: MatmulOperand, shape: v.Shape) -> int:
        """Number of rows of a tile that a vector core computes at a time."""
        return rows_at_a_time(*shape, self.c.parts, operand.block_along(0), self.most)

    def passing_of(self, shape: v.Shape, element: Attribute) -> tuple[Any, Queue]:
        if (key := (shape, element)) not in self.passing:
            ring = self.c.ub(*shape, element, copies=2)
            self.passing[key] = ring, self.c.queue(ring)
        return self.passing[key]

    def pulled(self, target: Tile, operand: MatmulOperand, box: Box) -> None:
        """Write a box to a tile. Where there are fewer rows than one core computes, each core has
        them all: elements at others' places are as little used as those beyond the last row."""
        (extent, depth), (each, cols) = operand.shape[-2:], box.sizes[-2:]
        *lead, (row, _), columns = box.spans
        zero = zero_of(element_type(operand.value))
        if extent < each:
            target[:] = zero
            some = target.part(0, 0, (extent, cols))
            self.pull.tile(operand.value, Box.of([*lead, (0, extent), columns]), into=some)
        else:
            self.pull.tile(operand.value, box, into=target)
            if operand.side == 0 and extent % each:
                for _ in self.c.range(between(row + each - extent, 0, 1)):  # if it passes the end
                    target[:] = v.where(v.rows(each, row - extent) < 0, target, zero)
        if operand.side == 1 and depth % cols:
            at = columns[0]
            for _ in self.c.range(between(at + cols - depth, 0, 1)):
                target[:] = v.where(v.columns(cols, at - depth) < 0, target, zero)


ROW = 512  # bytes that rows of a copy are multiples of: the full rate
MOST = 32768  # bytes of a tile of a copy


def padded_stride(stride: int, bits: int) -> int:
    """Elements from one row of a copy to the next: rows that would lie too far apart are cut."""
    unit = ROW * 8 // bits
    return min(align_up(stride, unit), MOST_STRIDE // unit * unit)


def may_be_copied(operand: MatmulOperand, whole: bool, target: Target) -> bool:
    """True if its rows are loaded at less than the full rate where they lie. `whole`: all of them
    are, from the first column on; long rows that are no terms of a sum come apart only then."""
    if not target.split_cores or not operand.is_plain or operand.shape[-2] == 1:
        return False
    stride = operand.shape[-1]
    if stride > padded_stride(stride, operand.bits) and operand.side == 0 and not whole:
        return False
    return share_of(stride, operand.element) < 1 or stride > MOST_STRIDE


def choices(sides: Sequence[int]) -> Iterator[frozenset[int]]:
    """The sets of sides that may be copied, except the empty one."""
    for count in range(1, len(sides) + 1):
        yield from map(frozenset, combinations(sides, count))


def copying(operand: MatmulOperand, target: Target) -> float:
    """Cycles of a copy: those of the vector cores or of HBM."""
    core, size, (*_, cols) = Core.of(target), operand.bits / 8, operand.shape
    rows, (height, wide) = prod(operand.shape[:-1]), tile_shape(operand, cols, MOST)
    turns, loaded, computed = ceil(rows / height) * ceil(cols / wide), size, 0.0
    if (computing := operand.computing) is not None:
        loaded, computed = computing.bytes, computing.tile(height, wide, target)
    load, store = core.ub(height, wide * loaded), core.store(height, wide * size)
    turns = ceil(turns / target.vector_cores)
    time = cycles_of_blocks(turns, (load, 1), (store, 1), (computed, 1))
    return core.barrier + max(time, rows * cols * loaded / (core.hbm * target.cube_cores))


def tile_shape(operand: MatmulOperand, cols: int, most: int) -> tuple[int, int]:
    """Shape of a tile of a copy of so many columns, which are cut evenly, in `most` bytes."""
    high, long = operand.block_along(0), operand.block_along(1)
    unit, most = lcm(ROW * 8 // operand.bits, long or 1), most * 8 // operand.bits
    wide = align_up(ceil(cols / ceil(cols / most)), unit)
    rows = max(min(most // wide, operand.shape[-2]), 1)
    while high and high % rows and rows % high:  # whole blocks of scales, or parts of one
        rows -= 1
    return rows, wide


class Copy:
    """A copy of an operand in a workspace, which is whole behind the next barrier: its columns come
    in parts of `size`, a multiple of `step`, whose rows lie one after the other."""

    def __init__(self, feed: Feed, operand: MatmulOperand, step: int) -> None:
        *self.lead, self.height, cols = operand.shape
        self.c, self.feed, self.operand = feed.c, feed, operand
        most = padded_stride(MOST_STRIDE, operand.bits)
        self.size = cols if cols <= most else max(most // step, 1) * step
        self.parts = ceil(cols / self.size)
        wide = align_up(self.size, ROW * 8 // operand.bits)
        shape = *self.lead, self.parts, self.height, wide
        self.target = self.c.workspace(*shape, dtype=operand.element)

    def box(self, at: Sequence[Scalar]) -> v.Subview:
        """The box of the copy that begins at a place of the operand."""
        *lead, row, col = at
        number: Scalar = 0 if self.parts == 1 else col // self.size
        return self.rows_of(self.target, *lead, number, row, col - number * self.size)

    @staticmethod
    def rows_of(argument: v.Argument, *at: Scalar) -> v.Subview:
        rank = len(at)
        return v.Subview(argument, at, (rank - 2, rank - 1), (1,) * rank)

    def write(self, first: int = 0, last: int | None = None) -> None:
        """Write the part of it from the first column to the last one, of the right-hand side that
        the matmul takes."""
        operand, most = self.operand, self.feed.most * self.operand.bits // 8
        (top, left), (bottom, right) = (0, 0), (self.height, self.target.shape[-1])
        if operand.turned:
            top, bottom = first, bottom if last is None else last
        else:
            left, right = first, right if last is None else last
        c, (rows, cols) = self.c, tile_shape(operand, right - left, min(most, MOST))
        down, across = ceil((bottom - top) / rows), ceil((right - left) / cols)
        key = (rows, cols), operand.element
        if (ring := self.feed.rings.get(key)) is None:
            ring = self.feed.rings[key] = c.ub(rows, cols, operand.element, copies=2)
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        count = prod(self.lead) * self.parts * down * across
        for turn in c.range(ceil_div(count - me, all_of_them)):
            i = c.now(me + turn * all_of_them)
            line, col = c.now(i // across), c.now(i % across * cols + left)
            number: Scalar = c.now(line // down)
            part: Scalar = 0 if self.parts == 1 else number % self.parts
            row, number = line % down * rows + top, number // self.parts
            lead: list[Scalar] = []
            for size in reversed(self.lead):
                lead.insert(0, number % size)
                number = number // size
            tile, there = ring[turn], (*lead, c.now(row), c.now(col + part * self.size))
            if operand.is_plain:
                source = self.feed.arguments[operand.value]
                c.load(tile, self.rows_of(source, *there), pad=0)
            else:
                sizes = *(1 for _ in lead), rows, cols
                self.feed.pulled(tile, operand, Box(there, sizes))
            c.store(self.rows_of(self.target, *lead, part, row, col), tile)
