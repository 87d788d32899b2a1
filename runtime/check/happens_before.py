"""Happens-before of the tasks that a program issues to its streams, by vector clocks (Fidge,
"Timestamps in message-passing systems that preserve the partial ordering", 1988).

Barriers (begin and end of branches and loops, the return) cut a program into epochs: all of one
epoch is done before the next one begins. Inside an epoch an item runs after those before it on its
stream, and a wait after the last record of its event's number, whatever the time that tasks take:
of the values that events are in the program nothing is taken on trust.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from ge.dialects.npu_task.attributes import figure
from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import RecordOp, WaitOp, event_number
from ge.runtime.check.problems import Problem, name_of, placed

MOST_STREAMS = 1 << 10  # more than any target has
STREAMED = Task | RecordOp | WaitOp


@dataclass(slots=True, eq=False)
class Item:
    """A task, record or wait: the `number`-th of its stream in its epoch, from 1."""

    op: Operation
    stream: int
    number: int
    record: "Item | None" = None  # what a wait waits for: the last record of its event before it
    # How many items of each stream are done whenever this one is
    clock: Sequence[int] = ()

    def follows(self, other: "Item") -> bool:
        """True if the other item of the epoch is done whenever this one runs."""
        return self.clock[other.stream] >= other.number

    @property
    def is_task(self) -> bool:
        return isinstance(self.op, Task)

    @property
    def event(self) -> int:
        assert isinstance(self.op, RecordOp | WaitOp)
        return event_number(self.op)


@dataclass(slots=True, eq=False)
class Epoch:
    """The items issued between two barriers, by stream, and their errors."""

    streams: list[list[Item]]
    items: list[Item] = field(default_factory=list[Item])
    problems: list[Problem] = field(default_factory=list[Problem])

    @classmethod
    def of(cls, ops: Iterable[Operation]) -> "Epoch":
        """The epoch of ops that are on streams, or all on one."""
        streamed = [op for op in ops if isinstance(op, STREAMED)]
        epoch = cls([[] for _ in range(1 + max([0, *map(_stream, streamed)]))])
        for op in streamed:
            epoch.add(op, max(_stream(op), 0))
        epoch.match()
        epoch.run()
        return epoch

    def report(self, rule: str, item: Item, text: str) -> None:
        self.problems.append(Problem(rule, text, item.op))

    def add(self, op: Operation, stream: int) -> Item:
        queue = self.streams[stream]
        queue.append(Item(op, stream, len(queue) + 1))
        self.items.append(queue[-1])
        return queue[-1]

    def replay(self) -> None:
        self.match()
        self.run()
        self.check_reuse()

    def match(self) -> None:
        """Find the record that ends each wait as the device does, which knows numbers alone, and
        hold it against the event that the program names."""
        last: dict[int, Item] = {}
        for item in self.items:
            if isinstance(item.op, RecordOp):
                last[item.event] = item
            elif isinstance(item.op, WaitOp):
                item.record = last.get(item.event)
                if item.record is None:
                    text = f"event {item.event} is not recorded before {self.next_task(item)}"
                    self.report("S4", item, f"{text} waits for it")
                elif item.record.op is not item.op.event.owner:
                    again = f"recorded again after {self.last_task(item.record)}"
                    text = f"event {item.event} is {again} before {self.next_task(item)}"
                    self.report("S5", item, f"{text} waits for the one before")

    def run(self) -> None:
        """Number, for each item, the items that are done whenever it runs. Waits come after their
        records, so no streams wait for each other in a circle."""
        clocks = [[0] * len(self.streams) for _ in self.streams]
        for item in self.items:
            clock = clocks[item.stream]
            if item.record is not None:
                clock = clocks[item.stream] = list(map(max, clock, item.record.clock))
            clock[item.stream] = item.number
            item.clock = tuple(clock)

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
                        self.report("S6", item, text)
            last[item.event] = item

    def tasks_before(self, item: Item) -> Iterator[Item]:
        """The last task of each stream that is done whenever an item runs."""
        for stream, count in enumerate(item.clock):
            before = count - (stream == item.stream)
            found = (self.streams[stream][n] for n in range(before - 1, -1, -1))
            yield from islice((i for i in found if i.is_task), 1)

    def next_task(self, item: Item) -> str:
        return _first_task(islice(self.streams[item.stream], item.number, None), "the end")

    def last_task(self, item: Item) -> str:
        earlier = reversed(self.streams[item.stream][: item.number - 1])
        return _first_task(earlier, "its beginning")

    def useful(self) -> Iterator[Operation]:
        """The waits that order a task of another stream before the tasks after them, and their
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
        self.strays: list[Problem] = []  # of ops on none of the streams
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
                    self.strays.append(Problem("S1", text, op))
        return parts

    def _epoch(self) -> Epoch:
        self.epochs.append(Epoch([[] for _ in range(self._streams)]))
        return self.epochs[-1]


def _stream(op: Operation) -> int:
    """The number of the stream that an op states; -1 for none."""
    stream = op.properties.get("stream")
    return stream.value.data if isinstance(stream, IntegerAttr) else -1
