"""Reshape, squeeze and unsqueeze: chains of them are one reshape, to a shape in plain numbers."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ge.dialects.graph.shape import ReshapeOp, SqueezeOp, UnsqueezeOp, View
from ge.dialects.graph.support.parameters import partial_ints
from ge.dialects.support.types import DYNAMIC, Shape, array_ints, normalize_axis, rank_of, shape_of
from ge.transforms.graph.canonical.local import Make, Replacement, rule


def target(shape: Shape) -> list[int] | None:
    """The parameter with which reshape gives this shape: one unknown dimension follows from the
    others, None where more are unknown."""
    unknown = shape.count(DYNAMIC)
    if unknown > 1 or (unknown and 0 in shape):
        return None
    return [-1 if d == DYNAMIC else d for d in shape]


def reshaped(make: Make, value: SSAValue, shape: Shape) -> SSAValue | None:
    """`value` under another shape (itself if it has that), None if that cannot be said."""
    if (wanted := target(shape)) is None:
        return None
    if shape_of(value) == shape:
        return value
    return make(ReshapeOp, value, shape=wanted, allow_zero=0 in wanted)


@rule(ReshapeOp, SqueezeOp, UnsqueezeOp)
def view_of_view(op: View, make: Make) -> Replacement:
    """Only the last shape counts."""
    inner = op.input.owner
    if not isinstance(inner, View):
        return None
    if op.result.type == inner.input.type and undoes(op, inner):
        return inner.input
    if (made := reshaped(make, inner.input, shape_of(op.result))) is not None:
        return made
    if isinstance(op, ReshapeOp) and op.shape_value is not None and never_copies(op):
        return make(ReshapeOp, inner.input, op.shape_value, allow_zero=op.allow_zero)
    return None


def undoes(op: View, inner: View) -> bool:
    """Whether squeeze and unsqueeze of the same axes follow each other."""
    pairs = ((SqueezeOp, UnsqueezeOp), (UnsqueezeOp, SqueezeOp))
    if not any(isinstance(op, a) and isinstance(inner, b) for a, b in pairs):
        return False
    a, b = op.ints("axes"), inner.ints("axes")
    rank = max(rank_of(op.input), rank_of(op.result))
    return a is not None and b is not None and absolute(a, rank) == absolute(b, rank)


def absolute(axes: Sequence[int], rank: int) -> list[int]:
    return sorted(normalize_axis(a, rank) for a in axes)


def never_copies(op: ReshapeOp) -> bool:
    """Whether no 0 in the shape stands for a dimension of the input."""
    if op.allow_zero.value.data:
        return True
    known = partial_ints(op, "shape")
    return known is not None and all(d is not None and d != 0 for d in known)


@rule(ReshapeOp)
def plain_shape(op: ReshapeOp, make: Make) -> Replacement:
    """The shape without 0 and -1 where it is known, so that equal reshapes look equal."""
    wanted = target(shape_of(op.result))
    if op.shape is None or wanted is None:
        return None
    if list(array_ints(op.shape)) == wanted and bool(op.allow_zero.value.data) == (0 in wanted):
        return None
    return make(ReshapeOp, op.input, shape=wanted, allow_zero=0 in wanted)
