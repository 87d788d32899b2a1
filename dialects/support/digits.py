"""Offsets that follow from the place of a device, and how boxes with such offsets are shardings.

    8 * "tp":(1)2 + 4 * "tp":(2)2 - 1       one element before the part of 4 elements

The place along an axis of a mesh is written in digits, of which each has as many values as a
prime: a quotient or a remainder is then often a number of the same form. So the box of a reshape's
operand, or that of 4 heads of keys which 8 heads of queries share, is a sharding by sub-axes.

    (8 * a + 4 * b + 2 * c) // 4  =  2 * a + b
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import Any

from ge.dialects.support.boxes import Span, Unknown
from ge.dialects.support.mesh import Axis

Axes = tuple[Axis, ...]


@lru_cache(maxsize=1024)
def digits(axis: Axis) -> Axes:
    """A resolved axis as digits of prime sizes, from major to minor."""
    found, pre, rest, prime = list[Axis](), axis.pre, axis.size, 2
    while rest > 1:
        while rest % prime:
            prime += 1
        found.append(Axis(axis.name, pre, prime))
        pre, rest = pre * prime, rest // prime
    return tuple(found)


def all_digits(axes: Iterable[Axis]) -> Axes:
    return _all_digits(tuple(axes)) if axes else ()


@lru_cache(maxsize=4096)
def _all_digits(axes: Axes) -> Axes:
    return tuple([d for axis in axes for d in digits(axis)])


@lru_cache(maxsize=4096)
def joined(axes: Axes) -> Axes:
    """The same axes with neighbors that are parts of one axis as one."""
    merged = list[Axis]()
    for axis in axes:
        last = merged[-1] if merged else None
        if last and last.name == axis.name and last.pre * last.size == axis.pre:
            merged[-1] = Axis(last.name, last.pre, last.size * axis.size)
        elif axis.size > 1:
            merged.append(axis)
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class DigitSum:
    """constant + sum of coefficient x digit."""

    constant: int
    terms: Mapping[Axis, int]

    @property
    def divisor(self) -> int:
        return gcd(self.constant, *self.terms.values())

    def __add__(self, other: Any) -> "DigitSum | Unknown":
        if isinstance(other, int):
            return DigitSum(self.constant + other, self.terms)
        if not isinstance(other, DigitSum):
            return Unknown()
        terms = dict(self.terms)
        for digit, by in other.terms.items():
            terms[digit] = terms.get(digit, 0) + by
        return DigitSum(self.constant + other.constant, {d: c for d, c in terms.items() if c})

    __radd__ = __add__

    def __mul__(self, by: Any) -> "DigitSum | Unknown":
        if not isinstance(by, int):
            return Unknown()
        return DigitSum(self.constant * by, {d: c * by for d, c in self.terms.items()})

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> "DigitSum | Unknown":
        return self + other * -1

    def __rsub__(self, other: int) -> "DigitSum | Unknown":
        return self * -1 + other

    def _divided(self, by: int) -> "tuple[DigitSum, DigitSum] | None":
        """Quotient and remainder, where they are numbers of this form."""
        whole = {d: c // by for d, c in self.terms.items() if c % by == 0}
        rest = {d: c for d, c in self.terms.items() if c % by}
        constant, over = divmod(self.constant, by)
        low = over + sum(min(c * (d.size - 1), 0) for d, c in rest.items())
        high = over + sum(max(c * (d.size - 1), 0) for d, c in rest.items())
        return (DigitSum(constant, whole), DigitSum(over, rest)) if 0 <= low and high < by else None

    def __floordiv__(self, by: int) -> "int | DigitSum | Unknown":
        divided = self._divided(by)
        return Unknown() if divided is None else plain(divided[0])

    def __mod__(self, by: int) -> "int | DigitSum | Unknown":
        divided = self._divided(by)
        return Unknown() if divided is None else plain(divided[1])


def plain(number: DigitSum) -> "int | DigitSum":
    return number if number.terms else number.constant


def part(size: int, axes: Axes) -> Span:
    """The part of a dimension of this size that a device along some axes has: its offset, and how
    many elements there are for each."""
    own = all_digits(axes)
    count = 1
    for digit in own:
        count *= digit.size
    each = -(-size // count)
    terms, step = dict[Axis, int](), each
    for digit in reversed(own):
        terms[digit], step = step, step * digit.size
    return plain(DigitSum(0, terms)), each


def axes_of(span: Span, dim: int) -> Axes | None:
    """The axes by which a dimension is cut so that each device has this span of it; None where it
    is another box."""
    offset, size = span
    if isinstance(offset, int):
        return () if offset <= 0 and offset + size >= dim else None
    if not isinstance(offset, DigitSum) or offset.constant:
        return None
    terms = sorted(offset.terms.items(), key=lambda t: -t[1])
    if terms[-1][1] != size or any(a != b * d.size for (_, a), (d, b) in pairwise(terms)):
        return None
    (first, by), *_ = terms
    parts = by * first.size // size
    return joined(tuple(d for d, _ in terms)) if size == -(-dim // parts) else None


def cut(sizes: Sequence[int], dims: Sequence[Axes]) -> list[Span]:
    """The spans of a value of which each dimension is cut by axes."""
    return [part(size, axes) if axes else (0, size) for size, axes in zip(sizes, dims, strict=True)]
