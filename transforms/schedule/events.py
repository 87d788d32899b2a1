"""Events: a task on one stream waits for a task on another one.

    npu_task.launch @matmul_0 on 0 ...
    %event = npu_task.record 0 on 0
    npu_task.wait %event on 1
    npu_task.launch @relu_0 on 1 ...

Each stream has a vector clock: how many tasks of each stream happen before its next one. A task
waits for those that its stream's clock does not cover, the latest first, because that covers what
the latest one waited for (Fidge, "Timestamps in message-passing systems that preserve the partial
ordering", 1988). So no event is implied by the order of a stream or by another event. An id is used
again where all tasks that waited for the event happen before.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from ge.dialects.npu_task.attributes import state
from ge.dialects.npu_task.ops import RecordOp, WaitOp
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.editing import erase
from ge.dialects.support.operation import all_ops
from ge.runtime.clock.issue import Issue, IssueQueue
from ge.transforms.analysis.liveness import Clock, HappensBefore

RETRIES = 4  # used event ids that are looked at before a new one is taken


@dataclass(slots=True, eq=False)
class Planned(Issue):
    """A task as it will be issued: the `number`-th of its stream."""

    number: int
    done: Clock = ()  # how many tasks of each stream are done when this one is
    waiters: "list[Planned]" = field(default_factory=list["Planned"])


@dataclass
class EventIds:
    """Hands out event ids, and again those whose waiters are all done."""

    limit: int
    count: int = 0
    used: deque[tuple[int, list[Planned]]] = field(default_factory=deque[tuple[int, list[Planned]]])

    def take(self, issue: Planned) -> int:
        """The id of the event that `issue` is done. Raises GeError where the target has too few."""
        tries = RETRIES if self.count < self.limit else len(self.used)
        for _ in range(min(tries, len(self.used))):
            event, waiters = self.used.popleft()
            if all([issue.done[w.stream] >= w.number for w in waiters]):
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
        """After a barrier every id is free."""
        self.used = deque((event, []) for event in range(self.count))


def plan(
    tasks: Sequence[Operation],
    streams: Sequence[int],
    before: Sequence[Iterable[int]],
    count: int,
) -> list[Planned]:
    """Return what each task waits for. `tasks` are in the order of issue, with the stream of each
    and the indices of earlier tasks that must happen before it; there are `count` streams."""
    order = HappensBefore(count)
    result: list[Planned] = []
    for op, stream, earlier in zip(tasks, streams, before, strict=True):
        task = Planned(op, stream, [], order.issue(stream))
        for j in sorted(earlier, reverse=True):
            other = result[j]
            if order.clocks[stream][other.stream] < other.number:
                task.waits.append(other)
                other.waiters.append(task)
                order.wait(stream, other.done)
        task.done = order.clock(stream)
        result.append(task)
    return result


def number_events(tasks: Sequence[Planned], ids: EventIds) -> dict[Issue, int]:
    """The event of each task that others wait for. Raises GeError where the target has too few."""
    events: dict[Issue, int] = {task: ids.take(task) for task in tasks if task.waiters}
    ids.reset()
    return events


def with_events(tasks: Sequence[Planned], events: Mapping[Issue, int]) -> list[Operation]:
    """The tasks with their records and waits, in the order of issue."""
    result: list[Operation] = []
    records: dict[Issue, RecordOp] = {}
    for task in tasks:
        result += [WaitOp(records[w].event, task.stream) for w in task.waits]
        result.append(task.op)
        if task in events:
            records[task] = RecordOp(events[task], task.stream)
            result.append(records[task])
    return result


def put_events(ops: Sequence[Operation]) -> None:
    """Insert the events among `ops`, as `with_events` returns them, into the block that has the
    tasks in this order already."""
    events: list[Operation] = []
    for i, op in enumerate(ops):
        if isinstance(op, WaitOp):
            events.append(op)
        elif isinstance(op, RecordOp):
            Rewriter.insert_op(op, InsertPoint.after(ops[i - 1]))
        else:
            Rewriter.insert_op(events, InsertPoint.before(op))
            events = []


def remove_events(func: FuncOp) -> None:
    """Erase all records and waits of a function."""
    for op in reversed([*all_ops(func.body.blocks)]):  # waits before the records that they are for
        if isinstance(op, RecordOp | WaitOp):
            erase(op)


def add_orderings(
    func: FuncOp, later: Mapping[Operation, Sequence[Operation]], streams: int, limit: int
) -> int:
    """Make each task of `later` wait for these earlier ones of its block as well. Nothing is
    inserted where streams and events order them already; ids are given anew. Returns the number of
    ids. Raises GeError, and changes nothing, if it is more than `limit`."""
    ids = EventIds(limit)
    segments: list[tuple[list[Issue], list[list[int]]]] = []
    _collect(func.body.block, later, segments)
    parts: list[list[Operation]] = []
    for issues, before in segments:
        tasks = plan([i.op for i in issues], [i.stream for i in issues], before, streams)
        parts.append(with_events(tasks, number_events(tasks, ids)))
    remove_events(func)
    for ops in parts:
        put_events(ops)
    state(func, events=ids.count)
    return ids.count


def _collect(
    block: Block,
    later: Mapping[Operation, Sequence[Operation]],
    segments: list[tuple[list[Issue], list[list[int]]]],
) -> None:
    """The tasks between barriers, with the indices of those that they wait for by events and by
    `later`."""
    queue, issues, before = IssueQueue(), list[Issue](), list[list[int]]()
    index: dict[Operation, int] = {}
    for op in block.ops:
        if (issue := queue.add(op)) is not None:
            earlier = (*(w.op for w in issue.waits), *later.get(op, ()))
            before.append([index[o] for o in earlier if o in index])
            index[op] = len(issues)
            issues.append(issue)
        elif op.regions:
            segments.append((issues, before))
            queue, issues, before, index = IssueQueue(), [], [], {}
            for region in op.regions:
                for inner in region.blocks:
                    _collect(inner, later, segments)
    segments.append((issues, before))
