"""Chains of conversions, and rounding of what is whole."""

from typing import cast

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.support.folding import holds
from ge.dialects.support.element_types import bitwidth, is_integer
from ge.dialects.support.types import element_type
from ge.transforms.graph.canonical.facts import is_whole
from ge.transforms.graph.canonical.local import Make, Replacement, rule


@rule(g.CastOp)
def cast_through_wider(op: g.CastOp, make: Make) -> Replacement:
    """f16 -> f32 -> i8 is f16 -> i8: the type between holds every value."""
    inner = op.input.owner
    if (
        isinstance(inner, g.CastOp)
        and holds(inner.to, element_type(inner.input))
        and not inner.saturate.value.data
    ):
        return make(g.CastOp, inner.input, **op.properties)
    return None


@rule(g.CastOp)
def cast_narrower_twice(op: g.CastOp, make: Make) -> Replacement:
    """i64 -> i32 -> i16 is i64 -> i16: integers wrap around."""
    inner = op.input.owner
    if not isinstance(inner, g.CastOp):
        return None
    kinds = (element_type(inner.input), inner.to, op.to)
    if not all(is_integer(t) for t in kinds) or bitwidth(op.to) > bitwidth(inner.to):
        return None
    return make(g.CastOp, inner.input, to=op.to)


@rule(g.CastOp)
def cast_filled(op: g.CastOp, make: Make) -> Replacement:
    """Zeros and ones are written as what they would be converted to."""
    fill, to = op.input.owner, op.to
    if not isinstance(fill, FillOp) or bitwidth(to) < 8:
        return None
    number = fill.value.value.data
    if number not in (0, 1) or str(number).startswith("-"):
        return None
    if is_integer(to):
        value = IntegerAttr(int(number), cast(IntegerType, to))
    elif bitwidth(to) > 8:  # those of 8 bits need not have a zero
        value = FloatAttr(float(number), cast(AnyFloat, to))
    else:
        return None
    return make(FillOp, fill.shape_value, shape=fill.shape, value=value)


@rule(g.BitcastOp)
def bitcast_twice(op: g.BitcastOp, make: Make) -> Replacement:
    """One look at the bits is enough."""
    if isinstance(inner := op.input.owner, g.BitcastOp):
        return make(g.BitcastOp, inner.input, to=op.to)
    return None


@rule(g.FloorOp, g.CeilOp, g.RoundOp)
def round_whole(op: g.FloorOp | g.CeilOp | g.RoundOp, make: Make) -> Replacement:
    """Whole numbers are rounded already."""
    return op.input if is_whole(op.input) else None
