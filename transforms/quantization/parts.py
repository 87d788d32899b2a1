"""Parts of a value that are quantized each by itself (query, key and value of one matmul) are parts
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
from xdsl.ir import OpResult, SSAValue

from ge.dialects.graph.quantization import QuantizeOp
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.types import element_type, is_static, shape_of
from ge.runtime.data.arrays import Array, dense
from ge.transforms.graph.canonical.linear_maps import is_prepared, spread
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.quantization.grids import Grid, known
from ge.transforms.quantization.movement import BEFORE, is_free, with_input


class Unfit(Exception):
    """A value that is not quantized part by part."""


@dataclass(frozen=True, slots=True, order=True)
class ValueSlice:
    """The elements of a value from `start` to `end` along an axis."""

    start: int
    end: int
    axis: int


def place_of(result: SSAValue) -> ValueSlice:
    """Where a part is in what it was taken from. Raises Unfit."""
    assert isinstance(result, OpResult)
    op = result.op
    assert isinstance(op, SliceOp | SplitOp)
    whole, shape = shape_of(op.input), shape_of(result)
    if not is_static(whole) or not is_static(shape) or (starts := op.part_starts()) is None:
        raise Unfit
    axes = [i for i, d in enumerate(whole) if d != shape[i]]
    if len(axes) != 1:
        raise Unfit
    start = starts[result.index][axes[0]]
    return ValueSlice(start, start + shape[axes[0]], axes[0])


def quantize_of(part: SSAValue) -> QuantizeOp:
    """What quantizes a part, behind ops that move elements at most. Raises Unfit."""
    user = part.get_user_of_unique_use()
    while isinstance(user, BEFORE):
        user = user.results[0].get_user_of_unique_use()
    if not isinstance(user, QuantizeOp) or not is_free(user):
        raise Unfit
    if (grid := Grid.of(user)) is None or grid.zero != 0 or known(grid.scale) is None:
        raise Unfit
    return user


def parts_of(value: SSAValue) -> Iterator[tuple[ValueSlice, QuantizeOp]]:
    """All parts of a value, with what quantizes them. Raises Unfit."""
    for use in value.uses:
        if not isinstance(use.operation, SliceOp | SplitOp):
            raise Unfit
        for result in use.operation.results:
            yield place_of(result), quantize_of(result)


def elements_of(scale: SSAValue) -> Array | None:
    """The elements of a scale that `joined_scale` made."""
    op = scale.owner
    if isinstance(op, ConcatOp):
        parts = [elements_of(v) for v in op.inputs]
        some = [p for p in parts if p is not None]
        return np.concatenate(some) if len(some) == len(parts) else None
    if isinstance(op, BroadcastToOp) and (one := known(op.input)) is not None:
        return np.broadcast_to(one, shape_of(scale))
    return known(scale)


def joined_scale(value: SSAValue, op: QuantizeOp, make: Make) -> tuple[SSAValue, int]:
    """The scales of all parts one after the other, and their axis. Raises Unfit, and where another
    part is quantized before this one: what is made here would stand behind that."""
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
    return make(ConcatOp, scales, axis=0), axis


def number_of(scale: SSAValue, make: Make) -> SSAValue:
    """A scale that is known, here: that of another part may be defined later."""
    elements = known(scale)
    assert elements is not None
    return make.dense(dense(elements))


def joined_before(value: SSAValue, place: ValueSlice, op: QuantizeOp) -> SSAValue | None:
    """The value quantized along an axis, as the rule did for another of its parts."""
    for use in value.uses:
        joint, scale = use.operation, known(op.scale)
        if not isinstance(joint, QuantizeOp) or joint.to != op.to or scale is None:
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


@rule(QuantizeOp)
def quantize_before_parts(op: QuantizeOp, make: Make) -> Replacement:
    """A quantized part of x is a part of x quantized along an axis."""
    part = op.input
    inner = part.owner
    if not isinstance(inner, SliceOp | SplitOp) or is_prepared(inner.input):
        return None
    assert isinstance(part, OpResult)
    try:
        place = place_of(part)
        quantize_of(part)
        whole = joined_before(inner.input, place, op)
        if whole is None:
            scale, axis = joined_scale(inner.input, op, make)
            whole = make(QuantizeOp, inner.input, scale, to=op.to, axis=axis)
    except Unfit:
        return None
    return with_input(inner, whole, make).results[part.index]
