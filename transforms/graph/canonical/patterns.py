"""The rules of `simplify-algebra` and `simplify-movement` as canonicalization patterns of xDSL; and
one that these alone have: constants stand on the right, so that equal ops look equal.
"""

from functools import cache
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import IsolatedFromAbove

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, AndOp, MulOp, OrOp, XorOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import NotStatic
from ge.transforms.graph.canonical.local import LocalRule, Replacement, rule, table_of
from ge.transforms.graph.simplify_algebra import SimplifyAlgebraPass
from ge.transforms.graph.simplify_movement import SimplifyMovementPass
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.counts import count, disabled_at_hand

Swappable: TypeAlias = AddOp | MulOp | AndOp | OrOp | XorOp


@rule(AddOp, MulOp, AndOp, OrOp, XorOp, below=(ConstantOp,))
def constant_right(op: Swappable, make: Make) -> Replacement:
    """c + x = x + c, where c alone is a constant"""
    if isinstance(op.lhs.owner, ConstantOp) and not isinstance(op.rhs.owner, ConstantOp):
        return make(type(op), op.rhs, op.lhs)
    return None


FAMILIES = (constant_right, *SimplifyMovementPass.families, *SimplifyAlgebraPass.families)


class Canonicalize(RewritePattern):
    """Folds an op, or applies the first of the rules that keep every bit which matches. Bodies of
    fused ops and kernels stay: they are what was chosen for one launch."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        around = op.parent_op()
        if around is None or (
            around.has_trait(IsolatedFromAbove) and not isinstance(around, FuncOp)
        ):
            return
        for pattern in table_of(FAMILIES, True, False, disabled_at_hand()).of(op):
            try:
                pattern.match_and_rewrite(op, rewriter)
            except NotStatic:
                continue  # the rule looks at shapes that are not known
            if rewriter.has_done_action:
                for name in pattern.names if isinstance(pattern, LocalRule) else ():
                    count(name)
                return


@cache
def patterns_of(kind: type[Operation]) -> tuple[RewritePattern, ...]:
    """The canonicalization patterns of an op class."""
    return (Canonicalize(),) if issubclass(kind, TensorOp) else ()
