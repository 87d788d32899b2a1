"""The model of time: how long a launch takes, for the compiler, which picks tilings, and the clock.

A kernel is cut into tiles, `blocks` cores work through them side by side (`tiling.py`). Each tile
passes four pipes: *in* (HBM or L2 to the core), *cube*, *vector*, *out* (core to L2 or HBM). With
two buffers the pipes overlap and the slowest one sets the pace; with one their times add up.

    double-buffered   total = max(cube, vector, in, out, HBM) + ramp
    single buffer     total = max(cube + vector + in + out, HBM)

- cube: macs of whole tiles on the busiest core / macs per cycle of the element type (a type that
  the target does not list: those of f16, less by the square of the width), and not faster than L1
  feeds L0A and L0B. Where a target says so, each tile adds `tile_latency_us`.
- vector: element-operations / lanes; an element wider than 16 bits takes a lane for each 16 bits,
  and what works on rows (softmax, norms) counts 32 bits. Behind a cube kernel the vector cores of
  the same cluster work on its output tile; where a target has no vector cores of its own
  (`vector_overlaps = false`: a GPU's threads do both), their time adds to the cube's.
- in: all tiles from L2, and the bytes that L2 does not have from HBM. Tiles that share operands
  read them from L2 again, as do further passes over rows that do not fit on the core.
- out: result bytes, through the path out of the core into L2.
- HBM: reads and write-backs together share `hbm_rate` of the cores used (at most of all cube
  cores).
- A transfer below `full_rate_bytes` takes the time of one of that size.
- ramp: the first tile's load and the last tile's store, which nothing hides.
- host: the control processor, one element-operation a nanosecond.

Which tilings there are: those whose buffers fit on a core, double-buffered (`cube_kernels.py` for
L1 and L0, `core_tiles.py` for UB). The plan of the core (`plan-core-memory`) makes a tile smaller
where it finds no offsets for them; the clock reads tilings from the text, so it times that tile.

Where data is when a launch starts: the compiler, which looks at one launch at a time, counts all
operands from HBM and all results to HBM (`task_time`). The clock knows what ran before: what
earlier tasks have read or written and what still fits into L2 is read from there, and results
cross HBM only when they are evicted (`l2.py`, with its limits).

What the clock adds (`clock.py`): the launch of each task, waiting for streams, events and cores,
and tasks that run together share the bandwidths of HBM and of L2 (`sharing.py`). How far a schedule
may be from the least time is bounded in `bounds.py`. A piece of a launch (`split-launches`) is a
launch like any other: it has a tiling and a launch cost of its own, and reads what all pieces need
again, from L2 where that still has it. The random timings of `interleave.py` are no times: they are
orders in which the sanitizer tries a program.

Sources: pipes, double buffering and the bound by the slowest pipe are the roofline model (Williams,
Waterman, Patterson, CACM 52(4), 2009) applied to each pipe; tiles whose operands meet in L2, and
quantization of tiles to cores, as in NVIDIA's "Matrix Multiplication Background" (deep learning
performance guide); the flow through L1, L0 and UB that of the Da Vinci core (Liao et al., HPCA
2021). L2, sharing and bounds name theirs in their files; rates come from the target file, which
names its own.

Limits: operands of one launch that are larger than L2 are read from HBM once all the same; bank
conflicts, strided access and instruction issue are not modelled, nor is a product split along k;
efficiencies are one number a target, not one a shape. A cube core works on its next tile while
rows of the last one pass UB, although L0C holds one sum: rows are taken to leave it as fast as the
cube needs their place. Products of one input stand side by side in a tile, each with its share of
the columns.
"""

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.runtime.costs.pipes import Pipes, TaskTime, l2_bytes_per_us, store_us
from ge.runtime.costs.pipes import hbm_bytes_per_us as hbm_bytes_per_us
from ge.runtime.costs.structure import once
from ge.runtime.costs.tiling import pipes, static_work

# Element-operations of the control processor in a microsecond. Not published: an assumption.
HOST_OPS_PER_US = 1000.0


@once
def kernel_cost(
    op: TensorOp | Body, engine: Engine, tiling: TilingAttr | None, target: Target
) -> Pipes | TaskTime | None:
    """What one launch of a kernel whose main op is `op` costs: what it asks of the pipes of the
    cores, or its time on another engine; None while a shape is dynamic."""
    body = Body.of(op)
    work = static_work(body)
    if work is None:
        return None
    if engine is Engine.HOST:
        us = (work.macs + max(work.vector, 1)) / HOST_OPS_PER_US
        return TaskTime(vector_us=us, total_us=us)
    if engine is Engine.DMA:
        return link_time(work.read, target)
    return pipes(body, tiling, target)


def task_time(
    op: TensorOp | Body, engine: Engine, tiling: TilingAttr | None, target: Target
) -> TaskTime | None:
    """The time of one launch of a kernel whose main op is `op`, if all that it reads comes from
    HBM and all that it writes goes there; None while a shape is dynamic."""
    cost = kernel_cost(op, engine, tiling, target)
    return cost.time(target) if isinstance(cost, Pipes) else cost


@once
def launch_us(body: TensorOp | Body, target: Target) -> float | None:
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
