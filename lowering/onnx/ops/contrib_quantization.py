"""onnxruntime's quantized ops: floats between a dequantize and a quantize. Their results are within
one step of onnxruntime's, which rounds its own tables and sums of integers.

MatMulNBits has a weight of 2, 4 or 8 bits, with a scale for each block of a row. Its codes come
several in a byte. They become a weight of that element type, dequantized by blocks as quantization
of weights writes it: matmuls take both in. Codes that are known at run time only are taken out of
their bytes by ops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, i8
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.activation import LeakyReluOp, SigmoidOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.quantization import DequantizeOp, DynamicQuantizeOp, QuantizeOp
from ge.dialects.graph.recurrent import LstmOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.element_types import i2, i4, is_float, ui2, ui4, ui8
from ge.dialects.support.types import element_type, rank_of, shape_of, tensor
from ge.lowering.onnx.model import node_name
from ge.lowering.onnx.ops.contrib_attention import self_attention
from ge.lowering.onnx.ops.contrib_layers import (
    WINDOW,
    channels_back,
    channels_first,
    plus,
)
from ge.lowering.onnx.ops.layers import (
    conv_params,
    dequantize,
    dequantized,
    has_one_element,
    layer,
    multiply,
    pool_params,
    quantize,
    quantized,
)
from ge.lowering.onnx.registry import ANY, Node, Unsupported, contrib_op, onnx_op
from ge.runtime.data.arrays import Array, dtype_of, unpacked

NO_INPUT = 1 << 30  # the index of none


def real(n: Node, index: int) -> SSAValue:
    """Quantized input `index` as f32; scale and zero point, each of one element, are the next."""
    return n.emit(DequantizeOp, n[index], n.cast(n[index + 1], f32), n.get(index + 2))


def stored(n: Node, y: SSAValue, index: int, like: int) -> SSAValue:
    """A result quantized with scale `index` and the zero point after it, which may be absent, to
    the type of input `like`."""
    return n.emit(QuantizeOp, y, n.cast(n[index], f32), n.get(index + 1), to=n.element(like))


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


def bias_of(n: Node, bias: SSAValue | None, scales: Sequence[SSAValue]) -> SSAValue | None:
    """A bias of integers, whose scale is the product of those, as f32: one, or one for each of its
    elements."""
    if bias is None:
        return None
    first, second = (n.cast(s, f32) for s in scales)
    scale = n.emit(e.MulOp, first, second)
    axis = None if has_one_element(scale) else rank_of(bias) - 1
    return n.emit(DequantizeOp, bias, scale, axis=axis)


@onnx_op("QLinearConv")
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
    scales = n.cast(n[scale], f32)
    axis = None if has_one_element(scales) else n.rank(index) - 1
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
        value = n.cast(value, f32)
        axes = (1, 2) if rank_of(value) == 1 else (1,)
        return n.emit(UnsqueezeOp, value, axes=axes)

    weights = n.emit(e.SubOp, n.cast(n[index], f32), wide(n[scale_index + 1]))
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


# bits -> the types of codes with and without a sign
_TYPES: dict[int, tuple[Attribute, Attribute]] = {2: (i2, ui2), 4: (i4, ui4), 8: (i8, ui8)}


@dataclass(frozen=True)
class Codes:
    """Storage of a node's weight: `rows` of `terms` codes, `block` of them with one scale."""

    rows: int
    terms: int
    bits: int
    block: int

    @staticmethod
    def of(n: Node) -> "Codes":
        codes = Codes(n.int("N"), n.int("K"), n.int("bits", 4), n.int("block_size"))
        if codes.bits not in _TYPES:
            raise Unsupported(f"attribute 'bits' is {codes.bits}, supported are 2, 4 and 8")
        if min(codes.rows, codes.terms, codes.block) < 1:
            raise Unsupported("attributes 'N', 'K' and 'block_size' are positive")
        return codes

    @property
    def blocks(self) -> int:
        return -(-self.terms // self.block)

    @property
    def middle(self) -> int:
        """The zero point where none is given."""
        return 1 << (self.bits - 1)


def _known(n: Node, codes: Codes, index: int, count: int) -> Array | None:
    """The first `count` codes of each row of input `index`, unsigned, if its bytes are at hand."""
    data = n.constant(index)
    if data is None:
        return None
    if data.nbytes % codes.rows or data.nbytes // codes.rows * 8 // codes.bits < count:
        raise Unsupported(f"input {index} has {data.nbytes} bytes for {codes.rows} x {count} codes")
    bytes_ = np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(codes.rows, -1)
    if codes.bits == 8:
        return bytes_[:, :count]
    return unpacked(bytes_, dtype_of(_TYPES[codes.bits][1]), count)


def _taken_out(n: Node, codes: Codes, index: int, count: int) -> SSAValue:
    """The same as ui8, by ops."""
    data = n.emit(ReshapeOp, n[index], shape=(codes.rows, -1))
    parts: list[SSAValue] = []
    for place in range(0, 8, codes.bits):
        moved = data
        if place:
            moved = n.emit(e.ShiftOp, data, n.const(place, ui8), direction="right")
        low = n.emit(e.AndOp, moved, n.const((1 << codes.bits) - 1, ui8))
        parts.append(n.emit(UnsqueezeOp, low, axes=(2,)))
    rows = n.emit(ReshapeOp, n.emit(ConcatOp, parts, axis=2), shape=(codes.rows, -1))
    return n.emit(SliceOp, rows, starts=(0,), ends=(count,), axes=(1,))


def _is_without_bytes(value: SSAValue) -> bool:
    """Return whether this is a weight: after a look-up that failed, one whose payload is
    missing."""
    return isinstance(value.owner, ConstantOp)


def _constant(
    n: Node, what: str, array: Array | None, shape: tuple[int, int], t: Attribute
) -> SSAValue:
    return n.scope.constant(f"{node_name(n.proto)}.{what}", tensor(shape, t), array)


@dataclass(frozen=True)
class Quantized:
    """Codes, and their zero points where these are integers (None: 0)."""

    codes: SSAValue
    zero: SSAValue | None


def _symmetric(n: Node, codes: Codes) -> bool:
    """Return whether all zero points are the one in the middle."""
    if n.get(3) is None:
        return True
    known = None if is_float(n.element(3)) else _known(n, codes, 3, codes.blocks)
    return known is not None and bool((known.astype(np.int16) == codes.middle).all())


def _quantized(n: Node, codes: Codes) -> Quantized:
    """The weight's codes; signed ones have no zero point. Zero points of floats stay apart."""
    signed, unsigned = _TYPES[codes.bits]
    shape, known = (codes.rows, codes.terms), _known(n, codes, 1, codes.terms)
    stored = known is not None or _is_without_bytes(n[1])
    if _symmetric(n, codes) and stored:
        if known is not None:
            known = (known.astype(np.int16) - codes.middle).astype(dtype_of(signed))
        return Quantized(_constant(n, "codes", known, shape, signed), None)
    if stored:
        weight = _constant(n, "codes", known, shape, unsigned)
    else:
        weight, unsigned = _taken_out(n, codes, 1, codes.terms), ui8
    if n.get(3) is not None and is_float(n.element(3)):
        return Quantized(weight, None)
    return Quantized(weight, _zero_points(n, codes, unsigned))


def _zero_points(n: Node, codes: Codes, t: Attribute) -> SSAValue:
    """Zero points [N, blocks] of integers, of type `t`."""
    shape = (codes.rows, codes.blocks)
    if n.get(3) is None:
        return n.const(np.full(shape, codes.middle), t)
    known = _known(n, codes, 3, codes.blocks)
    if known is not None:
        return _constant(n, "zero_points", known.astype(dtype_of(t)), shape, t)
    if _is_without_bytes(n[3]):
        return _constant(n, "zero_points", None, shape, t)
    found = _taken_out(n, codes, 3, codes.blocks)
    return found if t == ui8 else n.emit(e.CastOp, found, to=t)


def _by_block(n: Node, codes: Codes, value: SSAValue) -> tuple[SSAValue, int]:
    """Scales or zero points, and how many codes each is for: one for each code where `g_idx` says
    which block a code belongs to."""
    value = n.emit(ReshapeOp, value, shape=(codes.rows, codes.blocks))
    if n.get(4) is None:
        return value, codes.block
    return n.emit(GatherOp, value, n[4], axis=1), 1


def _decoded(n: Node, codes: Codes) -> SSAValue:
    """The weight [N, K] as floats."""
    quantized, (scale, block) = _quantized(n, codes), _by_block(n, codes, n[2])
    granularity = {"axis": 1, "block_size": block}
    zero = n.get(3)
    if zero is None or not is_float(element_type(zero)):
        zero = quantized.zero
        zero = zero if zero is None else _by_block(n, codes, zero)[0]
        return n.emit(DequantizeOp, quantized.codes, scale, zero, **granularity)
    # (code - zero point) scale = code scale - zero point scale
    moved = n.emit(e.MulOp, _by_block(n, codes, zero)[0], scale)
    ones = n.const(np.ones((codes.rows, codes.terms)), i8)
    spread = n.emit(DequantizeOp, ones, moved, None, **granularity)
    return n.emit(
        e.SubOp, n.emit(DequantizeOp, quantized.codes, scale, None, **granularity), spread
    )


@contrib_op(
    "MatMulNBits",
    K=ANY, N=ANY, accuracy_level=ANY, bits=ANY, block_size=ANY, weight_prepacked=0,
)  # fmt: skip
def matmul_nbits(n: Node) -> SSAValue:
    """A B^T + bias. `accuracy_level` allows onnxruntime to round A; here it is not rounded."""
    weight = _decoded(n, Codes.of(n))
    return plus(n, multiply(n, n[0], weight, transpose_rhs=True), n.get(5))
