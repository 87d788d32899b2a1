"""Kernels of the vector unit: what a tile of one costs, and the tilings that fit on a core.

A vector kernel has tiles of elements of its longest value; UB holds two tiles of what is read and
written, and one of what lives in between (`core_tiles.py`). Where rows do not fit (softmax, norms)
the kernel passes over its inputs again for each statistic that it needs first.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil, lcm

from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.pooling import Pooling
from ge.dialects.support.access import Access
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.dialects.support.work import Work
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.core_tiles import Footprint, bits_of, halo
from ge.runtime.library.costs.cube import round_up
from ge.runtime.library.costs.instructions import Program, cycles, program_of
from ge.runtime.library.costs.lanes import lane_width
from ge.runtime.library.costs.packing import packed_unit
from ge.runtime.library.costs.pipes import Pipes, l2_bytes_per_us, scaled, store_us
from ge.runtime.library.costs.structure import BODIES, once


@dataclass(frozen=True, slots=True)
class VectorShape:
    """What the choice of a tiling depends on, and what a tiling costs."""

    target: Target
    elements: int  # elements of the longest value, which tiles cut
    width: int  # bytes that are moved for each of them
    most: int  # elements of the largest tile that fits into UB twice
    work: Work
    again: int  # bytes that are read from L2 again, for rows that do not fit on the core
    # For each op the element-operations of 16-bit lanes, and the elements that it computes.
    operations: tuple[tuple[float, int], ...]
    row: int = 1  # elements that a tile holds together: a row, where rows stay on the core
    # Blocks at most, where an op may need any element of a part (see `Body.whole_parts`).
    parts: int | None = None
    packed: int = 1  # see `packed_unit`
    program: Program | None = None  # where the target states cycles of instructions
    kind: str = "vector"  # of kernel, for its start
    whole: int = 0  # bytes of what is read that each block needs all of

    @property
    def alone(self) -> bool:
        """Whether one core writes all: see `packed_unit`."""
        return not self.packed or lcm(self.row, self.packed) > max(self.most, self.row)

    @property
    def run(self) -> int:
        """Elements that no tile but the last one cuts: rows, and whole bytes of what is packed."""
        return self.row if self.alone else lcm(self.row, self.packed)

    @property
    def unit(self) -> int:
        """Elements that take as long as fewer of them: rows, or a repeat of the vector unit, but
        where none fits."""
        if self.row > 1:
            return self.run
        unit = lcm(FRACTAL if self.program is None else self.program.repeat, self.run)
        fits = min(unit, self.elements) <= self.most
        return unit if fits else max(self.most // self.run, 1) * self.run

    def pipes(self, tile: int, blocks: int, double_buffered: bool) -> Pipes:
        """What the busiest core does: where the target states instructions, whole rounds of tiles,
        the last of which is as long as the others and shares what they share."""
        t, work, again, program = self.target, self.work, self.again, self.program
        if again and work.read > t.l2_bytes:
            work, again = work + Work(read=again), 0
        rounds = ceil(self.elements / (blocks * tile))
        share, transfers, starts = (self.elements, blocks), 1, 0.0
        loaded = stored = (1, 1)
        if program is not None:
            whole = min(round_up(tile, self.unit), self.elements)
            share, transfers = (rounds * whole, 1), rounds
            loaded, stored = self.loaded(share[0], blocks), (blocks * share[0], self.elements)
            starts = rounds * program.tile_starts(tile) * t.vector_start_cycles
        vector = self.lane_cycles(*share) / t.vector_lanes + starts
        size_in, size_out = scaled(work.read + again, loaded), scaled(work.written, stored)
        load = size_in / l2_bytes_per_us(blocks, t)
        store = store_us(size_out, blocks, t, transfers)
        if program is not None:
            load = max(load, self.moved_us(size_in / blocks, tile, rounds, t.gm_to_ub_rate))
            store = max(store, self.moved_us(size_out / blocks, tile, rounds, t.ub_out_rate))
        return Pipes(
            cube_us=0.0,
            vector_us=vector / t.cycles_per_us,
            load_us=load,
            store_us=store,
            read=work.read,
            written=work.written,
            l2_bytes=work.read + again + work.written,
            loads=rounds,
            stores=rounds,
            blocks=blocks,
            double_buffered=double_buffered,
            start_us=t.kernel_start_us.get(self.kind, 0.0),
            in_order=program is not None and program.row_by_row(tile),
            loaded=loaded,
            stored=stored,
            transfers=transfers,
        )

    def loaded(self, share: int, blocks: int) -> tuple[int, int]:
        """Bytes that blocks with so many elements load, over those that are read. What all of them
        need crosses HBM once, but none has it sooner than a core alone would."""
        size, own = self.elements, self.work.read - self.whole
        together = blocks * share * own + size * self.whole
        alone = share * own + size * self.whole
        at_least = min(blocks, self.target.cube_cores) * alone
        return max(together, at_least, 1), max(size * self.work.read, 1)

    def moved_us(self, size: float, tile: int, rounds: int, rate: float) -> float:
        """Time of a core for the bytes that it moves, piece by piece."""
        t, program = self.target, self.program
        assert program is not None
        width = self.width / max(program.loads, 1)
        pieces = program.pieces(size, tile, width)
        moved = max(size / rate if rate else 0.0, pieces * t.mte2_piece_cycles)
        return (moved + rounds * program.loads * t.mte2_start_cycles) / t.cycles_per_us

    def lane_cycles(self, elements: int, cores: int) -> float:
        """Cycles of one lane on each of the cores that share so many elements. Each core computes
        its own part of a short value that is broadcast."""
        return sum(
            operations * min(1.0, elements / (cores * size)) for operations, size in self.operations
        )


class VectorKernel:
    def __init__(self, body: Body, target: Target) -> None:
        self.body, self.target = body, target
        # Elements of each input that are needed.
        self.read = {v: 8 * size // bits_of(v) for v, size in body.bytes_read().items()}

    @cached_property
    def elements(self) -> int:
        inner = [numel(shape_of(r)) for op in self.body.ops for r in op.results]
        return max(1, *self.read.values(), *inner)

    @cached_property
    def width(self) -> int:
        moved = sum(n * bits_of(v) for v, n in self.read.items())
        moved += sum(numel(shape_of(v)) * bits_of(v) for v in self.body.outputs)
        return max(ceil(moved / (8 * self.elements)), 1)

    @cached_property
    def footprint(self) -> Footprint:
        whole_rows = self.row > 1
        if self.parts is not None:
            return self.whole
        if self.lengths or any(op.ACCESS is Access.WINDOW for op in self.body.ops):
            stay = Footprint.of(self.body, self.elements, whole_rows=whole_rows)
            longest = self.row if whole_rows else max(self.lengths, default=1)
            if stay.peak(longest, 2, self.target.core_alignment) <= self.target.ub_bytes:
                return stay
        return Footprint.of(self.body, self.elements, rows_stay=False)

    @property
    def whole(self) -> Footprint:
        """For parts of which any element may be needed: they stay if they fit, twice where a block
        has several."""
        assert self.parts is not None
        footprint = Footprint.of(self.body, self.elements, rows_stay=False)
        buffers = 1 if self.parts == 1 else 2
        align = self.target.core_alignment
        stays = footprint.peak(self.elements // self.parts, buffers, align) <= self.target.ub_bytes
        return replace(footprint, rows_stay=stays)

    @cached_property
    def parts(self) -> int | None:
        return self.body.whole_parts()

    def on_core(self, tile: int, buffers: int) -> int:
        return self.footprint.peak(tile, buffers, self.target.core_alignment)

    @cached_property
    def passes(self) -> int:
        """How often the inputs are read: once when rows fit on the core, else again for each
        statistic that other elements of the row need, and twice where any element of a part may be
        needed (an assumption: for a global norm it is right)."""
        if self.rows_fit:
            return 1
        return _passes(self.body) if self.parts is None else 2

    @cached_property
    def lengths(self) -> list[int]:
        return [r.length for op in self.body.ops if (r := rows_of(op)) is not None]

    @property
    def rows_fit(self) -> bool:
        return not (self.lengths or self.parts) or self.footprint.rows_stay

    @cached_property
    def row(self) -> int:
        """Elements of the longest rows, or parts, that the longest value is cut into; 1 without."""
        if self.parts is not None:
            return self.elements // self.parts
        rows = (rows_of(op) for op in self.body.ops)
        whole = (r.length for r in rows if r is not None and r.count * r.length == self.elements)
        return max(whole, default=1)

    @property
    def most(self) -> int:
        """Elements that a tile may have: where rows and windows pass in parts, fewer than one of
        them."""
        if self.footprint.rows_stay:
            return self.elements
        limits = [self.elements]
        for op in self.body.ops:
            if (rows := rows_of(op)) is not None:
                limits.append((rows.length - 1) * self.elements // max(rows.count * rows.length, 1))
            elif isinstance(op, Pooling):
                size = max(numel(shape_of(op.operands[0])), 1)
                limits.append((halo(op) - 1) * self.elements // size)
        return max(min(limits), 1)

    @property
    def shape(self) -> VectorShape:
        work = self.body.static_work()
        t = self.target
        if t.vector_cycles:
            counted = (each for op in self.body.ops for each in cycles(self.body, op, t))
            operations = tuple((count * t.vector_lanes, size) for count, size in counted)
        else:
            operations = tuple(_operations(self.body, op) for op in self.body.ops)
        again = work.read * (self.passes - 1)
        row = self.row if self.rows_fit else 1
        most = self.footprint.largest(t.ub_bytes, t.core_alignment, self.most)
        return VectorShape(
            t, self.elements, self.width, most, work, again, operations, row, self.parts,
            packed_unit(self.body, self.elements),
            program_of(self.body, self.line, t) if t.vector_cycles else None,
            "row" if self.lengths or self.parts is not None else "vector",
            min(self.footprint.whole_bytes, work.read),
        )  # fmt: skip

    @property
    def line(self) -> int:
        """Elements of the longest rows that lie next to each other; 1 without."""
        rows = (rows_of(op) for op in self.body.ops)
        return max((r.length for r in rows if r is not None and r.contiguous), default=1)


@lru_cache(maxsize=BODIES)
def vector_kernel(body: Body, target: Target) -> VectorKernel:
    return VectorKernel(body, target)


@once
def vector_shape(op: TensorOp | Body, target: Target) -> VectorShape:
    return vector_kernel(Body.of(op), target).shape


def _operations(body: Body, op: TensorOp) -> tuple[float, int]:
    work = body.work_of(op)
    size = max(numel(shape_of(v)) for v in op.results) if op.results else 1
    if op.ACCESS is Access.ROWS:
        size = max(size, numel(shape_of(op.operands[0])))
    return (work.vector + work.macs) * lane_width(op), max(size, 1)


def _passes(body: Body) -> int:
    """Passes over rows that do not fit. A statistic of rows is complete after a pass; what needs
    it and elements of the rows is computed in the next one."""
    rows: dict[SSAValue, int] = {v: 1 for v in body.inputs if numel(shape_of(v)) > 1}
    statistics: dict[SSAValue, int] = {}
    for op in body.ops:
        now = max((rows[v] for v in op.operands if v in rows), default=0)
        ready = max((statistics[v] for v in op.operands if v in statistics), default=0)
        if op.ACCESS is Access.ROWS:
            size = numel(shape_of(op.operands[0]))
            short = all(numel(shape_of(r)) < size for r in op.results)
            now = max(now, ready + 1)
            (statistics if short else rows).update(
                (r, now if short else now + 1) for r in op.results
            )
        elif now:
            rows.update((r, max(now, ready + 1)) for r in op.results)
        else:
            statistics.update((r, ready) for r in op.results)
    return max((rows.get(v, statistics.get(v, 1)) for v in body.outputs), default=1)
