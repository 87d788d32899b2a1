"""Numbers in the assembly of the `tile` dialect, `-inf` and `nan` among them."""

from math import inf, isinf, isnan, nan
from typing import TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, f64
from xdsl.ir import Attribute
from xdsl.parser import Parser

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.element_types import is_float

Number: TypeAlias = int | float


def number_attr(value: Number, element: Attribute) -> Attribute:
    """The attribute of a number that elements of this type become."""
    if is_float(element) or isinstance(value, float):
        return FloatAttr(float(value), f64)
    return number(value)


def number_of(attr: Attribute) -> Number:
    if isinstance(attr, FloatAttr):
        return cast("FloatAttr[AnyFloat]", attr).value.data
    return cast(IntegerAttr, attr).value.data


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
