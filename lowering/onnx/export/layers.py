"""Matmuls, convolutions, pooling, and the quantization around them as ONNX nodes."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.convolution import Convolution, ConvOp, ConvTransposeOp
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.linear import GroupedMatmulOp, MatmulOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.quantization import DequantizeOp, Granular, QuantizeOp
from ge.dialects.graph.support.window import WindowedOp
from ge.dialects.support.element_types import bitwidth, is_float, row_of, ui8, ui16
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of
from ge.lowering.onnx.export.table import python
from ge.lowering.onnx.export.writer import Input, ModelWriter, refusal, writes
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.runtime.data.arrays import dtype_of

MOST_BIAS = 2**30  # in units of the sums
SHORT = (i16, ui16)  # that ONNX's MatMul does not take


@writes(MatmulOp)
def matmul(op: MatmulOp, w: ModelWriter) -> str:
    sides = (op.lhs, op.transpose_lhs), (op.rhs, op.transpose_rhs)
    left, right, result = map(element_type, (op.lhs, op.rhs, op.result))
    is_short = {left, right} <= {i8, ui8} and result == i32
    if not is_short and (not left == right == result or bitwidth(left) < 16 or left in SHORT):
        w.refuse(f"a product of {left} and {right}, which has no quantize around it")
    operands = [turned(v, w) if flag.value.data else v for v, flag in sides]
    return w.node("MatMulInteger" if is_short else "MatMul", *operands)


def turned(value: SSAValue, w: ModelWriter) -> str:
    rank = rank_of(value)
    return w.node("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


@writes(GroupedMatmulOp)
def grouped_matmul(op: GroupedMatmulOp, w: ModelWriter) -> str:
    if op.in_order:
        raise refusal(op, "it has no matmul of groups of different sizes")
    matrices = turned(op.rhs, w) if op.transpose_rhs.value.data else op.rhs
    return w.node("MatMul", op.lhs, w.node("Gather", matrices, op.groups))


@writes(AddOp)
def add(op: AddOp, w: ModelWriter) -> str:
    return w.node("Add", *(bias_of(v, other, w) for v, other in (op.operands, op.operands[::-1])))


def bias_of(value: SSAValue, other: SSAValue, w: ModelWriter) -> Input:
    """What is added to the columns of a matmul, in units of its sums."""
    product = other.owner
    if not isinstance(product, MatmulOp) or not other.has_one_use() or rank_of(product.rhs) != 2:
        return value
    columns = 0 if product.transpose_rhs.value.data else 1
    if shape_of(value)[-1:] != shape_of(product.rhs)[columns:][:1]:
        return value
    return in_units(value, product.lhs, product.rhs, columns, w)


def in_units(
    bias: SSAValue | None, x: SSAValue, weight: SSAValue, outputs: int, w: ModelWriter
) -> Input:
    """A bias as the integers that are added to the sums of a layer of 8 bits, which is how kernels
    of integers want it; as it is where they do not fit 32 bits, and for other layers."""
    left, right = x.owner, weight.owner
    if not (isinstance(left, DequantizeOp) and isinstance(right, DequantizeOp)):
        return bias
    scales = left.scale, right.scale
    if bias is None or any(element_type(v.input) not in (i8, ui8) for v in (left, right)):
        return bias
    if not all(map(w.is_fixed, (bias, *scales))) or w.is_fixed(left.input):
        return bias
    step, steps = map(w.constants.value, scales)
    if step.size > 1 or (steps.size > 1 and python(right.axis) % rank_of(weight) != outputs):
        return bias
    product, values = step.reshape(()) * steps.reshape(-1), w.constants.value(bias)
    with np.errstate(all="ignore"):
        units = np.rint(np.divide(values, product, dtype=np.float64))
    if not (np.abs(units) < MOST_BIAS).all() or units.shape != values.shape:
        return bias
    number = w.array(units.astype(np.int32), "bias")
    return w.node("DequantizeLinear", number, w.array(product, "scale"), axis=values.ndim - 1)


def window(op: WindowedOp) -> dict[str, Any]:
    auto_pad = None if op.auto_pad is None else op.auto_pad.data.upper()
    names = ("strides", "pads", "dilations")
    return {name: python(getattr(op, name)) for name in names} | {"auto_pad": auto_pad}


@writes(ConvOp, ConvTransposeOp)
def convolution(op: Convolution, w: ModelWriter) -> str:
    if not is_float(t := element_type(op.input)) or bitwidth(t) < 16:
        w.refuse(f"it is of {t}, which has no quantize around it")
    x: Input = op.input
    if op.input_channels_last.value.data:
        rank = rank_of(op.input)
        x = w.node("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])
    attributes = window(op) | {"group": op.groups}
    if isinstance(op, ConvTransposeOp):
        attributes["output_padding"] = python(op.output_padding)
    is_plain = isinstance(op, ConvOp)
    bias = in_units(op.bias, op.input, op.weight, 0, w) if is_plain else op.bias
    return w.node("Conv" if is_plain else "ConvTranspose", x, op.weight, bias, **attributes)


@writes(PoolOp)
def pool(op: PoolOp, w: ModelWriter) -> str:
    kind = op.kind.data
    attributes = window(op) | {"kernel_shape": python(op.kernel)}
    if op.auto_pad is None:
        attributes["ceil_mode"] = python(op.ceil_mode)
    if kind == "average":
        attributes["count_include_pad"] = python(op.count_include_pad)
    if kind == "lp":
        attributes["p"] = python(op.p)
    op_type = {"max": "MaxPool", "average": "AveragePool", "lp": "LpPool"}[kind]
    return w.node(op_type, op.input, **attributes)


# ---- quantization ----------------------------------------------------------------------------


@writes(QuantizeOp)
def quantize(op: QuantizeOp, w: ModelWriter) -> str:
    check_storage(op, op.to, w)
    x: Input = op.input
    if element_type(op.input) != (t := element_type(op.scale)):
        x = w.node("Cast", x, to=ONNX_NUMBERS[t])
    saturate = python(op.saturate) if is_float(op.to) else None
    zero_point, to = op.zero_point, None
    if zero_point is None and is_static(shape := shape_of(op.scale)):  # it states the type
        shape = () if numel(shape) == 1 and not op.block_size.value.data else shape
        zero_point = w.array(np.zeros(shape, dtype_of(op.to)), "zero_point")
    elif zero_point is None and op.to != ui8:
        to, w.opset, w.ir_version = ONNX_NUMBERS[op.to], 21, 10
    return grid("QuantizeLinear", op, x, zero_point, w, saturate=saturate, output_dtype=to)


@writes(DequantizeOp)
def dequantize(op: DequantizeOp, w: ModelWriter) -> str:
    check_storage(op, element_type(op.input), w)
    return grid("DequantizeLinear", op, op.input, op.zero_point, w)


def grid(
    op_type: str, op: Granular, x: Input, zero_point: Input, w: ModelWriter, **attributes: Any
) -> str:
    block = op.block_size.value.data
    if is_static(shape_of(op.scale)) and numel(shape_of(op.scale)) == 1 and not block:
        parameters = (w.scalar(op.scale), w.scalar(zero_point))
        return w.node(op_type, x, *parameters, **attributes)
    axis = python(op.axis)
    return w.node(
        op_type, x, op.scale, zero_point, axis=axis, block_size=block or None, **attributes
    )


def check_storage(op: Granular, t: Attribute, w: ModelWriter) -> None:
    row = row_of(t)
    if row is None or row.storage < 4 or (row.is_float and row.bits < 8):
        w.refuse(f"grids of {t} come with a newer opset")
    if op.block_size.value.data or row.bits in (4, 16):
        w.opset, w.ir_version = 21, 10
