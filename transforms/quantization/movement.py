"""Dequantize behind, and quantize before, what only moves or compares elements: chains of these ops
work on integers then, and a dequantize with its quantize cancels out when nothing else is left
between them.

    %0 = graph.dequantize %q, %s, %z
    %1 = graph.transpose %0                    becomes  %1 = graph.transpose %q
    %2 = graph.quantize %1, %s, %z

A dequantize of a weight moves with scales along an axis too. Exceptions: blocks of scales; a pad
with anything but the zero point; a dequantize that floats need as well, where no user of the moved
value takes integers.

Parts of a value that are quantized each by itself (query, key and value of one matmul) become parts
of one that is quantized along an axis, where it is computed.

    %0 = graph.slice %x starts [0] ends [64]             %0 = graph.quantize %x, %st {axis}
    %1 = graph.quantize %0, %s                           %1 = graph.slice %0 starts [0] ends [64]
    %2 = graph.slice %x starts [64] ends [192] becomes   %2 = graph.slice %0 starts [64] ends [192]
    %3 = graph.quantize %2, %t

where %st is 64 times %s, then 128 times %t. All of %x must be quantized to one type, without zero
points, and not be used otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute, OpResult, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.support.parameters import lowest, splat
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import SEGMENTS, TensorOp
from ge.dialects.support.types import (
    Shape,
    array_ints,
    element_type,
    is_static,
    numel,
    rank_of,
    shape_of,
)
from ge.runtime.data.arrays import Array
from ge.transforms.graph.canonical.linear_maps import is_prepared, spread
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.quantization.grids import Grid, has_one_element, known
from ge.transforms.rewriting.building import Make

VIEWS = (g.ReshapeOp, g.SqueezeOp, g.UnsqueezeOp)

BEFORE = (
    *VIEWS,
    g.TransposeOp,
    g.DepthToSpaceOp,
    g.SpaceToDepthOp,
)  # a quantize moves before these

AFTER = (*BEFORE, g.SliceOp, g.PadOp, g.BroadcastToOp, g.TileOp, g.GatherOp)

TAKES_INTEGERS = (
    *AFTER, g.LookupOp, g.QuantizeOp, g.MatmulOp, g.Convolution, g.ConcatOp, g.SplitOp, g.PoolOp,
    g.ReluOp,
)  # fmt: skip


def with_input(
    op: TensorOp, first: SSAValue, make: Make, padding: SSAValue | None = None
) -> TensorOp:
    """The op with another first operand; a pad with another padding, if there is one."""
    names = [name for name, _ in op.get_irdl_definition().operands]
    operands = [getattr(op, name) for name in names]
    operands[0] = first
    if padding is not None:
        operands[names.index("value")] = padding
    params = {k: v for k, v in op.properties.items() if k != SEGMENTS}
    results = len(op.results) if isinstance(op, g.SplitOp) else None
    return make.op(type(op), *operands, results=results, **params)


def pays(op: TensorOp, source: g.DequantizeOp) -> bool:
    """Return whether the dequantize becomes dead, or integers are of use behind the op."""
    if source.result.has_one_use():
        return True
    return any(isinstance(u.operation, TAKES_INTEGERS) for r in op.results for u in r.uses)


def source_of(op: TensorOp) -> tuple[g.DequantizeOp, Grid] | None:
    """The dequantize that the first operand of an op is, if it may move behind the op."""
    source = op.operands[0].owner
    if not isinstance(source, g.DequantizeOp) or bitwidth(element_type(source.input)) > 16:
        return None
    grid = Grid.of(source)
    return None if grid is None or not pays(op, source) else (source, grid)


# ---- dequantize behind movement ----------------------------------------------------------------


@rule(*AFTER)
def dequantize_after_movement(op: TensorOp, make: Make) -> Replacement:
    """move(dequantize x) = dequantize(move x)"""
    if (pair := source_of(op)) is None:
        return None
    source, grid = pair
    value = axis = None
    if grid.axis is not None and (axis := moved_axis(op, grid.axis)) is None:
        return None
    if isinstance(op, g.PadOp) and op.mode.data == "constant":
        if (value := padding(op, grid, element_type(source.input), make)) is None:
            return None
    new = with_input(op, source.input, make, value)
    return make(g.DequantizeOp, new.results[0], grid.scale, grid.zero_point, axis=axis)


def padding(op: g.PadOp, grid: Grid, element: Attribute, make: Make) -> SSAValue | None:
    """Return the zero point, if a pad puts that in."""
    number = 0.0 if op.value is None else splat(op.value)
    if number != 0.0 or grid.axis is not None or grid.zero is None:
        return None
    return make.splat(grid.zero, element)


def moved_axis(op: TensorOp, axis: int) -> int | None:
    """Return where a dimension of the input is in the result; None if it is not one any more."""
    if isinstance(op, g.TransposeOp):
        return array_ints(op.permutation).index(axis)
    if isinstance(op, g.GatherOp):
        taken = op.axis.value.data
        behind = axis + rank_of(op.indices) - 1
        return None if axis == taken else axis if axis < taken else behind
    if isinstance(op, VIEWS):
        return kept_dimension(shape_of(op.input), shape_of(op.results[0]), axis)
    return None


def kept_dimension(before: Shape, after: Shape, axis: int) -> int | None:
    """The dimension of a reshaped tensor that is dimension `axis` of the original."""
    if not is_static(before) or not is_static(after) or 0 in before:
        return None
    outer = numel(before[:axis])
    for i, d in enumerate(after):
        if d == before[axis] and numel(after[:i]) == outer:
            return i
    return None


@rule(g.SplitOp)
def dequantize_after_split(op: g.SplitOp, make: Make) -> Replacement:
    """The parts of a dequantized tensor are dequantized parts."""
    if (pair := source_of(op)) is None or pair[1].axis is not None:
        return None
    source, grid = pair
    parts = with_input(op, source.input, make).results
    return [make(g.DequantizeOp, part, grid.scale, grid.zero_point) for part in parts]


@rule(g.ConcatOp)
def dequantize_after_concat(op: g.ConcatOp, make: Make) -> Replacement:
    """Tensors on one grid are concatenated as integers."""
    sources = [v.owner for v in op.inputs if isinstance(v.owner, g.DequantizeOp)]
    if len(sources) < len(op.inputs) or not pays(op, first := sources[0]):
        return None
    element, grid = element_type(first.input), Grid.of(first)
    if grid is None or grid.axis is not None or bitwidth(element) > 16:
        return None
    others = ((element_type(s.input), Grid.of(s)) for s in sources)
    if not all(t == element and other is not None and grid.equals(other) for t, other in others):
        return None
    values = make(g.ConcatOp, [s.input for s in sources], axis=op.axis)
    return make(g.DequantizeOp, values, grid.scale, grid.zero_point)


@rule(g.PoolOp)
def dequantize_after_pool(op: g.PoolOp, make: Make) -> Replacement:
    """The maximum is that of the integers, as scales are positive."""
    if op.kind.data != "max" or (pair := source_of(op)) is None:
        return None
    source, grid = pair
    if grid.axis is not None or not grid.is_positive:
        return None
    if bitwidth(element_type(source.input)) < 8:
        return None
    new = with_input(op, source.input, make).results[0]
    return make(g.DequantizeOp, new, grid.scale, grid.zero_point)


@rule(g.ReluOp)
def dequantize_after_relu(op: g.ReluOp, make: Make) -> Replacement:
    """relu(dequantize x) = dequantize(max(x, zero point))"""
    if (pair := source_of(op)) is None:
        return None
    source, grid = pair
    element = element_type(source.input)
    if grid.zero is None or not grid.is_positive:
        return None
    if grid.zero == lowest(element):
        return source.result
    new = make(g.ClampOp, source.input, make.splat(grid.zero, element), None)
    axis = grid.axis
    return make(g.DequantizeOp, new, grid.scale, grid.zero_point, axis=axis)


# ---- quantize before movement ------------------------------------------------------------------


def is_free(op: g.QuantizeOp) -> bool:
    """Return whether a quantize is per tensor and the only user of its operand."""
    return has_one_element(op.scale) and op.input.has_one_use() and not op.block_size.value.data


def quantized_like(op: g.QuantizeOp, value: SSAValue, make: Make) -> SSAValue:
    return make(g.QuantizeOp, value, op.scale, op.zero_point, to=op.to, saturate=op.saturate)


@rule(g.QuantizeOp)
def quantize_before_movement(op: g.QuantizeOp, make: Make) -> Replacement:
    """quantize(move x) = move(quantize x), so that the quantize joins what computes x"""
    inner = op.input.owner
    if not isinstance(inner, BEFORE) or not is_free(op) or is_prepared(inner.operands[0]):
        return None
    value = quantized_like(op, inner.operands[0], make)
    return with_input(inner, value, make).results[0]


@rule(g.QuantizeOp)
def quantize_before_concat(op: g.QuantizeOp, make: Make) -> Replacement:
    """The parts are quantized where they are computed."""
    inner = op.input.owner
    if not isinstance(inner, g.ConcatOp) or not is_free(op):
        return None
    parts = [quantized_like(op, v, make) for v in inner.inputs]
    return make(g.ConcatOp, parts, axis=inner.axis)


class Unfit(Exception):
    """A value that is not quantized part by part."""


@dataclass(frozen=True, slots=True, order=True)
class ValueSlice:
    """The elements of a value from `start` to `end` along an axis."""

    start: int
    end: int
    axis: int


def place_of(result: SSAValue) -> ValueSlice:
    """Return where a part is in the value it was taken from. Raises Unfit."""
    assert isinstance(result, OpResult)
    op = result.op
    assert isinstance(op, g.SliceOp | g.SplitOp)
    whole, shape = shape_of(op.input), shape_of(result)
    if not is_static(whole) or not is_static(shape) or (starts := op.part_starts()) is None:
        raise Unfit
    axes = [i for i, d in enumerate(whole) if d != shape[i]]
    if len(axes) != 1:
        raise Unfit
    start = starts[result.index][axes[0]]
    return ValueSlice(start, start + shape[axes[0]], axes[0])


def quantize_of(part: SSAValue) -> g.QuantizeOp:
    """Return the op that quantizes a part, behind ops that move elements at most. Raises Unfit."""
    user = part.get_user_of_unique_use()
    while isinstance(user, BEFORE):
        user = user.results[0].get_user_of_unique_use()
    if not isinstance(user, g.QuantizeOp) or not is_free(user):
        raise Unfit
    if (grid := Grid.of(user)) is None or grid.zero != 0 or known(grid.scale) is None:
        raise Unfit
    return user


def parts_of(value: SSAValue) -> Iterator[tuple[ValueSlice, g.QuantizeOp]]:
    """All parts of a value, with what quantizes them. Raises Unfit."""
    for use in value.uses:
        if not isinstance(use.operation, g.SliceOp | g.SplitOp):
            raise Unfit
        for result in use.operation.results:
            yield place_of(result), quantize_of(result)


def elements_of(scale: SSAValue) -> Array | None:
    """The elements of a scale that `joined_scale` made."""
    op = scale.owner
    if isinstance(op, g.ConcatOp):
        parts = [elements_of(v) for v in op.inputs]
        some = [p for p in parts if p is not None]
        return np.concatenate(some) if len(some) == len(parts) else None
    if isinstance(op, g.BroadcastToOp) and (one := known(op.input)) is not None:
        return np.broadcast_to(one, shape_of(scale))
    return known(scale)


def joined_scale(value: SSAValue, op: g.QuantizeOp, make: Make) -> tuple[SSAValue, int]:
    """The scales of all parts one after the other, and their axis. Raises Unfit, also if another
    part is quantized before this one: ops made here would stand behind that."""
    parts = sorted(parts_of(value), key=lambda part: part[0])
    if not all(q is op or op.is_before_in_block(q) for _, q in parts):
        raise Unfit
    axis, end = parts[0][0].axis, 0
    for place, quantize in parts:
        same = quantize.to == op.to and element_type(quantize.scale) == element_type(op.scale)
        if not same or place.axis != axis or place.start != end:
            raise Unfit
        end = place.end
    if end != shape_of(value)[axis] or len(parts) < 2:
        raise Unfit
    scales = [spread(make, number_of(q.scale, make), p.end - p.start) for p, q in parts]
    return make(g.ConcatOp, scales, axis=0), axis


def number_of(scale: SSAValue, make: Make) -> SSAValue:
    """A scale that is known, here: that of another part may be defined later."""
    elements = known(scale)
    assert elements is not None
    return make.constant(elements)


def joined_before(value: SSAValue, place: ValueSlice, op: g.QuantizeOp) -> SSAValue | None:
    """The value quantized along an axis, as the rule did for another of its parts."""
    for use in value.uses:
        joint, scale = use.operation, known(op.scale)
        if not isinstance(joint, g.QuantizeOp) or joint.to != op.to or scale is None:
            continue
        grid = Grid.of(joint)
        if grid is None or grid.axis != place.axis or grid.zero != 0:
            continue
        scales = elements_of(joint.scale)
        if scales is None or (scales[place.start : place.end] != scale.reshape(())).any():
            continue
        if joint.is_before_in_block(op):
            return joint.result
    return None


@rule(g.QuantizeOp)
def quantize_before_parts(op: g.QuantizeOp, make: Make) -> Replacement:
    """A quantized part of x is a part of x quantized along an axis."""
    part = op.input
    inner = part.owner
    if not isinstance(inner, g.SliceOp | g.SplitOp) or is_prepared(inner.input):
        return None
    assert isinstance(part, OpResult)
    try:
        place = place_of(part)
        quantize_of(part)
        whole = joined_before(inner.input, place, op)
        if whole is None:
            scale, axis = joined_scale(inner.input, op, make)
            whole = make(g.QuantizeOp, inner.input, scale, to=op.to, axis=axis)
    except Unfit:
        return None
    return with_input(inner, whole, make).results[part.index]
