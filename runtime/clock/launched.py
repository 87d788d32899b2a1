"""What all launches of a kernel have in common, and how their times differ by what L2 has."""

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.targets.target import Target
from ge.runtime.clock.timeline import COMPUTE, DMA_IN, capacities
from ge.runtime.clock.traffic import Moved, bytes_read, bytes_written
from ge.runtime.clock.valid_rows import attentions, with_rows
from ge.runtime.costs.cost import kernel_cost
from ge.runtime.costs.pipes import CoreTime, Pipes, TaskTime


@dataclass
class Launched:
    """What all launches of a kernel have in common."""

    # How many it has: the first operands of a launch are inputs, what follows, and results, outputs
    inputs: int
    outputs: int
    cost: Pipes | TaskTime | None
    engine: str
    # How many of which engine; a kernel on the cube cores with an epilogue takes the vector cores
    # of their clusters too
    cores: tuple[tuple[str, int], ...]
    reads: list[tuple[int, int]]  # operand indices, and bytes read of each
    writes: list[int]  # bytes of each output, where it lies in an input's memory
    times: dict[Moved, TaskTime] = field(default_factory=dict[Moved, TaskTime])

    @classmethod
    def of(cls, kernel: KernelOp, target: Target, core: CoreTime | None = None) -> "Launched":
        cost = kernel_cost(kernel.main, kernel.engine.data, kernel.tiling, target)
        if core is not None and isinstance(cost, Pipes):
            cost = replace(cost, start_us=core.start_us, core_us=core.core_us)
        inputs, outputs = len(kernel.body.block.args), len(kernel.output_types)
        engine = DMA_IN if kernel.engine.data is Engine.DMA else kernel.engine.data.value
        if engine not in COMPUTE or not isinstance(cost, Pipes):
            return cls(inputs, outputs, cost, engine, ((engine, 1),), [], [])
        capacity = capacities(target)
        blocks = capacity[engine] if kernel.tiling is None else kernel.tiling.blocks.data
        cores = ((engine, min(blocks, capacity[engine])),)
        if engine == "cube" and cost.vector_us:
            cluster = max(capacity["vector"] // capacity["cube"], 1)
            cores += (("vector", min(cores[0][1] * cluster, capacity["vector"])),)
        reads, writes = list(bytes_read(kernel)), bytes_written(kernel)
        return cls(inputs, outputs, cost, engine, cores, reads, writes)

    def time(self, moved: Moved, target: Target) -> TaskTime:
        time = self.times.get(moved)
        if time is None:
            assert isinstance(self.cost, Pipes)
            time = self.times[moved] = time_with(self.cost, moved, target)
        return time


_Key = tuple[Engine, TilingAttr | None, Target, int | None, CoreTime | None]

# A scheduler and a session simulate the same kernels again and again; bodies do not change
_known: WeakKeyDictionary[KernelOp, dict[_Key, Launched]] = WeakKeyDictionary()


def launched(
    kernel: KernelOp,
    target: Target,
    rows: int | None = None,
    core: CoreTime | None = None,
) -> Launched:
    """What all launches of a kernel have in common, worked out once. `rows`: how many keys there
    are, for kernels that are told. `core`: what its tile program takes, with operands that are not
    in L2."""
    if rows is not None and not attentions(kernel):
        rows = None
    if rows is not None:
        core = None  # which has all rows
    key = kernel.engine.data, kernel.tiling, target, rows, core
    known = _known.setdefault(kernel, {})
    if key not in known:
        known[key] = Launched.of(kernel if rows is None else with_rows(kernel, rows), target, core)
    return known[key]


def time_with(cost: Pipes, moved: Moved, target: Target) -> TaskTime:
    return cost.time(target, max(cost.read - moved.hits, 0), moved.evicted)
