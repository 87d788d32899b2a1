"""Sizes that are not known yet, as numbers that remember what they follow from.

    n = Extent(100003, Polynomial.named("batch"))
    16 * n + 1                    # 1600049, and "16 * batch + 1"
    ceil(n / 64)                  # 1563, and "(batch + 63) // 64"
    n % 16 == 0                   # false: no size is a multiple of anything but its factors

What is written for known sizes is written for others as well where it is told extents in place of
sizes: it takes the ways of large sizes of no special kind, and numbers that depend on sizes say
how. An extent is equal to one of the same expression, never to a number.
"""

import operator
from collections.abc import Callable
from typing import Any

from ge.dialects.support.dims import value_of
from ge.dialects.support.polynomial import Polynomial


class Extent(int):
    """A size, and the expression of dimensions that it is."""

    size: Polynomial

    def __new__(cls, number: int, size: Polynomial) -> "Extent":
        new = super().__new__(cls, number)
        new.size = size
        return new

    @property
    def divisor(self) -> int:
        """A number that divides it, whatever the dimensions are."""
        return self.size.divisor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return isinstance(other, Extent) and self.size == other.size

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return not self == other

    def __hash__(self) -> int:
        return hash(self.size)

    def __str__(self) -> str:
        return f"⟨{self.size}⟩"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else super().__format__(spec)

    def __neg__(self) -> int:
        return known(-int(self), self.size * -1)

    def __add__(self, other: Any) -> Any:
        return combined(int.__add__, lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> Any:
        return combined(int.__add__, lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> Any:
        return combined(int.__sub__, lambda a, b: a + b * -1, self, other)

    def __rsub__(self, other: Any) -> Any:
        return combined(int.__sub__, lambda a, b: a + b * -1, other, self)

    def __mul__(self, other: Any) -> Any:
        return combined(int.__mul__, lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> Any:
        return combined(int.__mul__, lambda a, b: a * b, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return combined(int.__floordiv__, Polynomial.divided, self, other)

    def __mod__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self - self // other * other

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return Ratio(self, other) if isinstance(other, int) else int(self) / other


class Ratio(float):
    """A quotient, of which it is known what it is as a whole number."""

    dividend: int
    divisor: int

    def __new__(cls, dividend: int, divisor: int) -> "Ratio":
        new = super().__new__(cls, int(dividend) / int(divisor))
        new.dividend, new.divisor = dividend, divisor
        return new

    def __ceil__(self) -> int:
        return (self.dividend + (self.divisor - 1)) // self.divisor

    def __floor__(self) -> int:
        return self.dividend // self.divisor


def known(number: int, size: Polynomial) -> int:
    """The extent, or the number where it depends on no dimension."""
    return Extent(number, size) if size.number is None else size.number


def expression(number: int) -> Polynomial:
    return number.size if isinstance(number, Extent) else Polynomial.of(number)


OF_FLOATS: dict[Callable[[int, int], int], Callable[[float, float], float]] = {
    int.__add__: operator.add,
    int.__sub__: operator.sub,
    int.__mul__: operator.mul,
    int.__floordiv__: lambda a, b: a // b,
}


def combined(
    numbers: Callable[[int, int], int],
    sizes: Callable[[Polynomial, Polynomial], Polynomial | None],
    a: Any,
    b: Any,
) -> Any:
    """What is computed of two numbers; a plain one where no expression is known for it."""
    if not isinstance(a, int) or not isinstance(b, int):
        if isinstance(a, float) or isinstance(b, float):
            return OF_FLOATS[numbers](*(int(x) if isinstance(x, int) else x for x in (a, b)))
        return NotImplemented
    number, size = numbers(int(a), int(b)), sizes(expression(a), expression(b))
    return number if size is None else known(number, size)


def value(text: str, sizes: dict[str, int]) -> int:
    """Of an expression of dimensions, all of which have sizes."""
    found = value_of(text, sizes)
    assert found is not None
    return found
