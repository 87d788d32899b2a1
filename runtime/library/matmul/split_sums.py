"""Sums of products whose terms are shared by several cores (split-K): of all blocks of matmuls of
few rows, of others of the blocks that are left where all cores have had as many (stream-K).

    core (block, split):   sums of its part of the terms, in f32    -> workspace
    barrier
    vector core:           some columns: the parts added in their order, and what follows

Few rows have few blocks: with narrow ones, so that all cores have some, rows of the right-hand side
that vector cores load are many and short. Of many rows the last blocks are shared in the same way:

    core, in its turns:    whole blocks, as without
    core (block, split):   sums of its part of the terms of a block that is left  -> workspace
    barrier
    vector core:           some rows of these blocks: the parts added, and what follows
"""

from collections.abc import Hashable, Iterator, Sequence
from math import ceil

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Tile
from ge.runtime.library.matmul.blocks import MatmulCut, Matrices


class SplitSums:
    """The parts of sums in a workspace: of each matmul whose blocks are computed together. `tiles`
    are those that sums of other matmuls are added in, too."""

    def __init__(self, c: Tracer, p: Matrices, tiles: dict[Hashable, Tile]) -> None:
        self.c, self.p, self.tiles = c, p, tiles
        self.parts = c.workspace(p.splits, p.terms, p.m, p.n, dtype=f32)

    def tile(self, shape: tuple[int, int], element: Attribute, number: int) -> Tile:
        """The tile with this number; a ring of two where that is 0."""
        key = shape, element, number
        if key not in self.tiles:
            self.tiles[key] = self.c.ub(*shape, element, copies=None if number else 2)
        return self.tiles[key]

    def store(self, split: Scalar, row: Scalar, col: Scalar, sums: Sequence[Tile]) -> None:
        """The sums of a block of each matmul, of a part of the terms."""
        for term, tile in enumerate(sums):
            self.c.store(self.parts[split, term, row:, col:], tile)

    def merged(
        self, elements: Sequence[Attribute], part_cols: int
    ) -> Iterator[tuple[Index, list[Tile]]]:
        """Behind a barrier: columns that are this vector core's, of each matmul as its element
        type, with the first of them; `part_cols` at a time unless that is 0."""
        c, p = self.c, self.p
        unit = BLOCK * 8 // min(8, *map(bitwidth, elements))
        cols = part_cols or align_up(ceil(p.n / c.target.vector_cores), unit)
        part = self.tile((p.m, cols), f32, 0)
        outs = [self.tile((p.m, cols), element, i) for i, element in enumerate(elements, 1)]
        totals = [self.tile((p.m, cols), f32, i) for i, _ in enumerate(elements, 1)]
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(ceil(p.n / cols) - me, all_of_them)):
            col = c.now((me + turn * all_of_them) * cols)
            for term, (total, out) in enumerate(zip(totals, outs, strict=True)):
                c.load(total, self.parts[0, term, 0:, col:], pad=0)
                for split in c.range(1, p.splits):
                    more = c.load(part[split], self.parts[split, term, 0:, col:], pad=0)
                    total[:] = total + more
                if out is not total:
                    out[:] = v.cast(total, out.element)
            yield col, outs


class SharedWave:
    """The blocks that are left where all cores have had `waves` blocks each: `splits` cores have
    the terms of each of them, and their parts are in a workspace."""

    def __init__(self, c: Tracer, p: Matrices, cut: MatmulCut) -> None:
        self.c, self.cut, self.splits = c, cut, p.splits
        self.waves, self.left = cut.waves(p, c.target.cube_cores)
        self.before = self.waves * c.target.cube_cores
        self.parts = c.workspace(p.splits, self.left, cut.m, cut.n, dtype=f32)

    @property
    def count(self) -> int:
        """Of cores that have a part of a block."""
        return self.left * self.splits

    def store(self, split: Scalar, block: Scalar, sums: Tile) -> None:
        """The sums of a block, of a part of the terms."""
        self.c.store(self.parts[split, block, 0:, 0:], sums)

    def merged(self, out: Tile) -> Iterator[tuple[Index, Index, Index]]:
        """Wait for all cores; then the pieces that are this vector core's, in this tile: which
        block it is of, and the piece's row and column in it."""
        c, (rows, cols) = self.c, out.shape
        c.barrier()
        total = out if out.element == f32 else c.ub(rows, cols, f32)
        part = c.ub(rows, cols, f32, copies=2)
        across, down = self.cut.n // cols, self.cut.m // rows
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(self.left * down * across - me, all_of_them)):
            piece = c.now(me + turn * all_of_them)
            block, inside = c.now(piece // (down * across)), c.now(piece % (down * across))
            row, col = c.now(inside // across * rows), c.now(inside % across * cols)
            c.load(total, self.parts[0, block, row:, col:])
            for split in c.range(1, self.splits):
                total[:] = total + c.load(part[split], self.parts[split, block, row:, col:])
            if out is not total:
                out[:] = v.cast(total, out.element)
            yield block, row, col
