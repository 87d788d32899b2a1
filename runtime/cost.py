"""How long one launch takes: one model for the compiler, which picks tilings, and for the clock.

A kernel is cut into tiles, `blocks` cores work through them side by side. Each tile passes four
pipes: *in* (HBM or L2 to the core), *cube*, *vector*, *out* (core to HBM). With two buffers the
pipes overlap and the slowest one sets the pace; with one buffer their times add up.

    double-buffered   total = max(cube, vector, in, out, HBM) + ramp
    single buffer     total = max(cube + vector + in + out, HBM) + ramp

- cube: macs of whole tiles on the busiest core / macs per cycle of the element type, and not
  faster than L1 feeds L0A and L0B.
- vector: element-operations / lanes; an element wider than 16 bits takes a lane for each 16 bits.
  Behind a cube kernel the vector cores of the same cluster work on its output tile.
- in: bytes that cross HBM once, and traffic from L2 where tiles, or further passes over rows that
  do not fit on the core, read the same data again.
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

from dataclasses import dataclass
from math import ceil

from xdsl.ir import Attribute

from ge.dialects.fused_op import Body
from ge.dialects.interfaces import TensorOp, Work
from ge.dialects.npu_task import Engine, TilingAttr
from ge.dialects.target import Target
from ge.dialects.types import bitwidth, element_type
from ge.runtime.tiling import VectorKernel, cube_kernel, cube_tiling, products, static_work

HOST_OPS_PER_US = 1000.0
"""Element-operations of the control processor in a microsecond. Not published: an assumption."""


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


def lanes(element: Attribute, target: Target) -> float:
    """Elements a cycle a vector core."""
    return target.vector_lanes * 16 / max(bitwidth(element), 16)


# ---- times -----------------------------------------------------------------------------------


def task_time(
    op: TensorOp | Body, engine: Engine, tiling: TilingAttr | None, target: Target
) -> TaskTime | None:
    """The time of one launch of a kernel whose main op is `op`; None while a shape is dynamic."""
    body = Body.of(op)
    work = static_work(body)
    if work is None:
        return None
    if engine is Engine.HOST:
        us = (work.macs + max(work.vector, 1)) / HOST_OPS_PER_US
        return TaskTime(vector_us=us, total_us=us)
    if engine is Engine.DMA:
        return link_time(work.read, target)
    if products(body) if tiling is None else len(tiling.sizes) == 3:
        return _cube_time(body, work, tiling, target)
    return _vector_time(body, work, tiling, target)


def launch_us(body: Body, target: Target) -> float | None:
    """Time of a launch with its launch cost, from which rules choose; None while a shape is
    dynamic."""
    time = task_time(body, Engine.VECTOR, None, target)
    return None if time is None else time.total_us + target.launch_us


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


def _cube_time(body: Body, work: Work, tiling: TilingAttr | None, target: Target) -> TaskTime:
    kernel = cube_kernel(body, target)
    tiling = tiling or cube_tiling(kernel)
    (m, n, k), blocks = tiling.sizes, tiling.blocks.data
    rounds = ceil(kernel.tiles(m, n) / blocks)
    vector_cores = max(blocks * target.vector_cores // target.cube_cores, 1)
    epilogue = work.vector / (vector_cores * lanes(element_type(body.outputs[0]), target))
    through_ub = work.written / (blocks * target.l0c_to_ub_rate) if work.vector else 0.0
    return _combine(
        cube=rounds * kernel.tile_cycles(m, n, k) / target.cycles_per_us,
        vector=max(epilogue, through_ub) / target.cycles_per_us,
        load=rounds * kernel.tile_load_cycles(m, n) / target.cycles_per_us,
        work=work,
        steps=(rounds * kernel.steps(m, n, k), rounds),
        tiling=tiling,
        target=target,
    )


def _vector_time(body: Body, work: Work, tiling: TilingAttr | None, target: Target) -> TaskTime:
    kernel = VectorKernel(body, target)
    tiling = tiling or kernel.choose()
    blocks, (tile,) = tiling.blocks.data, tiling.sizes
    again = work.read * (kernel.passes - 1)
    if again and work.read > target.l2_bytes:
        work, again = work + Work(read=again), 0
    rounds = ceil(kernel.elements / (blocks * tile))
    return _combine(
        cube=0.0,
        vector=kernel.operations(blocks) / target.vector_lanes / target.cycles_per_us,
        load=(work.read + again) / (blocks * target.l2_read_rate * target.cycles_per_us),
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
