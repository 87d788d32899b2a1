"""Local rules: functions that look at one op and at what it uses, and say what it becomes.

    @rule(g.SubOp)
    def subtract_negated(op: g.SubOp, make: Make) -> Replacement:
        \"\"\"x - (-y) = x + y\"\"\"
        if isinstance(negated := op.rhs.owner, g.NegOp):
            return make(g.AddOp, op.lhs, negated.input)
        return None

`rule(..., exact=False)` marks a rule whose result is not the same bit for bit. The rule's name, by
which it is counted and switched off, is the function's: `subtract-negated`. `rules_of` collects
the rules of modules; `rewriting.rewrite` applies them.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias, TypeVar, cast

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.folding import Number, constants
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, is_refinement, set_type, tensor
from ge.runtime.data.arrays import array_of, type_of
from ge.transforms.graph.infer_shapes import refine
from ge.transforms.rewriting.counts import is_enabled

OpT = TypeVar("OpT", bound=TensorOp)

Replacement: TypeAlias = SSAValue | Sequence[SSAValue | None] | None
"""A value for each result of the op (or the one value; None for a result that nobody uses), None
where the rule does not apply."""


class Make:
    """Makes the ops that a rule needs; they are inserted once the rule has come to its end."""

    def __init__(self) -> None:
        self.ops: list[TensorOp] = []

    def op(self, kind: type[OpT], /, *operands: Any, **params: Any) -> OpT:
        """An op as by `TensorOp.of`."""
        made = kind.of(*operands, **params)
        self.ops.append(made)
        return made

    def __call__(self, kind: type[TensorOp], /, *operands: Any, **params: Any) -> SSAValue:
        """The result of an op as by `TensorOp.of`."""
        return self.op(kind, *operands, **params).results[0]

    def constant(self, number: Number, element: Attribute, shape: Sequence[int] = ()) -> SSAValue:
        """A constant all of whose elements are `number`."""
        folded = constants(number, tensor(shape, element))
        assert folded is not None
        return self.dense(folded[0])

    def dense(self, value: SSAValue | Attribute) -> SSAValue:
        """The constant with these elements; a value as it is."""
        if isinstance(value, SSAValue):
            return value
        made = ConstantOp.make(value, type_of(array_of(cast(Dense, value))))
        self.ops.append(made)
        return made.result

    def discard(self) -> None:
        """Forget all of it."""
        while self.ops:
            self.ops.pop().erase()


class LocalRule(RewritePattern):
    """A rule as a pattern of xDSL."""

    name: str = ""
    ops: tuple[type[TensorOp], ...] = ()
    exact: bool = True

    def __init__(self, function: Callable[[Any, Make], Replacement]) -> None:
        self.function = function

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        make = Make()
        try:
            found = self.function(op, make)
        except VerifyException:  # what the rule makes does not fit together: it does not apply
            found = None
        values = (found,) if isinstance(found, SSAValue) else found
        if values is None or not all(
            new is None or fits(new, old) for new, old in zip(values, op.results, strict=True)
        ):
            make.discard()
            return
        for new, old in zip(values, op.results, strict=True):
            if new is not None and new.type != old.type:
                set_type(new, refine(new.type, old.type))
        operands = list(op.operands)
        rewriter.replace(op, make.ops, values)
        erase_unused(operands, rewriter)


def fits(new: SSAValue, old: SSAValue) -> bool:
    """Whether one value may stand for the other: equal types, or types that tell more or less
    about the same shape (a block's argument keeps its type)."""
    if new.type == old.type:
        return True
    return not isinstance(new.owner, Block) and is_refinement(new.type, old.type)


def erase_unused(values: Sequence[SSAValue], rewriter: PatternRewriter) -> None:
    """Erase the ops that define the values, and what they use, where nobody needs them."""
    todo = [v.owner for v in values]
    while todo:
        op = todo.pop()
        if (
            isinstance(op, Operation)
            and op.parent is not None
            and all(r.first_use is None for r in op.results)
            and is_side_effect_free(op)
        ):
            todo.extend(v.owner for v in op.operands)
            rewriter.erase(op)


def rule(
    *ops: type[OpT], exact: bool = True
) -> Callable[[Callable[[OpT, Make], Replacement]], LocalRule]:
    """Make a function the rule for these op classes."""

    def decorate(function: Callable[[OpT, Make], Replacement]) -> LocalRule:
        name = function.__name__.replace("_", "-")
        fields = {"name": name, "ops": ops, "exact": exact, "__doc__": function.__doc__}
        return type(function.__name__, (LocalRule,), fields)(function)

    return decorate


def rules_of(*modules: ModuleType, exact: bool = False) -> list[LocalRule]:
    """The rules that modules define, in order, but for those that are switched off; with `exact`
    only those that keep every bit."""
    found = [r for m in modules for r in vars(m).values() if isinstance(r, LocalRule)]
    return [r for r in found if (r.exact or not exact) and is_enabled(r.name)]
