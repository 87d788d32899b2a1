"""Facts that all launches of a kernel share, and the differences of their times by the operands
that L2 holds."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakKeyDictionary

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.runtime.clock.timeline import COMPUTE, DMA_IN, capacities
from ge.runtime.clock.traffic import Moved, bytes_read
from ge.runtime.clock.valid_rows import attentions, with_rows
from ge.runtime.library.asking import estimated_times, plain_times
from ge.runtime.library.costs.estimates import (
    HOST_OPS_PER_US,
    CoreTime,
    CoreTimes,
    TaskTime,
    hbm_bytes_per_us,
    link_time,
)
from ge.runtime.library.costs.structure import by_structure

STEPS = 16  # of what L2 holds of an operand


@dataclass
class Launched:
    """Facts that all launches of a kernel share."""

    # How many it has: the first operands of a launch are inputs, what follows, and results, outputs
    inputs: int
    outputs: int
    engine: str
    # How many of which engine; a kernel on the cube cores with an epilogue takes the vector cores
    # of their clusters too
    cores: tuple[tuple[str, int], ...]
    reads: list[tuple[int, int]]  # operand indices, and bytes read of each
    writes: list[int]  # bytes of each output, where it lies in an input's memory
    core: CoreTimes | None = None  # of its tile program, or of the one that it would have
    alone: TaskTime | None = None  # of what runs on no core
    plain: Callable[[], CoreTimes] | None = None  # what a plain loop over elements takes
    lacks: str = ""  # why its tile program does not say the time, so that it is that of such a loop
    times: dict[Moved, TaskTime] = field(default_factory=dict[Moved, TaskTime])

    @classmethod
    def of(cls, kernel: KernelOp, target: Target, core: CoreTimes | None = None) -> "Launched":
        """`core`: of its tile program. Of unknown sizes neither `core` nor `alone` is known."""
        inputs, outputs = len(kernel.body.block.args), len(kernel.output_types)
        engine = DMA_IN if kernel.engine.data is Engine.DMA else kernel.engine.data.value
        if engine not in COMPUTE or kernel.engine.data is Engine.HOST:
            alone = time_alone(kernel, target)
            return cls(inputs, outputs, engine, ((engine, 1),), [], [], alone=alone)
        core = core or estimated_times(Body.of(kernel.main), target)
        if core is None:
            return cls(inputs, outputs, engine, ((engine, 1),), [], [])
        reads, writes, engine = list(bytes_read(kernel)), kernel.bytes_written(), core.cores[0][0]
        capacity = capacities(target)
        cores = tuple((name, min(count, capacity[name])) for name, count in core.cores)
        plain = partial(plain_times, Body.of(kernel.main), target)
        return cls(inputs, outputs, engine, cores, reads, writes, core, plain=plain)

    def of_rows(self, told: KernelOp) -> "Launched":
        """The facts of launches that read fewer keys, as `told` has them. That time is in
        proportion to the bytes that are read is an assumption."""
        reads, whole = list(bytes_read(told)), self.core
        if whole is None:
            return self
        part = sum(size for _, size in reads) / max(sum(size for _, size in self.reads), 1)

        def time(held: tuple[float, ...]) -> CoreTime:
            start, *others = whole.time(held)
            return CoreTime(start, *[us * part for us in others])

        core = CoreTimes(whole.cores, time, lambda: int(whole.moved() * part), estimated=True)
        return replace(self, reads=reads, writes=told.bytes_written(), core=core, times={})

    def time(self, moved: Moved, target: Target) -> TaskTime:
        if (time := self.times.get(moved)) is None:
            assert self.core is not None
            held = self.held(moved)
            try:
                core = self.core.time(held)
            except GeError as e:  # what the program needs is no fact of the target
                assert self.plain is not None
                self.lacks, core = f"{e.where}: {e.message}", self.plain().time(held)
            time = self.times[moved] = task_time(core, self.core, moved, self.reads, held, target)
        return time

    def held(self, moved: Moved) -> tuple[float, ...]:
        """The parts of the operands that L2 holds, in steps of a sixteenth."""
        held = [0.0] * self.inputs
        for (index, size), hits in zip(self.reads, moved.parts, strict=True):
            held[index] = STEPS * hits // size / STEPS if size else 0.0
        return tuple(held)


def task_time(
    core: CoreTime,
    times: CoreTimes,
    moved: Moved,
    reads: list[tuple[int, int]],
    held: tuple[float, ...],
    target: Target,
) -> TaskTime:
    """The time of a launch whose operands L2 has in part: that of its busiest core, and not less
    than that of the bytes that cross HBM."""
    read = sum(size for _, size in reads)
    crossing = max(read - moved.hits, 0) + moved.evicted
    hbm_us = crossing / hbm_bytes_per_us(times.cores[0][1], target)
    return TaskTime(
        core.cube_us,
        core.vector_us,
        core.load_us,
        core.store_us,
        core.start_us + max(core.core_us, hbm_us),
        crossing,
        times.moved(),
        core.start_us,
        hbm_us,
        held,
        moved.hits / max(read, 1),
        times.estimated,
    )


def time_alone(kernel: KernelOp, target: Target) -> TaskTime | None:
    """Time of a kernel of the host, or of a transfer; None while a shape is dynamic."""
    body = Body.of(kernel.main)
    if not body.is_static or (work := body.work()) is None:
        return None
    if kernel.engine.data is Engine.DMA:
        return link_time(work.read, target)
    us = (work.macs + max(work.vector, 1)) / HOST_OPS_PER_US
    return TaskTime(vector_us=us, total_us=us)


_Key = tuple[Engine, Target, int | None, CoreTimes | None]

# A scheduler and a session simulate the same kernels again and again; bodies do not change
_known: WeakKeyDictionary[KernelOp, dict[_Key, Launched]] = WeakKeyDictionary()


def launched(
    kernel: KernelOp,
    target: Target,
    rows: int | None = None,
    core: CoreTimes | None = None,
) -> Launched:
    """The facts that all launches of a kernel share, worked out once. `rows`: the number of keys,
    for kernels that are given it. `core`: the times of its tile program."""
    if rows is not None and not attentions(kernel):
        rows = None
    key = (engine := kernel.engine.data), target, rows, core
    known = _known.setdefault(kernel, {})
    if key not in known:
        whole = _launched(kernel, engine, target, core)
        known[key] = whole if rows is None else whole.of_rows(with_rows(kernel, rows))
    return known[key]


@by_structure
def _launched(kernel: KernelOp, engine: Engine, target: Target, core: CoreTimes | None) -> Launched:
    return Launched.of(kernel, target, core)
