"""What of a kernel's operands crosses HBM again, since L2 has no room for all that is loaded.

L2 keeps what was used last (`l2.py`): what is loaded again crosses again where other bytes than L2
holds were loaded since. The steps of a core's outermost loop are its turns, and what a load brings
in all of a turn is one piece of its operand:

    scf.for %turn                          blocks of a matmul
      scf.for %step
        tile.load %a[%row, %step ..]       a piece: these rows
        tile.load %b[%step .., %column]    a piece: these columns

Assumptions: cores are in the same turn at a time, and load what they share once; a piece is in L2
whole or not at all; results take no room.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from math import prod
from typing import Any, NamedTuple, TypeAlias, TypeVar

from xdsl.dialects.arith import CmpiOp, ConstantOp, SelectOp
from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import byte_size
from ge.dialects.tile.arithmetic import ARITHMETIC, COMPARED
from ge.dialects.tile.buffers import box_of, constant_index
from ge.dialects.tile.kernel import CoreOp, CoresOp, PartOp, ProgramOp
from ge.dialects.tile.reading import ReadOp
from ge.dialects.tile.transfers import LoadOp
from ge.runtime.library.costs.l2 import LastUsed

T = TypeVar("T")

Piece: TypeAlias = tuple[SSAValue, int, tuple[int, ...]]
"""A memref, which load brings it, and the offsets where a turn begins to load it."""
Turn: TypeAlias = dict[Piece, int]
"""The pieces that a core loads in a turn, and their bytes."""


class UnknownNumber(Exception):
    """A number that depends on what is in device memory."""


class Load(NamedTuple):
    """A load, in a block that is walked again and again."""

    memref: SSAValue
    number: int  # of the load
    offsets: Sequence[SSAValue]
    size: int  # bytes of a box
    most: int  # of the memref


class Inner(NamedTuple):
    """A loop with loads."""

    op: ForOp
    variable: SSAValue
    items: "Sequence[Load | Inner]"


def loaded_again(
    programs: Sequence[tuple[ProgramOp, int]], cores: int, room: int, most: int | None = None
) -> Counter[SSAValue]:
    """Bytes of each memref that cross HBM more than once, with so many bytes of L2; none where it
    is not known which they are. `programs`: of one core, with their parts. With `most` no more
    turns of a core are followed, and the others bring as much as the last half of these."""
    loads = [(loads_in(p.body.block), part) for p, part in programs]
    turns = [turns_of(items, part, n, cores) for n in range(cores) for items, part in loads]
    try:
        if most is None:
            return again(turns, room)
        count = max(count_of_turns(p, part, cores) for p, part in programs)
        if count <= most:
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


def count_of_turns(program: ProgramOp, part: int, cores: int) -> int:
    """Of the first core."""
    at = CoreNumbers(0, cores, part)
    return sum(len(at.steps(op)) for op in program.body.block.ops if isinstance(op, ForOp))


def again(
    cores: Sequence[Iterator[Turn]], room: int, rounds: "list[Counter[SSAValue]] | None" = None
) -> Counter[SSAValue]:
    """Of what cores load side by side, turn by turn: of all turns, and of each in `rounds`."""
    held = LastUsed[Piece]()
    seen, total = set[Piece](), Counter[SSAValue]()
    for turns in zip_longest(*cores, fillvalue=dict[Piece, int]()):
        found = Counter[SSAValue]()
        together = dict(chain.from_iterable(turn.items() for turn in turns))
        for piece, size in together.items():
            if not held.use(piece, size) and piece in seen:
                found[piece[0]] += size
        seen.update(together)
        while held.bytes > room:
            held.pop()
        total += found
        if rounds is not None:
            rounds.append(found)
    return total


def turns_of(items: Sequence[Load | Inner], part: int, core: int, cores: int) -> Iterator[Turn]:
    """What one core loads in each turn. Raises Unknown."""
    at = CoreNumbers(core, cores, part)
    for item in items:
        if isinstance(item, Inner):
            for turn in at.steps(item.op):
                yield dict(pieces(item.items, at.where(item.variable, turn), 1))


def loads_in(block: Block) -> list[Load | Inner]:
    """The loads of a block, and the loops around some."""
    found: list[Load | Inner] = []
    for op in block.ops:
        if isinstance(op, LoadOp):
            view = box_of(op.source)
            size = storage_bytes(prod(view.box_sizes), data_type(view.source.type)[0])
            most = byte_size(view.source.type)
            found.append(Load(view.source, id(op), view.offsets, size, most))
        elif isinstance(op, ForOp) and (items := loads_in(op.body.block)):
            found.append(Inner(op, op.body.block.args[0], items))
    return found


def pieces(
    items: Sequence[Load | Inner], at: "CoreNumbers", times: int
) -> Iterator[tuple[Piece, int]]:
    """What loads bring, which are run so many times."""
    for item in items:
        if type(item) is Load:
            offsets = tuple([at.number(o) for o in item.offsets])
            yield (item.memref, item.number, offsets), min(times * item.size, item.most)
        elif type(item) is Inner and (steps := at.steps(item.op)):
            inner = at.where(item.variable, steps[0])
            yield from pieces(item.items, inner, times * len(steps))


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
        """In a step of a loop. What does not change in the loop is computed once, outside."""
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
        return range(*[self.number(x) for x in operands_of(loop)[:3]])

    def number(self, value: SSAValue) -> int:
        """Raises Unknown."""
        if (number := self.known.get(value)) is None:
            owner, home = value.owner, self
            depth = self.loops_around(owner if isinstance(owner, Block) else owner.parent)
            while home.depth > depth:
                home = home.outer
            number = self.computed(value) if home is self else home.number(value)
            self.known[value] = number
        return number

    def computed(self, value: SSAValue) -> int:
        op: Any = value.owner
        kind: Any = op.__class__
        if (function := ARITHMETIC.get(kind)) is not None:
            lhs, rhs = operands_of(op)
            return function(self.number(lhs), self.number(rhs))
        if kind in self.own:
            return self.own[kind]
        match op:
            case CmpiOp():
                compare = COMPARED[op.predicate.value.data]
                return compare(*map(self.number, operands_of(op)))
            case SelectOp():
                cond, lhs, rhs = operands_of(op)
                return self.number(lhs if self.number(cond) else rhs)
            case ConstantOp() if (constant := constant_index(value)) is not None:
                return constant
            case ReadOp() if self.largest:
                return op.span[-1]
            case _:
                raise UnknownNumber
