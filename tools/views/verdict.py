"""The verdict on a run, in a few sentences. Each gives figures of the simulated run; an estimated
figure is called so. What a user can change comes before what another machine would change.

It stands on where the time goes (tasks, and the work of each kernel) and on which bytes of the
device are in use when."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, SlotOp
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.element_types import ELEMENT_TYPES
from ge.dialects.support.types import align_up, byte_size, element_type
from ge.lowering.driver.program import memory_figures
from ge.runtime.clock.timeline import ENGINES, IdleGap, Task, Timeline, bandwidth
from ge.runtime.library.costs.cycles import peak_macs
from ge.runtime.library.costs.estimates import whole_l2_bytes_per_us
from ge.runtime.profile.limits import critical_path, limits_of, made_of, slack
from ge.runtime.profile.trace import engine_lanes, residences
from ge.runtime.profile.what_if import WhatIf
from ge.tools.views.data import LevelGraph, Noted
from ge.tools.views.levels import Numbers, ends_of, type_text


@dataclass(slots=True)
class Buffer:
    """A buffer at its place in a segment, in use between two times; `nodes` are those of the
    program level that write or read it, in order, the first one first."""

    name: str
    type: str
    segment: str
    offset: int
    bytes: int
    start_us: float
    end_us: float
    nodes: list[int]


@dataclass(slots=True)
class MemorySegment:
    """`peak_bytes` are the most that are in use at one time, first at `peak_us`; `bytes` what the
    plan takes."""

    name: str
    bytes: int
    peak_bytes: int = 0
    peak_us: float = 0.0


@dataclass(slots=True)
class MemoryView:
    """Segments and buffers of a program, sizes in bytes, and the figures of its plan."""

    segments: list[MemorySegment]
    buffers: list[Buffer]
    figures: dict[str, int] = field(default_factory=dict[str, int])


def memory_view(module: ModuleOp, timeline: Timeline, numbers: Numbers) -> MemoryView:
    """The buffers of a program over a simulated run; `numbers` are those of its nodes."""
    users: dict[SlotOp, dict[int, None]] = {}
    for task in sorted(timeline.tasks, key=lambda t: t.start_us):
        read, written = ends_of(task.op)
        for value in (*written, *read):
            slot = owner_of(value).owner
            if isinstance(slot, SlotOp) and task.op in numbers:
                users.setdefault(slot, {})[numbers[task.op]] = None
    buffers = [
        Buffer(
            names[-1] if (names := sources_of(r.slot)) else r.slot.result.name_hint or "",
            type_text(r.slot.result.type), r.slot.segment.data, r.slot.offset.value.data, r.bytes,
            r.start_us, r.end_us, list(users.get(r.slot, ())),
        )
        for r in residences(timeline)
    ]  # fmt: skip
    planned = slots_end(module)
    alignment = timeline.target.hbm_alignment
    segments = [
        peak(
            MemorySegment(name, align_up(end, alignment)), [b for b in buffers if b.segment == name]
        )
        for name, end in planned.items()
    ]
    segments.sort(key=lambda s: s.name != "arena")
    return MemoryView(segments, buffers, memory_figures(module))


def slots_end(module: ModuleOp) -> dict[str, int]:
    """Segment -> the byte after its last slot."""
    ends: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, SlotOp):
            end = op.offset.value.data + byte_size(op.result.type)
            ends[op.segment.data] = max(ends.get(op.segment.data, 0), end)
    return ends


def peak(segment: MemorySegment, buffers: list[Buffer]) -> MemorySegment:
    """With the most bytes that buffers have at one time; of those that share bytes (parts, results
    in place) each byte counts once."""
    events = sorted({b.start_us for b in buffers})
    for when in events:
        live = [b for b in buffers if b.start_us <= when < b.end_us or b.start_us == when]
        size = covered([(b.offset, b.offset + b.bytes) for b in live])
        if size > segment.peak_bytes:
            segment.peak_bytes, segment.peak_us = size, when
    return segment


def covered(spans: list[tuple[int, int]]) -> int:
    """Return how many bytes are in at least one of the spans."""
    total = end = 0
    for low, high in sorted(spans):
        total += max(high - max(low, end), 0)
        end = max(end, high)
    return total


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
    path_tasks: int
    path_us: float
    tasks: list[TaskView]
    gaps: list[IdleGap]
    roofs: list[Roof]
    exposed_us: float  # in which devices sent each other and no core computed
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
        len(path),
        sum(t.runs * t.duration_us for t in path), tasks, timeline.gaps, roofs_of(timeline),
        sum(t.runs * t.exposed_us for t in timeline.tasks), made_of(timeline),
        list(dict.fromkeys(timeline.notes)),
    )  # fmt: skip


def limited(task: Task, timeline: Timeline) -> tuple[dict[str, float], str]:
    """Return the time that each cause asks of a task, and the cause that bounds it."""
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
    """Return what the target's cube and vector cores compute, and its memories move, in a
    second."""
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


SMALL_GAIN = 0.98  # share of the time: a change that leaves more is reported as no gain

SHOWN = 0.005  # of the time: what takes less is left out


def verdict(
    time: TimeView, program: LevelGraph, memory: MemoryView | None, changes: Mapping[str, WhatIf],
    near: Sequence[Noted], tried: Sequence[Mapping[str, Any]] = (),
) -> list[str]:  # fmt: skip
    """Return the sentences: the time, the tasks, what a user can change, the memory, the machine.
    `tried` are the options that `ge-run --explain` compiled and timed, as the report has them."""
    return [
        length(time), largest(time, program), options(time, near, tried), *memory_of(memory),
        machine(time, changes),
    ]  # fmt: skip


def length(time: TimeView) -> str:
    total = sum(time.made_of_us.values())
    if not total:
        return "The program has no tasks that take time."
    causes = [c for c, us in time.made_of_us.items() if us >= SHOWN * total][:3]
    shares = ", ".join(f"{NAMES[c]} {time.made_of_us[c] / total:.0%}" for c in causes)
    return (
        f"A run takes {duration(time.latency_us)} on {time.machine}, and no schedule of these "
        f"tasks takes less than {duration(time.lower_bound_us)}; along the critical path it is "
        f"made of {shares}."
    )


# The causes of `profile/limits.py` in a sentence
NAMES = {
    "products": "products",
    "vector": "vector work",
    "loads": "loads",
    "stores": "stores",
    "memory": "HBM traffic both ways",
    "link": "copies over the host link",
    "links": "links between devices",
    "launch": "launches",
    "waiting": "waiting",
}


def largest(time: TimeView, program: LevelGraph) -> str:
    groups: dict[str, list[TaskView]] = defaultdict(list)
    for task in time.tasks:
        groups[kind_of(task, program)].append(task)
    sums = {k: sum(t.runs * t.duration_us for t in tasks) for k, tasks in groups.items()}
    if not (total := sum(sums.values())):
        return "None of the tasks takes any time."
    kind = max(sums, key=lambda k: sums[k])
    tasks = groups[kind]
    bounds: dict[str, float] = defaultdict(float)
    for t in tasks:
        bounds[t.bound] += t.runs * t.duration_us
    bound = max(bounds, key=lambda b: bounds[b])
    longest = max(time.tasks, key=lambda t: t.duration_us)
    count = sum(t.runs for t in tasks)
    return (
        f"{sums[kind] / total:.0%} of the tasks' time is in {count} {kind}, of which "
        f"{bounds[bound] / sums[kind]:.0%} is bound by {NAMES[bound]}; the longest single task is "
        f"{longest.name} ({kind_of(longest, program)}) with {duration(longest.duration_us)}, "
        f"{longest.duration_us / time.latency_us:.1%} of the run."
    )


def kind_of(task: TaskView, program: LevelGraph) -> str:
    """Say what a task computes, as the name of an op; copies by their direction."""
    if task.engine.startswith("dma"):
        return {"dma_in": "copies to the device", "dma_out": "copies to the host"}[task.engine]
    return program.nodes[task.node].attributes.get("computes", "copy") if task.node >= 0 else "copy"


def options(time: TimeView, near: Sequence[Noted], tried: Sequence[Mapping[str, Any]]) -> str:
    """Return what the user can change: options that were compiled and timed, near misses."""
    parts: list[str] = []
    own = [t for t in tried if "--target" not in t["flags"]]
    best = min(own, key=lambda t: t["us"], default=None)
    if best is None:
        parts.append("no options were tried (ge-run --explain --html compiles and times them)")
    elif best["us"] < SMALL_GAIN * time.latency_us:
        parts.append(
            f"of the options that were tried, {best['flags']} saves most: {duration(best['us'])} a "
            f"sample in place of {duration(time.latency_us)} (numbers: {best['numbers']})"
        )
    else:
        parts.append("no option that was tried saves 2% of the time")
    if lost := sum(n.loss_us or 0.0 for n in near):
        count = sum(n.loss_us is not None for n in near)
        misses = (
            "1 near miss of a rule costs" if count == 1 else f"{count} near misses of rules cost"
        )
        parts.append(f"{misses} about {duration(lost)} (view Fusion)")
    return sentence(parts)


def memory_of(memory: MemoryView | None) -> list[str]:
    """Return what the memory is taken by, where there is a plan."""
    if memory is None or not (peak := memory.figures.get("peak_bytes")):
        return []
    bound = memory.figures.get("lower_bound_bytes", 0)
    weights = memory.figures.get("weight_bytes", 0)
    return [
        f"The arena takes {size(peak)} (at least {size(bound)}) beside {size(weights)} of weights."
    ]


def machine(time: TimeView, changes: Mapping[str, WhatIf]) -> str:
    """Return which other machine would run the same program fastest."""
    best = min(changes.values(), key=lambda change: change.ratio, default=None)
    if best is None or best.ratio >= SMALL_GAIN:
        return "No change of the machine that was simulated saves 2% of the time."
    name = next(n for n, change in changes.items() if change is best)
    return (
        f"On another machine: {name} would save most, {duration(best.latency_us)} in place of "
        f"{duration(time.latency_us)}, for the program as it is."
    )


def sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def duration(us: float) -> str:
    """Microseconds below ten milliseconds, then milliseconds."""
    return f"{us:,.1f} us" if us < 1e4 else f"{us / 1e3:,.2f} ms"


def size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:,.2f} {unit}"
    return f"{count} bytes"
