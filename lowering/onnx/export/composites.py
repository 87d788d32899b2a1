"""Composites without one ONNX op, as several nodes. Those of 16 bits are computed in f32 and
rounded once, as ge does."""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import attention as at
from ge.dialects.graph import normalization as n
from ge.dialects.support.element_types import is_narrow
from ge.dialects.support.types import DYNAMIC, element_type, normalize_axis, rank_of, shape_of
from ge.lowering.onnx.export.table import python
from ge.lowering.onnx.export.writer import Input, ModelWriter, writes
from ge.lowering.onnx.model import ONNX_NUMBERS


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
    """How many keys before and after its own position a query sees, -1 for all."""
    right = 0 if op.causal.value.data else op.right_window.value.data
    return op.left_window.value.data, right


def is_positional(op: at.AttentionLike) -> bool:
    return op.key_lengths is not None or max(windows(op)) >= 0


def kept_by_position(op: at.AttentionLike, scores: str, w: ModelWriter) -> list[str]:
    """What of the scores stays, by the positions of queries and keys."""

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
