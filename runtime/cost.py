"""How long one launch takes: one model for the compiler, which picks tilings, and for the clock.

A kernel is cut into tiles, `blocks` cores work through them side by side. Each tile passes four
pipes: *in* (HBM or L2 to the core), *cube*, *vector*, *out* (core to HBM). With two buffers the
pipes overlap and the slowest one sets the pace; with one buffer their times add up.

    double-buffered   total = max(cube, vector, in, out, HBM) + ramp
    single buffer     total = max(cube + vector + in + out, HBM) + ramp

- cube: macs of whole tiles on the busiest core / macs per cycle of the element type, and not
  faster than L1 feeds L0A and L0B. Convolution counts as an implicit matrix product with
  m = N*OH*OW, n = OC/group, k = IC/group*KH*KW.
- vector: element-operations / lanes; an element wider than 16 bits takes a lane for each 16 bits.
  Behind a cube kernel the vector cores of the same cluster work on its output tile.
- in: bytes that cross HBM once, and tile traffic from L2 where tiles read the same data again.
- out: result bytes, through the path out of the core.
- HBM: reads and writes together share `hbm_rate` of the cores used (at most of all cube cores).
- A transfer below `full_rate_bytes` takes the time of one of that size.
- ramp: the first tile's load and the last tile's store, which nothing hides.
- host: the control processor, one element-operation a nanosecond.

The structure (pipes, double buffering, bound by the slowest pipe) is the roofline model
(Williams, Waterman, Patterson, CACM 52(4), 2009) applied to each pipe; the rates come from the
target file, which gives their sources. Limits: data that the previous task left in L2 is
read from HBM again; reads of one task beyond the size of L2 count once; bank conflicts, strided
access and instruction issue are not modelled. Launch costs are the clock's, not part of this.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute

from ge.dialects.fused_op import FusedOp
from ge.dialects.interfaces import TensorOp, Work
from ge.dialects.npu_task import Engine, TilingAttr, is_dynamic
from ge.dialects.target import Target
from ge.dialects.types import bitwidth, element_type, numel, shape_of

HOST_OPS_PER_US = 1000.0
"""Element-operations of the control processor in a microsecond. Not published: an assumption."""

FRACTAL = 16
"""The cube's operands come in blocks of 16 x 16."""

_ACCUMULATOR_BYTES = 4
_EPILOGUE_ROWS = 16
"""Rows of an output tile that the vector unit takes from L0C at a time."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One launch alone on the machine, in microseconds, without its launch cost."""

    cube_us: float = 0.0
    vector_us: float = 0.0
    in_us: float = 0.0
    out_us: float = 0.0
    ramp_us: float = 0.0
    total_us: float = 0.0
    bytes: int = 0
    """Bytes that cross HBM, read and written."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """`batch` products of m x k and k x n matrices."""

    batch: int
    m: int
    n: int
    k: int

    def tiles(self, m: int, n: int) -> int:
        return self.batch * -(-self.m // m) * -(-self.n // n)


def static_work(op: TensorOp) -> Work | None:
    """The work of an op whose operands and results have static shapes, else None."""
    if any(is_dynamic(v.type) for v in (*op.operands, *op.results)):
        return None
    return op.work()


def compute_op(op: TensorOp) -> TensorOp:
    """The op that decides on the tiling: the one with the most work of a fused op, else op."""
    if not isinstance(op, FusedOp):
        return op
    return max(op.members, key=lambda o: ((w := o.static_work()).macs, w.vector))


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


def macs_per_cycle(element: Attribute, target: Target) -> float:
    """Multiply-accumulates a cycle a cube core. A type the target does not list is scaled from
    f16 by the square of its width (the area of a multiplier)."""
    name = str(element).removeprefix("u").removeprefix("s")
    if name in target.macs_per_cycle:
        return target.macs_per_cycle[name]
    return target.macs_per_cycle["f16"] * (16 / max(bitwidth(element), 16)) ** 2


def lanes(element: Attribute, target: Target) -> float:
    """Elements a cycle a vector core."""
    return target.vector_lanes * 16 / max(bitwidth(element), 16)


# ---- tilings ---------------------------------------------------------------------------------


def choose_tiling(op: TensorOp, engine: Engine, target: Target) -> TilingAttr | None:
    """The tiling with the least time by this model among those that fit on the core; None for
    dynamic shapes and for engines that do not tile."""
    work = static_work(op)
    if work is None or engine not in (Engine.CUBE, Engine.VECTOR):
        return None
    if engine is Engine.CUBE and work.macs:
        return _cube_tiling(op, work, target)
    return _vector_tiling(op, target)


def _cube_tiling(op: TensorOp, work: Work, target: Target) -> TilingAttr:
    main = compute_op(op)
    p = matrices(main, work.macs)
    kernel = _CubeKernel.of(op, main, work, target)
    best: tuple[float, int, int, int] | None = None
    for n in _sizes(p.n, 512):
        for m in _sizes(p.m, 512):
            if k := kernel.largest_k(m, n, p.k):
                cycles = kernel.cycles(p, m, n, k)
                if best is None or cycles < best[0]:
                    best = (cycles, m, n, k)
    # No tile fits where the epilogue has more operands than UB holds: take the smallest.
    _, m, n, k = best or (0.0, FRACTAL, FRACTAL, FRACTAL)
    tiles = p.tiles(m, n)
    blocks = min(target.cube_cores, tiles)
    steps = ceil(tiles / blocks) * ceil(p.k / k)
    return TilingAttr.of((m, n, k), blocks, 2 if steps > 1 and best else 1)


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


@dataclass(frozen=True, slots=True)
class _CubeKernel:
    """What the choice of a cube tiling looks at, computed once."""

    target: Target
    width: int
    """Bytes of an element of the cube's operands."""
    macs_rate: float
    epilogue_bytes: int
    """Bytes in UB for each element of the output tile; 0 without vector work."""

    @classmethod
    def of(cls, op: TensorOp, main: TensorOp, work: Work, target: Target) -> "_CubeKernel":
        element = element_type(main.operands[0])
        extra = 0
        if work.vector:
            values = (*op.operands[2:], *op.results)
            extra = _ACCUMULATOR_BYTES + sum(bitwidth(element_type(v)) // 8 for v in values)
        return cls(target, bitwidth(element) // 8, macs_per_cycle(element, target), extra)

    def largest_k(self, m: int, n: int, extent: int) -> int:
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
        return min(most // unit * unit, _round_up(extent, unit))

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

    def cycles(self, p: Matrices, m: int, n: int, k: int) -> float:
        """Cycles of the busiest core when loading and computing overlap."""
        tiles = p.tiles(m, n)
        rounds = -(-tiles // min(tiles, self.target.cube_cores))
        return rounds * max(self.tile_cycles(p, m, n, k), self.tile_load_cycles(p, m, n))

    def tile_cycles(self, p: Matrices, m: int, n: int, k: int) -> float:
        """Cycles of a tile: multiply-accumulates, or filling L0 where that is slower."""
        t = self.target
        depth = -(-p.k // k) * k
        feed = self.width * (m / t.l1_to_l0a_rate + n / t.l1_to_l0b_rate)
        return depth * max(m * n / self.macs_rate, feed)

    def tile_load_cycles(self, p: Matrices, m: int, n: int) -> float:
        """Cycles of loading a tile's operands from L2, which holds what tiles share."""
        size = (m + n) * p.k * self.width
        return max(size, self.target.full_rate_bytes) / self.target.l2_read_rate


def _vector_tiling(op: TensorOp, target: Target) -> TilingAttr:
    elements, width = _stream(op)
    per_element = max(width, 1)
    least = max(target.full_rate_bytes // per_element, 1)
    blocks = max(1, min(target.vector_cores, ceil(elements / least)))
    share = ceil(elements / blocks)
    most = max(target.ub_bytes // (2 * per_element) // FRACTAL * FRACTAL, 1)
    tile = min(most, max(_round_up(ceil(share / 4), FRACTAL), least), max(share, 1))
    return TilingAttr.of((tile,), blocks, 2 if tile < share else 1)


def _stream(op: TensorOp) -> tuple[int, int]:
    """Elements of the longest operand or result, and bytes on the core for each of them."""
    values = (*op.operands, *op.results)
    counts = [numel(shape_of(v)) for v in values]
    longest = max(counts, default=1)
    total = sum(n * (bitwidth(element_type(v)) // 8) for n, v in zip(counts, values, strict=True))
    return max(longest, 1), max(ceil(total / max(longest, 1)), 1)


def on_core_bytes(op: TensorOp, tiling: TilingAttr, target: Target) -> dict[str, int]:
    """Bytes that one core needs in each of its memories: l1, l0a, l0b, l0c, ub."""
    buffers = tiling.buffers.data
    if len(tiling.sizes) == 3:
        m, n, k = tiling.sizes
        return _CubeKernel.of(op, compute_op(op), op.static_work(), target).on_core(
            m, n, k, buffers
        )
    tile = tiling.sizes[0]
    return {"l1": 0, "l0a": 0, "l0b": 0, "l0c": 0, "ub": tile * _stream(op)[1] * buffers}


def fits(usage: dict[str, int], target: Target) -> bool:
    """Whether the on-core bytes of a tiling are within the target's."""
    return (
        usage["l0a"] <= target.l0a_bytes
        and usage["l0b"] <= target.l0b_bytes
        and usage["l0c"] <= target.l0c_bytes
        and usage["l1"] <= target.l1_bytes
        and usage["ub"] <= target.ub_bytes
    )


# ---- times -----------------------------------------------------------------------------------


def task_time(
    op: TensorOp, engine: Engine, tiling: TilingAttr | None, target: Target
) -> TaskTime | None:
    """The time of one launch of a kernel whose main op is `op`; None while a shape is dynamic."""
    work = static_work(op)
    if work is None:
        return None
    if engine is Engine.HOST:
        us = (work.macs + max(work.vector, 1)) / HOST_OPS_PER_US
        return TaskTime(vector_us=us, total_us=us)
    if engine is Engine.DMA:
        return link_time(work.read, target)
    tiling = tiling or choose_tiling(op, engine, target)
    assert tiling is not None
    if len(tiling.sizes) == 3:
        return _cube_time(op, work, tiling, target)
    return _vector_time(op, work, tiling, target)


def hbm_bytes_per_us(cores: int, target: Target) -> float:
    """HBM bandwidth that `cores` cores get together. All cube cores saturate it."""
    return min(cores, target.cube_cores) * target.hbm_rate * target.cycles_per_us


def link_time(size: int, target: Target) -> TaskTime:
    """A copy between host and device."""
    us = max(size, target.full_rate_bytes) / (target.host_link_gbs * 1e3)
    return TaskTime(in_us=us, total_us=us, bytes=size)


def copy_time(size: int, target: Target) -> TaskTime:
    """A copy within HBM, by all vector cores that find a full transfer to do."""
    cores = min(target.vector_cores, max(1, size // target.full_rate_bytes))
    one_way = max(size, target.full_rate_bytes) / hbm_bytes_per_us(cores, target)
    return TaskTime(in_us=one_way, out_us=one_way, total_us=2 * one_way, bytes=2 * size)


def _cube_time(op: TensorOp, work: Work, tiling: TilingAttr, target: Target) -> TaskTime:
    main = compute_op(op)
    p = matrices(main, work.macs)
    kernel = _CubeKernel.of(op, main, work, target)
    (m, n, k), blocks = tiling.sizes, tiling.blocks.data
    rounds = ceil(p.tiles(m, n) / blocks)
    vector_cores = max(blocks * target.vector_cores // target.cube_cores, 1)
    epilogue = work.vector / (vector_cores * lanes(element_type(op.results[0]), target))
    through_ub = work.written / (blocks * target.l0c_to_ub_rate) if work.vector else 0.0
    return _combine(
        cube=rounds * kernel.tile_cycles(p, m, n, k) / target.cycles_per_us,
        vector=max(epilogue, through_ub) / target.cycles_per_us,
        load=rounds * kernel.tile_load_cycles(p, m, n) / target.cycles_per_us,
        work=work,
        steps=(rounds * ceil(p.k / k), rounds),
        tiling=tiling,
        target=target,
    )


def _vector_time(op: TensorOp, work: Work, tiling: TilingAttr, target: Target) -> TaskTime:
    blocks, (tile,) = tiling.blocks.data, tiling.sizes
    cycles = (work.vector + work.macs) / (blocks * lanes(element_type(op.results[0]), target))
    rounds = ceil(_stream(op)[0] / (blocks * tile))
    return _combine(
        cube=0.0,
        vector=cycles / target.cycles_per_us,
        load=0.0,
        work=work,
        steps=(rounds, rounds),
        tiling=tiling,
        target=target,
    )


def _combine(
    *,
    cube: float,
    vector: float,
    load: float,
    work: Work,
    steps: tuple[int, int],
    tiling: TilingAttr,
    target: Target,
) -> TaskTime:
    """The time from that of the cores. `load` is the time of reading tiles from L2; `steps` are
    the loads and the stores of the busiest core."""
    blocks = tiling.blocks.data
    hbm = hbm_bytes_per_us(blocks, target)
    least = blocks * target.full_rate_bytes
    arrive = max(load, max(work.read, least) / hbm) if work.read else load
    leave = max(work.written, least) / hbm if work.written else 0.0
    leave = max(leave, work.written / (blocks * target.ub_out_rate * target.cycles_per_us))
    memory = (work.read + work.written) / hbm
    if tiling.buffers.data == 2:
        ramp = arrive / steps[0] + leave / steps[1]
        total = max(cube, vector, arrive, leave, memory) + ramp
    else:
        ramp = 0.0
        total = max(cube + vector + arrive + leave, memory)
    return TaskTime(cube, vector, arrive, leave, ramp, total, work.read + work.written)
