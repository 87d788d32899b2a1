"""Events: what makes a task on one stream wait for a task on another one.

    npu_task.launch @matmul_0 on 0 ...
    npu_task.record 0 on 0
    npu_task.wait 0 on 1
    npu_task.launch @relu_0 on 1 ...

Each stream has a vector clock: how many tasks of each stream are known to be done before its next
one starts. A task waits for those that its stream's clock does not cover, the latest first, because
what that one waited for is covered with it (Fidge, "Timestamps in message-passing systems that
preserve the partial ordering", 1988). So no event is implied by the order of a stream or by another
event. The id of an event is used again where all that waited for it is known to be done.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from ge.dialects.npu_task.ops import RecordOp, WaitOp, number
from ge.dialects.support.diagnostics import error_at
from ge.transforms.analysis.aliasing import Task

RETRIES = 4
"""How many of the used event ids are looked at before a new one is taken."""

Clock = list[int]


@dataclass(slots=True, eq=False)
class Issue:
    """A task on its stream: the `number`-th there, at `position` in the order of issue."""

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
class EventIds:
    """Hands out event ids; those whose waiters are all done are handed out again."""

    limit: int
    count: int = 0
    used: deque[tuple[int, list[Issue]]] = field(default_factory=deque[tuple[int, list[Issue]]])

    def take(self, issue: Issue) -> int:
        """The id of the event that `issue` is done. Raises GeError where the target has too few."""
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
                    "use fewer streams, or a target with a higher max_events",
                )
            event = self.count
            self.count += 1
        self.used.append((event, issue.waiters))
        return event

    def reset(self) -> None:
        """After a barrier, every id is free."""
        self.used = deque((event, []) for event in range(self.count))


def issue_tasks(
    tasks: Sequence[Operation], before: Sequence[Iterable[int]], streams: int
) -> list[Issue]:
    """Find out what each task has to wait for. `tasks` are in the order of issue, on their streams;
    `before` has for each the indices of earlier ones that must be done when it starts."""
    clocks = [[0] * streams for _ in range(streams)]
    issues: list[Issue] = []
    for i, (op, needed) in enumerate(zip(tasks, before, strict=True)):
        stream = stream_of(op)
        clock = clocks[stream]
        clock[stream] += 1
        issue = Issue(op, stream, clock[stream], i, clock)
        for j in sorted(needed, reverse=True):
            other = issues[j]
            if clock[other.stream] < other.number:
                issue.waits.append(other)
                other.waiters.append(issue)
                clock = clocks[stream] = [max(p) for p in zip(clock, other.done, strict=True)]
        issue.done = list(clock)
        issues.append(issue)
    return issues


def with_events(issues: Sequence[Issue], ids: EventIds) -> list[Operation]:
    """The tasks with the records and waits that they need, in the order of issue."""
    result: list[Operation] = []
    events: dict[Issue, int] = {}
    for issue in issues:
        result += [WaitOp(events[w], issue.stream) for w in issue.waits]
        result.append(issue.op)
        if issue.waiters:
            events[issue] = ids.take(issue)
            result.append(RecordOp(events[issue], issue.stream))
    ids.reset()
    return result


def stream_of(op: Operation) -> int:
    """The stream of a task or of an event. Raises GeError when it is on none."""
    stream = op.properties.get("stream")
    if stream is None:
        raise error_at(op, f"{op.name} is on no stream", "run assign-streams first")
    return stream.value.data  # pyright: ignore


def put_events(ops: Sequence[Operation]) -> None:
    """Insert the events among `ops`, as `with_events` returns them, into the block that has the
    tasks in this order already."""
    waiting: list[Operation] = []
    task: Operation | None = None
    for op in ops:
        if isinstance(op, WaitOp):
            waiting.append(op)
        elif isinstance(op, RecordOp):
            assert task is not None
            assert task.parent is not None
            task.parent.insert_op_after(op, task)
        else:
            task = op
            assert op.parent is not None
            if waiting:
                op.parent.insert_ops_before(tuple(waiting), op)
                waiting = []


def remove_events(func: FuncOp) -> None:
    """Erase all events of a function."""
    for op in list(func.walk()):
        if isinstance(op, RecordOp | WaitOp):
            op.detach()
            op.erase()


# ---- more orderings ----------------------------------------------------------------------------


def add_orderings(
    func: FuncOp, later: Mapping[Operation, Sequence[Operation]], streams: int, limit: int
) -> int:
    """Make tasks wait for earlier ones of their block as well: `later` has these for each task.
    Nothing is inserted where streams and events see to it already; ids are given anew. Returns the
    number of ids. Raises GeError, and changes nothing, where it is more than `limit`."""
    ids = EventIds(limit)
    found: list[tuple[list[Operation], list[list[int]]]] = []
    _collect(func.body.block, later, found)
    parts = [with_events(issue_tasks(tasks, before, streams), ids) for tasks, before in found]
    remove_events(func)
    for ops in parts:
        put_events(ops)
    func.attributes["npu_task.events"] = number(ids.count)
    return ids.count


def _collect(
    block: Block,
    later: Mapping[Operation, Sequence[Operation]],
    found: list[tuple[list[Operation], list[list[int]]]],
) -> None:
    """The tasks between barriers, with what they wait for by the events that there are and by
    `later`."""
    tasks: list[Operation] = []
    before: list[list[int]] = []
    index: dict[Operation, int] = {}
    last: dict[int, int] = {}
    events: dict[int, int | None] = {}
    waits: dict[int, list[int]] = {}
    for op in block.ops:
        if isinstance(op, RecordOp):
            events[op.event.value.data] = last.get(stream_of(op))
        elif isinstance(op, WaitOp):
            recorded = events.get(op.event.value.data)
            if recorded is not None:
                waits.setdefault(stream_of(op), []).append(recorded)
        elif isinstance(op, Task):
            stream = stream_of(op)
            earlier = (index[o] for o in later.get(op, ()) if o in index)
            before.append([*waits.pop(stream, ()), *earlier])
            index[op] = last[stream] = len(tasks)
            tasks.append(op)
        elif op.regions:
            found.append((tasks, before))
            tasks, before, index, last, events, waits = [], [], {}, {}, {}, {}
            for region in op.regions:
                for inner in region.blocks:
                    _collect(inner, later, found)
    found.append((tasks, before))
