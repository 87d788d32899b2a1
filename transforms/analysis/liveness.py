"""Lifetimes of buffers, bounded by happens-before.

Tasks of one stream run one after the other; events order tasks of different streams. Buffer A is
dead when buffer B begins if, in every run, each task that uses A ends before the first task that
writes B starts. Program order alone does not ensure that. One walk of the program gives each task a
vector clock (Fidge, "Timestamps in message-passing systems that preserve the partial ordering",
1988): how many tasks of each stream are done, in every run, before it starts. A is dead where the
clock covers all uses of A.

Branches and loops are barriers: all streams are idle before and after them and between their
blocks. A buffer that is allocated outside of one and used inside is live throughout; one that is
allocated inside is live between its uses there.

Several streams may write parts of a buffer first: it begins at the minimum of their clocks.

Of an order of tasks `LiveProfile` has the bytes that are live at each step, and the most of them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.memory import Task, owner_of
from ge.dialects.npu_task.ops import RecordOp, SlotOp, WaitOp
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.operation import ops_of
from ge.dialects.support.types import align_up, byte_size
from ge.transforms.analysis.dependencies import accesses

Life = tuple[int, int, int]
"""Bytes of a buffer, its first and its last step, both included. A buffer whose last step is
before its first one is never live."""


@dataclass(slots=True)
class LiveProfile:
    """The bytes live at each step, and the most of them."""

    bytes: list[int]
    peak: int

    @classmethod
    def of(cls, lives: Iterable[Life], steps: int) -> "LiveProfile":
        """The profile of buffers over so many steps."""
        change = [0] * (steps + 1)
        for size, first, last in lives:
            change[first] += size
            change[last + 1] -= size
        live = list(accumulate(change[:-1]))
        return cls(live, max(live, default=0))

    @property
    def peak_step(self) -> int:
        """The first step at which the most bytes are live."""
        return self.bytes.index(self.peak) if self.bytes else 0

    def reserve(self, first: int, end: int, extra: int) -> bool:
        """Have `extra` more bytes live from step `first` up to `end`, unless the peak would rise;
        returns whether it was done."""
        if max(self.bytes[first:end], default=0) + extra > self.peak:
            return False
        for step in range(first, end):
            self.bytes[step] += extra
        return True


Clock = Sequence[int]


class HappensBefore:
    """The clocks of streams while tasks are issued to them. Barriers count as a task of each."""

    def __init__(self, streams: int) -> None:
        self.issued = [0] * streams
        self.clocks = [[0] * streams for _ in range(streams)]

    def issue(self, stream: int) -> int:
        """Issue a task: it is the `n`-th of its stream. The stream's clock after that says what is
        done when the task is."""
        self.issued[stream] += 1
        self.clocks[stream][stream] = self.issued[stream]
        return self.issued[stream]

    def clock(self, stream: int) -> list[int]:
        """A copy of a stream's clock."""
        return list(self.clocks[stream])

    def wait(self, stream: int, done: Clock) -> None:
        """Let what is issued next to the stream start only when all that a clock covers is done."""
        self.clocks[stream] = [max(p) for p in zip(self.clocks[stream], done, strict=True)]

    def barrier(self) -> Clock:
        """All streams wait for each other. Returns how many tasks there were before."""
        before = tuple(self.issued)
        self.issued = [n + 1 for n in self.issued]
        self.clocks = [list(self.issued) for _ in self.issued]
        return before


BUFFERS = AllocOp, SlotOp


@dataclass(slots=True, eq=False)
class Lifetime:
    """The span in which a buffer is live. Positions count tasks and barriers in program order."""

    op: Operation  # the allocation or slot
    bytes: int
    depth: int  # regions around `op`
    start: int = -1
    end: int = -1
    """Positions of the first and the last use; -1: none."""
    stream: int = -1
    """Stream of the first use; the number of streams for a barrier."""
    before: Clock = ()
    """The clock when the first use begins."""
    uses: list[int] = field(default_factory=list[int])
    """Of each stream the number of its last task that uses the buffer."""
    first_tasks: dict[int, Operation] = field(default_factory=dict[int, Operation])
    last_tasks: dict[int, Operation] = field(default_factory=dict[int, Operation])
    """Stream -> the first and the last task there that use the buffer."""
    first_use: Operation | None = None
    last_use: Operation | None = None

    @property
    def buffer(self) -> SSAValue:
        return self.op.results[0]

    def is_over(self, clock: Clock) -> bool:
        """Return whether a clock covers all uses."""
        return all(use <= done for use, done in zip(self.uses, clock, strict=True))

    def begin(self, op: Operation, position: int, stream: int, before: Clock) -> None:
        """A stream, or a barrier, uses the buffer for the first time."""
        if self.start < 0:
            self.start, self.stream, self.before = position, stream, before
            self.first_use = op
        elif any(b > done for b, done in zip(self.before, before, strict=True)):
            self.before = tuple(map(min, zip(self.before, before, strict=True)))


class Liveness:
    """The lifetimes of the buffers that `planned` chooses, in the order in which they begin."""

    def __init__(self, body: Block, streams: int, planned: Callable[[Operation], bool]) -> None:
        self.streams = streams
        self.planned = planned
        self.by_value: dict[SSAValue, Lifetime] = {}
        self.position = 0
        self.order = HappensBefore(streams)
        self.events: dict[SSAValue, Clock] = {}
        self.control: list[dict[Lifetime, None]] = []
        """Of each branch and loop around the op that is visited the outer buffers used inside."""
        self.walk(body)
        lives = self.by_value.values()
        self.buffers = sorted((b for b in lives if b.start >= 0), key=lambda b: b.start)
        self.unused = [b for b in lives if b.start < 0]

    # ---- the walk

    def walk(self, block: Block) -> None:
        """Go through a block in the order in which the host issues it."""
        for op in ops_of(block):
            match op:
                case _ if type(op) in BUFFERS:
                    if self.planned(op):
                        (buffer,) = op.results
                        size = byte_size(buffer.type)
                        life = Lifetime(op, size, len(self.control), uses=[0] * self.streams)
                        self.by_value[buffer] = life
                case RecordOp():
                    self.events[op.event] = self.order.clock(self.stream(op))
                case WaitOp():
                    self.order.wait(self.stream(op), self.events[op.event])
                case _ if isinstance(op, Task):
                    self.task(op)
                case _ if op.regions:
                    self.branch(op)
                case _ if op is block.last_op:
                    self.barrier(op, self.used_by(op))
                case _:
                    pass

    def stream(self, op: Task | RecordOp | WaitOp) -> int:
        stream = op.stream
        number = -1 if stream is None else stream.value.data
        if not 0 <= number < self.streams:
            raise error_at(op, f"{op.name} is on no stream", "run assign-streams first")
        return number

    def task(self, op: Task) -> None:
        stream = self.stream(op)
        before = tuple(self.order.clocks[stream])
        number = self.order.issue(stream)
        self.position += 1
        for life in self.inner(self.used_by(op)):
            if stream not in life.first_tasks:
                life.first_tasks[stream] = op
                life.begin(op, self.position, stream, before)
            life.end = self.position
            life.uses[stream] = number
            life.last_tasks[stream] = life.last_use = op

    def inner(self, lives: Iterable[Lifetime]) -> Iterator[Lifetime]:
        """The buffers that are allocated at the depth of the walk. The others are used by the
        branch or loop of their block that is being walked."""
        for life in lives:
            if life.depth < len(self.control):
                self.control[life.depth][life] = None
            else:
                yield life

    def branch(self, op: Operation) -> None:
        """A branch or loop waits for all streams; outer buffers that are used inside are live
        throughout."""
        used = dict.fromkeys(self.used_by(op))
        before = self.barrier(op, ())
        position = self.position
        self.control.append(used)
        for region in op.regions:
            for block in region.blocks:
                self.walk(block)
        self.control.pop()
        for life in self.inner(
            used
        ):  # those from further outside begin with the op around this one
            if life.start < 0:
                life.begin(op, position, self.streams, before)
        self.barrier(op, used)

    def barrier(self, op: Operation, used: Iterable[Lifetime]) -> Clock:
        """All streams wait for each other; `op` uses `used` then. Returns the clock before."""
        before = self.order.barrier()
        self.position += 1
        for life in self.inner(used):
            if life.start < 0:
                life.begin(op, self.position, self.streams, before)
            life.end = self.position
            life.last_use = op
            life.uses = list(self.order.issued)
        return before

    def used_by(self, op: Operation) -> list[Lifetime]:
        reads, writes = accesses(op)
        owners = [owner_of(v) for v in (*reads, *writes)]
        lives = [self.by_value.get(o) for o in dict.fromkeys(owners)]
        return [life for life in lives if life is not None]

    # ---- conflicts

    def conflicts(self) -> list[list[range]]:
        """For each buffer the later ones that may be written while it is live: for each of the
        `groups` a range of indices, as clocks only grow along a stream. (Where another stream
        begins a buffer earlier, those before it in its group count as begun then.)"""
        groups = self.groups()
        befores = [self.nondecreasing(group) for group in groups]
        passed = [0] * len(groups)
        result: list[list[range]] = []
        for life in self.buffers:
            passed[life.stream] += 1
            ranges: list[range] = []
            for before, first in zip(befores, passed, strict=True):
                some = first < len(before) and not life.is_over(before[first])
                ranges.append(range(first, _first_after(life, before, first) if some else first))
            result.append(ranges)
        return result

    def nondecreasing(self, group: Sequence[int]) -> list[Clock]:
        """The clocks at which the buffers of a group begin, none above a later one."""
        clocks = [self.buffers[i].before for i in group]
        for k in reversed(range(len(clocks) - 1)):
            if any(a > b for a, b in zip(clocks[k], clocks[k + 1], strict=True)):
                clocks[k] = tuple(map(min, zip(clocks[k], clocks[k + 1], strict=True)))
        return clocks

    def groups(self) -> list[list[int]]:
        """The buffers by the stream of their first use (last: barriers), in program order."""
        groups: list[list[int]] = [[] for _ in range(self.streams + 1)]
        for i, life in enumerate(self.buffers):
            groups[life.stream].append(i)
        return groups

    def live_at_peak(self, alignment: int) -> list[Lifetime]:
        """The buffers that are live when the most bytes are, in program order."""
        lives = ((align_up(b.bytes, alignment), b.start, b.end) for b in self.buffers)
        step = LiveProfile.of(lives, self.position + 1).peak_step
        return [b for b in self.buffers if b.start <= step <= b.end]


def _first_after(life: Lifetime, befores: Sequence[Clock], first: int) -> int:
    """The first index, from `first` on, at which a lifetime is over. Searches in growing steps: the
    answer is near as a rule."""
    low, high, step = first, first, 1
    while high < len(befores) and not life.is_over(befores[high]):
        low, high, step = high + 1, high + step, 2 * step
    high = min(high, len(befores))
    return bisect_left(befores, True, low, high, key=life.is_over)
