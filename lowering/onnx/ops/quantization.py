"""ONNX's quantization ops."""

from onnx import TensorProto
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.elementwise import CastOp
from ge.dialects.graph.quantization import DequantizeOp, DynamicQuantizeOp, QuantizeOp
from ge.dialects.support.element_types import bitwidth, ui8
from ge.dialects.support.inference import Param
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


@onnx_op("QuantizeLinear")
def quantize(n: Node) -> SSAValue:
    zero_point = n.get(2)
    to = _type_attribute(n, "output_dtype") or (ui8 if zero_point is None else n.element(2))
    return n.emit(QuantizeOp, n[0], n[1], zero_point, to=to, **_granularity(n))


@onnx_op("DequantizeLinear")
def dequantize(n: Node) -> SSAValue:
    scale, to = n[1], _type_attribute(n, "output_dtype")
    if to is not None and bitwidth(to) > bitwidth(element_type(scale)):
        scale = n.emit(CastOp, scale, to=to)
    result = n.emit(DequantizeOp, n[0], scale, n.get(2), **_granularity(n))
    if to is not None and to != element_type(result):
        result = n.emit(CastOp, result, to=to)
    return result


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize(n: Node) -> tuple[SSAValue, ...]:
    return tuple(n.build(DynamicQuantizeOp, n[0]).results)[: len(n.proto.output)]
