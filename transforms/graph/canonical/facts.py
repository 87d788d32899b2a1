"""Facts about values that rules ask for."""

import math

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.support.folding import Number, broadcasts_into, is_unsigned, splat
from ge.dialects.support.element_types import is_float, is_integer, row_of
from ge.dialects.support.types import element_type, shape_of

DEPTH = 4  # how far up the definitions of a value are followed


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def uniform(value: SSAValue, other: SSAValue) -> Number | None:
    """The number of a splat constant that does not change the shape of `other` in a broadcast."""
    number = splat(value)
    if number is None or not broadcasts_into(shape_of(value), shape_of(other)):
        return None
    return number


def with_constant(op: g.Binary) -> tuple[SSAValue, SSAValue] | None:
    """Operand and constant operand of a commutative op."""
    for value, other in op.sides():
        if is_constant(other) and not is_constant(value):
            return value, other
    return None


def never_negative(value: SSAValue, depth: int = DEPTH) -> bool:
    """Whether no element is below zero or -0.0 (nan may be)."""
    element, op = element_type(value), value.owner
    if element == i1 or is_unsigned(element):
        return True
    if isinstance(op, g.AbsOp):
        return is_float(element)  # the lowest integer has no absolute value
    if isinstance(op, g.ExpOp | SoftmaxOp):
        return True
    if isinstance(op, g.CastOp):
        source = element_type(op.input)
        return is_float(element) and (source == i1 or is_unsigned(source))
    if (number := splat(value)) is not None:
        return number > 0 or (number == 0 and math.copysign(1, number) > 0)
    if depth == 0 or not is_float(element):
        return False
    if isinstance(op, g.MulOp) and op.lhs is op.rhs:
        return True
    if isinstance(op, g.SqrtOp | g.RoundOp | g.FloorOp | g.CeilOp):
        return never_negative(op.input, depth - 1)
    if isinstance(op, g.AddOp | g.MulOp | g.DivOp | g.MaximumOp | g.MinimumOp):
        return all(never_negative(v, depth - 1) for v in op.operands)
    if isinstance(op, ReduceOp) and op.kind.data in ("sum", "mean"):
        return never_negative(op.input, depth - 1)
    # nor of a relu: that of -0.0 is -0.0
    return isinstance(op, ReduceOp) and op.kind.data in ("l1", "l2", "sum_square")


def never_negative_zero(value: SSAValue) -> bool:
    """Whether no element is -0.0."""
    op = value.owner
    if isinstance(op, g.CastOp) and (is_integer(t := element_type(op.input)) or t == i1):
        return True
    return never_negative(value)


def is_whole(value: SSAValue) -> bool:
    """Whether all finite elements are integers."""
    op = value.owner
    if isinstance(op, g.CastOp):
        return not is_float(element_type(op.input))
    return isinstance(op, g.FloorOp | g.CeilOp | g.RoundOp | g.SignOp)


def exact_reciprocal(number: Number, element: Attribute) -> float | None:
    """1 / number, if that is a normal number of the element type: number is a power of two."""
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return None
    return 1 / number if normal(1 / number, element) else None


def normal(number: Number, element: Attribute) -> bool:
    """Whether a number is normal in a float type: neither zero nor infinite nor so small that it
    loses digits."""
    row = row_of(element)
    if row is None or not row.is_float or not number or not math.isfinite(number):
        return False
    bias = 2 ** (row.exponent - 1) - 1
    return 1 - bias <= math.frexp(number)[1] - 1 <= bias
