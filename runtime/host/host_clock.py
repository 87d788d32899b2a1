"""Times of a program's tasks if host threads feed them: the clock's simulation with the tasks of
the threads in it, on the engine "host", each thread a stream with a negative number.

A task of the device does not start before the host has issued it, nor a launch before its tilings
are on the device; a host task waits for those that the schedule names, of threads and device. The
start of a task from the device's queue (`launch_us`) comes on top, as in a sunk program.

Idle gaps. While no kernel or copy runs on the cores, the device waits for the task that ends the
gap. Followed back from its start, through whatever it waited for last, the gap falls to what was
done meanwhile: one of `HostWork` by the host, `copy` for tilings, `transfer` for inputs and outputs
that cross the link, `start` for the device's own start of tasks.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappush

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.npu_task.control import CaseOp, IfOp
from ge.dialects.npu_task.ops import RecordOp
from ge.dialects.targets.target import Target
from ge.runtime.clock.clock import ProgramClock, TaskBuilder
from ge.runtime.clock.simulation import Simulation
from ge.runtime.clock.timeline import COMM, COMPUTE, DMA_IN, DMA_OUT, IdleGap, Task, Timeline
from ge.runtime.host.schedule import HostSchedule, HostTask, HostWork
from ge.runtime.library.costs.estimates import TaskTime, link_time

TRANSFER, START = "transfer", "start"
HOST_CAUSES = tuple(map(str, HostWork))
CAUSES = (*HOST_CAUSES, TRANSFER, START)

TILINGS = "tilings"  # the kind of copies of tilings

Planner = Callable[[Sequence[Operation]], HostSchedule]


class HostClock(ProgramClock):
    """`plan` gives the schedule of the tasks between two barriers."""

    def __init__(self, module: ModuleOp, target: Target, plan: Planner) -> None:
        super().__init__(module, target)
        self.module, self.plan = module, plan

    def main(self, module: ModuleOp) -> Timeline:
        timeline = super().main(module)
        timeline.gaps = list(idle_gaps(timeline))
        total = dict.fromkeys(CAUSES, 0.0)
        for gap in timeline.gaps:
            total[gap.cause] += gap.end_us - gap.start_us
        timeline.gaps_us = {engine: total for engine in COMPUTE}
        return timeline

    def branch(self, op: IfOp | CaseOp) -> tuple[Timeline, int]:
        """The branch that counts: no other is fed."""
        by_host = isinstance(op, CaseOp) and op.is_decided_by_host
        taken = self.taken if by_host else None
        if taken is None:
            taken = self._longest(op, host_driven=not by_host)
            self.note_longest(op)
        return self.block(op.regions[taken].block, host_driven=False), 1

    def _longest(self, op: IfOp | CaseOp, host_driven: bool) -> int:
        """Number of the longest branch, by the time of the device alone."""
        times: list[float] = []
        for region in op.regions:
            alone = ProgramClock(self.module, self.target, rows=self.rows)
            alone.traffic.cache = self.traffic.cache.copy()
            times.append(alone.block(region.block, host_driven).latency_us)
        return times.index(max(times))

    def run(
        self,
        builder: TaskBuilder,
        host_driven: bool,
        is_accounted: bool = True,
        bounds: tuple[float, float] | None = None,
    ) -> Timeline:
        if not builder.tasks:
            return Timeline(self.target)
        schedule = self.plan([t.op for t in builder.tasks])
        bounds = bounds or Simulation(builder.tasks, self.target, host_driven=False).bounds()
        tasks = joined(builder.tasks, schedule, self.target)
        timeline = HostSimulation(tasks, self.target).run()
        timeline.lower_bound_us, timeline.path_us = bounds  # of the device alone
        return timeline


def joined(device: Sequence[Task], schedule: HostSchedule, target: Target) -> list[Task]:
    """The tasks of device and threads, waiting for each other as the schedule says."""
    tasks = list(device)
    for copy in schedule.copies:
        time = link_time(copy.bytes, target)
        new = _task(TILINGS, DMA_IN, device[copy.launches[0]].stream, time)
        tasks.append(new)
        for launch in copy.launches:
            tasks[launch].after = [*tasks[launch].after, new]
            tasks[launch].events = [*tasks[launch].events, new]
    made: dict[HostTask, Task] = {}
    for host in schedule.all():
        time = TaskTime(total_us=host.us)
        made[host] = _task(f"{host.kind} {host.name}", "host", -1 - host.thread, time)
    for line in schedule.tasks:
        before: list[Task] = []
        for host in line:
            new = made[host]
            waits = [made[other] for other in host.after] + [tasks[i] for i in host.until]
            new.after, new.events = [*before, *waits], waits
            before = [new]
            for i in host.issues:
                tasks[i].after = [*tasks[i].after, new]
    return [*made.values(), *tasks]


def _task(kind: str, engine: str, stream: int, time: TaskTime) -> Task:
    return Task(
        op=RecordOp(0, 0),  # a task needs an op: one that touches nothing
        kind=kind, engine=engine, stream=stream, cores=((engine, 1),), time=time, kernel=None,
        reads=(), writes=(), after=[], events=[], needs=[],
    )  # fmt: skip


class HostSimulation(Simulation):
    def __init__(self, tasks: Sequence[Task], target: Target) -> None:
        super().__init__(tasks, target, host_driven=False)
        self.free["host"] += len({t.stream for t in tasks if not t.on_device})

    def launch(self, i: int) -> None:
        task = self.tasks[i]
        task.ready_us = self.now
        heappush(self.launching, (self.now + (task.on_device) * self.target.launch_us, i))

    def bounds(self) -> tuple[float, float]:
        return 0.0, 0.0

    def account(self, then: float) -> None:
        self.work(then)


# ---- idle gaps -------------------------------------------------------------------------------


def idle_gaps(timeline: Timeline) -> Iterator[IdleGap]:
    """Yield the gaps before each task for which the device was idle, with their causes, until the
    last one."""
    tasks = sorted((t for t in timeline.tasks if _computes(t)), key=lambda t: t.start_us)
    end = 0.0
    for task in tasks:
        if task.start_us > end:
            yield from _causes(task, end, timeline.target.launch_us)
        end = max(end, task.end_us)


def first_launch(timeline: Timeline) -> float:
    """Start of the first kernel, in us; the device waits for it as for others."""
    return min((t.start_us for t in timeline.tasks if _computes(t)), default=0.0)


def _computes(task: Task) -> bool:
    return task.on_device and task.engine not in (DMA_IN, DMA_OUT, COMM)


def _causes(task: Task, since: float, launch_us: float) -> Iterator[IdleGap]:
    """Yield the gaps from the start of a task back to the time since when the device is idle."""
    spent: list[tuple[str, float, float]] = []
    while True:
        before = max(task.after, key=lambda t: t.end_us, default=None)
        ready = task.ready_us
        spent += _waits(task, launch_us)
        if before is None or before.end_us <= since:
            spent.append((HostWork.SYNCHRONISATION, since, ready))  # for all tasks, by a branch
            break
        spent.append((cause_of(before), before.start_us, before.end_us))
        task = before
        if task.start_us <= since:
            break
    for cause, start, end in spent:
        if end > (start := max(start, since)):
            yield IdleGap(COMPUTE[0], cause, start, end)


def _waits(task: Task, launch_us: float) -> Iterator[tuple[str, float, float]]:
    """Yield the causes for which a task waited between the time when it was ready and its start."""
    if task.on_device:
        started = min(task.ready_us + launch_us, task.start_us)
        yield START, task.ready_us, started
        yield TRANSFER, started, task.start_us  # another copy


def cause_of(before: Task) -> str:
    """The cause of a wait for a task."""
    if not before.on_device:
        return before.kind.partition(" ")[0]
    return str(HostWork.COPY) if before.kind == TILINGS else TRANSFER
