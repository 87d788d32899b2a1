"""Bases of the elementwise ops: element types, broadcasting, and identities as data."""

from abc import ABC
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.traits import Commutative
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support import parameters as f
from ge.dialects.graph.support.parameters import (
    TYPES,
    Elements,
    IntegerElements,
    OneResultOp,
    elements_of,
    is_countable,
)
from ge.dialects.support.boxes import Access
from ge.dialects.support.constraints import BITS, FLOATS, NUMBERS, TRUTHS
from ge.dialects.support.element_types import bitwidth, is_integer, is_unsigned
from ge.dialects.support.tensor_op import Permuted, PermuteInterface, SplitInterface
from ge.dialects.support.types import (
    broadcast,
    element_type,
    is_static,
    numel,
    shape_of,
    tensor,
)

STEPS = 3  # of a chain of shape computations that one of arithmetic counts for: chains branch there


def is_bits(t: Attribute) -> bool:
    return t == i1 or is_integer(t)


class Elementwise(OneResultOp, IntegerElements, SplitInterface, PermuteInterface, ABC):
    """An op whose operands all have one element type, and broadcast."""

    ACCESS: ClassVar = Access.POINTWISE

    def result_element(self) -> Attribute:
        return element_type(self.operands[0])

    def infer(self) -> Sequence[Attribute]:
        first = element_type(self.operands[0])
        for operand in self.operands:
            if (t := element_type(operand)) != first:
                raise VerifyException(f"element types differ: {first} and {t}")
        return (tensor(broadcast(*(shape_of(o) for o in self.operands)), self.result_element()),)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        return Permuted(range(len(self.operands)), order, {})

    def of_integers(self, *values: int) -> int | None:
        """The function of integers without bounds; None where no shape computation needs it."""
        return None

    def elements(self, steps: int) -> Elements | None:
        """Elements of the result of integers that do not wrap around, where operands have one
        element or all of them."""
        shape, element = shape_of(self.result), element_type(self.result)
        if type(self).of_integers is Elementwise.of_integers or not is_static(shape):
            return None
        columns: list[Elements] = []
        for operand in self.operands:
            known = elements_of(operand, steps - STEPS)
            if known is None or (len(known) != 1 and shape_of(operand) != shape):
                return None
            columns.append(known * numel(shape) if len(known) == 1 else known)
        if not is_countable(element):
            return None
        bits, low = bitwidth(element), is_unsigned(element) or bitwidth(element) == 1
        least, most = (0, (1 << bits) - 1) if low else (-(1 << bits - 1), (1 << bits - 1) - 1)
        result: list[int | None] = []
        for row in zip(*columns, strict=True):
            known = [value for value in row if value is not None]
            value = self.of_integers(*known) if len(known) == len(row) else None
            result.append(value if value is not None and least <= value <= most else None)
        return tuple(result)


class Unary(Elementwise, HasFolderInterface, ABC):
    """f(f(x)) is f(x) for `IDEMPOTENT` functions, x for an `INVOLUTION`."""

    IDEMPOTENT: ClassVar[bool] = False
    INVOLUTION: ClassVar[bool] = False
    input = operand_def(NUMBERS)
    result = result_def(NUMBERS)
    assembly_format = f"$input {TYPES}"

    def fold(self) -> f.Folded:
        inner = self.input.owner
        if not isinstance(inner, type(self)) or self.input.type != self.result.type:
            return None
        if self.IDEMPOTENT:
            return (self.input,)
        return (inner.input,) if self.INVOLUTION and inner.input.type == self.result.type else None


class OfFloat(Unary, ABC):
    """Functions of one float."""

    input = operand_def(FLOATS)
    result = result_def(FLOATS)


class FloatUnary(OfFloat, ABC):
    """Functions of one float, which take several instructions."""

    VECTOR_COST: ClassVar = 8
    ROUNDED_ONCE: ClassVar = 1


class FloatTest(Unary, ABC):
    """A test of each float; its result is i1."""

    input = operand_def(FLOATS)
    result = result_def(TRUTHS)

    def result_element(self) -> Attribute:
        return i1


class Binary(Elementwise, HasFolderInterface, ABC):
    """f(x, NEUTRAL) is x, f(x, ABSORBING) is ABSORBING, by element type; f(x, x) is x for
    `IDEMPOTENT` functions, zero where `CANCELS` holds. With the trait Commutative either side
    counts."""

    NEUTRAL: ClassVar[Callable[[Attribute], f.Number] | None] = None
    ABSORBING: ClassVar[Callable[[Attribute], f.Number | None] | None] = None
    IDEMPOTENT: ClassVar[bool] = False
    CANCELS: ClassVar[Callable[[Attribute], bool] | None] = None
    lhs = operand_def(NUMBERS)
    rhs = operand_def(NUMBERS)
    result = result_def(NUMBERS)
    assembly_format = f"$lhs `,` $rhs {TYPES}"

    def sides(self) -> list[tuple[SSAValue, SSAValue]]:
        ways = [(self.lhs, self.rhs)]
        return [*ways, (self.rhs, self.lhs)] if self.has_trait(Commutative) else ways

    def fold(self) -> f.Folded:
        kind, element = type(self), element_type(self.lhs)
        if self.lhs is self.rhs:
            if kind.IDEMPOTENT and self.lhs.type == self.result.type:
                return (self.lhs,)
            if kind.CANCELS is not None and kind.CANCELS(element):
                return f.constants(f.zero(element), self.result.type)
        for value, other in self.sides():
            if kind.NEUTRAL is not None and f.kept_by(
                value, other, kind.NEUTRAL(element), self.result
            ):
                return (value,)
            if kind.ABSORBING is not None and f.is_splat(other, kind.ABSORBING(element)):
                return f.constants(kind.ABSORBING(element), self.result.type)
        return None


class OfBits(Binary, ABC):
    """Logical functions of i1, bitwise ones of integers."""

    lhs = operand_def(BITS)
    rhs = operand_def(BITS)
    result = result_def(BITS)
