"""How a kernel is cut into tiles that fit on the core, for the cost model and for the compiler.

A cube kernel has tiles of m x n of its result and walks k in steps: operands pass L1, L0A and L0B
(two of each, so that loading overlaps with computing), the result stands in L0C, and the vector
unit takes it through UB for the epilogue. Convolution counts as an implicit matrix product with
m = N*OH*OW, n = OC/group, k = IC/group*KH*KW. Products of one operand count as one, n side by side.

Attention has tiles of m queries by n keys: their scores in L0C beside the m results, never in
memory; k is the step through a head's elements.

A vector kernel has tiles of elements of its longest value; UB holds two tiles of what is read and
written, and one of what lives in between. Where rows do not fit (softmax, norms) the kernel passes
over its inputs again for each statistic that it needs first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike, AttentionOp
from ge.dialects.interfaces import Access, TensorOp, Work
from ge.dialects.npu_task import Engine, TilingAttr
from ge.dialects.target import Target
from ge.dialects.types import bitwidth, element_type, numel, shape_of

FRACTAL = 16
"""The cube's operands come in blocks of 16 x 16."""

_ACCUMULATOR_BYTES = 4
_EPILOGUE_ROWS = 16
"""Rows of an output tile that the vector unit takes from L0C at a time."""

_SOFTMAX_BYTES = 8
"""Bytes in UB for each score of a block: the score and its exponential."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """`batch` products of m x k and k x n matrices."""

    batch: int
    m: int
    n: int
    k: int

    def tiles(self, m: int, n: int) -> int:
        return self.batch * -(-self.m // m) * -(-self.n // n)


def matrices(op: TensorOp, macs: int) -> Matrices:
    """The matrix products that an op with `macs` multiply-accumulates comes to."""
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


def products(body: Body) -> list[tuple[TensorOp, int]]:
    """The ops of a body for the cube, with their multiply-accumulates; the largest first."""
    found = [(op, body.work_of(op).macs) for op in body.ops]
    return sorted((p for p in found if p[1]), key=lambda p: -p[1])


def combined(body: Body) -> Matrices:
    """All products of a body as one: n side by side where m and k agree, else in a row."""
    parts = [matrices(op, macs) for op, macs in products(body)]
    first = parts[0]
    if all((p.batch, p.m, p.k) == (first.batch, first.m, first.k) for p in parts):
        return Matrices(first.batch, first.m, sum(p.n for p in parts), first.k)
    macs = sum(p.batch * p.m * p.n * p.k for p in parts)
    return Matrices(ceil(macs / (first.m * first.n * first.k)), first.m, first.n, first.k)


def macs_per_cycle(element: Attribute, target: Target) -> float:
    """Multiply-accumulates a cycle a cube core. A type the target does not list is scaled from
    f16 by the square of its width (the area of a multiplier)."""
    name = str(element).removeprefix("u").removeprefix("s")
    if name in target.macs_per_cycle:
        return target.macs_per_cycle[name]
    return target.macs_per_cycle["f16"] * (16 / max(bitwidth(element), 16)) ** 2


def _bytes(value: SSAValue) -> int:
    return bitwidth(element_type(value)) // 8


def _sizes(extent: int, most: int) -> Iterator[int]:
    """Tile sizes for an extent: multiples of 16 that cut it evenly, at most `most`."""
    seen = 0
    size = min(most, _round_up(extent, FRACTAL))
    while size >= FRACTAL:
        even = _round_up(ceil(extent / ceil(extent / size)), FRACTAL)
        if even != seen:
            yield even
        seen = even
        size = _round_up(size // 2, FRACTAL) if size > FRACTAL else 0


def _round_up(value: int, unit: int) -> int:
    return max(unit, -(-value // unit) * unit)


# ---- products of matrices ----------------------------------------------------------------------


@dataclass(frozen=True)
class CubeKernel:
    """The choice of a tiling for products, and what a tile of it costs."""

    target: Target
    p: Matrices
    element: Attribute
    """Type of the cube's operands."""
    whole_rows: bool = False
    """Whether the epilogue needs all n of a row at a time."""
    epilogue_bytes: int = 0
    """Bytes in UB for each element of the output tile; 0 without an epilogue."""

    @classmethod
    def of(cls, body: Body, target: Target) -> "CubeKernel":
        main = products(body)[0][0]
        alone = len(body.ops) == 1 and not body.work_of(body.ops[0]).vector
        return cls(
            target,
            combined(body),
            element_type(main.operands[0]),
            any(op.ACCESS is Access.ROWS for op in body.ops),
            0 if alone else _epilogue_bytes(body),
        )

    @property
    def width(self) -> int:
        return bitwidth(self.element) // 8

    @cached_property
    def macs_rate(self) -> float:
        return macs_per_cycle(self.element, self.target)

    def choose(self) -> TilingAttr:
        """The tile with the fewest cycles that fits, cut in blocks for the cores."""
        best: tuple[float, int, int, int] | None = None
        widths = [_round_up(self.p.n, FRACTAL)] if self.whole_rows else _sizes(self.p.n, 512)
        for n in widths:
            for m in _sizes(self.p.m, 512):
                if k := self.largest_k(m, n):
                    cycles = self.cycles(m, n, k)
                    if best is None or cycles < best[0]:
                        best = (cycles, m, n, k)
        # No tile fits where the epilogue has more operands than UB holds: take the smallest.
        _, m, n, k = best or (0.0, FRACTAL, FRACTAL, FRACTAL)
        tiles = self.tiles(m, n)
        blocks = min(self.target.cube_cores, tiles)
        steps = ceil(tiles / blocks) * self.steps(m, n, k)
        return TilingAttr.of((m, n, k), blocks, 2 if steps > 1 and best else 1)

    def largest_k(self, m: int, n: int) -> int:
        """The largest k whose operand tiles fit twice into L0A, L0B and L1, in whole fractals;
        0 when none does or when the output tile does not fit into L0C or UB."""
        t, twice = self.target, 2 * self.width
        if m * n * self.accumulator > t.l0c_bytes:
            return 0
        if 2 * min(m, _EPILOGUE_ROWS) * n * self.epilogue_bytes > t.ub_bytes:
            return 0
        most = min(
            t.l0a_bytes // (twice * m), t.l0b_bytes // (twice * n), t.l1_bytes // (twice * (m + n))
        )
        unit = max(FRACTAL, 32 // self.width)
        return min(most // unit * unit, _round_up(self.p.k, unit))

    @property
    def accumulator(self) -> int:
        return max(_ACCUMULATOR_BYTES, self.width)

    def on_core(self, m: int, n: int, k: int, buffers: int) -> dict[str, int]:
        rows = min(m, _EPILOGUE_ROWS)
        return {
            "l1": (m + n) * k * self.width * buffers,
            "l0a": m * k * self.width * buffers,
            "l0b": k * n * self.width * buffers,
            "l0c": m * n * self.accumulator,
            "ub": rows * n * self.epilogue_bytes * buffers,
        }

    def cycles(self, m: int, n: int, k: int) -> float:
        """Cycles of the busiest core when loading and computing overlap."""
        tiles = self.tiles(m, n)
        rounds = -(-tiles // min(tiles, self.target.cube_cores))
        return rounds * max(self.tile_cycles(m, n, k), self.tile_load_cycles(m, n))

    def tiles(self, m: int, n: int) -> int:
        return self.p.tiles(m, n)

    def steps(self, m: int, n: int, k: int) -> int:
        """Loads of operands for one tile."""
        return ceil(self.p.k / k)

    def tile_cycles(self, m: int, n: int, k: int) -> float:
        """Cycles of a tile: multiply-accumulates, or filling L0 where that is slower."""
        t = self.target
        depth = -(-self.p.k // k) * k
        feed = self.width * (m / t.l1_to_l0a_rate + n / t.l1_to_l0b_rate)
        return depth * max(m * n / self.macs_rate, feed)

    def tile_load_cycles(self, m: int, n: int) -> float:
        """Cycles of loading a tile's operands from L2, which holds what tiles share."""
        size = (m + n) * self.p.k * self.width
        return max(size, self.target.full_rate_bytes) / self.target.l2_read_rate


def _epilogue_bytes(body: Body) -> int:
    """Bytes in UB for each element of a product while the epilogue runs: the accumulator, what it
    reads of the same size, and the results."""
    mains = [op for op, _ in products(body)]
    elements = sum(numel(shape_of(r)) for op in mains for r in op.results)
    operands = {v for op in mains for v in op.operands}
    moved = sum(
        numel(shape_of(v)) * _bytes(v)
        for v in body.inputs
        if v not in operands and 4 * numel(shape_of(v)) >= elements
    )
    written = sum(numel(shape_of(v)) * _bytes(v) for v in body.outputs)
    return _ACCUMULATOR_BYTES + ceil((moved + written) / max(elements, 1))


@dataclass(frozen=True)
class AttentionKernel(CubeKernel):
    """Attention with online softmax: tiles of m queries, which meet n keys at a time."""

    value_size: int = 0

    @classmethod
    def of(cls, body: Body, target: Target) -> "AttentionKernel":
        """The sizes of the first attention in a body."""
        op = products(body)[0][0]
        assert isinstance(op, AttentionLike)
        batch, heads, queries, size = op.sizes("query")
        p = Matrices(batch * heads, queries, op.sizes("key")[2], size)
        value_size = op.sizes("value")[3] if isinstance(op, AttentionOp) else 0
        return cls(target, p, element_type(op.query), value_size=value_size)

    def tiles(self, m: int, n: int) -> int:
        return self.p.tiles(m, self.p.n)

    def steps(self, m: int, n: int, k: int) -> int:
        return ceil(self.p.n / n)

    def largest_k(self, m: int, n: int) -> int:
        t, twice = self.target, 2 * self.width
        usage = self.on_core(m, n, FRACTAL, 2)
        if any(usage[name] > limit for name, limit in limits(t).items()):
            return 0
        most = min(t.l0a_bytes // (twice * m), t.l0b_bytes // (twice * n))
        unit = max(FRACTAL, 32 // self.width)
        return min(most // unit * unit, _round_up(max(self.p.k, self.value_size), unit))

    def on_core(self, m: int, n: int, k: int, buffers: int) -> dict[str, int]:
        rows = min(m, _EPILOGUE_ROWS)
        size = self.p.k + self.value_size
        return {
            "l1": (m * self.p.k + n * size * buffers) * self.width,
            "l0a": m * k * self.width * buffers,
            "l0b": k * n * self.width * buffers,
            "l0c": m * (n + self.value_size) * self.accumulator,
            "ub": rows * (n * _SOFTMAX_BYTES + self.value_size * self.accumulator) * buffers,
        }

    def tile_cycles(self, m: int, n: int, k: int) -> float:
        t, size = self.target, self.p.k + self.value_size
        keys = self.steps(m, n, k) * n
        feed = m * (self.p.k / n + 1) / t.l1_to_l0a_rate + size / t.l1_to_l0b_rate
        return keys * max(m * size / self.macs_rate, self.width * feed)

    def tile_load_cycles(self, m: int, n: int) -> float:
        size = (m * self.p.k + self.p.n * (self.p.k + self.value_size)) * self.width
        return max(size, self.target.full_rate_bytes) / self.target.l2_read_rate


def cube_kernel(body: Body, target: Target) -> CubeKernel:
    main = products(body)[0][0]
    return (AttentionKernel if isinstance(main, AttentionLike) else CubeKernel).of(body, target)


@lru_cache(maxsize=4096)
def cube_tiling(kernel: CubeKernel) -> TilingAttr:
    """The tiling with the least time."""
    return kernel.choose()


# ---- vector kernels ----------------------------------------------------------------------------


class VectorKernel:
    """The choice of a tiling for ops of the vector unit."""

    def __init__(self, body: Body, target: Target) -> None:
        self.body, self.target = body, target
        self.read = {v: size // _bytes(v) for v, size in body.bytes_read().items()}
        """Elements of each input that are needed."""

    @cached_property
    def elements(self) -> int:
        """Elements of the longest value."""
        inner = [numel(shape_of(r)) for op in self.body.ops for r in op.results]
        return max(1, *self.read.values(), *inner)

    @cached_property
    def width(self) -> int:
        """Bytes in UB for each element of the longest value."""
        moved = sum(n * _bytes(v) for v, n in self.read.items())
        moved += sum(numel(shape_of(v)) * _bytes(v) for v in self.body.outputs)
        between = _peak_between(self.body)
        return max(ceil((moved + between / 2) / self.elements), 1)

    @cached_property
    def passes(self) -> int:
        """How often the inputs are read: once when rows fit on the core, else again for each
        statistic of a row that other elements of the row need."""
        rows = [r.length for op in self.body.ops if (r := op.rows()) is not None]
        if not rows or 2 * max(rows) * self.width <= self.target.ub_bytes:
            return 1
        return _passes(self.body)

    def choose(self) -> TilingAttr:
        """Blocks of at least a full-rate transfer, and tiles of a quarter of them that fit into
        UB."""
        t = self.target
        least = max(t.full_rate_bytes // self.width, 1)
        blocks = max(1, min(t.vector_cores, ceil(self.elements / least)))
        share = ceil(self.elements / blocks)
        most = max(t.ub_bytes // (2 * self.width) // FRACTAL * FRACTAL, 1)
        tile = min(most, max(_round_up(ceil(share / 4), FRACTAL), least), max(share, 1))
        return TilingAttr.of((tile,), blocks, 2 if tile < share else 1)

    def operations(self, blocks: int) -> float:
        """Cycles of one lane of 16 bits on each of the cores. Of a short value that is broadcast
        each core computes what its tiles need."""
        total = 0.0
        for op in self.body.ops:
            work = self.body.work_of(op)
            size = max(numel(shape_of(v)) for v in op.results) if op.results else 1
            if op.ACCESS is Access.ROWS:
                size = max(size, numel(shape_of(op.operands[0])))
            share = min(1.0, self.elements / (blocks * max(size, 1)))
            wide = max(bitwidth(element_type(op.results[0])), 16) / 16
            total += (work.vector + work.macs) * wide * share
        return total


def _peak_between(body: Body) -> int:
    """The most bytes that values inside a body, neither read nor written, take at one time."""
    outside = {*body.inputs, *body.outputs}
    last = {v: i for i, op in enumerate(body.ops) for v in op.operands}
    ends: dict[int, int] = {}
    live = peak = 0
    for i, op in enumerate(body.ops):
        if op.ACCESS is not Access.VIEW:
            for r in op.results:
                if r not in outside:
                    size = numel(shape_of(r)) * _bytes(r)
                    live += size
                    ends[last.get(r, i)] = ends.get(last.get(r, i), 0) + size
        dying = ends.pop(i, 0)
        peak = max(peak, live - (dying if op.ACCESS is Access.POINTWISE else 0))
        live -= dying
    return peak


def _passes(body: Body) -> int:
    """Passes over rows that do not fit. A statistic of rows is complete after a pass; what needs
    it and elements of the rows is computed in the next one."""
    rows: dict[SSAValue, int] = {v: 1 for v in body.inputs if numel(shape_of(v)) > 1}
    statistics: dict[SSAValue, int] = {}
    for op in body.ops:
        now = max((rows[v] for v in op.operands if v in rows), default=0)
        done = max((statistics[v] for v in op.operands if v in statistics), default=0)
        if op.ACCESS is Access.ROWS:
            size = numel(shape_of(op.operands[0]))
            short = all(numel(shape_of(r)) < size for r in op.results)
            now = max(now, done + 1)
            (statistics if short else rows).update(
                (r, now if short else now + 1) for r in op.results
            )
        elif now:
            rows.update((r, max(now, done + 1)) for r in op.results)
        else:
            statistics.update((r, done) for r in op.results)
    return max((rows.get(v, statistics.get(v, 1)) for v in body.outputs), default=1)


# ---- either ------------------------------------------------------------------------------------


def static_work(body: Body) -> Work | None:
    """The work of a body whose values have static shapes, else None."""
    return body.work() if body.is_static else None


def choose_tiling(op: TensorOp | Body, engine: Engine, target: Target) -> TilingAttr | None:
    """The tiling with the least time by the cost model among those that fit on the core; None
    for dynamic shapes and for engines that do not tile."""
    body = Body.of(op)
    if static_work(body) is None or engine not in (Engine.CUBE, Engine.VECTOR):
        return None
    if engine is Engine.CUBE and products(body):
        return cube_tiling(cube_kernel(body, target))
    return VectorKernel(body, target).choose()


def on_core_bytes(op: TensorOp | Body, tiling: TilingAttr, target: Target) -> dict[str, int]:
    """Bytes that one core needs in each of its memories: l1, l0a, l0b, l0c, ub."""
    body, buffers = Body.of(op), tiling.buffers.data
    if len(tiling.sizes) == 3:
        return cube_kernel(body, target).on_core(*tiling.sizes, buffers)
    width = VectorKernel(body, target).width
    return {"l1": 0, "l0a": 0, "l0b": 0, "l0c": 0, "ub": tiling.sizes[0] * width * buffers}


def limits(target: Target) -> dict[str, int]:
    """Bytes of each memory of a core."""
    return {
        "l1": target.l1_bytes,
        "l0a": target.l0a_bytes,
        "l0b": target.l0b_bytes,
        "l0c": target.l0c_bytes,
        "ub": target.ub_bytes,
    }


def fits(usage: dict[str, int], target: Target) -> bool:
    """Whether the on-core bytes of a tiling are within the target's."""
    return all(usage[name] <= limit for name, limit in limits(target).items())
