"""The loop nest of a tile program, walked once on one core: the instructions that it runs, the
sizes of their boxes, and how often they run.

    scf.for %i (n steps)        those steps in a row that take the same branches are a run; of a run
      tile.load                 three are looked at: the first, one in the middle and the last, so
      tile.map                  that boxes cut off at a memref's end count

The bytes of a kernel's operands that cross HBM again, since L2 has no room for all loads, follow
from it (`loaded_again`). L2 keeps the bytes used last (`l2.py`): a piece loaded again crosses again
where more other bytes than L2 holds were loaded since. The steps of a core's outermost loop are its
turns (the first and the last may stand beside it, cut off), and all bytes that a load brings in a
turn are one piece of its operand:

    scf.for %turn                          blocks of a matmul
      scf.for %step
        tile.load %a[%row, %step ..]       a piece: these rows
        tile.load %b[%step .., %column]    a piece: these columns

Assumptions: cores are in the same turn at a time, and load shared bytes once; a piece is in L2
whole or not at all; results take no room."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, zip_longest
from math import prod
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from xdsl.dialects.arith import CmpiOp, ConstantOp, SelectOp, SubiOp
from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.types import byte_size
from ge.dialects.tile.buffers import (
    ReadOp,
    SlotOp,
    ViewOp,
    box_of,
    buffer_of,
    constant_index,
    memref_shape,
    slot_of,
    within,
)
from ge.dialects.tile.compute import FlagOp, MmadOp
from ge.dialects.tile.instruction import ARITHMETIC, COMPARED, Instruction
from ge.dialects.tile.kernel import BarrierOp, CoreOp, CoresOp, KernelOp, PartOp, ProgramOp
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BoxType, Pipe, TileType, fifo_type
from ge.runtime.library.costs.l2 import LastUsed

T = TypeVar("T")

Piece: TypeAlias = tuple[SSAValue, tuple[int, ...]]
"""A memref, and the offsets where a turn begins to load it."""
Turn: TypeAlias = dict[Piece, int]
"""The pieces that a core loads in a turn, and their bytes."""


class UnknownNumber(Exception):
    """A number that depends on data in device memory."""


class Load(NamedTuple):
    """A load, in a block that is walked again and again."""

    memref: SSAValue
    offsets: Sequence[SSAValue]
    size: int  # bytes of a box
    most: int  # of the memref


class Inner(NamedTuple):
    """A loop with loads."""

    op: ForOp
    variable: SSAValue
    items: "Sequence[Item]"


class Either(NamedTuple):
    """Branches, of which some have loads: in a program that is not finished."""

    condition: SSAValue
    then: "Sequence[Item]"
    otherwise: "Sequence[Item]"


Item: TypeAlias = Load | Inner | Either
Section: TypeAlias = Inner | Sequence[Item]
"""A loop whose steps are turns, or what is one turn."""


def loaded_again(
    programs: Sequence[tuple[ProgramOp, int]], cores: int, room: int, most: int | None = None
) -> Counter[SSAValue]:
    """Bytes of each memref that cross HBM more than once, with so many bytes of L2; none where it
    is not known which they are. `programs`: of one core, with their parts. With `most` no more
    turns of a core are followed, and the others bring as much as the last half of these; loops that
    deal no turns to cores are one each, if there are more."""
    loads = [(sections(p.body.block), part) for p, part in programs]
    try:
        count = max(count_of_turns(found, part, cores) for found, part in loads)
        if most is not None and count > most:
            loads = [([as_turn(s) for s in found], part) for found, part in loads]
            count = max(count_of_turns(found, part, cores) for found, part in loads)
        turns = [turns_of(found, part, n, cores) for n in range(cores) for found, part in loads]
        if most is None or count <= most:
            return again(turns, room)
        rounds = list[Counter[SSAValue]]()
        again([islice(t, most) for t in turns], room, rounds)
        early, late = (sum(part, Counter[SSAValue]()) for part in halves(rounds))
        more = (count - most // 2) / (most - most // 2)
        return early + Counter({m: int(more * size) for m, size in late.items()})
    except UnknownNumber:
        return Counter()


def halves(rounds: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    return rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]


def count_of_turns(sections: Sequence[Section], part: int, cores: int) -> int:
    """Number of turns of the first core."""
    at = CoreNumbers(0, cores, part)
    return sum(len(at.steps(s.op)) if isinstance(s, Inner) else 1 for s in sections)


def again(
    cores: Sequence[Iterator[Turn]], room: int, rounds: "list[Counter[SSAValue]] | None" = None
) -> Counter[SSAValue]:
    """Bytes loaded again by cores that load side by side, turn by turn: of all turns, and of each
    in `rounds`."""
    held = LastUsed[Piece]()
    seen, total = set[Piece](), Counter[SSAValue]()
    for turns in zip_longest(*cores, fillvalue=dict[Piece, int]()):
        found = Counter[SSAValue]()
        together = dict(chain.from_iterable(turn.items() for turn in turns))
        for piece, size in together.items():
            if not held.use(piece, size) and piece in seen:
                found[piece[0]] += size
            while held.bytes > room:
                held.pop()
        seen.update(together)
        total += found
        if rounds is not None:
            rounds.append(found)
    return total


def turns_of(sections: Sequence[Section], part: int, core: int, cores: int) -> Iterator[Turn]:
    """Pieces that one core loads in each turn. Raises UnknownNumber."""
    at = CoreNumbers(core, cores, part)
    for section in sections:
        if isinstance(section, Inner):
            for turn in at.steps(section.op):
                yield largest(pieces(section.items, at.where(section.variable, turn), 1))
        else:
            yield largest(pieces(section, at, 1))


def largest(pieces: Iterable[tuple[Piece, int]]) -> Turn:
    """Merge what begins at one place into one piece, of which some loads may bring a part."""
    found: Turn = {}
    for piece, size in pieces:
        found[piece] = max(size, found.get(piece, 0))
    return found


def sections(block: Block) -> list[Section]:
    """The outermost loops of a program. Where some of them deal turns to cores, what stands beside
    these, up to a barrier, is a turn of its own: the first or the last one, cut off."""
    found = list[Section]()
    for phase in phases(block):
        dealt = [isinstance(item, Inner) and is_dealt(item.op) for item in phase]
        for deals, group in groupby(range(len(phase)), dealt.__getitem__):
            own = [phase[i] for i in group]
            if any(dealt) and not deals:
                found.append(own)
            else:
                found += [item for item in own if isinstance(item, Inner)]
    return found


def phases(block: Block) -> Iterator[list[Item]]:
    """Loads between barriers."""
    ops = list[Operation]()
    for op in ops_of(block):
        if isinstance(op, BarrierOp):
            yield loads_in(ops)
            ops = []
        else:
            ops.append(op)
    yield loads_in(ops)


def as_turn(section: Section) -> Section:
    """Return a loop that deals no turns to cores as one turn."""
    return [section] if isinstance(section, Inner) and not is_dealt(section.op) else section


def is_dealt(loop: ForOp) -> bool:
    """Return whether the number of a core says how many steps a loop has."""
    return any(is_own(value, {}) for value in operands_of(loop)[:2])


def is_own(value: SSAValue, known: dict[SSAValue, bool]) -> bool:
    """Return whether a number before all loops may differ from core to core."""
    if (found := known.get(value)) is None:
        op = value.owner
        inner = isinstance(op, Block) or any(is_own(v, known) for v in operands_of(op))
        found = known[value] = inner or isinstance(op, CoreOp)
    return found


def loads_in(ops: Iterable[Operation]) -> list[Item]:
    """The loads among ops, and the loops and branches around some."""
    found: list[Item] = []
    for op in ops:
        if isinstance(op, LoadOp):
            view = box_of(op.source)
            size = storage_bytes(prod(view.box_sizes), data_type(view.source.type)[0])
            most = byte_size(view.source.type)
            found.append(Load(view.source, view.offsets, size, most))
        elif isinstance(op, ForOp) and (items := loads_in(op.body.block.ops)):
            found.append(Inner(op, op.body.block.args[0], items))
        elif isinstance(op, IfOp):
            then, otherwise = (loads_in(r.block.ops) if r.blocks else [] for r in op.regions)
            if then or otherwise:
                found.append(Either(operands_of(op)[0], then, otherwise))
    return found


def pieces(items: Sequence[Item], at: "CoreNumbers", times: int) -> Iterator[tuple[Piece, int]]:
    """Pieces that loads bring, with their bytes, for loads that are run so many times."""
    for item in items:
        if type(item) is Load:
            offsets = tuple([at.number(o) for o in item.offsets])
            yield (item.memref, offsets), min(times * item.size, item.most)
        elif type(item) is Inner and (steps := at.steps(item.op)):
            inner = at.where(item.variable, steps[0])
            yield from pieces(item.items, inner, times * len(steps))
        elif type(item) is Either:
            yield from pieces(item.then if at.number(item.condition) else item.otherwise, at, times)


class CoreNumbers:
    """The index values of one core. With `largest` numbers that it reads are the largest that they
    may be, else they are not known."""

    def __init__(self, core: int, cores: int, part: int, largest: bool = False) -> None:
        self.own: dict[type[Operation], int] = {CoreOp: core, CoresOp: cores, PartOp: part}
        self.known: dict[SSAValue, int] = {}
        self.largest = largest
        self.depth, self.outer = 0, self
        self.depths: dict[Block | None, int] = {}  # loops around blocks

    def where(self, variable: SSAValue, step: int) -> "CoreNumbers":
        """The numbers in a step of a loop. Those that do not change in the loop are computed once,
        outside."""
        inner = CoreNumbers.__new__(CoreNumbers)
        inner.own, inner.largest, inner.depths = self.own, self.largest, self.depths
        inner.known = {**self.known, variable: step}
        inner.depth, inner.outer = self.depth + 1, self
        return inner

    def loops_around(self, block: Block | None) -> int:
        if (depth := self.depths.get(block)) is None:
            depth, parent = 0, block.parent_op() if block is not None else None
            if parent is not None:
                depth = self.loops_around(parent.parent) + isinstance(parent, ForOp)
            self.depths[block] = depth
        return depth

    def steps(self, loop: ForOp) -> range:
        first, end, step, *_ = operands_of(loop)
        return range(self.number(first), self.number(end), self.number(step))

    def way(self, op: "ForOp | IfOp") -> int:
        """The number of a loop's steps, or which branch is taken."""
        return self.number(op.cond) if isinstance(op, IfOp) else len(self.steps(op))

    def number(self, value: SSAValue) -> int:
        """Raises Unknown."""
        known = self.known
        if (number := known.get(value)) is None:
            home, block = self, value.owner
            op: Any = block
            if type(block) is not Block:
                block = op.parent
            if home.depth:
                if (depth := self.depths.get(block)) is None:
                    depth = self.loops_around(block)
                while home.depth > depth:
                    home = home.outer
            if home is not self:
                number = home.number(value)
            elif (function := ARITHMETIC.get(op.__class__)) is not None:
                lhs, rhs = operands_of(op)
                if (left := known.get(lhs)) is None:  # this is asked most
                    left = self.number(lhs)
                if (right := known.get(rhs)) is None:
                    right = self.number(rhs)
                number = function(left, right)
            else:
                number = self.computed(value)
            known[value] = number
        return number

    def computed(self, value: SSAValue) -> int:
        op: Any = value.owner
        kind: Any = op.__class__
        if kind in self.own:
            return self.own[kind]
        if kind is ConstantOp and (constant := constant_index(value)) is not None:
            return constant
        if kind is CmpiOp:
            lhs, rhs = operands_of(op)
            return COMPARED[cast(CmpiOp, op).predicate.value.data](
                self.number(lhs), self.number(rhs)
            )
        if kind is SelectOp:
            cond, lhs, rhs = operands_of(op)
            return self.number(lhs if self.number(cond) else rhs)
        if kind is ReadOp and self.largest:
            return op.span[-1]
        raise UnknownNumber


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
    fifo: SSAValue | None = None  # that it pushes to or pops from


@dataclass(frozen=True, slots=True)
class Loop:
    """The first step of a loop, and others: how often, and one of them."""

    first: "Sequence[Part]"
    others: "Sequence[tuple[int, Sequence[Part]]]"


Part: TypeAlias = Leaf | Loop


Timed: TypeAlias = ForOp | IfOp | Instruction | BarrierOp

NESTING = ForOp, IfOp  # asked of `type`: `isinstance` of xDSL's classes takes much longer
TIMED = Instruction, BarrierOp


class MovedBox(NamedTuple):
    """The box that an instruction moves: the sizes of the whole box, its offsets, and those that
    may not lie in the memref, with the greatest that do."""

    sizes: tuple[int, ...]
    view: ViewOp | None = None
    offsets: Sequence[SSAValue] = ()
    unsure: Sequence[tuple[SSAValue, int]] = ()


class Seen:
    """Facts shared by all cores: ops of blocks that take time, boxes, and instructions."""

    def __init__(self) -> None:
        self.ops: dict[Block, Sequence[Timed]] = {}
        self.branches: dict[IfOp, Sequence[Block | None]] = {}
        self.boxes: dict[Instruction, MovedBox] = {}
        self.leaves: dict[tuple[Operation, tuple[int, ...]], Leaf] = {}

    def ops_of(self, block: Block) -> Sequence[Timed]:
        if (ops := self.ops.get(block)) is None:
            own = [op for op in ops_of(block) if type(op) in NESTING or isinstance(op, TIMED)]
            timed = [cast(Timed, op) for op in own]
            ops = self.ops[block] = [op for op in timed if not isinstance(op, FlagOp)]
            for op in ops:
                if type(op) is IfOp:
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
        """Parts of the nest between barriers."""
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
            if type(op) is ForOp:
                parts += self.loop(op, at)
            elif type(op) is IfOp:
                parts += self.parts_of(self.seen.taken(op, at), at)
            else:
                parts.append(self.leaf(cast("Instruction | BarrierOp", op), at))
        return parts

    def loop(self, op: ForOp, at: CoreNumbers) -> list[Part]:
        """Its steps in runs of those that take the same branches, and are as long."""
        variable, ops, steps = op.body.block.args[0], self.seen.ops_of(op.body.block), at.steps(op)
        inner = [cast("IfOp | ForOp", o) for o in ops if type(o) in NESTING]
        insides, ways = dict[int, CoreNumbers](), dict[int, Sequence[int]]()

        def inside(n: int) -> CoreNumbers:
            if (numbers := insides.get(n)) is None:
                numbers = insides[n] = at.where(variable, steps[n])
            return numbers

        def way(n: int) -> Sequence[int]:
            if not inner:
                return ()
            if (found := ways.get(n)) is None:
                numbers = inside(n)
                found = ways[n] = [numbers.way(o) for o in inner]
            return found

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
                reads = buffers_of(op.reads()[1:])
            over = [buffer for buffer in writes if buffer not in reads]
            late = buffers_of([value for value in op.reads() if is_late(value)])
            fifo = fifo_of(op) if isinstance(op, PushOp | PopOp) else None
            leaf = Leaf(op, sizes, op.pipe(), writes, reads, over, late, memref, size, fifo)
            known[op, sizes] = leaf
        return leaf

    def count(self, parts: Sequence[Part], times: int) -> None:
        """Count the bytes that cross the edge of the program."""
        for part in parts:
            if isinstance(part, Loop):
                self.count(part.first, times)
                for count, step in part.others:
                    self.count(step, times * count)
            elif part.memref is not None:
                moved = self.loaded if isinstance(part.op, LoadOp) else self.stored
                moved[part.memref] += times * part.bytes

    def sizes(self, op: Instruction, at: CoreNumbers) -> tuple[int, ...]:
        """Sizes of an instruction's box, as far as it lies in the memref, or of the rows and
        columns that a fifo takes."""
        if (box := self.seen.boxes.get(op)) is None:
            box = self.seen.boxes[op] = self.box(op)
        for offset, last in box.unsure:
            if not 0 <= at.number(offset) <= last:
                break
        else:
            return box.sizes
        assert box.view is not None
        found = within(box.view, [at.number(offset) for offset in box.offsets])
        return tuple([max(high - low, 0) for low, high in found])

    def box(self, op: Instruction) -> MovedBox:
        if isinstance(op, PushOp | PopOp):
            rows, cols = fifo_type(fifo_of(op)).shape
            return MovedBox((rows // self.parts, cols))
        for value in op.operands:
            if isinstance(value.type, BoxType) and isinstance(view := value.owner, ViewOp):
                offsets, sizes = view.offsets, view.box_sizes
                spans = zip(offsets, memref_shape(view.source), sizes, view.box_steps, strict=True)
                ends = [(at, extent - (size - 1) * step - 1) for at, extent, size, step in spans]
                known = [constant_index(at) for at in offsets]
                unsure = [e for e, n in zip(ends, known) if n is None or not 0 <= n <= e[1]]
                return MovedBox(sizes, view, offsets, unsure)
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
    """Number of instructions before the loop, and in each of its steps; 0, 0 unless there is
    exactly one loop, with steps of one length."""
    loops = [part for part in parts if isinstance(part, Loop)]
    if len(loops) != 1:
        return 0, 0
    steps = loops[0].first, *(step for _, step in loops[0].others)
    (length, *others) = {sum(count for _, count in leaves(step)) for step in steps}
    return (0, 0) if others else (parts.index(loops[0]), length)


def is_late(value: SSAValue) -> bool:
    """True if it is the slot before the one that is written, where this one is read."""
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
