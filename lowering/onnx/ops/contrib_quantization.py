"""onnxruntime's quantized ops: floats between a dequantize and a quantize. Their results are within
one step of onnxruntime's, which rounds its own tables and sums of integers."""

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.activation import LeakyReluOp, SigmoidOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.quantization import DequantizeOp, DynamicQuantizeOp, QuantizeOp
from ge.dialects.graph.recurrent import LstmOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import TransposeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.types import is_static, numel, rank_of, shape_of
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.contrib_activation import plus
from ge.lowering.onnx.ops.contrib_attention import self_attention
from ge.lowering.onnx.ops.contrib_linear import WINDOW, pool_params
from ge.lowering.onnx.ops.contrib_normalization import channels_back, channels_first
from ge.lowering.onnx.ops.convolution import conv_params
from ge.lowering.onnx.ops.linear import as_f32, dequantized, multiply, quantized
from ge.lowering.onnx.ops.quantization import dequantize, quantize
from ge.lowering.onnx.ops.recurrent import layer
from ge.lowering.onnx.registry import Node

NO_INPUT = 1 << 30  # the index of none


def real(n: Node, index: int) -> SSAValue:
    """Quantized input `index` as f32; scale and zero point, each of one element, are the next."""
    return n.emit(DequantizeOp, n[index], as_f32(n, n[index + 1]), n.get(index + 2))


def stored(n: Node, y: SSAValue, index: int, like: int) -> SSAValue:
    """A result quantized with scale `index` and the zero point after it, which may be absent, to
    the type of input `like`."""
    return n.emit(QuantizeOp, y, as_f32(n, n[index]), n.get(index + 1), to=n.element(like))


# ---- elementwise -------------------------------------------------------------------------------


@contrib_op("QLinearAdd", "QLinearMul")
def qlinear_binary(n: Node) -> SSAValue:
    op = e.AddOp if n.op_type == "QLinearAdd" else e.MulOp
    return stored(n, n.emit(op, real(n, 0), real(n, 3)), 6, like=0)


@contrib_op("QLinearSigmoid")
def qlinear_sigmoid(n: Node) -> SSAValue:
    return stored(n, n.emit(SigmoidOp, real(n, 0)), 3, like=0)


@contrib_op("QLinearLeakyRelu", alpha=ANY)
def qlinear_leaky_relu(n: Node) -> SSAValue:
    return stored(n, n.emit(LeakyReluOp, real(n, 0), alpha=n.float("alpha", 0.01)), 3, like=0)


@contrib_op("QLinearSoftmax", axis=ANY, opset=ANY)
def qlinear_softmax(n: Node) -> SSAValue:
    """Before opset 13 of softmax, `axis` and all after it made the rows."""
    axis, flatten = n.int("axis", -1), n.int("opset") < 13
    return stored(n, n.emit(SoftmaxOp, real(n, 0), axis=axis, flatten=flatten), 3, like=0)


@contrib_op("QLinearWhere")
def qlinear_where(n: Node) -> SSAValue:
    return stored(n, n.emit(e.SelectOp, n[0], real(n, 1), real(n, 4)), 7, like=1)


@contrib_op("QLinearConcat", axis=ANY)
def qlinear_concat(n: Node) -> SSAValue:
    """Inputs come after scale and zero point of the result, each with its own."""
    parts = [stored(n, real(n, i), 0, like=1) for i in range(2, len(n.inputs), 3)]
    return n.emit(ConcatOp, parts, axis=n.int("axis"))


# ---- pooling -----------------------------------------------------------------------------------


def _pooled(n: Node, pool: Callable[[SSAValue], SSAValue]) -> SSAValue:
    x = channels_first(n, real(n, 0), "channels_last", 0)
    return stored(n, channels_back(n, pool(x), "channels_last", 0), 3, like=0)


@contrib_op("QLinearGlobalAveragePool", channels_last=ANY)
def qlinear_global_average_pool(n: Node) -> SSAValue:
    axes = range(2, n.rank(0))
    return _pooled(n, lambda x: n.emit(ReduceOp, x, kind="mean", axes=axes))


@contrib_op("QLinearAveragePool", ceil_mode=ANY, channels_last=ANY, count_include_pad=ANY, **WINDOW)
def qlinear_average_pool(n: Node) -> SSAValue:
    include = bool(n.int("count_include_pad"))

    def pool(x: SSAValue) -> SSAValue:
        params = pool_params(n, x)
        return n.emit(PoolOp, x, kind="average", count_include_pad=include, **params)

    return _pooled(n, pool)


# ---- products ----------------------------------------------------------------------------------


def _is_scalar(scale: SSAValue) -> bool:
    return is_static(shape_of(scale)) and numel(shape_of(scale)) == 1


def bias_of(n: Node, bias: SSAValue | None, scales: Sequence[SSAValue]) -> SSAValue | None:
    """A bias of integers, whose scale is the product of those, as f32: one, or one for each of its
    elements."""
    if bias is None:
        return None
    first, second = (as_f32(n, s) for s in scales)
    scale = n.emit(e.MulOp, first, second)
    axis = None if _is_scalar(scale) else rank_of(bias) - 1
    return n.emit(DequantizeOp, bias, scale, axis=axis)


@contrib_op("QLinearConv", channels_last=ANY, group=ANY, **WINDOW)
def qlinear_conv(n: Node) -> SSAValue:
    """ONNX's op, and the same with channels last, but for the weight."""
    x = channels_first(n, dequantized(n, 0, axis=1), "channels_last", 0)
    params = conv_params(n, n[3], shape_of(x)[2:])
    bias = bias_of(n, n.get(8), (n[1], n[4]))
    y = n.emit(ConvOp, x, dequantized(n, 3, axis=0), bias, **params)
    return quantized(n, channels_back(n, y, "channels_last", 0), 6)


@contrib_op("QGemm", ranks={0: (2,), 3: (2,)}, alpha=ANY, transA=ANY, transB=ANY)
def qgemm(n: Node) -> SSAValue:
    """alpha A B + C, whose bias C has the scale of the product; quantized if the result has a
    scale."""
    transposed = bool(n.int("transB"))
    lhs, rhs = dequantized(n, 0, axis=-2), dequantized(n, 3, axis=-2 if transposed else -1)
    flags = {"transpose_lhs": bool(n.int("transA")), "transpose_rhs": transposed}
    y = plus(n, n.emit(MatmulOp, lhs, rhs, **flags), bias_of(n, n.get(6), (n[1], n[4])))
    if (alpha := n.float("alpha", 1.0)) != 1.0:
        y = n.emit(e.MulOp, y, n.like(alpha, y))
    return y if n.get(7) is None else quantized(n, y, 7)


def _weight(n: Node, index: int, scale: int, zero: int) -> SSAValue:
    """A quantized matrix with one scale, or one for each column."""
    scales = as_f32(n, n[scale])
    axis = None if _is_scalar(scales) else n.rank(index) - 1
    return n.emit(DequantizeOp, n[index], scales, n.get(zero), axis=axis)


@contrib_op("MatMulIntegerToFloat")
def matmul_integer_to_float(n: Node) -> SSAValue:
    product = multiply(n, _weight(n, 0, 2, 4), _weight(n, 1, 3, 5))
    return plus(n, product, n.get(6))


@contrib_op("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(n: Node) -> SSAValue:
    """The input is quantized by its own range first."""
    x, scale, zero = n.build(DynamicQuantizeOp, n[0]).results
    lhs = n.emit(DequantizeOp, x, scale, zero)
    return plus(n, multiply(n, lhs, _weight(n, 1, 2, 3)), n.get(4))


@contrib_op(
    "QAttention",
    ranks={0: (3,), 1: (2,), 2: (1,), 8: (5,)},
    do_rotary=0, mask_filter_value=ANY, num_heads=ANY, past_present_share_buffer=0, scale=ANY,
    unidirectional=ANY,
)  # fmt: skip
def quantized_attention(n: Node) -> Sequence[SSAValue | None]:
    """Attention whose input and weight are quantized, the rest is not."""
    packed = multiply(n, _weight(n, 0, 3, 6), _weight(n, 1, 4, 7))
    return self_attention(n, plus(n, packed, n.get(2)), n.get(8), mask=5, bias=NO_INPUT)


# ---- the ops of ONNX before it had 4 and 16 bits -------------------------------------------------


contrib_op("QuantizeLinear", axis=ANY)(quantize)
contrib_op("DequantizeLinear", axis=ANY)(dequantize)


# ---- recurrent layers --------------------------------------------------------------------------


def real_weights(n: Node, index: int, scale_index: int) -> SSAValue:
    """Quantized weights [directions, size, gates] as f32, in the order of ONNX's LSTM. The scale
    and the zero point after it are for each direction, or for each gate of a direction too."""

    def wide(value: SSAValue) -> SSAValue:
        value = as_f32(n, value)
        axes = (1, 2) if rank_of(value) == 1 else (1,)
        return n.emit(UnsqueezeOp, value, axes=axes)

    weights = n.emit(e.SubOp, as_f32(n, n[index]), wide(n[scale_index + 1]))
    weights = n.emit(e.MulOp, weights, wide(n[scale_index]))
    return n.emit(TransposeOp, weights, permutation=(0, 2, 1))


@contrib_op(
    "DynamicQuantizeLSTM", activation_alpha=ANY, activation_beta=ANY, activations=ANY, clip=ANY,
    direction=ANY, hidden_size=ANY, input_forget=ANY,
)  # fmt: skip
def dynamic_quantize_lstm(n: Node) -> tuple[SSAValue, ...]:
    """The input is quantized as a whole, the state before each step."""
    x = n.emit(DequantizeOp, *n.build(DynamicQuantizeOp, n[0]).results)
    operands = (x, real_weights(n, 1, 8), real_weights(n, 2, 10))
    forget = bool(n.int("input_forget"))
    return layer(n, LstmOp, (6, 7), operands, input_forget=forget, quantize_state=True)
