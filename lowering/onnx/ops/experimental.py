"""Ops of ONNX's own domain that were experimental, and were taken away again with opset 10. Old
exporters wrote them, and onnxruntime, whose results these are, runs them in opsets up to 9."""

from xdsl.ir import SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.slicing import SliceOp
from ge.lowering.onnx.ops.normalization import mean_variance_normalized
from ge.lowering.onnx.ops.shape import parameter
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op

LAST = 9


def scaled(n: Node, value: SSAValue, attribute: str) -> SSAValue:
    """The value times an attribute, 1 by default."""
    factor = n.float(attribute, 1.0)
    return value if factor == 1.0 else n.emit(e.MulOp, value, n.like(factor, value))


@onnx_op("Affine", until=LAST)
def affine(n: Node) -> SSAValue:
    return n.emit(e.AddOp, scaled(n, n[0], "alpha"), n.like(n.float("beta"), n[0]))


@onnx_op("Scale", until=LAST)
def scale(n: Node) -> SSAValue:
    return scaled(n, n[0], "scale")


@onnx_op("ScaledTanh", until=LAST)
def scaled_tanh(n: Node) -> SSAValue:
    return scaled(n, n.emit(e.TanhOp, scaled(n, n[0], "beta")), "alpha")


@onnx_op("ParametricSoftplus", until=LAST)
def parametric_softplus(n: Node) -> SSAValue:
    return scaled(n, n.emit(a.SoftplusOp, scaled(n, n[0], "beta")), "alpha")


@onnx_op("ImageScaler", until=LAST)
def image_scaler(n: Node) -> SSAValue:
    """A factor for all, and a bias for each channel."""
    bias = n.attribute("bias")
    if not isinstance(bias, list) or n.rank(0) != 4:
        raise Unsupported("images have 4 dimensions, and a bias for each channel")
    column = n.const([[[float(b)]] for b in bias], n.element(0))  # pyright: ignore
    return n.emit(e.AddOp, scaled(n, n[0], "scale"), column)


@onnx_op("Crop", until=LAST)
def crop(n: Node) -> SSAValue:
    """Rows and columns without so many on the left, at the top, on the right, at the bottom; with
    `scale`, a height and a width, so many from the left and the top on."""
    border, size = n.ints("border"), n.ints("scale", ())
    if n.rank(0) != 4 or len(border) != 4 or len(size) not in (0, 2):
        raise Unsupported("images have 4 dimensions, a border 4 numbers, a scale 2")
    left, top, right, bottom = border
    height, width = n.shape(0)[2:]
    if size:
        ends = top + size[0], left + size[1]
    elif min(height, width) < 0:
        raise Unsupported("the size of the image is known only at run time")
    else:
        ends = height - bottom, width - right
    return n.emit(SliceOp, n[0], starts=(top, left), ends=ends, axes=(2, 3))


@onnx_op("DynamicSlice", until=LAST)
def dynamic_slice(n: Node) -> SSAValue:
    """Slice as it is from opset 10 on."""
    names = ("starts", "ends", "axes")
    parameters = [parameter(n, i) for i in range(1, 1 + len(names))]
    known = {name: ints for name, (_, ints) in zip(names, parameters, strict=True)}
    return n.emit(SliceOp, n[0], *(operand for operand, _ in parameters), **known)


@onnx_op("MeanVarianceNormalization", until=8)
def mean_variance_norm(n: Node) -> SSAValue:
    axes = (0, 1, 2, 3) if n.int("across_channels") else (0, 2, 3)
    return mean_variance_normalized(n, axes, bool(n.int("normalize_variance", 1)))
