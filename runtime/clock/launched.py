"""What all launches of a kernel have in common, and how their times differ by what L2 has."""

from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import number_of
from ge.dialects.targets.target import Target
from ge.runtime.clock.timeline import COMPUTE, DMA_IN, capacities
from ge.runtime.clock.traffic import Moved, bytes_read
from ge.runtime.clock.valid_rows import attentions, with_rows
from ge.runtime.library.costs.cost import kernel_cost
from ge.runtime.library.costs.pipes import CoreTimes, Pipes, TaskTime
from ge.runtime.library.costs.structure import by_structure

STEPS = 16  # of what L2 holds of an operand, for tile programs


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
    core: CoreTimes | None = None  # of its tile program
    lacks: str = ""  # why its tile program does not say the time
    times: dict[Moved, TaskTime] = field(default_factory=dict[Moved, TaskTime])

    @classmethod
    def of(cls, kernel: KernelOp, target: Target, core: CoreTimes | None = None) -> "Launched":
        cost = kernel_cost(kernel.main, kernel.engine.data, kernel.tiling, target)
        inputs, outputs = len(kernel.body.block.args), len(kernel.output_types)
        engine = DMA_IN if kernel.engine.data is Engine.DMA else kernel.engine.data.value
        if engine not in COMPUTE or not isinstance(cost, Pipes):
            return cls(inputs, outputs, cost, engine, ((engine, 1),), [], [])
        capacity = capacities(target)
        blocks = capacity[engine] if kernel.tiling is None else kernel.tiling.blocks.data
        cores = ((engine, min(blocks, capacity[engine])),)
        if core is not None:
            cores, engine = core.cores, core.cores[0][0]
        elif engine == "cube" and cost.vector_us:
            cluster = max(capacity["vector"] // capacity["cube"], 1)
            cores += (("vector", min(cores[0][1] * cluster, capacity["vector"])),)
        reads, writes = list(bytes_read(kernel)), kernel.bytes_written()
        return cls(inputs, outputs, cost, engine, cores, reads, writes, core)

    def time(self, moved: Moved, target: Target) -> TaskTime:
        time = self.times.get(moved)
        if time is None:
            cost = self.cost
            assert isinstance(cost, Pipes)
            held = None
            if self.core is not None:
                held = self.held(moved)
                try:
                    cost = replace(cost, **self.core.time(held)._asdict(), **self.moved_once)
                except GeError as e:  # what the program needs is no fact of the target
                    held, self.core, self.lacks = None, None, f"{e.where}: {e.message}"
            warm = moved.hits / max(sum(size for _, size in self.reads), 1)
            found = time_with(cost, moved, target)
            time = self.times[moved] = replace(found, held=held, warm=warm)
        return time

    @property
    def moved_once(self) -> dict[str, Any]:
        """A tile program's own cores move what crosses HBM, each byte once: how the cores of the
        kernel's tiling share it says nothing of them."""
        return {"blocks": self.cores[0][1], "loaded": (1, 1), "stored": (1, 1), "transfers": 1}

    def held(self, moved: Moved) -> tuple[float, ...]:
        """The parts of the operands that L2 holds, in steps of a sixteenth."""
        held = [0.0] * self.inputs
        for (index, size), hits in zip(self.reads, moved.parts, strict=True):
            held[index] = STEPS * hits // size / STEPS if size else 0.0
        return tuple(held)


_Key = tuple[Engine, int | None, Target, int | None, CoreTimes | None]

# A scheduler and a session simulate the same kernels again and again; bodies do not change
_known: WeakKeyDictionary[KernelOp, dict[_Key, Launched]] = WeakKeyDictionary()


def launched(
    kernel: KernelOp,
    target: Target,
    rows: int | None = None,
    core: CoreTimes | None = None,
) -> Launched:
    """What all launches of a kernel have in common, worked out once. `rows`: how many keys there
    are, for kernels that are told. `core`: what its tile program takes."""
    if rows is not None and not attentions(kernel):
        rows = None
    if rows is not None:
        core = None  # which has all rows
    engine, tiling = kernel.engine.data, kernel.tiling
    key = engine, None if tiling is None else number_of(tiling), target, rows, core
    known = _known.setdefault(kernel, {})
    if key not in known:
        told = kernel if rows is None else with_rows(kernel, rows)
        known[key] = _launched(told, engine, tiling, target, core)
    return known[key]


@by_structure
def _launched(
    kernel: KernelOp,
    engine: Engine,
    tiling: TilingAttr | None,
    target: Target,
    core: CoreTimes | None,
) -> Launched:
    return Launched.of(kernel, target, core)


def time_with(cost: Pipes, moved: Moved, target: Target) -> TaskTime:
    return cost.time(target, max(cost.read - moved.hits, 0), moved.evicted)
