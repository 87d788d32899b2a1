"""Happens-before of what a program issues to its streams, by vector clocks (Fidge, "Timestamps in
message-passing systems that preserve the partial ordering", 1988).

Barriers (begin and end of branches and loops, the return) cut a program into epochs: all of one
epoch is done before the next one begins. Inside an epoch an item runs after those before it on its
stream, and a wait after the record that it is for, whatever the time that tasks take.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import RecordOp, WaitOp
from ge.dialects.npu_task.program_info import figure
from ge.runtime.check.problems import Problem, name_of, placed

MOST_STREAMS = 1 << 10  # more than any target has
STREAMED = Task | RecordOp | WaitOp


@dataclass(slots=True, eq=False)
class Item:
    """A task, record or wait: the `number`-th of its stream in its epoch, from 1."""

    op: Operation
    stream: int
    number: int
    # What a wait waits for: the last record before it, else the first one after it
    record: "Item | None" = None
    is_late: bool = False  # whether that record is issued after the wait
    # How many items of each stream are done whenever this one is; () for what never runs
    clock: Sequence[int] = ()

    def follows(self, other: "Item") -> bool:
        """Whether the other item of the epoch is done whenever this one runs. What is stuck in a
        deadlock follows all."""
        return not self.clock or self.clock[other.stream] >= other.number

    @property
    def is_task(self) -> bool:
        return isinstance(self.op, Task)

    @property
    def event(self) -> int:
        assert isinstance(self.op, RecordOp | WaitOp)
        return self.op.event.value.data


@dataclass(slots=True, eq=False)
class Epoch:
    """What is issued between two barriers, by stream, and what is wrong with it."""

    streams: list[list[Item]]
    items: list[Item] = field(default_factory=list[Item])
    problems: list[Problem] = field(default_factory=list[Problem])

    def report(self, kind: str, item: Item, message: str) -> None:
        self.problems.append(Problem(kind, message, item.op))

    def add(self, op: Operation, stream: int) -> Item:
        queue = self.streams[stream]
        queue.append(Item(op, stream, len(queue) + 1))
        self.items.append(queue[-1])
        return queue[-1]

    def replay(self) -> None:
        self.match()
        if self.run():
            for wait in (i for i in self.items if i.is_late):
                text = f"the wait for event {wait.event} before {self.next_task(wait)} is issued"
                self.report("lost wake-up", wait, f"{text} before the event is recorded")
            self.check_reuse()

    def match(self) -> None:
        last: dict[int, Item] = {}
        waiting: dict[int, list[Item]] = {}
        for item in self.items:
            if isinstance(item.op, RecordOp):
                last[item.event] = item
                for wait in waiting.pop(item.event, ()):
                    wait.record, wait.is_late = item, True
            elif isinstance(item.op, WaitOp):
                item.record = last.get(item.event)
                if item.record is None:
                    waiting.setdefault(item.event, []).append(item)
        for wait in chain.from_iterable(waiting.values()):
            text = f"event {wait.event} is never recorded, {self.next_task(wait)} waits for it"
            self.report("lost wake-up", wait, text)

    def run(self) -> bool:
        """Run each stream until it waits for one that is stuck. Returns whether all come to their
        ends."""
        queues = [iter(queue) for queue in self.streams]
        heads = [next(queue, None) for queue in queues]
        clocks = [[0] * len(queues) for _ in queues]
        moved = True
        while moved:
            moved = False
            for s, queue in enumerate(queues):
                while (item := heads[s]) is not None:
                    if item.record is not None:
                        if not item.record.clock:
                            break
                        clocks[s] = list(map(max, clocks[s], item.record.clock))
                    clocks[s][s] = item.number
                    item.clock = tuple(clocks[s])
                    heads[s] = next(queue, None)
                    moved = True
        stuck = [item for item in heads if item is not None]
        if stuck:
            texts = [self.wait_text(wait, wait.record) for wait in stuck if wait.record]
            self.report("deadlock", stuck[0], f"deadlock: {'; '.join(texts)}")
        return not stuck

    def wait_text(self, wait: Item, record: Item) -> str:
        return (
            f"stream {wait.stream} waits before {self.next_task(wait)} for event {wait.event}, "
            f"which stream {record.stream} records after {self.last_task(record)}"
        )

    def check_reuse(self) -> None:
        last: dict[int, Item] = {}
        waits: dict[Item, list[Item]] = {}
        for item in self.items:
            if item.record is not None:
                waits.setdefault(item.record, []).append(item)
        for item in self.items:
            if not isinstance(item.op, RecordOp):
                continue
            if (older := last.get(item.event)) is not None:
                for wait in waits.get(older, ()):
                    if not item.follows(wait):
                        text = f"event {item.event} is recorded again after {self.last_task(item)}"
                        text += f" while {self.next_task(wait)} may wait for it"
                        self.report("reused", item, text)
            last[item.event] = item

    def next_task(self, item: Item) -> str:
        return _first_task(islice(self.streams[item.stream], item.number, None), "the end")

    def last_task(self, item: Item) -> str:
        earlier = reversed(self.streams[item.stream][: item.number - 1])
        return _first_task(earlier, "its beginning")

    def useful(self) -> Iterator[Operation]:
        """The waits that order a task of another stream before what follows them, and their
        records."""
        for wait in self.items:
            if wait.record is None:
                continue
            queue = self.streams[wait.stream]
            before = queue[wait.number - 2].clock if wait.number > 1 else [0] * len(self.streams)
            after = zip(self.streams, before, wait.record.clock, strict=True)
            if any(i.is_task for queue, low, high in after for i in queue[low:high]):
                yield wait.op
                yield wait.record.op


def _first_task(items: Iterable[Item], otherwise: str) -> str:
    return next((placed(i.op) for i in items if i.is_task), otherwise)


class HappensBefore:
    """The epochs of a function. `items` has the tasks, records and waits that are on a stream that
    the function states to have."""

    def __init__(self, func: FuncOp) -> None:
        self.stated = max(figure(func, "streams") or 0, 0)
        self.items: dict[Operation, Item] = {}
        self.epochs: list[Epoch] = []
        used = (_stream(op) for op in func.walk() if isinstance(op, STREAMED))
        limit = min(self.stated, MOST_STREAMS)
        self._streams = 1 + max((s for s in used if s < limit), default=-1)
        self.strays: list[Problem] = []  # of what is on none of the streams
        # The epochs of the outermost block, and the ops with regions between them
        self.parts = self._parts(func.body.block)
        for epoch in self.epochs:
            epoch.replay()

    def _parts(self, block: Block) -> list[Epoch | Operation]:
        parts: list[Epoch | Operation] = [self._epoch()]
        for op in block.ops:
            if op.regions:
                for inner in (b for r in op.regions for b in r.blocks):
                    self._parts(inner)
                parts += op, self._epoch()
            elif isinstance(op, STREAMED):
                if 0 <= (stream := _stream(op)) < self._streams:
                    self.items[op] = self.epochs[-1].add(op, stream)
                else:
                    text = f"{name_of(op)} is on none of the {self.stated} streams"
                    self.strays.append(Problem("stream", text, op))
        return parts

    def _epoch(self) -> Epoch:
        self.epochs.append(Epoch([[] for _ in range(self._streams)]))
        return self.epochs[-1]


def _stream(op: Operation) -> int:
    """The number of the stream that an op states; -1 for none."""
    stream = op.properties.get("stream")
    return stream.value.data if isinstance(stream, IntegerAttr) else -1
