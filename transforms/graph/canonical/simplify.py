"""The driver of local rules, and the base of the passes that apply them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait

from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import Canonicalized, TensorOp
from ge.transforms.graph.canonical.local import LocalRule, Make, replace
from ge.transforms.graph.fold_constants import fold, fold_identity
from ge.transforms.rewriting.counts import count, disabled_at_hand
from ge.transforms.rewriting.driver import Table, enabled, rewrite
from ge.transforms.rewriting.relations import BitExact, Relation, Ulps

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


@cache
def rules_of(family: ModuleType) -> Sequence[LocalRule]:
    """The rules that a module defines."""
    return [r for r in vars(family).values() if isinstance(r, LocalRule)]


class SimplifyTable(Table):
    """Rules of ge, and the canonicalization patterns that ops of others come with."""

    def own_patterns(self, kind: type[Operation]) -> Sequence[RewritePattern]:
        traits = kind.get_traits_of_type(HasCanonicalizationPatternsTrait)
        return [p for t in traits if not isinstance(t, Canonicalized) for p in t.get_patterns(kind)]


@lru_cache(maxsize=64)
def table_of(
    families: Sequence[ModuleType], exact: bool, is_folded: bool, disabled: Hashable
) -> Table:
    """The rules of `families` that are not disabled, behind folding."""
    rules = [r for m in families for r in rules_of(m) if r.exact or not exact]
    return SimplifyTable([Fold(is_folded), *enabled(rules)])


def simplify(
    scope: ModuleOp | Region,
    families: Sequence[ModuleType],
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
    """Base of the passes that apply families of local rules.
    `exact`: only by rules that keep every bit."""

    LOCAL: ClassVar[bool] = True

    exact: bool = False
    families: ClassVar[tuple[ModuleType, ...]]
    inexact: ClassVar[Relation] = Ulps()  # the relation of rules that do not keep every bit
    root: ClassVar[type[Operation]] = Operation  # the pass does nothing without such an op

    @property
    def RELATION(self) -> Relation:
        return BitExact() if self.exact else self.inexact

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, self.root) for o in all_ops(op.body.blocks)):
            simplify(op, self.families, self.exact)
