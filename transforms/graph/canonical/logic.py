"""Truth values, comparisons and choices in their simplest form; limits (maximum, minimum, relu,
clamp) joined to one interval; chains of conversions, and rounding of whole numbers.
"""

import math
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.support.parameters import Number, holds, is_splat, same_number, splat
from ge.dialects.support.element_types import bitwidth, is_float, is_integer
from ge.dialects.support.types import element_type, is_static, shape_of
from ge.transforms.graph.canonical.local import (
    Replacement,
    is_whole,
    never_negative,
    rule,
    uniform,
)
from ge.transforms.rewriting.building import Make

OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def of_truth_values(value: SSAValue) -> bool:
    return element_type(value) == i1


# ---- comparisons -------------------------------------------------------------------------------


@rule(g.NotOp)
def not_compared(op: g.NotOp, make: Make) -> Replacement:
    """not (x == y) = (x != y); not (x < y) = (x >= y) where there is no nan"""
    inner = op.input.owner
    if not isinstance(inner, g.CompareOp):
        return None
    predicate = inner.predicate.data
    if predicate not in ("eq", "ne") and is_float(element_type(inner.lhs)):
        return None
    return make(g.CompareOp, inner.lhs, inner.rhs, predicate=OPPOSITE[predicate])


@rule(g.CompareOp)
def compare_with_itself(op: g.CompareOp, make: Make) -> Replacement:
    """x != x = is_nan x; x == x, x <= x and x >= x the opposite; x < x and x > x never"""
    if op.lhs is not op.rhs or not is_float(element_type(op.lhs)):
        return None
    predicate, shape = op.predicate.data, shape_of(op.lhs)
    if predicate in ("lt", "gt"):
        return make.splat(0, i1, shape) if is_static(shape) else None
    nan = make(g.IsNanOp, op.lhs)
    return nan if predicate == "ne" else make(g.NotOp, nan)


# Comparisons of a boolean, as 0 or 1, with a number that give it (True) or its negation.
TRUTH_OF: dict[tuple[str, Number], bool] = {
    ("eq", 1): True, ("ge", 1): True, ("ne", 0): True, ("gt", 0): True,
    ("ne", 1): False, ("lt", 1): False, ("eq", 0): False, ("le", 0): False,
}  # fmt: skip


@rule(g.CompareOp)
def compare_truth_value(op: g.CompareOp, make: Make) -> Replacement:
    """b == 1 = b, b == 0 = not b, also where b was converted to numbers"""
    number, value = uniform(op.rhs, op.lhs), op.lhs
    if number is None:
        return None
    if isinstance(value.owner, g.CastOp):
        value = value.owner.input
    if not of_truth_values(value) or (op.predicate.data, number) not in TRUTH_OF:
        return None
    return value if TRUTH_OF[op.predicate.data, number] else make(g.NotOp, value)


@rule(g.CastOp)
def cast_choice_to_truth(op: g.CastOp, make: Make) -> Replacement:
    """The truth of select(c, 1, 0) is c, that of select(c, 0, 1) not c."""
    choice = op.input.owner
    if op.to != i1 or not isinstance(choice, g.SelectOp):
        return None
    yes, no = splat(choice.on_true), splat(choice.on_false)
    if yes is None or no is None or choice.condition.type != op.result.type:
        return None
    if bool(yes) == bool(no):
        return None
    return choice.condition if yes else make(g.NotOp, choice.condition)


# ---- and, or, xor ------------------------------------------------------------------------------


@rule(g.XorOp)
def flip_all(op: g.XorOp, make: Make) -> Replacement:
    """x ^ true = not x"""
    for value, other in op.sides():
        number = uniform(other, value)
        if number is not None and number in ((1,) if of_truth_values(value) else (-1,)):
            return make(g.NotOp, value)
    return None


@rule(g.AndOp, g.OrOp)
def and_again(op: g.AndOp | g.OrOp, make: Make) -> Replacement:
    """x & (x & y) = x & y; x & (x | y) = x; the same with "or" and "and" exchanged"""
    for value, other in op.sides():
        inner = other.owner
        if not isinstance(inner, g.AndOp | g.OrOp) or value not in inner.operands:
            continue
        result = other if type(inner) is type(op) else value
        if result.type == op.result.type:
            return result
    return None


# ---- choices -----------------------------------------------------------------------------------


@rule(g.SelectOp)
def choice_known(op: g.SelectOp, make: Make) -> Replacement:
    """A choice that is made, of something that the others broadcast."""
    known, shape = splat(op.condition), shape_of(op.result)
    if known is None or not is_static(shape):
        return None
    return make(g.BroadcastToOp, op.on_true if known else op.on_false, shape=shape)


@rule(g.SelectOp)
def choice_of_negated(op: g.SelectOp, make: Make) -> Replacement:
    """select(not c, x, y) = select(c, y, x)"""
    if isinstance(inner := op.condition.owner, g.NotOp):
        return make(g.SelectOp, inner.input, op.on_false, op.on_true)
    return None


@rule(g.SelectOp)
def choice_of_truth(op: g.SelectOp, make: Make) -> Replacement:
    """select(c, true, x) = c | x, select(c, x, false) = c & x, select(c, false, true) = not c"""
    if not of_truth_values(op.on_true):
        return None
    if is_splat(op.on_true, 1):
        return make(g.OrOp, op.condition, op.on_false)
    if is_splat(op.on_false, 0):
        return make(g.AndOp, op.condition, op.on_true)
    if is_splat(op.on_true, 0) and is_splat(op.on_false, 1):
        return make(g.NotOp, op.condition)
    return None


@rule(g.SelectOp)
def choice_again(op: g.SelectOp, make: Make) -> Replacement:
    """select(c, select(c, x, y), z) = select(c, x, z), and for the other branch"""
    yes, no = op.on_true.owner, op.on_false.owner
    if isinstance(yes, g.SelectOp) and yes.condition is op.condition:
        return make(g.SelectOp, op.condition, yes.on_true, op.on_false)
    if isinstance(no, g.SelectOp) and no.condition is op.condition:
        return make(g.SelectOp, op.condition, op.on_true, no.on_false)
    return None


@rule(g.IsNanOp)
def never_nan(op: g.IsNanOp, make: Make) -> Replacement:
    """A value cast from integers is never nan."""
    inner, shape = op.input.owner, shape_of(op.input)
    if not isinstance(inner, g.CastOp) or not is_static(shape):
        return None
    source = element_type(inner.input)
    return make.splat(0, i1, shape) if source == i1 or is_integer(source) else None


@dataclass(frozen=True)
class Interval:
    """The limits that a clamp sets to `value`, None without limit."""

    value: SSAValue
    low: Number | None = None
    high: Number | None = None

    def within(self, low: Number | None, high: Number | None) -> "Interval":
        inside = [
            absent if limit is None else _clamped(limit, low, high)
            for limit, absent in ((self.low, low), (self.high, high))
        ]
        return Interval(self.value, *inside)

    @property
    def limits(self) -> list[Number]:
        return [x for x in (self.low, self.high) if x is not None]

    def is_valid(self) -> bool:
        """Return whether low <= high and neither is nan."""
        return sorted(self.limits) == self.limits and not any(map(math.isnan, self.limits))

    def make(self, make: Make, element: Attribute) -> SSAValue:
        if self.high is None and self.low is not None and same_number(self.low, 0.0):
            return make(g.ReluOp, self.value)
        low = None if self.low is None else make.splat(self.low, element)
        high = None if self.high is None else make.splat(self.high, element)
        return make(g.ClampOp, self.value, low, high)


def _clamped(limit: Number, low: Number | None, high: Number | None) -> Number:
    if low is not None and limit < low:
        return low
    return high if high is not None and limit > high else limit


def interval_of(op: object) -> Interval | None:
    """The interval of a relu, or of a clamp with constant limits."""
    if isinstance(op, g.ReluOp):
        return Interval(op.input, zero_of(op.input))
    if not isinstance(op, g.ClampOp):
        return None
    low = None if op.low is None else splat(op.low)
    high = None if op.high is None else splat(op.high)
    if (op.low is not None and low is None) or (op.high is not None and high is None):
        return None
    interval = Interval(op.input, low, high)
    return interval if interval.is_valid() else None


def zero_of(value: SSAValue) -> Number:
    return 0.0 if is_float(element_type(value)) else 0


@rule(g.ReluOp)
def relu_of_positive(op: g.ReluOp, make: Make) -> Replacement:
    """relu x = x where x is never negative"""
    return op.input if never_negative(op.input) else None


@rule(g.MaximumOp, g.MinimumOp)
def limit_by_constant(op: g.MaximumOp | g.MinimumOp, make: Make) -> Replacement:
    """max(x, c) is a clamp, max(x, 0) relu. (max(0.0, x) is not: which of 0.0 and -0.0 comes out
    depends on the order.)"""
    return limited(op, op.lhs, uniform(op.rhs, op.lhs), make)


@rule(g.MaximumOp, g.MinimumOp)
def limit_constant(op: g.MaximumOp | g.MinimumOp, make: Make) -> Replacement:
    """max(c, x) is a clamp if c is not zero"""
    return limited(op, op.rhs, uniform(op.lhs, op.rhs) or None, make)


@rule(g.MaximumOp, g.MinimumOp, exact=False)
def limit_zero(op: g.MaximumOp | g.MinimumOp, make: Make) -> Replacement:
    """max(0, x) = relu x"""
    return limited(op, op.rhs, uniform(op.lhs, op.rhs), make)


def limited(
    op: g.MaximumOp | g.MinimumOp, value: SSAValue, number: Number | None, make: Make
) -> Replacement:
    """The value limited by a number, if there is one and it is not nan."""
    if number is None or math.isnan(number):
        return None
    is_low = isinstance(op, g.MaximumOp)
    interval = Interval(value, number) if is_low else Interval(value, None, number)
    return interval.make(make, element_type(value))


def joined(op: g.ClampOp | g.ReluOp) -> Interval | None:
    outer, inner = interval_of(op), interval_of(op.input.owner)
    if outer is None or inner is None:
        return None
    return inner.within(outer.low, outer.high)


@rule(g.ClampOp, g.ReluOp)
def clamp_twice(op: g.ClampOp | g.ReluOp, make: Make) -> Replacement:
    """Two limitations are one. (With a limit of 0 the sign of zero may differ.)"""
    interval, element = joined(op), element_type(op.input)
    if interval is None or (is_float(element) and 0 in interval.limits):
        return None
    return interval.make(make, element)


@rule(g.ClampOp, g.ReluOp, exact=False)
def clamp_at_zero(op: g.ClampOp | g.ReluOp, make: Make) -> Replacement:
    """min(relu x, 6) is one limitation"""
    interval = joined(op)
    return None if interval is None else interval.make(make, element_type(op.input))


@rule(g.ClampOp)
def clamp_above_zero(op: g.ClampOp, make: Make) -> Replacement:
    """A clamp whose only limit is a lower one of 0 is relu."""
    interval = interval_of(op)
    if interval is None or interval.high is not None or interval.low is None:
        return None
    return make(g.ReluOp, op.input) if same_number(interval.low, zero_of(op.input)) else None


@rule(g.ClampOp)
def drop_infinite_limit(op: g.ClampOp, make: Make) -> Replacement:
    """Infinite limits do not limit."""
    if (interval := interval_of(op)) is None:
        return None
    low = None if interval.low == -math.inf else interval.low
    high = None if interval.high == math.inf else interval.high
    if (low, high) == (interval.low, interval.high):
        return None
    return Interval(op.input, low, high).make(make, element_type(op.input))


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
    """Zeros and ones are written in the type that they would be converted to."""
    fill, to = op.input.owner, op.to
    if not isinstance(fill, g.FillOp) or bitwidth(to) < 8:
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
    return make(g.FillOp, fill.shape_value, shape=fill.shape, value=value)


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
