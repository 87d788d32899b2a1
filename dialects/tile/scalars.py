"""Numbers in the assembly of the `tile` dialect, `-inf` and `nan` among them."""

from functools import lru_cache
from math import inf, isinf, isnan, nan
from typing import TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat, Float64Type, FloatAttr, IntegerAttr, f64
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.element_types import is_float, row_of

Number: TypeAlias = int | float


def number_attr(value: Number, element: Attribute) -> Attribute:
    """The attribute of a number that elements of this type become."""
    if is_float(element) or isinstance(value, float):
        return _float_attr(float(value).hex())
    return number(value)


@lru_cache(maxsize=4096)
def _float_attr(text: str) -> FloatAttr[Float64Type]:
    """Of a number as its bits are: 0.0 and -0.0 are two; equal ones are one attribute."""
    return FloatAttr(float.fromhex(text), f64)


def number_of(attr: Attribute) -> Number:
    if isinstance(attr, FloatAttr):
        return cast("FloatAttr[AnyFloat]", attr).value.data
    return cast(IntegerAttr, attr).value.data


def zero_of(element: Attribute) -> Number:
    """The 0 that elements of a type can be."""
    row = row_of(element)
    return 0.0 if row is None or row.is_float else 0


def is_number(attr: Attribute) -> bool:
    return isinstance(attr, FloatAttr | IntegerAttr)


def check_number(attr: Attribute, element: Attribute) -> None:
    """Raises VerifyException for a number that no element of this type is."""
    if not is_number(attr):
        raise VerifyException(f"expected a number, got {attr}")
    row = row_of(element)
    if row is None or row.is_float:
        return
    value = number_of(attr)
    low = -(2 ** (row.bits - 1)) if row.is_signed and row.bits > 1 else 0
    if not isinstance(value, int) or not low <= value < low + 2**row.bits:
        raise VerifyException(f"{scalar_text(attr)} is no {element}")


def parse_scalar(parser: Parser) -> Number:
    """An integer, a float, `inf` or `nan`, with a sign or without."""
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    if parser.parse_optional_keyword("inf"):
        return sign * inf
    if parser.parse_optional_keyword("nan"):
        return nan
    return sign * parser.parse_number()


def scalar_text(attr: Attribute) -> str:
    """What `parse_scalar` reads as the same number."""
    value = number_of(attr)
    if isinstance(value, float) and (isinf(value) or isnan(value)):
        return str(value)
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")  # MLIR's floats have a point
