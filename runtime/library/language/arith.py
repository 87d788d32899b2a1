"""Index arithmetic of tile programs: the terms of a value, and sums of values."""

from functools import cache, lru_cache
from typing import NamedTuple, cast

from xdsl.builder import Builder
from xdsl.dialects.arith import (
    AddiOp,
    CeilDivSIOp,
    CmpiOp,
    ConstantOp,
    MaxSIOp,
    MinSIOp,
    MuliOp,
    RemSIOp,
    SubiOp,
)
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1, i64
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from ge.dialects.support.operation import created, operands_of, ops_of, put_before, put_last
from ge.dialects.tile.buffers import constant_index
from ge.dialects.tile.instruction import ARITHMETIC, PREDICATES, Binary
from ge.dialects.tile.kernel import CoreOp, CoresOp, PartOp

GROWING = (AddiOp, CeilDivSIOp, CoreOp, CoresOp, PartOp, MaxSIOp, MinSIOp, MuliOp, RemSIOp)
"""Ops whose results are at least 0 where their operands are."""

NESTING = ForOp, IfOp  # asked of `type`: `isinstance` of xDSL's classes takes much longer
NUMBERS = {name: number for number, name in enumerate(PREDICATES)}  # of arith.cmpi
INDEX = IndexType()
Index = int | SSAValue
"""A number that is known, or a value."""


class Sum(NamedTuple):
    """The sum of `terms`, in order, and a number."""

    terms: tuple[SSAValue, ...]
    number: int

    def without(self, value: SSAValue) -> "Sum | None":
        """The rest of a sum in which the value stands once; None for any other."""
        if self.terms.count(value) != 1:
            return None
        return Sum(tuple(t for t in self.terms if t is not value), self.number)


def sum_of(value: SSAValue) -> Sum:
    """The sum that a value stands for, through additions, and subtractions of constants."""
    terms: list[SSAValue] = []
    number, todo = 0, [value]
    while todo:
        owner = (value := todo.pop()).owner
        if type(owner) is AddiOp:
            todo += reversed(operands_of(owner))
        elif type(owner) is SubiOp and (known := constant_index(owner.rhs)) is not None:
            number -= known
            todo.append(owner.lhs)
        elif (known := constant_index(value)) is None:
            terms.append(value)
        else:
            number += known
    return Sum(tuple(terms), number)


def is_outside(value: SSAValue, loop: ForOp) -> bool:
    """True if a value is defined before a loop."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    while block is not None:
        parent = block.parent_op()
        if parent is loop:
            return False
        block = None if parent is None else parent.parent
    return True


def known(value: SSAValue) -> Index:
    """The number that a value is, where it is known."""
    number = constant_index(value)
    return value if number is None else number


def constant_op(number: int, type: Attribute) -> ConstantOp:
    """A constant; equal ones share their attribute."""
    return created(ConstantOp, (), (type,), {"value": _attribute(number, type)})


def index_constant(number: int) -> ConstantOp:
    """A number of type index, with its name."""
    op = constant_op(number, INDEX)
    (result,) = op.results
    result.name_hint = f"c{number}" if number >= 0 else f"cm{-number}"
    return op


@lru_cache(maxsize=4096)
def _attribute(number: int, type: Attribute) -> Attribute:
    return IntegerAttr(number, cast(IndexType, type))


def arith_op(kind: type[Binary], a: SSAValue, b: SSAValue) -> Binary:
    """Create an op of `kind` on two indices. Arguments are not examined, which takes longest."""
    return created(kind, (a, b), (a.type,))


def compare_op(kind: str, a: SSAValue, b: SSAValue) -> CmpiOp:
    """A comparison of two indices, as `arith_op`: "slt" and the like."""
    predicate = _attribute(NUMBERS[kind], i64)
    return created(CmpiOp, (a, b), (i1,), {"predicate": predicate})


def erase_unused(block: Block) -> None:
    """Erase unused ops without effect, in loops and branches too, and loops and branches that then
    do nothing."""
    for op in reversed(ops_of(block)):
        if type(op) in NESTING:
            blocks = [b for region in op.regions for b in region.blocks]
            for inner in blocks:
                erase_unused(inner)
            is_unused = not op.results and all(type(b.first_op) is YieldOp for b in blocks)
        else:
            is_unused = bool(op.results) and _is_pure(type(op))
            for result in op.results:
                is_unused = is_unused and result.first_use is None
        if is_unused:
            op.detach()
            op.erase()


@cache
def _is_pure(kind: type[Operation]) -> bool:
    return kind.has_trait(NoMemoryEffect)


class Constants:
    """The constants of a program's block: those before the program or at its start, and new ones at
    its start."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.known: dict[int, SSAValue] = {}
        op = block.parent_op()
        while op is not None:
            self._knows(op)
            op = op.prev_op
        op = self.block.first_op
        while op is not None and op.results and not operands_of(op):
            self._knows(op)
            op = op.next_op

    def _knows(self, op: Operation) -> None:
        if type(op) is ConstantOp:
            (result,) = op.results
            if result.type == INDEX and (number := constant_index(result)) is not None:
                self.known.setdefault(number, result)

    def __call__(self, number: int) -> SSAValue:
        if number not in self.known:
            op, first = index_constant(number), self.block.first_op
            put_last(self.block, op) if first is None else put_before(self.block, op, first)
            (self.known[number],) = op.results
        return self.known[number]


class Emit:
    """Index arithmetic at a place, computed here as far as numbers are known."""

    def __init__(self, builder: Builder, constant: Constants) -> None:
        self.builder = builder
        self.constant = constant

    def value(self, index: Index) -> SSAValue:
        return self.constant(index) if isinstance(index, int) else index

    def _binary(self, op: type[Binary], a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return ARITHMETIC[op](a, b)
        return self.builder.insert(arith_op(op, self.value(a), self.value(b))).result

    def add(self, a: Index, b: Index) -> Index:
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._binary(AddiOp, a, b)

    def sub(self, a: Index, b: Index) -> Index:
        return a if b == 0 else self._binary(SubiOp, a, b)

    def mul(self, a: Index, b: Index) -> Index:
        return a if b == 1 else self._binary(MuliOp, a, b)

    def ceildiv(self, a: Index, b: Index) -> Index:
        return a if b == 1 else self._binary(CeilDivSIOp, a, b)

    def max(self, a: Index, b: Index) -> Index:
        return a if a is b else self._binary(MaxSIOp, a, b)

    def min(self, a: Index, b: Index) -> Index:
        return a if a is b else self._binary(MinSIOp, a, b)

    def sum(self, terms: tuple[SSAValue, ...], number: Index) -> Index:
        total: Index = 0
        for term in terms:
            total = self.add(total, term)
        return self.add(total, number)

    def mod(self, a: Index, n: int) -> Index:
        """a mod n, from 0 on for any a."""
        if n == 1:
            return 0
        if isinstance(a, int):
            return a % n
        rest = self.builder.insert(arith_op(RemSIOp, a, self.value(n))).result
        if is_natural(a):
            return rest
        again = arith_op(RemSIOp, self.value(self.add(rest, n)), self.value(n))
        return self.builder.insert(again).result


def is_natural(value: SSAValue) -> bool:
    """True if a value is known to be at least 0."""
    if (number := constant_index(value)) is not None:
        return number >= 0
    if isinstance(value.owner, Block):
        loop = value.owner.parent_op()
        return isinstance(loop, ForOp) and is_natural(loop.lb)
    return isinstance(value.owner, GROWING) and all(map(is_natural, value.owner.operands))
