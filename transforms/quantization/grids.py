"""Grids: the scale and zero point of quantized values, and what rules ask of them."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, f64, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.linear import SMALL_FLOATS
from ge.dialects.graph.quantization import DequantizeOp, Granular, QuantizeOp
from ge.dialects.graph.support.parameters import splat
from ge.dialects.support.element_types import is_float, ui8, ui16
from ge.dialects.support.types import (
    DYNAMIC,
    constant_value,
    element_type,
    is_static,
    numel,
    shape_of,
)
from ge.runtime.data.arrays import Array, array_of
from ge.transforms.graph.canonical.linear_maps import as_type, is_prepared, shaped
from ge.transforms.rewriting.building import Make

INTEGERS = i8, ui8, i16, ui16  # that are multiplied


class Refused(Exception):
    """Raised with the reason, for people, why an op is not changed."""


def known(value: SSAValue) -> Array | None:
    """The elements of a constant in the IR."""
    attr = constant_value(value)
    return None if attr is None else array_of(attr)


def has_one_element(value: SSAValue) -> bool:
    shape = shape_of(value)
    return is_static(shape) and numel(shape) == 1


def scalar(make: Make, value: SSAValue) -> SSAValue:
    """A value of one element as a tensor of rank 0."""
    return shaped(make, value, ())


def as_scale(make: Make, value: SSAValue) -> SSAValue:
    """A scale as its products are computed: those of half precision would be subnormal in it."""
    return value if element_type(value) in (f32, f64) else as_type(make, value, f32)


@dataclass(frozen=True, slots=True)
class Grid:
    """Scale, zero point, and the axis that they are along: None for one element."""

    scale: SSAValue
    zero_point: SSAValue | None
    axis: int | None

    @staticmethod
    def of(op: Granular, floats: bool = False) -> "Grid | None":
        """The grid of a quantize or dequantize; None for blocks, and for floats of 8 bits unless
        `floats`."""
        storage = op.to if isinstance(op, QuantizeOp) else element_type(op.input)
        if op.block_size.value.data or is_float(storage) != floats:
            return None
        if has_one_element(op.scale):
            return Grid(op.scale, op.zero_point, None)
        if op.axis is None:
            return None
        return Grid(op.scale, op.zero_point, op.axis.value.data)

    @property
    def is_prepared(self) -> bool:
        """Return whether scale and zero point depend on constants alone."""
        return all(is_prepared(v) for v in (self.scale, self.zero_point) if v is not None)

    @property
    def zeros(self) -> Array | None:
        """The zero points, None if they are known only when weights are loaded."""
        return np.zeros((), np.int8) if self.zero_point is None else known(self.zero_point)

    @property
    def zero(self) -> int | None:
        """The zero point that all elements have, None if it is not known."""
        zeros = self.zeros
        if zeros is None or not zeros.size or (zeros != zeros.flat[0]).any():
            return None
        return int(zeros.flat[0])

    @property
    def is_normal(self) -> bool:
        """Return whether scales are normal numbers, as far as they are known. Those of weights may
        be negative, where a batch norm turns signs."""
        scale = known(self.scale)
        if scale is None:
            return True
        wide = np.abs(scale.astype(np.float64))
        return bool((np.isfinite(wide) & (wide >= np.finfo(np.float32).tiny)).all())

    @property
    def is_positive(self) -> bool:
        """Return whether scales are known to be positive: order is kept."""
        scale = known(self.scale)
        return scale is not None and self.is_normal and bool((scale > 0).all())

    def equals(self, other: "Grid") -> bool:
        """Return whether both surely have the same scale and zero point."""
        return (
            self.axis == other.axis
            and same_elements(self.scale, other.scale)
            and (self.zero == other.zero is not None or self.zero_point is other.zero_point)
        )


def same_elements(a: SSAValue, b: SSAValue) -> bool:
    """Return whether two values of constants surely hold the same numbers."""
    if a is b:
        return True
    x, y = known(a), known(b)
    if x is None or y is None or x.dtype != y.dtype or x.size != y.size:
        return False
    return bool((x.reshape(-1) == y.reshape(-1)).all())


def computed_scale(op: DequantizeOp) -> SSAValue | None:
    """The scale of a dequantize without zero point, if it is known only at run time, and has one
    element for the tensor, for each row, or for each sample."""
    if is_prepared(op.scale) or (op.zero_point is not None and splat(op.zero_point) != 0):
        return None
    block, shape = op.block_size.value.data, shape_of(op.input)
    if op.axis is None or (not block and has_one_element(op.scale)):
        return op.scale
    axis = op.axis.value.data
    if not block:
        return op.scale if axis == 0 else None
    return op.scale if axis == len(shape) - 1 and block >= shape[-1] != DYNAMIC else None


@dataclass(frozen=True, slots=True)
class Quantized:
    """Integers and their grid, that a dequantize turns into floats."""

    values: SSAValue
    grid: Grid
    op: DequantizeOp
    factor: SSAValue | None = None  # a scale that is known only at run time

    @staticmethod
    def of(value: SSAValue, what: str, floats: bool = False) -> "Quantized":
        """The integers of 8 or 16 bits that an operand of a layer is, or its floats of 8 bits.
        Raises Refused."""
        op = value.owner
        if not isinstance(op, DequantizeOp):
            raise Refused(f"its {what} is not quantized")
        if (t := element_type(op.input)) not in (SMALL_FLOATS if floats else INTEGERS):
            raise Refused(f"its {what} is quantized to {t}")
        if (scale := computed_scale(op)) is not None:
            return Quantized(op.input, Grid(scale, None, None), op, scale)
        if (grid := Grid.of(op, floats)) is None:
            raise Refused(f"its {what} has a scale for each block")
        if not grid.is_prepared:
            raise Refused(f"the scale of its {what} is known only at run time")
        if not grid.is_normal:
            raise Refused(f"the scale of its {what} is not a normal number")
        return Quantized(op.input, grid, op)

    @property
    def has_rows(self) -> bool:
        """Return whether the factor has one element for each row."""
        return self.op.block_size.value.data > 0

    @property
    def is_weight(self) -> bool:
        return is_prepared(self.values)

    def check_symmetric(self, what: str) -> None:
        """Raises Refused for zero points other than 0, and 128 of unsigned integers."""
        zero = self.grid.zero
        if zero is None:
            raise Refused(f"its {what} has zero points that differ or are not known yet")
        if zero and not (zero == 128 and element_type(self.values) == ui8):
            raise Refused(f"its {what} has zero point {zero}")

    def symmetric(self, make: Make) -> SSAValue:
        """The integers less a zero point that `check_symmetric` accepts."""
        if not self.grid.zero:
            return self.values
        offset = make.splat(128, i32)
        return as_type(make, make(g.SubOp, as_type(make, self.values, i32), offset), i8)


def dequantized(
    make: Make, values: SSAValue, scale: SSAValue, axis: int, element: Attribute,
    factor: SSAValue | None = None,
) -> SSAValue:  # fmt: skip
    """Sums of products as floats of an element type, times a factor."""
    along = None if has_one_element(scale) else axis
    floats = make(DequantizeOp, values, scale, axis=along)
    if factor is not None:
        floats = make(g.MulOp, floats, as_type(make, factor, element_type(floats)))
    return as_type(make, floats, element)
