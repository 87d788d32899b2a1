"""Attention of dequantized values as such of integers.

    %0 = graph.dequantize %q, %sq
    %1 = graph.dequantize %k, %sk
    %2 = graph.dequantize %v, %sv              becomes
    %3 = graph.attention %0, %1, %2                      %3 = graph.attention %q, %k, %v
           {rounded_weights}                                    {rounded_weights,
                                                                 scale = sq * sk / sqrt(E),
                                                                 value_scale = sv}

Exceptions: weights that are not rounded, zero points, scales along an axis or known only at run
time. A remark says which.
"""

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, FloatAttr, f64, i8
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.tensor_op import SEGMENTS
from ge.dialects.support.types import element_type, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.runtime.library.asking import launch_us
from ge.transforms.graph.canonical.linear_maps import as_type
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.quantization.grids import Quantized, Refused, known
from ge.transforms.rewriting import remarks

BITS = 8  # of query, key and value


def scale_of(operand: Quantized, what: str) -> float:
    """Raises Refused."""
    scale, grid = known(operand.grid.scale), operand.grid
    if element_type(operand.values) != i8:
        raise Refused(f"its {what} is quantized to {element_type(operand.values)}")
    if grid.axis is not None or scale is None:
        raise Refused(f"the scale of its {what} is not one number that is known")
    if grid.zero != 0:
        raise Refused(f"its {what} has a zero point")
    return float(scale.reshape(()))


def integer_operands(op: AttentionOp) -> tuple[list[Quantized], list[float]]:
    """Query, key and value as integers, and their scales. Raises Refused."""
    names = ("query", "key", "value")
    operands = [Quantized.of(v, n) for n, v in zip(names, op.operands[:3], strict=True)]
    if not op.rounded_weights.value.data:
        raise Refused("its weights are not quantized")
    return operands, [scale_of(o, n) for n, o in zip(names, operands, strict=True)]


def of_integers(
    op: AttentionOp, factors: Sequence[SSAValue], scales: Sequence[float], make: Make
) -> AttentionOp:
    """Attention of integers in place of query, key and value."""
    own = 1 / math.sqrt(max(op.sizes("query")[3], 1)) if op.scale is None else op.scale.value.data
    params: dict[str, Attribute] = {n: a for n, a in op.properties.items() if n != SEGMENTS}
    params["scale"] = FloatAttr(own * scales[0] * scales[1], f64)
    params["value_scale"] = FloatAttr(scales[2], f64)
    params["rounded_weights"] = BoolAttr.from_bool(True)
    others = op.key_lengths, op.offset_value, op.length, op.table
    return make.op(AttentionOp, *factors, [*op.masks], *others, **params)


@rule(AttentionOp, exact=False)
def integer_attention(op: AttentionOp, make: Make) -> Replacement:
    """The scores of integers times the product of the scales"""
    try:
        operands, scales = integer_operands(op)
    except Refused:
        return None
    new = of_integers(op, [o.values for o in operands], scales, make)
    return as_type(make, new.result, element_type(op.result))


def integers_us(op: AttentionOp, target: Target) -> float | None:
    """Time of a launch of integers; None while a shape is dynamic."""
    make = Make()
    block = Block(arg_types=[tensor(shape_of(v), i8) for v in op.operands[:3]])
    us = launch_us(of_integers(op, block.args, (1.0, 1.0, 1.0), make), target)
    make.discard()
    return us


def lost_us(op: AttentionOp, target: Target) -> float:
    """How much longer a launch of integers would take than one of floats: softmax takes the vector
    unit longer, which is what 16-bit attention waits for."""
    before, after = launch_us(op, target), integers_us(op, target)
    return 0.0 if before is None or after is None else after - before


def remark_refused(op: AttentionOp) -> None:
    """Remark why attention of quantized operands stays in floats."""
    if op.is_integer or not op.rounded_weights.value.data:
        return
    try:
        integer_operands(op)
    except Refused as why:
        remarks.missed("lower-quantization", op, str(why))
