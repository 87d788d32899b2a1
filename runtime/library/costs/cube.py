"""Matmuls on the cube: what a tile of one costs, and the tilings that fit on a core.

A cube kernel has tiles of m x n of its result and walks k in steps: operands pass L1, L0A and L0B
(two of each, so that loading overlaps with computing), the result stands in L0C, and the vector
unit takes it through UB for the epilogue. Convolution counts as an implicit matmul with
m = N*OH*OW, n = OC/group, k = IC/group*KH*KW; its windows overlap, and a tile reads each input
element once where the target unfolds windows between L1 and L0A. Matmuls of one operand count as
one, n side by side.

Attention has tiles of m queries by n keys: their scores in L0C beside the m results, never in
memory; k is the step through a head's elements.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from xdsl.dialects.builtin import IntegerAttr, i16
from xdsl.ir import Attribute

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike, AttentionOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.support.access import Access
from ge.dialects.support.element_types import bitwidth, row_of, storage_bytes, ui16
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of
from ge.dialects.support.work import Work
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.around import Arrival, around, arrivals, fixpipe_ops, ops_before
from ge.runtime.library.costs.core_tiles import (
    PASSING_ROWS,
    PROLOGUE_ELEMENTS,
    STATISTICS,
    Footprint,
    bytes_of,
    sum_bytes,
    wider_element,
)
from ge.runtime.library.costs.lanes import lane_operations, lanes_of
from ge.runtime.library.costs.packing import cuts_bytes
from ge.runtime.library.costs.pipes import Pipes, l2_bytes_per_us, store_us
from ge.runtime.library.costs.windows import Windows

# Sizes of tiles that are tried, made smaller until all tiles along an extent are alike; powers of
# two are tried as they are, too.
_TILE_SIZES = tuple(FRACTAL * i for i in (32, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1))


@dataclass(frozen=True, slots=True)
class Matrices:
    """`batch` matmuls of m x k and k x n."""

    batch: int
    m: int
    n: int
    k: int


def matrices(op: TensorOp, macs: int) -> Matrices:
    """The matmuls that an op with `macs` multiply-accumulates comes to."""
    shape = shape_of(op.results[0])
    elements = max(numel(shape), 1)
    k = max(macs // elements, 1)
    group = op.properties.get("group")
    if isinstance(group, IntegerAttr) and len(shape) > 1:
        groups = max(group.value.data, 1)
        n = max(shape[1] // groups, 1)
        return Matrices(groups, max(elements // (n * groups), 1), n, k)
    n = max(shape[-1], 1) if shape else 1
    if len(shape) < 3 or len(op.operands) < 2 or len(shape_of(op.operands[1])) < 3:
        return Matrices(1, max(elements // n, 1), n, k)
    m = max(shape[-2], 1)
    return Matrices(max(elements // (m * n), 1), m, n, k)


def matmuls(body: Body) -> list[tuple[TensorOp, int]]:
    """The ops for the cube, with their multiply-accumulates, the largest first."""
    ops = [(op, body.work_of(op).macs) for op in body.ops]
    return sorted((p for p in ops if p[1]), key=lambda p: -p[1])


def combined(parts: Iterable[tuple[TensorOp, int]]) -> Matrices:
    """All matmuls of a body as one: n side by side where m and k agree, else in a row."""
    shapes = [matrices(op, macs) for op, macs in parts]
    first = shapes[0]
    if all((p.batch, p.m, p.k) == (first.batch, first.m, first.k) for p in shapes):
        return Matrices(first.batch, first.m, sum(p.n for p in shapes), first.k)
    macs = sum(p.batch * p.m * p.n * p.k for p in shapes)
    return Matrices(ceil(macs / (first.m * first.n * first.k)), first.m, first.n, first.k)


def macs_per_cycle(element: Attribute, target: Target) -> float:
    """Multiply-accumulates a cycle a cube core, as large matmuls sustain them."""
    return peak_macs(element, target) * target.cube_efficiency


def peak_macs(element: Attribute, target: Target) -> float:
    """A type the target does not list is scaled from f16 by the square of its width (the area of a
    multiplier)."""
    row = row_of(element)
    if row is not None and row.rate_key in target.macs_per_cycle:
        return float(target.macs_per_cycle[row.rate_key])
    return target.macs_per_cycle["f16"] * (16 / max(bitwidth(element), 16)) ** 2


def power_above(value: int) -> int:
    return 1 << (value - 1).bit_length()


def round_up(value: int, unit: int) -> int:
    return max(unit, -(-value // unit) * unit)


# ---- tilings of matmuls -----------------------------------------------------------------------


@dataclass(frozen=True)
class CubeKernel:
    """What the choice of a tiling for matmuls depends on, and what a tiling costs."""

    target: Target
    p: Matrices
    element: Attribute  # type of the cube's operands
    work: Work
    lhs: Arrival
    rhs: Arrival
    vector: float = 0.0  # element-operations of the epilogue, of 16-bit lanes
    whole_rows: bool = False  # whether the epilogue needs all n of a row at a time
    # What a part of the output tile needs in UB, for what follows the matmuls.
    epilogue: Footprint | None = None
    # What is needed in UB for what the operands of the matmuls are computed from.
    prologue: Footprint | None = None
    windows: Windows | None = None
    halves: int = 1  # of the rate: integers of 16 bits on both sides take twice the passes
    alone: bool = False  # whether one core has all tiles, as they may cut bytes of an output

    @classmethod
    def of(cls, body: Body, target: Target) -> "CubeKernel":
        parts = matmuls(body)
        main, p = parts[0][0], combined(parts)
        element = wider_element(main)
        accumulator = sum_bytes(element)
        ops = [op for op, _ in parts]
        fixpipe = fixpipe_ops(body, ops) if target.fixpipe else None
        prologue, epilogue = around(body, ops, accumulator, fixpipe or {})
        before = lanes_of(body, ops_before(body, ops), target)
        lhs, rhs = arrivals(body, ops, before)
        return cls(
            target,
            p,
            element,
            body.static_work(),
            lhs,
            rhs,
            lane_operations(body, target, fixpipe, without=before),
            any(op.ACCESS is Access.ROWS for op in body.ops),
            epilogue,
            prologue,
            Windows.of(main) if target.unfolds_windows else None,
            2 if all(element_type(v) in (i16, ui16) for v in main.operands[:2]) else 1,
            cuts_bytes(body, ops),
        )

    @cached_property
    def width(self) -> int:
        return storage_bytes(1, self.element)

    @cached_property
    def macs_rate(self) -> float:
        return macs_per_cycle(self.element, self.target) / self.halves

    # ---- which tilings there are ----

    def candidates(self) -> Iterator[tuple[int, int, int]]:
        """Sizes m, n, k of tiles that fit on the core, but for UB: see `fits_ub`."""
        widths, heights = self.sizes(self.p.n), self.sizes(self.p.m)
        if self.whole_rows:
            widths = [round_up(self.p.n, min(self.target.cube_tiles, default=FRACTAL))]
        for n in widths:
            for m in heights:
                for k in self.step_sizes(m, n):
                    yield m, n, k

    def step_sizes(self, m: int, n: int) -> set[int]:
        """Sizes of k for a tile: the largest, and that of the next larger powers of two, with
        which the first operands come sooner."""
        first, powers = self.largest_k(m, n), (power_above(m), power_above(n))
        if not first or powers == (m, n):  # larger tiles do not fit either
            return {first} - {0}
        return {first, self.largest_k(*powers)} - {0}

    def sizes(self, extent: int) -> list[int]:
        """Tile sizes for an extent: those of the target up to the first that holds all of it, or
        multiples of 16 that cut it evenly, and powers of two."""
        if sizes := self.target.cube_tiles:
            return [s for i, s in enumerate(sizes) if not i or sizes[i - 1] < extent]
        most = round_up(extent, FRACTAL)
        even = (ceil(extent / ceil(extent / min(size, most))) for size in _TILE_SIZES)
        powers = (FRACTAL << i for i in range(6) if FRACTAL << i < most)
        return list(dict.fromkeys((*(round_up(size, FRACTAL) for size in even), *powers)))

    def largest_k(self, m: int, n: int) -> int:
        """The largest k whose operand tiles fit twice into L0A, L0B and L1, in whole fractals;
        0 when none does or when the output tile does not fit into L0C."""
        t, twice = self.target, 2 * self.width
        if m * n * self.accumulator > t.l0c_bytes:
            return 0
        most = min(
            t.l0a_bytes // (twice * m), t.l0b_bytes // (twice * n), t.l1_bytes // (twice * (m + n))
        )
        unit = max(FRACTAL, 32 // self.width)
        return min(most // unit * unit, round_up(self.p.k, unit)) if most >= unit else 0

    def fits_ub(self, m: int, n: int, k: int) -> bool:
        """Whether a candidate leaves room in UB for what surrounds the matmuls: also one as large
        as its k is the largest for."""
        sizes = (m, n) if k == self.largest_k(m, n) else (power_above(m), power_above(n))
        return all(self.ub_bytes(*s, 2) <= self.target.ub_bytes for s in {(m, n), sizes})

    @cached_property
    def accumulator(self) -> int:
        return sum_bytes(self.element)

    def own_buffers(self, m: int, n: int, k: int, buffers: int) -> list[tuple[str, str, int, int]]:
        """Memory, name, bytes and copies of the buffers for operands and sum."""
        lhs, rhs = m * k * self.width, k * n * self.width
        return [
            ("l1", "lhs", lhs, buffers),
            ("l1", "rhs", rhs, buffers),
            ("l0a", "lhs", lhs, buffers),
            ("l0b", "rhs", rhs, buffers),
            ("l0c", "sum", m * n * self.accumulator, 1),
        ]

    def parts(self, m: int, n: int) -> list[tuple[Footprint, int, int]]:
        """The footprints in UB, with the elements of their tiles and the columns of those."""
        parts: list[tuple[Footprint, int, int]] = []
        if self.prologue is not None:
            parts.append((self.prologue, PROLOGUE_ELEMENTS, PROLOGUE_ELEMENTS))
        if self.epilogue is not None:
            parts.append((self.epilogue, min(m, PASSING_ROWS) * n, n))
        return parts

    @cached_property
    def _parts_bytes(self) -> dict[tuple[int, int, int], int]:
        return {}  # of `ub_bytes`, by rows, columns and buffers

    def ub_bytes(self, m: int, n: int, buffers: int) -> int:
        align = self.target.core_alignment
        key = min(m, PASSING_ROWS), n, buffers
        if key not in self._parts_bytes:
            self._parts_bytes[key] = sum(
                part.peak(tile, buffers, align, columns) for part, tile, columns in self.parts(m, n)
            )
        return self.own_ub_bytes(m, n, buffers) + self._parts_bytes[key]

    def own_ub_bytes(self, m: int, n: int, buffers: int) -> int:
        return 0

    def on_core(self, m: int, n: int, k: int, buffers: int) -> dict[str, int]:
        used = dict.fromkeys(self.target.core_memories, 0)
        for memory, _, size, copies in self.own_buffers(m, n, k, buffers):
            used[memory] += round_up(size, self.target.core_alignment) * copies
        used["ub"] = self.ub_bytes(m, n, buffers)
        return used

    # ---- what a tiling costs ----

    def tiling(self, m: int, n: int, k: int) -> TilingAttr:
        blocks = self.blocks(m, n)
        return TilingAttr.of((m, n, k), blocks, 2 if self.loads(m, n, k, blocks) > 1 else 1)

    def blocks(self, m: int, n: int) -> int:
        return 1 if self.alone else min(self.target.cube_cores, self.tiles(m, n))

    def cycles(self, m: int, n: int, k: int) -> float:
        """Cycles of the busiest core for its tiles, when loading and computing overlap."""
        tiles = self.tiles(m, n)
        rounds = -(-tiles // min(tiles, self.target.cube_cores))
        return rounds * max(self.tile_cycles(m, n, k), self.tile_load(m, n)[0])

    def loads(self, m: int, n: int, k: int, blocks: int) -> int:
        return ceil(self.tiles(m, n) / blocks) * self.steps(m, n, k)

    def pipes(self, m: int, n: int, k: int, blocks: int, double_buffered: bool) -> Pipes:
        t, tiles = self.target, self.tiles(m, n)
        rounds = ceil(tiles / blocks)
        load, size = self.tile_load(m, n)
        return Pipes(
            cube_us=rounds * (self.tile_cycles(m, n, k) / t.cycles_per_us + t.tile_latency_us),
            vector_us=self.vector_time(m, n, blocks) / t.cycles_per_us,
            load_us=max(rounds * load / t.cycles_per_us, tiles * size / l2_bytes_per_us(blocks, t)),
            store_us=store_us(self.work.written, blocks, t),
            read=self.work.read,
            written=self.work.written,
            l2_bytes=int(tiles * size) + self.work.written,
            loads=rounds * self.steps(m, n, k),
            stores=rounds,
            blocks=blocks,
            double_buffered=double_buffered,
        )

    def vector_time(self, m: int, n: int, blocks: int) -> float:
        """Cycles of the vector cores beside a cube core."""
        t, tiles = self.target, self.tiles(m, n)
        share = ceil(tiles / blocks) / tiles
        lanes = max(t.vector_cores / t.cube_cores, 1 / blocks) * t.vector_lanes
        vector = share * self.vector / lanes
        if self.vector and not t.split_cores:
            vector = max(vector, share * self.work.written / t.l0c_to_ub_rate)
        return vector + share * self.before(m, n) / lanes

    def before(self, m: int, n: int) -> float:
        """Element-operations that compute operands: tiles that share elements compute them
        again."""
        each = self.rows(m) * self.lhs.vector + n * self.p.k * self.rhs.vector
        return self.tiles(m, n) * each

    def tiles(self, m: int, n: int) -> int:
        p = self.p
        return p.batch * -(-p.m // m) * -(-p.n // n)

    def steps(self, m: int, n: int, k: int) -> int:
        """Loads of operands for one tile."""
        return ceil(self.p.k / k)

    def tile_cycles(self, m: int, n: int, k: int) -> float:
        """Cycles of a tile: multiply-accumulates, or filling L0 where that is slower."""
        t = self.target
        depth = -(-self.p.k // k) * k
        feed = self.width * (m / t.l1_to_l0a_rate + n / t.l1_to_l0b_rate)
        return depth * max(m * n / self.macs_rate, feed)

    def rows(self, m: int) -> float:
        """Elements of the left-hand side that a tile loads."""
        if self.windows is not None:
            return self.windows.read(m) * self.p.k / self.windows.taps
        return float(m * self.p.k)

    def tile_load(self, m: int, n: int) -> tuple[float, float]:
        """Cycles and bytes of loading a tile's operands from L2, which holds what tiles share."""
        size = self.rows(m) * self.lhs.bytes + n * self.p.k * self.rhs.bytes
        return max(size, self.target.full_rate_bytes) / self.target.l2_read_rate, size


NOTHING = Arrival(0.0)


@dataclass(frozen=True)
class AttentionKernel(CubeKernel):
    """Attention with online softmax: tiles of m queries, which meet n keys at a time."""

    value: Arrival = NOTHING
    value_size: int = 0
    mask_bytes: int = 0  # bytes of all masks for one score

    @classmethod
    def of(cls, body: Body, target: Target) -> "AttentionKernel":
        op = matmuls(body)[0][0]
        assert isinstance(op, AttentionLike)
        batch, heads, queries, size = op.sizes("query")
        p = Matrices(batch * heads, queries, op.sizes("key")[2], round_up(size, FRACTAL))
        value_size = op.sizes("value")[3] if isinstance(op, AttentionOp) else 0
        value_size = round_up(value_size, FRACTAL) if value_size else 0
        element = element_type(op.query)
        accumulator = sum_bytes(element)
        prologue, epilogue = around(body, [op], accumulator, {})
        # Integers are dequantized for each tile of queries. Other ops count once.
        again = [o for o in ops_before(body, [op]) if isinstance(o, DequantizeOp)]
        before = lanes_of(body, again, target)
        query, key, value = arrivals(body, [op], before, 3)
        return cls(
            target,
            p,
            element,
            body.static_work(),
            query,
            key,
            lane_operations(body, target, without=[*before, op] if target.split_cores else before),
            epilogue=epilogue,
            prologue=prologue,
            value=value,
            value_size=value_size,
            mask_bytes=sum(bytes_of(v) for v in op.masks if numel(shape_of(v)) > 1),
            alone=cuts_bytes(body, [op]),
            whole_rows=isinstance(op, AttentionOp) and op.grid("weight") is not None,
        )

    def before(self, m: int, n: int) -> float:
        keys = self.p.k * self.rhs.vector + self.value_size * self.value.vector
        return self.tiles(m, n) * (m * self.p.k * self.lhs.vector + self.p.n * keys)

    def tiles(self, m: int, n: int) -> int:
        return self.p.batch * -(-self.p.m // m)

    def steps(self, m: int, n: int, k: int) -> int:
        return ceil(self.p.n / n)

    def largest_k(self, m: int, n: int) -> int:
        t, twice = self.target, 2 * self.width
        usage = self.on_core(m, n, FRACTAL, 2)
        if any(usage[name] > limit for name, limit in t.core_memories.items()):
            return 0
        most = min(t.l0a_bytes // (twice * m), t.l0b_bytes // (twice * n))
        unit = max(FRACTAL, 32 // self.width)
        return min(most // unit * unit, round_up(max(self.p.k, self.value_size), unit))

    def own_buffers(self, m: int, n: int, k: int, buffers: int) -> list[tuple[str, str, int, int]]:
        rows, width, wide = min(m, PASSING_ROWS), self.width, self.accumulator
        own = [
            ("l1", "query", m * self.p.k * width, 1),
            ("l1", "key", n * self.p.k * width, buffers),
            ("l1", "value", n * self.value_size * width, buffers),
            ("l1", "weights", m * n * width if self.value_size else 0, buffers),
            ("l0a", "lhs", m * k * width, buffers),
            ("l0b", "rhs", k * n * width, buffers),
            ("l0c", "scores", m * n * wide, 1),
            ("l0c", "sum", m * self.value_size * wide, 1),
            ("ub", "scores", rows * n * wide, buffers),
            ("ub", "weights", rows * n * wide, buffers),
            ("ub", "mask", rows * n * self.mask_bytes, buffers),
            ("ub", "statistics", STATISTICS * m * wide, 1),
            ("ub", "sum", rows * self.value_size * wide, buffers),
        ]
        return [buffer for buffer in own if buffer[2]]

    def own_ub_bytes(self, m: int, n: int, buffers: int) -> int:
        return sum(
            round_up(size, self.target.core_alignment) * copies
            for memory, _, size, copies in self.own_buffers(m, n, FRACTAL, buffers)
            if memory == "ub"
        )

    def parts(self, m: int, n: int) -> list[tuple[Footprint, int, int]]:
        return super().parts(m, self.value_size or n)

    def tile_cycles(self, m: int, n: int, k: int) -> float:
        t, size = self.target, self.p.k + self.value_size
        keys = self.steps(m, n, k) * n
        feed = m * (self.p.k / n + 1) / t.l1_to_l0a_rate + size / t.l1_to_l0b_rate
        return keys * max(m * size / self.macs_rate, self.width * feed)

    def tile_load(self, m: int, n: int) -> tuple[float, float]:
        keys = self.p.k * self.rhs.bytes + self.value_size * self.value.bytes
        size = m * self.p.k * self.lhs.bytes + self.p.n * keys
        return max(size, self.target.full_rate_bytes) / self.target.l2_read_rate, size
