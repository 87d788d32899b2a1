"""Graph ops that become several ONNX nodes: layers and the quantization around them, recurrent
layers, branches and loops, and composites without one ONNX op. Those of 16 bits are computed in
f32 and rounded once, as ge does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, Float64Type, f32, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import attention as at
from ge.dialects.graph import normalization as n
from ge.dialects.graph.control import IfOp, LoopOp
from ge.dialects.graph.convolution import Convolution, ConvOp, ConvTransposeOp
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.linear import GroupedMatmulOp, MatmulOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.quantization import DequantizeOp, Granular, QuantizeOp
from ge.dialects.graph.recurrent import GruOp, LstmOp, Recurrent, RnnOp
from ge.dialects.graph.support.window import WindowedOp
from ge.dialects.support.element_types import bitwidth, is_float, is_narrow, row_of, ui8, ui16
from ge.dialects.support.types import (
    DYNAMIC,
    array_floats,
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.lowering.onnx.export.exporter import Input, ModelWriter, refusal, writes
from ge.lowering.onnx.export.table import python
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.lowering.onnx.ops.layers import ACTIVATIONS
from ge.runtime.data.arrays import Array, dtype_of


def to(value: Input, t: Attribute, w: ModelWriter) -> str:
    return w.node("Cast", value, to=ONNX_NUMBERS[t])


def widened(values: Sequence[SSAValue | None], w: ModelWriter) -> tuple[list[Input], Attribute]:
    """Floats of one element type to compute with, and that type: that of the first if it has more
    than 16 bits and the others have it too."""
    types = {element_type(v) for v in values if v is not None}
    first = values[0]
    assert first is not None
    t = element_type(first)
    if len(types) == 1 and not is_narrow(t):
        return list(values), t
    wide = f32 if is_narrow(t) else t
    return [v if v is None or element_type(v) == wide else to(v, wide, w) for v in values], wide


def rounded(name: str, wide: Attribute, value: SSAValue, w: ModelWriter) -> str:
    return name if element_type(value) == wide else to(name, element_type(value), w)


# ---- activations -------------------------------------------------------------------------------


@writes(a.SiluOp)
def silu(op: a.SiluOp, w: ModelWriter) -> str:
    return swish(op.input, op.alpha.value.data, w)


def swish(x: SSAValue, alpha: float, w: ModelWriter) -> str:
    scaled = x if alpha == 1 else w.node("Mul", x, w.number(alpha, element_type(x)))
    return w.node("Mul", x, w.node("Sigmoid", scaled))


@writes(a.GeluOp)
def gelu(op: a.GeluOp, w: ModelWriter) -> str:
    kind = op.approximate.data
    if kind == "sigmoid":
        return swish(op.input, 1.702, w)
    return w.node("Gelu", op.input, approximate=kind)


# ---- norms -------------------------------------------------------------------------------------


@writes(n.LayerNormOp)
def layer_norm(op: n.LayerNormOp, w: ModelWriter) -> str:
    (x, scale, bias), t = widened((op.input, op.scale, op.bias), w)
    axis, shape = normalize_axis(op.axis.value.data, rank_of(op.input)), shape_of(op.input)
    given = [shape_of(v) for v in (op.scale, op.bias) if v is not None]
    if DYNAMIC not in shape[axis:] and all(s == shape[axis:] for s in given):
        name = w.node("LayerNormalization", x, scale, bias, axis=axis, epsilon=python(op.epsilon))
        return rounded(name, t, op.result, w)
    mean = w.node("ReduceMean", x, over(op, w))
    name = w.node("Mul", normed(op, w.node("Sub", x, mean), t, w), scale)
    return rounded(name if bias is None else w.node("Add", name, bias), t, op.result, w)


@writes(n.RmsNormOp)
def rms_norm(op: n.RmsNormOp, w: ModelWriter) -> str:
    (x, scale), t = widened((op.input, op.scale), w)
    return rounded(w.node("Mul", normed(op, x, t, w), scale), t, op.result, w)


def over(op: n.TrailingNorm, w: ModelWriter) -> str:
    rank = rank_of(op.input)
    return w.ints(range(normalize_axis(op.axis.value.data, rank), rank))


def normed(op: n.TrailingNorm, x: Input, t: Attribute, w: ModelWriter) -> str:
    """x / sqrt(mean(x^2) + epsilon)"""
    square = w.node("ReduceMean", w.node("Mul", x, x), over(op, w))
    epsilon = w.number(op.epsilon.value.data, t)
    return w.node("Div", x, w.node("Sqrt", w.node("Add", square, epsilon)))


@writes(n.GroupNormOp)
def group_norm(op: n.GroupNormOp, w: ModelWriter) -> str:
    """Instance normalization of groups that are laid out as channels."""
    (x, scale, bias), t = widened((op.input, op.scale, op.bias), w)
    groups, rank = op.groups.value.data, rank_of(op.input)
    ones, zeros = (w.number([v] * groups, t) for v in (1.0, 0.0))
    rows = w.node("Reshape", x, w.ints((0, groups, -1)))
    same = w.node("InstanceNormalization", rows, ones, zeros, epsilon=python(op.epsilon))
    y = w.node("Reshape", same, w.node("Shape", x))
    by_channel = w.ints(range(1, rank - 1))
    scale, bias = (w.node("Unsqueeze", v, by_channel) for v in (scale, bias))
    return rounded(w.node("Add", w.node("Mul", y, scale), bias), t, op.result, w)


# ---- attention ---------------------------------------------------------------------------------


@writes(at.RotaryEmbeddingOp)
def rotary(op: at.RotaryEmbeddingOp, w: ModelWriter) -> str:
    (x, cos, sin), t = widened((op.input, op.cos, op.sin), w)
    full, size = bool(op.full_tables.value.data), shape_of(op.cos)[-1]
    length, interleaved = shape_of(op.input)[-1], bool(op.interleaved.value.data)
    size = size if full else 2 * size
    if size < 0 or length == DYNAMIC:
        w.refuse("the size of what is rotated is not known")

    def pair(value: Input) -> list[str]:
        bounds = (
            ((0, size, 2), (1, size, 2)) if interleaved else ((0, size // 2), (size // 2, size))
        )
        return [part(value, *b) for b in bounds]

    def part(value: Input, start: int, end: int, step: int = 1) -> str:
        last = (w.ints((n,)) for n in (start, end, -1, step))
        return w.node("Slice", value, *last)

    a, b = pair(x)
    (c0, c1), (s0, s1) = (pair(v) if full else (v, v) for v in (cos, sin))
    y = [
        w.node("Sub", w.node("Mul", a, c0), w.node("Mul", b, s0)),
        w.node("Add", w.node("Mul", a, s1), w.node("Mul", b, c1)),
    ]
    if interleaved:
        stacked = [w.node("Unsqueeze", v, w.ints((-1,))) for v in y]
        merged = w.node("Concat", *stacked, axis=-1)
        y = [w.node("Reshape", merged, w.ints((*(0,) * (rank_of(op.input) - 1), size)))]
    rest = [part(x, size, length)] if size < length else []
    return rounded(w.node("Concat", *y, *rest, axis=-1), t, op.result, w)


SWAP = (0, 2, 1, 3)  # heads and tokens


@writes(at.AttentionOp)
def attention(op: at.AttentionOp, w: ModelWriter) -> str:
    if op.has_grids:
        w.refuse("its scores or weights are quantized")
    if op.is_integer:
        w.refuse("it is of integers, which have no quantize around them")
    (q, k, v), t = widened((op.query, op.key, op.value), w)
    names = ("query", "key", "value")
    q, k, v = (
        w.node("Transpose", x, perm=SWAP) if op.tokens_first(name) else x
        for name, x in zip(names, (q, k, v), strict=True)
    )
    k, v = (repeated(op, name, x, w) for name, x in (("key", k), ("value", v)))
    scores = scores_of(op, q, k, t, w)
    weights = w.node("Softmax", scores, axis=-1)
    undefined = op.undefined.data
    if undefined == "guard":
        weights = w.node("Where", w.node("IsNaN", weights), w.number(0.0, t), weights)
    elif undefined == "zero" and (op.masks or is_positional(op)):
        top = w.node("ReduceMax", scores, w.ints((-1,)))
        empty = w.node("Equal", top, w.number(float("-inf"), t))
        weights = w.node("Where", empty, w.number(0.0, t), weights)
    result = w.node("MatMul", weights, v)
    if op.tokens_first("result"):
        result = w.node("Transpose", result, perm=SWAP)
    return rounded(result, t, op.result, w)


def repeated(op: at.AttentionOp, name: str, x: Input, w: ModelWriter) -> Input:
    """Keys or values for each query head, heads first."""
    heads, (_, own, _, size) = op.sizes("query")[1], op.sizes(name)
    if heads == own:
        return x
    if DYNAMIC in (heads, own, size):
        w.refuse("the number of heads or elements is not known")
    apart = w.node("Unsqueeze", x, w.ints((2,)))
    many = w.node("Expand", apart, w.ints((1, 1, heads // own, 1, 1)))
    return w.node("Reshape", many, w.ints((0, heads, -1, size)))


def scores_of(op: at.AttentionOp, q: Input, k: Input, t: Attribute, w: ModelWriter) -> str:
    size = op.sizes("query")[3]
    if op.scale is None and size == DYNAMIC:
        w.refuse("the size of a query is not known, from which its scale follows")
    scale = max(size, 1) ** -0.5 if op.scale is None else op.scale.value.data
    q = w.node("Mul", q, w.number(scale, t))
    scores = w.node("MatMul", q, w.node("Transpose", k, perm=(0, 1, 3, 2)))
    if (cap := op.softcap.value.data) > 0:
        limit = w.number(cap, t)
        scores = w.node("Mul", w.node("Tanh", w.node("Div", scores, limit)), limit)
    for mask in op.masks:
        if element_type(mask) == i1:
            scores = w.node("Where", mask, scores, w.number(op.fill.value.data, t))
        else:
            scores = w.node("Add", scores, mask if element_type(mask) == t else to(mask, t, w))
    if is_positional(op):
        for kept in kept_by_position(op, scores, w):
            scores = w.node("Where", kept, scores, w.number(float("-inf"), t))
    return scores


def windows(op: at.AttentionLike) -> tuple[int, int]:
    """Return how many keys before and after its own position a query sees, -1 for all."""
    right = 0 if op.causal.value.data else op.right_window.value.data
    return op.left_window.value.data, right


def is_positional(op: at.AttentionLike) -> bool:
    return op.key_lengths is not None or max(windows(op)) >= 0


def kept_by_position(op: at.AttentionLike, scores: str, w: ModelWriter) -> list[str]:
    """Return the conditions that hold for the scores that stay, by the positions of queries and
    keys."""

    def length(axis: int) -> str:
        return w.node("Squeeze", w.node("Shape", scores, start=axis, end=axis + 1))

    def count(axis: int) -> str:
        zero, one = w.number(0, i64), w.number(1, i64)
        return w.node("Range", zero, length(axis), one)

    def column(value: Input) -> str:
        return w.node("Reshape", value, w.ints((-1, 1, 1, 1)))

    keys, lengths = count(3), None
    if op.key_lengths is not None:
        lengths = column(to(op.key_lengths, i64, w))
    kept: list[str] = []
    left, right = windows(op)
    if max(left, right) >= 0:
        rows = w.node("Unsqueeze", count(2), w.ints((-1,)))
        if op.ints("offset") is not None:
            rows = w.node("Add", rows, w.ints(op.ints("offset") or ()))
        elif op.offset_value is not None:
            rows = w.node("Add", rows, column(to(op.offset_value, i64, w)))
        elif lengths is not None:
            rows = w.node("Add", rows, w.node("Sub", lengths, length(2)))
        for size, sign, compare in ((left, -1, "GreaterOrEqual"), (right, 1, "LessOrEqual")):
            if size >= 0:
                limit = w.node("Add", rows, w.ints((sign * size,))) if size else rows
                kept.append(w.node(compare, keys, limit))
    if lengths is not None:
        kept.append(w.node("Less", keys, lengths))
    return kept


MOST_BIAS = 2**30  # in units of the sums

SHORT = (i16, ui16)  # that ONNX's MatMul does not take


@writes(MatmulOp)
def matmul(op: MatmulOp, w: ModelWriter) -> str:
    sides = (op.lhs, op.transpose_lhs), (op.rhs, op.transpose_rhs)
    left, right, result = map(element_type, (op.lhs, op.rhs, op.result))
    is_short = {left, right} <= {i8, ui8} and result == i32
    is_plain = left == right == result and bitwidth(left) >= 16 and left not in SHORT
    if not is_short and not is_plain and op.to is None:
        w.refuse(f"a product of {left} and {right}, which has no quantize around it")
    operands = [turned(v, w) if flag.value.data else v for v, flag in sides]
    if op.to is not None:  # products are exact in f32
        operands = [w.node("Cast", v, to=ONNX_NUMBERS[op.to]) for v in operands]
    return w.node("MatMulInteger" if is_short else "MatMul", *operands)


def turned(value: SSAValue, w: ModelWriter) -> str:
    rank = rank_of(value)
    if is_stored_turned(value.owner, w):
        return w.name(value)
    return w.node("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def is_stored_turned(op: Any, w: ModelWriter) -> bool:
    """Return whether a transpose is not between a weight and its matmul, but done: other tools see
    a layer of integers where a matmul reads what is dequantized."""
    if not isinstance(op, DequantizeOp) or rank_of(op.result) != 2:
        return False
    if op.block_size.value.data and not (is_wide(op) and all(map(w.is_fixed, op.operands))):
        return False
    use = op.result.get_user_of_unique_use()
    if not isinstance(use, MatmulOp) or use.rhs is not op.result:
        return False
    return bool(use.transpose_rhs.value.data) and w.is_fixed(op.input)


@writes(GroupedMatmulOp)
def grouped_matmul(op: GroupedMatmulOp, w: ModelWriter) -> str:
    if op.in_order:
        raise refusal(op, "it has no matmul of groups of different sizes")
    matrices = turned(op.rhs, w) if op.transpose_rhs.value.data else op.rhs
    return w.node("MatMul", op.lhs, w.node("Gather", matrices, op.groups))


@writes(AddOp)
def add(op: AddOp, w: ModelWriter) -> str:
    return w.node("Add", *(bias_of(v, other, w) for v, other in (op.operands, op.operands[::-1])))


def bias_of(value: SSAValue, other: SSAValue, w: ModelWriter) -> Input:
    """Return the value added to the columns of a matmul, in units of its sums."""
    product = other.owner
    if not isinstance(product, MatmulOp) or not other.has_one_use() or rank_of(product.rhs) != 2:
        return value
    columns = 0 if product.transpose_rhs.value.data else 1
    if shape_of(value)[-1:] != shape_of(product.rhs)[columns:][:1]:
        return value
    return in_units(value, product.lhs, product.rhs, columns, w)


def in_units(
    bias: SSAValue | None, x: SSAValue, weight: SSAValue, outputs: int, w: ModelWriter
) -> Input:
    """A bias as the integers that are added to the sums of a layer of 8 bits, which is how kernels
    of integers want it; unchanged if they do not fit 32 bits, and for other layers."""
    left, right = x.owner, weight.owner
    if not (isinstance(left, DequantizeOp) and isinstance(right, DequantizeOp)):
        return bias
    scales = left.scale, right.scale
    if bias is None or any(element_type(v.input) not in (i8, ui8) for v in (left, right)):
        return bias
    if not all(map(w.is_fixed, (bias, *scales))) or w.is_fixed(left.input):
        return bias
    step, steps = map(w.constants.value, scales)
    if step.size > 1 or (steps.size > 1 and python(right.axis) % rank_of(weight) != outputs):
        return bias
    product, values = step.reshape(()) * steps.reshape(-1), w.constants.value(bias)
    with np.errstate(all="ignore"):
        units = np.rint(np.divide(values, product, dtype=np.float64))
    if not (np.abs(units) < MOST_BIAS).all() or units.shape != values.shape:
        return bias
    number = w.array(units.astype(np.int32), "bias")
    return w.node("DequantizeLinear", number, w.array(product, "scale"), axis=values.ndim - 1)


def window(op: WindowedOp) -> dict[str, Any]:
    auto_pad = None if op.auto_pad is None else op.auto_pad.data.upper()
    names = ("strides", "pads", "dilations")
    return {name: python(getattr(op, name)) for name in names} | {"auto_pad": auto_pad}


@writes(ConvOp, ConvTransposeOp)
def convolution(op: Convolution, w: ModelWriter) -> str:
    if not is_float(t := element_type(op.input)) or bitwidth(t) < 16:
        w.refuse(f"it is of {t}, which has no quantize around it")
    x: Input = op.input
    if op.input_channels_last.value.data:
        rank = rank_of(op.input)
        x = w.node("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])
    attributes = window(op) | {"group": op.groups}
    if isinstance(op, ConvTransposeOp):
        attributes["output_padding"] = python(op.output_padding)
    is_plain = isinstance(op, ConvOp)
    bias = in_units(op.bias, op.input, op.weight, 0, w) if is_plain else op.bias
    return w.node("Conv" if is_plain else "ConvTranspose", x, op.weight, bias, **attributes)


@writes(PoolOp)
def pool(op: PoolOp, w: ModelWriter) -> str:
    kind = op.kind.data
    attributes = window(op) | {"kernel_shape": python(op.kernel)}
    if op.auto_pad is None:
        attributes["ceil_mode"] = python(op.ceil_mode)
    if kind == "average":
        attributes["count_include_pad"] = python(op.count_include_pad)
    if kind == "lp":
        attributes["p"] = python(op.p)
    op_type = {"max": "MaxPool", "average": "AveragePool", "lp": "LpPool"}[kind]
    return w.node(op_type, op.input, **attributes)


# ---- quantization ----------------------------------------------------------------------------


@writes(QuantizeOp)
def quantize(op: QuantizeOp, w: ModelWriter) -> str:
    check_storage(op, op.to, w)
    x: Input = op.input
    if element_type(op.input) != (t := element_type(op.scale)):
        x = w.node("Cast", x, to=ONNX_NUMBERS[t])
    saturate = python(op.saturate) if is_float(op.to) else None
    zero_point, to = op.zero_point, None
    if zero_point is None and is_static(shape_of(op.scale)):
        zero_point = zeros(op, op.to, w)
    elif zero_point is None and op.to != ui8:
        to, w.opset, w.ir_version = ONNX_NUMBERS[op.to], 21, 10
    return grid("QuantizeLinear", op, x, zero_point, w, saturate=saturate, output_dtype=to)


@writes(DequantizeOp)
def dequantize(op: DequantizeOp, w: ModelWriter) -> str:
    check_storage(op, t := element_type(op.input), w)
    x: Input = op.input
    scale: Input = op.scale
    zero_point: Input = op.zero_point
    is_plain = is_static(shape_of(op.scale)) and not op.block_size.value.data
    if turns := is_stored_turned(op, w):
        x = w.array(w.constants.value(op.input).T, w.label(op))
    if turns and op.block_size.value.data:
        scale, zero_point = (
            None if v is None else w.array(w.constants.value(v).T, w.label(op))
            for v in (op.scale, op.zero_point)
        )
    if is_plain and is_multiplied_unsigned(op, w):
        codes, zero = w.constants.value(op.input), op.zero_point
        codes = codes.T if turns else codes
        x = w.array(shifted(codes), w.label(op))
        start = np.zeros(() if is_whole(op, w) else shape_of(op.scale), np.int8)
        zero = start if zero is None else w.constants.value(zero).reshape(start.shape)
        zero_point = w.shared(shifted(zero), "zero_point")
    elif zero_point is None and is_plain and bitwidth(t) <= 16:
        zero_point = zeros(op, t, w)
    return grid("DequantizeLinear", op, x, zero_point, w, turns, scale)


def is_wide(op: Granular) -> bool:
    """Return whether codes, or what they are of, have more than 4 bits."""
    return bitwidth(element_type(op.input)) > 4


def is_multiplied_unsigned(op: DequantizeOp, w: ModelWriter) -> bool:
    """Return whether a weight is written with unsigned codes: it meets activations of 8 bits.
    onnxruntime makes these unsigned on x86, and where a processor has no instruction that adds
    four products (VNNI), sums of two products with signed weights are cut off at 16 bits."""
    users = [use.operation for use in op.result.uses]
    layers = any(isinstance(user, MatmulOp | Convolution) for user in users)
    fixed = w.is_fixed(op.input) and (op.zero_point is None or w.is_fixed(op.zero_point))
    return layers and fixed and element_type(op.input) == i8 and not w.codes.isdisjoint((i8, ui8))


def shifted(codes: Array) -> Array:
    """Codes of i8 as ui8."""
    return (codes.astype(np.int16) + 128).astype(np.uint8)


def zeros(op: Granular, t: Attribute, w: ModelWriter) -> str:
    """The zero point of codes without one. It states their type, where optimizers that move a
    transpose or reshape between them and their floats quantize again: to ui8 if nothing is said."""
    shape = () if is_whole(op, w) else shape_of(op.scale)
    return w.shared(np.zeros(shape, dtype_of(t)), "zero_point")


def is_whole(op: Granular, w: ModelWriter) -> bool:
    """Return whether a grid is written as one of the whole tensor."""
    scale, shape = shape_of(op.scale), shape_of(op.input)
    if not is_static(scale) or numel(scale) > 1 or op.block_size.value.data:
        return False
    by_axis = op.axis is not None and len(scale) == 1 and shape[op.axis.value.data] == 1
    return not (by_axis and w.is_fixed(op.input))


def grid(
    op_type: str, op: Granular, x: Input, zero_point: Input, w: ModelWriter, turns: bool = False,
    scale: Input = None, **attributes: Any,
) -> str:  # fmt: skip
    """The axis of a weight is counted from the last one. So onnxruntime 1.32 leaves the layer in
    floats, as it is written, where its activations do not have 8 bits: of an axis that is counted
    from the first one it makes a matmul that rounds activations to 8 bits. Groups of 4 bits are
    counted from there: such a matmul is faster, and hardly less exact than their weights."""
    if is_whole(op, w):
        return w.node(op_type, x, w.scalar(op.scale), w.scalar(zero_point), **attributes)
    axis, block = python(op.axis), op.block_size.value.data or None
    if w.is_fixed(op.input) and (block is None or is_wide(op)):
        axis = normalize_axis(axis, rank_of(op.input)) - rank_of(op.input)
        axis = -3 - axis if turns else axis
    scale = op.scale if scale is None else scale
    return w.node(op_type, x, scale, zero_point, axis=axis, block_size=block, **attributes)


def check_storage(op: Granular, t: Attribute, w: ModelWriter) -> None:
    row = row_of(t)
    if row is None or row.storage < 4 or (row.is_float and row.bits < 8):
        w.refuse(f"grids of {t} come with a newer opset")
    if op.block_size.value.data or row.bits in (4, 16):
        w.opset, w.ir_version = 21, 10


OP_TYPES: dict[type[Recurrent], str] = {RnnOp: "RNN", GruOp: "GRU", LstmOp: "LSTM"}

NAMES = {ours: (name, alpha, beta) for name, (ours, alpha, beta) in ACTIVATIONS.items()}


def functions(op: Recurrent) -> dict[str, Any]:
    """The activations; ONNX lists alphas and betas for those only that take them."""
    if op.activations is None:
        return {}
    known = [NAMES[name] for name in op.activation_names()]

    def taken(values: DenseArrayBase[Float64Type] | None, which: int) -> list[float] | None:
        floats = [0.0] * len(known) if values is None else array_floats(values)
        return [v for v, k in zip(floats, known, strict=True) if k[which] is not None] or None

    return {
        "activations": [name for name, _, _ in known],
        "activation_alpha": taken(op.alphas, 1),
        "activation_beta": taken(op.betas, 2),
    }


@writes(RnnOp, GruOp, LstmOp)
def recurrent(op: Recurrent, w: ModelWriter) -> list[str]:
    lengths: Input = op.lengths
    if op.lengths is not None and element_type(op.lengths) != i32:
        lengths = to(op.lengths, i32, w)
    inputs: list[Input] = [op.input, op.weights, op.recurrence, op.bias, lengths, op.initial_state]
    attributes = functions(op)
    if isinstance(op, LstmOp):
        if op.quantize_state.value.data:
            w.refuse("ONNX has no LSTM whose state is rounded to 8 bits")
        inputs += [op.initial_cell, op.peephole]
        attributes["input_forget"] = python(op.input_forget)
    if isinstance(op, GruOp):
        attributes["linear_before_reset"] = python(op.linear_before_reset)
    return w.nodes_of(
        OP_TYPES[type(op)], *inputs, results=len(op.results),
        hidden_size=op.hidden, direction=op.direction.data, clip=python(op.clip), **attributes,
    )  # fmt: skip


@writes(IfOp)
def branch(op: IfOp, w: ModelWriter) -> list[str]:
    then, other = w.graph(op.then_region.block), w.graph(op.else_region.block)
    count = len(op.results)
    return w.nodes_of(
        "If", w.scalar(op.condition), results=count, then_branch=then, else_branch=other
    )


@writes(LoopOp)
def loop(op: LoopOp, w: ModelWriter) -> list[str]:
    first = (w.scalar(op.trip_count), w.scalar(op.condition), *op.carried)
    return w.nodes_of("Loop", *first, results=len(op.results), body=w.graph(op.body.block))
