"""What the vector unit makes of operands on their way to a matmul, or a convolution.

    %w = graph.dequantize %q, %s {axis = 1}
    %y = graph.matmul %x, %w
becomes
    %y = fused_op.linear(%x, %q, %s) { graph.dequantize, graph.matmul }

so that memory holds, and the core loads, the integers of the weight, and of a table that is added
to the result. A weight of several users is dequantized in each of them. An input of the model, or
the result of a branch or loop, is quantized in the launch of its only user, and rounded to 16 bits
in the launches of all products that use it: any other value is in the launch that defines it.
"""

from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import Control
from ge.dialects.graph.elementwise import CastOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.support.element_types import is_float, is_narrow
from ge.dialects.support.types import element_type
from ge.runtime.library.asking import launch_us
from ge.transforms.analysis.views import whole_of
from ge.transforms.fusion.groups import Group
from ge.transforms.fusion.merging import Merger
from ge.transforms.graph.prepare_weights import WEIGHTED
from ge.transforms.rewriting.counts import count, declare, is_enabled

FUSE_WEIGHT = declare("fuse-weight", "a weight is dequantized in the launch of its matmul")
FUSE_INPUT = declare(
    "fuse-input", "an input of the model is quantized, or rounded, in the launch of its matmul"
)

OPERANDS = (FUSE_WEIGHT, FUSE_INPUT)


def dequantized(value: SSAValue) -> DequantizeOp | None:
    """The op that dequantizes a weight; None for other values."""
    op = value.owner
    if isinstance(op, DequantizeOp) and all(
        isinstance(whole_of(v).owner, ConstantOp) for v in op.operands
    ):
        return op
    return None


def is_given(value: SSAValue) -> bool:
    """Whether no launch of its block defines a value: an input, what a branch or loop results in,
    and views of them."""
    return isinstance(whole_of(value).owner, Block | Control)


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


def take_tables(merger: Merger, group: Group) -> None:
    """Let the dequantization of constants that an epilogue reads join its launch."""
    for value in [v for op in group.ops for v in op.operands]:
        op = dequantized(value)
        if op is not None and op in merger.groups.number and value.has_one_use():
            if (other := merger.groups.of(op)) is not group:
                merger.join(group, other, FUSE_WEIGHT)


def rounds(op: Operation | Block) -> TypeGuard[QuantizeOp | CastOp]:
    """Whether an op quantizes a float, or casts it to 16 bits."""
    if isinstance(op, CastOp):
        return is_narrow(op.to) and is_float(element_type(op.input))
    return isinstance(op, QuantizeOp)


def take_input(merger: Merger, matmul: Operation) -> None:
    """Let the quantization of a value that is given join the only launch that takes it, and its
    rounding each matmul, or convolution, if nothing else takes it."""
    groups = merger.groups
    group = groups.of(matmul)
    for value in matmul.operands:
        op = value.owner
        if not rounds(op) or op not in groups.number or not is_given(op.input):
            continue
        users = {groups.find(use.operation) for use in value.uses}
        if users == {group}:
            merger.join(group, groups.of(op), FUSE_INPUT)
        elif isinstance(op, CastOp) and is_enabled(FUSE_INPUT) and pays(merger, op, group):
            count(FUSE_INPUT)
            groups.absorb(op, group)


def pays(merger: Merger, cast: CastOp, group: Group) -> bool:
    """Whether products are all that takes a value, and to round it once more, in a launch of them,
    takes no more time than its part of a launch of its own."""
    uses = list(cast.result.uses)
    if not all(isinstance(u.operation, WEIGHTED) for u in uses):
        return False
    alone, user = merger.sum_us([merger.groups.of(cast)]), merger.sum_us([group])
    together = launch_us(merger.body_with(cast, group.ops), merger.target)
    if alone is None or user is None or together is None:
        return False
    return together <= user + alone / len(uses)
