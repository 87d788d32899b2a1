"""What moves elements to computed places, in ops that have programs: `expand_layers.py` says
why."""

from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import i32, i64

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.convolution import Col2ImOp
from ge.dialects.graph.indexing import (
    GatherElementsOp,
    GatherOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from ge.dialects.graph.pooling import MaxPoolIndicesOp, MaxUnpoolOp
from ge.dialects.graph.shape import BroadcastToOp, ReverseSequenceOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp
from ge.dialects.graph.support.folding import lowest
from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import (
    Shape,
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.runtime.data.arrays import Array, dense
from ge.transforms.graph.canonical.linear_maps import as_type, shaped
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.graph.canonical.sampling import (
    MOST_TAPS,
    FloatArithmetic,
    can_sample,
    channels_first,
    table_of,
    weighted_rows,
)

LEAST_ROW = 8  # elements of rows that are gathered whole


@rule(ReverseSequenceOp)
def reverse_by_indices(op: ReverseSequenceOp, make: Make) -> Replacement:
    """Rows, or elements, at indices that fall as far as the lengths say"""
    shape, rank = shape_of(op.input), rank_of(op.input)
    batch, time = (normalize_axis(a.value.data, rank) for a in (op.batch_axis, op.time_axis))
    if not can_sample(op):
        return None
    ends, n = as_type(make, op.lengths, i32), FloatArithmetic(make)
    steps = make.dense(dense(np.arange(shape[time], dtype=np.int32)[:, None]))
    fallen = make(g.SubOp, make(g.SubOp, ends, make.constant(1, i32)), steps)
    places = n.where(make(g.CompareOp, steps, ends, predicate="lt"), fallen, steps)  # time x batch
    if {batch, time} != {0, 1} or prod(shape[2:]) < LEAST_ROW:
        if batch < time:
            places = make(TransposeOp, places, permutation=[1, 0])
        own = [d if i in (batch, time) else 1 for i, d in enumerate(shape)]
        places = make(BroadcastToOp, shaped(make, places, own), shape=shape)
        return make(GatherElementsOp, op.input, places, axis=time)
    strides = (1, shape[time]) if batch == 0 else (shape[batch], 1)
    first = np.arange(shape[batch], dtype=np.int32) * strides[1]
    places = make(g.MulOp, places, make.constant(strides[0], i32)) if strides[0] > 1 else places
    places = make(g.AddOp, places, make.dense(dense(first)))
    if batch == 0:
        places = make(TransposeOp, places, permutation=[1, 0])
    rows = shaped(make, op.input, (prod(shape[:2]), prod(shape[2:])))
    found = make(GatherOp, rows, shaped(make, places, (prod(shape[:2]),)), axis=0)
    return shaped(make, found, shape)


@rule(GatherOp, GatherElementsOp)
def gather_of_one(op: GatherOp | GatherElementsOp, make: Make) -> Replacement:
    """What stands along a dimension of one element is at every index"""
    shape, result = shape_of(op.input), shape_of(op.result)
    axis = normalize_axis(op.axis.value.data, len(shape))
    if shape[axis] != 1 or not is_static(result):
        return None
    count = rank_of(op.indices) if isinstance(op, GatherOp) else 1
    alone = (*shape[:axis], *(1,) * count, *shape[axis + 1 :])
    if any(d not in (1, n) for d, n in zip(alone, result, strict=True)):
        return None  # indices are of a part
    x = shaped(make, op.input, alone)
    return x if alone == result else make(BroadcastToOp, x, shape=result)


@rule(ScatterElementsOp)
def scatter_in_part(op: ScatterElementsOp, make: Make) -> Replacement:
    """Where indices are of a part of the input, the rest stands beside it as it is"""
    shape, indices = shape_of(op.input), shape_of(op.indices)
    along = normalize_axis(op.axis.value.data, len(shape))
    if not is_static((*shape, *indices)) or 0 in indices:
        return None
    pairs = enumerate(zip(shape, indices, strict=True))
    axis = next((i for i, (d, n) in pairs if i != along and n < d), None)
    if axis is None:
        return None
    part, rest = (
        make(SliceOp, op.input, starts=[a], ends=[b], axes=[axis])
        for a, b in ((0, indices[axis]), (indices[axis], shape[axis]))
    )
    placed = op.with_operands([part, op.indices, op.updates])
    make.ops.append(placed)
    return make(ConcatOp, [placed.result, rest], axis=axis)


# ---- windows -------------------------------------------------------------------------------------


def blocks_over(window: Window, image: Shape, places: Shape) -> tuple[Array, Array]:
    """Which elements of blocks [kernel, places] lie over each element of an image, [taps, image]:
    their numbers, and 1 where there are as many, else 0."""
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


@rule(Col2ImOp, exact=False)
def col2im_of_rows(op: Col2ImOp, make: Make) -> Replacement:
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


@rule(MaxUnpoolOp)
def unpool_by_scatter(op: MaxUnpoolOp, make: Make) -> Replacement:
    """Elements that are put at indices into zeros, around which others may stand"""
    shape, element = shape_of(op.result), element_type(op.result)
    inner = op.unpooled_shape(shape_of(op.input))
    if not can_sample(op) or op.output_shape_value is not None:
        return None
    count = numel(shape_of(op.input))
    zeros = make(BroadcastToOp, make.constant(0, element), shape=(prod(inner),))
    at, updates = shaped(make, op.indices, (count, 1)), shaped(make, op.input, (count,))
    found = shaped(make, make(ScatterNdOp, zeros, at, updates), inner)
    ends = [d - n for d, n in zip(shape, inner, strict=True)]
    return found if not any(ends) else make(PadOp, found, pads=[0] * len(inner) + ends)


@rule(MaxPoolIndicesOp)
def pool_by_taps(op: MaxPoolIndicesOp, make: Make) -> Replacement:
    """The elements at each place of the window, one after the other, with their numbers"""
    shape, places, element = shape_of(op.input), shape_of(op.result)[2:], element_type(op.input)
    sizes, window = shape[2:], op.window().resolved(shape_of(op.input)[2:])
    if not can_sample(op) or prod(window.kernel) > MOST_TAPS or prod(shape) > 1 << 31:
        return None
    rank, n = window.rank, FloatArithmetic(make)
    reach = [(m - 1) * s + window.extent(i) for i, (m, s) in enumerate(zip(places, window.strides))]
    ends = [max(r - p - d, 0) for r, p, d in zip(reach, window.pads, sizes, strict=False)]
    pads = [0, 0, *window.pads[:rank], 0, 0, *ends]
    low = make.constant(lowest(element), element)
    x = make(PadOp, op.input, value=low, pads=pads) if any(pads) else op.input
    order = "F" if op.column_major.value.data else "C"
    numbers = np.arange(prod(sizes), dtype=np.int32).reshape(sizes, order=order)
    inside = list(zip(window.pads[:rank], ends, strict=True))
    numbers = np.pad(numbers, inside, constant_values=-1)
    best = indices = None
    zero = make.constant(0, i32)
    for tap in product(*(range(k) for k in window.kernel)):
        starts = [t * d for t, d in zip(tap, window.dilations, strict=True)]
        stops = [
            s + (m - 1) * w + 1 for s, m, w in zip(starts, places, window.strides, strict=True)
        ]
        axes, steps = [*range(2, rank + 2)], list(window.strides)
        found = make(SliceOp, x, starts=starts, ends=stops, axes=axes, steps=steps)
        where = tuple(slice(*s) for s in zip(starts, stops, steps, strict=True))
        number = make.dense(dense(np.ascontiguousarray(numbers[where])))
        if best is None or indices is None:
            best = found
            indices = make(BroadcastToOp, number, shape=shape_of(found))
            continue
        better, none = n.test("gt", found, best), n.make(g.CompareOp, indices, zero, predicate="lt")
        better = make(g.OrOp, better, none)
        best = make(g.SelectOp, better, found, best)
        indices = make(g.SelectOp, better, number, indices)
    assert best is not None
    assert indices is not None
    first = np.arange(prod(shape[:2]), dtype=np.int32) * prod(sizes)
    first = make.dense(dense(first.reshape(*shape[:2], *(1,) * rank)))
    return [best, as_type(make, make(g.AddOp, indices, first), i64)]
