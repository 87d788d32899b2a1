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
conditions stay as they are, and so do the loops that are nowhere cut.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import CmpiOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ge.dialects.support.operation import (
    all_ops,
    created,
    initialize,
    operands_of,
    ops_of,
    put_last,
)
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
    """Whether the loop's variable is at least `lower` and less than `upper` (None: any), or the
    contrary. The bounds are the same terms plus numbers."""

    terms: tuple[SSAValue, ...]
    lower: int | None
    upper: int | None
    holds: bool = True

    @property
    def bounds(self) -> Iterator[Sum]:
        return (Sum(self.terms, n) for n in (self.lower, self.upper) if n is not None)


def condition_of(op: IfOp, loop: ForOp) -> Condition | None:
    """The condition of an if, where it is one on the loop's variable."""
    test, variable = op.cond.owner, loop.body.block.args[0]
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


Conditions = dict[IfOp, Condition]  # of a loop, in the order of the program


class Part:
    """A part of a loop: a loop, and what is known about its variable: for the terms of a bound the
    largest number that it reaches and the smallest that it does not. Its body is filled last."""

    def __init__(self, loop: ForOp, constants: Constants, conditions: Conditions) -> None:
        self.loop, self.constants, self.conditions = loop, constants, conditions
        self.least: dict[tuple[SSAValue, ...], int] = {}
        self.beyond: dict[tuple[SSAValue, ...], int] = {}
        if isinstance(first := known(loop.lb), int):
            self.least[()] = first
        if isinstance(end := known(loop.ub), int):
            self.beyond[()] = end

    def reaches(self, bound: Sum) -> bool | None:
        """Whether the variable is at least the bound; None: here and there."""
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
        for condition in self.conditions.values():
            if self.truth(condition) is None:
                return next(b for b in condition.bounds if self.reaches(b) is None)
        return None

    def cut(self, bound: Sum) -> "Part | None":
        """Cut at a bound: this part is what comes before, the other one is returned; None where no
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
        other = created(ForOp, (place, loop.ub, loop.step), regions=(Region(Block()),))
        other.location = loop.location
        assert loop.parent is not None
        loop.parent.insert_op_after(other, loop)
        loop.operands[1] = place
        after = Part(other, self.constants, self.conditions)
        after.least.update(self.least)
        after.beyond.update(end_before)
        after.least[bound.terms] = bound.number
        if isinstance(at, int):
            after.least[()] = at
            self.beyond[()] = at
        if not isinstance(at, int) or not isinstance(end, int):
            loop.operands[1] = emit.value(emit.min(place, end))
        return after

    def branches(self) -> dict[Operation, Block | None]:
        """What the ifs run whose conditions are decided."""
        found: dict[Operation, Block | None] = {}
        for op, condition in self.conditions.items():
            if (truth := self.truth(condition)) is not None:
                found[op] = (op.true_region if truth else op.false_region).blocks.first
        return found

    def settle(self) -> None:
        """Replace the ifs whose conditions are decided by what they run."""
        found = self.branches()
        for op in reversed(found):  # inner ones first, before the outer one is erased with them
            inline(op, found[op])


def inline(op: Operation, block: Block | None) -> None:
    """Put what a branch runs in the place of the if."""
    assert op.parent is not None
    for inner in [] if block is None else list(block.ops):
        if not isinstance(inner, YieldOp):
            inner.detach()
            op.parent.insert_op_before(inner, op)
    Rewriter.erase_op(op)


@dataclass(frozen=True)
class Copier:
    """Copies the body of a loop, of some ifs only what they run."""

    branches: Mapping[Operation, Block | None]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def fill(self, target: Block, source: Block) -> None:
        """Make an empty block a copy of another one."""
        for arg in source.args:
            new = self.values[arg] = target.insert_arg(arg.type, arg.index)
            new.name_hint = arg.name_hint
        self.add(target, source)

    def add(self, target: Block, source: Block) -> None:
        """Add copies of the ops of a block to another one."""
        for op in ops_of(source):
            if op not in self.branches:
                put_last(target, self.copy(op))
            elif (branch := self.branches[op]) is not None:
                self.add(target, branch)
                if (last := target.last_op) is not None and isinstance(last, YieldOp):
                    last.detach()
                    last.erase()

    def copy(self, op: Operation) -> Operation:
        new, values = op.__new__(type(op)), self.values
        regions = [Region([Block() for _ in region.blocks]) for region in op.regions]
        types = [result.type for result in op.results]
        operands = [values.get(v, v) for v in operands_of(op)]
        initialize(new, operands, types, {**op.properties}, {**op.attributes}, regions)
        new.location = op.location
        for result, other in zip(op.results, new.results, strict=True):
            values[result] = other
            other.name_hint = result.name_hint
        for region, other in zip(op.regions, regions, strict=True):
            for block, empty in zip(region.blocks, other.blocks, strict=True):
                self.fill(empty, block)
        return new


def split(loop: ForOp, constants: Constants) -> None:
    ifs = [op for op in all_ops(loop.body.blocks) if type(op) is IfOp]
    found = ((op, condition_of(op, loop)) for op in ifs)
    conditions = {op: condition for op, condition in found if condition is not None}
    first = Part(loop, constants, conditions)
    parts, todo = list[Part](), [first]
    while todo:
        parts.append(part := todo.pop())
        while (bound := part.undecided()) is not None:
            if (after := part.cut(bound)) is not None:
                todo.append(after)
    for part in parts[1:]:
        Copier(part.branches()).fill(part.loop.body.block, loop.body.block)
    first.settle()


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
                    constants = Constants(program)
                    loops = [op for op in ops if type(op) is ForOp]
                    for loop in reversed(loops):  # inner ones first
                        split(loop, constants)
                    erase_unused(program.body.block)
