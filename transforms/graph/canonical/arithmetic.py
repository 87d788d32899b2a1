"""Sums, products, powers and reductions in their simplest form."""

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.reduction import ReduceOp, reduced_shape
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.support.folding import is_unsigned, same_number, splat
from ge.dialects.support.element_types import is_float, is_integer
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of
from ge.transforms.graph.canonical.facts import (
    exact_reciprocal,
    is_constant,
    never_negative,
    never_negative_zero,
    uniform,
)
from ge.transforms.graph.canonical.local import Make, Replacement, rule

# ---- signs -------------------------------------------------------------------------------------


def negated(value: SSAValue) -> SSAValue | None:
    """x, if the value is -x and x no constant."""
    op = value.owner
    return op.input if isinstance(op, g.NegOp) and not is_constant(op.input) else None


@rule(g.AddOp)
def add_negated(op: g.AddOp, make: Make) -> Replacement:
    """x + (-y) = x - y"""
    for value, other in op.sides():
        if (y := negated(other)) is not None:
            return make(g.SubOp, value, y)
    return None


@rule(g.SubOp)
def subtract_negated(op: g.SubOp, make: Make) -> Replacement:
    """x - (-y) = x + y"""
    y = negated(op.rhs)
    return None if y is None else make(g.AddOp, op.lhs, y)


@rule(g.SubOp)
def subtract_constant(op: g.SubOp, make: Make) -> Replacement:
    """x - c = x + (-c)"""
    if is_constant(op.rhs) and not is_constant(op.lhs) and is_float(element_type(op.lhs)):
        return make(g.AddOp, op.lhs, make(g.NegOp, op.rhs))
    return None


@rule(g.SubOp)
def subtract_from_zero(op: g.SubOp, make: Make) -> Replacement:
    """-0.0 - x = -x, of integers 0 - x = -x"""
    number, zero = uniform(op.lhs, op.rhs), -0.0 if is_float(element_type(op.lhs)) else 0
    return None if number is None or not same_number(number, zero) else make(g.NegOp, op.rhs)


@rule(g.AddOp)
def add_zero(op: g.AddOp, make: Make) -> Replacement:
    """x + 0.0 = x where x is never -0.0"""
    for value, other in op.sides():
        if uniform(other, value) == 0 and value.type == op.result.type:
            if never_negative_zero(value):
                return value
    return None


@rule(g.MulOp, g.DivOp)
def negate_both(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """(-x) * (-y) = x * y, and with a constant (-x) * c = x * (-c)"""
    x, y = negated(op.lhs), negated(op.rhs)
    if isinstance(op, g.DivOp) and is_integer(element_type(op.lhs)):
        return None  # the lowest integer is its own opposite
    if x is not None and y is not None:
        return make(type(op), x, y)
    if x is not None and is_constant(op.rhs):
        return make(type(op), x, make(g.NegOp, op.rhs))
    if y is not None and is_constant(op.lhs):
        return make(type(op), make(g.NegOp, op.lhs), y)
    return None


@rule(g.NegOp)
def negate_product(op: g.NegOp, make: Make) -> Replacement:
    """-(x * c) = x * (-c), -(x / c) = x / (-c)"""
    inner = op.input.owner
    if not isinstance(inner, g.MulOp | g.DivOp) or not op.input.has_one_use():
        return None
    if isinstance(inner, g.DivOp) and not is_float(element_type(op.input)):
        return None
    if is_constant(inner.rhs):
        return make(type(inner), inner.lhs, make(g.NegOp, inner.rhs))
    if is_constant(inner.lhs):
        return make(type(inner), make(g.NegOp, inner.lhs), inner.rhs)
    return None


@rule(g.NegOp)
def negate_difference(op: g.NegOp, make: Make) -> Replacement:
    """-(x - y) = y - x of integers (of floats the sign of zero differs)"""
    inner = op.input.owner
    if isinstance(inner, g.SubOp) and is_integer(element_type(op.input)):
        return make(g.SubOp, inner.rhs, inner.lhs)
    return None


@rule(g.MulOp, g.DivOp)
def times_minus_one(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """x * -1 = x / -1 = -x"""
    if is_integer(element_type(op.lhs)):
        return None
    for value, other in op.sides():
        if uniform(other, value) == -1:
            return make(g.NegOp, value)
    return None


@rule(g.AbsOp)
def absolute(op: g.AbsOp, make: Make) -> Replacement:
    """|-x| = |x|; |x| = x where x is never negative"""
    if isinstance(inner := op.input.owner, g.NegOp) and not is_unsigned(element_type(op.input)):
        return make(g.AbsOp, inner.input)
    return op.input if never_negative(op.input) else None


@rule(g.MulOp)
def square_of_absolute(op: g.MulOp, make: Make) -> Replacement:
    """|x| * |x| = x * x"""
    if op.lhs is op.rhs and isinstance(inner := op.lhs.owner, g.AbsOp):
        return make(g.MulOp, inner.input, inner.input)
    return None


# ---- quotients and powers ----------------------------------------------------------------------


@rule(g.DivOp)
def divide_by_power_of_two(op: g.DivOp, make: Make) -> Replacement:
    """x / 2^n = x * 2^-n, which is exact; of unsigned integers a shift"""
    number, element = splat(op.rhs), element_type(op.rhs)
    if number is None:
        return None
    if (factor := exact_reciprocal(number, element)) is not None:
        return make(g.MulOp, op.lhs, make.constant(factor, element, shape_of(op.rhs)))
    if is_unsigned(element) and number > 0 and int(number).bit_count() == 1:
        places = make.constant(int(number).bit_length() - 1, element, shape_of(op.rhs))
        return make(g.ShiftOp, op.lhs, places, direction="right")
    return None


@rule(g.DivOp)
def one_over(op: g.DivOp, make: Make) -> Replacement:
    """1 / x = reciprocal x"""
    if uniform(op.lhs, op.rhs) == 1 and is_float(element_type(op.rhs)):
        return make(g.ReciprocalOp, op.rhs)
    return None


@rule(g.ModOp)
def remainder_of_power_of_two(op: g.ModOp, make: Make) -> Replacement:
    """x mod 2^n = x & (2^n - 1) of integers, with the sign of the divisor"""
    number, element = splat(op.rhs), element_type(op.rhs)
    if number is None or not is_integer(element) or number <= 0 or int(number).bit_count() != 1:
        return None
    if op.fmod.value.data and not is_unsigned(element):
        return None
    return make(g.AndOp, op.lhs, make.constant(int(number) - 1, element, shape_of(op.rhs)))


@rule(g.PowOp)
def small_power(op: g.PowOp, make: Make) -> Replacement:
    """x ** 2 = x * x, x ** 3 = x * (x * x), as the kernel computes them; x ** 0 = 1"""
    exponent = uniform(op.rhs, op.lhs)
    if exponent == 0 and is_static(shape_of(op.lhs)):
        return make.constant(1, element_type(op.lhs), shape_of(op.lhs))
    if exponent not in (2, 3) or numel(shape_of(op.rhs)) != 1:
        return None
    square = make(g.MulOp, op.lhs, op.lhs)
    return square if exponent == 2 else make(g.MulOp, op.lhs, square)


@rule(g.PowOp, exact=False)
def root_as_power(op: g.PowOp, make: Make) -> Replacement:
    """x ** -1 = 1 / x; where x is never negative x ** 0.5 = sqrt x, x ** -0.5 = 1 / sqrt x"""
    exponent = uniform(op.rhs, op.lhs) if is_float(element_type(op.lhs)) else None
    if exponent == -1:
        return make(g.ReciprocalOp, op.lhs)
    if exponent not in (0.5, -0.5) or not never_negative(op.lhs):
        return None
    root = make(g.SqrtOp, op.lhs)
    return root if exponent == 0.5 else make(g.ReciprocalOp, root)


# ---- reductions --------------------------------------------------------------------------------

KEEPS_ONE = ("max", "min", "prod")  # kinds whose result for one element is that element
ADDS = ("sum", "mean")  # the same but for -0.0, whose result is 0.0
COMPOSES = ("sum", *KEEPS_ONE)  # kinds that may reduce some axes first and others then


@rule(ReduceOp)
def reduce_one(op: ReduceOp, make: Make) -> Replacement:
    """The reduction of single elements is a reshape."""
    whole = is_integer(element_type(op.input))
    kinds = (*KEEPS_ONE, *ADDS) if whole else KEEPS_ONE
    return as_reshape(op, make) if op.kind.data in kinds else None


@rule(ReduceOp, exact=False)
def add_one(op: ReduceOp, make: Make) -> Replacement:
    """The same for the sum and the mean of a single float"""
    return as_reshape(op, make) if op.kind.data in ADDS else None


def as_reshape(op: ReduceOp, make: Make) -> Replacement:
    """The reshape that a reduction over dimensions of size 1 is."""
    axes, shape = op.reduced_axes(), shape_of(op.input)
    if axes is None or any(shape[i] != 1 for i in axes):
        return None
    result = reduced_shape(shape, axes, bool(op.keep_dims.value.data))
    if op.input.type == op.result.type:
        return op.input
    return make(ReshapeOp, op.input, shape=result) if is_static(result) else None


def join_reductions(op: ReduceOp, make: Make) -> Replacement:
    """One reduction for two of the same kind in a row."""
    inner = op.input.owner
    if not isinstance(inner, ReduceOp) or inner.kind != op.kind or not op.input.has_one_use():
        return None
    first, then = inner.reduced_axes(), op.reduced_axes()
    if first is None or then is None or inner.keep_dims != op.keep_dims:
        return None
    if not op.keep_dims.value.data:
        left = [i for i in range(rank_of(inner.input)) if i not in first]
        then = tuple(left[i] for i in then)
    axes = sorted({*first, *then})
    params = {**op.properties, "axes": axes}
    return make(ReduceOp, inner.input, **params) if axes else None


@rule(ReduceOp)
def reduce_twice(op: ReduceOp, make: Make) -> Replacement:
    """max(max(x, axis 1), axis 2) = max(x, axes 1 and 2), of integers"""
    whole = is_integer(element_type(op.input))
    return join_reductions(op, make) if whole and op.kind.data in COMPOSES else None


@rule(ReduceOp, exact=False)
def sum_twice(op: ReduceOp, make: Make) -> Replacement:
    """The same of floats, in another order"""
    floats = is_float(element_type(op.input))
    return join_reductions(op, make) if floats and op.kind.data in (*COMPOSES, "mean") else None


@rule(g.DivOp, g.MulOp)
def sum_over_count(op: g.DivOp | g.MulOp, make: Make) -> Replacement:
    """sum / n = mean, as the kernel computes it"""
    for value, other in op.sides():
        total, number = value.owner, uniform(other, value)
        if not isinstance(total, ReduceOp) or not number or not value.has_one_use():
            continue
        element, shape, axes = element_type(value), shape_of(total.input), total.reduced_axes()
        if total.kind.data != "sum" or element not in (f32, f64) or axes is None:
            continue
        if not is_static(shape):
            continue
        count = numel(tuple(shape[i] for i in axes))
        if number == (count if isinstance(op, g.DivOp) else exact_reciprocal(count, element)):
            params = {"kind": "mean", "axes": axes, "keep_dims": total.keep_dims}
            return make(ReduceOp, total.input, **params)
    return None
