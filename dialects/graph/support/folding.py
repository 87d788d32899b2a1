"""Constants with one value, and identities, for the `fold` methods of ops. Identities hold bit for
bit, -0 and nan included: `x + (-0.0)` is x, `x + 0.0` is not (it turns -0.0 into 0.0), `x * 0.0` is
not 0."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.element_types import is_float, is_unsigned, row_of
from ge.dialects.support.types import AnyTensor, Dense, Shape, constant_value, is_static, shape_of

Number: TypeAlias = int | float

Folded: TypeAlias = Sequence[SSAValue | Attribute] | None  # what `fold` returns


def splat_bytes(attr: Dense) -> bytes | None:
    """The bytes of the one element that all elements of a constant are, else None."""
    if not (count := len(attr)):
        return None
    data = attr.data.data
    size = len(data) // count
    if count > 1 and (data[:size] != data[-size:] or data != data[:size] * count):
        return None
    return data[:size]


def splat(value: SSAValue) -> Number | None:
    """The number that all elements of a constant in the IR are (0 or 1 for i1), else None."""
    attr = constant_value(value)
    if attr is None or splat_bytes(attr) is None:
        return None
    number = cast(Number, next(iter(attr.get_element_type().iter_unpack(attr.data.data))))
    return int(bool(number)) if attr.get_element_type() == i1 else number


def same_number(a: Number, b: Number) -> bool:
    """True if the numbers are equal, also in the sign of zero."""
    return a == b and (bool(a) or math.copysign(1, a) == math.copysign(1, b))


def broadcasts_into(small: Shape, large: Shape) -> bool:
    """True if broadcasting `small` to `large` surely does not change the shape of `large`."""
    first = len(large) - len(small)
    if first < 0:
        return False
    return all(a == 1 or (a == b and is_static((a,))) for a, b in zip(small, large[first:]))


def constants(number: Number | None, t: Attribute) -> Folded:
    """The one constant whose elements are all `number`, None for a dynamic type."""
    kind = cast(Any, t)
    if number is None or not is_static(cast(AnyTensor, t).get_shape()):
        return None
    return (DenseIntOrFPElementsAttr.from_list(kind, (cast(Any, number),)),)


def is_splat(value: SSAValue, number: Number | None) -> bool:
    known = splat(value)
    return known is not None and number is not None and same_number(known, number)


def lowest(t: Attribute, highest: bool = False) -> Number:
    """The lowest (or highest) value of an element type; infinity for floats."""
    if is_float(t):
        return math.inf if highest else -math.inf
    if (row := row_of(t)) is None:
        raise VerifyException(f"element type {t} is not supported")
    width = row.bits
    if is_unsigned(t):
        return 2**width - 1 if highest else 0
    return 2 ** (width - 1) - 1 if highest else -(2 ** (width - 1))


def highest(t: Attribute) -> Number:
    return lowest(t, highest=True)


def all_ones(t: Attribute) -> Number:
    """The integer with all bits set; true for i1."""
    if t == i1:
        return 1
    return highest(t) if is_unsigned(t) else -1


def negative_zero(t: Attribute) -> Number:
    """x + -0.0 is x for every float."""
    return -0.0 if is_float(t) else 0


def zero(t: Attribute) -> Number:
    return 0.0 if is_float(t) else 0


def one(t: Attribute) -> Number:
    return 1.0 if is_float(t) else 1


def integer_zero(t: Attribute) -> Number | None:
    """x * 0 is 0 for integers only."""
    return None if is_float(t) else 0


def holds(wide: Attribute, narrow: Attribute) -> bool:
    """True if element type `wide` represents every value of `narrow`."""
    if wide == narrow:
        return True
    w, n = row_of(wide), row_of(narrow)
    if w is None or n is None or (w.is_float and w.storage_only):
        return False  # the floats of 8 bits differ in range, infinities, zeros and signs
    if narrow == i1:
        return True
    if n.is_float:
        return w.precision >= n.precision and w.exponent >= n.exponent
    low, high = lowest(narrow), highest(narrow)
    if w.is_float:
        return max(-low, high + 1) <= 2**w.precision
    return wide != i1 and lowest(wide) <= low and highest(wide) >= high


def kept_by(value: SSAValue, other: SSAValue, neutral: Number, result: SSAValue) -> bool:
    """True if `result` of `value` and `other` is `value`: `other` is the neutral number and changes
    no shape."""
    if value.type != result.type:
        return False
    number = splat(other)
    return (
        number is not None
        and same_number(number, neutral)
        and broadcasts_into(shape_of(other), shape_of(value))
    )
