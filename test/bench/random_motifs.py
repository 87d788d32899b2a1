"""Groups of ops that rules look for, with random changes that should keep some of them from firing:
what a model's exporter writes out, which single random ops hardly ever form."""

from collections.abc import Callable
from typing import Any

from random_builder import Builder, Unsuitable
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.support.constraints import NUMBERS
from ge.dialects.support.types import element_type, shape_of

Motif = Callable[[Builder], None]

MOTIFS: list[Motif] = []


def motif(function: Motif) -> Motif:
    MOTIFS.append(function)
    return function


def op(b: Builder, kind: Any, /, *operands: Any, **params: Any) -> SSAValue:
    """The first result of a new op."""
    return b.add(kind.of(*operands, **params))[0]


e, r = g.elementwise, g.reduction


def number(b: Builder, value: float, like: SSAValue) -> SSAValue:
    """A constant; seldom another one."""
    return b.number(value * 1.5 if b.flip(0.05) else value, element_type(like))


def either_way(b: Builder, kind: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return op(b, kind, x, y) if b.flip() else op(b, kind, y, x)


def activated(b: Builder, x: SSAValue) -> SSAValue:
    kinds = (g.activation.ReluOp, g.activation.SigmoidOp, g.activation.GeluOp, e.TanhOp)
    choice = b.rng.choice((*kinds, gelu, silu, None))
    if choice is None:
        return x
    return choice(b, x) if choice in (gelu, silu) else op(b, choice, x)


def gelu(b: Builder, x: SSAValue) -> SSAValue:
    """x / 2 (1 + erf(x / sqrt 2)), or by tanh."""
    if b.flip():
        scaled = op(b, e.DivOp, x, number(b, 2**0.5, x))
        bell = op(b, e.ErfOp, scaled)
    else:
        cube = op(b, e.PowOp, x, number(b, 3.0, x))
        inner = op(b, e.AddOp, x, op(b, e.MulOp, cube, number(b, 0.044715, x)))
        bell = op(b, e.TanhOp, op(b, e.MulOp, inner, number(b, 0.7978845608, x)))
    factor = op(b, e.AddOp, bell, number(b, 1.0, x))
    if b.flip():
        return op(b, e.MulOp, either_way(b, e.MulOp, x, factor), number(b, 0.5, x))
    return either_way(b, e.MulOp, op(b, e.MulOp, x, number(b, 0.5, x)), factor)


def silu(b: Builder, x: SSAValue) -> SSAValue:
    return either_way(b, e.MulOp, x, op(b, g.activation.SigmoidOp, x))


@motif
def activation(b: Builder) -> None:
    activated(b, b.floats(1, 4))


def product(b: Builder, x: SSAValue, n: int) -> SSAValue:
    return op(b, g.linear.MatmulOp, x, b.value((shape_of(x)[-1], n), element_type(x), 0.9))


@motif
def linear(b: Builder) -> None:
    """matmul, bias, activation, residual."""
    x = b.floats(2, 4)
    n = shape_of(x)[-1] if b.flip() else b.size()
    y = product(b, x, n)
    if b.flip(0.8):
        y = either_way(b, e.AddOp, y, b.value((n,), element_type(x)))
    y = activated(b, y)
    if b.flip():
        y = either_way(b, e.AddOp, y, b.value(shape_of(y), element_type(x)))
    if b.flip(0.2):
        op(b, g.shape.ReshapeOp, y, None, shape=[-1])


@motif
def siblings(b: Builder) -> None:
    """Two or three products of one value; two of them may be gated."""
    x, n = b.floats(2, 3), b.size()
    parts = [product(b, x, n) for _ in range(b.rng.randint(2, 3))]
    if b.flip():
        either_way(b, e.MulOp, activated(b, parts[0]), parts[1])


@motif
def convolution(b: Builder) -> None:
    """conv, batch norm, activation, residual."""
    x = b.floats(4, 4)
    t, channels = element_type(x), shape_of(x)[1]
    out = channels if b.flip() else b.size()
    kernel = b.rng.choice(((1, 1), (3, 3)))
    pads = [k // 2 for k in (*kernel, *kernel)]
    w = b.value((out, channels, *kernel), t, 0.9)
    y = op(b, g.convolution.ConvOp, x, w, None, pads=pads)
    if b.flip():
        y = op(b, g.normalization.BatchNormOp, y, *(b.value((out,), t) for _ in range(4)))
    y = activated(b, y)
    if b.flip():
        either_way(b, e.AddOp, y, b.value(shape_of(y), t))


@motif
def norm(b: Builder) -> None:
    """LayerNorm or RMSNorm written out, perhaps after a residual."""
    x = b.floats(2, 4)
    t = element_type(x)
    if b.flip():
        x = op(b, e.AddOp, x, b.value(shape_of(x), t))
    given: dict[str, Any] = {"kind": "mean", "axes": [-1], "keep_dims": True}
    centered = x
    if b.flip():
        centered = op(b, e.SubOp, x, op(b, r.ReduceOp, x, None, **given))
    square = op(b, e.PowOp, centered, number(b, 2.0, x)) if b.flip() else op(
        b, e.MulOp, centered, centered
    )  # fmt: skip
    variance = op(b, r.ReduceOp, square, None, **given)
    deviation = op(b, e.SqrtOp, op(b, e.AddOp, variance, number(b, 1e-5, x)))
    if b.flip():
        y = op(b, e.DivOp, centered, deviation)
    else:
        y = op(b, e.MulOp, centered, op(b, e.ReciprocalOp, deviation))
    size = shape_of(x)[-1:]
    y = either_way(b, e.MulOp, y, b.value(size, t))
    if b.flip():
        either_way(b, e.AddOp, y, b.value(size, t))


@motif
def softmax(b: Builder) -> None:
    """exp(x - max) / sum."""
    x = b.floats(1, 4)
    given: dict[str, Any] = {"axes": [-1], "keep_dims": True}
    if b.flip(0.8):
        x = op(b, e.SubOp, x, op(b, r.ReduceOp, x, None, kind="max", **given))
    y = op(b, e.ExpOp, x)
    op(b, e.DivOp, y, op(b, r.ReduceOp, y, None, kind="sum", **given))


@motif
def attention(b: Builder) -> None:
    """softmax(q k^T * scale + mask) v of 3 or 4 dimensions, in a few spellings; seldom with a head
    that is broadcast, or rounded to another type on the way."""
    q = b.floats(3, 4)
    *batch, tokens, size = shape_of(q)
    scale = max(size, 1) ** -0.5
    t, keys = element_type(q), tokens if b.flip() else b.size()
    if batch[-1] == 1 and b.flip(0.2):
        batch[-1] = b.rng.choice((2, 3))
    heads = [[*batch[:-1], 1 if b.flip(0.1) else batch[-1]] for _ in range(2)]
    k, v = (b.value((*h, keys, size), t) for h in heads)
    before = b.flip()
    if before:
        q = op(b, e.MulOp, q, number(b, scale, q))
    if b.flip():
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        k = op(b, g.shape.TransposeOp, k, permutation=order)
        scores = op(b, g.linear.MatmulOp, q, k)
    else:
        scores = op(b, g.linear.MatmulOp, q, k, transpose_rhs=True)
    if not before:
        scores = op(b, e.MulOp, scores, number(b, scale, q))
    kind = b.rng.choice(("none", "add", "where"))
    if kind == "add":
        scores = op(b, e.AddOp, scores, b.value((tokens, keys), t))
    elif kind == "where":
        low = b.number(float("-inf"), t)
        scores = op(b, e.SelectOp, b.value((tokens, keys), g.attention.i1), scores, low)
    scores = cast_seldom(b, scores)
    axis = -2 if b.flip(0.05) else -1
    weights = op(b, g.normalization.SoftmaxOp, scores, axis=axis)
    weights = cast_seldom(b, weights)
    if element_type(weights) != t:
        weights = op(b, e.CastOp, weights, to=t)
    if b.flip(0.3):
        zero = b.number(0.0, t)
        weights = op(b, e.SelectOp, op(b, e.IsNanOp, weights), zero, weights)
    op(b, g.linear.MatmulOp, weights, v)


def cast_seldom(b: Builder, x: SSAValue) -> SSAValue:
    return op(b, e.CastOp, x, to=b.floating()) if b.flip(0.15) else x


@motif
def heads(b: Builder) -> None:
    """One product, split into three and each into heads."""
    x = b.floats(3, 3)
    n, tokens, _ = shape_of(x)
    count, size = b.rng.choice((1, 2)), b.rng.choice((2, 4))
    y = product(b, x, 3 * count * size)
    parts = b.add(g.slicing.SplitOp.of(y, None, axis=-1, results=3))
    for part in parts:
        z = op(b, g.shape.ReshapeOp, part, None, shape=[n, tokens, count, size])
        op(b, g.shape.TransposeOp, z, permutation=[0, 2, 1, 3])


@motif
def movement(b: Builder) -> None:
    """There and back: transposes, reshapes, slices and concatenations that cancel, or nearly."""
    x = b.any(2, 4)
    rank = len(shape_of(x))
    order = b.rng.sample(range(rank), rank)
    y = op(b, g.shape.TransposeOp, x, permutation=order)
    if b.flip() and element_type(x) in NUMBERS.elements:
        y = op(b, e.NegOp, y)
    back = [order.index(i) for i in range(rank)]
    y = op(b, g.shape.TransposeOp, y, permutation=back if b.flip(0.8) else order)
    flat = op(b, g.shape.ReshapeOp, y, None, shape=[-1])
    op(b, g.shape.ReshapeOp, flat, None, shape=list(shape_of(y)))
    if shape_of(y)[0] > 1:
        first = op(b, g.slicing.SliceOp, y, None, None, None, None, starts=[0], ends=[1], axes=[0])
        rest = op(
            b, g.slicing.SliceOp, y, None, None, None, None, starts=[1], ends=[1 << 40], axes=[0]
        )
        op(b, g.slicing.ConcatOp, [first, rest], axis=0)


@motif
def rotary(b: Builder) -> None:
    """x cos + rotate_half(x) sin."""
    x = b.floats(2, 4)
    size, t = shape_of(x)[-1], element_type(x)
    if size % 2:
        raise Unsuitable
    low, high = b.add(g.slicing.SplitOp.of(x, None, axis=-1, results=2))
    turned = op(b, g.slicing.ConcatOp, [op(b, e.NegOp, high), low], axis=-1)
    tokens = shape_of(x)[-2:]
    a = op(b, e.MulOp, x, b.value(tokens, t))
    op(b, e.AddOp, a, op(b, e.MulOp, turned, b.value(tokens, t)))
