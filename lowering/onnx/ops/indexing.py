"""ONNX's ops that pick and place elements by index or condition."""

from xdsl.ir import SSAValue

from ge.dialects.graph import indexing as g
from ge.lowering.onnx.ops.shape import scalar_parameter
from ge.lowering.onnx.registry import Node, onnx_op


@onnx_op("Gather")
def gather(n: Node) -> SSAValue:
    return n.emit(g.GatherOp, n[0], n[1], axis=n.int("axis"))


@onnx_op("GatherElements")
def gather_elements(n: Node) -> SSAValue:
    return n.emit(g.GatherElementsOp, n[0], n[1], axis=n.int("axis"))


@onnx_op("GatherND")
def gather_nd(n: Node) -> SSAValue:
    return n.emit(g.GatherNdOp, n[0], n[1], batch_dims=n.int("batch_dims"))


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(n: Node) -> SSAValue:
    reduction = n.str("reduction", "none")
    axis = n.int("axis")
    return n.emit(g.ScatterElementsOp, n[0], n[1], n[2], axis=axis, reduction=reduction)


@onnx_op("ScatterND")
def scatter_nd(n: Node) -> SSAValue:
    return n.emit(g.ScatterNdOp, n[0], n[1], n[2], reduction=n.str("reduction", "none"))


@onnx_op("TensorScatter")
def tensor_scatter(n: Node) -> SSAValue:
    axis, mode = n.int("axis", -2), n.str("mode", "linear")
    return n.emit(g.TensorScatterOp, n[0], n[1], n.get(2), axis=axis, mode=mode)


@onnx_op("NonZero")
def nonzero(n: Node) -> SSAValue:
    return n.emit(g.NonZeroOp, n[0])


@onnx_op("Compress")
def compress(n: Node) -> SSAValue:
    axis = n.int("axis") if "axis" in n.attributes else None
    return n.emit(g.CompressOp, n[0], n[1], axis=axis)


@onnx_op("Unique")
def unique(n: Node) -> tuple[SSAValue, ...]:
    axis = n.int("axis") if "axis" in n.attributes else None
    return tuple(n.build(g.UniqueOp, n[0], axis=axis, sorted=bool(n.int("sorted", 1))).results)


@onnx_op("OneHot")
def one_hot(n: Node) -> SSAValue:
    operand, depth = scalar_parameter(n, 1)
    return n.emit(g.OneHotOp, n[0], operand, n[2], depth=depth, axis=n.int("axis", -1))


@onnx_op("TopK")
def top_k(n: Node) -> tuple[SSAValue, ...]:
    operand, k = scalar_parameter(n, 1, "k")
    largest, ascending = bool(n.int("largest", 1)), bool(n.int("sorted", 1))
    op = n.build(
        g.TopKOp, n[0], operand, k=k, axis=n.int("axis", -1), largest=largest, sorted=ascending
    )
    return tuple(op.results)
