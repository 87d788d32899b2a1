"""Makes an op of each class for random graphs, with operands that suit it.

Most ops are made from their definition alone (`generic`): operands and properties of the kinds
that it states, at random, until `infer` accepts them. Ops of which hardly any random operands fit
together have a maker here that chooses them. A new op, of a plugin too, needs none of this.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from random_builder import Builder, Unsuitable
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    OptOperandDef,
    OptPropertyDef,
    VarOperandDef,
    VarResultDef,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.interfaces import TensorOp
from ge.dialects.types import element_type, is_float, is_integer, numel, shape_of, tensor, ui8

Maker = Callable[[Builder], TensorOp]

MAKERS: dict[type[TensorOp], Maker] = {}


def makes(*ops: type[TensorOp]) -> Callable[[Callable[[Builder, Any], TensorOp]], None]:
    """Register the function below as the maker of these classes."""

    def register(maker: Callable[[Builder, Any], TensorOp]) -> None:
        for op in ops:
            MAKERS[op] = lambda b, op=op: maker(b, op)

    return register


def make(b: Builder, op: type[TensorOp], tries: int = 30) -> TensorOp:
    """An op of the class, not added yet. Raises Unsuitable when none is found."""
    maker = MAKERS.get(op) or (lambda b: generic(b, op))
    for _ in range(tries):
        try:
            made = maker(b)
            made.verify()
            return made
        except (VerifyException, ValueError, IndexError, ZeroDivisionError) as e:
            b.words.setdefault(op, set()).update(re.findall(r"[a-z]\w+", str(e)))
        except Unsuitable:
            pass
    raise Unsuitable


# ---- from the definition -----------------------------------------------------------------------

KINDS: dict[str, Attribute] = {
    "flag": BoolAttr.from_bool(True),
    "int": IntegerAttr(1, i64),
    "float": FloatAttr(1.0, f64),
    "ints": DenseArrayBase.from_list(i64, [1]),
    "floats": DenseArrayBase.from_list(f64, [1.0]),
    "word": StringAttr("?"),
    "words": ArrayAttr([StringAttr("?")]),
}


def kind_of(constraint: Any) -> str:
    """Which of `KINDS` a property is; a property that takes everything is an element type."""

    def fits(attr: Attribute) -> bool:
        try:
            constraint.verify(attr, VerificationContext())
            return True
        except VerifyException:
            return False

    kinds = [name for name, attr in KINDS.items() if fits(attr)]
    return kinds[0] if 0 < len(kinds) < 5 else "element" if kinds else ""


def generic(b: Builder, op: type[TensorOp]) -> TensorOp:
    definition = op.get_irdl_definition()
    properties: dict[str, Any] = {}
    operands: list[Any] = []
    for name, kind in definition.operands:
        first = operands[0] if operands and isinstance(operands[0], SSAValue) else None
        prop = op.PARAMETERS.get(name)
        if isinstance(kind, OptOperandDef) and b.flip():
            operands.append(None)
        elif prop is not None and first is not None:
            value, ints = b.parameter(*random_ints(b, len(shape_of(first))))
            operands.append(value)
            if ints is not None:
                properties[prop] = ints if b.flip(0.7) else ints[0]
        elif isinstance(kind, VarOperandDef) and not isinstance(kind, OptOperandDef):
            head = b.any()
            operands.append([head, *(b.broadcastable(head) for _ in range(b.rng.randint(0, 2)))])
        else:
            operands.append(b.any() if first is None else another(b, first))
    first = next((o for o in operands if isinstance(o, SSAValue)), None)
    rank = 2 if first is None else len(shape_of(first))
    for name, p in definition.properties.items():
        given = name in properties or name in op.PARAMETERS.values()
        optional = isinstance(p, OptPropertyDef) or p.default_value is not None
        if not given and not name.endswith("SegmentSizes") and not (optional and b.flip()):
            value = random_property(b, op, kind_of(p.constr), rank)
            if value is not None:
                properties[name] = value
    if any(isinstance(r, VarResultDef) for _, r in definition.results):
        return op.of(*operands, results=b.rng.randint(1, 3), **properties)
    return op.of(*operands, **properties)


def another(b: Builder, first: SSAValue) -> SSAValue:
    """An operand beside the first one."""
    kind = b.rng.random()
    if kind < 0.75:
        return b.broadcastable(first)
    if kind < 0.85:
        return b.broadcastable(first, b.element())
    return b.any()


def random_ints(b: Builder, count: int) -> Sequence[int]:
    length = b.rng.choice((count, count, 1, 2, 2 * count))
    return [b.rng.randint(-1, 4) for _ in range(max(length, 1))]


def random_property(b: Builder, op: type[TensorOp], kind: str, rank: int) -> Any:
    match kind:
        case "flag":
            return b.flip()
        case "int":
            return b.rng.randint(-2, 3)
        case "float":
            return b.rng.choice((0.0, 1e-5, 0.1, 0.5, 1.0, 2.0))
        case "ints":
            return list(random_ints(b, rank))
        case "floats":
            return [b.rng.choice((0.5, 1.0, 2.0)) for _ in range(rank)]
        case "word":
            return b.rng.choice(sorted(b.words.get(op, ())) or ["?"])
        case "element":
            return b.element()
        case _:
            return None


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
    return op.of(x, rois, b.index((count,), shape_of(x)[0]), output_size=size, mode=mode)


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


# ---- places ------------------------------------------------------------------------------------


def with_axis(b: Builder, low: int = 1) -> tuple[SSAValue, int, int]:
    """A value, one of its axes (from the end, too) and the size of that."""
    x = b.any(low, 4)
    rank = len(shape_of(x))
    axis = b.rng.randrange(rank)
    return x, axis - rank if b.flip(0.3) else axis, shape_of(x)[axis]


@makes(g.indexing.GatherOp)
def gather(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    return op.of(x, b.index(b.shape(0, 2), size), axis=axis)


def few_places(b: Builder, low: int = 1) -> tuple[SSAValue, int, SSAValue]:
    """A value, an axis and indices along it, in the form of gather_elements."""
    x, axis, size = with_axis(b, low)
    shape = [b.rng.randint(1, d) for d in shape_of(x)]
    shape[axis] = b.rng.randint(1, size + 1)
    return x, axis, b.index(shape, size)


@makes(g.indexing.GatherElementsOp)
def gather_elements(b: Builder, op: Any) -> TensorOp:
    x, axis, indices = few_places(b)
    return op.of(x, indices, axis=axis)


@makes(g.indexing.ScatterElementsOp)
def scatter_elements(b: Builder, op: Any) -> TensorOp:
    x, axis, indices = few_places(b)
    updates = b.value(shape_of(indices), element_type(x))
    kind = b.rng.choice(("none", "add", "mul", "max", "min"))
    if element_type(x) == i1:
        kind = "none"
    return op.of(x, indices, updates, axis=axis, reduction=kind)


@makes(g.indexing.GatherNdOp, g.indexing.ScatterNdOp)
def vectors(b: Builder, op: Any) -> TensorOp:
    x = b.any(1, 3)
    shape, depth = shape_of(x), b.rng.randint(1, len(shape_of(x)))
    places = b.shape(0, 2)
    indices = b.index((*places, depth), min(shape[:depth]))
    if op is g.indexing.GatherNdOp:
        return op.of(x, indices)
    return op.of(x, indices, b.value((*places, *shape[depth:]), element_type(x)))


@makes(g.indexing.TensorScatterOp)
def tensor_scatter(b: Builder, op: Any) -> TensorOp:
    x = b.any(2, 4)
    shape = shape_of(x)
    axis = b.rng.randint(1, len(shape) - 1)
    count = b.rng.randint(1, shape[axis])
    updates = b.value((*shape[:axis], count, *shape[axis + 1 :]), element_type(x))
    return op.of(x, updates, None, axis=axis, mode=b.rng.choice(("linear", "circular")))


@makes(g.indexing.CompressOp)
def compress(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    return op.of(x, b.value((b.rng.randint(1, size),), i1), axis=axis)


@makes(g.indexing.OneHotOp)
def one_hot(b: Builder, op: Any) -> TensorOp:
    indices = b.some(lambda v: is_integer(element_type(v)), lambda: tensor(b.shape(0, 2), i64))
    value, depth = b.parameter(b.rng.randint(1, 5))
    axis = b.rng.randint(-1, len(shape_of(indices)))
    depths = None if depth is None else depth[0]
    return op.of(indices, value, b.value((2,), b.element()), depth=depths, axis=axis)


@makes(g.indexing.TopKOp)
def top_k(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    value, k = b.parameter(b.rng.randint(1, size))
    return op.of(x, value, k=None if k is None else k[0], axis=axis, largest=b.flip())


@makes(g.shape.ReverseSequenceOp)
def reverse_sequence(b: Builder, op: Any) -> TensorOp:
    x = b.any(2, 4)
    shape = shape_of(x)
    batch, time = b.rng.sample(range(len(shape)), 2)
    lengths = b.ints(*(b.rng.randint(0, shape[time]) for _ in range(shape[batch])))
    return op.of(x, lengths, batch_axis=batch, time_axis=time)


# ---- shapes ------------------------------------------------------------------------------------


@makes(g.shape.ReshapeOp)
def reshape(b: Builder, op: Any) -> TensorOp:
    x = b.any()
    dims = list(shape_of(x))
    for _ in range(b.rng.randint(1, 3)):  # split, merge or add dimensions
        i = b.rng.randrange(len(dims) + 1)
        if i < len(dims) and dims[i] % 2 == 0 and dims[i] and b.flip():
            dims[i : i + 1] = [2, dims[i] // 2]
        elif i + 1 < len(dims) and b.flip(0.7):
            dims[i : i + 2] = [dims[i] * dims[i + 1]]
        else:
            dims.insert(i, 1)
    if dims and 0 not in dims and b.flip(0.3):
        dims[b.rng.randrange(len(dims))] = -1
    value, target = b.parameter(*dims)
    return op.of(x, value, shape=target)


@makes(g.shape.TransposeOp)
def transpose(b: Builder, op: Any) -> TensorOp:
    x = b.any(1, 4)
    rank = len(shape_of(x))
    return op.of(x, permutation=b.rng.sample(range(rank), rank))


@makes(g.shape.SqueezeOp, g.shape.UnsqueezeOp)
def squeeze(b: Builder, op: Any) -> TensorOp:
    x = b.any(0, 4)
    shape = shape_of(x)
    if op is g.shape.UnsqueezeOp:
        value, axes = b.parameter(b.rng.randint(-len(shape) - 1, len(shape)))
        return op.of(x, value, axes=axes)
    ones = [i for i, d in enumerate(shape) if d == 1]
    if not ones:
        raise Unsuitable
    value, axes = b.parameter(*b.rng.sample(ones, b.rng.randint(1, len(ones))))
    return op.of(x, value, axes=axes)


@makes(g.shape.BroadcastToOp)
def broadcast_to(b: Builder, op: Any) -> TensorOp:
    x = b.any(0, 3)
    shape = [b.size() if d == 1 and b.flip() else d for d in shape_of(x)]
    value, target = b.parameter(*b.shape(0, 1), *shape)
    return op.of(x, value, shape=target)


@makes(g.shape.TileOp)
def tile(b: Builder, op: Any) -> TensorOp:
    x = b.any(1, 3)
    value, repeats = b.parameter(*(b.rng.randint(1, 3) for _ in shape_of(x)))
    return op.of(x, value, repeats=repeats)


@makes(g.shape.DepthToSpaceOp, g.shape.SpaceToDepthOp)
def blocks(b: Builder, op: Any) -> TensorOp:
    n, c, h, w = (b.rng.randint(1, 2) for _ in range(4))
    shape = (n, 4 * c, h, w) if op is g.shape.DepthToSpaceOp else (n, c, 2 * h, 2 * w)
    return op.of(b.value(shape, b.element()), block=2, mode=b.rng.choice(("dcr", "crd")))


@makes(g.slicing.ConcatOp)
def concat(b: Builder, op: Any) -> TensorOp:
    x, axis, _ = with_axis(b)
    values = [x]
    for _ in range(b.rng.randint(1, 2)):
        shape = list(shape_of(x))
        if b.flip():
            shape[axis] = b.size()
        values.append(b.value(shape, element_type(x)))
    b.rng.shuffle(values)
    return op.of(values, axis=axis)


@makes(g.slicing.SplitOp)
def split(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    if b.flip(0.4):
        return op.of(x, None, axis=axis, results=b.rng.randint(1, max(size, 1)))
    cut = b.rng.randint(0, size)
    sizes = [cut, size - cut] if b.flip(0.7) else [size]
    value, given = b.parameter(*sizes)
    return op.of(x, value, sizes=given, axis=axis, results=len(sizes))


@makes(g.slicing.SliceOp)
def slice_(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    step = b.rng.choice((1, 1, 1, 2, -1))
    start, end = b.rng.randint(-size, size), b.rng.randint(-size - 1, size + 3)
    if b.flip(0.3):
        start, end = (0, 1 << 40) if step > 0 else (-1, -1 << 40)
    (u, starts), (v, ends) = b.parameter(start), b.parameter(end)
    (w, axes), (z, steps) = b.parameter(axis), b.parameter(step)
    return op.of(x, u, v, w, z, starts=starts, ends=ends, axes=axes, steps=steps)


@makes(g.slicing.PadOp)
def pad(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    mode = b.rng.choice(g.slicing.PAD_MODES)
    low, high = (b.rng.randint(0, min(2, max(size - 1, 0))) for _ in range(2))
    (u, pads), (v, axes) = b.parameter(low, high), b.parameter(axis)
    value = b.value((), element_type(x)) if mode == "constant" and b.flip() else None
    return op.of(x, u, v, value, pads=pads, axes=axes, mode=mode)


# ---- the rest ----------------------------------------------------------------------------------


@makes(g.reduction.ReduceOp)
def reduce(b: Builder, op: Any) -> TensorOp:
    x = b.any(0, 4)
    rank = len(shape_of(x))
    axes = b.rng.sample(range(rank), b.rng.randint(0, rank))
    value, given = b.parameter(*axes) if axes else (None, None)
    kind = b.rng.choice(g.reduction.REDUCE_KINDS)
    return op.of(x, value, kind=kind, axes=given, keep_dims=b.flip())


@makes(g.reduction.ArgReduceOp, g.reduction.CumulativeOp)
def along_axis(b: Builder, op: Any) -> TensorOp:
    x, axis, _ = with_axis(b)
    if op is g.reduction.ArgReduceOp:
        return op.of(x, kind=b.rng.choice(("max", "min")), axis=axis, keep_dims=b.flip())
    value, given = b.parameter(axis)
    kind, number = b.rng.choice(("sum", "prod")), None if given is None else given[0]
    return op.of(x, value, kind=kind, axis=number, exclusive=b.flip(0.3), reverse=b.flip(0.3))


@makes(g.elementwise.SelectOp)
def select(b: Builder, op: Any) -> TensorOp:
    x = b.any()
    return op.of(b.broadcastable(x, i1), x, b.broadcastable(x))


@makes(g.elementwise.ClampOp)
def clamp(b: Builder, op: Any) -> TensorOp:
    x = b.any()
    low, high = (b.value((), element_type(x)) if b.flip(0.7) else None for _ in range(2))
    return op.of(x, low, high)


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


@makes(g.detection.NonMaxSuppressionOp)
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
