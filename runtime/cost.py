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

from ge.dialects.fused_op import Body
from ge.dialects.interfaces import TensorOp
from ge.dialects.npu_task import Engine, TilingAttr
from ge.dialects.target import Target
from ge.runtime.pipes import Pipes, TaskTime, l2_bytes_per_us, store_us
from ge.runtime.tiling import pipes, static_work

HOST_OPS_PER_US = 1000.0
"""Element-operations of the control processor in a microsecond. Not published: an assumption."""


def task_time(
    op: TensorOp | Body, engine: Engine, tiling: TilingAttr | None, target: Target
) -> TaskTime | None:
    """The time of one launch of a kernel whose main op is `op`, when L2 has nothing of what it
    reads; None while a shape is dynamic."""
    body = Body.of(op)
    work = static_work(body)
    if work is None:
        return None
    if engine is Engine.HOST:
        us = (work.macs + max(work.vector, 1)) / HOST_OPS_PER_US
        return TaskTime(vector_us=us, total_us=us)
    if engine is Engine.DMA:
        return link_time(work.read, target)
    return pipes(body, tiling, target).time(target)


def launch_us(body: Body, target: Target) -> float | None:
    """Time of a launch with its launch cost, from which rules choose; None while a shape is
    dynamic."""
    time = task_time(body, Engine.VECTOR, None, target)
    return None if time is None else time.total_us + target.launch_us


def link_time(size: int, target: Target) -> TaskTime:
    """A copy between host and device."""
    us = max(size, target.full_rate_bytes) / (target.host_link_gbs * 1e3)
    return TaskTime(in_us=us, total_us=us, bytes=size)


def copy_pipes(size: int, target: Target) -> Pipes:
    """A copy on the device, by all vector cores that find a full transfer to do."""
    blocks = min(target.vector_cores, max(1, size // target.full_rate_bytes))
    rounds = max(1, size // (blocks * target.full_rate_bytes))
    return Pipes(
        cube_us=0.0,
        vector_us=0.0,
        load_us=max(size, target.full_rate_bytes) / l2_bytes_per_us(blocks, target),
        store_us=store_us(size, blocks, target),
        read=size,
        written=size,
        l2_bytes=2 * size,
        loads=rounds,
        stores=rounds,
        blocks=blocks,
        double_buffered=rounds > 1,
    )
