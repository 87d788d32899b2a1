"""Numbers of constants whose elements are all equal, and how near two of them must be."""

import math
from functools import lru_cache

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, SSAValue

from ge.dialects.support.element_types import is_narrow, row_of
from ge.dialects.support.types import constant_value
from ge.runtime.data.arrays import array_of


def number_of(value: SSAValue) -> float | None:
    """The number of a splat constant in the IR; None where it is nan, which equals no number."""
    attr = constant_value(value)
    return None if attr is None else splat_number(attr)


@lru_cache(maxsize=4096)
def splat_number(attr: DenseIntOrFPElementsAttr) -> float | None:
    """The number that all elements are; None where they differ, or it is nan."""
    elements = array_of(attr)
    if elements.size == 0 or elements.dtype.kind == "b":
        return None
    first = elements.flat[0]
    if elements.size > 1 and any(elements.strides) and not (elements == first).all():
        return None
    return None if math.isnan(number := float(first)) else number


def tolerance(element: Attribute) -> float:
    """How far, relative to it, a constant of an element type may be off the number it stands
    for. Exporters round to the type, and for f32 write seven digits, which is 4 ULPs; such a
    constant in f64 is another number, as all its digits count."""
    row = row_of(element)
    precision = row.precision if row is not None and row.is_float else 24
    return 2.0 ** (1 - precision) if is_narrow(element) else 2.0 ** (3 - precision)


def near(a: float, b: float, relative: float) -> bool:
    return a == b or abs(a - b) <= relative * max(abs(a), abs(b)) < math.inf
