"""Layers in ops that have programs: `expand_layers.py` says why.

So is what moves elements to computed places. Fourier transforms are products with constant
matrices, on the cube. CANN's `Stft` takes such a matrix, its `plan`, too. A matrix of n elements
costs n^2: longer transforms than `MOST` elements of a matrix are not changed.
"""

from itertools import combinations, pairwise, product
from math import gcd, pi, prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.slicing import distinct_axes
from ge.dialects.graph.support.parameters import highest, lowest
from ge.dialects.graph.support.window import Window
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.runtime.data.arrays import Array, dense, dtype_of
from ge.transforms.analysis.parts import inverse
from ge.transforms.graph.canonical.linear_maps import (
    as_type,
    is_prepared,
    shaped,
    wide,
    widened,
)
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.graph.canonical.sampling import (
    MOST_TAPS,
    FloatArithmetic,
    can_sample,
    channels_first,
    table_of,
    weighted_rows,
)
from ge.transforms.rewriting.building import Make

MOST_MINORS = 4  # rows of a matrix whose determinant is written out

MOST_WEIGHTS = 1 << 22  # elements of a matrix that resizes an axis

LAST = ("input_channels_last", "operandSegmentSizes")

GIVEN = ("axes", "scales", "sizes", "operandSegmentSizes")

PART = 4096  # elements of a row: with their numbers and copies they take half of a core's 192 KB


@rule(g.TopKOp)
def top_k_of_rows(op: g.TopKOp, make: Make) -> Replacement:
    """The largest elements along a dimension are those along the last one of a transposition"""
    rank = rank_of(op.input)
    axis = op.axis.value.data
    if axis == rank - 1:
        return None
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = make(g.TransposeOp, op.input, permutation=order)
    params = {**op.properties, "axis": rank - 1}
    found = make.op(g.TopKOp, rows, op.k_value, **params)
    return [make(g.TransposeOp, v, permutation=inverse(order)) for v in found.results]


@rule(g.TopKOp)
def top_k_of_parts(op: g.TopKOp, make: Make) -> Replacement:
    """The largest elements of a long row are those of the largest of its parts"""
    shape, count = shape_of(op.input), op.ints("k")
    if op.axis.value.data != len(shape) - 1 or not is_static(shape):
        return None
    *lines, size = shape
    parts = -(-size // PART)
    if count is None or size <= 2 * PART or 2 * parts * count[0] > size or not numel(shape):
        return None
    length, element, last = -(-size // parts), element_type(op.input), len(shape) - 1
    worst = (lowest if op.largest.value.data else highest)(element)
    rows = make(
        g.PadOp,
        op.input,
        value=make.splat(worst, element),
        pads=[0, parts * length - size],
        axes=[last],
    )
    params = {**op.properties, "axis": last + 1}
    rows = make(g.ReshapeOp, rows, shape=(*lines, parts, length))
    values, indices = make.op(g.TopKOp, rows, None, **params).results
    first = make.constant(np.arange(parts)[:, None] * length)
    both = (values, make(g.AddOp, indices, first))
    values, indices = (make(g.ReshapeOp, v, shape=(*lines, parts * shape_of(v)[-1])) for v in both)
    found = make.op(g.TopKOp, values, None, **{**params, "axis": last})
    return [found.values, make(g.GatherElementsOp, indices, found.indices, axis=last)]


@rule(g.LrnOp, exact=False)
def lrn_by_pool(op: g.LrnOp, make: Make) -> Replacement:
    """The squares around a channel are those of a window on an image whose lines are channels"""
    shape, size, element = shape_of(op.input), op.size.value.data, element_type(op.input)
    if not is_static(shape) or not numel(shape):
        return None
    batch, channels, *rest = shape
    x = widened(make, op.input)
    squares = shaped(make, make(g.MulOp, x, x), (batch, 1, channels, numel(tuple(rest))))
    pads = [(size - 1) // 2, 0, size // 2, 0]
    mean = make(
        g.PoolOp, squares, kind="average", kernel=[size, 1], pads=pads, count_include_pad=True
    )
    own = element_type(x)
    alpha, beta, bias = (make.splat(p.value.data, own) for p in (op.alpha, op.beta, op.bias))
    base = make(g.AddOp, make(g.MulOp, make(g.ReshapeOp, mean, shape=shape), alpha), bias)
    return as_type(make, make(g.DivOp, x, make(g.PowOp, base, beta)), element)


@rule(g.ConvTransposeOp, exact=False)
def transposed_conv_by_conv(op: g.ConvTransposeOp, make: Make) -> Replacement:
    """A transposed convolution of stride 1 is one of the kernel backwards, whose elements lie side
    by side in memory for one block of the result. Its weights are made at load."""
    shape, groups = shape_of(op.weight), op.groups
    window, spatial = op.transposed_window(shape[2:]), range(2, len(shape))
    if {*window.strides} != {1} or op.channel_axis != 1 or not is_prepared(op.weight):
        return None
    if isinstance(
        op.weight.owner, g.DequantizeOp
    ):  # in the launch, of the integers that are stored
        return None
    if not is_static(shape_of(op.result)) or not is_float(element_type(op.input)):
        return None
    extents = [window.extent(i) - 1 for i in range(window.rank)]
    ends = zip(extents, window.pads[window.rank :], op.extra(), strict=True)
    pads = [n - pad for n, pad in zip(extents, window.pads, strict=False)]
    pads += [n - pad + more for n, pad, more in ends]
    if min(pads) < 0:
        return None
    back = {"starts": [-1] * len(spatial), "ends": [-n - 1 for n in shape[2:]]}
    steps = [-1] * len(spatial)
    weight = make(g.SliceOp, op.weight, **back, axes=[*spatial], steps=steps)
    ins, outs = shape[0] // groups, shape[1]
    weight = make(g.ReshapeOp, weight, shape=[groups, ins, outs, *shape[2:]])
    order = [0, 2, 1, *range(3, len(shape) + 1)]
    weight = make(g.TransposeOp, weight, permutation=order)
    weight = make(g.ReshapeOp, weight, shape=[groups * outs, ins, *shape[2:]])
    apart = {"pads": pads, "dilations": list(window.dilations), "group": groups}
    return make(g.ConvOp, op.input, weight, op.bias, **apart)


@rule(g.ReduceOp, exact=False)
def product_of_halves(op: g.ReduceOp, make: Make) -> Replacement:
    """The product of the elements along a dimension is that of one half times the other one"""
    axes, x = op.reduced_axes(), op.input
    if op.kind.data != "prod" or axes is None or not is_static(shape_of(x)):
        return None
    if 0 in shape_of(x) or is_prepared(x):
        return None
    element = element_type(x)
    x = widened(make, x) if is_float(element) else x
    for axis in axes:
        rest = list[SSAValue]()
        while (count := shape_of(x)[axis]) > 1:
            ends = (0, count // 2, count // 2 * 2, count)
            first, second, *odd = (
                make(g.SliceOp, x, starts=[a], ends=[b], axes=[axis])
                for a, b in pairwise(ends)
                if b > a
            )
            rest += odd
            x = make(g.MulOp, first, second)
        for one in rest:
            x = make(g.MulOp, x, one)
    return as_type(make, shaped(make, x, shape_of(op.result)), element)


@rule(g.DetOp, exact=False)
def det_by_minors(op: g.DetOp, make: Make) -> Replacement:
    """Of small matrices the sum of each element of a row times the determinant without its row and
    column, from the last row on"""
    shape, element = shape_of(op.input), element_type(op.input)
    size, count = shape[-1], numel(shape[:-2]) if is_static(shape) else 0
    if not 0 < size <= MOST_MINORS or not count:
        return None
    x = widened(make, op.input)
    x = make(g.TransposeOp, shaped(make, x, (count, size * size)), permutation=[1, 0])
    below: dict[tuple[int, ...], SSAValue] = {}
    for row in reversed(range(size)):
        own = [
            make(g.SliceOp, x, starts=[i], ends=[i + 1], axes=[0])
            for i in range(row * size, (row + 1) * size)
        ]
        above: dict[tuple[int, ...], SSAValue] = {}
        for columns in combinations(range(size), size - row):
            total = own[columns[0]]
            for j, column in enumerate(columns if below else ()):
                rest = below[(*columns[:j], *columns[j + 1 :])]
                term = make(g.MulOp, own[column], rest)
                total = term if j == 0 else make(g.SubOp if j % 2 else g.AddOp, total, term)
            above[columns] = total
        below = above
    return as_type(make, shaped(make, below[tuple(range(size))], shape[:-2]), element)


def is_of_matrices(op: g.ResizeOp) -> bool:
    """Return whether a resized image is no weight (such as these matrices) and reads other elements
    than the two around each place, whatever its numbers are."""
    shape, result, is_linear = shape_of(op.input), shape_of(op.result), op.mode.data == "linear"
    other = op.mode.data == "cubic" or bool(op.antialias.value.data)
    other |= is_linear and bool(op.exclude_outside.value.data)
    plain = op.roi is None and op.keep_aspect_ratio_policy.data == "stretch"
    known = is_static((*shape, *result)) and numel(shape) > 0
    return other and plain and known and not is_prepared(op.input)


@rule(g.ResizeOp, exact=False)
def resize_by_matrices(op: g.ResizeOp, make: Make) -> Replacement:
    """Along each axis a product with what resizing makes of the identity, which is computed once"""
    shape, result, x = shape_of(op.input), shape_of(op.result), op.input
    if not is_of_matrices(op) or not is_float(element_type(x)):
        return None
    axes, scales = op.resized_axes(), op.scale_values() or (None,) * len(op.resized_axes())
    x = widened(make, x)
    kept = {k: v for k, v in op.properties.items() if k not in GIVEN}
    for axis, scale in zip(axes, scales, strict=True):
        size, count = shape[axis], result[axis]
        if scale == 1 or (scale is None and size == count):
            continue
        if size * count > MOST_WEIGHTS:
            return None
        to: dict[str, Any] = {"sizes": [count]} if scale is None else {"scales": [scale]}
        eye = make.constant(np.eye(size, dtype=dtype_of(element_type(x))))
        weights = make(g.ResizeOp, eye, None, None, None, axes=[0], **to, **kept)
        before, after = shape_of(x)[:axis], shape_of(x)[axis + 1 :]
        if prod(after) == 1:
            y = shaped(make, x, (prod(before), size))
            y = make(g.MatmulOp, y, weights, transpose_rhs=True)
        else:
            y = shaped(make, x, (prod(before), size, prod(after)))
            y = make(g.MatmulOp, weights, y)
        x = shaped(make, y, (*before, count, *after))
    return as_type(make, x, element_type(op.result))


@rule(g.RotaryEmbeddingOp, exact=False)
def rotary_of_short_rows(op: g.RotaryEmbeddingOp, make: Make) -> Replacement:
    """Pairs of few elements, which lie in no parts of 32 bytes, are two tensors for themselves"""
    *lines, length = shape_of(op.input)
    table, full = shape_of(op.cos)[-1], bool(op.full_tables.value.data)
    size, element = table if full else 2 * table, element_type(op.input)
    shapes = [shape_of(v) for v in op.operands]
    if not all(map(is_static, shapes)) or 0 in (*lines, size):
        return None
    bits = min(bitwidth(element_type(v)) for v in op.operands)
    if length * bits % 256 == 0 and (size == length or size * bits % 256 == 0):
        return None
    apart, half = bool(op.interleaved.value.data), size // 2

    def halves(value: SSAValue) -> list[SSAValue]:
        value = as_type(make, value, f32) if bits < 32 else value
        shape = shape_of(value)[:-1]
        value = make(g.SliceOp, value, starts=[0], ends=[size], axes=[-1])
        pairs = shaped(make, value, (*shape, half, 2) if apart else (*shape, 2, half))
        axis = -1 if apart else -2
        parts = (make(g.SliceOp, pairs, starts=[i], ends=[i + 1], axes=[axis]) for i in (0, 1))
        return [shaped(make, part, (*shape, half)) for part in parts]

    def angles(value: SSAValue) -> list[SSAValue]:
        return halves(value) if full else [as_type(make, value, f32) if bits < 32 else value] * 2

    (a, b), cos, sin = halves(op.input), angles(op.cos), angles(op.sin)
    first = make(g.SubOp, make(g.MulOp, a, cos[0]), make(g.MulOp, b, sin[0]))
    second = make(g.AddOp, make(g.MulOp, a, sin[1]), make(g.MulOp, b, cos[1]))
    pair = (*lines, half, 1) if apart else (*lines, 1, half)
    parts = [shaped(make, v, pair) for v in (first, second)]
    y = shaped(make, make(g.ConcatOp, parts, axis=-1 if apart else -2), (*lines, size))
    y = as_type(make, y, element)
    if size == length:
        return y
    rest = make(g.SliceOp, op.input, starts=[size], ends=[length], axes=[-1])
    return make(g.ConcatOp, [y, rest], axis=-1)


@rule(g.ConvOp)
def grouped_conv_of_last_channels(op: g.ConvOp, make: Make) -> Replacement:
    """Groups of channels are met one by one: they come first, and go back behind them"""
    shape, weight = shape_of(op.input), shape_of(op.weight)
    rank, depthwise = len(shape), weight[1] == 1 and weight[0] == op.groups
    if op.channel_axis == 1 or op.groups == 1 or depthwise or not is_static((*shape, *weight)):
        return None
    x = make(g.TransposeOp, op.input, permutation=[0, rank - 1, *range(1, rank - 1)])
    kept = {k: v for k, v in op.properties.items() if k not in LAST}
    return make(g.ConvOp, x, op.weight, op.bias, **kept)


# ---- moves ---------------------------------------------------------------------------------------

WIDE = 16  # elements that are added on a side, of which fewer are set side by side

LEAST_MOVED = 1024  # elements, below which they are moved one by one


@rule(g.SliceOp)
def backward_slice(op: g.SliceOp, make: Make) -> Replacement:
    """A slice backwards is what stands at numbers that fall"""
    bounds, x = op.bounds() or [], op.input
    if any(None in bound or shape_of(x)[bound[0]] == DYNAMIC for bound in bounds):
        return None
    backward = [bound for bound in bounds if bound[3] is not None and bound[3] < 0]
    for axis, start, end, step in backward:
        places = np.arange(*slice(start, end, step).indices(shape_of(x)[axis]), dtype=np.int64)
        x = make(g.GatherOp, x, make.constant(places), axis=axis)
    if forward := [bound for bound in bounds if bound not in backward]:
        axes, starts, ends, steps = (list(column) for column in zip(*forward, strict=True))
        x = make(g.SliceOp, x, starts=starts, ends=ends, axes=axes, steps=steps)
    return x if backward else None


@rule(g.PadOp)
def wide_pad(op: g.PadOp, make: Make) -> Replacement:
    """Many elements that are others, in another order, are gathered and set beside the input"""
    amounts, x, rank = op.ints("pads"), op.input, rank_of(op.input)
    axes = distinct_axes(op.ints("axes") or range(rank), rank)
    if op.mode.data == "constant" or amounts is None or min(amounts) < 0:
        return None
    if max(amounts) < WIDE or not is_static(shape_of(x)) or not numel(shape_of(x)):
        return None
    for axis, sides in zip(axes, zip(amounts[: len(axes)], amounts[len(axes) :]), strict=True):
        mode: Any = op.mode.data
        places = np.pad(np.arange(shape_of(x)[axis]), sides, mode=mode)
        around = places[: sides[0]], places[len(places) - sides[1] :]
        before, after = ([taken(make, x, axis, p)] if len(p) else [] for p in around)
        x = make(g.ConcatOp, [*before, x, *after], axis=axis) if any(sides) else x
    return x


def taken(make: Make, x: SSAValue, axis: int, places: Array) -> SSAValue:
    """The elements at places along an axis, of the part of it that has them."""
    low, high = int(places.min()), int(places.max()) + 1
    x = make(g.SliceOp, x, starts=[low], ends=[high], axes=[axis])
    shape = list(shape_of(x))
    shape[axis] = len(places)
    if prod(shape[axis + 1 :]) > 1:
        return make(g.GatherOp, x, make.constant(places - low), axis=axis)
    own = [len(places) if i == axis else 1 for i in range(len(shape))]
    at = make.constant((places - low).astype(np.int32).reshape(own))
    return make(g.GatherElementsOp, x, make(g.BroadcastToOp, at, shape=shape), axis=axis)


@rule(g.GatherOp)
def gather_of_columns(op: g.GatherOp, make: Make) -> Replacement:
    """Columns at numbers are rows of a transposition"""
    rank, count = rank_of(op.input), rank_of(op.indices)
    last = op.axis.value.data == rank - 1
    if rank < 2 or not count or not last or not is_static(shape_of(op.result)):
        return None
    if numel(shape_of(op.result)) < LEAST_MOVED or numel(shape_of(op.indices)) == 1:
        return None
    rows = make(g.TransposeOp, op.input, permutation=[rank - 1, *range(rank - 1)])
    found = make(g.GatherOp, rows, op.indices, axis=0)
    order = [*range(count, count + rank - 1), *range(count)]
    return make(g.TransposeOp, found, permutation=order)


LEAST_ROW = 8  # elements of rows that are gathered whole


@rule(g.ReverseSequenceOp)
def reverse_by_indices(op: g.ReverseSequenceOp, make: Make) -> Replacement:
    """Rows, or elements, at indices that fall as far as the lengths say"""
    shape, rank = shape_of(op.input), rank_of(op.input)
    batch, time = (normalize_axis(a.value.data, rank) for a in (op.batch_axis, op.time_axis))
    if not can_sample(op):
        return None
    ends, n = as_type(make, op.lengths, i32), FloatArithmetic(make)
    steps = make.constant(np.arange(shape[time], dtype=np.int32)[:, None])
    fallen = make(g.SubOp, make(g.SubOp, ends, make.splat(1, i32)), steps)
    places = n.where(make(g.CompareOp, steps, ends, predicate="lt"), fallen, steps)  # time x batch
    if {batch, time} != {0, 1} or prod(shape[2:]) < LEAST_ROW:
        if batch < time:
            places = make(g.TransposeOp, places, permutation=[1, 0])
        own = [d if i in (batch, time) else 1 for i, d in enumerate(shape)]
        places = make(g.BroadcastToOp, shaped(make, places, own), shape=shape)
        return make(g.GatherElementsOp, op.input, places, axis=time)
    strides = (1, shape[time]) if batch == 0 else (shape[batch], 1)
    first = np.arange(shape[batch], dtype=np.int32) * strides[1]
    places = make(g.MulOp, places, make.splat(strides[0], i32)) if strides[0] > 1 else places
    places = make(g.AddOp, places, make.constant(first))
    if batch == 0:
        places = make(g.TransposeOp, places, permutation=[1, 0])
    rows = shaped(make, op.input, (prod(shape[:2]), prod(shape[2:])))
    found = make(g.GatherOp, rows, shaped(make, places, (prod(shape[:2]),)), axis=0)
    return shaped(make, found, shape)


@rule(g.GatherOp, g.GatherElementsOp)
def gather_of_one(op: g.GatherOp | g.GatherElementsOp, make: Make) -> Replacement:
    """A gather along a dimension of one element takes that element at every index"""
    shape, result = shape_of(op.input), shape_of(op.result)
    axis = op.axis.value.data
    if shape[axis] != 1 or not is_static(result):
        return None
    count = rank_of(op.indices) if isinstance(op, g.GatherOp) else 1
    alone = (*shape[:axis], *(1,) * count, *shape[axis + 1 :])
    if any(d not in (1, n) for d, n in zip(alone, result, strict=True)):
        return None  # indices are of a part
    x = shaped(make, op.input, alone)
    return x if alone == result else make(g.BroadcastToOp, x, shape=result)


@rule(g.ScatterElementsOp)
def scatter_in_part(op: g.ScatterElementsOp, make: Make) -> Replacement:
    """A scatter whose indices are of a part of the input leaves the rest beside it unchanged"""
    shape, indices = shape_of(op.input), shape_of(op.indices)
    along = op.axis.value.data
    if not is_static((*shape, *indices)) or 0 in indices:
        return None
    pairs = enumerate(zip(shape, indices, strict=True))
    axis = next((i for i, (d, n) in pairs if i != along and n < d), None)
    if axis is None:
        return None
    part, rest = (
        make(g.SliceOp, op.input, starts=[a], ends=[b], axes=[axis])
        for a, b in ((0, indices[axis]), (indices[axis], shape[axis]))
    )
    placed = op.with_operands([part, op.indices, op.updates])
    make.ops.append(placed)
    return make(g.ConcatOp, [placed.result, rest], axis=axis)


# ---- windows -------------------------------------------------------------------------------------


def blocks_over(window: Window, image: Shape, places: Shape) -> tuple[Array, Array]:
    """For each element of an image, return the elements of blocks [kernel, places] that lie over
    it, [taps, image]: their numbers, and 1 where there is one, else 0."""
    rank, tap, place, there = window.rank, np.array(0), np.array(0), np.array(True)
    for i, (size, count) in enumerate(zip(image, places, strict=True)):
        own = np.arange(window.kernel[i])[:, None]
        at, rest = np.divmod(
            np.arange(size) + window.pads[i] - own * window.dilations[i], window.strides[i]
        )
        found = (rest == 0) & (at >= 0) & (at < count)
        taps = np.argsort(~found, axis=0, kind="stable")[: max(found.sum(0).max(), 1)]
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = taps.shape
        at, found = (np.take_along_axis(a, taps, 0).reshape(shape) for a in (at, found))
        tap = tap * window.kernel[i] + taps.reshape(shape)
        place, there = place * count + at, there & found
    numbers = np.where(there, tap * prod(places) + place, 0)
    return numbers.reshape(-1, prod(image)), there.reshape(-1, prod(image))


@rule(g.Col2ImOp, exact=False)
def col2im_of_rows(op: g.Col2ImOp, make: Make) -> Replacement:
    """Each element of the image is the sum of those of blocks that lie over it"""
    (batch, _, count), (_, channels, *image) = shape_of(op.input), shape_of(op.result)
    block = op.ints("block_shape")
    if not can_sample(op) or block is None or op.image_shape_value is not None:
        return None
    window = op.window_over(block).resolved(tuple(image))
    numbers, there = blocks_over(window, tuple(image), window.output(tuple(image)))
    if len(numbers) > MOST_TAPS:
        return None
    blocks = shaped(make, op.input, (batch, channels, prod(block) * count))
    images = np.arange(batch)[:, None] * prod(block) * count
    index = (numbers[:, None] + images).reshape(len(numbers), -1).astype(np.int32)
    weight = np.repeat(there[:, None], batch, 1).reshape(index.shape).astype(np.float32)
    table = table_of(make, blocks)
    lacks, at, each = bool((weight == 0).any()), dense(index), dense(weight)
    rows = weighted_rows(make, table, make.dense(at), make.dense(each), may_be_nothing=lacks)
    return channels_first(make, rows, (batch, prod(image), channels), [0, 2, 1], op.result)


@rule(g.MaxUnpoolOp)
def unpool_by_scatter(op: g.MaxUnpoolOp, make: Make) -> Replacement:
    """Elements that are put at indices into zeros, around which others may stand"""
    shape, element = shape_of(op.result), element_type(op.result)
    inner = op.unpooled_shape(shape_of(op.input))
    if not can_sample(op) or op.output_shape_value is not None:
        return None
    count = numel(shape_of(op.input))
    zeros = make(g.BroadcastToOp, make.splat(0, element), shape=(prod(inner),))
    at, updates = shaped(make, op.indices, (count, 1)), shaped(make, op.input, (count,))
    found = shaped(make, make(g.ScatterNdOp, zeros, at, updates), inner)
    ends = [d - n for d, n in zip(shape, inner, strict=True)]
    return found if not any(ends) else make(g.PadOp, found, pads=[0] * len(inner) + ends)


@rule(g.MaxPoolIndicesOp)
def pool_by_taps(op: g.MaxPoolIndicesOp, make: Make) -> Replacement:
    """The elements at each place of the window, one after the other, with their numbers"""
    shape, places, element = shape_of(op.input), shape_of(op.result)[2:], element_type(op.input)
    sizes, window = shape[2:], op.window().resolved(shape_of(op.input)[2:])
    if not can_sample(op) or prod(window.kernel) > MOST_TAPS or prod(shape) > 1 << 31:
        return None
    rank, n = window.rank, FloatArithmetic(make)
    reach = [(m - 1) * s + window.extent(i) for i, (m, s) in enumerate(zip(places, window.strides))]
    ends = [max(r - p - d, 0) for r, p, d in zip(reach, window.pads, sizes, strict=False)]
    pads = [0, 0, *window.pads[:rank], 0, 0, *ends]
    low = make.splat(lowest(element), element)
    x = make(g.PadOp, op.input, value=low, pads=pads) if any(pads) else op.input
    order = "F" if op.column_major.value.data else "C"
    numbers = np.arange(prod(sizes), dtype=np.int32).reshape(sizes, order=order)
    inside = list(zip(window.pads[:rank], ends, strict=True))
    numbers = np.pad(numbers, inside, constant_values=-1)
    best = indices = None
    zero = make.splat(0, i32)
    for tap in product(*(range(k) for k in window.kernel)):
        starts = [t * d for t, d in zip(tap, window.dilations, strict=True)]
        stops = [
            s + (m - 1) * w + 1 for s, m, w in zip(starts, places, window.strides, strict=True)
        ]
        axes, steps = [*range(2, rank + 2)], list(window.strides)
        found = make(g.SliceOp, x, starts=starts, ends=stops, axes=axes, steps=steps)
        where = tuple(slice(*s) for s in zip(starts, stops, steps, strict=True))
        number = make.constant(np.ascontiguousarray(numbers[where]))
        if best is None or indices is None:
            best = found
            indices = make(g.BroadcastToOp, number, shape=shape_of(found))
            continue
        better, none = n.test("gt", found, best), n.make(g.CompareOp, indices, zero, predicate="lt")
        better = make(g.OrOp, better, none)
        best = make(g.SelectOp, better, found, best)
        indices = make(g.SelectOp, better, number, indices)
    assert best is not None
    assert indices is not None
    first = np.arange(prod(shape[:2]), dtype=np.int32) * prod(sizes)
    first = make.constant(first.reshape(*shape[:2], *(1,) * rank))
    return [best, as_type(make, make(g.AddOp, indices, first), i64)]


MOST = 1 << 24  # elements of a matrix: 64 MB of f32


def real(matrix: Array, ins: int, outs: int) -> Array:
    """A complex matrix [n, m] on real and imaginary parts, [n, ins, m, outs], of which signals and
    results have so many."""
    re, im = np.real(matrix), np.imag(matrix)
    parts = np.array([[re, im], [-im, re]])
    return parts[:ins, :outs].transpose(2, 0, 3, 1)


def fourier(given: int, length: int, bins: int, sign: int) -> Array:
    """exp(sign 2 pi i n k / length) for the elements below `given` and the frequencies below
    `bins`; elements from `length` on are left out."""
    turns = np.arange(given)[:, None] * np.arange(bins) % length
    return np.exp(sign * 2j * pi / length * turns) * (np.arange(given)[:, None] < length)


def inverse_onesided(given: int, length: int) -> Array:
    """The real signal of the first frequencies: those between the ends stand for two."""
    twice = np.where((np.arange(given) == 0) | (2 * np.arange(given) == length), 1, 2)
    there = np.arange(given) <= length // 2
    return fourier(length, length, given, 1).T * (twice * there)[:, None] / length


@rule(g.DftOp, exact=False)
def dft_by_matmul(op: g.DftOp, make: Make) -> Replacement:
    """A product with a constant matrix, on real and imaginary parts"""
    shape, result, axis = shape_of(op.input), shape_of(op.result), op.ints("axis")
    if axis is None or op.length_value is not None or not is_static((*shape, *result)):
        return None
    at, rank, element = normalize_axis(axis[0], len(shape)), len(shape), element_type(op.input)
    given, count, ins, outs = shape[at], result[at], shape[-1], result[-1]
    is_inverse, onesided = bool(op.inverse.value.data), bool(op.onesided.value.data)
    if not numel(shape) or given * ins * count * outs > MOST:
        return None
    if is_inverse and onesided:
        matrix = inverse_onesided(given, count)
    elif is_inverse:
        matrix = fourier(given, count, count, 1) / count
    else:
        length = given if op.length is None else op.length.value.data
        matrix = fourier(given, length, count, -1)
    own = wide(element)
    weight = real(matrix, ins, outs).reshape(given * ins, count * outs)
    order = [i for i in range(rank - 1) if i != at] + [at, rank - 1]
    rows = make(g.TransposeOp, as_type(make, op.input, own), permutation=order)
    lines = [shape[i] for i in order[:-2]]
    rows = shaped(make, rows, (numel(tuple(lines)), given * ins))
    y = make(g.MatmulOp, rows, make.constant(weight.astype(dtype_of(own))))
    y = shaped(make, as_type(make, y, element), (*lines, count, outs))
    return make(g.TransposeOp, y, permutation=inverse(order))


@rule(g.StftOp, exact=False)
def stft_by_conv(op: g.StftOp, make: Make) -> Replacement:
    """A convolution whose filters are the frequencies, of lines as long as frames and steps have in
    common; they are multiplied by the window"""
    shape, result, step = shape_of(op.signal), shape_of(op.result), op.ints("frame_step")
    if step is None or op.frame_length_value is not None or not is_static((*shape, *result)):
        return None
    (batch, _, parts), (_, frames, bins, _), length = shape, result, op.frame()
    if not numel(result) or length * parts * bins * 2 > MOST:
        return None
    element = element_type(op.signal)
    own = wide(element)
    line = gcd(step[0], length)
    used = (frames - 1) * step[0] + length
    x = make(g.SliceOp, as_type(make, op.signal, own), starts=[0], ends=[used], axes=[1])
    x = shaped(make, x, (batch, used // line, line * parts))
    x = make(g.TransposeOp, x, permutation=[0, 2, 1])
    filters = real(fourier(length, length, bins, -1), parts, 2)
    filters = filters.reshape(length // line, line, parts, bins * 2).transpose(3, 1, 2, 0)
    weight = make.constant(np.ascontiguousarray(filters, dtype_of(own)))
    if op.window is not None:
        window = shaped(make, as_type(make, op.window, own), (length // line, line))
        window = make(g.TransposeOp, window, permutation=[1, 0])
        weight = make(g.MulOp, weight, shaped(make, window, (line, 1, length // line)))
    weight = shaped(make, weight, (bins * 2, line * parts, length // line))
    y = make(g.ConvOp, x, weight, None, strides=[step[0] // line])
    y = make(g.TransposeOp, y, permutation=[0, 2, 1])
    return shaped(make, as_type(make, y, element), result)
