"""Composites between a cast up to f32 and a cast down again are computed in 16 bits.

    %0 = graph.cast %x to f32
    %1 = graph.softmax %0
    %2 = graph.cast %1 to f16
becomes
    %2 = graph.softmax %x

A composite of 16-bit floats is computed in float32 and rounded once, which is just what the
casts around it say: the result is the same to the bit.
"""

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.elementwise import CastOp
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.element_types import is_narrow
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, set_type, shape_of, tensor
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.passes import FunctionPass
from ge.transforms.rewriting.rules import Search, substitute


def before_widening(value: SSAValue) -> SSAValue:
    """The 16-bit value that was cast to f32 for this one, else the value itself."""
    op = value.owner
    if isinstance(op, CastOp) and op.to == f32 and is_narrow(element_type(op.input)):
        return op.input
    return value


class NarrowComputation(Search):
    """A cast down of a function of a cast up."""

    names = ("narrow-computation",)
    ops = (CastOp,)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, CastOp)
        inner = op.input.owner
        if not (
            is_narrow(op.to)
            and isinstance(inner, TensorOp)
            and (data := inner.ROUNDED_ONCE)
            and element_type(op.input) == f32
            and op.input.has_one_use()
            and inner.parent is op.parent
        ):
            return
        operands = [before_widening(o) for o in inner.operands]
        if isinstance(inner, AttentionOp):  # to add a mask of 16 bits would round the scores
            operands[data:] = inner.operands[data:]
        if any(element_type(o) != op.to for o in operands[:data]):
            return
        new = inner.clone(dict(zip(inner.operands, operands, strict=True)))
        (result,) = new.results
        set_type(result, tensor(shape_of(result), op.to))
        rewriter.insert(new, InsertPoint.before(op))
        new.location = fuse_locations((inner, op))
        substitute(self.names[0], new, rewriter, op.result, result)


class NarrowComputationPass(FunctionPass):
    """Take the casts around composites that round once anyway out."""

    name = "narrow-computation"

    def run(self, func: FuncOp) -> None:
        rewrite(func.body, [NarrowComputation()])
