"""How long a tile program takes, summed over its loop nest: the estimate that compilers ask for.

A program is walked once, on core 0, and no step of a loop is simulated:

    scf.for %i (n steps)        the first step, instruction after instruction, and n - 1 times the
      tile.load  a us           pace: its busiest pipe, or what is written to a buffer by one pipe
      tile.map   b us           and read by another one, over the copies of the buffer

A step is looked at three times: the first, one in the middle and the last; so branches count, and
what is cut off at a memref's end. A nest of loops goes on at the pace of those within. Cube and
vector cores that exchange tiles work at the pace of the slower. Where tiles go there and back, it
is that of the way through both, over how many are on it at a time (`ahead`): tiles that one pushes
before it waits for the first to come back.

What an instruction takes is in `cycles.py`, who gets which bandwidth in `traffic.py`: so do the
simulations of programs (`runtime/tiles`), which know besides when each pipe waits for which.
`test/bench/estimates.py` sets one against the other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import TypeAlias

from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import AllocOp, ViewOp, box_of, buffer_of, within
from ge.dialects.tile.compute import FlagOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import KernelOp, ProgramOp
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BoxType, Pipe, TileType, fifo_type
from ge.runtime.library.costs.cycles import Share, cycles_of
from ge.runtime.library.costs.reuse import Numbers
from ge.runtime.library.costs.traffic import Held, KernelTraffic

MOST_TURNS = 8  # that are followed for what is loaded again
MOST_AHEAD = 1024  # instructions that are looked at for the first tile that comes back

Cycles: TypeAlias = "defaultdict[Pipe, float]"


@dataclass(frozen=True)
class Estimate:
    """Microseconds of a launch, with its operands where they were said to be."""

    core_us: float  # of the busiest core, or pair of a cube core and vector cores
    hbm_us: float  # what the bytes of the operands take at least
    pipes: Mapping[str, float]  # how long each pipe of a unit is busy


# ---- the nest ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An instruction with a box of these sizes, as far as it lies in the memref."""

    op: Instruction
    sizes: tuple[int, ...]
    pipe: Pipe
    writes: Sequence[SSAValue]  # buffers
    reads: Sequence[SSAValue]
    memref: SSAValue | None  # that it loads from or stores to
    bytes: int


@dataclass(frozen=True, slots=True)
class Loop:
    """The first step of a loop, and others: how often, and one of them."""

    first: "Sequence[Part]"
    others: "Sequence[tuple[int, Sequence[Part]]]"


Part: TypeAlias = Leaf | Loop


class Walk:
    """One program of a kernel, on core 0."""

    def __init__(self, op: KernelOp, program: ProgramOp) -> None:
        self.program = program
        self.parts = max(p.parts for p in op.programs)
        self.known: dict[tuple[Operation, tuple[int, ...]], Leaf] = {}
        self.start = Numbers(0, op.core_count, 0, largest=True)
        self.nest = self.block(program.body.block, self.start)
        self.loaded, self.stored = Counter[SSAValue](), Counter[SSAValue]()
        self.passed = 0  # tiles to or from the other program
        self.count(self.nest, 1)

    def block(self, block: Block, at: Numbers) -> list[Part]:
        parts: list[Part] = []
        for op in block.ops:
            match op:
                case ForOp():
                    parts += self.loop(op, at)
                case IfOp():
                    region = op.true_region if at.number(op.cond) else op.false_region
                    if region.blocks:
                        parts += self.block(region.block, at)
                case FlagOp():
                    pass
                case Instruction():
                    parts.append(self.leaf(op, at))
                case _:
                    pass
        return parts

    def loop(self, op: ForOp, at: Numbers) -> list[Part]:
        variable, body, steps = op.body.block.args[0], op.body.block, at.steps(op)
        found = {n: times for n, times in ((0, 1), (-1, 1), (len(steps) // 2, len(steps) - 2))}
        looked = [
            (times, self.block(body, at.where({variable: steps[n]})))
            for n, times in list(found.items())[: len(steps)]
            if times
        ]
        if len(looked) < 2:
            return looked[0][1] if looked else []
        return [Loop(looked[0][1], looked[1:])]

    def leaf(self, op: Instruction, at: Numbers) -> Leaf:
        sizes = self.sizes(op, at)
        if (leaf := self.known.get((op, sizes))) is None:
            memref, size = None, 0
            if isinstance(op, LoadOp | StoreOp):
                memref = box_of(op.source if isinstance(op, LoadOp) else op.target).source
                size = storage_bytes(prod(sizes), data_type(memref.type)[0])
            writes, reads = buffers_of(op.writes()), buffers_of(op.reads())
            leaf = Leaf(op, sizes, op.pipe(), writes, reads, memref, size)
            self.known[op, sizes] = leaf
        return leaf

    def count(self, parts: Sequence[Part], times: int) -> None:
        """What crosses the edge of the program."""
        for part in parts:
            if isinstance(part, Loop):
                self.count(part.first, times)
                for count, step in part.others:
                    self.count(step, times * count)
            elif part.memref is not None:
                moved = self.loaded if isinstance(part.op, LoadOp) else self.stored
                moved[part.memref] += times * part.bytes
            elif isinstance(part.op, PushOp | PopOp):
                self.passed += times

    def sizes(self, op: Instruction, at: Numbers) -> tuple[int, ...]:
        """Of its box, as far as it lies in the memref, or of what a fifo takes."""
        if isinstance(op, PushOp | PopOp):
            rows, cols = fifo_type(op.target if isinstance(op, PushOp) else op.source).shape
            return rows // self.parts, cols
        for value in op.operands:
            if isinstance(value.type, BoxType) and isinstance(view := value.owner, ViewOp):
                offsets = [at.number(o) for o in view.offsets]
                return tuple([max(high - low, 0) for low, high in within(view, offsets)])
        return ()

    def ahead(self) -> int:
        """Tiles that the program pushes before it waits for the first to come back."""
        pushed = 0
        for op in islice(self.in_order(self.program.body.block, self.start), MOST_AHEAD):
            if isinstance(op, PopOp):
                break
            pushed += isinstance(op, PushOp)
        return pushed

    def in_order(self, block: Block, at: Numbers) -> Iterable[Instruction]:
        """The instructions that it runs, one after the other."""
        for op in block.ops:
            if isinstance(op, Instruction):
                yield op
            elif isinstance(op, ForOp):
                for step in at.steps(op):
                    inner = at.where({op.body.block.args[0]: step})
                    yield from self.in_order(op.body.block, inner)
            elif isinstance(op, IfOp):
                region = op.true_region if at.number(op.cond) else op.false_region
                if region.blocks:
                    yield from self.in_order(region.block, at)


def buffers_of(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [buffer_of(value) for value in values if isinstance(value.type, TileType)]


# ---- its time ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Work:
    """What a part of a program asks for, in cycles."""

    latency: float = 0.0  # from its first instruction to its last
    nested: float = 0.0  # at the pace of the loops within it
    busy: Cycles = field(default_factory=lambda: defaultdict[Pipe, float](float))
    # Of the instructions of each pipe that write a buffer, and that read it
    writes: dict[SSAValue, Cycles] = field(default_factory=dict[SSAValue, Cycles])
    reads: dict[SSAValue, Cycles] = field(default_factory=dict[SSAValue, Cycles])

    def add(self, other: "Work", times: int = 1) -> None:
        """What another part asks for, so many times; how long both take is said elsewhere."""
        for pipe, cycles in other.busy.items():
            self.busy[pipe] += cycles * times
        for mine, its in ((self.writes, other.writes), (self.reads, other.reads)):
            for buffer, pipes in its.items():
                own = mine.setdefault(buffer, defaultdict[Pipe, float](float))
                for pipe, cycles in pipes.items():
                    own[pipe] += cycles * times


@dataclass(frozen=True)
class Timing:
    """The time of one program, with a share of the bandwidth."""

    walk: Walk
    share: Share
    target: Target
    known: dict[Leaf, float] = field(default_factory=dict[Leaf, float])

    def work(self, parts: Sequence[Part]) -> Work:
        work = Work()
        for part in parts:
            if isinstance(part, Leaf):
                self.instruction(part, work)
                continue
            first = self.work(part.first)
            work.add(first)
            work.latency, pace = work.latency + first.latency, self.pace(first)
            work.nested += pace
            for times, step in part.others:
                other = self.work(step)
                pace = times * self.pace(other)
                work.latency, work.nested = work.latency + pace, work.nested + pace
                work.add(other, times)
        return work

    def instruction(self, leaf: Leaf, work: Work) -> None:
        if (cycles := self.known.get(leaf)) is None:
            cycles = cycles_of(leaf.op, leaf.sizes, self.share, self.target)
            if isinstance(leaf.op, PushOp | PopOp) and self.walk.program.parts == 1:
                cycles *= self.walk.parts  # one for each vector core beside
            self.known[leaf] = cycles
        work.busy[leaf.pipe] += cycles
        work.latency += cycles + self.target.flag_cycles / 2  # half of them wait for another pipe
        for buffers, touched in ((leaf.writes, work.writes), (leaf.reads, work.reads)):
            for buffer in buffers:
                if buffer not in touched:
                    touched[buffer] = defaultdict[Pipe, float](float)
                touched[buffer][leaf.pipe] += cycles

    def pace(self, work: Work) -> float:
        """Cycles until a step of a loop can begin again."""
        found = max(max(work.busy.values(), default=0.0), work.nested)
        for buffer, writers in work.writes.items():
            if (readers := work.reads.get(buffer)) is None:
                continue
            others = sum(cycles for pipe, cycles in readers.items() if pipe not in writers)
            if others:
                turn = sum(writers.values()) + others + 2 * self.target.flag_cycles
                owner = buffer.owner
                found = max(found, turn / (owner.copies if isinstance(owner, AllocOp) else 1))
        return found


class LoopNests:
    """The programs of a kernel, walked once."""

    def __init__(self, op: KernelOp, target: Target) -> None:
        self.target = target
        self.walks = [Walk(op, program) for program in op.programs]
        cores, loaded, stored = op.core_count, list[Counter[SSAValue]](), Counter[SSAValue]()
        for walk in self.walks:  # as if all cores moved what core 0 does
            for _ in range(walk.program.parts):
                loaded.append(Counter({m: n * cores for m, n in walk.loaded.items()}))
                stored.update({m: n * cores for m, n in walk.stored.items()})
        self.traffic = KernelTraffic(op, target, loaded, stored, MOST_TURNS)

    def estimate(self, held: Held = ()) -> Estimate:
        """With the parts `held` of its operands in L2. Raises GeError where the target lacks what
        it takes."""
        shares, works, first = self.traffic.shares(held), list[Work](), 0
        for walk in self.walks:
            works.append(Timing(walk, shares[first], self.target).work(walk.nest))
            first += walk.program.parts
        per_us, pipes = self.target.cycles_per_us, dict[str, float]()
        for walk, work in zip(self.walks, works, strict=True):
            name = walk.program.name.removeprefix("tile.")
            pipes |= {f"{name} {pipe}": cycles / per_us for pipe, cycles in work.busy.items()}
        core_us = self.together([work.latency for work in works]) / per_us
        return Estimate(core_us, self.traffic.hbm(held)[1], pipes)

    def together(self, latencies: Sequence[float]) -> float:
        """Cycles of the programs of a core that run side by side."""
        longest, whole, cross = max(latencies), sum(latencies), self.target.cross_flag_cycles
        if len(latencies) == 1:
            return longest
        passed = max(min(walk.passed for walk in self.walks), 1)
        if all(any(isinstance(op, PopOp) for op in w.program.walk()) for w in self.walks):
            way = whole + passed * cross
            return max(longest, way / max(1, *(walk.ahead() for walk in self.walks)))
        return longest + (whole - longest) / passed + cross
