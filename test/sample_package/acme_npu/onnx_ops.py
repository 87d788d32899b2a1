"""The ONNX ops of the domain `com.acme`."""

from xdsl.ir import SSAValue

from acme_npu.ops import ClippedOp, TwiceOp
from ge.lowering.onnx.registry import Node, onnx_op


@onnx_op("Clipped", domain="com.acme")
def clipped(n: Node) -> SSAValue:
    return n.emit(ClippedOp, n[0], limit=n.float("limit", 6.0))


@onnx_op("Twice", domain="com.acme")
def twice(n: Node) -> SSAValue:
    return n.emit(TwiceOp, n[0])
