"""Tasks and the buffers between them: what is written and read by whom, and until when it is live.

A task may be a launch, any op of a block, or the ops that share a launch. Buffers are the values
that take memory of their own; views count as the buffer that they are of.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ge.transforms.analysis.live_profile import LiveProfile
from ge.transforms.analysis.views import storage


@dataclass(slots=True)
class TaskGraph:
    """Tasks by number, in the order of the program, and the buffers between them."""

    bytes: list[int] = field(default_factory=list[int])
    """Of each buffer."""
    writer: list[int] = field(default_factory=list[int])
    """Of each buffer the task that writes it first."""
    readers: list[list[int]] = field(default_factory=list[list[int]])
    """The other tasks that use a buffer, in order."""
    makes: list[list[int]] = field(default_factory=list[list[int]])
    """The buffers that a task writes first."""
    needs: list[list[int]] = field(default_factory=list[list[int]])
    """The buffers of other tasks that a task reads."""

    def __len__(self) -> int:
        return len(self.makes)

    def task(self) -> int:
        """Add a task; its number."""
        self.makes.append([])
        self.needs.append([])
        return len(self) - 1

    def buffer(self, size: int, writer: int) -> int:
        """Add a buffer of `size` bytes; its number."""
        self.bytes.append(size)
        self.writer.append(writer)
        self.readers.append([])
        self.makes[writer].append(len(self.bytes) - 1)
        return len(self.bytes) - 1

    def read(self, buffer: int, reader: int) -> None:
        if reader != self.writer[buffer] and reader not in self.readers[buffer][-1:]:
            self.readers[buffer].append(reader)
            self.needs[reader].append(buffer)

    def last_use(self, buffer: int) -> int:
        """The last task of the program's order that uses a buffer."""
        return self.readers[buffer][-1] if self.readers[buffer] else self.writer[buffer]

    def made_bytes(self, task: int) -> int:
        return sum(self.bytes[b] for b in self.makes[task])

    def live(self, order: Sequence[int]) -> LiveProfile:
        """The bytes live while each task runs, by its place in an order."""
        place = [0] * len(self)
        for i, task in enumerate(order):
            place[task] = i
        lives = (
            (size, place[writer], max([place[r] for r in readers], default=place[writer]))
            for size, writer, readers in zip(self.bytes, self.writer, self.readers, strict=True)
        )
        return LiveProfile.of(lives, len(order))


def used_by(op: Operation) -> list[SSAValue]:
    """The values that an op needs: its operands, and what its regions use of those from outside."""
    if not op.regions:
        return list(op.operands)
    blocks = [b for inner in op.walk() for r in inner.regions for b in r.blocks]
    own = {v for b in blocks for v in (*b.args, *(r for o in b.ops for r in o.results))}
    return [v for inner in op.walk() for v in inner.operands if v not in own]


def value_graph(
    tasks: Iterable[Sequence[Operation]], size_of: Callable[[SSAValue], int]
) -> tuple[TaskGraph, dict[SSAValue, int]]:
    """The graph of tasks that are ops on values, and the buffer of each result that is no view.
    `size_of` says how many bytes of a result count."""
    graph, buffers = TaskGraph(), dict[SSAValue, int]()
    for ops in tasks:
        task = graph.task()
        for op in ops:
            for value in used_by(op):
                if (root := storage(value)) in buffers:
                    graph.read(buffers[root], task)
            for result in op.results:
                if storage(result) is result:
                    buffers[result] = graph.buffer(size_of(result), task)
    return graph, buffers
