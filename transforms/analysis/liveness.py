"""Lifetimes of buffers, bounded by happens-before.

Tasks of one stream run one after the other; events order tasks of different streams. So "A is dead
when B begins" means: every task that uses A is done before the first task that writes B starts, in
every run of the program. Program order alone does not give that. Each task has a vector clock (how
many tasks of each stream are done before it starts), read from streams, events and barriers in one
walk; uses of A are done before B starts where B's clock covers them.

Branches and loops are barriers: all streams are idle before and after them and between their
blocks. A buffer that is allocated outside of one and used inside is live through all of it (a
loop comes back to it); one that is allocated inside is live between its uses there.

Several streams may begin a buffer side by side, each with a part of it: it begins where the first
of them may.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.memory import Task, owner_of
from ge.dialects.npu_task.ops import RecordOp, SlotOp, WaitOp
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.types import align_up, byte_size
from ge.transforms.analysis.aliasing import accesses
from ge.transforms.analysis.happens_before import Clock, HappensBefore
from ge.transforms.analysis.live_profile import LiveProfile


@dataclass(slots=True, eq=False)
class Lifetime:
    """When one buffer is in use. Positions count tasks and barriers in program order."""

    op: Operation
    """The allocation or slot."""
    bytes: int
    depth: int
    """How many regions that is in."""
    start: int = -1
    """Position of the first use; -1: none."""
    end: int = -1
    """Position of the last use."""
    stream: int = -1
    """Stream of the first use; the number of streams for a barrier."""
    before: Clock = ()
    """How many tasks of each stream are done when the first use begins."""
    uses: list[int] = field(default_factory=list[int])
    """The number of the last task of each stream that uses it."""
    first_tasks: dict[int, Operation] = field(default_factory=dict[int, Operation])
    """Stream -> the first task there that uses it."""
    last_tasks: dict[int, Operation] = field(default_factory=dict[int, Operation])
    """Stream -> the last task there that uses it."""
    first_use: Operation | None = None
    last_use: Operation | None = None
    """The first and the last op that uses it, in program order."""

    @property
    def buffer(self) -> SSAValue:
        return self.op.results[0]

    def is_done(self, clock: Clock) -> bool:
        """Whether all uses are done where the clock is this one."""
        return all(use <= done for use, done in zip(self.uses, clock, strict=True))


@dataclass(slots=True)
class Frame:
    """A branch or loop that is being walked, and the outer buffers used in it."""

    position: int
    before: Clock
    used: dict[Lifetime, None] = field(default_factory=dict[Lifetime, None])


class Liveness:
    """The lifetimes of the buffers that `planned` chooses, in the order in which they begin."""

    def __init__(self, body: Block, streams: int, planned: Callable[[Operation], bool]) -> None:
        self.streams = streams
        self.planned = planned
        self.by_value: dict[SSAValue, Lifetime] = {}
        self.position = 0
        self.order = HappensBefore(streams)
        self.events: dict[int, Clock] = {}
        self.frames: list[Frame] = []
        self.walk(body)
        found = self.by_value.values()
        self.buffers = sorted((b for b in found if b.start >= 0), key=lambda b: b.start)
        self.unused = [b for b in found if b.start < 0]

    # ---- the walk

    def walk(self, block: Block) -> None:
        """Go through a block in the order in which the host issues it."""
        for op in block.ops:
            match op:
                case AllocOp() | SlotOp():
                    if self.planned(op):
                        (buffer,) = op.results
                        size = byte_size(buffer.type)
                        life = Lifetime(op, size, len(self.frames), uses=[0] * self.streams)
                        self.by_value[buffer] = life
                case RecordOp():
                    self.events[op.event.value.data] = self.order.clock(self.stream(op))
                case WaitOp():
                    self.wait(op)
                case _ if isinstance(op, Task):
                    self.task(op)
                case _ if op.regions:
                    self.control(op)
                case _ if op is block.last_op:
                    self.barrier(op, self.used_by(op))
                case _:
                    pass

    def stream(self, op: Task | RecordOp | WaitOp) -> int:
        if op.stream is None or not 0 <= op.stream.value.data < self.streams:
            raise error_at(op, f"{op.name} is on no stream", "run assign-streams first")
        return op.stream.value.data

    def wait(self, op: WaitOp) -> None:
        """The stream has seen all that was issued before the event. Raises GeError for an event
        that nobody recorded."""
        stream = self.stream(op)
        happened = self.events.get(op.event.value.data)
        if happened is None:
            text = f"event {op.event.value.data} is waited for, but was not recorded"
            raise error_at(op, text, "run assign-streams again")
        self.order.wait(stream, happened)

    def task(self, op: Task) -> None:
        """A task extends the lives of what it uses, and is one more step of its stream's clock."""
        stream = self.stream(op)
        before = tuple(self.order.clocks[stream])
        number = self.order.issue(stream)
        self.position += 1
        for life in self.used_by(op):
            if life.depth < len(self.frames):
                self.frames[life.depth].used[life] = None
                continue
            if stream not in life.first_tasks:
                self.begin(life, op, stream, before)
            life.end = self.position
            life.uses[stream] = number
            life.last_tasks[stream] = life.last_use = op
            life.first_use = life.first_use or op

    def begin(self, life: Lifetime, op: Task, stream: int, before: Clock) -> None:
        """A stream uses a buffer for the first time, when the tasks in `before` are done."""
        life.first_tasks[stream] = op
        if life.start < 0:
            life.start, life.stream, life.before = self.position, stream, before
        elif any(b > done for b, done in zip(life.before, before, strict=True)):
            life.before = tuple(map(min, zip(life.before, before, strict=True)))

    def control(self, op: Operation) -> None:
        """Control flow waits for all streams; what is used inside and made outside lives through
        all of it."""
        used = self.used_by(op)
        before = self.barrier(op, ())
        frame = Frame(self.position, before, dict.fromkeys(used))
        self.frames.append(frame)
        for region in op.regions:
            for block in region.blocks:
                self.walk(block)
        self.frames.pop()
        for life in frame.used:
            if life.start < 0:
                life.start, life.stream, life.before = frame.position, self.streams, before
                life.first_use = op
        self.barrier(op, frame.used)

    def barrier(self, op: Operation, used: Iterable[Lifetime]) -> Clock:
        """All streams wait for each other; `op` uses `used` then. Returns the clock before."""
        before = self.order.barrier()
        self.position += 1
        for life in used:
            if life.depth < len(self.frames):
                self.frames[life.depth].used[life] = None
                continue
            if life.start < 0:
                life.start, life.stream, life.before = self.position, self.streams, before
                life.first_use = op
            life.end = self.position
            life.last_use = op
            life.uses = list(self.order.issued)
        return before

    def used_by(self, op: Operation) -> list[Lifetime]:
        reads, writes = accesses(op)
        owners = dict.fromkeys(owner_of(v) for v in (*reads, *writes))
        return [life for o in owners if (life := self.by_value.get(o)) is not None]

    # ---- conflicts

    def conflicts(self) -> list[list[range]]:
        """For each buffer the later ones that may be written before its uses are done, as ranges
        of indices into `groups`. A clock only grows along a stream: they lie side by side. (Where
        another stream begins a buffer earlier, those before it in its group count as begun then.)
        """
        groups = self.groups()
        befores = [self.nondecreasing(group) for group in groups]
        passed = [0] * len(groups)
        result: list[list[range]] = []
        for life in self.buffers:
            passed[life.stream] += 1
            ranges: list[range] = []
            for before, first in zip(befores, passed, strict=True):
                last = _first_after(life, before, first)
                ranges.append(range(first, last))
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
        """The buffers that are live when the most bytes are, in the order of the program."""
        lives = ((align_up(b.bytes, alignment), b.start, b.end) for b in self.buffers)
        step = LiveProfile.of(lives, self.position + 1).peak_step
        return [b for b in self.buffers if b.start <= step <= b.end]


def _first_after(life: Lifetime, befores: Sequence[Clock], first: int) -> int:
    """The first place in a group, from `first` on, whose buffer begins after `life` is done.
    Searches in growing steps: the answer is near as a rule."""
    low, high, step = first, first, 1
    while high < len(befores) and not life.is_done(befores[high]):
        low, high, step = high + 1, high + step, 2 * step
    high = min(high, len(befores))
    return bisect_left(befores, True, low, high, key=life.is_done)
