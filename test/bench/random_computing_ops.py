"""Makers of ops that compute (see `random_ops.py`): products, windows, images, attention, norms,
recurrent layers, signals, numbers of few bits."""

from typing import Any

from random_builder import Builder, Unsuitable, makes
from xdsl.dialects.builtin import FloatAttr, f32, i1, i8, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects import graph as g
from ge.dialects.support.constraints import ROUNDINGS
from ge.dialects.support.element_types import is_float, ui8
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of, tensor

# ---- matrices ----------------------------------------------------------------------------------


@makes(g.linear.MatmulOp)
def matmul(b: Builder, op: Any) -> TensorOp:
    x = b.some(lambda v: len(shape_of(v)) >= 2 and product_type(v), lambda: of_rank(b, 2, 4))
    shape, n = shape_of(x), b.size()
    flags = {"transpose_lhs": b.flip(0.1), "transpose_rhs": b.flip(0.3)}
    k = shape[-2] if flags["transpose_lhs"] else shape[-1]
    batch = shape[:-2] if b.flip(0.3) else ()
    matrix = (n, k) if flags["transpose_rhs"] else (k, n)
    return op.of(x, b.value((*batch, *matrix), element_type(x)), **flags)


@makes(g.linear.GroupedMatmulOp)
def grouped_matmul(b: Builder, op: Any) -> TensorOp:
    x = b.some(
        lambda v: len(shape_of(v)) >= 2 and is_float(element_type(v)), lambda: of_rank(b, 2, 4)
    )
    shape, n, experts, flip = shape_of(x), b.size(), b.size(), b.flip()
    matrix = (n, shape[-1]) if flip else (shape[-1], n)
    groups = b.index(shape[:-2] or (b.size(),), experts)
    return op.of(x, b.value((experts, *matrix), element_type(x)), groups, transpose_rhs=flip)


def product_type(value: SSAValue) -> bool:
    return is_float(element_type(value)) or element_type(value) in (i8, ui8, i32)


def of_rank(b: Builder, low: int, high: int) -> Attribute:
    return tensor(b.shape(low, high), b.floating())


@makes(g.linear.EinsumOp)
def einsum(b: Builder, op: Any) -> TensorOp:
    equation = b.rng.choice(
        ("ij,jk->ik", "ij,ij->i", "bij,bjk->bik", "ij->ji", "i,j->ij", "bii->b")
    )
    sizes = {c: b.size() for c in "bijk"}
    element = b.floating()
    terms = equation.partition("->")[0].split(",")
    values = [b.value([sizes[c] for c in t], element) for t in terms]
    return op.of(values, equation=equation)


@makes(g.linear.DetOp)
def determinant(b: Builder, op: Any) -> TensorOp:
    n = b.rng.randint(1, 4)
    return op.of(b.value((*b.shape(0, 2), n, n), b.floating()))


# ---- windows -----------------------------------------------------------------------------------


def image(b: Builder) -> SSAValue:
    """A value of [batch, channels, spatial...]."""
    return b.floats(3, 4)


def window(b: Builder, rank: int, dilated: bool = True) -> dict[str, Any]:
    """Random properties of a sliding window."""
    found: dict[str, Any] = {}
    if b.flip(0.4):
        found["strides"] = [b.rng.randint(1, 2) for _ in range(rank)]
    if dilated and b.flip(0.2):
        found["dilations"] = [b.rng.randint(1, 2) for _ in range(rank)]
    if b.flip(0.5):
        found["pads"] = [b.rng.randint(0, 2) for _ in range(2 * rank)]
    elif b.flip(0.2):
        found["auto_pad"] = b.rng.choice(("same_upper", "same_lower"))
    return found


def kernel(b: Builder, rank: int) -> list[int]:
    return [b.rng.choice((1, 1, 2, 3)) for _ in range(rank)]


@makes(g.convolution.ConvOp)
def conv(b: Builder, op: Any) -> TensorOp:
    x, last = image(b), b.flip(0.2)
    channels, *spatial = shape_of(x)[:0:-1] if last else shape_of(x)[1:]
    group = b.rng.choice([d for d in (1, 1, 1, 2, channels) if channels % d == 0])
    out = group * b.rng.randint(1, 4)
    weight = (out, channels // group, *kernel(b, len(spatial)))
    bias = b.value((out,), element_type(x)) if b.flip() else None
    w = b.value(weight, element_type(x), 0.9)
    params = window(b, len(spatial))
    return op.of(x, w, bias, group=group, input_channels_last=last, **params)


@makes(g.convolution.ConvTransposeOp)
def conv_transpose(b: Builder, op: Any) -> TensorOp:
    x = image(b)
    _, channels, *spatial = shape_of(x)
    group = b.rng.choice([d for d in (1, 1, 2) if channels % d == 0])
    per_group = b.rng.randint(1, 3)
    w = b.value((channels, per_group, *kernel(b, len(spatial))), element_type(x), 0.9)
    bias = b.value((per_group * group,), element_type(x)) if b.flip() else None
    return op.of(x, w, bias, group=group, **window(b, len(spatial)))


@makes(g.convolution.DeformConvOp)
def deform_conv(b: Builder, op: Any) -> TensorOp:
    x = b.floats(4, 4)
    (n, c, *spatial), t = shape_of(x), element_type(x)
    k = kernel(b, 2)
    if any(s < d for s, d in zip(spatial, k, strict=True)):
        raise Unsuitable
    out = [s - d + 1 for s, d in zip(spatial, k, strict=True)]
    w, places = b.value((b.size(), c, *k), t), numel(tuple(k))
    bias = b.value((shape_of(w)[0],), t) if b.flip() else None
    mask = b.value((n, places, *out), t) if b.flip() else None
    return op.of(x, w, b.value((n, 2 * places, *out), t), bias, mask)


@makes(g.convolution.Col2ImOp)
def col2im(b: Builder, op: Any) -> TensorOp:
    block, picture = kernel(b, 2), [b.rng.randint(3, 5), b.rng.randint(3, 5)]
    places = numel([p - k + 1 for p, k in zip(picture, block, strict=True)])
    x = b.value((b.size(), b.rng.randint(1, 3) * numel(block), places), b.floating())
    (v, shape), (u, size) = b.parameter(*picture), b.parameter(*block)
    return op.of(x, v, u, image_shape=shape, block_shape=size)


@makes(g.pooling.PoolOp, g.pooling.MaxPoolIndicesOp)
def pool(b: Builder, op: Any) -> TensorOp:
    x = image(b)
    rank = len(shape_of(x)) - 2
    given = window(b, rank) | {"kernel": kernel(b, rank), "ceil_mode": b.flip(0.2)}
    if op is g.pooling.PoolOp:
        given["kind"] = b.rng.choice(("max", "average", "lp"))
        given["count_include_pad"] = b.flip()
    else:
        given["column_major"] = b.flip(0.2)
    return op.of(x, **given)


@makes(g.pooling.MaxUnpoolOp)
def max_unpool(b: Builder, op: Any) -> TensorOp:
    x = b.floats(4, 4)
    shape = shape_of(x)
    limit = numel(shape) * 4
    return op.of(x, b.index(shape, limit), None, kernel=[2, 2], strides=[2, 2])


@makes(g.pooling.LrnOp)
def lrn(b: Builder, op: Any) -> TensorOp:
    return op.of(image(b), size=b.rng.choice((1, 3)))


@makes(g.pooling.RoiAlignOp, g.pooling.MaxRoiPoolOp)
def regions(b: Builder, op: Any) -> TensorOp:
    x, count = b.floats(4, 4), b.size()
    size = [b.rng.randint(1, 3), b.rng.randint(1, 3)]
    rois = b.value((count, op.ROI_COLUMNS), element_type(x))
    if op is g.pooling.MaxRoiPoolOp:
        return op.of(x, rois, output_size=size)
    mode = b.rng.choice(("average", "max"))
    given = {"mode": mode, "half_pixel": b.flip(), "sampling_ratio": b.rng.choice((0, 1, 2))}
    return op.of(x, rois, b.index((count,), shape_of(x)[0]), output_size=size, **given)


# ---- images ------------------------------------------------------------------------------------


@makes(g.image.ResizeOp)
def resize(b: Builder, op: Any) -> TensorOp:
    x = b.floats(1, 4)
    rank = len(shape_of(x))
    axes = sorted(b.rng.sample(range(rank), b.rng.randint(1, min(rank, 2))))
    given: dict[str, Any] = {"axes": axes, "mode": b.rng.choice(g.image.INTERPOLATIONS)}
    given["coordinates"] = b.rng.choice(g.image.COORDINATES[:-1])
    given["nearest_mode"] = b.rng.choice(g.image.NEAREST)
    if b.flip():
        scales = [b.rng.choice((0.5, 1.0, 2.0, 1.5)) for _ in axes]
        return op.of(x, None, None, None, scales=scales, **given)
    value, sizes = b.parameter(*(b.rng.randint(1, 6) for _ in axes))
    return op.of(x, None, None, value, sizes=sizes, **given)


@makes(g.image.GridSampleOp)
def grid_sample(b: Builder, op: Any) -> TensorOp:
    x = image(b)
    n, _, *spatial = shape_of(x)
    grid = b.value((n, *(b.rng.randint(1, 4) for _ in spatial), len(spatial)), element_type(x))
    given = {"mode": b.rng.choice(("nearest", "linear")), "align_corners": b.flip()}
    return op.of(x, grid, padding_mode=b.rng.choice(g.image.PADDINGS), **given)


@makes(g.image.AffineGridOp)
def affine_grid(b: Builder, op: Any) -> TensorOp:
    n, rank = b.size(), b.rng.choice((2, 3))
    value, size = b.parameter(n, 1, *(b.rng.randint(1, 4) for _ in range(rank)))
    return op.of(b.value((n, rank, rank + 1), b.floating()), value, size=size)


# ---- attention, normalization, recurrence --------------------------------------------------------


def attention_operands(b: Builder) -> tuple[dict[str, Any], list[SSAValue], list[SSAValue]]:
    """Properties, query and key, masks."""
    n, heads, keys, size = b.rng.randint(1, 2), b.rng.choice((1, 2, 4)), b.size(), b.size()
    q = b.some(
        lambda v: is_float(element_type(v)) and len(shape_of(v)) == 4, lambda: of_rank(b, 4, 4)
    )
    n, heads, queries, size = shape_of(q)
    t = element_type(q)
    key_heads = b.rng.choice([h for h in (1, heads, heads) if heads % h == 0])
    masks: list[SSAValue] = []
    for _ in range(b.rng.choice((0, 0, 1, 1, 2))):
        shape = (n, heads, queries, keys)[b.rng.randint(0, 3) :]
        masks.append(b.value([1 if b.flip(0.2) else d for d in shape], b.rng.choice((t, i1))))
    given = {"causal": b.flip(0.3), "softcap": b.rng.choice((0.0, 0.0, 2.0))}
    if b.flip(0.3):
        given["scale"] = 0.25
    return given, [q, b.value((n, key_heads, keys, size), t)], masks


@makes(g.attention.AttentionOp)
def attention(b: Builder, op: Any) -> TensorOp:
    given, (q, k), masks = attention_operands(b)
    v = b.value((*shape_of(k)[:3], b.size()), element_type(q))
    return op.of(q, k, v, masks, None, None, **given)


@makes(g.attention.AttentionScoresOp)
def attention_scores(b: Builder, op: Any) -> TensorOp:
    given, (q, k), masks = attention_operands(b)
    return op.of(q, k, masks, None, None, stage=b.rng.choice(g.attention.STAGES), **given)


@makes(g.attention.RotaryEmbeddingOp)
def rotary(b: Builder, op: Any) -> TensorOp:
    x = b.some(
        lambda v: is_float(element_type(v)) and bool(s := shape_of(v)) and s[-1] % 2 == 0,
        lambda: of_rank(b, 2, 4),
    )
    *rest, size = shape_of(x)
    if size % 2:
        raise Unsuitable
    full = b.flip()
    shape = (*rest[len(rest) - b.rng.randint(0, len(rest)) :], size if full else size // 2)
    cos, sin = (b.value(shape, element_type(x)) for _ in range(2))
    return op.of(x, cos, sin, interleaved=b.flip(), full_tables=full)


@makes(g.normalization.LayerNormOp, g.normalization.RmsNormOp)
def trailing_norm(b: Builder, op: Any) -> TensorOp:
    x = b.floats(1, 4)
    axis = -1 if b.flip(0.7) else b.rng.randint(-len(shape_of(x)), -1)
    shape, t = shape_of(x)[axis:], element_type(x)
    scale = b.value(shape, t)
    if op is g.normalization.RmsNormOp:
        return op.of(x, scale, axis=axis)
    return op.of(x, scale, b.value(shape, t) if b.flip(0.7) else None, axis=axis)


@makes(g.normalization.GroupNormOp, g.normalization.BatchNormOp)
def channel_norm(b: Builder, op: Any) -> TensorOp:
    x = b.floats(2, 4)
    channels, t = shape_of(x)[1], element_type(x)
    if op is g.normalization.BatchNormOp:
        return op.of(x, *(b.value((channels,), t) for _ in range(4)))
    groups = b.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    return op.of(x, *(b.value((channels,), t) for _ in range(2)), groups=groups)


@makes(g.recurrent.RnnOp, g.recurrent.GruOp, g.recurrent.LstmOp)
def recurrent(b: Builder, op: Any) -> TensorOp:
    x = b.floats(3, 3)
    steps, n, size = shape_of(x)
    t, hidden = element_type(x), b.rng.randint(1, 4)
    direction = b.rng.choice(("forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1

    def optional(*shape: int) -> SSAValue | None:
        return b.value(shape, t) if b.flip() else None

    operands: list[SSAValue | None] = [
        x,
        b.value((d, op.GATES * hidden, size), t),
        b.value((d, op.GATES * hidden, hidden), t),
        optional(d, 2 * op.GATES * hidden),
        b.index((n,), steps) if b.flip(0.2) and steps > 1 else None,
        optional(d, n, hidden),
    ]
    if op is g.recurrent.LstmOp:
        operands += [optional(d, n, hidden), optional(d, 3 * hidden)]
    return op.of(*operands, direction=direction)


# ---- few bits, signals, detection --------------------------------------------------------------


@makes(g.quantization.QuantizeOp, g.quantization.DequantizeOp)
def quantize(b: Builder, op: Any) -> TensorOp:
    storage, t = b.rng.choice((i8, ui8)), b.floating()
    if op is g.quantization.QuantizeOp:
        x = b.floats(0, 4)
        given: dict[str, Any] = {"to": storage}
    else:
        x = b.some(lambda v: element_type(v) in (i8, ui8), lambda: tensor(b.shape(), storage))
        storage, given = element_type(x), {}
    shape = ()
    if shape_of(x) and b.flip():
        axis = b.rng.randrange(len(shape_of(x)))
        given["axis"], shape = axis, (shape_of(x)[axis],)
    zero = b.value(shape, storage) if b.flip() else None
    return op.of(x, b.value(shape, t), zero, **given)


@makes(g.quantization.RequantizeOp)
def requantize(b: Builder, op: Any) -> TensorOp:
    x = b.some(lambda v: element_type(v) in (i8, i32), lambda: tensor(b.shape(), i32))
    given: dict[str, Any] = {"to": b.rng.choice((i8, ui8))}
    given["rounding"], shape = b.rng.choice(ROUNDINGS), ()
    if shape_of(x) and b.flip():
        axis = b.rng.randrange(len(shape_of(x)))
        given["axis"], shape = axis, (shape_of(x)[axis],)
    offset = b.value((), element_type(x)) if b.flip() else None
    zero = b.value((), given["to"]) if b.flip() else None
    return op.of(x, b.value(shape, f32), offset, zero, **given)


@makes(g.quantization.LookupOp)
def lookup(b: Builder, op: Any) -> TensorOp:
    x = b.some(lambda v: element_type(v) in (i8, ui8), lambda: tensor(b.shape(), i8))
    return op.of(x, b.value((256,), b.rng.choice((i8, ui8, f32))))


@makes(g.signal.DftOp)
def dft(b: Builder, op: Any) -> TensorOp:
    real = b.flip()
    x = b.value((b.size(), b.rng.randint(2, 5), 1 if real else 2), b.floating())
    return op.of(x, None, None, axis=1, onesided=real and b.flip())


@makes(g.signal.StftOp)
def stft(b: Builder, op: Any) -> TensorOp:
    x = b.value((b.size(), b.rng.randint(4, 8), 1), b.floating())
    length = b.rng.randint(2, 4)
    window_ = b.value((length,), element_type(x)) if b.flip() else None
    return op.of(x, window_, None, None, frame_step=b.rng.randint(1, 2), frame_length=length)


@makes(g.signal.MelWeightMatrixOp)
def mel(b: Builder, op: Any) -> TensorOp:
    t = b.floating()
    counts = [b.constant_int(n) for n in (b.rng.randint(1, 4), 8, 16)]
    return op.of(*counts, b.number(0.5, t), b.number(b.rng.choice((4.0, 8.0)), t), to=b.floating())


@makes(g.image.NonMaxSuppressionOp)
def suppression(b: Builder, op: Any) -> TensorOp:
    n, count, t = b.rng.randint(1, 2), b.rng.randint(1, 4), b.floating()
    boxes, scores = b.value((n, count, 4), t), b.value((n, b.rng.randint(1, 2), count), t)
    limit = b.constant_int(b.rng.randint(1, 3))
    threshold = b.number(0.5, t) if b.flip() else None
    return op.of(boxes, scores, limit, threshold, None)


@makes(g.creation.RangeOp)
def range_(b: Builder, op: Any) -> TensorOp:
    return op.of(*(b.constant_int(n) for n in (0, b.rng.randint(0, 8), b.rng.randint(1, 2))))


@makes(g.creation.FillOp, g.creation.EyeOp)
def filled(b: Builder, op: Any) -> TensorOp:
    if op is g.creation.EyeOp:
        value, shape = b.parameter(b.size(), b.size())
        return op.of(value, element=b.element(), shape=shape, diagonal=b.rng.randint(-1, 1))
    value, shape = b.parameter(*b.shape())
    return op.of(value, value=FloatAttr(b.rng.choice((0.0, 1.0, 0.5)), b.floating()), shape=shape)
