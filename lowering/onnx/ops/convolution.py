"""ONNX's convolutions, float and quantized."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.activation import SiluOp
from ge.dialects.graph.convolution import Col2ImOp, ConvOp, ConvTransposeOp, DeformConvOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp
from ge.dialects.graph.support.window import Window
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    is_static,
    numel,
    rank_of,
    shape_of,
    shape_text,
)
from ge.lowering.onnx.ops.linear import (
    along,
    as_f32,
    centered,
    dequantized,
    quantized,
    same_width,
    sum_of,
    zero_point,
)
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op

END = 2**63 - 1  # as the bound of a slice: the end of the dimension

AUTO_PADS = {"SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}


def window_params(n: Node, kernel: Shape, spatial: Shape | None = None) -> dict[str, Param]:
    """The window's properties, without those that are as by default. `auto_pad` becomes pads
    where the spatial dimensions of the input are known."""
    rank = len(kernel)
    strides, dilations = n.ints("strides", [1] * rank), n.ints("dilations", [1] * rank)
    pads, auto_pad = n.ints("pads", [0] * 2 * rank), n.str("auto_pad", "NOTSET")
    if auto_pad != "NOTSET":
        if auto_pad not in (*AUTO_PADS, "VALID"):
            raise Unsupported(f"auto_pad {auto_pad} is not known")
        pads = (0,) * 2 * rank
    same = AUTO_PADS.get(auto_pad, "")
    if same and spatial is not None and len(spatial) == len(strides) == len(dilations) == rank:
        window = Window(kernel, strides, dilations, pads, same).resolved(spatial)
        same, pads = window.auto_pad, window.pads
    return {
        "strides": unless(strides, 1),
        "dilations": unless(dilations, 1),
        "pads": None if same else unless(pads, 0),
        "auto_pad": same or None,
    }


def unless(values: Sequence[int], default: int) -> Sequence[int] | None:
    return None if set(values) <= {default} else values


def conv_params(n: Node, weight: SSAValue, spatial: Shape | None = None) -> dict[str, Param]:
    """The properties that all convolutions share; `kernel_shape` must be that of the weight."""
    if rank_of(weight) < 3:
        raise Unsupported(f"a weight of rank {rank_of(weight)}")
    kernel = shape_of(weight)[2:]
    sizes = n.ints("kernel_shape", kernel)
    if len(sizes) != len(kernel) or any(
        a != b and b != DYNAMIC for a, b in zip(sizes, kernel, strict=True)
    ):
        raise Unsupported(
            f"kernel_shape {list(sizes)} is not that of the weight, {shape_text(kernel)}"
        )
    return {**window_params(n, sizes, spatial), "group": n.int("group", 1)}


@onnx_op("Conv")
def conv(n: Node) -> SSAValue:
    return n.emit(ConvOp, n[0], n[1], n.get(2), **conv_params(n, n[1], n.shape(0)[2:]))


@onnx_op("ConvTranspose")
def conv_transpose(n: Node) -> SSAValue:
    params = conv_params(n, n[1])
    rank, spatial = n.rank(1) - 2, n.shape(0)[2:]
    extra = n.ints("output_padding", [0] * rank)
    if "output_shape" not in n.attributes:
        return n.emit(
            ConvTransposeOp, n[0], n[1], n.get(2), output_padding=unless(extra, 0), **params
        )
    target = n.ints("output_shape")[-rank:]
    kernel = n.ints("kernel_shape", n.shape(1)[2:])
    if not is_static((*spatial, *kernel)):
        raise Unsupported("output_shape with unknown spatial dimensions; fix them with --shape")
    strides, dilations = n.ints("strides", [1] * rank), n.ints("dilations", [1] * rank)
    upper = n.str("auto_pad") == "SAME_UPPER"
    begins: list[int] = []
    ends: list[int] = []
    for i in range(rank):
        extent = (kernel[i] - 1) * dilations[i] + 1
        total = strides[i] * (spatial[i] - 1) + extra[i] + extent - target[i]
        begins.append(max(total, 0) // 2 if upper else (max(total, 0) + 1) // 2)
        ends.append(total - begins[-1])
    params["auto_pad"] = None
    params["pads"] = unless([*begins, *(max(p, 0) for p in ends)], 0)
    extra = [p + max(-end, 0) for p, end in zip(extra, ends, strict=True)]
    params["output_padding"] = unless(extra, 0)
    return n.emit(ConvTransposeOp, n[0], n[1], n.get(2), **params)


@onnx_op("DeformConv")
def deform_conv(n: Node) -> SSAValue:
    params = conv_params(n, n[1], n.shape(0)[2:])
    parts = n.int("offset_group", 1)
    return n.emit(DeformConvOp, n[0], n[1], n[2], n.get(3), n.get(4), offset_group=parts, **params)


@onnx_op("Col2Im")
def col2im(n: Node) -> SSAValue:
    image, block = n.constant_ints(1), n.constant_ints(2)
    rank = len(image or block or ()) or n.shape(1)[0]
    return n.emit(
        Col2ImOp,
        n[0],
        n[1] if image is None else None,
        n[2] if block is None else None,
        image_shape=image,
        block_shape=block,
        **window_params(n, block or (DYNAMIC,) * rank),
    )


@onnx_op("ConvInteger")
def conv_integer(n: Node) -> SSAValue:
    """The zero point of the input is what is padded, and comes with the sums of the weight into
    the bias."""
    params, zero, known = conv_params(n, n[1], n.shape(0)[2:]), zero_point(n, 2), n.constant(2)
    one = zero is not None and is_static(shape_of(zero)) and numel(shape_of(zero)) == 1
    padded = params["pads"] is not None or params["auto_pad"] is not None
    if zero_point(n, 3) is not None or (zero is not None and not one):
        x, w = same_width(n, centered(n, 0, 2, axis=0), centered(n, 1, 3, axis=0))
        return n.emit(ConvOp, x, w, **params)
    if zero is None:
        return n.emit(ConvOp, n[0], n[1], **params)
    if padded and known is None:
        return n.emit(ConvOp, *same_width(n, centered(n, 0, 2, axis=0), n[1]), **params)
    if padded and known is not None:
        params["pad_value"] = int(known.reshape(()))
    sums = sum_of(n, n[1], range(1, n.rank(1)), keep_dims=False)
    bias = n.emit(e.NegOp, n.emit(e.MulOp, sums, along(n, zero, 0, 1)))
    return n.emit(ConvOp, n[0], n[1], bias, **params)


@onnx_op("QLinearConv")
def qlinear_conv(n: Node) -> SSAValue:
    x, w = dequantized(n, 0, axis=1), dequantized(n, 3, axis=0)
    bias = n.get(8)
    if bias is not None:
        # The bias is quantized with the product of the scales of input and weight.
        scale = n.emit(e.MulOp, as_f32(n, n[1]), as_f32(n, n[4]))
        one = is_static(shape_of(scale)) and numel(shape_of(scale)) == 1
        bias = n.emit(DequantizeOp, bias, scale, axis=None if one else 0)
    y = n.emit(ConvOp, x, w, bias, **conv_params(n, n[3], n.shape(0)[2:]))
    return quantized(n, y, 6)


@onnx_op("CausalConvWithState")
def causal_conv(n: Node) -> tuple[SSAValue, SSAValue]:
    """A depthwise convolution of the past state (zeros when absent) followed by the input; the
    state to come is the last k - 1 elements of both."""
    channels, _, k = n.shape(1)
    if DYNAMIC in (channels, k):
        raise Unsupported("a weight of unknown shape")
    past = n.get(3)
    if past is None:
        x = n.emit(PadOp, n[0], pads=[k - 1, 0], axes=[2])
    else:
        x = n.emit(ConcatOp, [past, n[0]], axis=2)
    y = n.emit(ConvOp, x, n[1], n.get(2), group=channels)
    start = 1 - k if k > 1 else END
    state = n.emit(SliceOp, x, starts=[start], ends=[END], axes=[2])
    return activated(n, y), state


def activated(n: Node, value: SSAValue) -> SSAValue:
    activation = n.str("activation", "none")
    if activation == "none":
        return value
    if activation not in ("silu", "swish"):
        raise Unsupported(f"activation {activation} is not known")
    return n.emit(SiluOp, value)
