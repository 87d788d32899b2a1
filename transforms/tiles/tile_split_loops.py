"""Loops of tile programs are cut where a condition on their variable changes, and the ifs go.

    scf.for %j = %c0 to %c5 step %c1 {       // four blocks, the second stage one behind the first
      %0 = arith.cmpi slt, %j, %c4 : index
      scf.if %0 {
        A(%j)
      }
      %1 = arith.cmpi sge, %j, %c1 : index
      scf.if %1 {
        B(%j)
      }
    }
becomes
    scf.for %j = %c0 to %c1 step %c1 {
      A(%j)
    }
    scf.for %j = %c1 to %c4 step %c1 {
      A(%j)
      B(%j)
    }
    scf.for %j = %c4 to %c5 step %c1 {
      B(%j)
    }

A condition compares the loop's variable, plus constants and values from before the loop, with such
a sum without the variable: slt, sle, sgt, sge, eq or ne. Where a bound is a value the loop is cut
at the value, and a part may be empty when it runs; a part that has nothing to run is no loop. Other
conditions are not changed, and neither are loops that are nowhere cut.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import CmpiOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ge.dialects.support.operation import all_ops, cloned
from ge.dialects.tile.kernel import KernelOp
from ge.runtime.library.language.arith import (
    Constants,
    Emit,
    Index,
    Sum,
    erase_unused,
    is_outside,
    known,
    sum_of,
)

EQ, NE, SLT, SLE, SGT, SGE = range(6)  # predicates of arith.cmpi
SWAPPED = {EQ: EQ, NE: NE, SLT: SGT, SLE: SGE, SGT: SLT, SGE: SLE}


@dataclass(frozen=True)
class Condition:
    """A condition that the loop's variable is at least `lower` and less than `upper` (None: any),
    or the contrary. The bounds are the same terms plus numbers."""

    terms: tuple[SSAValue, ...]
    lower: int | None
    upper: int | None
    holds: bool = True

    @property
    def bounds(self) -> Iterator[Sum]:
        return (Sum(self.terms, n) for n in (self.lower, self.upper) if n is not None)


def condition_of(op: Operation, loop: ForOp) -> Condition | None:
    """Return the condition of an if, if it is one on the loop's variable."""
    test, variable = op.operands[0].owner, loop.body.block.args[0]
    if not isinstance(test, CmpiOp) or (predicate := test.predicate.value.data) not in SWAPPED:
        return None
    left, right = sum_of(test.lhs), sum_of(test.rhs)
    if variable in right.terms:
        left, right, predicate = right, left, SWAPPED[predicate]
    rest = left.without(variable)
    if rest is None or rest.terms or not all(is_outside(t, loop) for t in right.terms):
        return None
    bound = right.number - rest.number
    match predicate:
        case 0 | 1:
            return Condition(right.terms, bound, bound + 1, predicate == EQ)
        case 2:
            return Condition(right.terms, None, bound)
        case 3:
            return Condition(right.terms, None, bound + 1)
        case 4:
            return Condition(right.terms, bound + 1, None)
        case _:
            return Condition(right.terms, bound, None)


Conditions = Sequence[Condition | None]  # of the ifs of a loop, in the order of the program


def ifs_of(loop: ForOp) -> list[Operation]:
    return [op for op in all_ops(loop.body.blocks) if type(op) is IfOp]


class LoopPart:
    """A part of a loop: a loop, and what is known about its variable: for the terms of a bound the
    largest number that it reaches and the smallest that it does not."""

    def __init__(self, loop: ForOp, constants: Constants, conditions: Conditions) -> None:
        self.loop, self.constants, self.conditions = loop, constants, conditions
        self.least: dict[tuple[SSAValue, ...], int] = {}
        self.beyond: dict[tuple[SSAValue, ...], int] = {}
        if isinstance(first := known(loop.lb), int):
            self.least[()] = first
        if isinstance(end := known(loop.ub), int):
            self.beyond[()] = end

    def reaches(self, bound: Sum) -> bool | None:
        """Return whether the variable is at least the bound; None: here and there."""
        if bound.number <= self.least.get(bound.terms, bound.number - 1):
            return True
        if bound.number >= self.beyond.get(bound.terms, bound.number + 1):
            return False
        return None

    def truth(self, condition: Condition) -> bool | None:
        found = [self.reaches(bound) for bound in condition.bounds]
        if condition.upper is not None:
            found[-1] = None if found[-1] is None else not found[-1]
        if False in found:
            return not condition.holds
        return None if None in found else condition.holds

    def undecided(self) -> Sum | None:
        """A bound at which the loop is to be cut."""
        for condition in self.conditions:
            if condition is not None and self.truth(condition) is None:
                return next(b for b in condition.bounds if self.reaches(b) is None)
        return None

    def cut(self, bound: Sum) -> "LoopPart | None":
        """Cut at a bound: this part is the one before it, the other one is returned; None if no
        step of the loop reaches the bound."""
        loop, emit = self.loop, Emit(Builder(InsertPoint.before(self.loop)), self.constants)
        begin, end, step = known(loop.lb), known(loop.ub), known(loop.step)
        end_before = dict(self.beyond)
        self.beyond[bound.terms] = bound.number
        at: Index = emit.sum(bound.terms, bound.number)
        if step != 1:
            steps = emit.ceildiv(emit.sub(at, begin), step)
            at = emit.add(begin, emit.mul(steps, step))
        at = emit.max(at, begin)
        if isinstance(at, int) and isinstance(end, int) and at >= end:
            return None
        place = emit.value(at)
        other = cloned(loop, {})
        other.operands[0] = place
        assert loop.parent is not None
        loop.parent.insert_op_after(other, loop)
        loop.operands[1] = place
        after = LoopPart(other, self.constants, self.conditions)
        after.least.update(self.least)
        after.beyond.update(end_before)
        after.least[bound.terms] = bound.number
        if isinstance(at, int):
            after.least[()] = at
            self.beyond[()] = at
        if not isinstance(at, int) or not isinstance(end, int):
            loop.operands[1] = emit.value(emit.min(place, end))
        return after

    def settle(self) -> None:
        """Replace the ifs whose conditions are decided by the ops that they run."""
        conditions = [*zip(ifs_of(self.loop), self.conditions, strict=True)]
        for op, condition in reversed(conditions):  # inner ones first
            if condition is not None and (truth := self.truth(condition)) is not None:
                inline(op, op.regions[0 if truth else 1].blocks.first)


def inline(op: Operation, block: Block | None) -> None:
    """Put the ops of a branch in the place of the if."""
    assert op.parent is not None
    for inner in [] if block is None else list(block.ops):
        if not isinstance(inner, YieldOp):
            inner.detach()
            op.parent.insert_op_before(inner, op)
    Rewriter.erase_op(op)


def split(loop: ForOp, constants: Constants) -> None:
    conditions = [condition_of(op, loop) for op in ifs_of(loop)]
    parts, todo = list[LoopPart](), [LoopPart(loop, constants, conditions)]
    while todo:
        parts.append(part := todo.pop())
        while (bound := part.undecided()) is not None:
            if (after := part.cut(bound)) is not None:
                todo.append(after)
    for part in parts:
        part.settle()


class TileSplitLoopsPass(ModulePass):
    """Cut the loops of tile programs where a condition on their variable changes."""

    name = "tile-split-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if isinstance(kernel, KernelOp):
                for program in kernel.programs:
                    ops = all_ops([program.body.block])
                    if not any(type(op) is IfOp for op in ops):
                        continue
                    constants = Constants(program.body.block)
                    loops = [op for op in ops if type(op) is ForOp]
                    for loop in reversed(loops):  # inner ones first
                        split(loop, constants)
                    erase_unused(program.body.block)
