"""The loop nest of a tile program, walked once on one core: which instructions it runs, on boxes of
which sizes, and how often.

    scf.for %i (n steps)        those steps in a row that take the same branches are a run; of a run
      tile.load                 three are looked at: the first, one in the middle and the last, so
      tile.map                  that what is cut off at a memref's end counts
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import NamedTuple, TypeAlias

from xdsl.dialects.arith import SubiOp
from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.tile.buffers import (
    SlotOp,
    ViewOp,
    box_of,
    buffer_of,
    memref_shape,
    slot_of,
    within,
)
from ge.dialects.tile.compute import FlagOp, MmadOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import BarrierOp, KernelOp, ProgramOp
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BoxType, Pipe, TileType, fifo_type
from ge.runtime.library.costs.reuse import CoreNumbers


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An instruction with a box of these sizes, as far as it lies in the memref."""

    op: Instruction | BarrierOp
    sizes: tuple[int, ...]
    pipe: Pipe | None  # None: all come to a barrier
    writes: Sequence[SSAValue]  # buffers
    reads: Sequence[SSAValue]
    overwrites: Sequence[SSAValue]  # that it does not read
    late: Sequence[SSAValue]  # that it reads when the next copy is written already
    memref: SSAValue | None  # that it loads from or stores to
    bytes: int


@dataclass(frozen=True, slots=True)
class Loop:
    """The first step of a loop, and others: how often, and one of them."""

    first: "Sequence[Part]"
    others: "Sequence[tuple[int, Sequence[Part]]]"


Part: TypeAlias = Leaf | Loop


Timed: TypeAlias = ForOp | IfOp | Instruction | BarrierOp


class MovedBox(NamedTuple):
    """What an instruction moves: the sizes of its whole box, and the greatest offsets with which
    that lies in the memref."""

    sizes: tuple[int, ...]
    view: ViewOp | None = None
    offsets: Sequence[SSAValue] = ()
    last: Sequence[int] = ()


class Seen:
    """What all cores have in common: ops of blocks that take time, boxes, and instructions."""

    def __init__(self) -> None:
        self.ops: dict[Block, Sequence[Timed]] = {}
        self.branches: dict[IfOp, Sequence[Block | None]] = {}
        self.boxes: dict[Instruction, MovedBox] = {}
        self.leaves: dict[tuple[Operation, tuple[int, ...]], Leaf] = {}

    def ops_of(self, block: Block) -> Sequence[Timed]:
        if (ops := self.ops.get(block)) is None:
            timed = [op for op in ops_of(block) if isinstance(op, Timed)]
            ops = self.ops[block] = [op for op in timed if not isinstance(op, FlagOp)]
            for op in ops:
                if isinstance(op, IfOp):
                    self.branches[op] = [r.blocks[0] if r.blocks else None for r in op.regions]
        return ops

    def taken(self, op: IfOp, at: CoreNumbers) -> Sequence[Timed]:
        """The ops of the branch that is taken."""
        block = self.branches[op][0 if at.number(operands_of(op)[0]) else 1]
        return () if block is None else self.ops_of(block)


class Walk:
    """One program of a kernel, on one core."""

    def __init__(self, op: KernelOp, program: ProgramOp, core: int, seen: Seen) -> None:
        self.program, self.seen = program, seen
        self.parts = op.parts
        start = CoreNumbers(core, op.core_count, 0, largest=True)
        ops = seen.ops_of(program.body.block)
        self.nest = self.parts_of(ops, start)
        self.loaded, self.stored = Counter[SSAValue](), Counter[SSAValue]()
        self.count(self.nest, 1)

    @property
    def phases(self) -> list[list[Part]]:
        """What it does between barriers."""
        found = [list[Part]()]
        for part in self.nest:
            if isinstance(part, Leaf) and part.pipe is None:
                found.append([])
            else:
                found[-1].append(part)
        return found

    def parts_of(self, ops: Sequence[Timed], at: CoreNumbers) -> list[Part]:
        parts: list[Part] = []
        for op in ops:
            if isinstance(op, ForOp):
                parts += self.loop(op, at)
            elif isinstance(op, IfOp):
                parts += self.parts_of(self.seen.taken(op, at), at)
            else:
                parts.append(self.leaf(op, at))
        return parts

    def loop(self, op: ForOp, at: CoreNumbers) -> list[Part]:
        """Its steps in runs of those that take the same branches, and are as long."""
        variable, ops, steps = op.body.block.args[0], self.seen.ops_of(op.body.block), at.steps(op)
        inner = [o for o in ops if isinstance(o, IfOp | ForOp)]

        @cache
        def inside(n: int) -> CoreNumbers:
            return at.where(variable, steps[n])

        @cache
        def way(n: int) -> Sequence[int]:
            numbers = inside(n)
            return [
                numbers.number(operands_of(o)[0]) if isinstance(o, IfOp) else len(numbers.steps(o))
                for o in inner
            ]

        def runs(first: int, last: int) -> Iterator[tuple[int, int]]:
            if way(first) == way(last):
                yield first, last
            else:
                middle = (first + last) // 2
                yield from runs(first, middle)
                yield from runs(middle + 1, last)

        parts: list[Part] = []
        for first, last in runs(0, len(steps) - 1) if steps else ():
            begin = self.parts_of(ops, inside(first))
            others = [(last - first - 1, (first + last) // 2), (1, last)] if last > first else []
            looked = [(times, self.parts_of(ops, inside(n))) for times, n in others if times]
            parts += [Loop(begin, looked)] if looked else begin
        return parts

    def leaf(self, op: Instruction | BarrierOp, at: CoreNumbers) -> Leaf:
        known = self.seen.leaves
        if isinstance(op, BarrierOp):
            return known.setdefault((op, ()), Leaf(op, (), None, (), (), (), (), None, 0))
        sizes = self.sizes(op, at)
        if (leaf := known.get((op, sizes))) is None:
            memref, size = None, 0
            if isinstance(op, LoadOp | StoreOp):
                memref = box_of(op.source if isinstance(op, LoadOp) else op.target).source
                size = storage_bytes(prod(sizes), data_type(memref.type)[0])
            writes, reads = buffers_of(op.writes()), buffers_of(op.reads())
            if isinstance(op, MmadOp):  # sums that begin anew need those before no more
                reads = buffers_of((op.lhs, op.rhs))
            over = [buffer for buffer in writes if buffer not in reads]
            late = buffers_of([value for value in op.reads() if is_late(value)])
            leaf = Leaf(op, sizes, op.pipe(), writes, reads, over, late, memref, size)
            known[op, sizes] = leaf
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

    def sizes(self, op: Instruction, at: CoreNumbers) -> tuple[int, ...]:
        """Of its box, as far as it lies in the memref, or of what a fifo takes."""
        if (box := self.seen.boxes.get(op)) is None:
            box = self.seen.boxes[op] = self.box(op)
        if (view := box.view) is None or all([
            0 <= at.number(offset) <= last for offset, last in zip(box.offsets, box.last)
        ]):  # fmt: skip
            return box.sizes
        found = within(view, [at.number(offset) for offset in box.offsets])
        return tuple([max(high - low, 0) for low, high in found])

    def box(self, op: Instruction) -> MovedBox:
        if isinstance(op, PushOp | PopOp):
            rows, cols = fifo_type(fifo_of(op)).shape
            return MovedBox((rows // self.parts, cols))
        for value in op.operands:
            if isinstance(value.type, BoxType) and isinstance(view := value.owner, ViewOp):
                spans = zip(memref_shape(view.source), view.box_sizes, view.box_steps, strict=True)
                last = [extent - (size - 1) * step - 1 for extent, size, step in spans]
                return MovedBox(view.box_sizes, view, view.offsets, last)
        return MovedBox(())


def fifo_of(op: PushOp | PopOp) -> SSAValue:
    return op.target if isinstance(op, PushOp) else op.source


def buffers_of(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [buffer_of(value) for value in values if isinstance(value.type, TileType)]


def in_order(parts: Sequence[Part]) -> Iterator[Leaf]:
    """The instructions, one after the other."""
    for part in parts:
        if isinstance(part, Leaf):
            yield part
            continue
        yield from in_order(part.first)
        for count, step in part.others:
            for _ in range(count):
                yield from in_order(step)


def steps_of(parts: Sequence[Part]) -> tuple[int, int]:
    """How many instructions come before the loop, and in each step of that; 0, 0 where there is
    not one loop alone, or one of steps of several lengths."""
    loops = [part for part in parts if isinstance(part, Loop)]
    if len(loops) != 1:
        return 0, 0
    steps = loops[0].first, *(step for _, step in loops[0].others)
    (length, *others) = {sum(count for _, count in leaves(step)) for step in steps}
    return (0, 0) if others else (parts.index(loops[0]), length)


def is_late(value: SSAValue) -> bool:
    """Whether it is the slot before one that is written, where this one is read."""
    slot = slot_of(value)
    if slot is None or not isinstance(before := slot.index.owner, SubiOp):
        return False
    others = (use.operation for use in buffer_of(value).uses)
    return any(isinstance(o, SlotOp) and o.index is before.lhs for o in others)


def leaves(parts: Sequence[Part], times: int = 1) -> Iterator[tuple[Leaf, int]]:
    """The instructions, and how often each is run."""
    for part in parts:
        if isinstance(part, Leaf):
            yield part, times
            continue
        yield from leaves(part.first, times)
        for count, step in part.others:
            yield from leaves(step, times * count)
