"""Sums of products whose terms are shared by several cores (split-K), for matmuls of few rows.

    core (block, split):   sums of its part of the terms, in f32    -> workspace
    barrier
    vector core:           some columns: the parts added in their order, and what follows

Few rows have few blocks: with narrow ones, so that all cores have some, rows of the right-hand side
that vector cores load are many and short.
"""

from collections.abc import Iterator
from math import ceil

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.tile.types import BLOCK
from ge.lowering.kernels.blocks import Matrices
from ge.lowering.tiles import values as v
from ge.lowering.tiles.indices import Index, Scalar, ceil_div
from ge.lowering.tiles.tracing import Tracer
from ge.lowering.tiles.values import Tile

SPLITS = (2, 3, 4, 6, 8, 12, 16, 24)  # cores that share the terms of a block's sums


class SplitSums:
    """The parts of sums in a workspace."""

    def __init__(self, c: Tracer, p: Matrices, splits: int) -> None:
        self.c, self.p, self.splits = c, p, splits
        self.parts = c.workspace(splits, p.m, p.n, dtype=f32)

    def store(self, split: Scalar, row: Scalar, col: Scalar, sums: Tile) -> None:
        """The sums of a block, of a part of the terms."""
        self.c.store(self.parts[split, row:, col:], sums)

    def merged(self, element: Attribute) -> Iterator[tuple[Index, Tile]]:
        """Wait for all cores; then the columns that are this vector core's, as its element type,
        each with the first of them."""
        c, p = self.c, self.p
        c.barrier()
        unit = BLOCK * 8 // min(bitwidth(element), 8)
        cols = align_up(ceil(p.n / c.target.vector_cores), unit)
        total, part = c.ub(p.m, cols, f32), c.ub(p.m, cols, f32, copies=2)
        out = total if element == f32 else c.ub(p.m, cols, element)
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(ceil(p.n / cols) - me, all_of_them)):
            col = c.now((me + turn * all_of_them) * cols)
            c.load(total, self.parts[0, 0:, col:], pad=0)
            for split in c.range(1, self.splits):
                total[:] = total + c.load(part[split], self.parts[split, 0:, col:], pad=0)
            if out is not total:
                out[:] = v.cast(total, element)
            yield col, out
