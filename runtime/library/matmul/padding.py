"""Copies of operands whose rows do not begin at multiples of 512 bytes, or lie farther apart than
the field of an instruction says: vector cores copy them to a workspace with longer rows, which is
what the cube loads, as the chips' library does (`nd2nz` of its matmuls).

    vector core:   some rows to UB, zeros behind each, to the workspace
    barrier
    cube core:     blocks, as without

Where the estimate says that this takes less time: an operand is read once by all vector cores, and
what the cube loads again and again comes at the full rate.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil, prod

from ge.dialects.support.types import align_up
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.costs.rates import MOST_STRIDE, share_of
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.matmul.operands import MatmulOperand

ROW = 512  # bytes that rows of a copy are multiples of: the full rate
MOST = 32768  # bytes of a tile of a copy


def padded_stride(stride: int, bits: int) -> int:
    """Elements from one row of a copy to the next: rows that would lie too far apart are cut."""
    unit = ROW * 8 // bits
    return min(align_up(stride, unit), MOST_STRIDE // unit * unit)


def may_be_copied(operand: MatmulOperand, whole: bool, target: Target) -> bool:
    """Whether its rows are loaded at less than the full rate where they lie. `whole`: all of them
    are, from the first column on; long rows that are no terms of a sum come apart only then."""
    if not target.split_cores or not operand.is_plain or operand.shape[-2] == 1:
        return False
    stride = operand.shape[-1]
    if stride > padded_stride(stride, operand.bits) and operand.side == 0 and not whole:
        return False
    return share_of(stride, operand.element) < 1 or stride > MOST_STRIDE


def choices(sides: Sequence[int]) -> Iterator[frozenset[int]]:
    """Which of these sides are copied, where some are."""
    for count in range(1, len(sides) + 1):
        yield from map(frozenset, combinations(sides, count))


def copying(operand: MatmulOperand, target: Target) -> float:
    """Cycles of a copy: what the vector cores or HBM take."""
    core, size, (*_, cols) = Core.of(target), operand.bits / 8, operand.shape
    rows, (height, wide) = prod(operand.shape[:-1]), tile_shape(operand, cols)
    turns = ceil(ceil(rows / height) * ceil(cols / wide) / target.vector_cores)
    load, store = core.ub(height, wide * size), core.store(height, wide * size)
    time = cycles_of_blocks(turns, (load, 1), (store, 1))
    return core.barrier + max(time, rows * cols * size / (core.hbm * target.cube_cores))


def tile_shape(operand: MatmulOperand, cols: int) -> tuple[int, int]:
    """Of a tile of a copy of so many columns, which are cut evenly."""
    unit, most = ROW * 8 // operand.bits, MOST * 8 // operand.bits
    wide = align_up(ceil(cols / ceil(cols / most)), unit)
    return max(min(most // wide, operand.shape[-2]), 1), wide


class Copy:
    """A copy of an operand in a workspace, which is whole behind the next barrier: its columns come
    in parts of `size`, a multiple of `step`, whose rows lie one after the other."""

    def __init__(self, c: Tracer, operand: MatmulOperand, source: v.Argument, step: int) -> None:
        *self.lead, self.height, cols = operand.shape
        self.c, self.operand, self.source = c, operand, source
        most = padded_stride(MOST_STRIDE, operand.bits)
        self.size = cols if cols <= most else max(most // step, 1) * step
        self.parts = ceil(cols / self.size)
        wide = align_up(self.size, ROW * 8 // operand.bits)
        shape = *self.lead, self.parts, self.height, wide
        self.target = c.workspace(*shape, dtype=operand.element)

    def box(self, at: Sequence[Scalar], dims: tuple[int, int]) -> v.Subview:
        """Where the box is that begins there in the operand."""
        *lead, row, col = at
        number: Scalar = 0 if self.parts == 1 else col // self.size
        place = *lead, number, row, col - number * self.size
        return self.boxed(self.target, place, tuple(d + 1 for d in dims))

    def boxed(self, argument: v.Argument, at: Sequence[Scalar], dims: tuple[int, ...]) -> v.Subview:
        return v.Subview(argument, tuple(at), dims, (1,) * len(at))

    def write(self) -> None:
        c, (rows, cols) = self.c, tile_shape(self.operand, self.size)
        down, across = ceil(self.height / rows), ceil(self.target.shape[-1] / cols)
        ring = c.ub(rows, cols, self.operand.element, copies=2)
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        count, rank = prod(self.lead) * self.parts * down * across, len(self.lead)
        for turn in c.range(ceil_div(count - me, all_of_them)):
            i = c.now(me + turn * all_of_them)
            line, col = c.now(i // across), c.now(i % across * cols)
            number: Scalar = c.now(line // down)
            part: Scalar = 0 if self.parts == 1 else number % self.parts
            row, number = line % down * rows, number // self.parts
            lead: list[Scalar] = []
            for size in reversed(self.lead):
                lead.insert(0, number % size)
                number = number // size
            there = *lead, row, col + part * self.size
            tile = c.load(ring[turn], self.boxed(self.source, there, (rank, rank + 1)), pad=0)
            c.store(self.boxed(self.target, (*lead, part, row, col), (rank + 1, rank + 2)), tile)
