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
    """What a clamp limits `value` to; None where there is no limit."""

    value: SSAValue
    low: Number | None = None
    high: Number | None = None

    def within(self, low: Number | None, high: Number | None) -> "Interval":
        """Limited once more."""
        return Interval(self.value, _inside(self.low, low, high, low),
                        _inside(self.high, low, high, high))  # fmt: skip

    @property
    def limits(self) -> list[Number]:
        return [x for x in (self.low, self.high) if x is not None]

    def plain(self) -> bool:
        """Whether low <= high, of numbers."""
        if any(math.isnan(x) for x in self.limits):
            return False
        return self.low is None or self.high is None or self.low <= self.high

    def make(self, make: Make, element: Attribute) -> SSAValue:
        """The op that limits the value to the interval."""
        if self.high is None and self.low is not None and same_number(self.low, 0.0):
            return make(a.ReluOp, self.value)
        low = None if self.low is None else make.constant(self.low, element)
        high = None if self.high is None else make.constant(self.high, element)
        return make(g.ClampOp, self.value, low, high)


def _inside(
    limit: Number | None, low: Number | None, high: Number | None, absent: Number | None
) -> Number | None:
    """A limit that is itself limited; `absent` where there was none."""
    if limit is None:
        return absent
    if low is not None and limit < low:
        return low
    return high if high is not None and limit > high else limit


def interval_of(op: object) -> Interval | None:
    """The interval that a relu or a clamp with constant limits limits its input to."""
    if isinstance(op, a.ReluOp):
        zero = 0.0 if is_float(element_type(op.input)) else 0
        return Interval(op.input, zero, None)
    if not isinstance(op, g.ClampOp):
        return None
    low = None if op.low is None else splat(op.low)
    high = None if op.high is None else splat(op.high)
    if (op.low is not None and low is None) or (op.high is not None and high is None):
        return None
    found = Interval(op.input, low, high)
    return found if found.plain() else None


@rule(a.ReluOp)
def relu_of_positive(op: a.ReluOp, make: Make) -> Replacement:
    """relu x = x where x is never negative"""
    return op.input if never_negative(op.input) else None


@rule(g.MaximumOp, g.MinimumOp)
def limit_by_constant(op: g.MaximumOp | g.MinimumOp, make: Make) -> Replacement:
    """max(x, c) is a clamp, max(x, 0) relu. (max(0.0, x) is not: which of 0.0 and -0.0 comes out
    depends on the order.)"""
    number = uniform(op.rhs, op.lhs)
    return limited(op, op.lhs, number, make)


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
    """The value limited by a number, None unless there is one that is no nan."""
    if number is None or math.isnan(number):
        return None
    is_low = isinstance(op, g.MaximumOp)
    interval = Interval(value, number) if is_low else Interval(value, None, number)
    return interval.make(make, element_type(value))


def joined(op: g.ClampOp | a.ReluOp) -> Interval | None:
    """The one interval of two limitations, one after the other."""
    outer, inner = interval_of(op), interval_of(op.input.owner)
    if outer is None or inner is None:
        return None
    return inner.within(outer.low, outer.high)


@rule(g.ClampOp, a.ReluOp)
def clamp_twice(op: g.ClampOp | a.ReluOp, make: Make) -> Replacement:
    """Two limitations are one. (With a limit of 0 the sign of zero may differ.)"""
    found = joined(op)
    if found is None or (is_float(element_type(op.input)) and 0 in found.limits):
        return None
    return found.make(make, element_type(op.input))


@rule(g.ClampOp, a.ReluOp, exact=False)
def clamp_at_zero(op: g.ClampOp | a.ReluOp, make: Make) -> Replacement:
    """min(relu x, 6) is one limitation"""
    found = joined(op)
    return None if found is None else found.make(make, element_type(op.input))


@rule(g.ClampOp)
def clamp_above_zero(op: g.ClampOp, make: Make) -> Replacement:
    """A clamp whose only limit is a lower one of 0 is relu."""
    found = interval_of(op)
    if found is None or found.high is not None or found.low is None:
        return None
    zero = 0.0 if is_float(element_type(op.input)) else 0
    return make(a.ReluOp, op.input) if same_number(found.low, zero) else None


@rule(g.ClampOp)
def drop_infinite_limit(op: g.ClampOp, make: Make) -> Replacement:
    """Infinite limits do not limit."""
    found = interval_of(op)
    if found is None or not any(math.isinf(x) for x in found.limits):
        return None
    low = None if found.low == -math.inf else found.low
    high = None if found.high == math.inf else found.high
    if (low, high) == (found.low, found.high):
        return None
    return Interval(op.input, low, high).make(make, element_type(op.input))
