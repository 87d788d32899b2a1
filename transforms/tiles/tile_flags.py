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

A memref that a program both loads and stores counts as one buffer. Flags of a pair of pipes are
numbered from 0 on. Where the target has fewer, buffers that are used in loops one after the other
get the same flags: a loop then waits for the one before as if its buffers were the same. Next,
rings get flags for fewer slots than they have copies, a part of them (4 copies: 2, then 1): slots
that have one flag are used one after the other. Or two buffers share flags, as if they were one:
the pipes then take turns with both. What is in the fewest loops does so first, and what is small.
A program that has flags is not changed. So do fifos: a push and its pop need no flags.

A buffer's slot belongs to one pipe at a time. It passes on from access to access, in the order of
the program; where two in a row are on different pipes, the second waits for a flag of the first:

    pipes of the accesses    load (mte2)   move (mte1)   move (mte1)    store (fix)
    flags                            mte2 -> mte1                 mte1 -> fix

Reads are not told from writes: two pipes that only read, one after the other, are also ordered.

In a loop the sequence is cyclic: the pipe of the last access passes the slot back to that of the
first. With n copies, where all slots are `ring[i + number]` for the loop's variable i, an access of
number c at slot s comes c steps earlier than that of number 0; sorted by this, the sequence is the
same for each slot, and it comes back after n steps. So an iteration waits for the one n before it.
Otherwise the buffer passes on as a whole, and iterations run one after the other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import NamedTuple, TypeAlias

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import MaxSIOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ge.dialects.support.diagnostics import error_at, remark
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import ops_of, put_after, put_before
from ge.dialects.targets.target import target_for
from ge.dialects.tile.buffers import AllocOp, SlotOp, buffer_of, constant_index, slot_of
from ge.dialects.tile.compute import FlagOp, SetOp, WaitOp
from ge.dialects.tile.instruction import CoreProgram, Instruction
from ge.dialects.tile.kernel import BarrierOp, KernelOp, ProgramOp
from ge.dialects.tile.types import FifoType, Pipe
from ge.runtime.library.language.arith import (
    NESTING,
    Constants,
    Emit,
    Sum,
    is_outside,
    known,
    sum_of,
)

Pair = tuple[Pipe, Pipe]
"""Who sets a flag, and who waits for it."""
LoopNests: TypeAlias = frozenset[tuple[ForOp, ...]]
"""The loops around each access of a buffer, from outside in."""


@dataclass(eq=False, slots=True)
class BufferAccess:
    """One of a buffer, by an instruction; `index` is that of the slot, None for the whole buffer.
    Instructions of a `run` follow each other on one pipe, nothing between."""

    op: Instruction
    pipe: Pipe
    index: Sum | None
    loops: tuple[ForOp, ...]
    run: int
    order: int


@dataclass(eq=False)
class BufferUnit:
    """Buffers that pass from pipe to pipe together, and their accesses."""

    buffers: list[SSAValue]
    copies: int  # slots that count: slot s and slot s + copies are one
    accesses: list[BufferAccess]
    need: dict[Pair, int] = field(default_factory=dict[Pair, int])  # flags for each pair

    def take(self, pair: Pair, count: int) -> None:
        self.need[pair] = max(self.need.get(pair, 0), count)

    @property
    def depth(self) -> int:
        """Return in how many loops it is used."""
        return max(len(a.loops) for a in self.accesses)

    @property
    def bytes(self) -> int:
        """Return the size of a copy of its largest buffer in the core."""
        owners = [b.owner for b in self.buffers]
        return max((o.copy_bytes for o in owners if isinstance(o, AllocOp)), default=0)

    @property
    def names(self) -> str:
        return ", ".join(f"%{b.name_hint or '?'}" for b in self.buffers)


def accesses_of(program: CoreProgram) -> dict[SSAValue, list[BufferAccess]] | None:
    """The accesses of each buffer that two pipes use; such a memref is also written. None for a
    program that has flags."""
    collector = Collector()
    if not collector.collect(program.regions[0].block, ()):
        return None
    if collector.branches:
        message = "this branch has instructions, and flags are not set in branches"
        raise error_at(
            collector.branches[0],
            message,
            "tile-split-loops cuts loops where a condition compares their variable with "
            "what is known before the loop",
        )
    accesses = collector.accesses.items()
    return {b: found for b, found in accesses if len({a.pipe for a in found}) > 1}


@dataclass
class Sharing:
    """Memory that has flags of its own: of each buffer so many slots, and buffers that are one unit
    whatever their accesses are."""

    copies: dict[SSAValue, int]
    together: list[list[SSAValue]] = field(default_factory=list[list[SSAValue]])


def units_of(
    accesses: Mapping[SSAValue, Sequence[BufferAccess]], sharing: Sharing
) -> list[BufferUnit]:
    """Return the units that pipes share. Buffers whose accesses stand side by side are one unit:
    they need one flag, which is set after the last and waited for before the first."""
    units: dict[object, BufferUnit] = {}
    for buffer, found in accesses.items():
        number = sharing.copies[buffer]
        steps = tuple(dict.fromkeys((a.run, a.index) for a in found))
        if (unit := units.get((number, steps))) is None:
            units[number, steps] = BufferUnit([buffer], number, [*found])
        else:
            unit.buffers.append(buffer)
            unit.accesses.extend(found)
    unit_of = {buffer: unit for unit in units.values() for buffer in unit.buffers}
    for buffers in sharing.together:
        first, *others = dict.fromkeys(map(unit_of.__getitem__, buffers))
        for unit in others:
            first.buffers += unit.buffers
            first.accesses += unit.accesses
            unit_of.update(dict.fromkeys(unit.buffers, first))
    result = list(dict.fromkeys(unit_of.values()))
    for unit in result:
        unit.accesses.sort(key=lambda a: a.order)
    return result


class Collector:
    """Finds the accesses of a program."""

    def __init__(self) -> None:
        self.accesses: dict[SSAValue, list[BufferAccess]] = {}  # by buffer
        self.branches: list[Operation] = []  # that have instructions
        self.runs = self.orders = 0

    def collect(self, block: Block, loops: tuple[ForOp, ...]) -> bool:
        """Add the accesses of a block and of its loops; False where there are flags."""
        last: Pipe | None = None
        for op in ops_of(block):
            if type(op) in NESTING:
                last = None
                if type(op) is not ForOp:
                    found = [o for o in op.walk() if isinstance(o, Instruction)]
                    if any(isinstance(o, FlagOp) for o in found):
                        return False
                    self.branches += [op] if found else []
                elif not self.collect(op.regions[0].block, (*loops, op)):
                    return False
            elif isinstance(op, Instruction):
                if isinstance(op, FlagOp):
                    return False
                if (pipe := op.pipe()) is not last:
                    last = pipe
                    self.runs += 1
                self.add(op, pipe, loops)
            elif isinstance(op, BarrierOp):
                last = None
        return True

    def add(self, op: Instruction, pipe: Pipe, loops: tuple[ForOp, ...]) -> None:
        """Add the accesses of an instruction: one of each place that it reads or writes."""
        self.orders += 1
        for buffer, slot in dict.fromkeys(map(place_of, (*op.reads(), *op.writes()))):
            if type(buffer.type) is not FifoType:
                index = None if slot is None else sum_of(slot.index)
                access = BufferAccess(op, pipe, index, loops, self.runs, self.orders)
                self.accesses.setdefault(buffer, []).append(access)


def place_of(value: SSAValue) -> tuple[SSAValue, SlotOp | None]:
    return buffer_of(value), slot_of(value)


# ---- the sequence of a unit's accesses ---------------------------------------------------------


class Mark(NamedTuple):
    """A flag to set or to wait for; `slot` is a sum of which the remainder by the unit's copies
    counts."""

    is_set: bool
    pair: Pair
    unit: BufferUnit
    slot: Sum | None = None


NOTHING = Sum((), 0)


@dataclass
class Item:
    """An instruction, or a loop, in the sequence of a unit's accesses. It starts when the pipe
    `begin` has the buffers and leaves them to the pipe `end`."""

    op: Operation
    begin: Pipe
    end: Pipe
    alone: bool  # whether no other pipe is in it
    index: Sum | None = None  # the slot, if all of it is on one
    # Of a loop: the flags that are set when an iteration begins, by slot, counted from `first`
    # (before the loop) and `beyond` (after it). (p, p): no flag, pipe p has the slot.
    pending: tuple[Pair, ...] = ()
    first: Sum = NOTHING
    beyond: Sum = NOTHING

    @cached_property
    def uniform(self) -> Pair | None:
        """The pair of pipes, if it is the same for all slots."""
        return self.pending[0] if len(set(self.pending)) == 1 else None


class Places(dict[Operation, list[Mark]]):
    """Flags by the op that they stand at."""

    def set(self, op: Operation, pair: Pair, unit: BufferUnit, slot: Sum | None = None) -> None:
        self._add(op, Mark(True, pair, unit, slot))

    def wait(self, op: Operation, pair: Pair, unit: BufferUnit, slot: Sum | None = None) -> None:
        self._add(op, Mark(False, pair, unit, slot))

    def _add(self, op: Operation, mark: Mark) -> None:
        mark.unit.take(mark.pair, 1 if mark.slot is None else mark.unit.copies)
        self.setdefault(op, []).append(mark)


@dataclass
class Marks:
    """The flags of a program, before ops and after them."""

    before: Places = field(default_factory=Places)
    after: Places = field(default_factory=Places)


def mark(unit: BufferUnit, marks: Marks, begins: Mapping[Pipe, Operation]) -> None:
    """Add the flags of a unit. `begins`: the first op of the program where each pipe has work."""
    items = _items(unit, unit.accesses, 0, marks)
    _sequence(unit, items, False, marks)
    # Nobody has used what the first loop takes: flags for it are set as early as may be.
    found = marks.before.get(first := items[0].op, [])
    begin = begins[items[0].begin]
    early = [m for m in found if m.unit is unit and m.is_set and m.pair[0] is items[0].begin]
    early = [m for m in early if not (m.slot or NOTHING).terms and begin is not first]
    marks.before[first] = [m for m in found if m not in early]
    marks.before[begin] = [*early, *marks.before.get(begin, [])]


def _sequence(unit: BufferUnit, items: Sequence[Item], cyclic: bool, marks: Marks) -> None:
    """The flags between items that follow each other; cyclic: the first also follows the last."""
    for i, item in enumerate(items):
        before = items[i - 1] if i or cyclic else None
        if not (i and _stays(items[i - 1], item)):
            if before is not None and before.end is not item.begin:
                marks.before.wait(item.op, (before.end, item.begin), unit)
            _open(unit, item, marks)
        after = items[i + 1] if i + 1 < len(items) else items[0] if cyclic else None
        if i + 1 == len(items) or not _stays(item, items[i + 1]):
            _close(unit, item, marks)
            if after is not None and item.end is not after.begin:
                marks.after.set(item.op, (item.end, after.begin), unit)


def _stays(item: Item, after: Item) -> bool:
    """Return whether the flags that one loop leaves are those that the next one waits for."""
    return item.uniform is not None and item.pending == after.pending


def _slots(item: Item, start: Sum) -> Iterable[tuple[Pair, Sum | None]]:
    """The pending flags of a loop, with the slots that they are of."""
    for n, pair in enumerate(item.pending):
        yield pair, None if len(item.pending) == 1 else Sum(start.terms, start.number + n)


def _open(unit: BufferUnit, item: Item, marks: Marks) -> None:
    """Before a loop: the flags that its first iterations wait for. The pipe `begin` has the
    buffers; where another one sets a flag, it gets that slot first."""
    if not item.pending:
        return
    given = {item.begin}
    for (source, _), slot in _slots(item, item.first):
        if source not in given:
            given.add(source)
            marks.before.set(item.op, (item.begin, source), unit, slot)
            marks.before.wait(item.op, (item.begin, source), unit, slot)
    for (source, target), slot in _slots(item, item.first):
        if source is not target:
            marks.before.set(item.op, (source, target), unit, slot)


def _close(unit: BufferUnit, item: Item, marks: Marks) -> None:
    """After a loop: the flags that its last iterations set. The pipe `end` gets all the buffers."""
    if not item.pending:
        return
    for (source, target), slot in _slots(item, item.beyond):
        if source is not target:
            marks.after.wait(item.op, (source, target), unit, slot)
    given = {item.end}
    for (_, target), slot in _slots(item, item.beyond):
        if target not in given:
            given.add(target)
            marks.after.set(item.op, (target, item.end), unit, slot)
            marks.after.wait(item.op, (target, item.end), unit, slot)


def _items(
    unit: BufferUnit, accesses: Sequence[BufferAccess], depth: int, marks: Marks
) -> list[Item]:
    """The sequence in a block that is `depth` loops deep."""
    items: list[Item] = []
    start, end = 0, len(accesses)
    inner = slice(depth, depth + 1)  # the loop that an access is in, if any
    for i, access in enumerate(accesses):
        if not (loop := access.loops[inner]):
            items.append(Item(access.op, access.pipe, access.pipe, True, access.index))
            start = i + 1
        elif i + 1 == end or accesses[i + 1].loops[inner] != loop:
            items.append(_loop(unit, accesses[start : i + 1], depth, marks))
            start = i + 1
    return items


def _loop(unit: BufferUnit, accesses: Sequence[BufferAccess], depth: int, marks: Marks) -> Item:
    """Return a loop as an item of the ops around it; adds the flags within it."""
    loop = accesses[0].loops[depth]
    if len({a.pipe for a in accesses}) == 1:
        pipe, indices = accesses[0].pipe, {a.index for a in accesses}
        index = indices.pop() if len(indices) == 1 else None
        if index is not None and not all(is_outside(t, loop) for t in index.terms):
            index = None
        return Item(loop, pipe, pipe, True, index)
    items = _items(unit, accesses, depth + 1, marks)
    states = {item.uniform for item in items}
    if len(states) == 1 and (pair := states.pop()) is not None:
        if len({len(item.pending) for item in items}) == 1:  # the flags stay set in between
            return Item(loop, *pair, False, None, items[0].pending)
    numbers = _numbers(unit, items, loop)
    if numbers is None:
        _sequence(unit, items, True, marks)
        pair = items[-1].end, items[0].begin
        return Item(loop, *pair, False, None, (pair,) if pair[0] is not pair[1] else ())
    return _rotating(unit, items, numbers, loop, marks)


def _numbers(unit: BufferUnit, items: Sequence[Item], loop: ForOp) -> list[int] | None:
    """Return the numbers of slots of a ring that are the loop's variable and a number, apart from
    terms that all have in common; None for others."""
    if unit.copies == 1 or constant_index(loop.step) != 1:
        return None
    rests = list[Sum]()
    for item in items:
        rest = None if item.index is None else item.index.without(loop.body.block.args[0])
        if rest is None or not item.alone or not all(is_outside(t, loop) for t in rest.terms):
            return None
        rests.append(rest)
    return [r.number for r in rests] if len({r.terms for r in rests}) == 1 else None


def _rotating(
    unit: BufferUnit, items: Sequence[Item], numbers: Sequence[int], loop: ForOp, marks: Marks
) -> Item:
    """A loop that uses the slots of a ring in turn."""
    n = unit.copies
    order = sorted(range(len(items)), key=lambda i: (-numbers[i] % n, i))
    cycle = [items[i] for i in order]
    previous = {i: items[order[at - 1]] for at, i in enumerate(order)}
    for item, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        if (pair := (item.end, after.begin))[0] is not pair[1]:
            marks.after.set(item.op, pair, unit, item.index)
            marks.before.wait(after.op, pair, unit, after.index)
    pending = list[Pair]()
    for r in range(n):
        first = min(range(len(items)), key=lambda i: ((r - numbers[i]) % n, i))
        pending.append((previous[first].end, items[first].begin))
    ends = pending[0]
    if len(set(pending)) == 1:
        return Item(loop, *ends, False, None, tuple(pending) if ends[0] is not ends[1] else ())
    index = items[0].index
    assert index is not None
    terms = tuple(t for t in index.terms if t is not loop.body.block.args[0])
    first, beyond = (Sum((*terms, *s.terms), s.number) for s in ends_of(loop))
    return Item(loop, *ends, False, None, tuple(pending), first, beyond)


def ends_of(loop: ForOp) -> tuple[Sum, Sum]:
    """The first value of the variable of a loop, and the one after its last; step 1."""
    begin, end = known(loop.lb), known(loop.ub)
    if isinstance(begin, int) and isinstance(end, int):
        return Sum((), begin), Sum((), max(begin, end))
    last = loop.prev_op
    if not isinstance(last, MaxSIOp) or (last.lhs, last.rhs) != (loop.lb, loop.ub):
        last = Builder(InsertPoint.before(loop)).insert(MaxSIOp(loop.lb, loop.ub))
    return sum_of(loop.lb), Sum((last.result,), 0)


Numbers = dict[tuple[BufferUnit, Pair], int]


def number_flags(units: Iterable[BufferUnit]) -> tuple[Numbers, Counter[Pair]]:
    """Return for each unit and pair of pipes the number of its first flag; for each pair how many
    it takes."""
    first, taken = Numbers(), Counter[Pair]()
    for unit in units:
        for pair, count in unit.need.items():
            first[unit, pair] = taken[pair]
            taken[pair] += count
    return first, taken


def fewer(sharing: Sharing, units: Iterable[BufferUnit], over: Pair, excess: int) -> Iterator[str]:
    """Let units share flags of the pair, which has too many by `excess`: those of loops one after
    the other, the slots of a ring, or two buffers. Those in the fewest loops do so first; each
    once, since there may be hundreds. Yields a text for those that share flags."""
    users = sorted((u for u in units if over in u.need), key=lambda u: (u.depth, len(u.accesses)))
    pairs = list(in_other_loops(users, over))
    for one, other in pairs:
        if excess <= 0:
            return
        excess -= min(one.need[over], other.need[over])
        sharing.together.append([*one.buffers, *other.buffers])
        yield f"the same flags for {one.names} and, in other loops, {other.names}"
    if pairs:
        return
    rings = [u for u in users if u.need[over] > 1]
    deepest = inf if len(users) == 1 else users[1].depth
    rings = [u for u in rings if u.depth <= deepest]
    for unit in sorted(rings, key=lambda u: (u.depth, -u.need[over], u.bytes)):
        if excess <= 0:
            return
        slots = max(n for n in range(1, unit.copies) if unit.copies % n == 0)
        sharing.copies.update(dict.fromkeys(unit.buffers, slots))
        excess -= unit.need[over] - slots
        yield f"flags for {slots} of {unit.copies} copies of {unit.names}"
    if rings:
        return
    for one, other in zip(users[::2], users[1::2], strict=False):
        if excess <= 0 or one.depth > users[0].depth:
            return
        excess -= one.need[over] + other.need[over] - 1
        both = [*one.buffers, *other.buffers]
        sharing.together.append(both)
        sharing.copies.update(dict.fromkeys(both, 1))
        yield f"one flag for {one.names} and {other.names}"


def in_other_loops(
    units: Sequence[BufferUnit], pair: Pair
) -> Iterator[tuple[BufferUnit, BufferUnit]]:
    """Yield units, two and two, that have as many copies and need as many flags of the pair, and
    are used in different loops: large ones with large ones, as small ones may lose copies."""
    alone: dict[tuple[int, int], dict[LoopNests, list[BufferUnit]]] = {}
    for unit in sorted(units, key=lambda u: -u.bytes):
        nests = frozenset(a.loops for a in unit.accesses)
        known = alone.setdefault((unit.copies, unit.need[pair]), {})
        others = next((found for n, found in known.items() if found and apart(n, nests)), None)
        if others is None:
            known.setdefault(nests, []).append(unit)
        else:
            yield others.pop(0), unit


def apart(one: LoopNests, other: LoopNests) -> bool:
    """Return whether two buffers are used in different loops that stand in one block."""
    for depth in range(1, min(map(len, one | other)) + 1):
        mine, its = ({loops[:depth] for loops in nests} for nests in (one, other))
        if mine.isdisjoint(its):
            return len({loops[:-1] for loops in mine | its}) == 1
    return False


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
        """Return the number of the flag: the slot, counted from the first flag of its unit."""
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


def first_ops(program: ProgramOp) -> dict[Pipe, Operation]:
    """The first op of a program's own block where each pipe has work: an instruction or a loop."""
    found = dict[Pipe, Operation]()
    for op in ops_of(program.body.block):
        for inner in op.walk() if type(op) in NESTING else (op,):
            if isinstance(inner, Instruction):
                found.setdefault(inner.pipe(), op)
    return found


def add_flags(program: ProgramOp, most: int) -> None:
    if (accesses := accesses_of(program)) is None:
        return
    owners, begins = {buffer: buffer.owner for buffer in accesses}, first_ops(program)
    sharing = Sharing({b: o.copies if isinstance(o, AllocOp) else 1 for b, o in owners.items()})
    while True:
        units, marks = units_of(accesses, sharing), Marks()
        for unit in units:
            mark(unit, marks, begins)
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
