"""ONNX's quantization ops."""

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import f8E8M0FNU, f32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.elementwise import CastOp
from ge.dialects.graph.quantization import DequantizeOp, DynamicQuantizeOp, QuantizeOp
from ge.dialects.support.element_types import bitwidth, is_float, ui8
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import element_type, is_static, numel
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, onnx_op


def _granularity(n: Node) -> dict[str, Param]:
    scale, block = n.shape(1), n.int("block_size")
    if is_static(scale) and numel(scale) == 1 and not block:
        return {}
    return {"axis": n.int("axis", 1), "block_size": block}


def _type_attribute(n: Node, name: str) -> Attribute | None:
    data_type = n.int(name)
    if data_type == TensorProto.UNDEFINED:
        return None
    return element_of_onnx(data_type)


def _scale(n: Node) -> SSAValue:
    """The scale, in a type that is computed with: f32 holds every power of two of E8M0."""
    return n.emit(CastOp, n[1], to=f32) if n.element(1) == f8E8M0FNU else n[1]


def _zero_point(n: Node) -> SSAValue | None:
    """The zero point; none where it is a zero that only states a float type."""
    value = n.get(2)
    if value is None or not is_float(element_type(value)):
        return value
    known = n.constant(2)
    return value if known is None or known.astype(np.float32).any() else None


@onnx_op("QuantizeLinear")
def quantize(n: Node) -> SSAValue:
    """Floats as integers or small floats of type `output_dtype`, else that of the zero point."""
    zero_point = n.get(2)
    to = _type_attribute(n, "output_dtype") or (ui8 if zero_point is None else n.element(2))
    saturate = not is_float(to) or bool(n.int("saturate", 1))
    operands = n[0], _scale(n), _zero_point(n)
    return n.emit(QuantizeOp, *operands, to=to, saturate=saturate, **_granularity(n))


@onnx_op("DequantizeLinear")
def dequantize(n: Node) -> SSAValue:
    """The floats that codes stand for, of type `output_dtype`, else that of the scale."""
    scale, to = _scale(n), _type_attribute(n, "output_dtype")
    if to is not None and bitwidth(to) > bitwidth(element_type(scale)):
        scale = n.emit(CastOp, scale, to=to)
    result = n.emit(DequantizeOp, n[0], scale, _zero_point(n), **_granularity(n))
    if to is not None and to != element_type(result):
        result = n.emit(CastOp, result, to=to)
    return result


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize(n: Node) -> tuple[SSAValue, ...]:
    return tuple(n.build(DynamicQuantizeOp, n[0]).results)[: len(n.proto.output)]
