"""Sums, products, powers and reductions in their simplest form.

Two constants in a row become one: of integers this is exact, of floats it rounds in another place.
Pooling by a window over the whole image is a reduction.
"""

import numpy as np
from xdsl.dialects.builtin import f16, f32, f64
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.reduction import reduced_shape
from ge.dialects.graph.support.parameters import is_unsigned, same_number, splat
from ge.dialects.support.element_types import is_float, is_integer
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    constant_value,
    element_type,
    is_static,
    numel,
    rank_of,
    shape_of,
)
from ge.runtime.data.arrays import array_of
from ge.transforms.graph.canonical.local import (
    Replacement,
    exact_reciprocal,
    is_constant,
    never_negative,
    never_negative_zero,
    normal,
    rule,
    uniform,
    with_constant,
)
from ge.transforms.rewriting.building import Make

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
        return make(g.MulOp, op.lhs, make.splat(factor, element, shape_of(op.rhs)))
    if is_unsigned(element) and number > 0 and int(number).bit_count() == 1:
        places = make.splat(int(number).bit_length() - 1, element, shape_of(op.rhs))
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
    return make(g.AndOp, op.lhs, make.splat(int(number) - 1, element, shape_of(op.rhs)))


@rule(g.PowOp)
def small_power(op: g.PowOp, make: Make) -> Replacement:
    """x ** 2 = x * x, x ** 3 = x * (x * x), as the kernel computes them; x ** 0 = 1"""
    exponent = uniform(op.rhs, op.lhs)
    if exponent == 0 and is_static(shape_of(op.lhs)):
        return make.splat(1, element_type(op.lhs), shape_of(op.lhs))
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


@rule(g.ReduceOp)
def reduce_one(op: g.ReduceOp, make: Make) -> Replacement:
    """The reduction of single elements is a reshape."""
    whole = is_integer(element_type(op.input))
    kinds = (*KEEPS_ONE, *ADDS) if whole else KEEPS_ONE
    return as_reshape(op, make) if op.kind.data in kinds else None


@rule(g.ReduceOp, exact=False)
def add_one(op: g.ReduceOp, make: Make) -> Replacement:
    """The same for the sum and the mean of a single float"""
    return as_reshape(op, make) if op.kind.data in ADDS else None


def as_reshape(op: g.ReduceOp, make: Make) -> Replacement:
    """The reshape that a reduction over dimensions of size 1 is."""
    axes, shape = op.reduced_axes(), shape_of(op.input)
    if axes is None or any(shape[i] != 1 for i in axes):
        return None
    result = reduced_shape(shape, axes, bool(op.keep_dims.value.data))
    if op.input.type == op.result.type:
        return op.input
    return make(g.ReshapeOp, op.input, shape=result) if is_static(result) else None


def join_reductions(op: g.ReduceOp, make: Make) -> Replacement:
    """One reduction for two of the same kind in a row."""
    inner = op.input.owner
    if not isinstance(inner, g.ReduceOp) or inner.kind != op.kind or not op.input.has_one_use():
        return None
    first, then = inner.reduced_axes(), op.reduced_axes()
    if first is None or then is None or inner.keep_dims != op.keep_dims:
        return None
    if not op.keep_dims.value.data:
        left = [i for i in range(rank_of(inner.input)) if i not in first]
        then = tuple(left[i] for i in then)
    axes = sorted({*first, *then})
    params = {**op.properties, "axes": axes}
    return make(g.ReduceOp, inner.input, **params) if axes else None


@rule(g.ReduceOp)
def reduce_twice(op: g.ReduceOp, make: Make) -> Replacement:
    """max(max(x, axis 1), axis 2) = max(x, axes 1 and 2), of integers"""
    whole = is_integer(element_type(op.input))
    return join_reductions(op, make) if whole and op.kind.data in COMPOSES else None


@rule(g.ReduceOp, exact=False)
def sum_twice(op: g.ReduceOp, make: Make) -> Replacement:
    """The same of floats, in another order"""
    floats = is_float(element_type(op.input))
    return join_reductions(op, make) if floats and op.kind.data in (*COMPOSES, "mean") else None


@rule(g.DivOp, g.MulOp)
def sum_over_count(op: g.DivOp | g.MulOp, make: Make) -> Replacement:
    """sum / n = mean, as the kernel computes it"""
    for value, other in op.sides():
        total, number = value.owner, uniform(other, value)
        if not isinstance(total, g.ReduceOp) or not number or not value.has_one_use():
            continue
        element, shape, axes = element_type(value), shape_of(total.input), total.reduced_axes()
        if total.kind.data != "sum" or element not in (f32, f64) or axes is None:
            continue
        if not is_static(shape):
            continue
        count = numel(tuple(shape[i] for i in axes))
        if number == (count if isinstance(op, g.DivOp) else exact_reciprocal(count, element)):
            params = {"kind": "mean", "axes": axes, "keep_dims": total.keep_dims}
            return make(g.ReduceOp, total.input, **params)
    return None


def magnitudes(value: SSAValue) -> tuple[float, float] | None:
    """The smallest and the largest magnitude of the elements of a constant in the IR, of those that
    are not zero if there are any."""
    if (number := splat(value)) is not None:
        return abs(number), abs(number)
    if (elements := constant_value(value)) is None or not len(elements):
        return None
    numbers = np.abs(array_of(elements).astype(np.float64))
    numbers = numbers[numbers != 0]
    return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)


def joined(kind: type[TensorOp], a: SSAValue, b: SSAValue, make: Make) -> SSAValue | None:
    """kind(a, b) of two constants, unless it is larger than both or leaves the range of normal
    numbers. Weights whose numbers are not known are assumed to stay in it, but for those of f16."""
    result = make(kind, a, b)
    shape = shape_of(result)
    if not is_static(shape) or numel(shape) > max(numel(shape_of(v)) for v in (a, b)):
        return None
    element = element_type(a)
    if kind is g.AddOp or is_integer(element):
        return result
    x, y = magnitudes(a), magnitudes(b)
    if x is None or y is None:
        return None if element == f16 else result
    if kind is g.MulOp:
        ends = x[0] * y[0], x[1] * y[1]
    elif y[0] and not has_zeros(b):
        ends = x[0] / y[1], x[1] / y[0]
    else:
        return None
    return result if all(normal(n, element) for n in (*x, *y, *ends)) else None


def has_zeros(value: SSAValue) -> bool:
    elements = constant_value(value)
    return elements is not None and not array_of(elements).all()


def may_overflow(a: SSAValue, divided: bool, b: SSAValue, divides: bool) -> bool:
    """Return whether the first factor alone may overflow where the two together do not."""
    if is_integer(element_type(a)):
        return False
    x, y = magnitudes(a), magnitudes(b)
    if x is None or y is None or not all((*x, *y)):
        return False
    grows = x[0] < 1 if divided else x[1] > 1
    return grows and (y[1] > 1 if divides else y[0] < 1)


def add_constants(op: g.AddOp, make: Make) -> Replacement:
    """x + (a + b) for (x + a) + b"""
    outer = with_constant(op)
    if outer is None or not isinstance(inner := outer[0].owner, g.AddOp):
        return None
    if not inner.result.has_one_use() or (first := with_constant(inner)) is None:
        return None
    total = joined(g.AddOp, first[1], outer[1], make)
    return None if total is None else make(g.AddOp, first[0], total)


def multiply_constants(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """One factor for (x * a) * b, (x * a) / b, (x / a) * b and (x / a) / b"""
    outer = factor(op)
    inner = None if outer is None else factor(outer[0].owner)
    if outer is None or inner is None or not outer[0].has_one_use():
        return None
    value, a, divided = inner
    _, b, divides = outer
    if may_overflow(a, divided, b, divides):
        return None
    if divided == divides:  # x * (a * b) or x / (a * b)
        number = joined(g.MulOp, a, b, make)
        kind = g.DivOp if divided else g.MulOp
    else:  # x * (a / b) or x * (b / a)
        number = joined(g.DivOp, *((b, a) if divided else (a, b)), make)
        kind = g.MulOp
    return None if number is None else make(kind, value, number)


def factor(op: object) -> tuple[SSAValue, SSAValue, bool] | None:
    """Operand, constant, and whether the op divides by it."""
    if isinstance(op, g.MulOp) and (sides := with_constant(op)) is not None:
        return *sides, False
    if isinstance(op, g.DivOp) and is_constant(op.rhs) and not is_constant(op.lhs):
        return op.lhs, op.rhs, True
    return None


@rule(g.AddOp)
def add_integers(op: g.AddOp, make: Make) -> Replacement:
    """(x + a) + b = x + (a + b) of integers"""
    return add_constants(op, make) if is_integer(element_type(op.lhs)) else None


@rule(g.AddOp, exact=False)
def add_floats(op: g.AddOp, make: Make) -> Replacement:
    """(x + a) + b = x + (a + b)"""
    return add_constants(op, make)


@rule(g.MulOp)
def multiply_integers(op: g.MulOp, make: Make) -> Replacement:
    """(x * a) * b = x * (a * b) of integers"""
    outer = with_constant(op)
    if outer is None or not is_integer(element_type(op.lhs)):
        return None
    return multiply_constants(op, make) if isinstance(outer[0].owner, g.MulOp) else None


@rule(g.MulOp, g.DivOp, exact=False)
def multiply_floats(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """(x * a) / b = x * (a / b) and such"""
    return None if is_integer(element_type(op.lhs)) else multiply_constants(op, make)


def reduced(op: g.PoolOp, make: Make, kind: str | None) -> Replacement:
    """The reduction of this kind over all spatial dimensions, where one window covers them."""
    shape = shape_of(op.input)
    if kind is None or not is_static(shape) or 0 in shape or not op.window().covers(shape[2:]):
        return None
    return make(g.ReduceOp, op.input, kind=kind, axes=range(2, rank_of(op.input)))


@rule(g.PoolOp)
def maximum_of_image(op: g.PoolOp, make: Make) -> Replacement:
    """The maximum under a window over the whole image is that of the image."""
    return reduced(op, make, "max" if op.kind.data == "max" else None)


@rule(g.PoolOp, exact=False)
def average_of_image(op: g.PoolOp, make: Make) -> Replacement:
    """An average or a norm under a window over the whole image is that of the image; where
    padding counts as zeros there must be none."""
    if op.kind.data == "lp":
        return reduced(op, make, {1: "l1", 2: "l2"}.get(op.p.value.data))
    counts_padding = op.count_include_pad.value.data and any(op.window().pads)
    return reduced(op, make, "mean" if op.kind.data == "average" and not counts_padding else None)
