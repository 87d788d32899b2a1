"""Samples between the elements of an image, in ops that have programs: `expand_layers.py` says why.

The channels of an element become a row of a table. A sample is a sum of rows at indices, each times
the product of its weights along the axes; indices and weights are elementwise ops on coordinates:

    %y = graph.grid_sample %x, %grid
becomes
    %t = graph.transpose %x; graph.reshape              rows of channels
    %i, %w = elementwise ops of %grid                   4 corners x places
    %r = graph.gather %t, %i                            4 x places x channels
    %y = graph.reduce sum (graph.mul %r, %w)          and back to channels first

Regions of images are aligned by samples, too. CANN brings channels together before its ROIAlign as
well (TransData in profiles).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.support.parameters import lowest
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of
from ge.runtime.data.arrays import dtype_of
from ge.transforms.graph.canonical.linear_maps import as_type, shaped, wide, widened
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.rewriting.building import Make

MOST_TAPS = 64  # rows that a sample is made of


def can_sample(op: TensorOp) -> bool:
    return all(is_static(shape_of(v)) and numel(shape_of(v)) for v in (*op.operands, *op.results))


@dataclass(frozen=True)
class FloatArithmetic:
    """Arithmetic of floats, of values and numbers."""

    make: Make

    def value(self, x: SSAValue | float, like: SSAValue) -> SSAValue:
        return x if isinstance(x, SSAValue) else self.make.splat(x, element_type(like))

    def of(self, kind: type[TensorOp], a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        like = a if isinstance(a, SSAValue) else b
        assert isinstance(like, SSAValue)
        return self.make(kind, self.value(a, like), self.value(b, like))

    def add(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.of(g.AddOp, a, b)

    def sub(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.of(g.SubOp, a, b)

    def mul(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.of(g.MulOp, a, b)

    def div(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.of(g.DivOp, a, b)

    def clip(self, x: SSAValue, low: float, high: float) -> SSAValue:
        return self.of(g.MinimumOp, self.of(g.MaximumOp, x, low), high)

    def test(self, predicate: str, a: SSAValue, b: SSAValue | float) -> SSAValue:
        return self.make(g.CompareOp, a, self.value(b, a), predicate=predicate)

    def inside(self, x: SSAValue, low: float, high: float) -> SSAValue:
        return self.make(g.AndOp, self.test("ge", x, low), self.test("le", x, high))

    def where(self, test: SSAValue, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        like = a if isinstance(a, SSAValue) else b
        assert isinstance(like, SSAValue)
        return self.make(g.SelectOp, test, self.value(a, like), self.value(b, like))

    def line(self, numbers: Sequence[float], like: SSAValue, *shape: int) -> SSAValue:
        """Constants along one dimension."""
        array = np.array(numbers, dtype_of(element_type(like))).reshape(shape)
        return self.make.constant(array)


@dataclass(frozen=True)
class Taps:
    """The elements along one axis that samples are made of, the first dimension: their numbers as
    whole floats, and their weights. Places are behind, as long rows."""

    size: int
    index: SSAValue
    weight: SSAValue

    def shaped(self, make: Make, shape: Sequence[int]) -> "Taps":
        return Taps(self.size, *(shaped(make, v, shape) for v in (self.index, self.weight)))


def table_of(make: Make, x: SSAValue, groups: int = 1) -> SSAValue:
    """[batch, channels, spatial..] as rows of channels, those of the groups of an element one
    after the other."""
    batch, channels, *spatial = shape_of(x)
    rows = shaped(make, x, (batch, groups, channels // groups, prod(spatial)))
    rows = make(g.TransposeOp, rows, permutation=[0, 3, 1, 2])
    return shaped(make, rows, (numel((batch, *spatial)) * groups, channels // groups))


def joined(make: Make, taps: Sequence[Taps]) -> tuple[SSAValue, SSAValue]:
    """The number of each element in an image of one channel (i32), and its weight, of shapes that
    go together."""
    index, weight = make(g.CastOp, taps[0].index, to=i32), taps[0].weight
    for axis in taps[1:]:
        own, size = make(g.CastOp, axis.index, to=i32), make.splat(axis.size, i32)
        index = make(g.AddOp, make(g.MulOp, index, size), own)
        weight = make(g.MulOp, weight, axis.weight)
    return index, weight


def weighted_rows(
    make: Make,
    table: SSAValue,
    index: SSAValue,
    weight: SSAValue,
    kind: str = "sum",
    may_be_nothing: bool = False,
) -> SSAValue:
    """[places, columns]: the sum (or maximum) of rows at indices [taps, places], times weights of
    the same shape; with `may_be_nothing` an infinite element whose weight is 0 does not count."""
    (taps, places), columns = shape_of(index), shape_of(table)[-1]
    own = wide(element_type(table))
    found = make(g.GatherOp, table, shaped(make, index, (taps * places,)), axis=0)
    rows = shaped(make, as_type(make, found, own), (taps, places, columns))
    weight = shaped(make, as_type(make, weight, own), (taps, places, 1))
    product = make(g.MulOp, rows, weight)
    if may_be_nothing:
        n = FloatArithmetic(make)
        product = n.where(n.test("ne", weight, 0.0), product, 0.0)
    if taps > 1:
        product = make(g.ReduceOp, product, kind=kind, axes=[0])
    return shaped(make, product, (places, columns))


def channels_first(
    make: Make, rows: SSAValue, shape: Sequence[int], order: Sequence[int], like: SSAValue
) -> SSAValue:
    """Rows of channels of places of this shape, in another order of dimensions, as a result."""
    rows = shaped(make, as_type(make, rows, element_type(like)), shape)
    return shaped(make, make(g.TransposeOp, rows, permutation=order), shape_of(like))


# ---- grids ---------------------------------------------------------------------------------------


def linear_weight(n: FloatArithmetic, distance: SSAValue) -> SSAValue:
    return n.clip(n.sub(1.0, n.make(g.AbsOp, distance)), 0.0, 1.0)


def cubic_weight(n: FloatArithmetic, distance: SSAValue, a: float = -0.75) -> SSAValue:
    """Keys' cubic convolution kernel (IEEE ASSP 29, 1981)."""
    d = n.make(g.AbsOp, distance)
    near = n.add(n.mul(n.mul(n.sub(n.mul(a + 2, d), a + 3), d), d), 1.0)
    far = n.sub(n.mul(n.add(n.mul(n.sub(n.mul(a, d), 5 * a), d), 8 * a), d), 4 * a)
    return n.where(n.test("le", d, 1.0), near, n.where(n.test("lt", d, 2.0), far, 0.0))


TAPS: dict[str, tuple[Sequence[int], Callable[[FloatArithmetic, SSAValue], SSAValue] | None]] = {
    "nearest": (range(1), None),
    "linear": (range(2), linear_weight),
    "cubic": (range(-1, 3), cubic_weight),
}


def reflected(n: FloatArithmetic, x: SSAValue, size: int, align_corners: bool) -> SSAValue:
    """Mirrored at the centres of the border's elements, or at their edges."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return n.mul(x, 0.0)
    turns = n.make(g.FloorOp, n.div(n.sub(x, low), 2 * span))
    t = n.sub(n.sub(x, low), n.mul(turns, 2 * span))
    return n.add(n.where(n.test("gt", t, span), n.sub(2 * span, t), t), low)


def taps_at(n: FloatArithmetic, x: SSAValue, mode: str) -> tuple[SSAValue, SSAValue]:
    """The elements around coordinates [1, places], and their weights."""
    offsets, weigh = TAPS[mode]
    x = n.make(g.RoundOp, x) if weigh is None else x
    index = n.add(n.make(g.FloorOp, x), n.line(offsets, x, len(offsets), 1))
    return index, ones(n, index) if weigh is None else weigh(n, n.sub(index, x))


def ones(n: FloatArithmetic, like: SSAValue) -> SSAValue:
    """Return a one for each finite number."""
    return n.add(n.mul(like, 0.0), 1.0)


def zero_outside(n: FloatArithmetic, x: SSAValue, size: int, mode: str) -> Taps:
    index, weight = taps_at(n, x, mode)
    inside = n.inside(index, 0.0, size - 1.0)
    return Taps(size, n.where(inside, index, 0.0), n.where(inside, weight, 0.0))


def grid_taps(op: g.GridSampleOp, n: FloatArithmetic, x: SSAValue, size: int) -> Taps:
    """Around the coordinates [1, places] along one axis, as the kernel has them."""
    corners, mode, padding = bool(op.align_corners.value.data), op.mode.data, op.padding_mode.data
    x = n.add(n.where(n.test("ne", x, x), -1.0, x), 1.0)
    x = n.mul(n.div(x, 2.0), size - 1.0) if corners else n.div(n.sub(n.mul(x, size), 1.0), 2.0)
    if padding == "zeros":
        return zero_outside(n, x, size, mode)
    if corners and size == 1:  # where infinity is there, too
        x = n.make.constant(np.zeros(shape_of(x), dtype_of(element_type(x))))
    x = n.make(g.RoundOp, x) if mode == "nearest" else x
    if padding == "border":
        index, weight = taps_at(n, n.clip(x, -2.0, size + 1.0), mode)
    else:
        index, weight = taps_at(n, reflected(n, x, size, corners), mode)
        index = reflected(n, index, size, corners)
        index = n.where(n.test("eq", index, index), index, 0.0)  # infinity has no reflection
        weight = ones(n, index) if mode == "nearest" else weight
    return Taps(size, n.clip(index, 0.0, size - 1.0), weight)


@rule(g.GridSampleOp, exact=False)
def grid_sample_of_rows(op: g.GridSampleOp, make: Make) -> Replacement:
    """Sums of rows of channels, at indices and with weights that elementwise ops give"""
    (batch, channels, *sizes), rank = shape_of(op.input), rank_of(op.input) - 2
    offsets, _ = TAPS[op.mode.data]
    taps = len(offsets) ** rank
    if not can_sample(op) or not is_float(element_type(op.input)) or taps > MOST_TAPS:
        return None
    n, places = FloatArithmetic(make), numel(shape_of(op.grid)) // rank
    grid = make(g.TransposeOp, shaped(make, op.grid, (places, rank)), permutation=[1, 0])
    grid = widened(make, grid)
    axes: list[Taps] = []
    for i, size in enumerate(sizes):
        at = make(g.SliceOp, grid, starts=[rank - 1 - i], ends=[rank - i], axes=[0])
        found = grid_taps(op, n, at, size)
        shape = (*(len(offsets) if j == i else 1 for j in range(rank)), places)
        axes.append(found.shaped(make, shape))
    index, weight = (shaped(make, v, (taps, places)) for v in joined(make, axes))
    if batch > 1:
        images = np.arange(places, dtype=np.int32) // (places // batch) * prod(sizes)
        index = make(g.AddOp, index, make.constant(images))
    rows = weighted_rows(make, table_of(make, op.input), index, weight, may_be_nothing=True)
    shape = (batch, places // batch, channels)
    return channels_first(make, rows, shape, [0, 2, 1], op.result)


@rule(g.AffineGridOp, exact=False)
def affine_grid_by_axes(op: g.AffineGridOp, make: Make) -> Replacement:
    """The sum of the columns of the map, each times the coordinates along its axis"""
    if not can_sample(op) or op.size_value is not None:
        return None
    batch, rank, _ = shape_of(op.theta)
    sizes, n = shape_of(op.result)[1:-1], FloatArithmetic(make)
    theta = widened(make, op.theta)

    def column(i: int) -> SSAValue:
        found = make(g.SliceOp, theta, starts=[i], ends=[i + 1], axes=[2])
        return shaped(make, found, (batch, *(1,) * rank, rank))

    total = column(rank)
    for axis, size in enumerate(sizes):
        i = np.arange(size)
        if op.align_corners.value.data:
            line = 2 * i / (size - 1) - 1 if size > 1 else np.zeros(size)
        else:
            line = (2 * i + 1) / size - 1
        along = (size if a == axis else 1 for a in range(rank))
        places = n.line(line.tolist(), theta, 1, *along, 1)
        total = n.add(total, n.mul(column(rank - 1 - axis), places))
    return as_type(make, total, element_type(op.result))


# ---- deformed windows ----------------------------------------------------------------------------


@rule(g.DeformConvOp, exact=False)
def deform_conv_of_rows(op: g.DeformConvOp, make: Make) -> Replacement:
    """A matmul of samples: sums of rows of channels, at indices and with weights that elementwise
    ops give. Samples of a place lie side by side, those of each kernel element by offset groups."""
    (batch, _, *sizes), kernel = shape_of(op.input), shape_of(op.weight)[2:]
    parts, taps, (*_, tall, broad) = op.offset_group.value.data, prod(kernel), shape_of(op.result)
    if not can_sample(op):
        return None
    n, window = FloatArithmetic(make), op.window().resolved(tuple(sizes))
    count, own = tall * broad, wide(element_type(op.input))

    def by_places(value: SSAValue, each: int) -> SSAValue:
        """[each, batch, places x kernel x offset groups]"""
        value = shaped(make, as_type(make, value, own), (batch, parts, taps, each, count))
        value = make(g.TransposeOp, value, permutation=[3, 0, 4, 2, 1])
        return shaped(make, value, (each, batch, count * taps * parts))

    grid = np.indices((tall, broad)).reshape(2, -1, 1, 1)
    within = np.indices(kernel).reshape(2, 1, -1, 1) * np.ones(parts)
    moves, axes = by_places(op.offset, 2), list[Taps]()
    for i, size in enumerate(sizes):
        start = grid[i] * window.strides[i] - window.pads[i] + within[i] * window.dilations[i]
        at = make(g.SliceOp, moves, starts=[i], ends=[i + 1], axes=[0])
        at = shaped(
            make, n.add(at, n.line(start.tolist(), at, start.size)), (1, batch * start.size)
        )
        found = zero_outside(n, at, size, "linear")
        shape = (2, 1, batch * start.size) if i == 0 else (1, 2, batch * start.size)
        axes.append(found.shaped(make, shape))
    index, weight = joined(make, axes)
    shape = (4, batch, count * taps * parts)
    index, weight = (shaped(make, v, shape) for v in (index, weight))
    if op.mask is not None:
        weight = make(g.MulOp, weight, by_places(op.mask, 1))
    if parts > 1:
        index = make(g.MulOp, index, make.splat(parts, i32))
    first = np.arange(batch)[:, None] * prod(sizes) * parts + np.arange(shape[-1]) % parts
    index = make(g.AddOp, index, make.constant(first.astype(np.int32)))
    index, weight = (shaped(make, v, (4, numel(shape[1:]))) for v in (index, weight))
    rows = weighted_rows(make, table_of(make, op.input, parts), index, weight)
    return products_of(op, make, as_type(make, rows, element_type(op.weight)))


def products_of(op: g.DeformConvOp, make: Make, rows: SSAValue) -> SSAValue:
    """The convolution of its samples, [batch, places, kernel, channels], which are rounded to the
    type of the weights, that the cube multiplies."""
    (batch, outs, *places), (_, depth, *kernel) = shape_of(op.result), shape_of(op.weight)
    groups, taps, count = op.group.value.data, prod(kernel), prod(places)
    weight = shaped(make, op.weight, (groups, outs // groups, depth, taps))
    weight = make(g.TransposeOp, weight, permutation=[0, 1, 3, 2])
    weight = shaped(make, weight, (groups, outs // groups, taps * depth))
    rows = shaped(make, rows, (batch * count, taps, groups, depth))
    if groups > 1:
        rows = make(g.TransposeOp, rows, permutation=[2, 0, 1, 3])
    rows = shaped(make, rows, (groups, batch * count, taps * depth))
    y = make(g.MatmulOp, rows, weight, transpose_rhs=True)
    if op.bias is not None:
        y = make(g.AddOp, y, shaped(make, op.bias, (groups, 1, outs // groups)))
    shape = (groups, batch, count, outs // groups)
    return channels_first(make, y, shape, [1, 0, 3, 2], op.result)


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


def corners_of(
    op: g.RoiAlignOp, n: FloatArithmetic, rois: SSAValue, axis: int
) -> Iterator[SSAValue]:
    """The corners x1, y1, x2 and y2 of regions, each along an axis of 4, among elements."""
    rois = n.mul(rois, op.spatial_scale.value.data)
    rois = n.sub(rois, 0.5) if op.half_pixel.value.data else rois
    return (n.make(g.SliceOp, rois, starts=[k], ends=[k + 1], axes=[axis]) for k in range(4))


def length_of(op: g.RoiAlignOp, n: FloatArithmetic, start: SSAValue, end: SSAValue) -> SSAValue:
    length = n.sub(end, start)
    return length if op.half_pixel.value.data else n.of(g.MaximumOp, length, 1.0)


def cell_taps(
    n: FloatArithmetic, start: SSAValue, end: SSAValue, op: g.RoiAlignOp, cells: int, size: int
) -> Taps:
    """[taps, cells, regions]: of samples at equal steps in each cell, the elements around."""
    samples, length = op.sampling_ratio.value.data, length_of(op, n, start, end)
    steps = (np.arange(cells) + (np.arange(samples)[:, None] + 0.5) / samples) / cells
    line = n.line(steps.tolist(), start, samples, cells, 1)
    taps = around(n, n.add(n.mul(length, line), start), size, -1.0, size)
    return taps.shaped(n.make, (2 * samples, cells, shape_of(start)[-1]))


@rule(g.RoiAlignOp, exact=False)
def roi_align_of_rows(op: g.RoiAlignOp, make: Make) -> Replacement:
    """Sums of rows of channels, at indices and with weights that elementwise ops give"""
    ratio, (_, channels, high, across) = op.sampling_ratio.value.data, shape_of(op.input)
    (rows, columns), kind = op.ints("output_size") or (1, 1), op.mode.data
    if not can_sample(op) or not 0 < 4 * ratio**2 <= MOST_TAPS:
        return None
    n, regions = FloatArithmetic(make), shape_of(op.rois)[0]
    rois = make(g.TransposeOp, widened(make, op.rois), permutation=[1, 0])
    x1, y1, x2, y2 = corners_of(op, n, rois, 0)
    y, x = cell_taps(n, y1, y2, op, rows, high), cell_taps(n, x1, x2, op, columns, across)
    y = y.shaped(make, (2 * ratio, 1, rows, 1, regions))
    x = x.shaped(make, (1, 2 * ratio, 1, columns, regions))
    index, weight = joined(make, (y, x))
    image = as_type(make, op.batch_indices, i32)
    index = make(g.AddOp, index, make(g.MulOp, image, make.splat(high * across, i32)))
    weight = weight if kind == "max" else n.mul(weight, 1 / ratio**2)
    shape = (4 * ratio**2, rows * columns * regions)
    index, weight = (shaped(make, v, shape) for v in (index, weight))
    kind = "max" if kind == "max" else "sum"
    found = weighted_rows(make, table_of(make, op.input), index, weight, kind)
    return channels_first(make, found, (rows * columns, regions, channels), [1, 2, 0], op.result)


def cell_weights(
    n: FloatArithmetic, start: SSAValue, end: SSAValue, op: g.RoiAlignOp, cells: int, size: int
) -> SSAValue:
    """Return [regions, cells, size]: the weight of each element in the mean of a cell's samples.
    There is a sample for about each element: next to an element are no more than `NEAR`. `start`,
    `end`: [regions, 1, 1]."""
    step = n.div(length_of(op, n, start, end), float(cells))
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
    weight = n.make(g.ReduceOp, n.where(counts, weight, 0.0), kind="sum", axes=[0])
    return n.div(shaped(n.make, weight, shape_of(weight)[1:]), count)


@rule(g.RoiAlignOp, exact=False)
def roi_align_by_matrices(op: g.RoiAlignOp, make: Make) -> Replacement:
    """Of as many samples as elements a mean is a product with the weights of lines, and then with
    those of columns"""
    (images, channels, high, across), regions = shape_of(op.input), shape_of(op.rois)[0]
    rows, columns = op.ints("output_size") or (1, 1)
    if not can_sample(op) or op.sampling_ratio.value.data or op.mode.data != "average":
        return None
    if regions * rows * across * channels > MOST_PRODUCTS:
        return None
    n, element = FloatArithmetic(make), element_type(op.input)
    corners = corners_of(op, n, as_type(make, op.rois, wide(element)), 1)
    x1, y1, x2, y2 = (shaped(make, v, (regions, 1, 1)) for v in corners)
    lines = cell_weights(n, y1, y2, op, rows, high)
    within = as_type(make, cell_weights(n, x1, x2, op, columns, across), element)
    if images > 1:
        own = shaped(make, as_type(make, op.batch_indices, i32), (regions, 1))
        own = n.where(n.test("lt", own, 0), n.make(g.AddOp, own, make.splat(images, i32)), own)
        numbers = make.constant(np.arange(images, dtype=np.int32))
        own = as_type(make, make(g.CompareOp, own, numbers, predicate="eq"), wide(element))
        own = shaped(make, own, (regions, 1, images, 1))
        lines = n.make(g.MulOp, shaped(make, lines, (regions, rows, 1, high)), own)
    lines = shaped(make, as_type(make, lines, element), (regions * rows, images * high))
    table = shaped(make, table_of(make, op.input), (images * high, across * channels))
    found = shaped(make, make(g.MatmulOp, lines, table), (regions * rows, across, channels))
    shape = (regions, rows, columns, across)
    within = shaped(make, within, (regions, 1, columns, across))
    within = shaped(make, make(g.BroadcastToOp, within, shape=shape), (regions * rows, *shape[2:]))
    found = make(g.MatmulOp, within, found)
    return channels_first(make, found, (regions, rows * columns, channels), [0, 2, 1], op.result)


def cell_masks(
    n: FloatArithmetic, first: SSAValue, last: SSAValue, cells: int, size: int
) -> tuple[SSAValue, SSAValue]:
    """Return [regions, cells, size]: which elements along an axis are in each cell of a region from
    one element to another one; [regions, cells, 1]: whether any is. Corners are [regions, 1, 1]."""
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
    return x if shape_of(x)[axis] == 1 else make(g.ReduceOp, x, kind="max", axes=[axis])


@rule(g.MaxRoiPoolOp, exact=False)
def max_roi_pool_by_masks(op: g.MaxRoiPoolOp, make: Make) -> Replacement:
    """The largest elements of lines that are in a cell, and then those of columns"""
    (_, channels, high, across), regions = shape_of(op.input), shape_of(op.rois)[0]
    (rows, columns), element = op.ints("output_size") or (1, 1), element_type(op.input)
    if not can_sample(op) or regions * channels * rows * high * across > MOST_PRODUCTS:
        return None
    n, rois = FloatArithmetic(make), as_type(make, op.rois, wide(element))
    image, *corners = (make(g.SliceOp, rois, starts=[k], ends=[k + 1], axes=[1]) for k in range(5))
    scale, shape = op.spatial_scale.value.data, (regions, 1, 1)
    x1, y1, x2, y2 = (n.mul(shaped(make, v, shape), scale) for v in corners)
    lines, has_lines = cell_masks(n, y1, y2, rows, high)
    within, has_columns = cell_masks(n, x1, x2, columns, across)
    at = make(g.CastOp, shaped(make, image, (regions,)), to=i32)
    x = make(g.GatherOp, op.input, at, axis=0)
    x = shaped(make, x, (regions, channels, 1, high, across))
    least = make.splat(lowest(element), element)
    mask = shaped(make, lines, (regions, 1, rows, high, 1))
    x = largest(make, make(g.SelectOp, mask, x, least), 3)
    mask = shaped(make, within, (regions, 1, 1, columns, across))
    x = largest(make, make(g.SelectOp, mask, x, least), 4)
    there = make(
        g.AndOp,
        shaped(make, has_lines, (regions, 1, rows, 1, 1)),
        shaped(make, has_columns, (regions, 1, 1, columns, 1)),
    )
    x = make(g.SelectOp, there, x, make.splat(0.0, element))
    return shaped(make, x, shape_of(op.result))
