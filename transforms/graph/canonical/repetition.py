"""Broadcasts that nobody needs, and picking by constant indices."""

from itertools import accumulate, pairwise
from math import prod

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import MulOp
from ge.dialects.graph.indexing import GatherNdOp, GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, SqueezeOp, TileOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.graph.support.elementwise_bases import Binary, Elementwise, Unary
from ge.dialects.graph.support.folding import splat
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, constant_ints, is_static, normalize_axis, shape_of
from ge.transforms.graph.canonical.facts import uniform
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.graph.canonical.slices import Range, sliced_along
from ge.transforms.graph.canonical.views import reshaped

# ---- broadcast_to and tile ---------------------------------------------------------------------


@rule(BroadcastToOp, below=(BroadcastToOp,))
def broadcast_twice(op: BroadcastToOp, make: Make) -> Replacement:
    """Only the last shape counts."""
    inner, shape = op.input.owner, shape_of(op.result)
    if isinstance(inner, BroadcastToOp) and is_static(shape):
        return make(BroadcastToOp, inner.input, shape=shape)
    return None


@rule(TileOp)
def tile_of_one(op: TileOp, make: Make) -> Replacement:
    """One element repeated is a broadcast."""
    repeats, shape, result = op.ints("repeats"), shape_of(op.input), shape_of(op.result)
    if repeats is None or not is_static(result) or 0 in result:
        return None
    if any(r != 1 and d != 1 for r, d in zip(repeats, shape, strict=True)):
        return None
    return make(BroadcastToOp, op.input, shape=result)


@rule(ConcatOp)
def concat_of_one_value(op: ConcatOp, make: Make) -> Replacement:
    """A value again and again is a tile."""
    first, *others = op.inputs
    if not others or any(v is not first for v in others):
        return None
    repeats = [1] * len(shape_of(first))
    repeats[normalize_axis(op.axis.value.data, len(repeats))] = len(op.inputs)
    return make(TileOp, first, repeats=repeats)


@rule(MulOp, below=(ConstantOp,))
def times_ones(op: MulOp, make: Make) -> Replacement:
    """Times ones of another shape is a broadcast."""
    shape = shape_of(op.result)
    for value, ones in op.sides():
        if splat(ones) == 1 and is_static(shape):
            return make(BroadcastToOp, value, shape=shape)
    return None


def unbroadcast(op: TensorOp, make: Make) -> Replacement:
    """The op on the input of a broadcast, if it broadcasts to the same shape by itself."""
    result = op.results[0].type
    if not is_static(shape_of(op.results[0])):
        return None
    for i, value in enumerate(op.operands):  # one at a time: together they may give the shape
        if not isinstance(value.owner, BroadcastToOp):
            continue
        operands = [value.owner.input if j == i else v for j, v in enumerate(op.operands)]
        new = make(type(op), *operands, **op.properties)
        if new.type == result:
            return new
        make.discard()
    return None


@rule(Elementwise, below=(BroadcastToOp,))
def elementwise_of_broadcast(op: Elementwise, make: Make) -> Replacement:
    """Elementwise ops broadcast by themselves."""
    return unbroadcast(op, make) if len(op.operands) > 1 else None


@rule(MatmulOp, exact=False, below=(BroadcastToOp,))
def matmul_of_broadcast(op: MatmulOp, make: Make) -> Replacement:
    """So do the batch dimensions of a matmul."""
    return unbroadcast(op, make)


@rule(Unary, Binary, below=(BroadcastToOp,))
def broadcast_later(op: Unary | Binary, make: Make) -> Replacement:
    """f(broadcast x) = broadcast f(x): less to compute."""
    shape = shape_of(op.result)
    for i, value in enumerate(op.operands):
        inner = value.owner
        if not isinstance(inner, BroadcastToOp) or not value.has_one_use():
            continue
        others = [v for j, v in enumerate(op.operands) if j != i]
        if not is_static(shape) or shape_of(value) != shape:
            return None
        if any(uniform(v, inner.input) is None for v in others):
            return None
        operands = [inner.input if j == i else v for j, v in enumerate(op.operands)]
        return make(BroadcastToOp, make(type(op), *operands, **op.properties), shape=shape)
    return None


# ---- gather ------------------------------------------------------------------------------------


def progression(numbers: tuple[int, ...]) -> Range | None:
    """The range of numbers that go up or down by one step."""
    steps = {b - a for a, b in pairwise(numbers)} or {1}
    if not numbers or len(steps) > 1 or 0 in steps:
        return None
    return Range(numbers[0], len(numbers), steps.pop())


@rule(GatherOp, below=(ConstantOp,))
def gather_slice(op: GatherOp, make: Make) -> Replacement:
    """Constant indices in regular order are a slice."""
    numbers, shape = constant_ints(op.indices), shape_of(op.input)
    if numbers is None or not is_static(shape):
        return None
    axis = normalize_axis(op.axis.value.data, len(shape))
    dim = shape[axis]
    picked = progression(tuple(n + dim if n < 0 else n for n in numbers))
    if picked is None or not in_bounds(numbers, (dim,)):
        return None
    return reshaped(make, sliced_along(make, op.input, axis, picked), shape_of(op.result))


@rule(GatherNdOp, below=(ConstantOp,))
def gather_in_order(op: GatherNdOp, make: Make) -> Replacement:
    """Constant indices that name the elements (or rows) in their order are a view."""
    numbers, shape = constant_ints(op.indices), shape_of(op.input)
    batch, depth = op.batch_dims.value.data, shape_of(op.indices)[-1]
    if numbers is None or not is_static(shape) or batch or not depth:
        return None
    indexed, rest = shape[:depth], shape[depth:]
    picked = progression(offsets(numbers, indexed))
    if picked is None or picked.step != 1 or not in_bounds(numbers, indexed):
        return None
    flat = make(ReshapeOp, op.input, shape=(prod(indexed), *rest), allow_zero=0 in rest)
    return reshaped(make, sliced_along(make, flat, 0, picked), shape_of(op.result))


@rule(GatherNdOp)
def gather_by_one_index(op: GatherNdOp, make: Make) -> Replacement:
    """Vectors of one index name slices of the first axis behind batches of one place: gather."""
    batch, indices = op.batch_dims.value.data, shape_of(op.indices)
    if indices[-1] != 1 or any(d != 1 for d in (*indices[:batch], *shape_of(op.input)[:batch])):
        return None
    places = make(SqueezeOp, op.indices, axes=[*range(batch), len(indices) - 1])
    return make(GatherOp, op.input, places, axis=batch)


def offsets(numbers: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    """The row-major offsets of rows of indices."""
    strides = list(accumulate((1, *shape[:0:-1]), int.__mul__))[::-1]
    rows = zip(*(iter(numbers),) * len(shape), strict=True)
    return tuple(
        sum((n + d if n < 0 else n) * s for n, d, s in zip(row, shape, strides, strict=True))
        for row in rows
    )


def in_bounds(numbers: tuple[int, ...], shape: Shape) -> bool:
    return all(-shape[i % len(shape)] <= n < shape[i % len(shape)] for i, n in enumerate(numbers))
