"""Quantization: floats as integers on a grid, or as floats of at most 8 bits: real value =
(stored value - zero point) * scale.

Scale and zero point have one of three granularities: one element for the whole tensor, one for
each index of `axis` (1-D), or one for each block of `block_size` elements along `axis` (rank of
the tensor, ceil(dim / block_size) elements along `axis`, the tensor's other dimensions).
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    GraphOp,
    HasAxes,
    OneResultOp,
    check_scalar,
    highest,
    lowest,
    optional,
)
from ge.dialects.support.boxes import Access, Box, blocks
from ge.dialects.support.constraints import (
    ANY,
    BYTES,
    ELEMENT,
    FLOATS,
    INT,
    QUANTIZED,
    ROUNDINGS,
    TensorOf,
    choice,
    choice_def,
)
from ge.dialects.support.element_types import is_float, ui8, ui16
from ge.dialects.support.tensor_op import Permuted, PermuteInterface, SplitInterface
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    agree,
    element_type,
    is_static,
    merge_dims,
    normalize_axis,
    numel,
    shape_of,
    shape_text,
    tensor,
)

STORAGE_TYPES = QUANTIZED.elements
"""The element types that hold quantized values."""

QUANTIZABLE = TensorOf([*FLOATS.elements, i32], "floats or i32")
DEQUANTIZED = TensorOf([*STORAGE_TYPES, i64], "quantized elements or i64")
REQUANTIZED = TensorOf([i8, ui8, i16, ui16, i32], "quantized integers")


def check_storage(t: Attribute) -> None:
    if t not in STORAGE_TYPES:
        known = ", ".join(str(s) for s in STORAGE_TYPES)
        raise VerifyException(f"a quantized element type is one of {known}, not {t}")


def check_axis(op: "Granular | RequantizeOp") -> Shape:
    """The shape of the result, for a scale with one element, or one for each index of `axis`."""
    shape, scale = shape_of(op.input), shape_of(op.scale)
    if is_static(scale) and numel(scale) == 1:
        return shape
    if len(scale) != 1:
        raise VerifyException(
            f"scale has one element, or one for each index of axis, not {shape_text(scale)}"
        )
    if op.axis is None:
        raise VerifyException(f"a scale of shape {shape_text(scale)} needs 'axis'")
    axis = normalize_axis(op.axis.value.data, len(shape))
    if not shape:
        raise VerifyException("a tensor of rank 0 has no axis")
    if scale[0] == DYNAMIC:  # may also turn out to have one element
        return shape
    text = f"scale has {scale[0]} elements for dimension {axis} of {shape_text(shape)}"
    dim = merge_dims(shape[axis], scale[0], text)
    return (*shape[:axis], dim, *shape[axis + 1 :])


def permuted_axis(axis: IntegerAttr | None, order: Sequence[int]) -> Permuted:
    if axis is None or not order:
        return Permuted((0,), order, {})
    return Permuted((0,), order, {"axis": order.index(axis.value.data)})


def parameter_box(op: "Granular | RequantizeOp", index: int, box: Box, block: int) -> Box:
    """The box of scale or zero point that a box of the result needs."""
    shape = shape_of(op.operands[index])
    if {*shape} <= {1} or op.axis is None:
        return Box.whole(shape)
    axis = op.axis.value.data
    span = blocks(box.spans[axis], max(block, 1))
    return Box.of([span if i == axis else s for i, s in enumerate(box.spans)] if block else [span])


class Granular(OneResultOp, PermuteInterface, SplitInterface, HasAxes, ABC):
    """Quantize and dequantize: the granularity of scale and zero point."""

    input = operand_def(DEQUANTIZED)  # each op has its own
    scale = operand_def(FLOATS)
    zero_point = opt_operand_def(QUANTIZED)
    axis = opt_prop_def(INT)
    block_size = prop_def(INT, default_value=IntegerAttr(0, i64))
    ACCESS: ClassVar = Access.POINTWISE
    IN_PLACE: ClassVar = (0,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return parameter_box(self, index, box, self.block_size.value.data) if index else box

    def check_granularity(self, storage: Attribute) -> Shape:
        """The shape of the result; VerifyException where scale or zero point do not fit."""
        check_storage(storage)
        shape = self.check_blocks() if self.block_size.value.data else check_axis(self)
        if self.zero_point is not None:
            self.check_zero_point(self.zero_point, storage)
        return shape

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        return None if self.block_size.value.data else permuted_axis(self.axis, order)

    def check_blocks(self) -> Shape:
        """The shape of the result, for a scale with one element for each block along `axis`."""
        shape, scale = shape_of(self.input), shape_of(self.scale)
        block = self.block_size.value.data
        if block < 0:
            raise VerifyException(f"block_size is positive, not {block}")
        if self.axis is None:
            raise VerifyException("'block_size' needs 'axis'")
        axis = normalize_axis(self.axis.value.data, len(shape))
        blocks = tuple(
            -(-d // block) if i == axis and d != DYNAMIC else d for i, d in enumerate(shape)
        )
        if not agree(scale, blocks):
            raise VerifyException(
                f"scale for blocks of {block} along dimension {axis} of {shape_text(shape)} has "
                f"shape {shape_text(blocks)}, not {shape_text(scale)}"
            )
        return shape

    def check_zero_point(self, zero_point: SSAValue, storage: Attribute) -> None:
        if element_type(zero_point) != storage:
            raise VerifyException(f"zero point is {storage}, not {element_type(zero_point)}")
        shape, scale = shape_of(zero_point), shape_of(self.scale)
        if is_static(shape) and is_static(scale) and numel(shape) == numel(scale) == 1:
            return
        if not agree(shape, scale):
            raise VerifyException(
                f"zero point has the shape of scale, {shape_text(scale)}, not {shape_text(shape)}"
            )


@irdl_op_definition
class QuantizeOp(Granular):
    """saturate(round(x / scale) + zero_point) as integer type `to`, ties to even, and its least
    number for nan, as by onnxruntime; saturate(x / scale + zero_point) as a float of at most 8
    bits, rounded once. Without `saturate` floats of 8 bits become infinite or nan out of range, as
    by graph.cast."""

    name = "graph.quantize"
    input = operand_def(QUANTIZABLE)
    result = result_def(QUANTIZED)
    to = prop_def(ELEMENT)
    saturate = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    VECTOR_COST: ClassVar = 5
    assembly_format = f"$input `,` $scale (`,` $zero_point^)? {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        if not self.saturate.value.data and not is_float(self.to):
            raise VerifyException(f"{self.to} always saturates")
        return (tensor(self.check_granularity(self.to), self.to),)


@irdl_op_definition
class DequantizeOp(Granular):
    """(x - zero_point) * scale as float type `to`, by default the element type of `scale`. Sums of
    products of 16-bit integers, i64, have no zero point."""

    name = "graph.dequantize"
    input = operand_def(DEQUANTIZED)
    result = result_def(FLOATS)
    to = opt_prop_def(ELEMENT)
    VECTOR_COST: ClassVar = 3
    assembly_format = f"$input `,` $scale (`,` $zero_point^)? {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        t = element_type(self.input)
        if t == i64 and self.zero_point is not None:
            raise VerifyException("sums of i64 have no zero point")
        shape = self.check_granularity(i32 if t == i64 else t)
        to = element_type(self.scale) if self.to is None else self.to
        if to not in FLOATS.elements:
            raise VerifyException(f"element type {to} is not supported; dequantize to a float")
        return (tensor(shape, to),)


Rounding = choice("graph.rounding", *ROUNDINGS)


@irdl_op_definition
class RequantizeOp(OneResultOp, PermuteInterface, SplitInterface, HasAxes):
    """saturate(round((x - offset) * scale) + zero_point) as element type `to`, in integers: each
    scale, m * 2^e with 0.5 <= m < 1, is a multiplier M = round(m * 2^31) and a shift 31 - e.
    With d = x - offset, saturated to 32 bits, `rounding` is

    - `half_even`: d * M / 2^shift, rounded once, ties to even;
    - `tflite`: as TensorFlow Lite, rounded twice: d * 2^max(e, 0), saturated to 32 bits, times
      M / 2^31 with ties toward +infinity, then divided by 2^max(-e, 0) with ties away from zero;
    - `power_of_two`: M is 2^30, and e is one more where m >= 0.75; ties toward +infinity;
    - `float32`: no integers, but d and the scale as float32, their product rounded to float32 and
      then to an integer, ties to even: units with a float scale on the way out, and onnxruntime.

    A scale that is not finite counts as 0. Results are limited to `low` and `high`, which are
    numbers of type `to`, its own limits where absent: a relu between is low = zero_point. `offset`
    and `zero_point` have one element; scale has one, or one for each index of `axis`."""

    name = "graph.requantize"
    input = operand_def(REQUANTIZED)
    scale = operand_def(FLOATS)
    offset = opt_operand_def(REQUANTIZED)
    zero_point = opt_operand_def(REQUANTIZED)
    result = result_def(QUANTIZED)
    to = prop_def(ELEMENT)
    axis = opt_prop_def(INT)
    rounding = choice_def(Rounding, "half_even")
    low = opt_prop_def(INT)
    high = opt_prop_def(INT)
    irdl_options = SEGMENTED
    ACCESS: ClassVar = Access.POINTWISE
    IN_PLACE: ClassVar = (0,)
    VECTOR_COST: ClassVar = 5
    assembly_format = f"$input `,` $scale {optional('offset', 'zero_point')} {TYPES}"

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return parameter_box(self, index, box, 0) if index else box

    def limits(self) -> tuple[int, int]:
        """The least and the largest result."""
        low, high = int(lowest(self.to)), int(highest(self.to))
        return (
            low if self.low is None else self.low.value.data,
            high if self.high is None else self.high.value.data,
        )

    def infer(self) -> Sequence[Attribute]:
        source = element_type(self.input)
        check_storage(self.to)
        if is_float(self.to):
            raise VerifyException(f"element type {self.to} is not supported; quantize to it")
        for name, value, element in (
            ("offset", self.offset, source),
            ("zero point", self.zero_point, self.to),
        ):
            if value is not None and element_type(value) != element:
                raise VerifyException(f"{name} is {element}, not {element_type(value)}")
            if value is not None:
                check_scalar(value, name)
        low, high = self.limits()
        if not lowest(self.to) <= low <= high <= highest(self.to):
            raise VerifyException(f"limits {low} and {high} are not limits within {self.to}")
        return (tensor(check_axis(self), self.to),)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        return permuted_axis(self.axis, order)


@irdl_op_definition
class LookupOp(OneResultOp, PermuteInterface, SplitInterface):
    """table[x - the least number of x's type]: any function of integers of 8 bits, which has an
    element of the table for each of them."""

    name = "graph.lookup"
    input = operand_def(BYTES)
    table = operand_def(ANY)
    ACCESS: ClassVar = Access.POINTWISE
    IN_PLACE: ClassVar = (0,)
    VECTOR_COST: ClassVar = 8  # assumption: a gather on a core takes 16 elements a cycle
    assembly_format = f"$input `,` $table {TYPES}"

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return Box.whole(shape_of(self.table)) if index else box

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        return Permuted((0,), order, {})

    def infer(self) -> Sequence[Attribute]:
        if (shape := shape_of(self.table)) != (1, 256) and not agree(shape, (256,)):  # a tile
            raise VerifyException(f"a table has shape [256], not {shape_text(shape)}")
        return (tensor(shape_of(self.input), element_type(self.table)),)


@irdl_op_definition
class DynamicQuantizeOp(GraphOp):
    """ui8 values, scale and zero point from the tensor itself: with lo = min(x, 0), hi = max(x, 0)
    over all elements scale = (hi - lo) / 255 (1 when that is 0), zero_point = round(-lo / scale),
    and the values are those of graph.quantize."""

    name = "graph.dynamic_quantize"
    input = operand_def(FLOATS)
    result = result_def(BYTES)
    scale = result_def(FLOATS.of_rank(0))
    zero_point = result_def(BYTES.of_rank(0))
    VECTOR_COST: ClassVar = 7
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        t = element_type(self.input)
        return (tensor(shape_of(self.input), ui8), tensor((), t), tensor((), ui8))
