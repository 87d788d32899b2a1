"""What bounds each kernel of a simulated run, and what its latency is made of.

Each task is looked at as the clock has it (`clock/launched.py`): what it asks of the pipes of its
busiest core, of HBM, and of whoever starts it. The largest of these bounds it; as pipes work
side by side, making that one faster gains no more than its distance from the next.

    products   the cube multiplies           launch    the launch cost, and the start of the kernel
    vector     the vector unit computes      waiting   for cores, for others that move bytes at the
    loads      HBM and L2 to the core                  same time, for stages of other cores
    stores     the core to L2 and HBM        memory    HBM reads and writes: together more than
    link       between host and device                 each of them

Of the latency each part of the critical path has one cause: what bounds the task that runs there,
or, before it begins, its launch and whatever else it waits for.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.support.diagnostics import location_of, visible
from ge.dialects.targets.target import Target
from ge.runtime.clock.timeline import COPY, DMA_IN, DMA_OUT, Task, Timeline
from ge.runtime.profile.critical_path import critical_path

PRODUCTS, VECTOR, LOADS, STORES = "products", "vector", "loads", "stores"
MEMORY, LINK, LAUNCH, WAITING = "memory", "link", "launch", "waiting"
CAUSES = (PRODUCTS, VECTOR, LOADS, STORES, MEMORY, LINK, LAUNCH, WAITING)

NEARLY = 1e-6  # microseconds that are rounding

# times the larger of loads and stores: from there on HBM is called what bounds both together
TOGETHER = 1.05

COPIES = {DMA_IN: "copies to the device", DMA_OUT: "copies to the host"}


def pipes_of(task: Task) -> dict[str, float]:
    """The microseconds that a task keeps each pipe busy; what is not one is left out."""
    time = task.time
    if task.engine in COPIES:
        return {LINK: time.total_us}
    found = {
        PRODUCTS: time.cube_us, VECTOR: time.vector_us, LOADS: time.in_us, STORES: time.out_us,
    }  # fmt: skip
    if time.hbm_us > TOGETHER * max(time.in_us, time.out_us):
        found[MEMORY] = time.hbm_us
    return {cause: us for cause, us in found.items() if us}


def launch_cost(task: Task, target: Target) -> float:
    """What launching a task takes: the host issues tasks of loops, and of branches that the device
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
    """What bounds a task once its kernel has begun."""
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


# ---- for people ------------------------------------------------------------------------------


def made_of_line(timeline: Timeline) -> str:
    """Say what the latency is made of along the critical path."""
    latency = timeline.latency_us or 1.0
    parts = (f"{cause} {us:,.1f} ({us / latency:.0%})" for cause, us in made_of(timeline).items())
    took = f"the {timeline.latency_us:,.1f} us on {timeline.machine}"
    return f"{took}, are, along the critical path: {', '.join(parts)}"


def kernel_table(
    kernels: Iterable[KernelLimits], latency_us: float, helps: Mapping[str, str] | None = None
) -> str:
    """A line for each kernel: what bounds it, by how much, and what comes next. `helps`: by kernel
    what was found to make it faster."""
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
