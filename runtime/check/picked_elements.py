"""Which elements ops pick by constant indices, and whether they count along an axis of the result.

    graph.gather_nd %mask, dense<[[[0, 0], [0, 1]], [[1, 0], [1, 1]]]> : tensor<2x2xi1>

names elements 0, 1, 0, 1 along axis 1 of the mask, at 2x2 places: they follow axis 1 of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ge.dialects.graph.indexing import GatherNdOp, GatherOp, Picking
from ge.dialects.support.types import Dense, Shape, numel, shape_of
from ge.runtime.check.moved_axes import Digit, Key


@dataclass(frozen=True, slots=True)
class Picked:
    """The indices along an axis of the input, one for each place in row-major order; `first` is the
    axis of the result that is the first one of `places`."""

    elements: Sequence[int]
    places: Shape
    first: int


def picked_elements(op: Picking, axis: int, indices: Dense) -> Picked:
    """What constant indices say of one of the axes that they are along."""
    shape = shape_of(op.indices)
    elements = [int(n) for n in indices.get_values()]
    if len(elements) == 1:  # stored once
        elements *= numel(shape)
    if isinstance(op, GatherNdOp):
        depth = axis - op.batch_dims.value.data
        return Picked(elements[depth :: shape[-1]], shape[:-1], 0)
    return Picked(elements, shape, axis if isinstance(op, GatherOp) else 0)


def followed(numbers: Sequence[int], picked: Picked, count: int) -> Key | None:
    """The digit of an axis of the result that `numbers` are at each place, where it goes through
    all of `count` of them again and again to the end of the axis."""
    stride = numel(picked.places)
    for axis, size in enumerate(picked.places):
        stride //= max(size, 1)
        line = numbers[: stride * size : max(stride, 1)]
        unit = next((i for i, n in enumerate(line) if n == 1), 0)
        if not unit or size % (unit * count):
            continue
        if all(n == at // stride % size // unit % count for at, n in enumerate(numbers)):
            return picked.first + axis, Digit(unit, count)
    return None
