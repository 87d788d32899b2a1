"""Samples between the elements of an image, in ops that have programs: `expand_layers.py` says why.

The channels of an element become a row of a table. A sample is a sum of rows at indices, each times
the product of its weights along the axes; indices and weights are elementwise ops on coordinates:

    %y = graph.grid_sample %x, %grid
becomes
    %t = graph.transpose %x; graph.reshape              rows of channels
    %i, %w = elementwise ops of %grid                   4 corners x places
    %r = graph.gather %t, %i                            4 x places x channels
    %y = graph.reduce "sum" (graph.mul %r, %w)          and back to channels first
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.convolution import DeformConvOp
from ge.dialects.graph.image import AffineGridOp, GridSampleOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of
from ge.runtime.data.arrays import dense, dtype_of
from ge.transforms.graph.canonical.linear_maps import as_type, shaped
from ge.transforms.graph.canonical.local import Make, Replacement, rule

MOST_TAPS = 64  # rows that a sample is made of


def can_sample(op: TensorOp) -> bool:
    return all(is_static(shape_of(v)) and numel(shape_of(v)) for v in (*op.operands, *op.results))


def wide(element: Attribute) -> Attribute:
    """The element type that floats are computed in."""
    return f32 if bitwidth(element) < 32 else element


@dataclass(frozen=True)
class FloatArithmetic:
    """Arithmetic of floats, of values and numbers."""

    make: Make

    def value(self, x: SSAValue | float, like: SSAValue) -> SSAValue:
        return x if isinstance(x, SSAValue) else self.make.constant(x, element_type(like))

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
        return self.make.dense(dense(array))


@dataclass(frozen=True)
class Taps:
    """The elements along one axis that samples are made of, the first dimension: their numbers as
    whole floats, and their weights. Places are behind, as long rows."""

    size: int
    index: SSAValue
    weight: SSAValue


def table_of(make: Make, x: SSAValue, groups: int = 1) -> SSAValue:
    """[batch, channels, spatial..] as rows of channels, those of the groups of an element one
    after the other."""
    batch, channels, *spatial = shape_of(x)
    rows = shaped(make, x, (batch, groups, channels // groups, prod(spatial)))
    rows = make(TransposeOp, rows, permutation=[0, 3, 1, 2])
    return shaped(make, rows, (numel((batch, *spatial)) * groups, channels // groups))


def joined(make: Make, taps: Sequence[Taps]) -> tuple[SSAValue, SSAValue]:
    """The number of each element in an image of one channel (i32), and its weight, of shapes that
    go together."""
    index, weight = make(g.CastOp, taps[0].index, to=i32), taps[0].weight
    for axis in taps[1:]:
        own, size = make(g.CastOp, axis.index, to=i32), make.constant(axis.size, i32)
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
    found = make(GatherOp, table, shaped(make, index, (taps * places,)), axis=0)
    rows = shaped(make, as_type(make, found, own), (taps, places, columns))
    weight = shaped(make, as_type(make, weight, own), (taps, places, 1))
    product = make(g.MulOp, rows, weight)
    if may_be_nothing:
        n = FloatArithmetic(make)
        product = n.where(n.test("ne", weight, 0.0), product, 0.0)
    if taps > 1:
        product = make(ReduceOp, product, kind=kind, axes=[0])
    return shaped(make, product, (places, columns))


def channels_first(
    make: Make, rows: SSAValue, shape: Sequence[int], order: Sequence[int], like: SSAValue
) -> SSAValue:
    """Rows of channels of places of this shape, in another order of dimensions, as a result."""
    rows = shaped(make, as_type(make, rows, element_type(like)), shape)
    return shaped(make, make(TransposeOp, rows, permutation=order), shape_of(like))


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
    """As many as there are finite numbers."""
    return n.add(n.mul(like, 0.0), 1.0)


def zero_outside(n: FloatArithmetic, x: SSAValue, size: int, mode: str) -> Taps:
    index, weight = taps_at(n, x, mode)
    inside = n.inside(index, 0.0, size - 1.0)
    return Taps(size, n.where(inside, index, 0.0), n.where(inside, weight, 0.0))


def grid_taps(op: GridSampleOp, n: FloatArithmetic, x: SSAValue, size: int) -> Taps:
    """Around the coordinates [1, places] along one axis, as the kernel has them."""
    corners, mode, padding = bool(op.align_corners.value.data), op.mode.data, op.padding_mode.data
    x = n.add(n.where(n.test("ne", x, x), -1.0, x), 1.0)
    x = n.mul(n.div(x, 2.0), size - 1.0) if corners else n.div(n.sub(n.mul(x, size), 1.0), 2.0)
    if padding == "zeros":
        return zero_outside(n, x, size, mode)
    if corners and size == 1:  # where infinity is there, too
        x = n.make.dense(dense(np.zeros(shape_of(x), dtype_of(element_type(x)))))
    x = n.make(g.RoundOp, x) if mode == "nearest" else x
    if padding == "border":
        index, weight = taps_at(n, n.clip(x, -2.0, size + 1.0), mode)
    else:
        index, weight = taps_at(n, reflected(n, x, size, corners), mode)
        index = reflected(n, index, size, corners)
        index = n.where(n.test("eq", index, index), index, 0.0)  # infinity has no reflection
        weight = ones(n, index) if mode == "nearest" else weight
    return Taps(size, n.clip(index, 0.0, size - 1.0), weight)


@rule(GridSampleOp, exact=False)
def grid_sample_of_rows(op: GridSampleOp, make: Make) -> Replacement:
    """Sums of rows of channels, at indices and with weights that elementwise ops give"""
    (batch, channels, *sizes), rank = shape_of(op.input), rank_of(op.input) - 2
    offsets, _ = TAPS[op.mode.data]
    taps = len(offsets) ** rank
    if not can_sample(op) or not is_float(element_type(op.input)) or taps > MOST_TAPS:
        return None
    n, places = FloatArithmetic(make), numel(shape_of(op.grid)) // rank
    grid = make(TransposeOp, shaped(make, op.grid, (places, rank)), permutation=[1, 0])
    grid = as_type(make, grid, wide(element_type(grid)))
    axes: list[Taps] = []
    for i, size in enumerate(sizes):
        at = make(SliceOp, grid, starts=[rank - 1 - i], ends=[rank - i], axes=[0])
        found = grid_taps(op, n, at, size)
        shape = (*(len(offsets) if j == i else 1 for j in range(rank)), places)
        axes.append(Taps(size, *(shaped(make, v, shape) for v in (found.index, found.weight))))
    index, weight = (shaped(make, v, (taps, places)) for v in joined(make, axes))
    if batch > 1:
        images = np.arange(places, dtype=np.int32) // (places // batch) * prod(sizes)
        index = make(g.AddOp, index, make.dense(dense(images)))
    rows = weighted_rows(make, table_of(make, op.input), index, weight, may_be_nothing=True)
    shape = (batch, places // batch, channels)
    return channels_first(make, rows, shape, [0, 2, 1], op.result)


@rule(AffineGridOp, exact=False)
def affine_grid_by_axes(op: AffineGridOp, make: Make) -> Replacement:
    """The sum of the columns of the map, each times the coordinates along its axis"""
    if not can_sample(op) or op.size_value is not None:
        return None
    batch, rank, _ = shape_of(op.theta)
    sizes, n = shape_of(op.result)[1:-1], FloatArithmetic(make)
    theta = as_type(make, op.theta, wide(element_type(op.theta)))

    def column(i: int) -> SSAValue:
        found = make(SliceOp, theta, starts=[i], ends=[i + 1], axes=[2])
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


@rule(DeformConvOp, exact=False)
def deform_conv_of_rows(op: DeformConvOp, make: Make) -> Replacement:
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
        value = make(TransposeOp, value, permutation=[3, 0, 4, 2, 1])
        return shaped(make, value, (each, batch, count * taps * parts))

    grid = np.indices((tall, broad)).reshape(2, -1, 1, 1)
    within = np.indices(kernel).reshape(2, 1, -1, 1) * np.ones(parts)
    moves, axes = by_places(op.offset, 2), list[Taps]()
    for i, size in enumerate(sizes):
        start = grid[i] * window.strides[i] - window.pads[i] + within[i] * window.dilations[i]
        at = make(SliceOp, moves, starts=[i], ends=[i + 1], axes=[0])
        at = shaped(
            make, n.add(at, n.line(start.tolist(), at, start.size)), (1, batch * start.size)
        )
        found = zero_outside(n, at, size, "linear")
        shape = (2, 1, batch * start.size) if i == 0 else (1, 2, batch * start.size)
        axes.append(Taps(size, *(shaped(make, v, shape) for v in (found.index, found.weight))))
    index, weight = joined(make, axes)
    shape = (4, batch, count * taps * parts)
    index, weight = (shaped(make, v, shape) for v in (index, weight))
    if op.mask is not None:
        weight = make(g.MulOp, weight, by_places(op.mask, 1))
    if parts > 1:
        index = make(g.MulOp, index, make.constant(parts, i32))
    first = np.arange(batch)[:, None] * prod(sizes) * parts + np.arange(shape[-1]) % parts
    index = make(g.AddOp, index, make.dense(dense(first.astype(np.int32))))
    index, weight = (shaped(make, v, (4, numel(shape[1:]))) for v in (index, weight))
    rows = weighted_rows(make, table_of(make, op.input, parts), index, weight)
    return products_of(op, make, as_type(make, rows, element_type(op.weight)))


def products_of(op: DeformConvOp, make: Make, rows: SSAValue) -> SSAValue:
    """The convolution of its samples, [batch, places, kernel, channels], which are rounded to the
    type of the weights, that the cube multiplies."""
    (batch, outs, *places), (_, depth, *kernel) = shape_of(op.result), shape_of(op.weight)
    groups, taps, count = op.group.value.data, prod(kernel), prod(places)
    weight = shaped(make, op.weight, (groups, outs // groups, depth, taps))
    weight = make(TransposeOp, weight, permutation=[0, 1, 3, 2])
    weight = shaped(make, weight, (groups, outs // groups, taps * depth))
    rows = shaped(make, rows, (batch * count, taps, groups, depth))
    if groups > 1:
        rows = make(TransposeOp, rows, permutation=[2, 0, 1, 3])
    rows = shaped(make, rows, (groups, batch * count, taps * depth))
    y = make(MatmulOp, rows, weight, transpose_rhs=True)
    if op.bias is not None:
        y = make(g.AddOp, y, shaped(make, op.bias, (groups, 1, outs // groups)))
    shape = (groups, batch, count, outs // groups)
    return channels_first(make, y, shape, [1, 0, 3, 2], op.result)
