"""ONNX's random ops. Each draws from a stream of its own, which its name in the model chooses: it
draws the same numbers whatever else a model has, and whatever of it is known at import. A node with
an attribute `seed` draws from that (see `dialects/graph/creation.py`)."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.creation import RandomNormalOp, RandomOp, RandomUniformOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.shape import ShapeOfOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import DYNAMIC, element_type, is_static, shape_of
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op

Sizes = tuple[SSAValue | None, Sequence[int] | None]  # what a shape is as operand and as property


def draw(
    n: Node, op: type[RandomOp], sizes: Sizes, element: Attribute, **params: Param
) -> SSAValue:
    if not is_float(element):
        raise Unsupported(f"random numbers are floats, not {element}")
    own = n.attribute("seed")
    if own is not None and not np.isfinite(own):
        raise Unsupported(f"seed {own} is no number")
    operand, shape = sizes
    source: dict[str, Param] = {"own": int(own)} if own is not None else {"stream": n.stream()}
    return n.emit(op, n.seed(), operand, shape=shape, element=element, **source, **params)


def sizes_like(n: Node, value: SSAValue) -> Sizes:
    shape = shape_of(value)
    return (None, shape) if is_static(shape) else (n.emit(ShapeOfOp, value), None)


def element_asked(n: Node, default: Attribute) -> Attribute:
    return element_of_onnx(n.int("dtype")) if "dtype" in n.attributes else default


@onnx_op("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def random_tensor(n: Node) -> SSAValue:
    if n.op_type.endswith("Like"):
        sizes, element = sizes_like(n, n[0]), element_asked(n, n.element(0))
    else:
        sizes, element = (None, n.ints("shape")), element_asked(n, f32)
    if "Uniform" in n.op_type:
        limits: dict[str, Param] = {"low": n.float("low"), "high": n.float("high", 1.0)}
        return draw(n, RandomUniformOp, sizes, element, **limits)
    spread: dict[str, Param] = {"mean": n.float("mean"), "scale": n.float("scale", 1.0)}
    return draw(n, RandomNormalOp, sizes, element, **spread)


def happens(n: Node, probability: SSAValue, sizes: Sizes) -> SSAValue:
    """Draw whether something of this probability happens, for each element of a tensor of these
    sizes."""
    wide = f64 if element_type(probability) == f64 else f32
    below = n.cast(probability, wide)
    drawn = draw(n, RandomUniformOp, sizes, wide)
    return n.emit(e.CompareOp, drawn, below, predicate="lt")


@onnx_op("Bernoulli")
def bernoulli(n: Node) -> SSAValue:
    return n.cast(happens(n, n[0], sizes_like(n, n[0])), element_asked(n, n.element(0)))


@onnx_op("Multinomial")
def multinomial(n: Node) -> SSAValue:
    """For each sample the number of classes whose cumulated probabilities are not above a number
    that is drawn. Classes from the first on that reaches the total do not count: rounding may make
    a number as large as the total, and there are no classes behind."""
    if n.rank(0) != 2:
        raise Unsupported(f"logits have 2 dimensions, not {n.rank(0)}")
    count = n.int("sample_size", 1)
    logits = n.cast(n[0], f32)
    highest = n.emit(ReduceOp, logits, kind="max", axes=(1,), keep_dims=True)
    weights = n.emit(e.ExpOp, n.emit(e.SubOp, logits, highest))
    sums = n.emit(CumulativeOp, weights, kind="sum", axis=1)
    total = n.emit(SliceOp, sums, starts=(-1,), ends=(1 << 31,), axes=(1,))
    drawn = draw(n, RandomUniformOp, _samples(n, count), f32)
    limit = n.emit(UnsqueezeOp, n.emit(e.MulOp, drawn, total), axes=(2,))
    sums, total = (n.emit(UnsqueezeOp, v, axes=(1,)) for v in (sums, total))
    passed = n.emit(e.CompareOp, sums, limit, predicate="le")
    before = n.emit(e.AndOp, passed, n.emit(e.CompareOp, sums, total, predicate="lt"))
    found = n.emit(
        ReduceOp, n.emit(e.CastOp, before, to=i32), kind="sum", axes=(2,), keep_dims=False
    )
    return n.cast(found, element_asked(n, i32))


def _samples(n: Node, count: int) -> Sizes:
    if (batch := n.shape(0)[0]) != DYNAMIC:
        return None, (batch, count)
    rows = n.emit(ShapeOfOp, n[0], start=0, end=1)
    return n.emit(ConcatOp, [rows, n.const([count])], axis=0), None


@onnx_op("Dropout")
def dropout(n: Node) -> SSAValue | tuple[SSAValue, ...]:
    """The identity with a mask of ones, unless it is in training mode, which may be known only at
    run time."""
    training = n.get(2)
    known = np.False_ if training is None else n.constant(2)
    ratio = n.constant(1) if n.get(1) is not None else np.float32(0.5)
    if (known is not None and not known.any()) or (ratio is not None and not ratio.any()):
        return all_kept(n)
    if ratio is not None and not 0 <= ratio.item() < 1:
        raise Unsupported(f"a ratio of {ratio.item()} is not in 0 to 1, 1 excluded")
    share = n.const(ratio, n.element(0)) if ratio is not None else n.cast(n[1], n.element(0))
    return dropped(n, share, None if known is not None else training)


def all_kept(n: Node) -> SSAValue | tuple[SSAValue, ...]:
    return (n[0], _ones(n)) if n.wants(1) else n[0]


def dropped(
    n: Node, share: SSAValue, training: SSAValue | None = None
) -> tuple[SSAValue, SSAValue]:
    """Input 0 with that share of its elements dropped, and the mask of the others, which are
    scaled up. Nothing is dropped where `training` is false when it runs."""
    drops = happens(n, share, sizes_like(n, n[0]))
    if training is not None:
        drops = n.emit(e.AndOp, drops, training)
        share = n.emit(e.SelectOp, training, share, n.like(0, share))
    scale = n.emit(e.ReciprocalOp, n.emit(e.SubOp, n.like(1, share), share))
    kept = n.emit(e.MulOp, n[0], scale)
    return n.emit(e.SelectOp, drops, n.like(0, kept), kept), n.emit(e.NotOp, drops)


def _ones(n: Node) -> SSAValue:
    """A mask of the shape of input 0: true, or 1 before opset 10."""
    if is_static(n.shape(0)) and n.opset >= 10:
        return n.const(np.ones(n.shape(0), np.bool_))
    unknown = n.emit(e.IsNanOp, n[0])
    mask = n.emit(e.OrOp, unknown, n.emit(e.NotOp, unknown))
    return mask if n.opset >= 10 else n.cast(mask, n.element(0))
