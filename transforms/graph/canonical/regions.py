"""Regions of images that are aligned by samples, in ops that have programs: `expand_layers.py` says
why. CANN brings channels together before its ROIAlign, too (TransData in profiles)."""

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.pooling import MaxRoiPoolOp, RoiAlignOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.graph.support.folding import lowest
from ge.dialects.support.types import element_type, rank_of, shape_of
from ge.runtime.data.arrays import dense
from ge.transforms.graph.canonical.linear_maps import as_type, shaped
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.graph.canonical.sampling import (
    MOST_TAPS,
    FloatArithmetic,
    Taps,
    can_sample,
    channels_first,
    joined,
    linear_weight,
    table_of,
    weighted_rows,
    wide,
)

NEAR = 6  # samples beside an element, where these are more than half an element apart
MOST_PRODUCTS = 1 << 26  # elements of a product of weights


def around(n: FloatArithmetic, at: SSAValue, size: int, low: float, high: float) -> Taps:
    """The elements before and after coordinates, [2, ..]; their weights are 0 where a coordinate is
    not in `low` to `high`."""
    inside, ones = n.inside(at, low, high), (1,) * rank_of(at)
    at = n.clip(at, 0.0, size - 1.0)
    first = n.make(g.FloorOp, at)
    index = n.clip(n.add(first, n.line((0, 1), at, 2, *ones)), 0.0, size - 1.0)
    part = n.mul(n.sub(at, first), n.line((-1, 1), at, 2, *ones))
    weight = n.add(part, n.line((1, 0), at, 2, *ones))
    return Taps(size, index, n.where(inside, weight, 0.0))


def cell_taps(
    n: FloatArithmetic, start: SSAValue, end: SSAValue, op: RoiAlignOp, cells: int, size: int
) -> Taps:
    """[taps, cells, regions]: of samples at equal steps in each cell, the elements around."""
    samples, length = op.sampling_ratio.value.data, n.sub(end, start)
    if not op.half_pixel.value.data:
        length = n.of(g.MaximumOp, length, 1.0)
    steps = (np.arange(cells) + (np.arange(samples)[:, None] + 0.5) / samples) / cells
    line = n.line(steps.tolist(), start, samples, cells, 1)
    taps = around(n, n.add(n.mul(length, line), start), size, -1.0, size)
    shape = (2 * samples, cells, shape_of(start)[-1])
    return Taps(size, *(shaped(n.make, v, shape) for v in (taps.index, taps.weight)))


@rule(RoiAlignOp, exact=False)
def roi_align_of_rows(op: RoiAlignOp, make: Make) -> Replacement:
    """Sums of rows of channels, at indices and with weights that elementwise ops give"""
    ratio, (_, channels, high, across) = op.sampling_ratio.value.data, shape_of(op.input)
    (rows, columns), kind = op.ints("output_size") or (1, 1), op.mode.data
    if not can_sample(op) or not 0 < 4 * ratio**2 <= MOST_TAPS:
        return None
    n, regions = FloatArithmetic(make), shape_of(op.rois)[0]
    rois = make(
        TransposeOp, as_type(make, op.rois, wide(element_type(op.rois))), permutation=[1, 0]
    )
    rois = n.mul(rois, op.spatial_scale.value.data)
    rois = n.sub(rois, 0.5) if op.half_pixel.value.data else rois
    x1, y1, x2, y2 = (make(SliceOp, rois, starts=[k], ends=[k + 1], axes=[0]) for k in range(4))
    y, x = cell_taps(n, y1, y2, op, rows, high), cell_taps(n, x1, x2, op, columns, across)
    tall, broad = (2 * ratio, 1, rows, 1, regions), (1, 2 * ratio, 1, columns, regions)
    y = Taps(high, *(shaped(make, v, tall) for v in (y.index, y.weight)))
    x = Taps(across, *(shaped(make, v, broad) for v in (x.index, x.weight)))
    index, weight = joined(make, (y, x))
    image = as_type(make, op.batch_indices, i32)
    index = make(g.AddOp, index, make(g.MulOp, image, make.constant(high * across, i32)))
    weight = weight if kind == "max" else n.mul(weight, 1 / ratio**2)
    shape = (4 * ratio**2, rows * columns * regions)
    index, weight = (shaped(make, v, shape) for v in (index, weight))
    kind = "max" if kind == "max" else "sum"
    found = weighted_rows(make, table_of(make, op.input), index, weight, kind)
    return channels_first(make, found, (rows * columns, regions, channels), [1, 2, 0], op.result)


def cell_weights(
    n: FloatArithmetic, start: SSAValue, end: SSAValue, op: RoiAlignOp, cells: int, size: int
) -> SSAValue:
    """[regions, cells, size]: how much of each element is in the mean of a cell's samples, of which
    there is one for about each element: next to an element are no more than `NEAR`. `start`, `end`:
    [regions, 1, 1]."""
    length = n.sub(end, start)
    if not op.half_pixel.value.data:
        length = n.of(g.MaximumOp, length, 1.0)
    step = n.div(length, float(cells))
    count = n.of(g.MaximumOp, n.make(g.CeilOp, step), 1.0)
    each = n.div(step, count)
    first = n.add(n.mul(step, n.line(range(cells), start, cells, 1)), start)
    elements = n.line(range(size), start, size)
    apart = n.where(n.test("eq", count, 1.0), 1.0, each)  # of one sample it may be 0
    number = n.sub(n.div(n.sub(n.sub(elements, first), 1.0), apart), 0.5)
    number = n.of(g.MaximumOp, n.make(g.FloorOp, number), 0.0)
    number = n.of(g.MinimumOp, number, n.sub(count, 1.0))
    number = n.add(number, n.line(range(NEAR), start, NEAR, 1, 1, 1))
    at = n.add(n.mul(n.add(number, 0.5), each), first)
    counts = n.make(g.CompareOp, number, count, predicate="lt")
    counts = n.make(g.AndOp, counts, n.inside(at, -1.0, size))
    weight = linear_weight(n, n.sub(n.clip(at, 0.0, size - 1.0), elements))
    weight = n.make(ReduceOp, n.where(counts, weight, 0.0), kind="sum", axes=[0])
    return n.div(shaped(n.make, weight, shape_of(weight)[1:]), count)


@rule(RoiAlignOp, exact=False)
def roi_align_by_matrices(op: RoiAlignOp, make: Make) -> Replacement:
    """Of as many samples as elements a mean is a product with the weights of lines, and then with
    those of columns"""
    (images, channels, high, across), regions = shape_of(op.input), shape_of(op.rois)[0]
    rows, columns = op.ints("output_size") or (1, 1)
    if not can_sample(op) or op.sampling_ratio.value.data or op.mode.data != "average":
        return None
    if regions * rows * across * channels > MOST_PRODUCTS:
        return None
    n, element = FloatArithmetic(make), element_type(op.input)
    rois = n.mul(as_type(make, op.rois, wide(element)), op.spatial_scale.value.data)
    rois = n.sub(rois, 0.5) if op.half_pixel.value.data else rois
    x1, y1, x2, y2 = (
        shaped(make, make(SliceOp, rois, starts=[k], ends=[k + 1], axes=[1]), (regions, 1, 1))
        for k in range(4)
    )
    lines = cell_weights(n, y1, y2, op, rows, high)
    within = as_type(make, cell_weights(n, x1, x2, op, columns, across), element)
    if images > 1:
        own = shaped(make, as_type(make, op.batch_indices, i32), (regions, 1))
        own = n.where(n.test("lt", own, 0), n.make(g.AddOp, own, make.constant(images, i32)), own)
        numbers = make.dense(dense(np.arange(images, dtype=np.int32)))
        own = as_type(make, make(g.CompareOp, own, numbers, predicate="eq"), wide(element))
        own = shaped(make, own, (regions, 1, images, 1))
        lines = n.make(g.MulOp, shaped(make, lines, (regions, rows, 1, high)), own)
    lines = shaped(make, as_type(make, lines, element), (regions * rows, images * high))
    table = shaped(make, table_of(make, op.input), (images * high, across * channels))
    found = shaped(make, make(MatmulOp, lines, table), (regions * rows, across, channels))
    shape = (regions, rows, columns, across)
    within = shaped(make, within, (regions, 1, columns, across))
    within = shaped(make, make(BroadcastToOp, within, shape=shape), (regions * rows, *shape[2:]))
    found = make(MatmulOp, within, found)
    return channels_first(make, found, (regions, rows * columns, channels), [0, 2, 1], op.result)


def cell_masks(
    n: FloatArithmetic, first: SSAValue, last: SSAValue, cells: int, size: int
) -> tuple[SSAValue, SSAValue]:
    """[regions, cells, size]: which elements along an axis are in each cell of a region from one
    element to another one; [regions, cells, 1]: whether any is. Corners are [regions, 1, 1]."""
    first, last = (n.make(g.FloorOp, n.add(v, 0.5)) for v in (first, last))
    length = n.of(g.MaximumOp, n.add(n.sub(last, first), 1.0), 1.0)
    low, high = (
        n.add(n.make(kind, n.div(n.mul(length, n.line(numbers, first, cells, 1)), cells)), first)
        for kind, numbers in ((g.FloorOp, range(cells)), (g.CeilOp, range(1, cells + 1)))
    )
    low, high = (n.clip(v, 0.0, size) for v in (low, high))
    elements = n.line(range(size), first, size)
    within = (n.make(g.CompareOp, elements, v, predicate=p) for v, p in ((low, "ge"), (high, "lt")))
    return n.make(g.AndOp, *within), n.make(g.CompareOp, low, high, predicate="lt")


def largest(make: Make, x: SSAValue, axis: int) -> SSAValue:
    return x if shape_of(x)[axis] == 1 else make(ReduceOp, x, kind="max", axes=[axis])


@rule(MaxRoiPoolOp, exact=False)
def max_roi_pool_by_masks(op: MaxRoiPoolOp, make: Make) -> Replacement:
    """The largest elements of lines that are in a cell, and then those of columns"""
    (_, channels, high, across), regions = shape_of(op.input), shape_of(op.rois)[0]
    (rows, columns), element = op.ints("output_size") or (1, 1), element_type(op.input)
    if not can_sample(op) or regions * channels * rows * high * across > MOST_PRODUCTS:
        return None
    n, rois = FloatArithmetic(make), as_type(make, op.rois, wide(element))
    image, *corners = (make(SliceOp, rois, starts=[k], ends=[k + 1], axes=[1]) for k in range(5))
    scale, shape = op.spatial_scale.value.data, (regions, 1, 1)
    x1, y1, x2, y2 = (n.mul(shaped(make, v, shape), scale) for v in corners)
    lines, has_lines = cell_masks(n, y1, y2, rows, high)
    within, has_columns = cell_masks(n, x1, x2, columns, across)
    at = make(g.CastOp, shaped(make, image, (regions,)), to=i32)
    x = make(GatherOp, op.input, at, axis=0)
    x = shaped(make, x, (regions, channels, 1, high, across))
    least = make.constant(lowest(element), element)
    mask = shaped(make, lines, (regions, 1, rows, high, 1))
    x = largest(make, make(g.SelectOp, mask, x, least), 3)
    mask = shaped(make, within, (regions, 1, 1, columns, across))
    x = largest(make, make(g.SelectOp, mask, x, least), 4)
    there = make(
        g.AndOp,
        shaped(make, has_lines, (regions, 1, rows, 1, 1)),
        shaped(make, has_columns, (regions, 1, 1, columns, 1)),
    )
    x = make(g.SelectOp, there, x, make.constant(0.0, element))
    return shaped(make, x, shape_of(op.result))
