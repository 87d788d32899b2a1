"""Slices, splits, concatenations and pads of one another; broadcasts that no op needs, and picking
by constant indices.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod

from xdsl.ir import Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.slicing import slice_bounds
from ge.dialects.graph.support.elementwise_bases import Binary, Elementwise, Unary
from ge.dialects.graph.support.parameters import distinct_axes, same_number, splat
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.tensor_op import TensorOp, attribute
from ge.dialects.support.types import (
    Shape,
    constant_ints,
    element_type,
    is_static,
    rank_of,
    shape_of,
)
from ge.transforms.analysis.parts import Part, Range, part_of
from ge.transforms.analysis.views import view_offsets
from ge.transforms.graph.canonical.local import Replacement, rule, uniform
from ge.transforms.graph.canonical.transposes import reshaped
from ge.transforms.rewriting.building import Make


def ranges_of(op: g.SliceOp) -> list[Range] | None:
    """Return the range that a slice picks of each dimension, None if that is known only at run
    time."""
    shape, bounds = shape_of(op.input), op.bounds()
    if bounds is None or not is_static(shape):
        return None
    ranges = [Range(0, d) for d in shape]
    for axis, start, end, step in bounds:
        if start is None or end is None or step is None:
            return None
        first, count = slice_bounds(start, end, step, shape[axis])
        ranges[axis] = Range(first, count, step) if count else Range(0, 0)
    return ranges


def sliced_along(make: Make, value: SSAValue, axis: int, one: Range) -> SSAValue:
    """The slice of a value that picks a range of one dimension."""
    ranges = [one if i == axis else Range(0, d) for i, d in enumerate(shape_of(value))]
    return sliced(make, value, ranges)


def sliced(make: Make, value: SSAValue, ranges: Sequence[Range]) -> SSAValue:
    """The slice of a value that picks these ranges; the value itself if that is all."""
    shape = shape_of(value)
    axes = [i for i, r in enumerate(ranges) if not r.is_all(shape[i])]
    if not axes:
        return value
    return make(
        g.SliceOp, value,
        starts=[ranges[i].start for i in axes],
        ends=[ranges[i].end(shape[i]) for i in axes],
        axes=axes,
        steps=[ranges[i].step for i in axes],
    )  # fmt: skip


def is_copy(value: SSAValue) -> bool:
    """Return whether the defining op of a value moves data, that is, makes no view."""
    op = value.owner
    return isinstance(op, Operation) and view_offsets(op) is None


# ---- slices ------------------------------------------------------------------------------------


@rule(g.SliceOp, below=(g.SliceOp,))
def slice_of_slice(op: g.SliceOp, make: Make) -> Replacement:
    """One slice, unless several are views of one copy."""
    inner = op.input.owner
    if not isinstance(inner, g.SliceOp):
        return None
    first, then = ranges_of(inner), ranges_of(op)
    if first is None or then is None:
        return None
    new = sliced(make, inner.input, [b.of(a) for a, b in zip(first, then, strict=True)])
    if is_copy(new) and is_copy(inner.result) and not inner.result.has_one_use():
        return None
    return new


@rule(g.SliceOp, below=(g.ConcatOp,))
def slice_of_concat(op: g.SliceOp, make: Make) -> Replacement:
    """The slice of the operand that it is in, or a concatenation of fewer operands."""
    inner, ranges = op.input.owner, ranges_of(op)
    if not isinstance(inner, g.ConcatOp) or ranges is None:
        return None
    axis = inner.axis.value.data
    r = ranges[axis]
    if not r.count:
        return None
    low, high = sorted((r.start, r.start + (r.count - 1) * r.step))
    ends = list(accumulate(shape_of(v)[axis] for v in inner.inputs))
    placed = zip(inner.inputs, (0, *ends[:-1]), ends, strict=True)
    parts = [(v, start, end) for v, start, end in placed if start <= high and end > low]
    if len(parts) == 1:
        ranges[axis] = Range(r.start - parts[0][1], r.count, r.step)
        return sliced(make, parts[0][0], ranges)
    if len(parts) == len(inner.inputs) or r.step != 1:
        return None
    if parts[0][1] != low or parts[-1][2] != high + 1 or not inner.result.has_one_use():
        return None
    ranges[axis] = Range(0, r.count)
    return sliced(make, make(g.ConcatOp, [p[0] for p in parts], axis=axis), ranges)


# ---- concat and split --------------------------------------------------------------------------


@rule(g.SplitOp)
def split_into_one(op: g.SplitOp, make: Make) -> Replacement:
    """One part is everything."""
    return op.input if len(op.parts) == 1 and op.input.type == op.parts[0].type else None


@rule(g.SplitOp)
def split_for_one(op: g.SplitOp, make: Make) -> Replacement:
    """A split of which one part is used is a slice."""
    used = [p for p in op.parts if p.first_use is not None]
    if len(used) != 1 or len(op.parts) == 1 or not is_static(shape_of(op.input)):
        return None
    axis = op.axis.value.data
    part = along(used[0], axis)
    if part.source is used[0]:
        return None
    new = sliced_along(make, op.input, axis, part.range)
    return [new if p is used[0] else None for p in op.parts]


@rule(g.SplitOp, below=(g.ConcatOp,))
def split_of_concat(op: g.SplitOp, make: Make) -> Replacement:
    """The operands again, where the parts are made of whole ones."""
    inner, shape = op.input.owner, shape_of(op.input)
    if not isinstance(inner, g.ConcatOp) or not is_static(shape):
        return None
    axis = op.axis.value.data
    if op.axis != inner.axis:
        return None
    rest, parts = list(inner.inputs), list[SSAValue]()
    for part in op.parts:
        size, whole = shape_of(part)[axis], list[SSAValue]()
        while rest and size > 0:
            size -= shape_of(rest[0])[axis]
            whole.append(rest.pop(0))
        if size or not whole or (len(whole) > 1 and not inner.result.has_one_use()):
            return None
        parts.append(whole[0] if len(whole) == 1 else make(g.ConcatOp, whole, axis=axis))
    return parts


def along(value: SSAValue, axis: int) -> Part:
    """The elements side by side along `axis` that a slice or a split takes of another value, else
    the whole value."""
    part = part_of(value)
    if part is not None and not part.dropped and (part.axis, part.range.step) == (axis, 1):
        return part
    return Part(value, axis, Range(0, shape_of(value)[axis]))


@rule(g.ConcatOp)
def concat_of_neighbours(op: g.ConcatOp, make: Make) -> Replacement:
    """Parts of one tensor that lie side by side are one part."""
    if not all(is_static(shape_of(v)) for v in op.inputs):
        return None
    axis = op.axis.value.data
    parts: list[tuple[Part, SSAValue | None]] = []
    for value in op.inputs:
        part = along(value, axis)
        last = parts[-1][0] if parts else None
        if last and last.source is part.source and last.range.end(0) == part.range.start:
            both = Range(last.range.start, last.range.count + part.range.count)
            parts[-1] = Part(part.source, axis, both), None
        else:
            parts.append((part, value))
    if len(parts) == len(op.inputs):
        return None
    values = [v or sliced_along(make, part.source, axis, part.range) for part, v in parts]
    return values[0] if len(values) == 1 else make(g.ConcatOp, values, axis=axis)


@rule(g.ConcatOp)
def concat_of_concat(op: g.ConcatOp, make: Make) -> Replacement:
    """Concatenation is associative; nothing adds nothing."""
    axis, values = op.axis.value.data, list[SSAValue]()
    for value in op.inputs:
        inner = value.owner
        if isinstance(inner, g.ConcatOp) and inner.axis == op.axis and value.has_one_use():
            values.extend(inner.inputs)
        elif shape_of(value)[axis] != 0:
            values.append(value)
    if not values or values == list(op.inputs):
        return None
    return make(g.ConcatOp, values, axis=axis)


# ---- pads --------------------------------------------------------------------------------------


def zero_or_more(op: g.PadOp) -> tuple[list[int], list[int]] | None:
    """Return what a pad adds before and after each dimension, None if unknown or negative."""
    rank, pads = rank_of(op.input), op.ints("pads")
    axes = op.ints("axes") if op.axes is not None or op.axes_value is not None else range(rank)
    if pads is None or axes is None or any(p < 0 for p in pads):
        return None
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(distinct_axes(tuple(axes), rank)):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    return before, after


def padding(op: g.PadOp) -> float | None:
    """The number that a pad of mode "constant" adds, if known."""
    if op.mode.data != "constant":
        return None
    return 0.0 if op.value is None else splat(op.value)


@rule(g.PadOp, below=(g.PadOp,))
def pad_of_pad(op: g.PadOp, make: Make) -> Replacement:
    """Twice the same number around is once."""
    inner = op.input.owner
    if not isinstance(inner, g.PadOp) or not inner.result.has_one_use():
        return None
    a, b = zero_or_more(inner), zero_or_more(op)
    x, y = padding(inner), padding(op)
    if a is None or b is None or x is None or y is None or not same_number(x, y):
        return None
    sums = [m + n for side in (0, 1) for m, n in zip(a[side], b[side], strict=True)]
    return make(g.PadOp, inner.input, value=op.value, pads=sums)


@rule(g.ConvOp, below=(g.PadOp,))
def conv_of_pad(op: g.ConvOp, make: Make) -> Replacement:
    """Zeros around the input, or what the convolution pads with, are its own pads."""
    pad = op.input.owner
    if not isinstance(pad, g.PadOp) or op.auto_pad is not None or op.channel_axis != 1:
        return None
    if (number := padding(pad)) is None:
        return None
    whole = is_integer(element_type(op.input))
    value = int(number) if whole and not any(op.ints("pads") or ()) else op.pad_value.value.data
    if not same_number(number, value if whole else 0.0):
        return None
    if (added := zero_or_more(pad)) is None or any(added[0][:2] + added[1][:2]):
        return None
    own = op.ints("pads") or (0,) * (2 * (rank_of(op.input) - 2))
    more = added[0][2:] + added[1][2:]
    pads = [p + q for p, q in zip(own, more, strict=True)]
    params = {**op.properties, "pads": attribute(pads), "pad_value": attribute(value)}
    return make(g.ConvOp, pad.input, op.weight, op.bias, **params)


# ---- broadcast_to and tile ---------------------------------------------------------------------


@rule(g.BroadcastToOp, below=(g.BroadcastToOp,))
def broadcast_twice(op: g.BroadcastToOp, make: Make) -> Replacement:
    """Only the last shape counts."""
    inner, shape = op.input.owner, shape_of(op.result)
    if isinstance(inner, g.BroadcastToOp) and is_static(shape):
        return make(g.BroadcastToOp, inner.input, shape=shape)
    return None


@rule(g.TileOp)
def tile_of_one(op: g.TileOp, make: Make) -> Replacement:
    """One element repeated is a broadcast."""
    repeats, shape, result = op.ints("repeats"), shape_of(op.input), shape_of(op.result)
    if repeats is None or not is_static(result) or 0 in result:
        return None
    if any(r != 1 and d != 1 for r, d in zip(repeats, shape, strict=True)):
        return None
    return make(g.BroadcastToOp, op.input, shape=result)


@rule(g.ConcatOp)
def concat_of_one_value(op: g.ConcatOp, make: Make) -> Replacement:
    """A value again and again is a tile."""
    first, *others = op.inputs
    if not others or any(v is not first for v in others):
        return None
    repeats = [1] * len(shape_of(first))
    repeats[op.axis.value.data] = len(op.inputs)
    return make(g.TileOp, first, repeats=repeats)


@rule(g.MulOp, below=(g.ConstantOp,))
def times_ones(op: g.MulOp, make: Make) -> Replacement:
    """Times ones of another shape is a broadcast."""
    shape = shape_of(op.result)
    for value, ones in op.sides():
        if splat(ones) == 1 and is_static(shape):
            return make(g.BroadcastToOp, value, shape=shape)
    return None


def unbroadcast(op: TensorOp, make: Make) -> Replacement:
    """The op on the input of a broadcast, if it broadcasts to the same shape by itself."""
    result = op.results[0].type
    if not is_static(shape_of(op.results[0])):
        return None
    for i, value in enumerate(op.operands):  # one at a time: together they may give the shape
        if not isinstance(value.owner, g.BroadcastToOp):
            continue
        operands = [value.owner.input if j == i else v for j, v in enumerate(op.operands)]
        new = make(type(op), *operands, **op.properties)
        if new.type == result:
            return new
        make.discard()
    return None


@rule(Elementwise, below=(g.BroadcastToOp,))
def elementwise_of_broadcast(op: Elementwise, make: Make) -> Replacement:
    """Elementwise ops broadcast by themselves."""
    return unbroadcast(op, make) if len(op.operands) > 1 else None


@rule(g.MatmulOp, exact=False, below=(g.BroadcastToOp,))
def matmul_of_broadcast(op: g.MatmulOp, make: Make) -> Replacement:
    """So do the batch dimensions of a matmul."""
    return unbroadcast(op, make)


@rule(Unary, Binary, below=(g.BroadcastToOp,))
def broadcast_later(op: Unary | Binary, make: Make) -> Replacement:
    """f(broadcast x) = broadcast f(x): less to compute."""
    shape = shape_of(op.result)
    for i, value in enumerate(op.operands):
        inner = value.owner
        if not isinstance(inner, g.BroadcastToOp) or not value.has_one_use():
            continue
        others = [v for j, v in enumerate(op.operands) if j != i]
        if not is_static(shape) or shape_of(value) != shape:
            return None
        if any(uniform(v, inner.input) is None for v in others):
            return None
        operands = [inner.input if j == i else v for j, v in enumerate(op.operands)]
        return make(g.BroadcastToOp, make(type(op), *operands, **op.properties), shape=shape)
    return None


# ---- gather ------------------------------------------------------------------------------------


def progression(numbers: tuple[int, ...]) -> Range | None:
    """The range of numbers that go up or down by one step."""
    steps = {b - a for a, b in pairwise(numbers)} or {1}
    if not numbers or len(steps) > 1 or 0 in steps:
        return None
    return Range(numbers[0], len(numbers), steps.pop())


@rule(g.GatherOp, below=(g.ConstantOp,))
def gather_slice(op: g.GatherOp, make: Make) -> Replacement:
    """Constant indices in regular order are a slice."""
    numbers, shape = constant_ints(op.indices), shape_of(op.input)
    if numbers is None or not is_static(shape):
        return None
    axis = op.axis.value.data
    dim = shape[axis]
    picked = progression(tuple(n + dim if n < 0 else n for n in numbers))
    if picked is None or not in_bounds(numbers, (dim,)):
        return None
    return reshaped(make, sliced_along(make, op.input, axis, picked), shape_of(op.result))


@rule(g.GatherNdOp, below=(g.ConstantOp,))
def gather_in_order(op: g.GatherNdOp, make: Make) -> Replacement:
    """Constant indices that name the elements (or rows) in their order are a view."""
    numbers, shape = constant_ints(op.indices), shape_of(op.input)
    batch, depth = op.batch_dims.value.data, shape_of(op.indices)[-1]
    if numbers is None or not is_static(shape) or batch or not depth:
        return None
    indexed, rest = shape[:depth], shape[depth:]
    picked = progression(offsets(numbers, indexed))
    if picked is None or picked.step != 1 or not in_bounds(numbers, indexed):
        return None
    flat = make(g.ReshapeOp, op.input, shape=(prod(indexed), *rest), allow_zero=0 in rest)
    return reshaped(make, sliced_along(make, flat, 0, picked), shape_of(op.result))


@rule(g.GatherNdOp)
def gather_by_one_index(op: g.GatherNdOp, make: Make) -> Replacement:
    """Vectors of one index name slices of the first axis behind batches of one place: gather."""
    batch, indices = op.batch_dims.value.data, shape_of(op.indices)
    if indices[-1] != 1 or any(d != 1 for d in (*indices[:batch], *shape_of(op.input)[:batch])):
        return None
    places = make(g.SqueezeOp, op.indices, axes=[*range(batch), len(indices) - 1])
    return make(g.GatherOp, op.input, places, axis=batch)


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
