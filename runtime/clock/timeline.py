"""The tasks of a program, and what a simulated run of them looked like.

A task is named after the node of the model that does the work of a launch, the input or output that
a copy between host and device is of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ge.dialects.graph.stated import argument_attributes, name_of
from ge.dialects.npu_task.attributes import HOST
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp, KernelOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.targets.target import ESTIMATED, SIMULATED, Target
from ge.runtime.library.costs.estimates import TaskTime, hbm_bytes_per_us


def label(op: Operation, otherwise: str) -> str:
    """The name of a task; `otherwise` where the program knows none."""
    if isinstance(op, CopyOp):
        ports = host_ports([op.source, op.target])
    else:
        ports = host_ports(op.operands) if isinstance(op, BatchCopyOp) else []
    if ports:
        more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
        return ports[0] + more
    return location_of(op).name or otherwise


def host_ports(values: Sequence[SSAValue]) -> list[str]:
    """The names of those inputs and outputs of the program that are among buffers of the host."""
    names: list[str] = []
    for value in values:
        if getattr(value.type, "memory_space", None) == HOST:
            names += [name] if (name := port_name(value)) else []
    return names


def port_name(value: SSAValue) -> str | None:
    """The name that the model has for an argument of a function, or for its result."""
    if isinstance(value, BlockArgument):
        owner = value.block.parent_op()
        is_input = isinstance(owner, FuncOp)
        return name_of(argument_attributes(owner, value.index)) if is_input else None
    returned = (u for u in value.uses if isinstance(u.operation, ReturnOp))
    if (use := next(returned, None)) is None:
        return None
    main = use.operation.parent_op()
    if not isinstance(main, FuncOp) or main.res_attrs is None:
        return None
    return name_of(main.res_attrs.data[use.index].data)


DMA_IN, DMA_OUT = "dma_in", "dma_out"
COMM = "comm"
ENGINES = ("cube", "vector", DMA_IN, DMA_OUT, "host", COMM)
COMPUTE = ("cube", "vector")
CAUSES = ("compute", "memory", "communication", "schedule", "sync")

COPY = "copy"

# Iterations of a loop whose tasks are in the timeline one by one; sums count all (`Task.runs`)
SHOWN_ITERATIONS = 100


@dataclass(slots=True, eq=False)
class Task:
    """A task of the program, the tasks that it needs, and the time when it ran."""

    op: Operation
    kind: str  # the kernel's name, or `COPY`
    engine: str
    stream: int  # negative: a thread of the host, -1 the first one
    cores: tuple[tuple[str, int], ...]
    time: TaskTime
    kernel: KernelOp | None
    reads: tuple[Attribute, ...]
    writes: tuple[Attribute, ...]  # the types of the buffers it reads and writes
    # Tasks that must be done before: the one before on its stream, and those waited for
    after: "list[Task]" = field(repr=False)
    events: "list[Task]" = field(repr=False)  # of these, the ones that an event makes it wait for
    needs: "list[Task]" = field(repr=False)  # tasks that write what it reads
    ready_us: float = 0.0  # when the last task that it has to wait for was done
    start_us: float = 0.0
    duration_us: float = 0.0
    exposed_us: float = 0.0  # of what devices send each other: the time in which no core computed
    # How many runs of the task it stands for in sums: the last iteration that is shown of a loop
    # stands for those that are not
    runs: int = 1
    run: int = 0  # the number of the run, where there are several (`runs.py`)

    def again(
        self, stream: int, time: TaskTime, after: "list[Task]", events: "list[Task]"
    ) -> "Task":
        """The task in another schedule, which has not run."""
        return Task(
            self.op, self.kind, self.engine, stream, self.cores, time, self.kernel,
            self.reads, self.writes, after, events, [],
        )  # fmt: skip

    @property
    def name(self) -> str:
        return label(self.op, self.kind)

    @property
    def timed_by(self) -> str:
        """The source of the time of a launch; "" for a copy and a collective."""
        if self.kernel is None or self.engine == COMM:
            return ""
        return ESTIMATED if self.time.estimated else SIMULATED

    @property
    def on_device(self) -> bool:
        return self.stream >= 0

    @property
    def wait_us(self) -> float:
        return self.start_us - self.ready_us

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us


@dataclass(slots=True)
class IdleGap:
    """A time in which no task of a compute engine ran, and its cause (see `clock.py`)."""

    engine: str
    cause: str
    start_us: float
    end_us: float


@dataclass(slots=True)
class Timeline:
    """Result of a simulation of tasks."""

    target: Target
    tasks: list[Task] = field(default_factory=list[Task])
    latency_us: float = 0.0
    lower_bound_us: float = 0.0  # no schedule of these tasks takes less (see `bounds.py`)
    first_us: float = 0.0  # of the host, before the first run at sizes that a program is bound to
    path_us: float = 0.0  # the longest chain of tasks of which each needs the one before
    # Time in which at least one task of the engine ran
    busy_us: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ENGINES, 0.0))
    # Cores times the time alone, of all tasks that hold cores of the engine
    core_us: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ENGINES, 0.0))
    bytes: int = 0
    # Sums of the gaps, of all iterations of loops
    gaps_us: dict[str, dict[str, float]] = field(
        default_factory=lambda: {e: dict.fromkeys(CAUSES, 0.0) for e in COMPUTE}
    )
    # By end; what was idle for two causes, one after the other, is two gaps
    gaps: list[IdleGap] = field(default_factory=list[IdleGap])
    # When all that was issued before was done, and control flow went on
    barriers_us: list[float] = field(default_factory=list[float])
    notes: list[str] = field(default_factory=list[str])
    host_threads: tuple[str, ...] = ()  # names of the threads that feed the device, if any do
    iterations: int = 1  # iterations of loops, nested ones multiplied, that are shown one by one

    def idled(self, gap: IdleGap) -> None:
        self.gaps_us[gap.engine][gap.cause] += gap.end_us - gap.start_us
        for last in self.gaps[-len(COMPUTE) :]:
            if (last.engine, last.cause, last.end_us) == (gap.engine, gap.cause, gap.start_us):
                last.end_us = gap.end_us
                return
        if gap.end_us > gap.start_us:
            self.gaps.append(gap)

    def shown(self, body: "Timeline", times: int) -> int:
        """Number of iterations that are shown, of so many: of nested loops as many as of one."""
        return max(1, min(times, SHOWN_ITERATIONS // body.iterations))

    def append(self, other: "Timeline", times: int = 1) -> None:
        shown = self.shown(other, times)
        self.iterations = max(self.iterations, shown * other.iterations)
        for i in range(shown):
            shift = self.latency_us + i * other.latency_us
            runs = times - shown + 1 if i == shown - 1 else 1
            again = shift > 0 or runs > 1
            self.tasks += shifted(other.tasks, shift, runs) if again else other.tasks
            self.barriers_us += [shift, *(b + shift for b in other.barriers_us)]
            self.gaps += [
                IdleGap(g.engine, g.cause, g.start_us + shift, g.end_us + shift) for g in other.gaps
            ]
        self.latency_us += times * other.latency_us
        self.lower_bound_us += times * other.lower_bound_us
        self.path_us += times * other.path_us
        self.bytes += times * other.bytes
        for engine in ENGINES:
            self.busy_us[engine] += times * other.busy_us[engine]
            self.core_us[engine] += times * other.core_us[engine]
        for engine in COMPUTE:
            for cause in CAUSES:
                self.gaps_us[engine][cause] += times * other.gaps_us[engine][cause]
        self.notes += other.notes

    @property
    def estimated(self) -> tuple[int, int, float]:
        """Number of launches, number of those that no tile program times, and the share of the time
        of all launches that these take."""
        return estimated(self.tasks)

    @property
    def machine(self) -> str:
        """The target, and where the times come from: see `Target.timed`."""
        return self.target.timed(*self.estimated)

    @property
    def capacity(self) -> dict[str, int]:
        return capacities(self.target)

    @property
    def idle_us(self) -> dict[str, float]:
        """Time in which the busiest compute engine did nothing, by cause."""
        return self.gaps_us[max(COMPUTE, key=lambda e: self.busy_us[e])]


def shifted(tasks: Sequence[Task], by_us: float, runs: int = 1) -> list[Task]:
    """The tasks so much later and for so many runs."""
    return again(
        tasks,
        lambda t: replace(
            t, ready_us=t.ready_us + by_us, start_us=t.start_us + by_us, runs=t.runs * runs
        ),
    )


def again(tasks: Sequence[Task], changed: Callable[[Task], Task]) -> list[Task]:
    """The tasks once more, each changed, waiting for each other as before and for no others."""
    new = [changed(t) for t in tasks]
    later = dict(zip(tasks, new, strict=True))
    for t in new:
        t.after, t.events, t.needs = (
            [later[b] for b in others if b in later] for others in (t.after, t.events, t.needs)
        )
    return new


def estimated(tasks: Iterable[Task]) -> tuple[int, int, float]:
    """`Timeline.estimated` of some tasks."""
    launches = [t for t in tasks if t.kernel is not None and t.engine != COMM]  # on cores
    others = [t for t in launches if t.timed_by == ESTIMATED]
    total, part = (sum(t.runs * t.duration_us for t in ts) for ts in (launches, others))
    count, without = (sum(t.runs for t in ts) for ts in (launches, others))
    return count, without, part / total if total else 0.0


def capacities(target: Target) -> dict[str, int]:
    one = dict.fromkeys((DMA_IN, DMA_OUT, "host", COMM), 1)
    return target.cores | one


def bandwidth(target: Target) -> float:
    """Bytes a microsecond of the whole HBM."""
    return hbm_bytes_per_us(target.cube_cores, target)


def longest(timeline: Timeline, count: int) -> list[Task]:
    return sorted(timeline.tasks, key=lambda t: -t.duration_us)[:count]
