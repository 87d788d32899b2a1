"""Elementwise ops with numpy broadcasting. `VECTOR_COST` is the number of vector instructions for
one element (transcendental functions are short polynomials on the vector unit).
Trigonometric and hyperbolic functions and their inverses come last.
"""

import operator
from abc import ABC
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, f8E5M2, f8E8M0FNU, i1
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support import parameters as f
from ge.dialects.graph.support.elementwise_bases import (
    Binary,
    Elementwise,
    FloatTest,
    FloatUnary,
    OfBits,
    OfFloat,
    Unary,
    is_bits,
)
from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    OneResultOp,
    check_same_element,
    optional,
)
from ge.dialects.support.boxes import Access
from ge.dialects.support.constraints import (
    ANY,
    BITS,
    COMPUTED,
    ELEMENT,
    INTEGERS,
    NUMBERS,
    TRUTHS,
    choice,
    choice_def,
)
from ge.dialects.support.element_types import bitwidth, is_float, is_integer, row_of
from ge.dialects.support.tensor_op import Permuted, PermuteInterface
from ge.dialects.support.types import broadcast, element_type, shape_of, tensor

# ---- arithmetic of one operand ---------------------------------------------------------------


@irdl_op_definition
class AbsOp(Unary):
    """|x|"""

    name = "graph.abs"
    IDEMPOTENT: ClassVar = True


@irdl_op_definition
class NegOp(Unary):
    """-x"""

    name = "graph.neg"
    INVOLUTION: ClassVar = True

    def of_integers(self, *values: int) -> int | None:
        return -values[0]


@irdl_op_definition
class SignOp(Unary):
    """-1, 0 or 1; nan stays nan."""

    name = "graph.sign"
    IDEMPOTENT: ClassVar = True


@irdl_op_definition
class FloorOp(OfFloat):
    """The largest integer not above x."""

    name = "graph.floor"
    IDEMPOTENT: ClassVar = True


@irdl_op_definition
class CeilOp(OfFloat):
    """The smallest integer not below x."""

    name = "graph.ceil"
    IDEMPOTENT: ClassVar = True


@irdl_op_definition
class RoundOp(OfFloat):
    """Rounds to the nearest integer, ties to even."""

    name = "graph.round"
    IDEMPOTENT: ClassVar = True


@irdl_op_definition
class NotOp(Unary):
    """Logical not of i1, complement of the bits of an integer."""

    name = "graph.not"
    INVOLUTION: ClassVar = True
    input = operand_def(BITS)
    result = result_def(BITS)


@irdl_op_definition
class ReciprocalOp(FloatUnary):
    """1 / x"""

    name = "graph.reciprocal"
    VECTOR_COST: ClassVar = 1


@irdl_op_definition
class SqrtOp(FloatUnary):
    """The square root; nan below 0."""

    name = "graph.sqrt"
    VECTOR_COST: ClassVar = 2


@irdl_op_definition
class ExpOp(FloatUnary):
    """e to the power x."""

    name = "graph.exp"
    VECTOR_COST: ClassVar = 4


@irdl_op_definition
class LogOp(FloatUnary):
    """The natural logarithm; -inf at 0, nan below."""

    name = "graph.log"
    VECTOR_COST: ClassVar = 4


@irdl_op_definition
class TanhOp(FloatUnary):
    """The hyperbolic tangent."""

    name = "graph.tanh"


@irdl_op_definition
class ErfOp(FloatUnary):
    """The error function."""

    name = "graph.erf"
    VECTOR_COST: ClassVar = 12


# ---- two operands ----------------------------------------------------------------------------


@irdl_op_definition
class AddOp(Binary):
    """lhs + rhs; integers wrap around."""

    name = "graph.add"
    NEUTRAL: ClassVar = staticmethod(f.negative_zero)
    traits = traits_def(Commutative())

    def of_integers(self, *values: int) -> int | None:
        return values[0] + values[1]


@irdl_op_definition
class SubOp(Binary):
    """lhs - rhs; integers wrap around."""

    name = "graph.sub"
    NEUTRAL: ClassVar = staticmethod(f.zero)
    CANCELS: ClassVar = staticmethod(is_integer)

    def of_integers(self, *values: int) -> int | None:
        return values[0] - values[1]


@irdl_op_definition
class MulOp(Binary):
    """lhs * rhs; integers wrap around."""

    name = "graph.mul"
    NEUTRAL: ClassVar = staticmethod(f.one)
    ABSORBING: ClassVar = staticmethod(f.integer_zero)
    traits = traits_def(Commutative())

    def of_integers(self, *values: int) -> int | None:
        return values[0] * values[1]


@irdl_op_definition
class DivOp(Binary):
    """lhs / rhs; of integers rounded toward zero."""

    name = "graph.div"
    NEUTRAL: ClassVar = staticmethod(f.one)

    def of_integers(self, *values: int) -> int | None:
        a, b = values
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@irdl_op_definition
class ModOp(Binary):
    """Remainder: the sign is the divisor's, or the dividend's with `fmod`."""

    name = "graph.mod"
    fmod = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    VECTOR_COST: ClassVar = 4
    VECTOR_PROGRAM: ClassVar = True

    def of_integers(self, *values: int) -> int | None:
        a, b = values
        return None if b == 0 or self.fmod.value.data else a % b


@irdl_op_definition
class PowOp(Elementwise, HasFolderInterface):
    """base ** exponent; the exponent may have another element type than the base."""

    name = "graph.pow"
    lhs = operand_def(NUMBERS)
    rhs = operand_def(NUMBERS)
    result = result_def(NUMBERS)
    VECTOR_COST: ClassVar = 10
    assembly_format = f"$lhs `,` $rhs {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = broadcast(shape_of(self.lhs), shape_of(self.rhs))
        return (tensor(shape, element_type(self.lhs)),)

    def fold(self) -> f.Folded:
        exponent = f.one(element_type(self.rhs))
        return (self.lhs,) if f.kept_by(self.lhs, self.rhs, exponent, self.result) else None


@irdl_op_definition
class MaximumOp(Binary):
    """The larger; nan if either is nan."""

    name = "graph.maximum"
    NEUTRAL: ClassVar = staticmethod(f.lowest)
    IDEMPOTENT: ClassVar = True
    traits = traits_def(Commutative())

    def of_integers(self, *values: int) -> int | None:
        return max(values)


@irdl_op_definition
class MinimumOp(Binary):
    """The smaller; nan if either is nan."""

    name = "graph.minimum"
    NEUTRAL: ClassVar = staticmethod(f.highest)
    IDEMPOTENT: ClassVar = True
    traits = traits_def(Commutative())

    def of_integers(self, *values: int) -> int | None:
        return min(values)


@irdl_op_definition
class AndOp(OfBits):
    """Logical on i1, bitwise on integers."""

    name = "graph.and"
    NEUTRAL: ClassVar = staticmethod(f.all_ones)
    ABSORBING: ClassVar = staticmethod(f.zero)
    IDEMPOTENT: ClassVar = True
    traits = traits_def(Commutative())


@irdl_op_definition
class OrOp(OfBits):
    """Logical on i1, bitwise on integers."""

    name = "graph.or"
    NEUTRAL: ClassVar = staticmethod(f.zero)
    ABSORBING: ClassVar = staticmethod(f.all_ones)
    IDEMPOTENT: ClassVar = True
    traits = traits_def(Commutative())


@irdl_op_definition
class XorOp(OfBits):
    """Logical on i1, bitwise on integers."""

    name = "graph.xor"
    NEUTRAL: ClassVar = staticmethod(f.zero)
    CANCELS: ClassVar = staticmethod(is_bits)
    traits = traits_def(Commutative())


ShiftDirection = choice("graph.shift_direction", "left", "right")


@irdl_op_definition
class ShiftOp(Binary):
    """Bits of lhs moved by rhs places to the `left` or `right` (zeros come in)."""

    name = "graph.shift"
    VECTOR_PROGRAM: ClassVar = True
    NEUTRAL: ClassVar = staticmethod(f.zero)
    lhs = operand_def(INTEGERS)
    rhs = operand_def(INTEGERS)
    result = result_def(INTEGERS)
    direction = choice_def(ShiftDirection)
    assembly_format = f"$direction $lhs `,` $rhs {TYPES}"


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
PREDICATES = tuple(COMPARISONS)
Predicate = choice("graph.predicate", *PREDICATES)


@irdl_op_definition
class CompareOp(Binary):
    """lhs `predicate` rhs, as i1; any comparison with nan is false, but for `ne`."""

    name = "graph.compare"
    predicate = choice_def(Predicate)
    lhs = operand_def(COMPUTED)
    rhs = operand_def(COMPUTED)
    result = result_def(TRUTHS)
    assembly_format = f"$predicate $lhs `,` $rhs {TYPES}"

    def result_element(self) -> Attribute:
        return i1

    def fold(self) -> f.Folded:
        if self.lhs is not self.rhs or is_float(element_type(self.lhs)):
            return None
        return f.constants(int(self.predicate.data in ("eq", "le", "ge")), self.result.type)

    def of_integers(self, *values: int) -> int | None:
        return int(COMPARISONS[self.predicate.data](*values))


# ---- tests, choice, limits, conversion -------------------------------------------------------


@irdl_op_definition
class IsNanOp(FloatTest):
    """True for each x that is not a number."""

    name = "graph.is_nan"


@irdl_op_definition
class IsInfOp(FloatTest):
    """True for each x that is an infinity of one of the signs asked for."""

    name = "graph.is_inf"
    negative = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    positive = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))


@irdl_op_definition
class SelectOp(Elementwise, HasFolderInterface):
    """`on_true` where `condition` (i1) holds, else `on_false`; all three broadcast."""

    name = "graph.select"
    condition = operand_def(TRUTHS)
    on_true = operand_def(COMPUTED)
    on_false = operand_def(COMPUTED)
    result = result_def(COMPUTED)
    assembly_format = f"$condition `,` $on_true `,` $on_false {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_same_element(self.on_true, self.on_false)
        shape = broadcast(*(shape_of(o) for o in self.operands))
        return (tensor(shape, element_type(self.on_true)),)

    def fold(self) -> f.Folded:
        known = f.splat(self.condition)
        if known is None and self.on_true is not self.on_false:
            return None
        value, other = self.on_true, self.on_false
        if known == 0:
            value, other = other, value
        shape = shape_of(value)
        same = value.type == self.result.type and all(
            f.broadcasts_into(shape_of(v), shape) or v is value for v in (self.condition, other)
        )
        return (value,) if same else None

    def of_integers(self, *values: int) -> int | None:
        condition, on_true, on_false = values
        return on_true if condition else on_false


@irdl_op_definition
class ClampOp(OneResultOp, PermuteInterface, HasFolderInterface):
    """min(max(x, low), high); a missing limit does not limit. Limits are scalars."""

    name = "graph.clamp"
    input = operand_def(ANY)
    low = opt_operand_def(ANY)
    high = opt_operand_def(ANY)
    irdl_options = SEGMENTED
    ACCESS: ClassVar = Access.POINTWISE
    VECTOR_COST: ClassVar = 2
    assembly_format = f"$input {optional('low', 'high')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        for limit in (self.low, self.high):
            if limit is None:
                continue
            check_same_element(self.input, limit)
            if any(d != 1 for d in shape_of(limit)):
                raise VerifyException(f"a limit is a scalar, not {limit.type}")
        return (self.input.type,)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        return Permuted((0,), order, {})

    def fold(self) -> f.Folded:
        """Without limits, or with limits that no value exceeds."""
        t = element_type(self.input)
        low = self.low is None or f.is_splat(self.low, f.lowest(t))
        high = self.high is None or f.is_splat(self.high, f.highest(t))
        return (self.input,) if low and high and self.input.type == self.result.type else None


CastRounding = choice("graph.cast_rounding", "nearest", "up", "down")


@irdl_op_definition
class CastOp(Unary):
    """Conversion to element type `to`: of floats to integers toward zero, of numbers to i1 by
    != 0. Values out of the integer range wrap around.

    Floats of 8 bits: a value out of range becomes infinite, or nan where the type has no infinity;
    with `saturate` the nearest finite one, infinities too. f4E2M1FN has neither and always
    saturates. f8E8M0FNU has powers of two only, so zero and less are out of its range; `rounding`
    to it is to the `nearest`, `up` or `down`."""

    name = "graph.cast"
    input = operand_def(ANY)
    result = result_def(ANY)
    to = prop_def(ELEMENT)
    saturate = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    rounding = choice_def(CastRounding, "nearest")
    assembly_format = f"$input {TYPES}"

    def result_element(self) -> Attribute:
        row = row_of(self.to)
        if self.saturate.value.data and (row is None or not row.is_float or row.bits != 8):
            raise VerifyException(f"saturate is for floats of 8 bits, not for {self.to}")
        if self.rounding.data != "nearest" and self.to != f8E8M0FNU:
            raise VerifyException(f"rounding is for {f8E8M0FNU}, not for {self.to}")
        return self.to

    def fold(self) -> f.Folded:
        """Fold a cast that converts nothing, or goes there and back through a type that holds every
        value."""
        if self.saturate.value.data and self.to == f8E5M2:
            return None  # infinities are out of range
        if self.input.type == self.result.type:
            return (self.input,)
        if not isinstance(inner := self.input.owner, CastOp):
            return None
        back = inner.input.type == self.result.type
        return (inner.input,) if back and f.holds(inner.to, element_type(inner.input)) else None

    def of_integers(self, *values: int) -> int | None:
        is_truth = i1 in (self.to, element_type(self.input))
        return int(values[0] != 0) if is_truth else values[0]


@irdl_op_definition
class BitcastOp(Unary):
    """The same bits read as element type `to` of the same width."""

    name = "graph.bitcast"
    input = operand_def(ANY)
    result = result_def(ANY)
    to = prop_def(ELEMENT)
    assembly_format = f"$input {TYPES}"

    def result_element(self) -> Attribute:
        if bitwidth(self.to) != bitwidth(element_type(self.input)):
            raise VerifyException(f"{element_type(self.input)} and {self.to} differ in width")
        return self.to

    def fold(self) -> f.Folded:
        value = self.input
        while isinstance(value.owner, BitcastOp):
            value = value.owner.input
        return (value,) if value.type == self.result.type else None


class Trigonometric(FloatUnary, ABC):
    """Circular and hyperbolic functions, and their inverses."""

    VECTOR_PROGRAM: ClassVar = True


@irdl_op_definition
class SinOp(Trigonometric):
    """The sine of x in radians."""

    name = "graph.sin"


@irdl_op_definition
class CosOp(Trigonometric):
    """The cosine of x in radians."""

    name = "graph.cos"


@irdl_op_definition
class TanOp(Trigonometric):
    """The tangent of x in radians."""

    name = "graph.tan"


@irdl_op_definition
class AsinOp(Trigonometric):
    """The inverse sine, in [-pi/2, pi/2]; nan outside [-1, 1]."""

    name = "graph.asin"


@irdl_op_definition
class AcosOp(Trigonometric):
    """The inverse cosine, in [0, pi]; nan outside [-1, 1]."""

    name = "graph.acos"


@irdl_op_definition
class AtanOp(Trigonometric):
    """The inverse tangent, in [-pi/2, pi/2]."""

    name = "graph.atan"


@irdl_op_definition
class SinhOp(Trigonometric):
    """The hyperbolic sine."""

    name = "graph.sinh"


@irdl_op_definition
class CoshOp(Trigonometric):
    """The hyperbolic cosine."""

    name = "graph.cosh"


@irdl_op_definition
class AsinhOp(Trigonometric):
    """The inverse hyperbolic sine."""

    name = "graph.asinh"


@irdl_op_definition
class AcoshOp(Trigonometric):
    """The inverse hyperbolic cosine; nan below 1."""

    name = "graph.acosh"


@irdl_op_definition
class AtanhOp(Trigonometric):
    """The inverse hyperbolic tangent; nan outside [-1, 1]."""

    name = "graph.atanh"
