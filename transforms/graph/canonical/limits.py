"""Maximum, minimum, relu and clamp: limits joined to one interval."""

import math
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.support.folding import Number, same_number, splat
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import element_type
from ge.transforms.graph.canonical.facts import never_negative, uniform
from ge.transforms.graph.canonical.local import Make, Replacement, rule


@dataclass(frozen=True)
class Interval:
    """What a clamp limits `value` to, None without limit."""

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
        """Whether low <= high, and neither is nan."""
        return sorted(self.limits) == self.limits and not any(map(math.isnan, self.limits))

    def make(self, make: Make, element: Attribute) -> SSAValue:
        if self.high is None and self.low is not None and same_number(self.low, 0.0):
            return make(a.ReluOp, self.value)
        low = None if self.low is None else make.constant(self.low, element)
        high = None if self.high is None else make.constant(self.high, element)
        return make(g.ClampOp, self.value, low, high)


def _clamped(limit: Number, low: Number | None, high: Number | None) -> Number:
    if low is not None and limit < low:
        return low
    return high if high is not None and limit > high else limit


def interval_of(op: object) -> Interval | None:
    """The interval of a relu, or of a clamp with constant limits."""
    if isinstance(op, a.ReluOp):
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


@rule(a.ReluOp)
def relu_of_positive(op: a.ReluOp, make: Make) -> Replacement:
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


def joined(op: g.ClampOp | a.ReluOp) -> Interval | None:
    outer, inner = interval_of(op), interval_of(op.input.owner)
    if outer is None or inner is None:
        return None
    return inner.within(outer.low, outer.high)


@rule(g.ClampOp, a.ReluOp)
def clamp_twice(op: g.ClampOp | a.ReluOp, make: Make) -> Replacement:
    """Two limitations are one. (With a limit of 0 the sign of zero may differ.)"""
    interval, element = joined(op), element_type(op.input)
    if interval is None or (is_float(element) and 0 in interval.limits):
        return None
    return interval.make(make, element)


@rule(g.ClampOp, a.ReluOp, exact=False)
def clamp_at_zero(op: g.ClampOp | a.ReluOp, make: Make) -> Replacement:
    """min(relu x, 6) is one limitation"""
    interval = joined(op)
    return None if interval is None else interval.make(make, element_type(op.input))


@rule(g.ClampOp)
def clamp_above_zero(op: g.ClampOp, make: Make) -> Replacement:
    """A clamp whose only limit is a lower one of 0 is relu."""
    interval = interval_of(op)
    if interval is None or interval.high is not None or interval.low is None:
        return None
    return make(a.ReluOp, op.input) if same_number(interval.low, zero_of(op.input)) else None


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
