"""ONNX's matmuls, convolutions, pooling (over windows, whole images and regions, and LRN),
recurrent layers and quantization: the float and the quantized forms."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import ArrayAttr, f8E8M0FNU, f32, f64, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.activation import SiluOp
from ge.dialects.graph.convolution import Col2ImOp, ConvOp, ConvTransposeOp, DeformConvOp
from ge.dialects.graph.elementwise import CastOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.pooling import (
    MaxPoolIndicesOp,
    MaxRoiPoolOp,
    MaxUnpoolOp,
    PoolOp,
    RoiAlignOp,
)
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.graph.recurrent import Activation, GruOp, LstmOp, Recurrent, RnnOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import SqueezeOp, TransposeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp
from ge.dialects.graph.support.window import Window
from ge.dialects.support.element_types import bitwidth, is_float, ui8
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    element_type,
    is_static,
    numel,
    rank_of,
    shape_of,
    shape_text,
)
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op


@onnx_op("MatMul")
def matmul(n: Node) -> SSAValue:
    return multiply(n, n[0], n[1])


def multiply(n: Node, lhs: SSAValue, rhs: SSAValue, transpose_rhs: bool = False) -> SSAValue:
    """numpy's matmul: a vector is a row on the left, a column on the right."""
    vectors: list[int] = []
    if rank_of(lhs) == 1:
        lhs, vectors = n.emit(UnsqueezeOp, lhs, axes=[0]), [-2]
    if rank_of(rhs) == 1:
        rhs, vectors = n.emit(UnsqueezeOp, rhs, axes=[1]), [*vectors, -1]
    result = n.emit(MatmulOp, lhs, rhs, transpose_rhs=transpose_rhs)
    return n.emit(SqueezeOp, result, axes=vectors) if vectors else result


@onnx_op("Gemm")
def gemm(n: Node) -> SSAValue:
    """alpha A' B' + beta C of [M, K], [K, N] and what broadcasts to [M, N]; C may be absent."""
    result = n.emit(
        MatmulOp,
        n[0],
        n[1],
        transpose_lhs=bool(n.int("transA")),
        transpose_rhs=bool(n.int("transB")),
    )
    result = scaled(n, result, n.float("alpha", 1.0))
    addend, beta = n.get(2), n.float("beta", 1.0)
    if addend is None or beta == 0:  # C is not looked at then, as in BLAS: it may be nan
        return result
    return n.emit(e.AddOp, result, scaled(n, addend, beta))


def scaled(n: Node, value: SSAValue, factor: float) -> SSAValue:
    """value * factor; integers times a fraction are truncated."""
    element = element_type(value)
    if factor == 1.0:
        return value
    if is_float(element) or factor.is_integer():
        return n.emit(e.MulOp, value, n.like(factor, value))
    wide = n.emit(e.CastOp, value, to=f64)
    return n.emit(e.CastOp, n.emit(e.MulOp, wide, n.like(factor, wide)), to=element)


def zero_point(n: Node, index: int) -> SSAValue | None:
    """Return zero point `index`, None if it is absent or 0."""
    known = n.constant(index)
    return None if known is not None and not known.any() else n.get(index)


def along(n: Node, zero: SSAValue, axis: int, rank: int) -> SSAValue:
    """A zero point as i32: its one element, or those of `axis`, broadcast against a tensor."""
    if rank_of(zero) == 1 and shape_of(zero) != (1,) and (after := rank - 1 - axis % rank):
        zero = n.emit(UnsqueezeOp, zero, axes=range(1, after + 1))
    return n.emit(e.CastOp, zero, to=i32)


def centered(n: Node, index: int, zero_index: int, axis: int) -> SSAValue:
    """Input `index` less its zero point, an input with one element or one for each index of
    `axis`; the 8-bit integers themselves where the zero point is 0."""
    value, zero = n[index], zero_point(n, zero_index)
    if zero is None:
        return value
    wide = n.emit(e.CastOp, value, to=i32)
    return n.emit(e.SubOp, wide, along(n, zero, axis, rank_of(value)))


def same_width(n: Node, lhs: SSAValue, rhs: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Both operands as i32 when one of them is."""
    if i32 not in (element_type(lhs), element_type(rhs)):
        return lhs, rhs
    return n.cast(lhs, i32), n.cast(rhs, i32)


def sum_of(n: Node, value: SSAValue, axes: Sequence[int], keep_dims: bool = True) -> SSAValue:
    """The sums of integers as i32."""
    wide = n.emit(e.CastOp, value, to=i32)
    return n.emit(ReduceOp, wide, kind="sum", axes=axes, keep_dims=keep_dims)


@onnx_op("MatMulInteger")
def matmul_integer(n: Node) -> SSAValue:
    """(a - x) (b - y) = a b - x (the sums of b - K y) - (the sums of a) y"""
    a, b, rank = n[0], n[1], (n.rank(0), n.rank(1))
    x, y, terms = zero_point(n, 2), zero_point(n, 3), n.shape(0)[-1]
    if min(rank) < 2 or (x is not None and y is not None and terms == DYNAMIC):
        lhs, rhs = centered(n, 0, 2, axis=-2), centered(n, 1, 3, axis=-1)
        return multiply(n, *same_width(n, lhs, rhs))
    result = n.emit(MatmulOp, a, b)
    columns = None if y is None else along(n, y, -1, rank[1])
    if x is not None:
        sums = sum_of(n, b, [rank[1] - 2])
        if columns is not None:
            sums = n.emit(e.SubOp, sums, n.emit(e.MulOp, columns, n.like(terms, columns)))
        result = n.emit(e.SubOp, result, n.emit(e.MulOp, along(n, x, -2, rank[0]), sums))
    if columns is not None:
        rows = n.emit(e.MulOp, sum_of(n, a, [rank[0] - 1]), columns)
        result = n.emit(e.SubOp, result, rows)
    return result


def dequantized(n: Node, index: int, axis: int) -> SSAValue:
    """Quantized input `index`, with scale and zero point the next two inputs, as f32."""
    scale, zero = n.cast(n[index + 1], f32), n.get(index + 2)
    if has_one_element(scale):
        return n.emit(DequantizeOp, n[index], scale, zero)
    if rank_of(scale) != 1 or not rank_of(n[index]):
        raise Unsupported(f"a scale of rank {rank_of(scale)} for a tensor of rank {n.rank(index)}")
    return n.emit(DequantizeOp, n[index], scale, zero, axis=axis % rank_of(n[index]))


def has_one_element(value: SSAValue) -> bool:
    return is_static(shape_of(value)) and numel(shape_of(value)) == 1


def quantized(n: Node, value: SSAValue, index: int) -> SSAValue:
    scale = n.cast(n[index], f32)
    return n.emit(QuantizeOp, value, scale, n[index + 1], to=n.element(index + 1))


@onnx_op("QLinearMatMul")
def qlinear_matmul(n: Node) -> SSAValue:
    product = multiply(n, dequantized(n, 0, axis=-2), dequantized(n, 3, axis=-1))
    return quantized(n, product, 6)


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
    """Pad with the zero point of the input, which comes with the sums of the weight into the
    bias."""
    params, zero, known = conv_params(n, n[1], n.shape(0)[2:]), zero_point(n, 2), n.constant(2)
    one = zero is not None and has_one_element(zero)
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


def pool_params(n: Node, x: SSAValue | None = None) -> dict[str, Param]:
    """The properties of pooling over x (input 0 by default), whose channels come first."""
    kernel, spatial = n.ints("kernel_shape"), shape_of(n[0] if x is None else x)[2:]
    ceil_mode = bool(n.int("ceil_mode")) and n.str("auto_pad", "NOTSET") == "NOTSET"
    return {**window_params(n, kernel, spatial), "kernel": kernel, "ceil_mode": ceil_mode}


@onnx_op("MaxPool")
def max_pool(n: Node) -> object:
    if not n.wants(1):
        return n.emit(PoolOp, n[0], kind="max", **pool_params(n))
    column_major = bool(n.int("storage_order"))
    return n.build(MaxPoolIndicesOp, n[0], column_major=column_major, **pool_params(n)).results


@onnx_op("AveragePool")
def average_pool(n: Node) -> SSAValue:
    include = bool(n.int("count_include_pad"))
    return n.emit(PoolOp, n[0], kind="average", count_include_pad=include, **pool_params(n))


@onnx_op("LpPool")
def lp_pool(n: Node) -> SSAValue:
    return n.emit(PoolOp, n[0], kind="lp", p=order(n), **pool_params(n))


def order(n: Node) -> int:
    """Return the order of a norm; in opset 1 it is a float."""
    p = n.attribute("p")
    return int(p) if isinstance(p, float) and p.is_integer() else n.int("p", 2)


@onnx_op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node) -> SSAValue:
    kind = "mean" if n.op_type == "GlobalAveragePool" else "max"
    return n.emit(ReduceOp, n[0], kind=kind, axes=range(2, n.rank(0)))


@onnx_op("GlobalLpPool")
def global_lp_pool(n: Node) -> SSAValue:
    p, axes = order(n), range(2, n.rank(0))
    if p in (1, 2):
        return n.emit(ReduceOp, n[0], kind=f"l{p}", axes=axes)
    powers = n.emit(e.PowOp, n.emit(e.AbsOp, n[0]), n.like(p, n[0]))
    total = n.emit(ReduceOp, powers, kind="sum", axes=axes)
    return n.emit(e.PowOp, total, n.like(1 / p, n[0]))


@onnx_op("MaxUnpool")
def max_unpool(n: Node) -> SSAValue:
    shape, kernel = n.constant_ints(2), n.ints("kernel_shape")
    return n.emit(
        MaxUnpoolOp,
        n[0],
        n[1],
        n.get(2) if shape is None else None,
        output_shape=shape,
        kernel=kernel,
        **window_params(n, kernel),
    )


@onnx_op("RoiAlign")
def roi_align(n: Node) -> SSAValue:
    default = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    return n.emit(
        RoiAlignOp,
        n[0],
        n[1],
        n[2],
        mode={"avg": "average"}.get(mode := n.str("mode", "avg").lower(), mode),
        output_size=[n.int("output_height", 1), n.int("output_width", 1)],
        sampling_ratio=n.int("sampling_ratio"),
        spatial_scale=n.float("spatial_scale", 1.0),
        half_pixel=n.str("coordinate_transformation_mode", default).lower() == "half_pixel",
    )


@onnx_op("MaxRoiPool")
def max_roi_pool(n: Node) -> SSAValue:
    size, scale = n.ints("pooled_shape"), n.float("spatial_scale", 1.0)
    return n.emit(MaxRoiPoolOp, n[0], n[1], output_size=size, spatial_scale=scale)


def _granularity(n: Node) -> dict[str, Param]:
    block = n.int("block_size")
    if has_one_element(n[1]) and not block:
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
    """Return the zero point; None if it is a zero that only states a float type."""
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
    return result if to is None else n.cast(result, to)


# ONNX's name -> ours, and the defaults of alpha and beta where they are used
ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "Relu": ("relu", None, None),
    "Tanh": ("tanh", None, None),
    "Sigmoid": ("sigmoid", None, None),
    "Affine": ("affine", 1.0, 0.0),
    "LeakyRelu": ("leaky_relu", 0.01, None),
    "ThresholdedRelu": ("thresholded_relu", 1.0, None),
    "ScaledTanh": ("scaled_tanh", 1.0, 1.0),
    "HardSigmoid": ("hard_sigmoid", 0.2, 0.5),
    "Elu": ("elu", 1.0, None),
    "Softsign": ("softsign", None, None),
    "Softplus": ("softplus", None, None),
}


_BY_NAME = {name.lower(): known for name, known in ACTIVATIONS.items()}


def _activations(n: Node) -> dict[str, Param]:
    """ONNX lists alphas and betas only for the functions that take them, in order."""
    names = n.attribute("activations")
    if not names:
        return {}
    functions = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    known: list[tuple[str, float | None, float | None]] = []
    for name in functions:
        if name.lower() not in _BY_NAME:
            raise Unsupported(f"activation '{name}' is not supported")
        known.append(_BY_NAME[name.lower()])
    alphas: list[float] = list(n.attribute("activation_alpha") or ())
    betas: list[float] = list(n.attribute("activation_beta") or ())

    def consume(values: list[float], default: float | None) -> float:
        if default is None:
            return 0.0
        return float(values.pop(0)) if values else default

    params: dict[str, Param] = {
        "activations": ArrayAttr([Activation.of(name) for name, _, _ in known])
    }
    if any(alpha is not None for _, alpha, _ in known):
        params["alphas"] = [consume(alphas, alpha) for _, alpha, _ in known]
    if any(beta is not None for _, _, beta in known):
        params["betas"] = [consume(betas, beta) for _, _, beta in known]
    return params


Operands: TypeAlias = tuple[SSAValue, SSAValue, SSAValue]


def layer(
    n: Node,
    op: type[Recurrent],
    others: tuple[int, ...] = (),
    operands: Operands | None = None,
    **params: Param,
) -> tuple[SSAValue, ...]:
    """The op on inputs X, W, R (or `operands` in place of these), B, sequence_lens, initial_h and
    `others`; layout 1 has the batch first everywhere."""
    batch_first = bool(n.int("layout"))
    x, weights, recurrence = (n[0], n[1], n[2]) if operands is None else operands

    def steps_first(x: SSAValue | None) -> SSAValue | None:
        if x is None or not batch_first:
            return x
        return n.emit(TransposeOp, x, permutation=(1, 0, 2))

    lengths = n.get(4)
    if lengths is not None and (known := n.constant_ints(4)) is not None:
        lengths = None if set(known) == {n.shape(0)[1 if batch_first else 0]} else lengths
    tail = [steps_first(n.get(i)) if i != 7 else n.get(i) for i in others]
    clip = n.given_float("clip")
    if clip is not None and not clip >= 0:
        raise Unsupported(f"clip is {clip:g}; it bounds sizes, and is no less than 0")
    layer = n.build(
        op, steps_first(x), weights, recurrence, n.get(3), lengths, steps_first(n.get(5)), *tail,
        direction=n.str("direction", "forward").lower(), clip=clip,
        **_activations(n), **params,
    )  # fmt: skip
    results: list[SSAValue] = list(layer.results)
    if batch_first:
        results[0] = n.emit(TransposeOp, results[0], permutation=(2, 0, 1, 3))
        results[1:] = [n.emit(TransposeOp, r, permutation=(1, 0, 2)) for r in results[1:]]
    return tuple(results[: len(n.proto.output)])


@onnx_op("RNN")
def rnn(n: Node) -> tuple[SSAValue, ...]:
    return layer(n, RnnOp)


@onnx_op("GRU")
def gru(n: Node) -> tuple[SSAValue, ...]:
    return layer(n, GruOp, linear_before_reset=bool(n.int("linear_before_reset")))


@onnx_op("LSTM")
def lstm(n: Node) -> tuple[SSAValue, ...]:
    return layer(n, LstmOp, (6, 7), input_forget=bool(n.int("input_forget")))
