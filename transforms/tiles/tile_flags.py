"""Instructions of a core's pipes get flags wherever two pipes touch the same memory.

    scf.for %k = %c0 to %c8 step %c1 {
      %s = tile.slot %ring[%k] : !tile.ring<2 x 128x64xf16, l1>
      tile.load %box to %s
      tile.move %s to %a
    }
becomes
    tile.set mte1 -> mte2[%c0]
    tile.set mte1 -> mte2[%c1]
    scf.for %k = %c0 to %c8 step %c1 {
      %id = arith.remsi %k, %c2 : index
      %s = tile.slot %ring[%k] : !tile.ring<2 x 128x64xf16, l1>
      tile.wait mte1 -> mte2[%id]
      tile.load %box to %s
      tile.set mte2 -> mte1[%id]
      tile.wait mte2 -> mte1[%id]
      tile.move %s to %a
      tile.set mte1 -> mte2[%id]
    }
    tile.wait mte1 -> mte2[%c0]
    tile.wait mte1 -> mte2[%c1]

`hazards.py` says where. A memref that a program both loads and stores counts as one buffer. Flags
of a pair of pipes are numbered from 0 on. Where the target has fewer, rings get flags for fewer
slots than they have copies, a part of them (4 copies: 2, then 1): slots that have one flag are used
one after the other. Or two buffers share flags, as if they were one: the pipes then take turns with
both. What is in the fewest loops does so first. A program that has flags stays as it is.
So do fifos: a push and its pop need no flags.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ge.dialects.support.diagnostics import remark
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import put_after, put_before
from ge.dialects.targets.target import target_for
from ge.dialects.tile.compute import FlagOp, SetOp, WaitOp
from ge.dialects.tile.kernel import KernelOp, ProgramOp
from ge.runtime.library.language.arith import Constants, Emit
from ge.transforms.tiles.hazards import (
    BufferUnit,
    Mark,
    Marks,
    Pair,
    Sharing,
    accesses_of,
    copies_of,
    mark,
    units_of,
)

Numbers = dict[tuple[BufferUnit, Pair], int]


def number_flags(units: Iterable[BufferUnit]) -> tuple[Numbers, Counter[Pair]]:
    """For each unit and pair of pipes the number of its first flag; for each pair how many it
    takes."""
    first, taken = Numbers(), Counter[Pair]()
    for unit in units:
        for pair, count in unit.need.items():
            first[unit, pair] = taken[pair]
            taken[pair] += count
    return first, taken


def fewer(sharing: Sharing, units: Iterable[BufferUnit], over: Pair, excess: int) -> Iterator[str]:
    """Let units share flags of the pair, of which there are too many by `excess`: the slots of a
    ring, or two buffers. Those in the fewest loops do so first; each once, since there may be
    hundreds. Says what shares flags."""
    users = sorted((u for u in units if over in u.need), key=lambda u: (u.depth, len(u.accesses)))
    rings = [u for u in users if u.need[over] > 1]
    deepest = inf if len(users) == 1 else users[1].depth
    rings = sorted((u for u in rings if u.depth <= deepest), key=lambda u: (u.depth, -u.need[over]))
    for unit in rings:
        if excess <= 0:
            return
        slots = max(n for n in range(1, unit.copies) if unit.copies % n == 0)
        sharing.copies.update(dict.fromkeys(unit.buffers, slots))
        excess -= unit.need[over] - slots
        yield f"flags for {slots} of {unit.copies} copies of {unit.names}"
    if rings:
        return
    for one, other in zip(users[::2], users[1::2], strict=False):
        if excess <= 0:
            return
        excess -= one.need[over] + other.need[over] - 1
        both = [*one.buffers, *other.buffers]
        sharing.together.append(both)
        sharing.copies.update(dict.fromkeys(both, 1))
        yield f"one flag for {one.names} and {other.names}"


class FlagWriter:
    """Puts flags into a program. Their numbers are computed once in a block."""

    def __init__(self, program: ProgramOp, first: Numbers) -> None:
        self.first = first
        self.numbers: dict[object, SSAValue] = {}
        self.constant = Constants(program.body.block)

    def write(self, op: Operation, before: Iterable[Mark], after: Iterable[Mark]) -> None:
        """The flags before and after an op."""
        block = op.parent
        assert block is not None
        for m in before:
            put_before(block, self.flag(m, op, block), op)
        last = op
        for m in after:
            flag = self.flag(m, op, block)
            put_after(block, flag, last)
            last = flag

    def flag(self, m: Mark, op: Operation, block: Block) -> FlagOp:
        flag = (SetOp if m.is_set else WaitOp)(*m.pair, self.number(m, block))
        flag.location = op.location
        return flag

    def number(self, m: Mark, block: Block) -> SSAValue:
        """Of the flag: the slot, counted from the first flag of its unit."""
        first, copies = self.first[m.unit, m.pair], m.unit.copies
        if m.slot is None:
            return self.constant(first)
        terms, number = m.slot.terms, m.slot.number % copies
        if not terms:
            return self.constant(first + number)
        key = block, number, copies, *terms
        if (found := self.numbers.get((first, *key))) is None:
            emit = Emit(Builder(after_all(terms, block)), self.constant)
            rest = self.numbers.get((0, *key))
            if rest is None:
                rest = emit.value(emit.mod(emit.sum(terms, number), copies))
            else:
                emit = Emit(Builder(after_all((rest,), block)), self.constant)
            self.numbers[0, *key] = rest
            found = self.numbers[first, *key] = emit.value(emit.add(rest, first))
            rest.name_hint = found.name_hint = "id"
        return found


def after_all(values: Iterable[SSAValue], block: Block) -> InsertPoint:
    """The first place of a block where all the values are defined."""
    last: Operation | None = None
    for value in values:
        op = value.owner
        if isinstance(op, Operation) and op.parent is block:
            if last is None or last.is_before_in_block(op):
                last = op
    return InsertPoint.at_start(block) if last is None else InsertPoint.after(last)


def add_flags(program: ProgramOp, most: int) -> None:
    if (accesses := accesses_of(program)) is None:
        return
    sharing = Sharing({buffer: copies_of(buffer) for buffer in accesses})
    while True:
        units, marks = units_of(accesses, sharing), Marks()
        for unit in units:
            mark(unit, marks)
        first, taken = number_flags(units)
        over = next((pair for pair, count in taken.items() if count > most), None)
        if over is None:
            break
        what = f"{over[0]} -> {over[1]} needs {taken[over]} flags, the target has {most}"
        for text in fewer(sharing, units, over, taken[over] - most):
            remark(program, f"{what}: {text}")
    writer = FlagWriter(program, first)
    for op, found in marks.before.items():
        writer.write(op, found, ())
    for op, found in marks.after.items():
        writer.write(op, (), found)


@dataclass(frozen=True)
class TileFlagsPass(ModulePass):
    """Add the flags that order the pipes of a core in tile programs."""

    name = "tile-flags"

    target: str = ""
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        most = target_for(main_function(op) or op, self.target).flags
        for kernel in op.ops:
            if isinstance(kernel, KernelOp):
                for program in kernel.programs:
                    add_flags(program, most)
