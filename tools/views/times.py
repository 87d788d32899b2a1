"""Where the time of a simulated run goes: its tasks, and the work of each kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.element_types import ELEMENT_TYPES
from ge.dialects.support.types import element_type
from ge.runtime.clock.timeline import COMPUTE, ENGINES, IdleGap, Task, Timeline, bandwidth
from ge.runtime.library.costs.cycles import peak_macs
from ge.runtime.library.costs.estimates import whole_l2_bytes_per_us
from ge.runtime.profile.limits import critical_path, limits_of, made_of, slack
from ge.runtime.profile.trace import engine_lanes
from ge.tools.views.levels import Numbers


@dataclass(slots=True)
class TaskView:
    """A task of the run; `node` is its number at the program level. It stands for `runs` runs."""

    node: int
    kind: str
    name: str
    engine: str
    lane: int
    stream: int
    start_us: float
    duration_us: float
    ready_us: float
    runs: int
    critical: bool
    slack_us: float
    bytes: int
    l2_bytes: int
    limits_us: dict[str, float]  # by cause, see `profile/limits.py`
    bound: str  # the cause of the largest
    cores: dict[str, int]
    macs: int = 0
    vector_ops: int = 0
    element: str = ""
    timed_by: str = ""
    events: list[int] = field(default_factory=list[int])  # tasks that an event makes it wait for


@dataclass(slots=True)
class Roof:
    """A rate that the machine does not exceed: operations a second, or bytes."""

    name: str
    unit: str
    per_second: float


@dataclass(slots=True)
class TimeView:
    """A run: times in microseconds."""

    target: str
    machine: str  # the same, and where the times come from
    latency_us: float
    lower_bound_us: float
    launch_us: float
    busy_us: dict[str, float]
    idle_us: dict[str, float]
    idle_engine: str
    path_tasks: int
    path_us: float
    tasks: list[TaskView]
    gaps: list[IdleGap]
    roofs: list[Roof]
    made_of_us: dict[str, float]  # the latency by cause, along the critical path
    notes: list[str]


def time_view(timeline: Timeline, numbers: Numbers) -> TimeView:
    """The tasks of a simulated run, by start, in microseconds; `numbers` are those of nodes."""
    lanes, slacks = engine_lanes(timeline.tasks), slack(timeline)
    path = critical_path(timeline)
    on_path = set(path)
    order = sorted(timeline.tasks, key=lambda t: t.start_us)
    places = {task: i for i, task in enumerate(order)}
    works: dict[KernelOp, tuple[int, int, str]] = {}
    tasks = [
        TaskView(
            numbers.get(t.op, -1), t.kind, t.name, t.engine, lanes[t], t.stream, t.start_us,
            t.duration_us, t.ready_us, t.runs, t in on_path, slacks[t], t.time.bytes,
            t.time.l2_bytes, *limited(t, timeline), dict(t.cores),
            *work_of(t.kernel, works), t.timed_by, [places[e] for e in t.events],
        )
        for t in order
    ]  # fmt: skip
    target = timeline.target
    return TimeView(
        target.name, timeline.machine, timeline.latency_us, timeline.lower_bound_us,
        target.launch_us,
        {e: timeline.busy_us[e] for e in ENGINES if timeline.busy_us[e]}, timeline.idle_us,
        max(COMPUTE, key=lambda e: timeline.busy_us[e]), len(path),
        sum(t.runs * t.duration_us for t in path), tasks, timeline.gaps, roofs_of(timeline),
        made_of(timeline),
        list(dict.fromkeys(timeline.notes)),
    )  # fmt: skip


def limited(task: Task, timeline: Timeline) -> tuple[dict[str, float], str]:
    """What each cause asks of a task, and the one that bounds it."""
    limits = limits_of(task, timeline.target)
    return {c: us for c, us in limits.items() if us}, max(limits, key=lambda c: limits[c])


def work_of(
    kernel: KernelOp | None, known: dict[KernelOp, tuple[int, int, str]]
) -> tuple[int, int, str]:
    """Multiply-accumulates, element-operations, and the type of the elements of the first operand;
    of shapes that are not known, none."""
    if kernel is None:
        return 0, 0, ""
    if kernel not in known:
        body = Body.of(kernel.main)
        work = body.work() if body.is_static else None
        multiplied = [op for op in body.ops if op.ALWAYS_MACS and op.operands]
        value = (multiplied or [kernel.main])[0].operands
        element = str(element_type(value[0])) if value else ""
        known[kernel] = (0, 0, "") if work is None else (work.macs, work.vector, element)
    return known[kernel]


def roofs_of(timeline: Timeline) -> list[Roof]:
    """What the target's cube and vector cores compute, and its memories move, in a second."""
    target = timeline.target
    roofs = [
        Roof(f"cube {key}", "op", 2e6 * rate * target.cube_cores * target.cycles_per_us)
        for key, rate in cube_rates(timeline).items()
    ]
    lanes = target.lanes * target.vector_cores * target.cycles_per_us
    roofs += [Roof("vector f16", "op", 1e6 * lanes), Roof("vector f32", "op", 5e5 * lanes)]
    roofs.append(Roof("HBM", "byte", 1e6 * bandwidth(target)))
    if target.l2_bytes:
        roofs.append(Roof("L2", "byte", 1e6 * whole_l2_bytes_per_us(target)))
    return roofs


def cube_rates(timeline: Timeline) -> Mapping[str, float]:
    """Multiply-accumulates a cycle of a core, for the types that kernels of the run multiply."""
    types = {str(row.type): row.type for row in ELEMENT_TYPES}
    kernels = dict.fromkeys(t.kernel for t in timeline.tasks if "cube" in dict(t.cores))
    wanted = dict.fromkeys([*(work_of(k, {})[2] for k in kernels), "f16"])
    return {e: peak_macs(types[e], timeline.target) for e in wanted if e in types}
