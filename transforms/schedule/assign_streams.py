"""Tasks go to streams by the engine that executes them; events order what depends across streams.

    npu_task.copy %x to %0 : memref<64xf32, host> to memref<64xf32, hbm>
    npu_task.launch @matmul_0 ins(%0 : ...) outs(%1 : ...)
    npu_task.launch @relu_0 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @relu_0 ins(%1 : ...) outs(%3 : ...)
becomes
    npu_task.copy %x to %0 on 2 : memref<64xf32, host> to memref<64xf32, hbm>
    npu_task.record 0 on 2
    npu_task.wait 0 on 0
    npu_task.launch @matmul_0 on 0 ins(%0 : ...) outs(%1 : ...)
    npu_task.record 1 on 0
    npu_task.wait 1 on 1
    npu_task.launch @relu_0 on 1 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @relu_0 on 1 ins(%1 : ...) outs(%3 : ...)

Several schedules are made of each segment (what a block issues between two barriers), and the
fastest by the clock is kept:
- the order of the program, one stream for each engine;
- list scheduling (`list_scheduling.py`) with the longest path to the end as the priority, and with
  the order of the program as the priority, on several streams for each engine, so that independent
  launches overlap and run side by side. These never keep more bytes live than the limit: that of
  the caller, or the peak of the program's own order.

Nothing is tried where the first one is as fast as the lower bound, nor inside branches and loops,
where the host issues one task after the other.

On a target with fewer streams than engines some engines share a stream (`SHARED`), and so they do
where a segment needs more events at one time than the target has: one stream needs none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import HBM, HOST, Engine, number
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.npu_task.program_info import CAP, state
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.runtime.clock.clock import ProgramClock
from ge.runtime.clock.timeline import Timeline
from ge.transforms.analysis.aliasing import arena_bytes
from ge.transforms.analysis.dependencies import Segment, segments
from ge.transforms.analysis.task_graph import TaskGraph, Window, buffer_graph, windows
from ge.transforms.schedule.events import (
    EventIds,
    Planned,
    number_events,
    plan,
    remove_events,
    with_events,
)
from ge.transforms.schedule.list_scheduling import ListScheduler, Schedule, Streams, path_lengths
from ge.transforms.schedule.memory_cap import MemoryCap, memory_orderings

CUBE, VECTOR, DMA_IN, DMA_OUT, CONTROL = range(5)
STREAMS = 5
STREAM_OF = {Engine.CUBE: CUBE, Engine.VECTOR: VECTOR, Engine.HOST: CONTROL, Engine.DMA: DMA_IN}
"""The first stream of each engine's launches. Copies within the device are the vector cores'."""

SHARED = {
    1: {CUBE: 0, VECTOR: 0, DMA_IN: 0, DMA_OUT: 0, CONTROL: 0},
    2: {CUBE: 0, VECTOR: 0, DMA_IN: 1, DMA_OUT: 1, CONTROL: 0},
    3: {CUBE: 0, VECTOR: 1, DMA_IN: 2, DMA_OUT: 2, CONTROL: 1},
    4: {CUBE: 0, VECTOR: 1, DMA_IN: 2, DMA_OUT: 3, CONTROL: 1},
    STREAMS: {s: s for s in range(STREAMS)},
}
"""Number of streams -> the one on which the tasks of each stream go."""

MORE_STREAMS = 12
"""Streams beyond one for each engine that a program may have."""

STREAMS_OF_ENGINE = 8

GAIN = 1e-3
"""A schedule that is faster than the order of the program by less than this share is not worth it,
and no better one is looked for when this near to the lower bound."""


@dataclass
class StreamAssignment:
    """Assigns the streams and events of one function."""

    engines: dict[str, Engine]
    """The engine of each kernel."""
    target: Target
    events: EventIds
    streams: int
    clock: ProgramClock | None
    """What tells how long a schedule takes; None: the order of the program is kept."""
    memory_limit: int
    used: int = field(init=False)
    """Streams that have tasks, or could have."""

    def __post_init__(self) -> None:
        self.used = min(self.streams, STREAMS)

    @classmethod
    def of(
        cls, target: Target, engines: dict[str, Engine], clock: ProgramClock
    ) -> "StreamAssignment":
        """One that tries all schedules, with the target's streams and events."""
        streams = min(target.max_streams, STREAMS + MORE_STREAMS)
        return cls(engines, target, EventIds(target.max_events), streams, clock, 0)

    def function(self, func: FuncOp) -> None:
        """Schedule the segments of the outermost block, and put all tasks on streams."""
        parts = list(segments(func.body.block))
        tasks = [p.tasks if isinstance(p, Segment) else [p] for p in parts]

        def size_of(buffer: SSAValue) -> int:
            outermost = buffer.owner.parent is func.body.block
            return arena_bytes(buffer, self.target.hbm_alignment) if outermost else 0

        graph = buffer_graph(chain.from_iterable(tasks), size_of)
        parts_live = list(windows(graph, map(len, tasks)))
        cap = max(self.memory_limit, *(w.profile().peak for w in parts_live))
        for part, window in zip(parts, parts_live, strict=True):
            if isinstance(part, Segment):
                self.segment(part, window, cap)
            else:
                self.inside(part)
        if self.clock is not None:
            func.attributes[CAP] = number(cap)

    def inside(self, op: Operation) -> None:
        """Put the tasks of branches and loops on streams, in the order of the program."""
        for block in (b for r in op.regions for b in r.blocks):
            for part in segments(block):
                if isinstance(part, Segment):
                    self.put(part, self.in_order(part, {}))
                else:
                    self.inside(part)

    def segment(self, segment: Segment, window: Window, cap: int) -> None:
        """Keep the best schedule of a segment."""
        if self.clock is None:
            self.put(segment, self.in_order(segment, {}))
            return
        best = self.in_order(segment, memory_orderings(window, cap))
        self.put(segment, self.best(segment, best, window, cap)[0])

    def fastest(self, segment: Segment) -> float:
        """The makespan of the best schedule of a segment, whatever memory it takes."""
        anywhere = Window(TaskGraph(), range(len(segment.tasks)), ())
        return self.best(segment, self.in_order(segment, {}), anywhere, 0)[1]

    def best(
        self, segment: Segment, in_order: Schedule, window: Window, cap: int
    ) -> tuple[Schedule, float]:
        """The fastest schedule of a segment, and its makespan (0 while that is not known)."""
        best, first = in_order, self.time(segment, in_order)
        if len(first.tasks) < len(segment.tasks):  # how long the others take is not known
            return best, 0.0
        fastest = first.latency_us * (1 - GAIN)
        for schedule in self.candidates(segment, window, cap, first):
            try:
                latency = self.time(segment, schedule).latency_us
            except GeError:  # more events than the target has
                continue
            if latency < fastest:
                fastest, best = latency, schedule
            if fastest <= first.lower_bound_us * (1 + GAIN):
                break
        return best, min(fastest, first.latency_us) if best is not in_order else first.latency_us

    def in_order(self, segment: Segment, after: dict[int, list[int]]) -> Schedule:
        """The order of the program, with one stream for each engine as far as there are streams,
        and events, enough. `after`: what tasks have to wait for because of memory."""
        engines = [self.engine_stream(op) for op in segment.tasks]
        order = list(range(len(engines)))
        for count in range(min(self.streams, STREAMS), 1, -1):
            schedule = Schedule(order, [SHARED[count][s] for s in engines], after)
            try:
                self.check_events(self.planned(segment, schedule))
            except GeError:  # more events than the target has
                continue
            return schedule
        return Schedule(order, [0] * len(order), after)

    def candidates(
        self, segment: Segment, window: Window, cap: int, first: Timeline
    ) -> Iterator[Schedule]:
        """Schedules that may be faster than the order of the program."""
        if first.latency_us <= first.lower_bound_us * (1 + GAIN):
            return
        tasks, before = first.tasks, segment.before
        paths = path_lengths([t.time.total_us for t in tasks], before, self.target.launch_us)
        in_order = [float(-i) for i in range(len(tasks))]
        engines = {
            t.engine: [self.stream_of(op)] for t, op in zip(tasks, segment.tasks, strict=True)
        }
        for priority in (paths, in_order):
            own = {engine: list(streams) for engine, streams in engines.items()}
            streams = Streams(list(range(STREAMS, self.streams)), STREAMS_OF_ENGINE, own)
            memory = MemoryCap(window, cap)
            scheduler = ListScheduler(tasks, before, priority, memory, streams, self.target)
            scheduler.play()
            yield scheduler.schedule

    def time(self, segment: Segment, schedule: Schedule) -> Timeline:
        """How a schedule of a segment would run. Raises GeError for more events than there are."""
        assert self.clock is not None
        tasks = self.planned(segment, schedule)
        self.check_events(tasks)
        return self.clock.in_isolation(tasks)

    def check_events(self, tasks: Sequence[Planned]) -> None:
        number_events(tasks, EventIds(self.target.max_events))

    def planned(self, segment: Segment, schedule: Schedule) -> list[Planned]:
        """The tasks of a segment in the order of issue. The program is not changed."""
        place = [0] * len(schedule.order)
        for position, i in enumerate(schedule.order):
            place[i] = position
        before = [
            [place[j] for j in (*segment.before[i], *schedule.after.get(i, ()))]
            for i in schedule.order
        ]
        tasks = [segment.tasks[i] for i in schedule.order]
        return plan(tasks, [schedule.stream[i] for i in schedule.order], before, self.streams)

    def put(self, segment: Segment, schedule: Schedule) -> None:
        """Put a segment into its block as the schedule says."""
        if not segment.tasks:
            return
        self.used = max(self.used, 1 + max(schedule.stream))
        tasks = self.planned(segment, schedule)
        for task in tasks:
            task.op.properties["stream"] = number(task.stream)
        ops = with_events(tasks, number_events(tasks, self.events))
        block, end = segment.ops[-1].parent, segment.ops[-1].next_op
        assert block is not None
        assert end is not None
        every = list(segment.with_others(ops, move=schedule.order != sorted(schedule.order)))
        for op in segment.ops:
            op.detach()
        block.insert_ops_before(tuple(every), end)

    def stream_of(self, op: Operation) -> int:
        """The stream on which the tasks of the op's engine go first."""
        return SHARED[min(self.streams, STREAMS)][self.engine_stream(op)]

    def engine_stream(self, op: Operation) -> int:
        """The stream of the engine that does the op, where each has its own: of its kernel, or of
        the direction of a copy."""
        if isinstance(op, LaunchOp):
            if op.callee not in self.engines:
                raise error_at(op, f"there is no kernel @{op.callee}", "run lower-to-tasks")
            return STREAM_OF[self.engines[op.callee]]
        source, target = (
            getattr(v.type, "memory_space", HBM)
            for v in (op.operands[0], (*op.operands, *op.results)[1])
        )
        if source == target:
            return VECTOR
        return DMA_IN if source == HOST else DMA_OUT


@dataclass(frozen=True)
class AssignStreamsPass(ModulePass):
    """Put each task on a stream of its engine, in the order that the clock finds best, and order
    tasks across streams by events."""

    name = "assign-streams"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    single: bool = False
    """Put everything on one stream, in the order of the program."""
    in_order: bool = False
    """Keep the order of the program, with one stream for each engine (as far as the target has
    streams, and events, enough)."""
    memory_limit: int = 0
    """Bytes that may be live at one time where that makes the program faster; at least as many as
    the order of the program needs."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            self.assign(op, main, target_for(main, self.target))

    def assign(self, module: ModuleOp, func: FuncOp, target: Target) -> None:
        most = 1 if self.single else STREAMS if self.in_order else STREAMS + MORE_STREAMS
        clock = None if self.single or self.in_order else ProgramClock(module, target)
        assign_streams(module, func, target, most, clock, self.memory_limit)


def assign_streams(
    module: ModuleOp,
    func: FuncOp,
    target: Target,
    most: int,
    clock: ProgramClock | None,
    memory_limit: int = 0,
) -> None:
    """Put a function on `most` streams at the most: in the order that the clock finds best or,
    without a clock, in the order of the program."""
    remove_events(func)
    engines = {k.sym_name.data: k.engine.data for k in module.ops if isinstance(k, KernelOp)}
    events, streams = EventIds(target.max_events), min(target.max_streams, most)
    assignment = StreamAssignment(engines, target, events, streams, clock, memory_limit)
    assignment.function(func)
    state(func, streams=assignment.used, events=events.count)
