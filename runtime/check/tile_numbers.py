"""Stores at places that depend on numbers which a kernel reads: proof that no two of them meet,
whatever the numbers are.

A proof walks a kernel for some of the numbers that it may read; for others, this
module says where its stores go, by sums of the facts known of each value (loops, cores,
remainders), dimension by dimension of the memref that is stored to:

    group    between two neighbours of numbers that ascend: from offsets[i] on, and ending at
             offsets[i + 1] or before. Groups have no elements in common
    slot     the n elements from n * number on, or some of them: another number, another slot. Where
             numbers are distinct, no two are the same, if which of them does not depend on others
    moved    a number is one for all that is stored there: one of the kernel's, or that of the row
             of another dimension. All places move by as many elements; those apart stay so

A slot of numbers that are not distinct may be any of its dimension: cores are compared so, and
stores of one core there are in its order. All else may lie half over what another store wrote,
and is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from xdsl.dialects.arith import (
    AddiOp,
    CeilDivSIOp,
    FloorDivSIOp,
    MaxSIOp,
    MinSIOp,
    MuliOp,
    RemSIOp,
    SubiOp,
)
from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.tile.buffers import ReadOp, ViewOp, box_of, constant_index
from ge.dialects.tile.kernel import CoreOp, CoresOp, KernelOp, PartOp
from ge.dialects.tile.transfers import StoreOp

COMPUTED = (CeilDivSIOp, FloorDivSIOp, MaxSIOp, MinSIOp, MuliOp, RemSIOp)
MOST_STEPS = 12  # values that are replaced by their bounds, one after the other

Atom: TypeAlias = Any
"""What equal values have in common: a value, or an op's name and what its operands add up to."""


@dataclass(frozen=True)
class LinearExpression:
    """A number, and values with factors."""

    terms: Mapping[Atom, int]
    number: int = 0

    @cached_property
    def key(self) -> Any:
        return frozenset(self.terms.items()), self.number

    def plus(self, other: "LinearExpression", factor: int = 1) -> "LinearExpression":
        terms = dict(self.terms)
        for atom, n in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * n
        kept = {atom: n for atom, n in terms.items() if n}
        return LinearExpression(kept, self.number + factor * other.number)

    def minus(self, other: "LinearExpression") -> "LinearExpression":
        return self.plus(other, -1)


def constant(number: int) -> LinearExpression:
    return LinearExpression({}, number)


@dataclass
class IndexValues:
    """The sums that the index values of a kernel stand for, and the values that bound them."""

    kernel: KernelOp
    known: dict[SSAValue, LinearExpression] = field(
        default_factory=dict[SSAValue, LinearExpression]
    )
    of_atom: dict[Atom, SSAValue] = field(default_factory=dict[Atom, SSAValue])

    def sum(self, value: SSAValue) -> LinearExpression:
        if value not in self.known:
            self.known[value] = self._sum(value)
        return self.known[value]

    def _sum(self, value: SSAValue) -> LinearExpression:
        owner = value.owner
        if (number := constant_index(value)) is not None:
            return constant(number)
        if isinstance(owner, AddiOp | SubiOp | MuliOp):
            a, b = map(self.sum, owner.operands)
            if not isinstance(owner, MuliOp):
                return a.plus(b, 1 if isinstance(owner, AddiOp) else -1)
            if not a.terms or not b.terms:
                a, factor = (b, a.number) if not a.terms else (a, b.number)
                return constant(0).plus(a, factor)
        atom: Atom = value
        if isinstance(owner, Operation):
            source = owner.source if isinstance(owner, ReadOp) else None
            operands = [o for o in owner.operands if o is not source]
            atom = owner.name, source, *(self.sum(o).key for o in operands)
        self.of_atom.setdefault(atom, value)
        return LinearExpression({atom: 1})

    def is_natural(self, total: LinearExpression, steps: int = MOST_STEPS) -> bool:
        """True if a sum is at least 0, for any core and any numbers that are read. Values are
        replaced by their bounds, those that others are bounds of last."""
        if not total.terms:
            return total.number >= 0
        if not steps:
            return False
        atom = max(total.terms, key=self.depth)
        factor = total.terms[atom]
        rest = total.minus(LinearExpression({atom: factor}))
        bounds = self.least(atom) if factor > 0 else self.most(atom)
        return any(
            factor % scale == 0 and self.is_natural(rest.plus(bound, factor // scale), steps - 1)
            for scale, bound in bounds
        )

    def depth(self, atom: Atom) -> tuple[int, int]:
        """Depth of a value: more for values computed of others, and for inner loops."""
        value, loops = self.of_atom[atom], 0
        op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        while op is not None:
            loops += isinstance(op, ForOp)
            op = op.parent_op()
        return (2 if isinstance(value.owner, COMPUTED) else int(loop_of(value) is not None)), loops

    def least(self, atom: Atom) -> Iterator[tuple[int, LinearExpression]]:
        """Sums that are at most so many times a value."""
        value = self.of_atom[atom]
        owner = value.owner
        if (loop := loop_of(value)) is not None:
            yield 1, self.sum(loop.lb)
        elif isinstance(owner, ReadOp):
            yield 1, constant(owner.span[0])
        elif isinstance(owner, MaxSIOp):
            yield from ((1, self.sum(o)) for o in owner.operands)
        elif isinstance(owner, RemSIOp) and (n := constant_index(owner.rhs)):
            yield 1, constant(0 if self.is_natural(self.sum(owner.lhs)) else 1 - abs(n))
        elif isinstance(owner, COMPUTED):
            n = constant_index(owner.operands[1])
            if isinstance(owner, FloorDivSIOp) and n is not None and n > 0:
                yield n, self.sum(owner.lhs).plus(constant(1 - n))
            if all(self.is_natural(self.sum(o)) for o in owner.operands):
                yield 1, constant(0)
        elif isinstance(owner, CoreOp | PartOp):
            yield 1, constant(0)
        elif isinstance(owner, CoresOp):
            yield 1, constant(self.kernel.core_count)

    def most(self, atom: Atom) -> Iterator[tuple[int, LinearExpression]]:
        """Sums that are at least so many times a value."""
        value = self.of_atom[atom]
        owner = value.owner
        if (loop := loop_of(value)) is not None:
            yield 1, self.sum(loop.ub).minus(constant(1))
        elif isinstance(owner, ReadOp):
            yield 1, constant(owner.span[-1])
        elif isinstance(owner, MinSIOp):
            yield from ((1, self.sum(o)) for o in owner.operands)
        elif isinstance(owner, RemSIOp) and (n := constant_index(owner.rhs)):
            yield 1, constant(abs(n) - 1)
        elif isinstance(owner, FloorDivSIOp) and (n := constant_index(owner.rhs)) and n > 0:
            yield n, self.sum(owner.lhs)
        elif isinstance(owner, CoreOp | CoresOp):
            yield 1, constant(self.kernel.core_count - isinstance(owner, CoreOp))


def loop_of(value: SSAValue) -> ForOp | None:
    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return loop if isinstance(loop, ForOp) else None


@dataclass
class StoredPlaces:
    """The stores of a kernel whose places depend on numbers that it reads. `anywhere`: those that
    may be elsewhere for other numbers, with the dimensions along which they may be at any place
    (along others they may end later); `refused`: those that may lie half over another one;
    `groups`: the memrefs of the numbers that separate the stored elements."""

    kernel: KernelOp
    anywhere: dict[StoreOp, frozenset[int]] = field(default_factory=dict[StoreOp, frozenset[int]])
    refused: list[tuple[StoreOp, SSAValue]] = field(default_factory=list[tuple[StoreOp, SSAValue]])
    groups: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])

    def __post_init__(self) -> None:
        self.values = IndexValues(self.kernel)
        self.below: dict[SSAValue, frozenset[ReadOp]] = {}
        ops = [*self.kernel.walk()]
        self.pairs = [*self.neighbours([op for op in ops if isinstance(op, ReadOp)])]
        by_memref: dict[SSAValue, list[StoreOp]] = {}
        for op in ops:
            if isinstance(op, StoreOp) and not op.is_atomic:
                by_memref.setdefault(box_of(op.target).source, []).append(op)
        for stores in by_memref.values():
            self.find(stores)

    def find(self, stores: Sequence[StoreOp]) -> None:
        """Classify the stores to one memref; if their kinds differ, or not all depend on numbers,
        each may be anywhere."""
        found = [{d: self.kind(box_of(op.target), d) for d in self.dims(op)} for op in stores]
        alike = len({frozenset(kinds.items()) for kinds in found}) == 1
        for op, kinds in zip(stores, found, strict=True):
            for dim, kind in kinds.items():
                if kind == REFUSED:
                    self.refused.append((op, box_of(op.target).offsets[dim]))
            loose = [d for d, kind in kinds.items() if kind == ANY or not alike]
            ends = enumerate(box_of(op.target).ends)
            if loose or any(self.reads(e) and kinds.get(d, ANY)[0] != "group" for d, e in ends):
                self.anywhere[op] = frozenset(loose)

    def dims(self, op: StoreOp) -> list[int]:
        """Along which the place of a store depends on numbers that are read."""
        return [d for d, o in enumerate(box_of(op.target).offsets) if self.reads(o)]

    def reads(self, value: SSAValue) -> frozenset[ReadOp]:
        """The numbers in device memory that a value depends on. Ends of loops are taken at the
        largest numbers, which those that ascend are not all at once."""
        if value not in self.below:
            owner, loop = value.owner, loop_of(value)
            if isinstance(owner, ReadOp):
                found = frozenset([owner])
            elif loop is not None:
                found = self.reads(loop.lb) | self.reads(loop.step)
                found |= {op for op in self.reads(loop.ub) if op.ascending is not None}
            elif isinstance(owner, Operation):
                found = frozenset[ReadOp]().union(*map(self.reads, owner.operands))
            else:
                found = frozenset[ReadOp]()
            self.below[value] = found
        return self.below[value]

    def neighbours(
        self, reads: Sequence[ReadOp]
    ) -> Iterator[tuple[LinearExpression, LinearExpression, SSAValue]]:
        """Pairs of numbers that follow each other in a memref whose numbers ascend."""
        ascending = [op for op in reads if op.ascending is not None]
        for low in ascending:
            for high in ascending:
                if low.source is high.source:
                    (i,), (j,) = (map(self.values.sum, op.offsets) for op in (low, high))
                    if j.minus(i) == constant(1):
                        yield self.values.sum(low.result), self.values.sum(high.result), low.source

    # ---- along one dimension

    def kind(self, view: ViewOp, dim: int) -> Any:
        """The kind of a store along a dimension; equal for those that it holds for together."""
        values, size = self.values, view.box_sizes[dim]
        start = values.sum(view.offsets[dim])
        ends = [start.plus(constant(size)), *map(values.sum, view.ends[dim : dim + 1])]
        for low, high, numbers in self.pairs:
            above = values.is_natural(start.minus(low))
            if above and any(values.is_natural(high.minus(end)) for end in ends):
                self.groups[numbers] = None
                return "group", numbers
        for atom, factor in start.terms.items():
            read = values.of_atom[atom].owner
            if isinstance(read, ReadOp) and factor > 0 and read.distinct is not None:
                rest = start.minus(LinearExpression({atom: factor}))
                fits = values.is_natural(constant(factor - size).minus(rest))
                if fits and values.is_natural(rest) and self.is_one(rest):
                    return "slot", read.source, factor
        if (moved := self.moved(view, dim, start)) is not None:
            return "moved", moved
        return ANY if size == 1 or self.in_slots(start, size) else REFUSED

    def is_one(self, total: LinearExpression) -> bool:
        """True if the numbers that a sum depends on are the same wherever it is computed."""
        reads = frozenset[ReadOp]().union(
            *(self.reads(self.values.of_atom[a]) for a in total.terms)
        )
        return all(not self.values.sum(o).terms for op in reads for o in op.offsets)

    def in_slots(self, start: LinearExpression, size: int) -> bool:
        """True if places are as many elements apart as are stored, or a multiple of them."""
        return not start.number % size and not any(n % size for n in start.terms.values())

    def moved(self, view: ViewOp, dim: int, start: LinearExpression) -> Any:
        """The numbers that a place begins with, where all places of a row of the other dimensions
        do; None where it is not so."""
        others = {
            self.values.sum(offset).key: d
            for d, offset in enumerate(view.offsets)
            if d != dim and view.box_sizes[d] == 1 and not self.reads(offset)
        }
        found = set[Any]()
        for atom, factor in start.terms.items():
            value = self.values.of_atom[atom]
            if not self.reads(value):
                continue
            if not isinstance(read := value.owner, ReadOp):
                return None
            places = [self.values.sum(o) for o in read.offsets]
            if not all(not p.terms or p.key in others for p in places):
                return None
            rows = ((others[p.key], "") if p.terms else (p.number,) for p in places)
            found.add((read.source, factor, *rows))
        return frozenset(found)


ANY, REFUSED = "any", "refused"
