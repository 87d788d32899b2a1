"""Tasks and the buffers between them: who writes and reads each buffer, and how long it is live.

A task may be a launch, any op of a block, or the ops that share a launch. Buffers are the values
that take memory of their own; a view counts as the buffer that it shows.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.memory import owner_of
from ge.transforms.analysis.dependencies import all_accesses
from ge.transforms.analysis.liveness import LiveProfile
from ge.transforms.analysis.views import storage


@dataclass(slots=True)
class TaskGraph:
    """Tasks and buffers by number, tasks in program order, buffers in that of their first use."""

    bytes: list[int] = field(default_factory=list[int])  # of each buffer
    writer: list[int] = field(default_factory=list[int])
    """Of each buffer the task that uses it first."""
    readers: list[list[int]] = field(default_factory=list[list[int]])
    """Of each buffer the other tasks that use it, in order."""
    results: list[list[int]] = field(default_factory=list[list[int]])
    """Of each task the buffers that it is the writer of."""
    operands: list[list[int]] = field(default_factory=list[list[int]])
    """Of each task the other buffers that it uses."""
    buffers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def __len__(self) -> int:
        return len(self.results)

    def task(self) -> int:
        """Add a task; returns its number."""
        self.results.append([])
        self.operands.append([])
        return len(self) - 1

    def buffer(self, size: int, writer: int) -> int:
        """Add a buffer of `size` bytes; returns its number."""
        number = len(self.bytes)
        self.bytes.append(size)
        self.writer.append(writer)
        self.readers.append([])
        self.results[writer].append(number)
        return number

    def read(self, buffer: int, reader: int) -> None:
        if reader != self.writer[buffer] and reader not in self.readers[buffer][-1:]:
            self.readers[buffer].append(reader)
            self.operands[reader].append(buffer)

    def merge(self, value: SSAValue, later: SSAValue) -> None:
        """Let the buffer of a value take the place of one that is used later."""
        other = self.buffers.pop(later)
        buffer = self.buffers.setdefault(value, other)
        if buffer != other:
            for task in (self.writer[other], *self.readers[other]):
                self.read(buffer, task)

    def begin(self, value: SSAValue, task: int) -> None:
        """Let the buffer of a value be used by an earlier task than so far."""
        buffer = self.buffers[value]
        self.readers[buffer].insert(0, self.writer[buffer])
        self.writer[buffer] = task

    def first_use(self, value: SSAValue) -> int:
        """The first task that uses the buffer of a value; -1: none."""
        buffer = self.buffers.get(value)
        return -1 if buffer is None else self.writer[buffer]

    def last_use(self, value: SSAValue) -> int:
        """The last task that uses the buffer of a value; -1: none."""
        buffer = self.buffers.get(value)
        return -1 if buffer is None else self.end(buffer)

    def end(self, buffer: int) -> int:
        """The last task that uses a buffer."""
        return self.readers[buffer][-1] if self.readers[buffer] else self.writer[buffer]

    def result_bytes(self, task: int) -> int:
        return sum(self.bytes[b] for b in self.results[task])

    def live(self, order: Sequence[int]) -> LiveProfile:
        """The bytes live while each task runs, by its position in an order."""
        position = [0] * len(self)
        for i, task in enumerate(order):
            position[task] = i
        lives = (
            (size, position[writer], max([position[r] for r in readers], default=position[writer]))
            for size, writer, readers in zip(self.bytes, self.writer, self.readers, strict=True)
        )
        return LiveProfile.of(lives, len(order))

    def live_between(self) -> LiveProfile:
        """The bytes live after each task and before the next one, in program order."""
        lives = ((size, self.writer[b], self.end(b) - 1) for b, size in enumerate(self.bytes))
        return LiveProfile.of(lives, len(self))


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive tasks of a graph, and the buffers that are live while they run."""

    graph: TaskGraph
    tasks: range
    buffers: Sequence[int]

    def __len__(self) -> int:
        return len(self.tasks)

    def users(self, buffer: int) -> list[int]:
        """The tasks that use a buffer, counted from the first one of the window."""
        start, stop = self.tasks.start, self.tasks.stop
        readers = self.graph.readers[buffer]
        within = readers[bisect_left(readers, start) : bisect_left(readers, stop)]
        first = [] if self.live_before(buffer) else [self.graph.writer[buffer]]
        return [task - start for task in (*first, *within)]

    def live_before(self, buffer: int) -> bool:
        return self.graph.writer[buffer] < self.tasks.start

    def live_after(self, buffer: int) -> bool:
        return self.graph.end(buffer) >= self.tasks.stop

    def profile(self) -> LiveProfile:
        """The bytes live at each task in program order (at least one step)."""
        start, end = self.tasks.start, max(len(self), 1) - 1
        graph = self.graph
        lives = (
            (
                graph.bytes[b],
                max(graph.writer[b] - start, 0),
                min(graph.end(b) - start, end),
            )
            for b in self.buffers
        )
        return LiveProfile.of(lives, end + 1)


def windows(graph: TaskGraph, lengths: Iterable[int]) -> Iterator[Window]:
    """The tasks of a graph, which are in program order, in windows of these lengths. Buffers of no
    bytes are left out."""
    live: list[int] = []
    start = begun = 0
    for length in lengths:
        end = start + length
        live = [b for b in live if graph.end(b) >= start]
        while begun < len(graph.bytes) and graph.writer[begun] < end:
            if graph.bytes[begun]:
                live.append(begun)
            begun += 1
        yield Window(graph, range(start, end), live)
        start = end


def used_by(op: Operation) -> list[SSAValue]:
    """The values that an op uses: its operands, and those of its regions that are from outside."""
    if not op.regions:
        return list(op.operands)
    blocks = [b for inner in op.walk() for r in inner.regions for b in r.blocks]
    own = {v for b in blocks for v in (*b.args, *(r for o in b.ops for r in o.results))}
    return [v for inner in op.walk() for v in inner.operands if v not in own]


def value_graph(
    tasks: Iterable[Sequence[Operation]], size_of: Callable[[SSAValue], int]
) -> TaskGraph:
    """The graph of tasks that are ops on values; results that are no views are buffers.
    `size_of` tells how many bytes of a result count."""
    graph = TaskGraph()
    buffers = graph.buffers
    for ops in tasks:
        task = graph.task()
        for op in ops:
            for value in used_by(op):
                if (root := storage(value)) in buffers:
                    graph.read(buffers[root], task)
            for result in op.results:
                if storage(result) is result:
                    buffers[result] = graph.buffer(size_of(result), task)
    return graph


def buffer_graph(tasks: Iterable[Operation], size_of: Callable[[SSAValue], int]) -> TaskGraph:
    """The graph of tasks that are ops on memrefs. A branch or loop uses all that is used inside of
    it. `size_of` gives the bytes of a buffer that count."""
    graph = TaskGraph()
    for op in tasks:
        task = graph.task()
        for owner in dict.fromkeys([owner_of(v) for v in all_accesses(op)]):
            if (buffer := graph.buffers.get(owner)) is None:
                graph.buffers[owner] = graph.buffer(size_of(owner), task)
            else:
                graph.read(buffer, task)
    return graph
