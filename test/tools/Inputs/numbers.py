"""A plugin for tests of --validate: passes that change numbers."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp
from ge.lowering.plugins.extensions import register_pass
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.passes import BitExact, Relation, Ulps


class DropZero(RewritePattern):
    """x + 0 -> x, wrong for -0. (No other constant is added in the tests.)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(op.rhs.owner, ConstantOp):
            rewriter.replace(op, [], [op.lhs])


class Regroup(RewritePattern):
    """(a + b) + c -> a + (b + c)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        inner = op.lhs.owner
        if isinstance(inner, AddOp):
            right = AddOp.of(inner.rhs, op.rhs)
            rewriter.replace(op, [right, AddOp.of(inner.lhs, right.result)])


@register_pass
@dataclass(frozen=True)
class DropZeroPass(ModulePass):
    """Remove additions of zero."""

    name = "drop-zero"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [DropZero()])


@register_pass
@dataclass(frozen=True)
class RegroupPass(ModulePass):
    """Add from the right."""

    name = "regroup"
    exact: bool = False
    """Whether to claim that every bit stays."""

    @property
    def RELATION(self) -> Relation:
        return BitExact() if self.exact else Ulps(4)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [Regroup()])
