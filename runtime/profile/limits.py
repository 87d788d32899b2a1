"""The bounds of each kernel of a simulated run, and the causes that its latency is made of.

Each task is looked at as the clock has it (`clock/clock.py`): its work for the pipes of its
busiest core, for HBM, and for the starter of tasks. The largest of these bounds it; as pipes work
side by side, making that one faster gains no more than its distance from the next.

    products   the cube multiplies           launch    the launch cost, and the start of the kernel
    vector     the vector unit computes      waiting   for cores, for others that move bytes at the
    loads      HBM and L2 to the core                  same time, for stages of other cores
    stores     the core to L2 and HBM        memory    HBM reads and writes: together more than
    link       between host and device                 each of them
    links      between devices

Of the latency each part of the critical path has one cause: the bound of the task that runs
there, or, before it begins, its launch and other waits.

The slack of a task is the time by which it may end later without the run ending later, when
everything else keeps its order. A task holds others back in two ways: they depend on it (an event,
or the order of its stream), or they wait for the cores that it frees. Slack is computed
backwards from the end, as in the critical path method (Kelley and Walker, 1959):

    slack(t) = min over the tasks f that it holds back of slack(f) + the time that f waits
               for something else, after t is done
    slack(t) = the end of its part of the run - end(t)          where it holds back nothing

Parts are the stretches between two barriers (control flow waits for all tasks before it).

The critical path is followed back from the task that ends last: from each task to the one whose
cores it waited for, else to the last one of those it depends on, else to the last one of the part
before. Its tasks do not overlap: their times, with the launches and waits between them, add up to
the time of the run."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.support.diagnostics import location_of, visible
from ge.dialects.targets.target import Target
from ge.runtime.clock.timeline import COMM, COPY, DMA_IN, DMA_OUT, Task, Timeline

NEARLY = 1e-6  # times closer than this, in microseconds, count as equal


def slack(timeline: Timeline) -> dict[Task, float]:
    """Microseconds by which each task might end later."""
    launch = timeline.target.launch_us
    ends = sorted({*timeline.barriers_us, timeline.latency_us})
    slacks: dict[Task, float] = {}
    for t in timeline.tasks:
        end = ends[min(bisect_left(ends, t.end_us - NEARLY), len(ends) - 1)]
        slacks[t] = max(end - t.end_us, 0.0)
    handed = _handovers(timeline)
    for f in sorted(timeline.tasks, key=lambda t: t.start_us, reverse=True):
        waited = max(f.wait_us - launch, 0.0)
        for before in f.after:
            slacks[before] = min(slacks[before], slacks[f] + f.ready_us - before.end_us + waited)
        for before in handed.get(f, ()):
            slacks[before] = min(slacks[before], slacks[f])
    return slacks


def critical_path(timeline: Timeline) -> list[Task]:
    """The tasks of the critical path, in the order in which they run."""
    handed = _handovers(timeline)
    by_end = sorted(timeline.tasks, key=lambda t: t.end_us)
    ends = [t.end_us for t in by_end]
    path: list[Task] = []
    number = len(by_end)
    task = by_end[-1] if by_end else None
    while task is not None:
        path.append(task)
        if before := handed.get(task) or task.after:
            task = max(before, key=lambda t: t.end_us)
        else:
            number = min(bisect_right(ends, task.ready_us + NEARLY), number)
            earlier = by_end[number - 1] if number else None
            task = None if earlier is None or earlier.start_us >= task.start_us else earlier
    return path[::-1]


def _handovers(timeline: Timeline) -> dict[Task, list[Task]]:
    """Task -> those whose cores it waited for: of its engines, done when it started."""
    ended: dict[tuple[str, int], list[Task]] = defaultdict(list)
    for t in timeline.tasks:
        for engine, _ in t.cores:
            ended[engine, round(t.end_us / NEARLY)].append(t)
    handed: dict[Task, list[Task]] = {}
    for t in timeline.tasks:
        if t.wait_us <= timeline.target.launch_us + NEARLY:
            continue
        moment = round(t.start_us / NEARLY)
        for engine, _ in t.cores:
            for near in (moment - 1, moment, moment + 1):
                before = [b for b in ended.get((engine, near), ()) if b.start_us < t.start_us]
                handed.setdefault(t, []).extend(before)
    return handed


PRODUCTS, VECTOR, LOADS, STORES = "products", "vector", "loads", "stores"
MEMORY, LINK, LINKS, LAUNCH, WAITING = "memory", "link", "links", "launch", "waiting"
CAUSES = (PRODUCTS, VECTOR, LOADS, STORES, MEMORY, LINK, LINKS, LAUNCH, WAITING)

# times the larger of loads and stores: from there on HBM is called what bounds both together
TOGETHER = 1.05

COPIES = {DMA_IN: "copies to the device", DMA_OUT: "copies to the host"}


def pipes_of(task: Task) -> dict[str, float]:
    """The microseconds that a task keeps each pipe busy; pipes with no work are left out."""
    time = task.time
    if task.engine in COPIES or task.engine == COMM:
        return {LINKS if task.engine == COMM else LINK: time.total_us}
    found = {
        PRODUCTS: time.cube_us, VECTOR: time.vector_us, LOADS: time.in_us, STORES: time.out_us,
    }  # fmt: skip
    if time.hbm_us > TOGETHER * max(time.in_us, time.out_us):
        found[MEMORY] = time.hbm_us
    return {cause: us for cause, us in found.items() if us}


def launch_cost(task: Task, target: Target) -> float:
    """Time to launch a task: the host issues tasks of loops, and of branches that the device
    decides, one by one."""
    around = task.op.parent_op()
    while around is not None:
        by_host = isinstance(around, CaseOp) and around.is_decided_by_host
        if isinstance(around, IfOp | CaseOp | LoopOp) and not by_host:
            return target.host_launch_us
        around = around.parent_op()
    return target.launch_us


def limits_of(task: Task, target: Target) -> dict[str, float]:
    """The microseconds that each cause of `CAUSES` asks of one run of a task."""
    time, pipes, launch_us = task.time, pipes_of(task), launch_cost(task, target)
    found = dict(pipes)
    found[LAUNCH] = min(task.wait_us, launch_us) + time.start_us
    waits = max(task.wait_us - launch_us, 0.0) + max(task.duration_us - time.total_us, 0.0)
    if time.held is not None:
        busy = max(pipes.values(), default=0.0)
        waits += max(time.total_us - time.start_us - busy, 0.0)
    found[WAITING] = waits
    return found


def cause_of(task: Task) -> str:
    """The cause that bounds a task once its kernel has begun."""
    found = pipes_of(task)
    return max(found, key=lambda cause: found[cause], default=WAITING)


@dataclass(slots=True)
class KernelLimits:
    """The launches of a kernel, or the copies over one way of the link."""

    name: str
    runs: int = 0
    total_us: float = 0.0
    # Microseconds by cause, of all runs
    limits: dict[str, float] = field(default_factory=dict[str, float])
    nodes: dict[str, None] = field(default_factory=dict[str, None])  # of the model, in order
    places: set[str] = field(default_factory=set[str])  # where its launches come from

    @property
    def ranked(self) -> list[tuple[str, float]]:
        """Causes by time, the one that bounds it first."""
        return sorted(self.limits.items(), key=lambda item: -item[1])

    def add(self, task: Task, target: Target) -> None:
        self.runs += task.runs
        self.total_us += task.runs * task.duration_us
        for cause, us in limits_of(task, target).items():
            self.limits[cause] = self.limits.get(cause, 0.0) + task.runs * us
        self.nodes[task.name] = None
        self.places.add(place_of(task))

    def report(self) -> dict[str, Any]:
        bound, *others = self.ranked
        return {
            "kernel": self.name,
            "runs": self.runs,
            "total_us": self.total_us,
            "bound": bound[0],
            "next": others[0][0] if others else None,
            "limits_us": dict(self.ranked),
            "nodes": list(self.nodes),
        }


def place_of(task: Task) -> str:
    """The node of the model, or the place in its text, that a launch comes from, or the way that a
    copy takes over the link; empty where it is not known."""
    if task.kernel is None:
        return COPIES.get(task.engine, "")
    location = location_of(task.op)
    return location.name or str(location)


def kernels_of(timeline: Timeline) -> list[KernelLimits]:
    """The kernels of a run, and the copies over the link, the most time first."""
    found: dict[str, KernelLimits] = {}
    for task in timeline.tasks:
        name = COPIES.get(task.engine) or (task.kind if task.kind == COPY else f"@{task.kind}")
        kernel = found.setdefault(name, KernelLimits(name))
        kernel.add(task, timeline.target)
    return sorted(found.values(), key=lambda k: -k.total_us)


def made_of(timeline: Timeline) -> dict[str, float]:
    """The latency by cause, along the critical path, in microseconds; the largest first."""
    found: dict[str, float] = dict.fromkeys(CAUSES, 0.0)
    left, end = timeline.latency_us, 0.0
    for task in critical_path(timeline):
        start = min(task.time.start_us, task.duration_us)
        launch = min(max(task.start_us - end, 0.0), launch_cost(task, timeline.target))
        found[LAUNCH] += task.runs * (launch + start)
        found[cause_of(task)] += task.runs * (task.duration_us - start)
        left -= task.runs * (launch + task.duration_us)
        end = task.end_us
    found[WAITING] += max(left, 0.0)
    return dict(
        sorted(((c, us) for c, us in found.items() if us > NEARLY), key=lambda item: -item[1])
    )


def times_by_place(timeline: Timeline) -> dict[str, float]:
    """The microseconds of all tasks of one place, by `place_of`."""
    found: dict[str, float] = defaultdict(float)
    for task in timeline.tasks:
        if place := place_of(task):
            found[place] += task.runs * task.duration_us
    return dict(found)


# ---- collectives -----------------------------------------------------------------------------


@dataclass(slots=True)
class Exposed:
    """The launches of a collective, and the time of it in which no core computed."""

    kernel: str
    op: str
    algorithm: str | None
    us: float  # of a launch
    runs: int = 0
    exposed_us: float = 0.0
    # Microseconds that are exposed, of all runs, by what comes then
    causes: dict[str, float] = field(default_factory=dict[str, float])


def collectives_of(timeline: Timeline) -> list[Exposed]:
    """The collectives of a run, those that are exposed longest first."""
    found: dict[str, Exposed] = {}
    nexts = _nexts(timeline)
    for task in timeline.tasks:
        if task.engine != COMM or task.kernel is None:
            continue
        main = task.kernel.main
        algorithm = getattr(main, "algorithm", None)
        row = found.setdefault(task.kind, Exposed(
            task.kind, main.name.rpartition(".")[2],
            None if algorithm is None else str(algorithm.data), task.time.total_us,
        ))  # fmt: skip
        row.runs += task.runs
        if task.exposed_us > NEARLY:
            us, cause = task.runs * task.exposed_us, nexts.get(task, "nothing else is left to do")
            row.exposed_us += us
            row.causes[cause] = row.causes.get(cause, 0.0) + us
    return sorted(found.values(), key=lambda row: -row.exposed_us)


def _nexts(timeline: Timeline) -> dict[Task, str]:
    """Collective -> what begins after it, and why not before."""
    found: dict[Task, str] = {}
    for task in sorted(timeline.tasks, key=lambda t: t.start_us):
        if task.engine != COMM:
            for before in task.needs:
                if before.engine == COMM:
                    found.setdefault(before, f"{task.name} needs what it brings")
            for before in task.events:
                if before.engine == COMM:
                    found.setdefault(before, f"{task.name} waits until its memory is free")
    return found


# ---- for people ------------------------------------------------------------------------------


def made_of_line(timeline: Timeline) -> str:
    """A line of the parts of the latency along the critical path."""
    latency = timeline.latency_us or 1.0
    parts = (f"{cause} {us:,.1f} ({us / latency:.0%})" for cause, us in made_of(timeline).items())
    took = f"the {timeline.latency_us:,.1f} us on {timeline.machine}"
    return f"{took}, are, along the critical path: {', '.join(parts)}"


def kernel_table(
    kernels: Iterable[KernelLimits], latency_us: float, helps: Mapping[str, str] | None = None
) -> str:
    """A line for each kernel: the cause that bounds it, by how much, and what comes next. `helps`:
    by kernel a text of what would make it faster."""
    lines = [
        f"{'kernel':24} {'runs':>5} {'us':>10} {'of all':>6}  {'bound by':19} {'next':19} node"
    ]
    for kernel in kernels:
        bound, *others = kernel.ranked
        first, *more = kernel.nodes
        node = f"{visible(first)} and {len(more)} more" if more else visible(first)
        share = kernel.total_us / (latency_us or 1.0)
        lines.append(
            f"{visible(kernel.name):24} {kernel.runs:5} {kernel.total_us:10,.1f} {share:6.1%}  "
            f"{cell(bound)} {cell(*others[:1])} {node}"
        )
        if helps and (text := helps.get(kernel.name)):
            lines.append(f"{'':24} {text}")
    return "\n".join(lines)


def cell(*limit: tuple[str, float]) -> str:
    return f"{limit[0][0]:8} {limit[0][1]:10,.1f}" if limit else f"{'-':19}"
