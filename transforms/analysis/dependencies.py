"""What the tasks of a segment depend on, and the buffers that they keep live.

A segment is what a block issues between two barriers (control flow, or the ends of the block). A
task depends on the last tasks that wrote what it reads, and on those that read or wrote what it
writes. Views count as the elements of their buffer that they are: tasks that write different parts
of one do not depend on each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.memory import Region, Regions, Task, owner_of
from ge.dialects.npu_task.ops import ConstantOp, WaitOp
from ge.dialects.support.types import align_up, byte_size
from ge.transforms.analysis.aliasing import accesses, in_arena


@dataclass
class History:
    """Who touched a buffer, as far as it may matter to who comes next."""

    writes: list[tuple[Region, int]] = field(default_factory=list[tuple[Region, int]])
    reads: list[tuple[Region, int]] = field(default_factory=list[tuple[Region, int]])

    def read(self, region: Region, task: int) -> Iterator[int]:
        """Note that a task reads a region. Yields the tasks that wrote it."""
        yield from (t for r, t in self.writes if r.meets(region))
        self.reads.append((region, task))

    def write(self, region: Region, task: int) -> Iterator[int]:
        """Note that a task writes a region. Yields the tasks that read or wrote it."""
        for older in (self.writes, self.reads):
            yield from (t for r, t in older if r.meets(region))
        self.reads = [(r, t) for r, t in self.reads if not region.covers(r)]
        self.writes = [(r, t) for r, t in self.writes if not region.covers(r)]
        self.writes.append((region, task))


@dataclass
class Segment:
    """The ops between two barriers, and what its tasks depend on."""

    ops: list[Operation]
    tasks: list[Operation] = field(init=False)
    before: list[list[int]] = field(init=False)
    """For each task the earlier ones that must be done before it starts, each once."""

    def __post_init__(self) -> None:
        self.tasks = [op for op in self.ops if isinstance(op, Task)]
        self.before = dependencies(self.tasks)

    def with_others(self, ops: Iterable[Operation], move: bool) -> Iterator[Operation]:
        """The tasks and events in `ops` with the other ops of the segment: each before the task
        that it is before now or, if they may `move`, before the first task that uses it."""
        left = dict.fromkeys(self.ops)
        waits: list[Operation] = []
        for op in ops:
            if isinstance(op, WaitOp):
                waits.append(op)
                continue
            if isinstance(op, Task):
                yield from _definitions(op, left) if move else _up_to(op, left)
                yield from waits
                waits = []
                del left[op]
            yield op
        yield from left


def _up_to(task: Operation, left: dict[Operation, None]) -> Iterator[Operation]:
    """What comes before a task among what is left, which it is taken out of."""
    while (first := next(iter(left))) is not task:
        del left[first]
        yield first


def _definitions(op: Operation, left: dict[Operation, None]) -> Iterator[Operation]:
    """What defines the operands of an op and is left, which it is taken out of."""
    for value in op.operands:
        owner = value.owner
        if isinstance(owner, Operation) and not isinstance(owner, Task) and owner in left:
            del left[owner]
            yield from _definitions(owner, left)
            yield owner


def dependencies(tasks: Sequence[Operation]) -> list[list[int]]:
    """For each task the earlier ones that must be done before it starts."""
    histories: dict[SSAValue, History] = {}
    regions = Regions()
    result: list[list[int]] = []
    for i, op in enumerate(tasks):
        reads, writes = accesses(op)
        before: dict[int, None] = {}
        for value in reads:
            region = regions.of(value)
            if not isinstance(region.owner.owner, ConstantOp):
                history = histories.setdefault(region.owner, History())
                before |= dict.fromkeys(history.read(region, i))
        for value in writes:
            region = regions.of(value)
            history = histories.setdefault(region.owner, History())
            before |= dict.fromkeys(history.write(region, i))
        before.pop(i, None)
        result.append(list(before))
    return result


def segments(block: Block) -> Iterator[Segment | Operation]:
    """The segments of a block, and between them the ops that are barriers."""
    ops: list[Operation] = []
    for op in block.ops:
        if op.regions:
            yield Segment(ops)
            yield op
            ops = []
        elif op is not block.last_op:
            ops.append(op)
    yield Segment(ops)


# ---- buffers ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer of the arena as the tasks of one segment see it."""

    bytes: int
    users: list[int]
    """The tasks that touch it, in program order."""
    held: bool
    """Whether it is live when the segment begins."""
    kept: bool
    """Whether it is live when the segment ends."""


def buffers_of(parts: Sequence[Segment | Operation], alignment: int) -> list[list[Buffer]]:
    """The buffers of the arena that are live in each of the parts of a function's block; what is
    allocated inside of branches and loops is left out."""
    used: list[dict[SSAValue, list[int]]] = [users_of(p) for p in parts]
    first: dict[SSAValue, int] = {}
    last: dict[SSAValue, int] = {}
    for i, users in enumerate(used):
        for buffer in users:
            first.setdefault(buffer, i)
            last[buffer] = i
    starting: list[list[SSAValue]] = [[] for _ in parts]
    for buffer, i in first.items():
        starting[i].append(buffer)
    alive: dict[SSAValue, None] = {}
    result: list[list[Buffer]] = []
    for i, users in enumerate(used):
        alive |= dict.fromkeys(starting[i])
        found: list[Buffer] = []
        for value in alive:
            size = align_up(byte_size(value.type), alignment)
            found.append(Buffer(size, users.get(value, []), first[value] < i, last[value] > i))
        result.append(found)
        alive = {v: None for v in alive if last[v] > i}
    return result


def users_of(part: Segment | Operation) -> dict[SSAValue, list[int]]:
    """The buffers of the arena that are used in a part, with the tasks that use them."""
    users: dict[SSAValue, list[int]] = {}
    if isinstance(part, Segment):
        for i, op in enumerate(part.tasks):
            for buffer in dict.fromkeys(_arena_buffers(op)):
                users.setdefault(buffer, []).append(i)
        return users
    return {
        buffer: []
        for op in part.walk()
        for buffer in _arena_buffers(op)
        if buffer.owner.parent is part.parent
    }


def _arena_buffers(op: Operation) -> Iterable[SSAValue]:
    reads, writes = accesses(op)
    owners = (owner_of(v) for v in (*reads, *writes))
    return (o for o in owners if isinstance(o.owner, Operation) and in_arena(o.owner))
