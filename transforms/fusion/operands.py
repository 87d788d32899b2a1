"""What the vector unit makes of operands on their way to a matmul, or a convolution.

    %w = graph.dequantize %q, %s {axis = 1}
    %y = graph.matmul %x, %w
becomes
    %y = fused_op.linear(%x, %q, %s) { graph.dequantize, graph.matmul }

so that memory holds, and the core loads, the integers of the weight. A weight of several users is
dequantized in each of them. An input of the model is quantized in the launch of its only user: any
other value is in the launch that defines it.
"""

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.transforms.analysis.views import whole_of
from ge.transforms.fusion.merging import Merger
from ge.transforms.graph.prepare_weights import WEIGHTED
from ge.transforms.rewriting.counts import declare

FUSE_WEIGHT = declare("fuse-weight", "a weight is dequantized in the launch of its matmul")
FUSE_INPUT = declare("fuse-input", "an input of the model is quantized in the launch of its matmul")

OPERANDS = (FUSE_WEIGHT, FUSE_INPUT)


def dequantized(value: SSAValue) -> DequantizeOp | None:
    """The op that dequantizes a weight; None for other values."""
    op = value.owner
    if isinstance(op, DequantizeOp) and all(
        isinstance(whole_of(v).owner, ConstantOp) for v in op.operands
    ):
        return op
    return None


def dequantize_for_each_user(block: Block) -> None:
    """Give each matmul, or convolution, of a block that uses a dequantized weight an op of its
    own."""
    for op in list(block.ops):
        if not isinstance(op, DequantizeOp) or dequantized(op.result) is None:
            continue
        uses = list(op.result.uses)
        own = [u for u in uses if isinstance(u.operation, WEIGHTED) and u.operation.parent is block]
        for use in own[1:] if len(own) == len(uses) else own:
            copy = op.clone()
            block.insert_op_after(copy, op)
            use.operation.operands[use.index] = copy.result


def take_weights(merger: Merger, matmul: Operation) -> None:
    """Let the dequantization of weights join their matmul."""
    groups = merger.groups
    for value in matmul.operands:
        if (op := dequantized(value)) is not None and op in groups.number:
            merger.join(groups.of(matmul), groups.of(op), FUSE_WEIGHT)


def take_input(merger: Merger, matmul: Operation) -> None:
    """Let the quantization of an input of the model join the only launch that takes it."""
    groups = merger.groups
    group = groups.of(matmul)
    for value in matmul.operands:
        op = value.owner
        if not isinstance(op, QuantizeOp) or op not in groups.number:
            continue
        users = {groups.find(use.operation) for use in op.result.uses}
        if isinstance(whole_of(op.input).owner, Block) and users == {group}:
            merger.join(group, groups.of(op), FUSE_INPUT)
