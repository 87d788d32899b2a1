"""Local rules: functions of one op that look at its operands, and return what it becomes.

    @rule(g.SubOp)
    def subtract_negated(op: g.SubOp, make: Make) -> Replacement:
        \"\"\"x - (-y) = x + y\"\"\"
        if isinstance(negated := op.rhs.owner, g.NegOp):
            return make(g.AddOp, op.lhs, negated.input)
        return None

`rule(..., exact=False)` marks a rule whose result is not the same bit for bit. The rule's name, by
which it is counted and disabled, is the function's: `subtract-negated`.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.folding import Number, constants
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, is_refinement, refine, set_type, tensor
from ge.runtime.data.arrays import array_of, type_of
from ge.transforms.rewriting.debug_counters import allows

OpT = TypeVar("OpT", bound=TensorOp)

# A value for each result of the op (or the one value; None for a result without uses), None if the
# rule does not apply.
Replacement: TypeAlias = SSAValue | Sequence[SSAValue | None] | None


class Make:
    """Creates the ops of a replacement; they are inserted when the rule has returned."""

    def __init__(self) -> None:
        self.ops: list[TensorOp] = []

    def op(self, kind: type[OpT], /, *operands: Any, **params: Any) -> OpT:
        new = kind.of(*operands, **params)
        self.ops.append(new)
        return new

    def __call__(self, kind: type[TensorOp], /, *operands: Any, **params: Any) -> SSAValue:
        """Create `kind.of(...)`; returns its first result."""
        return self.op(kind, *operands, **params).results[0]

    def constant(self, number: Number, element: Attribute, shape: Sequence[int] = ()) -> SSAValue:
        folded = constants(number, tensor(shape, element))
        assert folded is not None
        return self.dense(folded[0])

    def dense(self, value: SSAValue | Attribute) -> SSAValue:
        if isinstance(value, SSAValue):
            return value
        new = ConstantOp.make(value, type_of(array_of(cast(Dense, value))))
        self.ops.append(new)
        return new.result

    def discard(self) -> None:
        while self.ops:
            self.ops.pop().erase()


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
    """Whether the types are equal, or tell more or less about the same shape (a block's argument
    keeps its type)."""
    if new.type == old.type:
        return True
    return not isinstance(new.owner, Block) and is_refinement(new.type, old.type)


def replace(
    op: Operation, make: Make, values: Sequence[SSAValue | None], rewriter: PatternRewriter
) -> None:
    """Replace the op by new ones, which are where it was, and erase the ops that only it used."""
    todo, removed = [v.owner for v in op.operands], [op]
    rewriter.replace(op, make.ops, values)
    while todo:
        dead = todo.pop()
        if (
            isinstance(dead, Operation)
            and dead.parent is not None
            and all(r.first_use is None for r in dead.results)
            and is_side_effect_free(dead)
        ):
            todo.extend(v.owner for v in dead.operands)
            removed.append(dead)
            rewriter.erase(dead)
    for new in make.ops:
        if isinstance(new.location, UnknownLoc):
            new.location = fuse_locations(removed)


def rule(
    *ops: type[OpT], exact: bool = True, below: tuple[type[TensorOp], ...] = ()
) -> Callable[[Callable[[OpT, Make], Replacement]], LocalRule]:
    """Make a function the rule for these op classes; with `below`, for those alone of which an
    operand is the result of an op of such a class."""

    def decorate(function: Callable[[OpT, Make], Replacement]) -> LocalRule:
        names = (function.__name__.replace("_", "-"),)
        fields: dict[str, Any] = {"names": names, "ops": ops, "below": below, "exact": exact}
        fields["__doc__"] = function.__doc__
        fields["__module__"] = function.__module__
        return type(function.__name__, (LocalRule,), fields)(function)

    return decorate
