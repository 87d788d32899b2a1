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
- fixpipe: where a target has one (`fixpipe = true`), sums of integers leave L0C through it, and it
  adds an i32 bias, scales (dequantizes or requantizes) for the tensor or for each column, applies
  relu and casts to 16 or 8 bits on the way, in this order and each at most once. That takes no
  vector work and no bytes of UB. What follows (gelu, a residual sum) is work of the vector unit,
  which takes what leaves the fixpipe; so is dequantizing to f32, and all that follows matmuls in
  floats, or of integers of 16 bits, whose sums take 8 bytes in L0C and UB. Scales and biases are
  in a few KiB of the fixpipe's own, which are not modelled.
- operands of matmuls that are computed first (a weight that is dequantized, an input that is
  quantized): tiles load what is in memory, integers say, and the vector cores compute it anew for
  each tile that needs it. That it goes from UB to L1 at no cost is an assumption.
- in: all tiles from L2, and the bytes that L2 does not have from HBM. Tiles that share operands
  read them from L2 again, as do further passes over rows that do not fit on the core.
- out: result bytes, through the path out of the core into L2.
- HBM: reads and write-backs together share `hbm_rate` of the cores used (at most of all cube
  cores).
- A transfer below `full_rate_bytes` takes the time of one of that size.
- ramp: the first tile's load and the last tile's store, which nothing hides.
- host: the control processor, one element-operation a nanosecond.

Targets may state more, and are timed by it:

- `vector_cycles`: the vector unit takes the cycles of the instructions of each op, and a start for
  each of them in each tile (`instructions.py`). Loads and stores of pieces that lie apart in memory
  (transpositions, rows that are no rows of memory) start for each piece. Where what is known of a
  row passes the unit that issues instructions, loads and vector work take turns. The busiest core
  works through whole rounds of tiles, and its last one shares bandwidth as the others do; a tile's
  load and store take at least the time of a transfer at the full rate; what all tiles need crosses
  HBM once, and passes into each core. The search for tilings (`vector_search.py`) misses none
  that matters: of rows that lie next to each other and stay on the core, more or longer ones take
  no less time.
- `split_cores`: cube and vector cores exchange through L2 (`split_cores.py`).
- `kernel_start_us`: the start of a kernel, by its kind.
- `hbm_read_efficiency`: what reading alone reaches. Results stay in L2, and are written back when
  something evicts them, or at the end of a launch that does not fit.

The compiler looks at one launch at a time: all operands come from HBM and all results go there
(`task_time`). The clock (`clock.py`) knows what ran before, so that tasks read from L2 what still
fits there, and results cross HBM only when they are evicted (`l2.py`); it adds launch costs, waits
for streams, events and cores, and bandwidth that tasks share (`sharing.py`). It reads tilings from
the IR.

Sources: pipes, double buffering and the bound by the slowest pipe are the roofline model (Williams,
Waterman, Patterson, CACM 52(4), 2009) applied to each pipe; tiles whose operands meet in L2, and
quantization of tiles to cores, as in NVIDIA's "Matrix Multiplication Background" (deep learning
performance guide); the flow through L1, L0 and UB that of the Da Vinci core (Liao et al., HPCA
2021). L2, sharing and bounds name theirs in their files; rates come from the target file, which
names its own.

Limits: operands of one launch that are larger than L2 are read from HBM once all the same; bank
conflicts and matmuls split along k are not modelled, strided access and the start of instructions
where targets state them;
efficiencies are one number a target, not one a shape. A cube core works on its next tile while
rows of the last one pass UB, although L0C holds one sum: rows are assumed to drain at least as fast
as the cube overwrites them. Matmuls of one input stand side by side in a tile, each with its share
of the columns.
"""

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.pipes import Pipes, TaskTime, l2_bytes_per_us, store_us
from ge.runtime.library.costs.pipes import hbm_bytes_per_us as hbm_bytes_per_us
from ge.runtime.library.costs.structure import once
from ge.runtime.library.costs.tiling import pipes, static_work

# Element-operations of the control processor in a microsecond. Not published: an assumption.
HOST_OPS_PER_US = 1000.0


@once
def kernel_cost(
    op: TensorOp | Body, engine: Engine, tiling: TilingAttr | None, target: Target
) -> Pipes | TaskTime | None:
    """What one launch asks of the pipes of the cores, or its time on another engine; None while a
    shape is dynamic."""
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
    """The time of one launch in isolation, with all operands and results in HBM; None while a shape
    is dynamic."""
    cost = kernel_cost(op, engine, tiling, target)
    return cost.time(target) if isinstance(cost, Pipes) else cost


@once
def launch_us(body: TensorOp | Body, target: Target) -> float | None:
    """Time of a launch with its launch cost; None while a shape is dynamic."""
    time = task_time(body, Engine.VECTOR, None, target)
    return None if time is None else time.total_us + target.launch_us


def link_time(size: int, target: Target) -> TaskTime:
    us = max(size, target.full_rate_bytes) / (target.host_link_gbs * 1e3)
    return TaskTime(in_us=us, total_us=us, bytes=size)


def copy_pipes(size: int, target: Target) -> Pipes:
    """A copy on the device, by as many vector cores as find a full-rate transfer to do."""
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
