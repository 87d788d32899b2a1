"""Weights that are stored as integers: their dequantization joins the launch of the matmul, or
convolution, that takes them.

    %w = graph.dequantize %q, %s {axis = 1}
    %y = graph.matmul %x, %w
becomes
    %y = fused_op.linear(%x, %q, %s) { graph.dequantize, graph.matmul }

so that memory holds, and the core loads, the integers. A weight of several users is dequantized in
each of them.
"""

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.transforms.analysis.views import whole_of
from ge.transforms.fusion.merging import Merger
from ge.transforms.rewriting.counts import declare

FUSE_WEIGHT = declare("fuse-weight", "a weight is dequantized in the launch of its matmul")


def dequantized(value: SSAValue) -> DequantizeOp | None:
    """The op that dequantizes a weight; None for other values."""
    op = value.owner
    if isinstance(op, DequantizeOp) and all(
        isinstance(whole_of(v).owner, ConstantOp) for v in op.operands
    ):
        return op
    return None


def dequantize_for_each_user(block: Block) -> None:
    """Give each user of a dequantized weight an op of its own."""
    for op in list(block.ops):
        if not isinstance(op, DequantizeOp) or dequantized(op.result) is None:
            continue
        for use in list(op.result.uses)[1:]:
            copy = op.clone()
            block.insert_op_after(copy, op)
            use.operation.operands[use.index] = copy.result


def take_weights(merger: Merger, matmul: Operation) -> None:
    """Let the dequantization of weights join their matmul."""
    groups = merger.groups
    for value in matmul.operands:
        if (op := dequantized(value)) is not None and op in groups.number:
            merger.join(groups.of(matmul), groups.of(op), FUSE_WEIGHT)
