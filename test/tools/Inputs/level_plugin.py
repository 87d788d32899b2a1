"""A plugin for tests: a dialect, and passes that run in the default pipeline."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyTensorTypeConstr, ModuleOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import PassFailedException

from ge.dialects.graph.elementwise import AddOp, SinOp
from ge.lowering.plugins.extensions import register_pass
from ge.transforms.rewriting.driver import rewrite


@irdl_op_definition
class DoubleOp(IRDLOperation):
    """x + x"""

    name = "half.double"
    input = operand_def(AnyTensorTypeConstr)
    result = result_def(AnyTensorTypeConstr)
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"


Half = Dialect("half", [DoubleOp])


class DoubleToAdd(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DoubleOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, AddOp.of(op.input, op.input))


@dataclass(frozen=True)
class LowerHalfPass(ModulePass):
    """Write half.double as graph.add."""

    name = "lower-half"
    LEVEL: ClassVar = "graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [DoubleToAdd()])


@register_pass
@dataclass(frozen=True)
class RefuseSinPass(ModulePass):
    """Fail at graph.sin."""

    name = "refuse-sin"
    LEVEL: ClassVar = "fused"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for o in op.walk():
            if isinstance(o, SinOp):
                raise PassFailedException("no sines here")


@dataclass(frozen=True)
class NotByItselfPass(ModulePass):
    """Fail; it states no level, so that it only runs when it is asked for."""

    name = "not-by-itself"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise AssertionError
