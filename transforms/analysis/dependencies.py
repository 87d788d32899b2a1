"""What the tasks of a segment depend on, and the buffers that they keep alive.

A segment is what a block issues between two barriers (control flow, or the ends of the block). A
task depends on the last tasks that wrote what it reads, and on those that read or wrote what it
writes. Views count as the elements of their buffer that they are: tasks that write different parts
of one do not depend on each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.dialects.builtin import StridedLayoutAttr
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.ops import HBM, ConstantOp, WaitOp, is_dynamic
from ge.dialects.support.types import align_up, array_ints, byte_size, numel, shape_of
from ge.transforms.analysis.aliasing import Task, accesses, owner_of

IO = "npu_task.io"
"""Attribute of the allocation of a buffer that holds an input or output of the model."""


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of a buffer: `low` to `high`, of each `pitch` only the first `width` where there is
    a pitch."""

    low: int
    high: int
    pitch: int = 0
    width: int = 0

    def meets(self, other: "Part") -> bool:
        """Whether both may have an element in common."""
        if self.high <= other.low or other.high <= self.low:
            return False
        if not self.pitch or self.pitch != other.pitch:
            return True
        ahead = (other.low - self.low) % self.pitch
        return ahead < self.width or ahead + other.width > self.pitch

    def covers(self, other: "Part") -> bool:
        """Whether the other one is surely within this one."""
        inside = not self.pitch and self.low <= other.low and other.high <= self.high
        return inside or self == other


WHOLE = Part(0, 1 << 62)


def part_of(value: SSAValue) -> Part:
    """The elements of its buffer that a memref is."""
    op = value.owner
    if not isinstance(op, ReinterpretCastOp) or is_dynamic(value.type):
        return WHOLE
    offset, shape = array_ints(op.static_offsets)[0], shape_of(value)
    strides = array_ints(op.static_strides)
    if offset < 0 or any(s < 0 for s in strides):
        return WHOLE
    if not isinstance(op.result.type.layout, StridedLayoutAttr):
        return Part(offset, offset + numel(shape))
    return _strided(offset, shape, strides)


def _strided(offset: int, shape: Sequence[int], strides: Sequence[int]) -> Part:
    """Rows of `width` elements, one for each pitch, where the outer dimensions are rows of rows;
    else all from the first to the last element."""
    if not numel(shape):
        return Part(offset, offset)
    dims = [(n, step) for n, step in zip(shape, strides, strict=True) if n != 1]
    high = offset + 1 + sum((n - 1) * step for n, step in dims)
    width = 1
    while dims and dims[-1][1] == width:
        width *= dims.pop()[0]
    regular = all(a[1] == b[0] * b[1] for a, b in pairwise(dims))
    return Part(offset, high, dims[-1][1], width) if dims and regular else Part(offset, high)


@dataclass
class History:
    """Who touched a buffer, as far as it may matter to who comes next."""

    writes: list[tuple[Part, int]] = field(default_factory=list[tuple[Part, int]])
    reads: list[tuple[Part, int]] = field(default_factory=list[tuple[Part, int]])

    def read(self, part: Part, task: int) -> Iterator[int]:
        """Note that a task reads a part. Yields the tasks that wrote it."""
        yield from (t for p, t in self.writes if p.meets(part))
        self.reads.append((part, task))

    def write(self, part: Part, task: int) -> Iterator[int]:
        """Note that a task writes a part. Yields the tasks that read or wrote it."""
        for older in (self.writes, self.reads):
            yield from (t for p, t in older if p.meets(part))
        self.reads = [(p, t) for p, t in self.reads if not part.covers(p)]
        self.writes = [(p, t) for p, t in self.writes if not part.covers(p)]
        self.writes.append((part, task))


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
    result: list[list[int]] = []
    for i, op in enumerate(tasks):
        reads, writes = accesses(op)
        found: dict[int, None] = {}
        for value in reads:
            buffer = owner_of(value)
            if not isinstance(buffer.owner, ConstantOp):
                history = histories.setdefault(buffer, History())
                found |= dict.fromkeys(history.read(part_of(value), i))
        for value in writes:
            history = histories.setdefault(owner_of(value), History())
            found |= dict.fromkeys(history.write(part_of(value), i))
        found.pop(i, None)
        result.append(list(found))
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
    """Whether it is alive when the segment begins."""
    kept: bool
    """Whether it is alive when the segment ends."""


def buffers_of(parts: Sequence[Segment | Operation], alignment: int) -> list[list[Buffer]]:
    """The buffers of the arena that are alive in each of the parts of a function's block; what is
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
    return (b for v in (*reads, *writes) if _in_arena(b := owner_of(v)))


def _in_arena(buffer: SSAValue) -> bool:
    op = buffer.owner
    if not isinstance(op, AllocOp) or IO in op.attributes:
        return False
    return op.memref.type.memory_space == HBM and not is_dynamic(buffer.type)
