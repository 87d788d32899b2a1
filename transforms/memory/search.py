"""A complete search for a packing within a capacity.

Depth first: buffers are placed one by one, each on top of the placed ones, at offsets that never
decrease. Every packing can be pushed down into such a "canonical" one, so none is missed, and of
the orders that give the same packing one is tried. The ideas are those of Moffitt, "MiniMalloc: A
Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023):
- time is cut into sections, so that buffers conflict where they have a section in common;
- where no unplaced buffer crosses from a section to the next, both sides are searched separately; a
  side without a packing fails the placement that separated them, however many came since;
- the floor of a section is the lowest offset that an unplaced buffer of it can have: with the
  unplaced bytes on top it must not rise over the capacity;
- a buffer is not placed at or above an offset below which another whole one would fit.
Added to them are:
- a dead end is explained by the sections that it comes from; a placement that changed nothing in
  them is undone as well (backjumping: Prosser, "Hybrid algorithms for the constraint satisfaction
  problem", 1993);
- a state that failed (the unplaced buffers, and the least offset) fails again;
- buffers of equal offset are tried in a fixed order, by how full their sections are, or by how
  often their sections were dead ends, with restarts (Boussemart, Hemery, Lecoutre and Sais,
  "Boosting systematic search by weighting constraints", 2004); these take turns with growing
  numbers of steps, as one may be lucky where another one is lost in a large subtree.
A step costs numpy operations on the sections beside the placed buffer, 0.1 to 0.6 ms. Turns and
limits are counted in steps, so that the result does not depend on the machine.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from math import inf

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

TURN = 2  # steps for each buffer in the first turn of an order
LONGER = 4  # factor of the steps from one round of turns to the next
RESTART = 2  # steps for each buffer before a search by blame starts again
GROWTH, MEMORY = 1.2, 0.7  # factors of these steps, and of the blame, at a restart
CHECKED = 64  # steps between two looks at the clock


class Outcome(Enum):
    """Knowledge after a search."""

    PACKED = "packed"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


class Ties(Enum):
    """Order in which buffers with equal offsets are tried."""

    BLAMED = "those in the sections that were dead ends most often"
    FULLEST = "those in the section that rises highest when all of it is placed"
    ORDER = "as the order says"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome, the offsets of a packing, and the steps of the search."""

    outcome: Outcome
    offsets: Sequence[int]
    steps: int


class Sections:
    """The buffers of a problem by the sections of time that they are live in, [first, last)."""

    def __init__(self, sizes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> None:
        """Buffer i has sizes[i] > 0 bytes and is live from starts[i] to ends[i], both included."""
        self.sizes = np.array(sizes, np.int64)
        begins, finishes = np.array(starts, np.int64), np.array(ends, np.int64)
        self.lengths = finishes - begins + 1
        stops = np.unique(finishes)
        cuts = stops[np.searchsorted(stops, np.unique(begins))]
        cuts = np.unique(cuts)  # the first end after each begin
        self.first: Ints = np.searchsorted(cuts, begins)
        self.last: Ints = np.searchsorted(cuts, finishes, side="right")
        self.count = len(cuts)
        self.members = [
            np.flatnonzero((self.first <= s) & (s < self.last)) for s in range(self.count)
        ]
        self.totals = np.array([self.sizes[m].sum() for m in self.members], np.int64)


def orders(sections: Sections) -> Iterator[Ints]:
    """Orders in which buffers with equal offsets are tried: by descending width (lifetime), total
    (of the buffer's fullest section), area, number of overlaps."""
    width, sizes = sections.lengths, sections.sizes
    area = width * sizes
    total = np.array(
        [sections.totals[a:b].max() for a, b in zip(sections.first, sections.last, strict=True)]
    )
    overlaps = np.array(
        [
            ((sections.first < b) & (sections.last > a)).sum()
            for a, b in zip(sections.first, sections.last, strict=True)
        ]
    )
    for keys in ((total, width, area), (total, area, width), (overlaps, area, total)):
        yield np.lexsort([-k for k in reversed(keys)])


@dataclass(slots=True)
class Subproblem:
    """Buffers to place in sections [low, high), independent of all others."""

    buffers: Ints
    low: int
    high: int
    offset: int
    """Of the last placement; none is placed below."""
    parent: int
    """The frame whose placement created this subproblem."""
    rest: "Subproblem | None"
    """The next one of a chain."""


@dataclass(slots=True)
class Frame:
    """A choice of the next buffer of a subproblem. Sets of sections are the bits of an integer."""

    part: Subproblem
    key: bytes
    choices: Sequence[int]
    reasons: int
    """The sections because of which there are no more choices."""
    tried: int = 0
    blamed: int = 0
    """The sections because of which the choices so far failed."""
    undo: tuple[int, Ints, int, int, Ints] | None = None
    """The state that the placement of a choice has changed."""
    asleep: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Choices that failed, and where they were asleep before."""


class Descent:
    """The search with one order, which can be interrupted and continued."""

    def __init__(self, sections: Sections, order: Ints, capacity: int, ties: Ties) -> None:
        """Buffers of equal offset are tried as `ties` says, then as in the order."""
        n = len(order)
        self.order, self.capacity, self.ties = order, capacity, ties
        self.sizes = sections.sizes[order]
        self.size: list[int] = self.sizes.tolist()
        self.firsts, self.lasts = sections.first[order], sections.last[order]
        self.first: list[int] = self.firsts.tolist()
        self.last: list[int] = self.lasts.tolist()
        self.overlaps = [
            np.flatnonzero((self.firsts < b) & (self.lasts > a) & (np.arange(n) != i))
            for i, (a, b) in enumerate(zip(self.first, self.last, strict=True))
        ]
        self.reach = [
            (int(self.firsts[o].min(initial=a)), int(self.lasts[o].max(initial=b)))
            for o, a, b in zip(self.overlaps, self.first, self.last, strict=True)
        ]
        """The sections of a buffer and of those that overlap it."""
        spans = zip(self.first, self.last, strict=True)
        self.sections: list[int] = [(1 << b) - (1 << a) for a, b in spans]
        """The set of the sections of each buffer."""
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(n)
        self.members = np.full((sections.count, max(map(len, sections.members))), n)
        """The buffers of each section, filled up with one that does not exist."""
        for s, members in enumerate(sections.members):
            self.members[s, : len(members)] = rank[members]
        self.totals = sections.totals
        self.blame = np.zeros(sections.count)
        """How often each section was a dead end; older ones count less."""
        self.limit = float(RESTART * n)
        self.reset()

    def reset(self) -> None:
        n, count = len(self.order), len(self.totals)
        self.since_reset = 0
        self.lowest = np.zeros(n + 1, np.int64)
        """The least offset of each unplaced buffer; the capacity for others."""
        self.lowest[n] = self.capacity
        self.unplaced = self.totals.copy()
        """Bytes that are unplaced, by section."""
        self.floor = np.zeros(count, np.int64)
        """The least offset of the unplaced buffers of each section."""
        self.crossing = np.zeros(count + 1, np.int64)
        """Unplaced buffers that are live in both sections beside a border."""
        for a, b in zip(self.first, self.last, strict=True):
            self.crossing[a + 1 : b] += 1
        self.offsets = [0] * n
        self.sleep = np.full(n, -1, np.int64)
        """The offset at which a buffer was tried already: it is not placed there later on."""
        self.failed: dict[bytes, int] = {}
        """State -> the sections because of which it has no packing."""
        self.frames: list[Frame] = []
        whole = Subproblem(np.arange(n), 0, count, 0, -1, None)
        self.todo: Subproblem | None = self.split(whole)

    def split(self, part: Subproblem) -> Subproblem | None:
        """A subproblem as a chain of independent ones."""
        borders = np.flatnonzero(self.crossing[part.low + 1 : part.high] == 0) + part.low + 1
        if not len(borders):
            return part
        where = np.searchsorted(borders, self.firsts[part.buffers], side="right")
        chain, limits = part.rest, [part.low, *borders.tolist(), part.high]
        for i in reversed(range(len(limits) - 1)):
            if len(buffers := part.buffers[where == i]):
                chain = Subproblem(
                    buffers, limits[i], limits[i + 1], part.offset, part.parent, chain
                )
        return chain

    def run(self, steps: int, expired: Callable[[], bool]) -> tuple[Outcome, int]:
        """Take at most so many steps; returns the outcome and the steps that were taken."""
        for step in range(steps):
            if step % CHECKED == 0 and expired():
                return Outcome.UNDECIDED, step
            if self.ties is Ties.BLAMED and self.since_reset >= self.limit:
                self.limit *= GROWTH
                self.blame *= MEMORY
                self.reset()
            self.since_reset += 1
            if self.todo is not None:
                self.expand(self.todo)
                self.todo = None
            while self.frames and self.frames[-1].tried == len(self.frames[-1].choices):
                self.fail(self.frames[-1], self.frames[-1].reasons)
            if not self.frames:
                return Outcome.IMPOSSIBLE, step
            frame = self.frames[-1]
            choice = frame.choices[frame.tried]
            frame.tried += 1
            if (section := self.place(frame, choice)) is not None:
                self.blame[section] += 1
                self.reject(frame, 1 << section)
            elif (todo := self.remaining(frame.part, choice)) is not None:
                self.todo = todo
            else:
                return Outcome.PACKED, step + 1
        return Outcome.UNDECIDED, steps

    def expand(self, part: Subproblem) -> None:
        """Push a frame with the buffers that may be placed next, the lowest first."""
        buffers = part.buffers
        lowest = self.lowest[buffers]
        awake = (lowest == part.offset) & (self.sleep[buffers] != lowest)
        allowed = (lowest > part.offset) | awake
        state = buffers.tobytes() + np.where(allowed, lowest, -1).tobytes()
        key = blake2b(state, digest_size=16).digest()
        choices: list[int] = []
        if not (reasons := self.failed.get(key, 0)):
            unplaced = self.unplaced[part.low : part.high]
            fullest = int(unplaced.argmax())
            room = self.capacity - int(unplaced[fullest])
            tops = lowest + self.sizes[buffers]
            least = int(tops.argmin())
            below = int(tops[least]) - 1
            highest = int(lowest[allowed].max(initial=-1))
            if highest > room:
                reasons |= 1 << (part.low + fullest)
            if highest > below:
                reasons |= self.sections[int(buffers[least])]
            if highest < 0:  # all are asleep: so are those of any section
                reasons = 1 << self.first[int(buffers[0])]
            allowed &= lowest <= min(below, room)
            choices = self.sort(buffers[allowed], lowest[allowed], part.offset)
        self.frames.append(Frame(part, key, choices, reasons))

    def sort(self, buffers: Ints, lowest: Ints, offset: int) -> list[int]:
        """The buffers by their lowest offsets."""
        if len(buffers) < 2:
            return buffers.tolist()
        chosen: list[int] = buffers.tolist()
        spans = [(self.first[i], self.last[i]) for i in chosen]
        if self.ties is Ties.FULLEST:
            rise = self.unplaced + np.maximum(self.floor, offset)
            urgent = [float(rise[a:b].max()) for a, b in spans]
        elif self.ties is Ties.BLAMED:
            urgent = [float(self.blame[a:b].sum()) for a, b in spans]
        else:
            urgent = [0.0] * len(spans)
        return buffers[np.lexsort((buffers, -np.array(urgent), lowest))].tolist()

    def fail(self, frame: Frame, reasons: int) -> None:
        """A subproblem has no packing because of some sections: backtrack to the placement that
        created it."""
        reasons |= frame.blamed
        self.failed[frame.key] = reasons
        while len(self.frames) > frame.part.parent + 1:
            popped = self.frames.pop()
            self.take_back(popped)
            for buffer, before in reversed(popped.asleep):
                self.sleep[buffer] = before
        if self.frames:
            self.reject(self.frames[-1], reasons)

    def reject(self, frame: Frame, reasons: int) -> None:
        """The placement of a frame has no packing because of some sections. If it changed nothing
        in them, the frame has none either: its other choices are as high or higher."""
        frame.blamed |= reasons
        changed = self.changed(frame) & reasons
        self.take_back(frame)
        if not changed:
            self.fail(frame, 0)
            return
        choice = frame.choices[frame.tried - 1]
        frame.asleep.append((choice, int(self.sleep[choice])))
        self.sleep[choice] = self.lowest[choice]

    def changed(self, frame: Frame) -> int:
        """The sections of the buffer that a frame has placed, and of those it raised."""
        assert frame.undo is not None
        buffer, before, *_ = frame.undo
        raised = self.overlaps[buffer][before < self.offsets[buffer] + self.size[buffer]]
        result = self.sections[buffer]
        others: list[int] = raised.tolist()
        for other in others:
            result |= self.sections[other]
        return result

    def place(self, frame: Frame, buffer: int) -> int | None:
        """Place a buffer at its lowest offset. Returns a section in which the rest does not fit."""
        part, overlaps = frame.part, self.overlaps[buffer]
        first, last = self.first[buffer], self.last[buffer]
        low, high = self.reach[buffer]
        low, high = max(low, part.low), min(high, part.high)
        offset = int(self.lowest[buffer])
        top = offset + self.size[buffer]
        before = self.lowest[overlaps]
        frame.undo = buffer, before, low, high, self.floor[low:high].copy()
        self.offsets[buffer] = offset
        self.lowest[overlaps] = np.maximum(before, top)
        self.lowest[buffer] = self.capacity
        self.unplaced[first:last] -= self.size[buffer]
        self.crossing[first + 1 : last] -= 1
        self.floor[low:high] = self.lowest[self.members[low:high]].min(axis=1)
        if top > self.capacity:
            return first
        unplaced = self.unplaced[part.low : part.high]
        rise = np.maximum(self.floor[part.low : part.high], offset) + unplaced
        if rise[highest := int(rise.argmax())] > self.capacity:
            return part.low + highest
        tops = self.lowest[part.buffers] + self.sizes[part.buffers]
        tops[np.searchsorted(part.buffers, buffer)] = 0
        if tops[highest := int(tops.argmax())] > self.capacity:
            return self.first[int(part.buffers[highest])]
        return None

    def take_back(self, frame: Frame) -> None:
        """Undo the placement of a frame, if there is one."""
        if frame.undo is None:
            return
        buffer, before, low, high, floor = frame.undo
        first, last = self.first[buffer], self.last[buffer]
        self.floor[low:high] = floor
        self.lowest[self.overlaps[buffer]] = before
        self.lowest[buffer] = self.offsets[buffer]
        self.unplaced[first:last] += self.size[buffer]
        self.crossing[first + 1 : last] += 1
        frame.undo = None

    def remaining(self, part: Subproblem, buffer: int) -> Subproblem | None:
        """The subproblem after a placement; None: nothing remains."""
        buffers = part.buffers[part.buffers != buffer]
        if not len(buffers):
            return part.rest
        offset, parent = self.offsets[buffer], len(self.frames) - 1
        smaller = Subproblem(buffers, part.low, part.high, offset, parent, part.rest)
        first, last = self.first[buffer], self.last[buffer]
        if self.crossing[first + 1 : last].all():
            return smaller
        return self.split(smaller)

    def solution(self) -> list[int]:
        """The offsets in the order of the problem."""
        offsets = [0] * len(self.offsets)
        for buffer, offset in zip(self.order.tolist(), self.offsets, strict=True):
            offsets[buffer] = offset
        return offsets


def search(
    sizes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    capacity: int,
    steps: float = inf,
    seconds: float = inf,
) -> Result:
    """Pack buffers, live from starts[i] to ends[i] (both included), into `capacity` bytes, or prove
    that it is impossible; undecided after so many steps or seconds."""
    deadline = time.monotonic() + seconds
    real = [i for i, size in enumerate(sizes) if size > 0]
    offsets = [0] * len(sizes)
    if not real:
        return Result(Outcome.PACKED, offsets, 0)
    sections = Sections(
        [sizes[i] for i in real], [starts[i] for i in real], [ends[i] for i in real]
    )
    if sections.totals.max() > capacity:
        return Result(Outcome.IMPOSSIBLE, (), 0)

    def expired() -> bool:
        return time.monotonic() > deadline

    taken = 0
    for descent, turn in turns(sections, capacity):
        outcome, used = descent.run(int(min(turn, steps - taken)), expired)
        taken += used
        if outcome is Outcome.PACKED:
            for i, offset in zip(real, descent.solution(), strict=True):
                offsets[i] = offset
            return Result(outcome, offsets, taken)
        if outcome is Outcome.IMPOSSIBLE:
            return Result(outcome, (), taken)
        if taken >= steps or expired():
            break
    return Result(Outcome.UNDECIDED, (), taken)


def turns(sections: Sections, capacity: int) -> Iterator[tuple[Descent, int]]:
    """The descents by turns, without end, and the steps that each may take."""
    begun: list[Descent] = []
    turn = TURN * len(sections.sizes)
    for order in orders(sections):
        for ties in Ties:
            begun.append(Descent(sections, order, capacity, ties))
            yield begun[-1], turn
    while True:
        turn *= LONGER
        for descent in begun:
            yield descent, turn
