"""A dialect with one op, and a pass from the graph dialect to it."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyTensorTypeConstr, FloatAttr, ModuleOp, f64
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ge.dialects.graph.elementwise import AbsOp
from ge.transforms.rewriting.driver import rewrite


@irdl_op_definition
class ClippedOp(IRDLOperation):
    """min(|x|, limit)"""

    name = "acme.clipped"
    input = operand_def(AnyTensorTypeConstr)
    result = result_def(AnyTensorTypeConstr)
    limit = prop_def(FloatAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"


Acme = Dialect("acme", [ClippedOp])


@dataclass(frozen=True)
class AbsToClipped(RewritePattern):
    limit: float

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AbsOp, rewriter: PatternRewriter, /) -> None:
        clipped = ClippedOp.build(
            operands=[op.input],
            result_types=[op.result.type],
            properties={"limit": FloatAttr(self.limit, f64)},
        )
        rewriter.replace(op, clipped)


@dataclass(frozen=True)
class AcmeAbsPass(ModulePass):
    """Use the clipped unit of Acme's NPU for |x|."""

    name = "acme-abs"
    limit: float = 6.0
    """Where it clips."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [AbsToClipped(self.limit)])
