"""Tasks go to streams by the engine that executes them; events order them across streams.

    npu_task.copy %x to %0 : memref<64xf32, host> to memref<64xf32, hbm>
    npu_task.launch @matmul_0 ins(%0 : ...) outs(%1 : ...)
    npu_task.launch @relu_0 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @relu_0 ins(%1 : ...) outs(%3 : ...)
becomes
    npu_task.copy %x to %0 on 2 : memref<64xf32, host> to memref<64xf32, hbm>
    %event = npu_task.record 0 on 2
    npu_task.wait %event on 0
    npu_task.launch @matmul_0 on 0 ins(%0 : ...) outs(%1 : ...)
    %event_1 = npu_task.record 1 on 0
    npu_task.wait %event_1 on 1
    npu_task.launch @relu_0 on 1 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @relu_0 on 1 ins(%1 : ...) outs(%3 : ...)

Of each segment (the tasks of a block between two barriers) the fastest of several schedules by the
clock is chosen:
- the order of the program, one stream for each engine;
- list scheduling (`list_scheduling.py`) with the longest path to the end as the priority, and with
  the order of the program as the priority, on several streams for each engine, so that independent
  launches overlap. These never keep more bytes live than the limit: that of the caller, or the
  peak of the program's own order, with what one collective takes where devices send each other
  something. Where a launch would overtake one that is about to be ready and makes what is sent, a
  third schedule is tried, in which none does (`patient`).

One that its scheduler expects to be hardly faster than the best so far is not timed. Only the first
is timed where it is as fast as the lower bound, and inside branches and loops, where the host
issues one task after the other. Gears of the same structure take the schedule of the largest. The
IR is written when all schedules are chosen.

On a target with fewer streams than engines some engines share a stream (`SHARED`), and so they do
where a segment needs more events at one time than the target has: one stream needs none.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import CAP, HBM, HOST, Engine, number, state
from ge.dialects.npu_task.control import CaseOp
from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import ConstantOp, LaunchOp, kernels_of
from ge.dialects.support.editing import put_in_row
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import byte_size, is_dynamic
from ge.dialects.targets.target import Target, target_for
from ge.runtime.clock.clock import ProgramClock
from ge.runtime.clock.issue import Issue
from ge.runtime.clock.timeline import Timeline
from ge.runtime.library.asking import answers_in
from ge.runtime.library.costs.estimates import core_estimates
from ge.transforms.analysis.dependencies import Segment, arena_bytes, segments
from ge.transforms.analysis.task_graph import TaskGraph, Window, buffer_graph, windows
from ge.transforms.rewriting.passes import TargetPass
from ge.transforms.schedule.events import (
    EventIds,
    Planned,
    number_events,
    plan,
    remove_events,
    with_events,
)
from ge.transforms.schedule.list_scheduling import (
    ListScheduler,
    MemoryCap,
    Schedule,
    Streams,
    memory_orderings,
    path_lengths,
)

CUBE, VECTOR, DMA_IN, DMA_OUT, CONTROL, COMM = range(6)
STREAMS = 5  # of programs of one device; those of many have one more
STREAM_OF = {
    Engine.CUBE: CUBE,
    Engine.VECTOR: VECTOR,
    Engine.HOST: CONTROL,
    Engine.DMA: DMA_IN,
    Engine.COMM: COMM,
}

# Number of streams -> the one on which the tasks of each stream go.
SHARED = {
    1: {CUBE: 0, VECTOR: 0, DMA_IN: 0, DMA_OUT: 0, CONTROL: 0, COMM: 0},
    2: {CUBE: 0, VECTOR: 0, DMA_IN: 1, DMA_OUT: 1, CONTROL: 0, COMM: 1},
    3: {CUBE: 0, VECTOR: 1, DMA_IN: 2, DMA_OUT: 2, CONTROL: 1, COMM: 2},
    4: {CUBE: 0, VECTOR: 1, DMA_IN: 2, DMA_OUT: 3, CONTROL: 1, COMM: 3},
    5: {CUBE: 0, VECTOR: 1, DMA_IN: 2, DMA_OUT: 3, CONTROL: 4, COMM: 3},
    6: {CUBE: 0, VECTOR: 1, DMA_IN: 2, DMA_OUT: 3, CONTROL: 4, COMM: 5},
}

MORE_STREAMS = 12  # streams beyond one for each engine that a program may have
STREAMS_OF_ENGINE = 8

# The share of the time by which a schedule must be faster than the order of the program, and be
# expected to be faster than the best so far. No better one is looked for when this near to the
# lower bound.
GAIN = 1e-3


def own_streams(engines: Mapping[str, Engine]) -> int:
    """The number of streams of which each engine has one."""
    return STREAMS + (Engine.COMM in engines.values())


@dataclass(frozen=True)
class IssuedSegment:
    """The order in which the tasks of a segment are issued, and the events of those that others
    wait for. `moved`: not in the order of the program."""

    segment: Segment
    schedule: Schedule
    tasks: Sequence[Planned]
    events: Mapping[Issue, int]
    moved: bool

    def write(self) -> None:
        """Put the tasks into their block in this order, on their streams, with their events."""
        if not self.tasks:
            return
        for task in self.tasks:
            task.op.properties["stream"] = number(task.stream)
        block = self.segment.ops[-1].parent
        assert block is not None
        ops = with_events(self.tasks, self.events)
        put_in_row(block, self.segment.ops, list(self.segment.with_others(ops, self.moved)))


@dataclass
class StreamAssignment:
    """Chooses the streams and events of one function; changes nothing of it."""

    engines: Mapping[str, Engine]  # of each kernel
    target: Target
    streams: int
    clock: ProgramClock | None  # times schedules; None: the order of the program stays
    memory_limit: int = 0
    frugal: bool = False  # no more is live at one time than in the order of the program
    events: EventIds = field(init=False)
    own: int = field(init=False)  # streams of which each engine has one, if there are enough
    used: int = field(init=False)  # streams that have tasks, or could have
    cap: int = field(init=False, default=0)  # bytes live at one time
    blocks: dict[Block, list[IssuedSegment | Operation]] = field(
        init=False, default_factory=dict[Block, list[IssuedSegment | Operation]]
    )

    def __post_init__(self) -> None:
        self.own = own_streams(self.engines)
        self.streams = min(self.target.max_streams, self.streams)
        self.events = EventIds(self.target.max_events)
        self.used = min(self.streams, self.own)

    def function(self, func: FuncOp) -> None:
        """Schedule all tasks of a function."""
        body = func.body.block
        regions = None if self.clock is None else self.clock.regions
        self.outermost(body, list(segments(body, regions)))

    def outermost(self, body: Block, parts: Sequence[Segment | Operation]) -> None:
        """Schedule the tasks of a block that the device runs without the host: of the function, or
        of a branch that the host takes by the sizes of inputs."""
        tasks = [p.tasks if isinstance(p, Segment) else [p] for p in parts]

        def size_of(buffer: SSAValue) -> int:
            outermost = buffer.owner.parent is body
            return arena_bytes(buffer, self.target.hbm_alignment) if outermost else 0

        graph = buffer_graph(chain.from_iterable(tasks), size_of)
        live = list(windows(graph, map(len, tasks)))
        peak = max((w.profile().peak for w in live), default=0)
        self.cap = max(self.cap, self.memory_limit, peak + self.sent_bytes(parts))
        for part, window in zip(parts, live, strict=True):
            if isinstance(part, Segment):
                self.issue(body, part, self.schedule(part, window))
            elif isinstance(part, CaseOp) and part.is_decided_by_host:
                self.blocks.setdefault(body, []).append(part)
                self.gears(part)
            else:
                self.inside(body, part)

    def gears(self, op: CaseOp) -> None:
        """Schedule the branches that the host takes by the sizes of inputs, the largest first: one
        of the same structure, with buffers that are nowhere larger, takes its schedule."""
        sizes = {r.block: self.sizes(r.block) for r in op.branches}
        known: dict[Hashable, tuple[Block, Schedule]] = {}
        for block in sorted(sizes, key=lambda b: -sum(sizes[b])):
            parts = list(segments(block))
            first, *more = parts
            if more or not isinstance(first, Segment):
                self.outermost(block, parts)
                continue
            like, schedule = known.get(structure := self.structure(first), (block, None))
            if schedule and all(a <= b for a, b in zip(sizes[block], sizes[like], strict=True)):
                again = Schedule(schedule.order, schedule.stream, schedule.after)
                self.issue(block, first, again)
                continue
            self.outermost(block, parts)
            (issued,) = self.blocks[block]
            assert isinstance(issued, IssuedSegment)
            known[structure] = block, issued.schedule

    def sizes(self, block: Block) -> list[int]:
        """The bytes of the buffers of a block except those of constants."""
        ops = (op for op in block.ops if not isinstance(op, ConstantOp))
        values = (v for op in ops for v in op.results if isinstance(v.type, MemRefType))
        return [0 if is_dynamic(v.type) else arena_bytes(v) for v in values]

    def structure(self, segment: Segment) -> Hashable:
        """Equal for segments with the same ops on the same buffers, on the same engines. Constants
        do not count: nothing waits for them, and they take no part of the arena."""
        numbers: dict[SSAValue, int] = {}
        ops: list[Hashable] = []
        for op in segment.ops:
            if isinstance(op, ConstantOp):
                continue
            stream = self.engine_stream(op) if isinstance(op, Task) else None
            values = [v for v in op.operands if not isinstance(v.owner, ConstantOp)]
            ops.append((type(op), stream, *[numbers.get(v, v) for v in values]))
            for result in op.results:
                numbers[result] = len(numbers)
        return tuple(ops), tuple(map(tuple, segment.before))

    def inside(self, parent: Block, op: Operation) -> None:
        """Schedule the tasks of branches and loops in the order of the program."""
        self.blocks.setdefault(parent, []).append(op)
        for block in (b for r in op.regions for b in r.blocks):
            for part in segments(block):
                if isinstance(part, Segment):
                    self.issue(block, part, self.in_order(part, {}))
                else:
                    self.inside(block, part)

    def issue(self, block: Block, segment: Segment, schedule: Schedule) -> None:
        self.used = max(self.used, 1 + max(schedule.stream, default=0))
        tasks = self.planned(segment, schedule)
        moved = schedule.order != sorted(schedule.order)
        events = number_events(tasks, self.events)
        issued = IssuedSegment(segment, schedule, tasks, events, moved)
        self.blocks.setdefault(block, []).append(issued)

    def issues(self) -> dict[Block, list[Issue | Operation]]:
        """Return what the host issues in each block, for the clock."""
        result: dict[Block, list[Issue | Operation]] = {}
        for block, parts in self.blocks.items():
            issues: list[Issue | Operation] = []
            for part in parts:
                issues += part.tasks if isinstance(part, IssuedSegment) else [part]
            if block.last_op is not None and not block.last_op.regions:
                issues.append(block.last_op)
            result[block] = issues
        return result

    def write(self, func: FuncOp) -> None:
        for parts in self.blocks.values():
            for part in parts:
                if isinstance(part, IssuedSegment):
                    part.write()
        if self.clock is not None:
            func.attributes[CAP] = number(self.cap)
        state(func, streams=self.used, events=self.events.count)

    def schedule(self, segment: Segment, window: Window) -> Schedule:
        """The best schedule of a segment of the outermost block."""
        if self.clock is None:
            return self.in_order(segment, {})
        first = self.in_order(segment, memory_orderings(window, self.cap))
        return self.best(segment, first, window)[0]

    def sent_bytes(self, parts: Sequence[Segment | Operation]) -> int:
        """The most bytes that a collective reads and writes, where their number is known: one more
        may be under way than in the order of the program, where all else waits for it."""
        if self.frugal or self.clock is None:
            return 0
        tasks = chain.from_iterable(p.tasks for p in parts if isinstance(p, Segment))
        sizes = [
            sum(byte_size(v.type) for v in (*op.ins, *op.outs) if not is_dynamic(v.type))
            for op in tasks
            if isinstance(op, LaunchOp) and self.engines[op.callee] is Engine.COMM
        ]
        return max(sizes, default=0)

    def fastest(self, segment: Segment) -> float:
        """The makespan of the best schedule of a segment, whatever memory it takes."""
        anywhere = Window(TaskGraph(), range(len(segment.tasks)), ())
        return self.best(segment, self.in_order(segment, {}), anywhere)[1]

    def best(self, segment: Segment, in_order: Schedule, window: Window) -> tuple[Schedule, float]:
        """The fastest schedule of a segment, and its makespan (0 while that is not known)."""
        best, first = in_order, self.time(segment, in_order, None)
        if len(first.tasks) < len(segment.tasks):  # the time of the others is not known
            return best, 0.0
        fastest = first.latency_us * (1 - GAIN)
        for schedule, expected in self.candidates(segment, window, first):
            if expected >= fastest * (1 - GAIN):
                continue
            try:
                latency = self.time(segment, schedule, first).latency_us
            except GeError:  # more events than the target has
                continue
            if latency < fastest:
                fastest, best = latency, schedule
            if fastest <= first.lower_bound_us * (1 + GAIN):
                break
        return best, min(fastest, first.latency_us) if best is not in_order else first.latency_us

    def in_order(self, segment: Segment, after: dict[int, list[int]]) -> Schedule:
        """The order of the program, with one stream for each engine as far as there are enough
        streams and events. `after`: the tasks that each waits for because of memory."""
        engines = [self.engine_stream(op) for op in segment.tasks]
        order = list(range(len(engines)))
        for count in range(min(self.streams, self.own), 1, -1):
            schedule = Schedule(order, [SHARED[count][s] for s in engines], after)
            try:
                self.check_events(self.planned(segment, schedule))
            except GeError:  # more events than the target has
                continue
            return schedule
        return Schedule(order, [0] * len(order), after)

    def candidates(
        self, segment: Segment, window: Window, first: Timeline
    ) -> Iterator[tuple[Schedule, float]]:
        """Schedules that may be faster than the order of the program, with the makespans that their
        scheduler expects: it knows neither events nor what L2 has in another order."""
        if first.latency_us <= first.lower_bound_us * (1 + GAIN):
            return
        tasks, before = first.tasks, segment.before
        paths = path_lengths([t.time.total_us for t in tasks], before, self.target.launch_us)
        in_order = [float(-i) for i in range(len(tasks))]
        shared = SHARED[min(self.streams, self.own)]
        engines = {
            t.engine: [shared[stream]]
            for t, stream in zip(tasks, map(self.engine_stream, segment.tasks), strict=True)
        }
        for priority, patient in ((paths, False), (in_order, False), (in_order, True)):
            own = {engine: list(streams) for engine, streams in engines.items()}
            streams = Streams(list(range(self.own, self.streams)), STREAMS_OF_ENGINE, own)
            memory = MemoryCap(window, self.cap)
            scheduler = ListScheduler(
                tasks, before, priority, memory, streams, self.target, patient
            )
            expected = scheduler.play()
            yield scheduler.schedule, expected
            if priority is in_order and not scheduler.overtakes:
                return  # a patient one would do the same

    def time(self, segment: Segment, schedule: Schedule, before: Timeline | None) -> Timeline:
        """Return when the tasks of a schedule run, or those of another one `before`. Raises GeError
        if it needs more events than the target has."""
        assert self.clock is not None
        tasks = self.planned(segment, schedule)
        self.check_events(tasks)
        return self.clock.in_isolation(tasks, before)

    def check_events(self, tasks: Sequence[Planned]) -> None:
        number_events(tasks, EventIds(self.target.max_events))

    def planned(self, segment: Segment, schedule: Schedule) -> list[Planned]:
        """The tasks of a segment in the order of issue."""
        if schedule.planned:
            return schedule.planned
        position = {i: at for at, i in enumerate(schedule.order)}
        before = [
            [position[j] for j in (*segment.before[i], *schedule.after.get(i, ()))]
            for i in schedule.order
        ]
        tasks = [segment.tasks[i] for i in schedule.order]
        streams = [schedule.stream[i] for i in schedule.order]
        schedule.planned = plan(tasks, streams, before, self.streams)
        return schedule.planned

    def engine_stream(self, op: Operation) -> int:
        """The stream of the op's engine, where each engine has its own. Copies within the device
        are the vector cores'."""
        if isinstance(op, LaunchOp):
            return STREAM_OF[self.engines[op.callee]]
        source, target = (*operands_of(op), *op.results)[:2]
        spaces = [getattr(v.type, "memory_space", HBM) for v in (source, target)]
        if spaces[0] == spaces[1]:
            return VECTOR
        return DMA_IN if spaces[0] == HOST else DMA_OUT


@dataclass(frozen=True)
class AssignStreamsPass(TargetPass):
    """Put each task on a stream of its engine, in the order that is fastest by the clock, and order
    tasks across streams by events."""

    name = "assign-streams"

    single: bool = False
    """Put everything on one stream, in the order of the program."""
    in_order: bool = False
    """Keep the order of the program, with one stream for each engine (as far as the target has
    streams, and events, enough)."""
    memory_limit: int = 0
    """Bytes that may be live at one time where that makes the program faster; at least as many as
    the order of the program needs."""
    frugal: bool = False
    """Keep no more bytes live than the order of the program, also where devices send each other
    something."""
    answers: str = ""
    """File that keeps what the library answers about launches (empty: none)."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            with answers_in(self.answers):
                self.assign(op, main, target_for(main, self.target))

    def assign(self, module: ModuleOp, func: FuncOp, target: Target) -> None:
        clock = None
        if not (self.single or self.in_order):
            clock = ProgramClock(module, target, tiles=core_estimates(module, target))
        engines = {name: k.engine.data for name, k in kernels_of(module).items()}
        most = 1 if self.single else own_streams(engines) + MORE_STREAMS * (not self.in_order)
        remove_events(func)
        limit, frugal = self.memory_limit, self.frugal
        assignment = StreamAssignment(engines, target, most, clock, limit, frugal)
        assignment.function(func)
        assignment.write(func)
