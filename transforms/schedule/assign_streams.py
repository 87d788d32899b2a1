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

A task depends on the last task that wrote what it reads, and on those that read or wrote what it
writes (views and the buffers that they look at are one). Each stream has a vector clock: how many
tasks of each stream are known to be done before its next one. A dependency that the clock covers
needs no event (Fidge, "Timestamps in message-passing systems that preserve the partial ordering",
1988); the latest dependency comes first because it may cover others).

Branches and loops are barriers: all streams are idle before and after, so events order the tasks
between two barriers only. The id of an event is used again where all that waited for it is known
to be done.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.diagnostics import error_at
from ge.dialects.functions import main_function
from ge.dialects.npu_task import (
    HBM,
    HOST,
    ConstantOp,
    Engine,
    KernelOp,
    LaunchOp,
    RecordOp,
    WaitOp,
    number,
)
from ge.dialects.target import Target, target_for
from ge.transforms.memory.aliasing import Task, accesses, owner_of

CUBE, VECTOR, DMA_IN, DMA_OUT, CONTROL = range(5)
STREAMS = 5
STREAM_OF = {Engine.CUBE: CUBE, Engine.VECTOR: VECTOR, Engine.HOST: CONTROL, Engine.DMA: DMA_IN}
"""The stream of each engine's launches. Copies within the device are the vector cores'."""

RETRIES = 4
"""How many of the used event ids are looked at before a new one is taken."""

Clock = list[int]


@dataclass(slots=True, eq=False)
class Issue:
    """A task on its stream: the `number`-th there, at `position` in the program."""

    op: Operation
    stream: int
    number: int
    position: int
    done: Clock
    """How many tasks of each stream are done when this one is."""
    waits: "list[Issue]" = field(default_factory=list["Issue"])
    """Tasks of other streams that it waits for."""
    waiters: "list[Issue]" = field(default_factory=list["Issue"])


@dataclass
class Segment:
    """The tasks of a block between two barriers."""

    streams: int
    issues: list[Issue] = field(default_factory=list[Issue])
    clocks: list[Clock] = field(init=False)
    writer: dict[SSAValue, Issue] = field(default_factory=dict[SSAValue, Issue])
    readers: dict[SSAValue, dict[int, Issue]] = field(
        default_factory=dict[SSAValue, dict[int, Issue]]
    )
    """The last task of each stream that has read a buffer since it was written."""

    def __post_init__(self) -> None:
        self.clocks = [[0] * self.streams for _ in range(self.streams)]

    def add(self, op: Operation, stream: int) -> None:
        """Issue a task to a stream and find out what it has to wait for."""
        reads, writes = accesses(op)
        read = [o for o in map(owner_of, reads) if not isinstance(o.owner, ConstantOp)]
        written = [owner_of(v) for v in writes]
        clock = self.clocks[stream]
        clock[stream] += 1
        issue = Issue(op, stream, clock[stream], len(self.issues), clock)
        latest_first = sorted(
            self.dependencies(read, written), key=lambda i: i.position, reverse=True
        )
        for other in latest_first:
            if clock[other.stream] < other.number:
                issue.waits.append(other)
                other.waiters.append(issue)
                clock = self.clocks[stream] = [max(p) for p in zip(clock, other.done, strict=True)]
        issue.done = list(clock)
        self.issues.append(issue)
        for buffer in read:
            self.readers.setdefault(buffer, {})[stream] = issue
        for buffer in written:
            self.writer[buffer] = issue
            self.readers.pop(buffer, None)

    def dependencies(self, read: list[SSAValue], written: list[SSAValue]) -> Iterator[Issue]:
        """Earlier tasks that have to be done before one that reads and writes these buffers."""
        for buffer in (*read, *written):
            if (writer := self.writer.get(buffer)) is not None:
                yield writer
        for buffer in written:
            yield from self.readers.get(buffer, {}).values()


@dataclass
class EventIds:
    """Hands out event ids; those whose waiters are all done are handed out again."""

    limit: int
    count: int = 0
    used: deque[tuple[int, list[Issue]]] = field(default_factory=deque[tuple[int, list[Issue]]])

    def take(self, issue: Issue) -> int:
        """The id of the event that `issue` is done."""
        tries = RETRIES if self.count < self.limit else len(self.used)
        for _ in range(min(tries, len(self.used))):
            event, waiters = self.used.popleft()
            if all(issue.done[w.stream] >= w.number for w in waiters):
                break
            self.used.append((event, waiters))
        else:
            if self.count == self.limit:
                raise error_at(
                    issue.op,
                    f"more than {self.limit} events are needed at one time",
                    "use one stream (single=true), or a target with a higher max_events",
                )
            event = self.count
            self.count += 1
        self.used.append((event, issue.waiters))
        return event

    def reset(self) -> None:
        """After a barrier, every id is free."""
        self.used = deque((event, []) for event in range(self.count))


@dataclass
class StreamAssignment:
    """Assigns the streams and events of one function."""

    engines: dict[str, Engine]
    """The engine of each kernel."""
    events: EventIds
    streams: int

    def stream_of(self, op: Operation) -> int:
        """The stream of the engine that does the op: of its kernel, or of the direction of a
        copy."""
        if self.streams == 1:
            return 0
        if isinstance(op, LaunchOp):
            if op.callee not in self.engines:
                raise error_at(op, f"there is no kernel @{op.callee}", "run lower-to-tasks")
            return STREAM_OF[self.engines[op.callee]]
        source, target = (_space(v) for v in (op.operands[0], (*op.operands, *op.results)[1]))
        if source == target:
            return VECTOR
        return DMA_IN if source == HOST else DMA_OUT

    def block(self, block: Block) -> None:
        """Put the tasks of a block on streams, segment by segment: control flow waits for all of
        them."""
        segment = Segment(self.streams)
        for op in list(block.ops):
            if isinstance(op, Task):
                stream = self.stream_of(op)
                op.properties["stream"] = number(stream)
                segment.add(op, stream)
            elif op.regions:
                self.finish(segment)
                segment = Segment(self.streams)
                for region in op.regions:
                    self.block(region.block)
        self.finish(segment)

    def finish(self, segment: Segment) -> None:
        """Put the events of a segment into the program."""
        numbers: dict[Issue, int] = {}
        for issue in segment.issues:
            block = issue.op.parent
            assert block is not None
            waits = [WaitOp(numbers[w], issue.stream) for w in issue.waits]
            if waits:
                block.insert_ops_before(tuple(waits), issue.op)
            if issue.waiters:
                numbers[issue] = self.events.take(issue)
                block.insert_op_after(RecordOp(numbers[issue], issue.stream), issue.op)
        self.events.reset()


def _space(value: SSAValue) -> object:
    return getattr(value.type, "memory_space", HBM)


def remove_events(func: FuncOp) -> None:
    """Erase the events of an older assignment."""
    for op in list(func.walk()):
        if isinstance(op, RecordOp | WaitOp):
            op.detach()
            op.erase()


@dataclass(frozen=True)
class AssignStreamsPass(ModulePass):
    """Put each task on the stream of its engine, and order tasks across streams by events."""

    name = "assign-streams"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    single: bool = False
    """Put everything on one stream."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        engines = {k.sym_name.data: k.engine.data for k in op.ops if isinstance(k, KernelOp)}
        if (main := main_function(op)) is not None:
            remove_events(main)
            self.assign(main, engines, target_for(main, self.target))

    def assign(self, func: FuncOp, engines: dict[str, Engine], target: Target) -> None:
        """Put a function on streams. Raises GeError when the target has too few."""
        streams = 1 if self.single else STREAMS
        if target.max_streams < streams:
            raise error_at(
                func,
                f"target {target.name} has {target.max_streams} streams, {streams} are needed",
                "use single=true",
            )
        events = EventIds(target.max_events)
        StreamAssignment(engines, events, streams).block(func.body.block)
        func.attributes["npu_task.streams"] = number(streams)
        func.attributes["npu_task.events"] = number(events.count)
