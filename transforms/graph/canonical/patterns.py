"""The rules of `simplify-algebra` and `simplify-movement` as canonicalization patterns of xDSL."""

from functools import cache

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import IsolatedFromAbove

from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import NotStatic
from ge.transforms.graph.canonical import commutation
from ge.transforms.graph.canonical.local import LocalRule
from ge.transforms.graph.canonical.simplify import table_of
from ge.transforms.graph.simplify_algebra import SimplifyAlgebraPass
from ge.transforms.graph.simplify_movement import SimplifyMovementPass
from ge.transforms.rewriting.counts import count, disabled_at_hand

FAMILIES = (commutation, *SimplifyMovementPass.families, *SimplifyAlgebraPass.families)


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
