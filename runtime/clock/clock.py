"""When a program's tasks run: a discrete-event simulation of streams, events and engines.

- A stream is a queue: a task starts after the one before it on its stream. A wait holds the tasks
  after it back until all that was issued before the record is done.
- A task that may start is launched (`launch_us` for a task in the device's queue) and starts when
  enough cores of its engine are free, first come first served. A cube kernel with vector work
  holds the vector cores of its clusters as well.
- Inside branches and loops the host issues tasks one after the other, `host_launch_us` each, from
  the moment that it knows which way to go; a task does not start before it is issued. All streams
  are idle before and after a branch and between iterations.
- `cost.py` models a task's time in isolation, with what L2 has of its operands when it is issued
  (`l2.py`). Tasks that run together share the bandwidths of HBM and of L2 (`sharing.py`).
- Where the host takes a branch by the sizes of inputs, its tasks are in the device's queue.
- Of a branch the longest side counts, and what it leaves in L2. A loop counts as often as its
  constant trip count says, each iteration like the first; without one it counts once.
  `Timeline.notes` says where that happened.

Idle time is that of the busiest of the two compute engines, by what went on meanwhile: the other
one computed (`compute`), only copies ran (`memory`), a launch was under way (`schedule`), or
nothing of these (`sync`: issue by the host, barriers).
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task import ops as task
from ge.dialects.npu_task.attributes import HBM, HOST, is_dynamic, space_of
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import ByteRegions, moves, trips
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import align_up, byte_size
from ge.dialects.targets.target import Target
from ge.runtime.clock.bounds import Job, lower_bound
from ge.runtime.clock.dataflow import Writers
from ge.runtime.clock.issue import Issue, IssueQueue
from ge.runtime.clock.l2 import L2Cache
from ge.runtime.clock.launched import Launched, launched, time_with
from ge.runtime.clock.sharing import fair_speeds
from ge.runtime.clock.timeline import (
    COMPUTE,
    COPY,
    DMA_IN,
    DMA_OUT,
    IdleGap,
    Task,
    Timeline,
    bandwidth,
    capacities,
)
from ge.runtime.clock.traffic import Traffic
from ge.runtime.clock.valid_rows import rows_read
from ge.runtime.costs.cost import copy_pipes, link_time
from ge.runtime.costs.pipes import CoreTimes, Pipes, TaskTime, whole_l2_bytes_per_us

TASKS = (LaunchOp, task.CopyOp, task.BatchCopyOp, task.TransferOp)  # what runs on a stream

# What only names memory: most ops of a program
PASSIVE = {task.SlotOp, task.ConstantOp, ReinterpretCastOp, AllocOp}


class UnknownShapes(GeError):
    """A program cannot be timed because shapes are known only at run time."""


# ---- from the program to tasks ---------------------------------------------------------------


class TaskBuilder:
    """The tasks of an epoch (what is issued between two barriers), with what each waits for."""

    def __init__(self, regions: ByteRegions) -> None:
        self.tasks: list[Task] = []
        self._of: dict[Issue, Task] = {}
        self._last: dict[int, Task] = {}
        self._writers: Writers[Task] = Writers(regions)

    def add(
        self,
        issue: Issue,
        engine: str,
        cores: tuple[tuple[str, int], ...],
        time: TaskTime,
        reads: Iterable[SSAValue],
        writes: Iterable[SSAValue],
        kernel: KernelOp | None = None,
    ) -> None:
        events = [self._of[w] for w in issue.waits if w in self._of]
        last = self._last.get(issue.stream)
        reads, writes = tuple(reads), tuple(writes)
        new = self._of[issue] = self._last[issue.stream] = Task(
            op=issue.op,
            kind=COPY if kernel is None else kernel.sym_name.data,
            engine=engine,
            stream=issue.stream,
            cores=cores,
            time=time,
            kernel=kernel,
            reads=tuple(v.type for v in reads),
            writes=tuple(v.type for v in writes),
            after=events if last is None else [*events, last],
            events=events,
            needs=self._writers.of(reads),
        )
        self._writers.write(new, writes)
        self.tasks.append(new)


def stated(block: Block) -> Iterator[Issue | Operation]:
    """What the host issues in a block by the streams and events of the IR: tasks, and control flow,
    before which all tasks end. Raises GeError for what is no part of a program."""
    queue = IssueQueue()
    for op in block.ops:
        if type(op) in PASSIVE:
            continue
        if isinstance(op, TensorOp) or (isinstance(op, TASKS) and op.stream is None):
            what = "fixed on a stream" if isinstance(op, TASKS) else "a task"
            hint = "compile it with ge-compile first"
            raise GeError(f"{op.name} is not {what}: not a program", str(location_of(op)), hint)
        match op:
            case LaunchOp() | task.CopyOp() | task.BatchCopyOp() | task.TransferOp():
                yield queue.issue(op)
            case task.RecordOp():
                queue.record(op)
            case task.WaitOp():
                queue.wait(op)
            case IfOp() | CaseOp() | LoopOp() | YieldOp():
                queue = IssueQueue()
                yield op
            case _:
                pass


class ProgramClock:
    """A program as nested sequences of tasks."""

    def __init__(
        self,
        module: ModuleOp,
        target: Target,
        issued: Mapping[Block, Sequence[Issue | Operation]] | None = None,
        absent: Collection[Operation] = (),
        rows: int | None = None,
        tiles: Mapping[str, CoreTimes] | None = None,
    ) -> None:
        """`issued`: the schedule, what the host issues in each block; None: that of the IR.
        `absent`: tasks that do not run. `rows`: how many attention reads of states that grow; None:
        all. `tiles`: what tile programs take; their kernels take as long."""
        self.target, self.issued, self.absent, self.rows = target, issued, absent, rows
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.tiles = tiles or {}
        self.notes: list[str] = []
        self.regions = ByteRegions()
        self.traffic = Traffic(target.l2_bytes, self.regions)
        # Of branches that the host takes by the sizes of inputs the one that counts, and all times
        self.taken: int | None = None
        self.branches: list[Timeline] = []
        self._known: dict[str, Launched] = {}
        self._unknown: list[Operation] = []

    def main(self, module: ModuleOp) -> Timeline:
        main = functions(module).get("main")
        if main is None or not main.body.blocks:
            raise GeError("the module has no function @main")
        if (read := rows_read(main, self.rows)) is not None:
            self.rows, note = read
            self.notes.append(note)
        if self.tiles:
            timed = sum(k.tiles is not None for k in self.kernels.values())
            text = f"{timed} of {len(self.kernels)} kernels take what their tile programs take"
            self.notes.append(text)
        timeline = self.block(main.body.block, host_driven=False)
        timeline.notes = self.notes
        if self._unknown:
            names = (name for op in self._unknown if (name := str(location_of(op))))
            hint = "fix the model's shapes with --shape, --dim or --inputs"
            if self.taken is not None:
                hint = "these sizes are of no gear, and the fallback cannot be timed"
            raise UnknownShapes(
                f"{len(self._unknown)} tasks have shapes that are known only at run time, "
                f"the first is {next(names, self._unknown[0].name)}",
                hint=hint,
            )
        return timeline

    def block(self, block: Block, host_driven: bool) -> Timeline:
        """The timeline of a block: simulated piece by piece, since control flow waits for all that
        was issued before. Raises GeError for what is no part of a program."""
        result = Timeline(self.target)
        builder = TaskBuilder(self.regions)
        for item in stated(block) if self.issued is None else self.issued.get(block, ()):
            if isinstance(item, Issue):
                self.add(builder, item)
                continue
            result.append(self.run(builder, host_driven))
            builder = TaskBuilder(self.regions)
            if isinstance(item, IfOp | CaseOp):
                result.append(*self.branch(item))
            elif isinstance(item, LoopOp):
                result.append(*self.loop(item))
            elif isinstance(item, YieldOp):
                self.carry(builder, item)
        result.append(self.run(builder, host_driven))
        return result

    def in_isolation(self, issues: Iterable[Issue]) -> Timeline:
        self.traffic.cache = L2Cache(self.target.l2_bytes)
        builder = TaskBuilder(self.regions)
        for issue in issues:
            self.add(builder, issue)
        return self.run(builder, host_driven=False)

    def run(self, builder: TaskBuilder, host_driven: bool) -> Timeline:
        return Simulation(builder.tasks, self.target, host_driven).run()

    def add(self, builder: TaskBuilder, issue: Issue) -> None:
        op = issue.op
        if op in self.absent:
            return
        if isinstance(op, LaunchOp):
            self.launch(builder, issue, op)
        elif isinstance(op, task.BatchCopyOp):
            self.batch_copy(builder, issue, op)
        else:
            self.copy(builder, issue, op.operands[0], (*op.operands, *op.results)[1])

    def launch(self, builder: TaskBuilder, issue: Issue, op: LaunchOp) -> None:
        known = self._known.get(op.callee)
        if known is None:
            if op.callee not in self.kernels:
                raise GeError(f"there is no kernel @{op.callee}", str(location_of(op)))
            kernel = self.kernels[op.callee]
            core = None if kernel.tiles is None else self.tiles.get(kernel.tiles.data)
            known = launched(kernel, self.target, self.rows, core)
            self._known[op.callee] = known
        kernel, operands, cost = self.kernels[op.callee], op.operands, known.cost
        ins = operands[: known.inputs]
        writes = (*operands[known.inputs :], *op.results)
        if len(writes) != known.outputs:
            text = f"operands or results differ from those of @{op.callee}"
            raise GeError(text, str(location_of(op)), "see pass verify-level{level=program}")
        if cost is None:
            self._unknown.append(op)
            return
        if isinstance(cost, Pipes):
            moved = self.traffic.launch(ins, known.reads, writes, known.writes)
            time = known.time(moved, self.target)
        else:
            time = cost
            for value in writes:
                self.traffic.transfer(value)
        builder.add(issue, known.engine, known.cores, time, ins, writes, kernel)

    def copy(self, builder: TaskBuilder, issue: Issue, source: SSAValue, to: SSAValue) -> None:
        try:
            size = byte_size(source.type if is_dynamic(to.type) else to.type)
        except ValueError:
            self._unknown.append(issue.op)
            return
        spaces = [getattr(v.type, "memory_space", None) for v in (source, to)]
        if HOST in spaces and spaces[0] != spaces[1]:
            engine = DMA_IN if spaces[0] == HOST else DMA_OUT
            time = link_time(size, self.target)
            self.traffic.transfer(to)
            builder.add(issue, engine, ((engine, 1),), time, (source,), (to,))
            return
        cost = copy_pipes(size, self.target)
        time = time_with(cost, self.traffic.copy(source, to), self.target)
        builder.add(issue, "vector", (("vector", cost.blocks),), time, (source,), (to,))

    def batch_copy(self, builder: TaskBuilder, issue: Issue, op: task.BatchCopyOp) -> None:
        """One transfer of all buffers, with what lies between them on the device."""
        alignment = self.target.hbm_alignment
        size = sum(align_up(byte_size(v.type), alignment) for v in op.on_device)
        for value in op.targets:
            self.traffic.transfer(value)
        engine = DMA_IN if space_of(op.targets[0].type) == HBM else DMA_OUT
        time = link_time(size, self.target)
        builder.add(issue, engine, ((engine, 1),), time, op.sources, op.targets)

    def carry(self, builder: TaskBuilder, op: YieldOp) -> None:
        for value, place, row in moves(op):
            if place is None or row:
                continue
            if self.regions.of(value) != self.regions.of(place):
                self.copy(builder, Issue(op, 0, []), value, place)

    def branch(self, op: IfOp | CaseOp) -> tuple[Timeline, int]:
        before = self.traffic.cache
        by_device = not (isinstance(op, CaseOp) and op.is_decided_by_host)
        sides: list[tuple[Timeline, L2Cache]] = []
        for region in op.regions:
            self.traffic.cache, count = before.copy(), len(self._unknown)
            timeline = self.block(region.block, host_driven=by_device)
            if not by_device and self.taken != len(sides):
                del self._unknown[count:]  # of sizes that no gear has: another branch counts
            sides.append((timeline, self.traffic.cache))
        if not by_device:
            self.branches = [timeline for timeline, _ in sides]
        chosen = self.taken if not by_device and self.taken is not None else None
        if chosen is not None:
            longest, self.traffic.cache = sides[chosen]
            return longest, 1
        longest, self.traffic.cache = max(sides, key=lambda side: side[0].latency_us)
        self.note_longest(op)
        return longest, 1

    def note_longest(self, op: IfOp | CaseOp) -> None:
        what = "longest" if len(op.regions) > 2 else "longer"
        self.notes.append(f"{str(location_of(op)) or op.name}: the {what} branch is counted")

    def loop(self, op: LoopOp) -> tuple[Timeline, int]:
        """The timeline of one iteration, and how many there are (1 where that is not known)."""
        body = self.block(op.body.block, host_driven=True)
        least, most = trips(op)
        if least != most:
            self.notes.append(f"{str(location_of(op)) or op.name}: one iteration is counted")
        elif least > (count := body.shown(body, least)):
            shown = f"{count} of {least} iterations"
            self.notes.append(f"{str(location_of(op)) or op.name}: trace and summary show {shown}")
        return body, least if least == most else 1


# ---- simulation ------------------------------------------------------------------------------


class Simulation:
    """Runs tasks from idle engines to idle engines."""

    def __init__(self, tasks: Sequence[Task], target: Target, host_driven: bool) -> None:
        self.tasks, self.target, self.host_driven = tasks, target, host_driven
        self.free = capacities(target)
        self.bandwidth = bandwidth(target)
        self.bandwidths = self.bandwidth, whole_l2_bytes_per_us(target)
        self.now = 0.0
        self.launching: list[tuple[float, int]] = []
        # Engines -> the tasks that need cores of these, with numbers by which they came
        self.waiting: dict[tuple[str, ...], deque[tuple[int, int]]] = {}
        self.arrivals = 0
        self.running: dict[int, float] = {}  # task -> microseconds that it would still take alone
        self.speeds: dict[int, float] = {}
        self.missing = [len(t.after) for t in tasks]
        index = {t: i for i, t in enumerate(tasks)}
        self.followers: list[list[int]] = [[] for _ in tasks]
        for i, t in enumerate(tasks):
            for before in t.after:
                self.followers[index[before]].append(i)
        self.timeline = Timeline(target, list(tasks))

    def run(self) -> Timeline:
        result = self.timeline
        for i, t in enumerate(self.tasks):
            result.bytes += t.time.bytes
            for engine, cores in t.cores:
                result.core_us[engine] += cores * t.time.total_us
            if not t.after:
                self.ready(i)
        while self.launching or self.running or self.waiting:
            self.advance()
        result.latency_us = self.now
        result.lower_bound_us, result.path_us = self.bounds()
        return result

    def bounds(self) -> tuple[float, float]:
        index = {t: i for i, t in enumerate(self.tasks)}
        jobs = [
            Job(
                t.time.total_us,
                [index[n] for n in t.needs],
                {e: n / self.timeline.capacity[e] for e, n in t.cores},
                t.time.bytes / self.bandwidth,
            )
            for t in self.tasks
        ]
        if not self.host_driven:
            return lower_bound(jobs, self.target.launch_us)
        # The host issues one task after the other, so that the launches alone add up.
        bound, path = lower_bound(jobs, 0.0)
        last = min((t.time.total_us for t in self.tasks), default=0.0)
        return max(bound, len(jobs) * self.target.host_launch_us + last), path

    def ready(self, i: int) -> None:
        self.launch(i)  # a scheduler launches it later

    def launch(self, i: int) -> None:
        self.tasks[i].ready_us = self.now
        if self.host_driven:
            at = max(self.now, (i + 1) * self.target.host_launch_us)
        else:
            at = self.now + self.target.launch_us
        heappush(self.launching, (at, i))

    def advance(self) -> None:
        then = self.launching[0][0] if self.launching else float("inf")
        for i, rest in self.running.items():
            then = min(then, self.now + rest / self.speeds[i])
        self.account(then)
        step, self.now = then - self.now, then
        nearly = 1e-9 + 1e-12 * self.now  # what rounding may leave of a duration
        for i in self.running:
            self.running[i] -= step * self.speeds[i]
        finished = [i for i, rest in self.running.items() if rest <= nearly]
        for i in finished:
            self.finish(i)
        while self.launching and self.launching[0][0] <= self.now + nearly:
            self.wait(heappop(self.launching)[1])
        if self.start() or finished:
            self.share()

    def finish(self, i: int) -> None:
        t = self.tasks[i]
        del self.running[i]
        t.duration_us = self.now - t.start_us
        for engine, cores in t.cores:
            self.free[engine] += cores
        for follower in self.followers[i]:
            self.missing[follower] -= 1
            if not self.missing[follower]:
                self.ready(follower)

    def wait(self, i: int) -> None:
        self.arrivals += 1
        engines = tuple(e for e, _ in self.tasks[i].cores)
        self.waiting.setdefault(engines, deque()).append((self.arrivals, i))

    def start(self) -> bool:
        """Start the tasks for which cores are free; a task does not overtake another one that
        waits for the same engine. Tasks that need the same engines are in one queue, of which
        only the first can start."""
        blocked: set[str] = set()
        started = False
        heads = [(queue[0], engines) for engines, queue in self.waiting.items()]
        heapify(heads)
        while heads:
            (_, i), engines = heappop(heads)
            cores = self.tasks[i].cores
            if not blocked.isdisjoint(engines) or any(self.free[e] < n for e, n in cores):
                blocked.update(engines)
                continue
            queue = self.waiting[engines]
            queue.popleft()
            if queue:
                heappush(heads, (queue[0], engines))
            else:
                del self.waiting[engines]
            self.begin(i)
            started = True
        return started

    def begin(self, i: int) -> None:
        t = self.tasks[i]
        for engine, cores in t.cores:
            self.free[engine] -= cores
        t.start_us = self.now
        self.running[i] = t.time.total_us

    def share(self) -> None:
        if len(self.running) < 2:
            self.speeds = dict.fromkeys(self.running, 1.0)
            return
        running = list(self.running)
        demands = [self.demands(i) for i in running]
        totals = map(sum, zip(*demands, strict=True))
        if all(t <= c for t, c in zip(totals, self.bandwidths, strict=True)):
            self.speeds = dict.fromkeys(running, 1.0)
        else:
            self.speeds = dict(zip(running, fair_speeds(demands, self.bandwidths), strict=True))

    def demands(self, i: int) -> tuple[float, float]:
        """Bytes a microsecond of HBM and of L2 that a task moves at full speed."""
        time = self.tasks[i].time
        if not time.total_us:
            return 0.0, 0.0
        return time.bytes / time.total_us, time.l2_bytes / time.total_us

    def account(self, then: float) -> None:
        active = {self.tasks[i].engine for i in self.running}
        for engine in active:
            self.timeline.busy_us[engine] += then - self.now
        for engine in COMPUTE:
            if engine in active:
                continue
            if active & {*COMPUTE, "host"}:
                cause = "compute"
            elif active:
                cause = "memory"
            else:
                cause = "schedule" if self.launching and not self.host_driven else "sync"
            self.timeline.idled(IdleGap(engine, cause, self.now, then))


def simulate(
    module: ModuleOp,
    target: Target,
    taken: int | None = None,
    absent: Collection[Operation] = (),
    rows: int | None = None,
    tiles: Mapping[str, CoreTimes] | None = None,
) -> Timeline:
    """When the tasks of a program run, but for `absent` ones. Attention reads so many `rows` of
    states that grow, by default all. With `tiles` kernels take what their tile programs take.
    Raises GeError for a module that is no program and for one whose shapes are known only at run
    time."""
    clock = ProgramClock(module, target, absent=absent, rows=rows, tiles=tiles)
    clock.taken = taken
    return clock.main(module)
