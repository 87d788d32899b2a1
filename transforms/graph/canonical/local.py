"""Local rules: functions of one op that look at its operands, and return its replacement; the facts
of values that they ask for; and their driver, with the base of the passes that apply them.

    @rule(g.SubOp)
    def subtract_negated(op: g.SubOp, make: Make) -> Replacement:
        \"\"\"x - (-y) = x + y\"\"\"
        if isinstance(negated := op.rhs.owner, g.NegOp):
            return make(g.AddOp, op.lhs, negated.input)
        return None

`rule(..., exact=False)` marks a rule whose result is not the same bit for bit. The rule's name, by
which it is counted and disabled, is the function's: `subtract-negated`.
"""

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, ClassVar, TypeAlias, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnknownLoc, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.support.parameters import (
    Number,
    broadcasts_into,
    is_unsigned,
    splat,
)
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.element_types import is_float, is_integer, row_of
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import Canonicalized, TensorOp
from ge.dialects.support.types import (
    element_type,
    is_refinement,
    refine,
    set_type,
    shape_of,
)
from ge.transforms.graph.fold_constants import fold, fold_identity
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.counts import allows, count, disabled_at_hand
from ge.transforms.rewriting.driver import Table, enabled, erase_dead, rewrite
from ge.transforms.rewriting.passes import BitExact, Relation, Ulps

OpT = TypeVar("OpT", bound=TensorOp)

# A value for each result of the op (or the one value; None for a result without uses), None if the
# rule does not apply.
Replacement: TypeAlias = SSAValue | Sequence[SSAValue | None] | None


class LocalRule(RewritePattern):
    """A rule as a pattern of xDSL."""

    ASKS: ClassVar[bool] = True  # debug counters

    names: tuple[str, ...] = ()
    ops: tuple[type[TensorOp], ...] = ()
    below: tuple[type[TensorOp], ...] = ()
    exact: bool = True

    def __init__(self, function: Callable[[Any, Make], Replacement]) -> None:
        self.function = function

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        make = Make()
        try:
            new = self.function(op, make)
        except VerifyException:  # the new ops contradict each other: the rule does not apply
            new = None
        values = (new,) if isinstance(new, SSAValue) else new
        if values is None or not all(
            new is None or fits(new, old) for new, old in zip(values, op.results, strict=True)
        ):
            make.discard()
            return
        if not allows(self.names[0], op):
            make.discard()
            return
        for new, old in zip(values, op.results, strict=True):
            if new is not None and new.type != old.type:
                set_type(new, refine(new.type, old.type))
        replace(op, make, values, rewriter)


def fits(new: SSAValue, old: SSAValue) -> bool:
    """Return whether the types are equal, or say more or less about the same shape (a block's
    argument keeps its type)."""
    if new.type == old.type:
        return True
    return not isinstance(new.owner, Block) and is_refinement(new.type, old.type)


def replace(
    op: Operation, make: Make, values: Sequence[SSAValue | None], rewriter: PatternRewriter
) -> None:
    """Replace the op by new ones, which are where it was, and erase the ops that only it used."""
    before = [v.owner for v in op.operands]
    rewriter.replace(op, make.ops, values)
    removed = [op, *erase_dead(before, rewriter)]
    for new in make.ops:
        if isinstance(new.location, UnknownLoc):
            new.location = fuse_locations(removed)


def rule(
    *ops: type[OpT], exact: bool = True, below: tuple[type[TensorOp], ...] = ()
) -> Callable[[Callable[[OpT, Make], Replacement]], LocalRule]:
    """Make a function the rule for these op classes; with `below`, only if an operand is the result
    of an op of such a class."""

    def decorate(function: Callable[[OpT, Make], Replacement]) -> LocalRule:
        names = (function.__name__.replace("_", "-"),)
        fields: dict[str, Any] = {"names": names, "ops": ops, "below": below, "exact": exact}
        fields["__doc__"] = function.__doc__
        fields["__module__"] = function.__module__
        return type(function.__name__, (LocalRule,), fields)(function)

    return decorate


LIMIT = 1024  # bytes up to which a result becomes a constant in the IR


class Fold(RewritePattern):
    """An op that its own identities or the kernels fold. `is_settled`: ops are folded already."""

    ops = (TensorOp,)

    def __init__(self, is_settled: bool) -> None:
        self.is_settled = is_settled

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, TensorOp)
        values = fold_identity(op) or fold(op, LIMIT)
        if values is not None:
            make = Make()
            replace(op, make, [make.dense(v) for v in values], rewriter)


Family: TypeAlias = ModuleType | LocalRule  # the rules that a module defines, or one alone


@cache
def rules_of(family: Family) -> Sequence[LocalRule]:
    if isinstance(family, LocalRule):
        return [family]
    return [r for r in vars(family).values() if isinstance(r, LocalRule)]


class SimplifyTable(Table):
    """Rules of ge, and the canonicalization patterns that ops of others come with."""

    def own_patterns(self, kind: type[Operation]) -> Sequence[RewritePattern]:
        traits = kind.get_traits_of_type(HasCanonicalizationPatternsTrait)
        return [p for t in traits if not isinstance(t, Canonicalized) for p in t.get_patterns(kind)]


@lru_cache(maxsize=64)
def table_of(families: Sequence[Family], exact: bool, is_folded: bool, disabled: Hashable) -> Table:
    """The rules of `families` that are not disabled, behind folding."""
    rules = [r for m in families for r in rules_of(m) if r.exact or not exact]
    return SimplifyTable([Fold(is_folded), *enabled(rules)])


def simplify(
    scope: ModuleOp | Region,
    families: Sequence[Family],
    exact: bool = False,
    is_folded: bool = False,
) -> None:
    """Apply the rules of `families`, with `exact` only those that keep every bit, until none
    matches; new ops are folded at once. `is_folded`: other ops are, as far as they go."""
    table = table_of(tuple(families), exact, is_folded, disabled_at_hand())
    for kind, times in rewrite(scope, table).items():
        for name in kind.names if issubclass(kind, LocalRule) else ():
            count(name, times, times)


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Base of the passes that apply the local rules of their own file, and families of others.
    `exact`: only by rules that keep every bit."""

    LOCAL: ClassVar[bool] = True

    exact: bool = False
    families: ClassVar[tuple[Family, ...]] = ()
    inexact: ClassVar[Relation] = Ulps()  # the relation of rules that do not keep every bit
    root: ClassVar[type[Operation]] = Operation  # the pass does nothing without such an op

    @property
    def RELATION(self) -> Relation:
        return BitExact() if self.exact else self.inexact

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, self.root) for o in all_ops(op.body.blocks)):
            simplify(op, (sys.modules[type(self).__module__], *self.families), self.exact)


DEPTH = 4  # how far up the definitions of a value are followed


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, graph.ConstantOp)


def uniform(value: SSAValue, other: SSAValue) -> Number | None:
    """The number of a splat constant that does not change the shape of `other` in a broadcast."""
    number = splat(value)
    if number is None or not broadcasts_into(shape_of(value), shape_of(other)):
        return None
    return number


def with_constant(op: g.Binary) -> tuple[SSAValue, SSAValue] | None:
    """Operand and constant operand of a commutative op."""
    for value, other in op.sides():
        if is_constant(other) and not is_constant(value):
            return value, other
    return None


def never_negative(value: SSAValue, depth: int = DEPTH) -> bool:
    """Return whether no element is below zero or -0.0 (nan may be)."""
    element, op = element_type(value), value.owner
    if element == i1 or is_unsigned(element):
        return True
    if isinstance(op, g.AbsOp):
        return is_float(element)  # the lowest integer has no absolute value
    if isinstance(op, g.ExpOp | graph.SoftmaxOp):
        return True
    if isinstance(op, g.CastOp):
        source = element_type(op.input)
        return is_float(element) and (source == i1 or is_unsigned(source))
    if (number := splat(value)) is not None:
        return number > 0 or (number == 0 and math.copysign(1, number) > 0)
    if depth == 0 or not is_float(element):
        return False
    if isinstance(op, g.MulOp) and op.lhs is op.rhs:
        return True
    if isinstance(op, g.SqrtOp | g.RoundOp | g.FloorOp | g.CeilOp):
        return never_negative(op.input, depth - 1)
    if isinstance(op, g.AddOp | g.MulOp | g.DivOp | g.MaximumOp | g.MinimumOp):
        return all(never_negative(v, depth - 1) for v in op.operands)
    if isinstance(op, graph.ReduceOp) and op.kind.data in ("sum", "mean"):
        return never_negative(op.input, depth - 1)
    # nor of a relu: that of -0.0 is -0.0
    return isinstance(op, graph.ReduceOp) and op.kind.data in ("l1", "l2", "sum_square")


def never_negative_zero(value: SSAValue) -> bool:
    """Return whether no element is -0.0."""
    op = value.owner
    if isinstance(op, g.CastOp) and (is_integer(t := element_type(op.input)) or t == i1):
        return True
    return never_negative(value)


def is_whole(value: SSAValue) -> bool:
    """Return whether all finite elements are integers."""
    op = value.owner
    if isinstance(op, g.CastOp):
        return not is_float(element_type(op.input))
    return isinstance(op, g.FloorOp | g.CeilOp | g.RoundOp | g.SignOp)


def exact_reciprocal(number: Number, element: Attribute) -> float | None:
    """1 / number, if that is a normal number of the element type: number is a power of two."""
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return None
    return 1 / number if normal(1 / number, element) else None


def normal(number: Number, element: Attribute) -> bool:
    """Return whether a number is normal in a float type: neither zero nor infinite nor so small
    that it loses digits."""
    row = row_of(element)
    if row is None or not row.is_float or not number or not math.isfinite(number):
        return False
    bias = 2 ** (row.exponent - 1) - 1
    return 1 - bias <= math.frexp(number)[1] - 1 <= bias
