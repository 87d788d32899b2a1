"""Times of the cube core and the vector cores of a program, if they wait only for data that they
need: each pipe runs its instructions in order, and an instruction begins when all that it reads is
written, and read by other pipes that came before, and the copy of a buffer that it writes has been
read. It follows:

    a loop on one core      its first step, `STEPS` others and the last are followed, and all others
                            pass at the pace of these
    two units               what they do between loops of both where they have passed the same
                            tiles. Where tiles pass in one direction, each is followed alone
    two that exchange       their instructions are followed one after the other, as many as
    tiles                   `MOST_FOLLOWED`, and all others pass at the pace of the later half, of
                            whole steps of the outermost loop where these are alike

Times of instructions are in `cycles.py`. The simulation of a finished program
(`runtime/cores/replay.py`) has its flags as well, and follows all steps on all cores.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, cast

from xdsl.ir import SSAValue

from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import AllocOp, FifoOp
from ge.dialects.tile.kernel import BarrierOp
from ge.dialects.tile.transfers import PopOp, PushOp
from ge.dialects.tile.types import Pipe
from ge.runtime.library.costs.cycles import Share, cycles_of
from ge.runtime.library.costs.nest import (
    Leaf,
    Loop,
    Part,
    Walk,
    in_order,
    leaves,
    steps_of,
)

STEPS = 4  # of a loop that are followed
MOST_FOLLOWED = 400  # instructions of a unit that exchanges tiles with another one
FEW_STEPS = 2  # of its outermost loop say its pace
MOST_KINDS = 4  # of cores that are followed: those whose pipes have most to do


@dataclass(slots=True)
class Content:
    """Contents of a buffer, or of each copy of it in its turn."""

    copies: int
    is_used: bool = False  # by an instruction that has run
    ready: float = 0.0  # when it is written
    writer: Pipe | None = None
    reader: Pipe | None = None
    is_read: bool = False
    free: float = 0.0  # when the last read has ended
    before: deque[float] = field(default_factory=deque[float])  # the same of the copies before
    is_late: bool = False  # whether copies are read when the next ones are written
    ready_before: float = 0.0  # when the copy before was written


class Step(NamedTuple):
    """What an instruction does in a unit: see `Leaf`."""

    pipe: Pipe
    cycles: float
    reads: Sequence[tuple[Content, bool]]  # and whether it reads the copy before
    overwrites: Sequence[Content]
    writes: Sequence[Content]


class CoreUnit:
    """A cube core, or a vector core beside it: its pipes, and when they are done."""

    def __init__(self, walk: Walk, share: Share, target: Target, cycles: dict[Leaf, float]) -> None:
        """`cycles`: those of instructions that were asked for before."""
        self.walk, self.share, self.target, self.cycles = walk, share, target, cycles
        self.done: dict[Pipe, float] = {}
        self.contents: dict[SSAValue, Content] = {}
        self.steps: dict[Leaf, Step] = {}
        self.flag = target.flag_cycles
        self.end = 0.0

    def busy(self) -> dict[Pipe, float]:
        """Cycles of each pipe, of all instructions."""
        found = dict[Pipe, float]()
        for leaf, count in leaves(self.walk.nest):
            if leaf.pipe is not None:
                found[leaf.pipe] = found.get(leaf.pipe, 0.0) + count * self.taken(leaf)
        return found

    def taken(self, leaf: Leaf) -> float:
        if isinstance(leaf.op, BarrierOp):
            return 0.0
        if (cycles := self.cycles.get(leaf)) is None:
            cycles = cycles_of(leaf.op, leaf.sizes, self.share, self.target)
            if leaf.fifo is not None and self.walk.program.parts == 1:
                cycles *= self.walk.parts  # one for each vector core beside
            self.cycles[leaf] = cycles
        return cycles

    def run(self, leaf: Leaf, begin: float = 0.0) -> float:
        """The end of an instruction that begins when its pipe, its operands, and room for its
        results are there, and not before `begin`."""
        step = self.steps.get(leaf)
        if step is None:
            if leaf.pipe is None:
                self.meet(self.end + 2 * self.target.cross_flag_cycles)
                return self.end
            step = self.steps[leaf] = self.step(leaf, leaf.pipe)
        pipe, cycles, reads, overwrites, writes = step
        if (free := self.done.get(pipe, 0.0)) > begin:
            begin = free
        for content, is_late in reads:
            if content.is_used:
                ready = content.ready_before if is_late and content.is_late else content.ready
                if content.writer is not pipe:
                    ready += self.flag
                if content.is_read and content.reader is not pipe and not is_late:
                    ready = max(ready, content.free + self.flag)  # flags order readers, too
                if ready > begin:
                    begin = ready
        for content in overwrites:  # the next copy's turn
            if content.is_read:
                content.before.append(content.free)
                content.is_read, content.ready_before = False, content.ready
                if len(content.before) >= content.copies - content.is_late:
                    begin = max(begin, content.before.popleft() + self.flag)
        end = begin + cycles
        for content, is_late in reads:
            if not content.is_read or end > content.free:  # a pipe may read before another one
                content.free, content.reader = end, pipe
            content.is_read = content.is_used = True
            content.is_late |= is_late
        for content in writes:
            content.ready, content.writer, content.is_used = end, pipe, True
        self.done[pipe] = end
        if end > self.end:
            self.end = end
        return end

    def step(self, leaf: Leaf, pipe: Pipe) -> Step:
        reads = [(self.content(buffer), buffer in leaf.late) for buffer in leaf.reads]
        others = [[self.content(b) for b in buffers] for buffers in (leaf.overwrites, leaf.writes)]
        return Step(pipe, self.taken(leaf), reads, *others)

    def content(self, buffer: SSAValue) -> Content:
        if (content := self.contents.get(buffer)) is None:
            owner = buffer.owner
            copies = owner.copies if isinstance(owner, AllocOp) else 1
            content = self.contents[buffer] = Content(copies)
        return content

    def run_all(self, parts: Sequence[Part]) -> None:
        """Run instructions; of the steps of a loop some, then go on at their pace."""
        for part in parts:
            if type(part) is Leaf:
                self.run(part)
                continue
            assert type(part) is Loop
            self.run_all(part.first)
            for times, step in part.others:
                self.run_all(step)
                once = dict(self.done)
                for _ in range(min(times, STEPS) - 1):
                    self.run_all(step)
                if times > STEPS:
                    self.later(times - STEPS, once)

    def meet(self, end: float) -> None:
        """Let all pipes go on from here."""
        self.end, self.done = end, dict.fromkeys(Pipe, end)

    def later(self, steps: int, once: Mapping[Pipe, float]) -> None:
        """Let steps of a loop pass, at the pace of those since pipes were done `once`; pipes that
        have no part in them stay where they are."""
        moved = {pipe: end for pipe, end in self.done.items() if end > once.get(pipe, 0.0)}
        since = max([once.get(pipe, 0.0) for pipe in moved], default=0.0)
        cycles = steps * (max(moved.values(), default=0.0) - since) / (STEPS - 1)
        self.done.update({pipe: end + cycles for pipe, end in moved.items()})
        self.end = max([self.end, *self.done.values()])
        for content in self.contents.values():
            if content.writer in moved:
                content.ready += cycles
                content.ready_before += cycles
            if content.reader in moved:
                content.free += cycles
                content.before = deque([end + cycles for end in content.before])


def cycles(units: Sequence[CoreUnit], target: Target) -> float:
    """Cycles of a core, or of a cube core and the vector cores beside it. All wait for each other
    at barriers."""
    for number, phase in enumerate(phases_of(tuple([unit.walk for unit in units]))):
        if number:
            together = max(unit.end for unit in units) + 2 * target.cross_flag_cycles
            for unit in units:
                unit.meet(together)
        for segment, pushed in phase:
            if all(pushed):
                Exchange(units, target).follow(segment)
                continue
            begins = [unit.end for unit in units]
            for unit, parts in zip(units, segment, strict=True):
                unit.run_all(parts)
            if any(pushed):
                pass_on(units, begins, pushed, target)
    return max(unit.end for unit in units)


@lru_cache(2 * MOST_KINDS)
def phases_of(
    walks: tuple[Walk, ...],
) -> list[list[tuple[Sequence[Sequence[Part]], Sequence[int]]]]:
    """Segments of the work of units between barriers, with the number of tiles that each of them
    pushes: the same wherever operands are."""
    if len(walks) == 1:  # there is nobody to pass tiles to
        return [[([parts], (0,))] for parts in walks[0].phases]
    phases = [segments(phase) for phase in zip(*[walk.phases for walk in walks], strict=True)]
    return [[(segment, [*map(tiles_pushed, segment)]) for segment in phase] for phase in phases]


def tiles_pushed(parts: Sequence[Part]) -> int:
    return sum([count for leaf, count in leaves(parts) if isinstance(leaf.op, PushOp)])


def pass_on(
    units: Sequence[CoreUnit], begins: Sequence[float], pushed: Sequence[int], target: Target
) -> None:
    """Times of units where tiles pass in one direction only: the popping unit begins with the first
    tile, and ends after the last one."""
    tiles = max(pushed)
    source, begin = next((u, b) for u, b, n in zip(units, begins, pushed, strict=True) if n)
    for unit, own_begin in zip(units, begins, strict=True):
        if unit is not source:
            first, last = (source.end - begin) / tiles, (unit.end - own_begin) / tiles
            unit.meet(max(unit.end + first, source.end + last) + target.cross_flag_cycles)


def segments(phase: Sequence[Sequence[Part]]) -> list[Sequence[Sequence[Part]]]:
    """Work of units, cut behind loops of all of them where they have passed the same tiles."""
    found, last = list[dict[Hashable, int]](), [len(parts) for parts in phase]
    for parts in phase:
        passed, places = Counter[SSAValue](), dict[Hashable, int]()
        for n, part in enumerate(parts, 1):
            for leaf, count in leaves([part]):
                if leaf.fifo is not None:
                    passed[leaf.fifo] += count
            if isinstance(part, Loop) and passed:
                places[frozenset(passed.items())] = n
        found.append(places)
    ends = [[places[key] for places in found] for key in found[0] if all(key in p for p in found)]
    begins = [[0] * len(phase), *ends[:-1]]
    return [
        [parts[a:b] for parts, a, b in zip(phase, begin, end, strict=True)]
        for begin, end in zip(begins, [*ends[:-1], last], strict=True)
    ]


class Exchange:
    """Units that exchange tiles in both directions: their instructions are followed one after the
    other, as many as `MOST_FOLLOWED`, and all others go on at the pace of the later half of these:
    of whole steps of the first unit's outermost loop, where these are alike, as tiles may pass at
    their ends alone."""

    def __init__(self, units: Sequence[CoreUnit], target: Target) -> None:
        self.units, self.cross = units, target.cross_flag_cycles
        self.pushed = defaultdict[SSAValue, list[float]](list)
        self.popped = defaultdict[SSAValue, list[float]](list)

    def follow(self, segment: Sequence[Sequence[Part]]) -> None:
        queues = [in_order(parts) for parts in segment]
        heads = [next(queue, None) for queue in queues]
        counts, half, ends = [0] * len(queues), list[tuple[int, float]](), list[float]()
        most, waits = MOST_FOLLOWED * len(queues), 0
        before, step = steps_of(segment[0])
        while any(heads) and sum(counts) < most and waits < len(queues):
            waits = 0
            for i, unit in enumerate(self.units):
                ran = 0
                while (leaf := heads[i]) is not None and self.runs(unit, leaf):
                    heads[i], ran = next(queues[i], None), ran + 1
                    if step and not i and (n := counts[i] + ran - before) > 0 and not n % step:
                        ends.append(unit.end)
                    if ran >= most // 8:
                        break
                counts[i] += ran
                waits += not ran
            if not half and 2 * sum(counts) >= most:
                half = [(n, unit.end) for n, unit in zip(counts, self.units, strict=True)]
        if any(heads):
            self.pass_by(segment, counts, half, ends)

    def pass_by(
        self,
        segment: Sequence[Sequence[Part]],
        counts: Sequence[int],
        half: Sequence[tuple[int, float]],
        ends: Sequence[float],
    ) -> None:
        """Go on to the end of a segment, of which each unit ran so many instructions: at the pace
        of steps of the first one, which had these ends, or each at its own since the `half`."""
        whole = [sum(count for _, count in leaves(parts)) for parts in segment]
        found = [unit.end for unit in self.units]
        if len(ends) >= FEW_STEPS:
            first = max(len(ends) // 2 - 1, 0)
            pace = (ends[-1] - ends[first]) / (len(ends) - 1 - first)
            before, step = steps_of(segment[0])
            more = ((whole[0] - before) // step - len(ends)) * pace
            found = [ends[-1] + more, *[max(end, ends[-1]) + more for end in found[1:]]]
        else:
            for i, (n, end) in enumerate(half):
                if counts[i] > n:
                    found[i] += (whole[i] - counts[i]) * (found[i] - end) / (counts[i] - n)
        for unit, end in zip(self.units, found, strict=True):
            unit.meet(max(unit.end, end))

    def runs(self, unit: CoreUnit, leaf: Leaf) -> bool:
        """Run an instruction, unless it waits for the other unit."""
        if (fifo := leaf.fifo) is None:
            unit.run(leaf)
            return True
        depth = cast(FifoOp, fifo.owner).depth.value.data
        pushed, popped, begin = self.pushed[fifo], self.popped[fifo], 0.0
        if isinstance(leaf.op, PopOp):
            if len(popped) == len(pushed):
                return False
            popped.append(unit.run(leaf, pushed[len(popped)] + self.cross))
            return True
        if len(pushed) >= depth:
            if len(popped) <= len(pushed) - depth:
                return False
            begin = popped[len(pushed) - depth] + self.cross
        pushed.append(unit.run(leaf, begin))
        return True
