"""Makers of ops that move, choose and reduce elements (see `random_ops.py`)."""

from typing import Any

from random_builder import Builder, Unsuitable, makes
from xdsl.dialects.builtin import StringAttr, i1, i64
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of, tensor

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


# ---- along axes, elementwise --------------------------------------------------------------------


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


@makes(g.control.AssertOp)
def asserted(b: Builder, op: Any) -> TensorOp:
    """One whose condition holds, else no run has numbers."""
    return op.of(b.any(), b.number(1, i1), message=StringAttr("?"))


@makes(g.MapIndexOp)
def map_index(b: Builder, op: Any) -> TensorOp:
    x, axis, _ = with_axis(b)
    size = shape_of(x)[axis]
    rows = [[size + i] for i in range(b.rng.randint(1, 3))]
    b.rng.shuffle(rows)
    return op.make([x], [axis % len(shape_of(x))], rows)


@makes(g.attention.AppendOp)
def append(b: Builder, op: Any) -> TensorOp:
    x, axis, size = with_axis(b)
    if not size:
        raise Unsuitable
    shape = [*shape_of(x)]
    shape[axis] = b.rng.randint(1, size)
    rows = b.value(shape, element_type(x))
    return op.of(x, rows, b.constant_int(size), axis=axis % len(shape))
