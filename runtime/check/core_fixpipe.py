"""What a fixpipe takes off the vector unit, as the proof of core plans sees it: from each sum of
integers it follows the users as far as the place of each op in the fixpipe allows."""

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.quantization import Granular, RequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of
from ge.runtime.check.core_products import column_axis

ADDS = 1  # the place of an op that leaves sums of 32 bits
MOST_BITS = 16  # of what else leaves the fixpipe


def through_fixpipe(body: Body, matmul: TensorOp) -> Iterator[TensorOp]:
    """The ops of a body that a fixpipe computes of the sums of a matmul."""
    if element_type(matmul.results[0]) == i32:
        yield from _follow(body, matmul.results[0], 0, column_axis(matmul))


def _follow(body: Body, value: SSAValue, place: int, axis: int) -> Iterator[TensorOp]:
    for op in body.ops:
        if value not in op.operands or not place < op.FIXPIPE or not _takes(body, op, value, axis):
            continue
        result = op.results[0]
        further = list(_follow(body, result, op.FIXPIPE, axis))
        elsewhere = result in body.outputs or any(
            result in user.operands and user not in further for user in body.ops
        )
        if not elsewhere or op.FIXPIPE == ADDS or bitwidth(element_type(result)) <= MOST_BITS:
            yield op
            yield from further


def _takes(body: Body, op: TensorOp, value: SSAValue, axis: int) -> bool:
    """Whether an op keeps the shape of sums, and all else that it reads are parameters in memory,
    one for all columns or one for each."""
    shape = shape_of(value)
    if shape_of(op.results[0]) != shape or op.operands.count(value) > 1:
        return False
    for other in op.operands:
        own = shape_of(other)
        if other is value or (other in body.inputs and numel(own) == 1):
            continue
        if other not in body.inputs or numel(own) != shape[axis]:
            return False
        if isinstance(op, Granular | RequantizeOp):
            along = op.properties.get("axis")
            if len(own) != 1 or not isinstance(along, IntegerAttr):
                return False
            if normalize_axis(along.value.data, len(shape)) != axis:
                return False
        elif len(own) < len(shape) - axis or own[axis - len(shape)] != shape[axis]:
            return False
    return True
