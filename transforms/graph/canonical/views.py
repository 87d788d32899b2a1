"""Reshape, squeeze and unsqueeze: chains of them are one reshape, to a shape in plain numbers."""

from xdsl.ir import SSAValue

from ge.dialects.graph.shape import ReshapeOp, SqueezeOp, UnsqueezeOp, View
from ge.dialects.graph.support.parameters import partial_ints
from ge.dialects.support.types import DYNAMIC, Shape, array_ints, normalize_axis, rank_of, shape_of
from ge.transforms.graph.canonical.local import Make, Replacement, rule


def target(shape: Shape) -> list[int] | None:
    """The reshape target of this shape, in which one unknown dimension follows from the others."""
    unknown = shape.count(DYNAMIC)
    if unknown > 1 or (unknown and 0 in shape):
        return None
    return [-1 if d == DYNAMIC else d for d in shape]


def reshaped(make: Make, value: SSAValue, shape: Shape) -> SSAValue | None:
    """`value` under another shape (itself if it has that), None if more than one dimension is
    unknown."""
    if (dims := target(shape)) is None:
        return None
    if shape_of(value) == shape:
        return value
    return make(ReshapeOp, value, shape=dims, allow_zero=0 in dims)


@rule(ReshapeOp, SqueezeOp, UnsqueezeOp, below=(View,))
def view_of_view(op: View, make: Make) -> Replacement:
    """Only the last shape counts."""
    inner = op.input.owner
    if not isinstance(inner, View):
        return None
    if op.result.type == inner.input.type and undoes(op, inner):
        return inner.input
    if (new := reshaped(make, inner.input, shape_of(op.result))) is not None:
        return new
    if isinstance(op, ReshapeOp) and op.shape_value is not None and never_copies(op):
        return make(ReshapeOp, inner.input, op.shape_value, allow_zero=op.allow_zero)
    return None


def undoes(op: View, inner: View) -> bool:
    """Whether the ops are squeeze and unsqueeze of the same axes."""
    if {type(op), type(inner)} != {SqueezeOp, UnsqueezeOp}:
        return False
    a, b = op.ints("axes"), inner.ints("axes")
    rank = max(rank_of(op.input), rank_of(op.result))
    if a is None or b is None:
        return False
    return {normalize_axis(i, rank) for i in a} == {normalize_axis(i, rank) for i in b}


def never_copies(op: ReshapeOp) -> bool:
    """Whether no 0 in the shape stands for a dimension of the input."""
    known = partial_ints(op, "shape")
    return bool(op.allow_zero.value.data) or (known is not None and all(known))


@rule(ReshapeOp)
def plain_shape(op: ReshapeOp, make: Make) -> Replacement:
    """The shape without 0 and -1 where it is known, so that equal reshapes look equal."""
    dims = target(shape_of(op.result))
    if op.shape is None or dims is None:
        return None
    if list(array_ints(op.shape)) == dims and bool(op.allow_zero.value.data) == (0 in dims):
        return None
    return make(ReshapeOp, op.input, shape=dims, allow_zero=0 in dims)
