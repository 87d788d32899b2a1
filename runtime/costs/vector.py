"""Kernels of the vector unit: what a tile of one costs, and the tilings that fit on a core.

A vector kernel has tiles of elements of its longest value; UB holds two tiles of what is read and
written, and one of what lives in between (`core_tiles.py`). Where rows do not fit (softmax, norms)
the kernel passes over its inputs again for each statistic that it needs first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil, lcm

from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.pooling import Pooling
from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.access import Access
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.dialects.support.work import Work
from ge.dialects.targets.target import Target
from ge.runtime.costs.core_tiles import Footprint, bits_of, halo
from ge.runtime.costs.cube import round_up
from ge.runtime.costs.instructions import Program, cycles, program_of
from ge.runtime.costs.lanes import lane_width
from ge.runtime.costs.packing import packed_unit
from ge.runtime.costs.pipes import Pipes, l2_bytes_per_us, store_us
from ge.runtime.costs.structure import BODIES, once


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

    def candidates(self) -> Iterator[tuple[int, int]]:
        """Tiles of whole rows that fit into UB twice, and blocks: none without a tile or with less
        than a full-rate transfer, and no smaller tile unless it is all of a block."""
        t, row = self.target, lcm(self.row, self.packed or 1)
        alone = not self.packed or row > max(self.most, self.row)
        row = self.row if alone else row
        unit = row if self.row > 1 else lcm(FRACTAL, row)
        least = max(t.full_rate_bytes // self.width, 1)
        most = max(self.most // unit * unit, row)
        if self.program is not None and self.most == self.elements:
            most = max(self.elements, row)  # rounding down adds a tile, and its starts
        usable = max(1, min(t.vector_cores, ceil(self.elements / max(least, row))))
        usable = 1 if alone else min(usable, self.parts or usable)
        for blocks in dict.fromkeys((usable, min(usable, t.cube_cores), max(usable // 2, 1))):
            share = ceil(self.elements / row / blocks) * row
            parts = (max(ceil(share / n), least) for n in (4, 1, 2, 8, 16, 32))
            for tile in dict.fromkeys(min(most, round_up(size, unit), share) for size in parts):
                yield tile, min(blocks, ceil(self.elements / tile))

    def pipes(self, tile: int, blocks: int, double_buffered: bool) -> Pipes:
        t, work, again = self.target, self.work, self.again
        if again and work.read > t.l2_bytes:
            work, again = work + Work(read=again), 0
        rounds = ceil(self.elements / (blocks * tile))
        vector = self.lane_cycles(blocks) / t.vector_lanes
        load, store = (work.read + again) / l2_bytes_per_us(blocks, t), 0.0
        if (program := self.program) is not None:
            vector += rounds * program.tile_starts(tile) * t.vector_start_cycles
            load = max(load, self.moved_us(work.read + again, tile, blocks, t.gm_to_ub_rate))
            store = self.moved_us(work.written, tile, blocks, t.ub_out_rate)
        return Pipes(
            cube_us=0.0,
            vector_us=vector / t.cycles_per_us,
            load_us=load,
            store_us=max(store, store_us(work.written, blocks, t)),
            read=work.read,
            written=work.written,
            l2_bytes=work.read + again + work.written,
            loads=rounds,
            stores=rounds,
            blocks=blocks,
            double_buffered=double_buffered,
            start_us=t.kernel_start_us.get(self.kind, 0.0),
            in_order=program is not None and program.row_by_row(tile),
        )

    def moved_us(self, size: int, tile: int, blocks: int, rate: float) -> float:
        """Time of a core for its share of what is moved, piece by piece."""
        t, program = self.target, self.program
        assert program is not None
        rounds = ceil(self.elements / (blocks * tile))
        width = self.width / max(program.loads, 1)
        starts = program.pieces(size, tile, width) / blocks + rounds * program.loads
        moved = size / blocks / rate if rate else 0.0
        return (moved + starts * t.mte2_start_cycles) / t.cycles_per_us

    def lane_cycles(self, blocks: int) -> float:
        """Cycles of one lane on each core. Each core computes its own part of a short value that is
        broadcast."""
        return sum(
            operations * min(1.0, self.elements / (blocks * size))
            for operations, size in self.operations
        )


@lru_cache(maxsize=8192)
def vector_tiling(shape: VectorShape) -> TilingAttr:
    """The fastest tiling; the first of those that tie."""
    best, fastest = float("inf"), (1, 1, False)
    for tile, blocks in shape.candidates():
        double = tile * blocks < shape.elements
        total = shape.pipes(tile, blocks, double).time(shape.target).total_us
        if total < best * (1 - 1e-9):
            best, fastest = total, (tile, blocks, double)
    tile, blocks, double = fastest
    return TilingAttr.of((tile,), blocks, 2 if double else 1)


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
            counted = [cycles(self.body, op, t) for op in self.body.ops]
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
