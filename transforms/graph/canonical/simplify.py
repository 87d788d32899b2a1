"""Rules of several families applied until none does; what they make folds at once."""

from collections.abc import Sequence
from types import ModuleType

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from ge.dialects.support.tensor_op import TensorOp
from ge.transforms.graph.canonical.local import LocalRule, Make, erase_unused, rules_of
from ge.transforms.graph.fold_constants import fold, fold_identity
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.driver import rewrite

LIMIT = 1024
"""Bytes up to which a result becomes a constant in the text."""


class Fold(RewritePattern):
    """An op that its own identities or the kernels fold."""

    ops = (TensorOp,)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, TensorOp)
        values = fold_identity(op) or fold(op, LIMIT)
        if values is None:
            return
        make = Make()
        operands: list[SSAValue] = list(op.operands)
        results = [make.dense(v) for v in values]
        rewriter.replace(op, make.ops, results)
        erase_unused(operands, rewriter)


def simplify(module: ModuleOp, families: Sequence[ModuleType], exact: bool = False) -> int:
    """Apply the rules of `families` to the whole module; returns how often rules were applied.
    With `exact` only rules that keep every bit."""
    rules = rules_of(*families, exact=exact)
    applied = 0
    for kind, times in rewrite(module, [Fold(), *rules]).items():
        if issubclass(kind, LocalRule):
            count(kind.name, times, times)
            applied += times
    return applied
