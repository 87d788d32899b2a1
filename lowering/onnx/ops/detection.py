"""ONNX's NonMaxSuppression."""

from xdsl.ir import SSAValue

from ge.dialects.graph.detection import NonMaxSuppressionOp
from ge.lowering.onnx.registry import Node, onnx_op


@onnx_op("NonMaxSuppression")
def non_max_suppression(n: Node) -> SSAValue:
    return n.emit(
        NonMaxSuppressionOp,
        n[0],
        n[1],
        n.get(2),
        n.get(3),
        n.get(4),
        center_point_box=bool(n.int("center_point_box")),
    )
