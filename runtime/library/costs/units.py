"""How long the cube core and the vector cores of a program take, if they wait for what they need
alone: each pipe runs its instructions in order, and an instruction begins when what it reads is
written, and the copy of a buffer that it writes has been read. What follows from that:

    a loop on one core      its first step, `STEPS` others and the last are followed, and all others
                            pass at the pace of these
    two that exchange       their instructions are followed one after the other, as many as
    tiles                   `MOST_FOLLOWED`, and all others pass at the pace of the later half, of
                            whole steps of the outermost loop where these are alike

What an instruction takes is in `cycles.py`. The simulation of a finished program
(`runtime/tiles/replay.py`) has its flags as well, and follows all steps on all cores.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import SSAValue

from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import AllocOp, FifoOp
from ge.dialects.tile.kernel import BarrierOp
from ge.dialects.tile.transfers import PopOp, PushOp
from ge.dialects.tile.types import Pipe
from ge.runtime.library.costs.cycles import Share, cycles_of
from ge.runtime.library.costs.nest import Leaf, Part, Walk, fifo_of, leaves

STEPS = 4  # of a loop that are followed
MOST_FOLLOWED = 400  # instructions of a unit that exchanges tiles with another one
FEW_STEPS = 2  # of its outermost loop say its pace


@dataclass(slots=True)
class Content:
    """What a buffer holds, or each copy of it in its turn."""

    copies: int
    ready: float = 0.0  # when it is written
    writer: Pipe | None = None
    reader: Pipe | None = None
    is_read: bool = False
    free: float = 0.0  # when what is read last has been read
    before: deque[float] = field(default_factory=deque[float])  # the same of the copies before


class Unit:
    """A cube core, or a vector core beside it: its pipes, and when they are done."""

    def __init__(self, walk: Walk, share: Share, target: Target, cycles: dict[Leaf, float]) -> None:
        """`cycles`: of instructions that somebody has asked for before."""
        self.walk, self.share, self.target, self.cycles = walk, share, target, cycles
        self.done: dict[Pipe, float] = {}
        self.contents: dict[SSAValue, Content] = {}
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
            if isinstance(leaf.op, PushOp | PopOp) and self.walk.program.parts == 1:
                cycles *= self.walk.parts  # one for each vector core beside
            self.cycles[leaf] = cycles
        return cycles

    def run(self, leaf: Leaf, begin: float = 0.0) -> float:
        """The end of an instruction that begins when its pipe, what it reads, and room for what it
        writes are there, and not before `begin`."""
        if (pipe := leaf.pipe) is None:
            self.meet(self.end + 2 * self.target.cross_flag_cycles)
            return self.end
        contents, flag = self.contents, self.target.flag_cycles
        if (free := self.done.get(pipe, 0.0)) > begin:
            begin = free
        for buffer in leaf.reads:
            if (content := contents.get(buffer)) is not None:
                ready = content.ready if content.writer is pipe else content.ready + flag
                if ready > begin:
                    begin = ready
        for buffer in leaf.overwrites:  # the next copy's turn
            if (content := contents.get(buffer)) is not None and content.is_read:
                content.before.append(content.free)
                content.is_read = False
                if len(content.before) >= content.copies:
                    begin = max(begin, content.before.popleft() + flag)
        cycles = self.cycles.get(leaf)
        end = begin + (self.taken(leaf) if cycles is None else cycles)
        for buffer in leaf.reads:
            content = contents.get(buffer) or self.content(buffer)
            content.free, content.reader, content.is_read = end, pipe, True
        for buffer in leaf.writes:
            content = contents.get(buffer) or self.content(buffer)
            content.ready, content.writer = end, pipe
        self.done[pipe], self.end = end, max(self.end, end)
        return end

    def content(self, buffer: SSAValue) -> Content:
        owner = buffer.owner
        copies = owner.copies if isinstance(owner, AllocOp) else 1
        content = self.contents[buffer] = Content(copies)
        return content

    def run_all(self, parts: Sequence[Part]) -> None:
        """Run instructions; of the steps of a loop some, then go on at their pace."""
        for part in parts:
            if isinstance(part, Leaf):
                self.run(part)
                continue
            self.run_all(part.first)
            for times, step in part.others:
                self.run_all(step)
                once = dict(self.done)
                for _ in range(min(times, STEPS) - 1):
                    self.run_all(step)
                if times > STEPS:
                    self.later(times - STEPS, once)

    def meet(self, end: float) -> None:
        """All pipes go on from here."""
        self.end, self.done = end, dict.fromkeys(Pipe, end)

    def later(self, steps: int, once: Mapping[Pipe, float]) -> None:
        """Let steps of a loop pass, at the pace of those since pipes were done `once`; pipes that
        have no part in them stay where they are."""
        moved = {pipe: end for pipe, end in self.done.items() if end > once.get(pipe, 0.0)}
        since = max([once.get(pipe, 0.0) for pipe in moved], default=0.0)
        cycles = steps * (max(moved.values(), default=0.0) - since) / (STEPS - 1)
        self.done.update({pipe: end + cycles for pipe, end in moved.items()})
        self.end = max(self.end, *self.done.values())
        for content in self.contents.values():
            if content.writer in moved:
                content.ready += cycles
            if content.reader in moved:
                content.free += cycles
                content.before = deque([end + cycles for end in content.before])


class Exchange:
    """Units that exchange tiles: their instructions are followed one after the other, as many as
    `MOST_FOLLOWED`, and all others go on at the pace of the later half of these: of whole steps of
    the first unit's outermost loop, where these are alike, as tiles may pass at their ends alone.
    """

    def __init__(self, units: Sequence[Unit], target: Target) -> None:
        self.units, self.cross = units, target.cross_flag_cycles
        self.pushed = defaultdict[SSAValue, list[float]](list)
        self.popped = defaultdict[SSAValue, list[float]](list)
        self.ends: list[float] = []  # of such steps

    def cycles(self) -> float:
        queues = [unit.walk.in_order() for unit in self.units]
        heads = [next(queue, None) for queue in queues]
        counts, halves, half_end = [0] * len(queues), [0] * len(queues), 0.0
        most, waits = MOST_FOLLOWED * len(queues), 0
        before, step = self.units[0].walk.step
        while any(heads) and sum(counts) < most and waits < len(queues):
            waits = 0
            if all(head is not None and head.pipe is None for head in heads):
                together = max(unit.end for unit in self.units) + 2 * self.cross
                for unit in self.units:
                    unit.meet(together)
                heads = [next(queue, None) for queue in queues]
            for i, unit in enumerate(self.units):
                ran = 0
                while (leaf := heads[i]) is not None and self.runs(unit, leaf):
                    heads[i], ran = next(queues[i], None), ran + 1
                    if step and not i and (n := counts[i] + ran - before) > 0 and not n % step:
                        self.ends.append(unit.end)
                    if ran >= most // 8:
                        break
                counts[i] += ran
                waits += not ran
            if not any(halves) and 2 * sum(counts) >= most:
                halves, half_end = list(counts), max(unit.end for unit in self.units)
        end = max(unit.end for unit in self.units)
        if not any(heads):
            return end
        if len(ends := self.ends) >= FEW_STEPS:
            half = max(len(ends) // 2 - 1, 0)
            pace = (ends[-1] - ends[half]) / (len(ends) - 1 - half)
            behind = max(unit.end for unit in self.units[1:]) - ends[-1]
            left = (self.units[0].walk.instructions - before) // step - len(ends)
            return max(end, ends[-1] + left * pace + max(behind, 0.0))
        left = [
            (unit.walk.instructions - n) / (n - h)
            for unit, n, h in zip(self.units, counts, halves, strict=True)
            if n > h
        ]
        return end + max(left, default=0.0) * (end - half_end)

    def runs(self, unit: Unit, leaf: Leaf) -> bool:
        """Run an instruction, unless it waits for the other unit."""
        if leaf.pipe is None:
            return len(self.units) == 1
        if not isinstance(leaf.op, PushOp | PopOp):
            unit.run(leaf)
            return True
        fifo = fifo_of(leaf.op)
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
