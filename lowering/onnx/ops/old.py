"""ONNX's ops that opsets of today do not have so.

Opsets 1 to 6, where they differ: how operands broadcast is said by attributes, inference is asked
for (`is_test`), and some parameters have other names. Results that once could take the place of
inputs (`consumed_inputs`) are no matter here.

Ops of ONNX's own domain that were experimental, and were taken away again with opset 10. Old
exporters wrote them, and onnxruntime, whose results these are, runs them in opsets up to 9."""

from onnx import TensorProto
from xdsl.ir import SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.shape import TileOp, UnsqueezeOp
from ge.dialects.graph.slicing import PadOp, SliceOp
from ge.dialects.support.types import DYNAMIC, agree, normalize_axis, shape_text
from ge.lowering.onnx.forms import FORMS
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.ops import elementwise, normalization, random
from ge.lowering.onnx.ops.layers import scaled
from ge.lowering.onnx.ops.normalization import mean_variance_normalized
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op, parameter

LAST = 6  # the last opset that has them so

BINARY = (
    "Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater",
)  # fmt: skip


def aligned(n: Node) -> SSAValue:
    """Operand 1 in the rank that it has by `axis`: its dimensions are those of operand 0 from there
    on, by default the last ones. It may have ones, and it is not broadcast unless `broadcast`."""
    value, shape, own = n[1], n.shape(0), n.shape(1)
    if not n.int("broadcast"):
        if not agree(shape, own):
            shapes = f"{shape_text(shape)} and {shape_text(own)}"
            raise Unsupported(f"before opset 7 shapes {shapes} need broadcast=1")
        return value
    first = len(shape) - len(own)
    if "axis" in n.attributes:
        first = normalize_axis(n.int("axis"), len(shape)) if shape else 0
    after = len(shape) - len(own) - first
    fits = min(first, after) >= 0 and all(
        b in (1, DYNAMIC) or d in (b, DYNAMIC) for b, d in zip(own, shape[first:], strict=False)
    )
    if not fits:
        where = f" from axis {first} on" if "axis" in n.attributes else ""
        text = f"{shape_text(own)} is no part of {shape_text(shape)}{where}"
        raise Unsupported(text)
    return n.emit(UnsqueezeOp, value, axes=range(len(own), len(own) + after)) if after else value


@onnx_op(*BINARY, until=LAST)
def binary(n: Node) -> SSAValue:
    form = FORMS[n.op_type]
    return n.emit(form.op, n[0], aligned(n), **form.fixed)


@onnx_op("PRelu", until=LAST)
def prelu(n: Node) -> SSAValue:
    """A slope for each channel is a vector."""
    slope, shape = n[1], n.shape(0)
    if n.rank(1) == 1 and len(shape) > 2 and n.shape(1) != (1,):
        slope = n.emit(UnsqueezeOp, slope, axes=range(1, len(shape) - 1))
    return n.emit(a.PReluOp, n[0], slope)


@onnx_op("Cast", until=LAST)
def cast(n: Node) -> SSAValue:
    """In opset 1 `to` is the name of a type."""
    to = n.attribute("to")
    if isinstance(to, str) and to.upper() not in TensorProto.DataType.keys():
        raise Unsupported(f"there is no element type '{to}'")
    number = TensorProto.DataType.Value(to.upper()) if isinstance(to, str) else n.int("to")
    return elementwise.converted(n, element_of_onnx(number))


@onnx_op("BatchNormalization", until=LAST)
def batch_norm(n: Node) -> tuple[SSAValue | None, ...]:
    return normalization.batch_normalized(n, training=not n.int("is_test"))


@onnx_op("Dropout", until=LAST)
def dropout(n: Node) -> SSAValue | tuple[SSAValue, ...]:
    if n.int("is_test") or not (ratio := n.float("ratio", 0.5)):
        return random.all_kept(n)
    kept, mask = random.dropped(n, n.const(ratio, n.element(0)))
    return kept, n.emit(e.CastOp, mask, to=n.element(0))


@onnx_op("Pad", until=1)
def pad(n: Node) -> SSAValue:
    mode, value = n.str("mode", "constant"), n.like(n.float("value"), n[0])
    return n.emit(PadOp, n[0], None, None, value, pads=n.ints("paddings"), mode=mode)


@onnx_op("Tile", until=5)
def tile(n: Node) -> SSAValue:
    """So many copies along one axis."""
    count, axis = n.constant_ints(1), n.constant_ints(2)
    if count is None or axis is None:
        raise Unsupported("tiles and axis are known only at run time")
    repeats = [1] * n.rank(0)
    repeats[normalize_axis(axis[0], n.rank(0))] = count[0]
    return n.emit(TileOp, n[0], repeats=repeats)


@onnx_op("Upsample", until=LAST)
def upsample(n: Node) -> SSAValue:
    """The last two dimensions by their own factors."""
    mode, factors = n.str("mode", "nearest"), [n.float("height_scale"), n.float("width_scale")]
    if min(factors) <= 0:
        raise Unsupported("height_scale and width_scale are needed")
    scales = [1.0] * (n.rank(0) - 2) + factors
    mode = "linear" if mode == "bilinear" else mode
    return n.emit(
        ResizeOp, n[0], scales=scales, mode=mode, coordinates="asymmetric", nearest_mode="floor"
    )


LAST_EXPERIMENTAL = 9


def times(n: Node, value: SSAValue, attribute: str) -> SSAValue:
    return scaled(n, value, n.float(attribute, 1.0))


@onnx_op("Affine", until=LAST_EXPERIMENTAL)
def affine(n: Node) -> SSAValue:
    return n.emit(e.AddOp, times(n, n[0], "alpha"), n.like(n.float("beta"), n[0]))


@onnx_op("Scale", until=LAST_EXPERIMENTAL)
def scale(n: Node) -> SSAValue:
    return times(n, n[0], "scale")


@onnx_op("ScaledTanh", until=LAST_EXPERIMENTAL)
def scaled_tanh(n: Node) -> SSAValue:
    return times(n, n.emit(e.TanhOp, times(n, n[0], "beta")), "alpha")


@onnx_op("ParametricSoftplus", until=LAST_EXPERIMENTAL)
def parametric_softplus(n: Node) -> SSAValue:
    return times(n, n.emit(a.SoftplusOp, times(n, n[0], "beta")), "alpha")


@onnx_op("ImageScaler", until=LAST_EXPERIMENTAL)
def image_scaler(n: Node) -> SSAValue:
    """A factor for all, and a bias for each channel."""
    bias = n.attribute("bias")
    if not isinstance(bias, list) or n.rank(0) != 4:
        raise Unsupported("images have 4 dimensions, and a bias for each channel")
    column = n.const([[[float(b)]] for b in bias], n.element(0))  # pyright: ignore
    return n.emit(e.AddOp, times(n, n[0], "scale"), column)


@onnx_op("Crop", until=LAST_EXPERIMENTAL)
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


@onnx_op("DynamicSlice", until=LAST_EXPERIMENTAL)
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
