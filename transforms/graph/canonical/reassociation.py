"""Two constants in a row become one. Of integers this is exact, of floats it rounds in another
place."""

import numpy as np
from xdsl.dialects.builtin import f16
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.support.folding import splat
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_value, element_type, is_static, numel, shape_of
from ge.runtime.data.arrays import array_of
from ge.transforms.graph.canonical.facts import is_constant, normal, with_constant
from ge.transforms.graph.canonical.local import Make, Replacement, rule


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
    """Whether the first factor alone may overflow where the two together do not."""
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
