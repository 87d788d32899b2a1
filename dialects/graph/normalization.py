"""Softmax and its kin, and the normalizations: values brought to a common scale along some axes."""

from abc import ABC
from collections.abc import Collection, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    TYPES,
    HasAxes,
    OneResultOp,
    check_broadcast_to,
)
from ge.dialects.support.boxes import Access, Box, Rows, in_blocks, rows_along
from ge.dialects.support.constraints import (
    COUNT,
    FLOATS,
    INT,
    NOT_NEGATIVE,
)
from ge.dialects.support.tensor_op import Permuted, PermuteInterface, RowsInterface, SplitInterface
from ge.dialects.support.types import (
    DYNAMIC,
    element_type,
    merge_dims,
    normalize_axis,
    rank_of,
    shape_of,
    shape_text,
    tensor,
)


def axis_of(axis: int, value: SSAValue) -> int:
    if rank_of(value) == 0:
        raise VerifyException("a tensor of rank 0 has no axis")
    return normalize_axis(axis, rank_of(value))


# ---- softmax -----------------------------------------------------------------------------------


class SoftmaxLike(OneResultOp, RowsInterface, SplitInterface, PermuteInterface, HasAxes, ABC):
    """One distribution along `axis`, or with `flatten` over `axis` and all axes after it."""

    input = operand_def(FLOATS)
    result = result_def(FLOATS)
    axis = prop_def(INT, default_value=IntegerAttr(-1, i64))
    flatten = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    VECTOR_COST: ClassVar = 8
    assembly_format = f"$input {TYPES}"

    def row_axes(self) -> Collection[int]:
        axis = axis_of(self.axis.value.data, self.input)
        return range(axis, rank_of(self.input)) if self.flatten.value.data else (axis,)

    def is_same_op(self, axis: int) -> bool:
        return axis not in self.row_axes()

    def infer(self) -> Sequence[Attribute]:
        axis_of(self.axis.value.data, self.input)
        return (self.input.type,)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        if self.flatten.value.data:
            return None
        axis = order.index(axis_of(self.axis.value.data, self.input))
        return Permuted((0,), order, {"axis": axis})


@irdl_op_definition
class SoftmaxOp(SoftmaxLike):
    """exp(x - max x) / sum(exp(x - max x)); nan where all of a row is -inf."""

    name = "graph.softmax"
    ROUNDED_ONCE: ClassVar = 1


@irdl_op_definition
class LogSoftmaxOp(SoftmaxLike):
    """x - max x - log(sum(exp(x - max x)))"""

    name = "graph.log_softmax"


@irdl_op_definition
class HardmaxOp(SoftmaxLike):
    """1 at the first of the largest elements, else 0."""

    name = "graph.hardmax"
    VECTOR_COST: ClassVar = 3


# ---- normalization over trailing axes ----------------------------------------------------------


class TrailingNorm(OneResultOp, RowsInterface, SplitInterface, HasAxes, ABC):
    """Statistics over `axis` and all axes after it; scale and bias broadcast to the input. They may
    be of another float element type: results are rounded once, at the end."""

    input = operand_def(FLOATS)
    scale = operand_def(FLOATS)
    result = result_def(FLOATS)
    axis = prop_def(INT, default_value=IntegerAttr(-1, i64))
    epsilon = prop_def(NOT_NEGATIVE, default_value=FloatAttr(1e-5, 64))
    VECTOR_COST: ClassVar = 6
    NORMALIZES: ClassVar = True
    ROUNDED_ONCE: ClassVar = 1

    def row_axes(self) -> Collection[int]:
        return range(axis_of(self.axis.value.data, self.input), rank_of(self.input))

    def is_same_op(self, axis: int) -> bool:
        return axis not in self.row_axes()

    def infer(self) -> Sequence[Attribute]:
        axis_of(self.axis.value.data, self.input)
        for value, name in zip(self.operands[1:], ("scale", "bias"), strict=False):
            check_broadcast_to(shape_of(value), shape_of(self.input), name)
        return (self.input.type,)


@irdl_op_definition
class LayerNormOp(TrailingNorm):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with the population's variance
    (Ba, Kiros and Hinton, arXiv 1607.06450)."""

    name = "graph.layer_norm"
    # Operands of a base class come last unless they are repeated.
    input = operand_def(FLOATS)
    scale = operand_def(FLOATS)
    bias = opt_operand_def(FLOATS)
    assembly_format = f"$input `,` $scale (`,` $bias^)? {TYPES}"


@irdl_op_definition
class RmsNormOp(TrailingNorm):
    """x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich, arXiv 1910.07467)."""

    name = "graph.rms_norm"
    VECTOR_COST: ClassVar = 4
    assembly_format = f"$input `,` $scale {TYPES}"


# ---- normalization by channel ------------------------------------------------------------------


def check_channels(input: SSAValue, **parameters: SSAValue) -> int:
    """The number of channels (dimension 1) of the input: each parameter has so many elements."""
    shape = shape_of(input)
    if len(shape) < 2:
        raise VerifyException(f"the input has batch and channels first, not {shape_text(shape)}")
    channels = shape[1]
    for name, value in parameters.items():
        (size,) = shape_of(value)
        text = f"{name} has {size} elements for {channels} channels"
        channels = merge_dims(channels, size, text)
    return channels


@irdl_op_definition
class GroupNormOp(OneResultOp, RowsInterface, SplitInterface):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias for x of shape [batch, channels, ...]:
    statistics over each of `groups` equal runs of channels, scale and bias by channel
    (Wu and He, arXiv 1803.08494). As many groups as channels make instance normalization."""

    name = "graph.group_norm"
    input = operand_def(FLOATS)
    scale = operand_def(FLOATS.of_rank(1))
    bias = operand_def(FLOATS.of_rank(1))
    result = result_def(FLOATS)
    groups = prop_def(COUNT)
    epsilon = prop_def(NOT_NEGATIVE, default_value=FloatAttr(1e-5, 64))
    VECTOR_COST: ClassVar = 6
    NORMALIZES: ClassVar = True
    ROUNDED_ONCE: ClassVar = 1
    assembly_format = f"$input `,` $scale `,` $bias {TYPES}"

    def rows(self) -> Rows:
        batch, channels, *rest = shape_of(self.input)
        groups = self.groups.value.data
        size = DYNAMIC if channels == DYNAMIC else channels // groups
        return rows_along((batch, groups, size, *rest), range(2, 3 + len(rest)))

    def row_axes(self) -> Collection[int]:
        return range(1, rank_of(self.input))

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        batch, channels = box.spans[:2]
        if index:
            return Box.of([channels])
        shape = shape_of(self.input)
        size = shape[1] // self.groups.value.data
        return Box.part(shape, {0: batch, 1: in_blocks(channels, size)})

    def is_same_op(self, axis: int) -> bool:
        """True for parts of the batch: a part of the channels has fewer groups."""
        return axis == 0

    def infer(self) -> Sequence[Attribute]:
        channels = check_channels(self.input, scale=self.scale, bias=self.bias)
        groups = self.groups.value.data
        if channels != DYNAMIC and channels % groups:
            raise VerifyException(f"{channels} channels do not make {groups} equal groups")
        shape = shape_of(self.input)
        return (tensor((shape[0], channels, *shape[2:]), element_type(self.input)),)


@irdl_op_definition
class BatchNormOp(OneResultOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias with given statistics, all four
    vectors by channel (dimension 1) (Ioffe and Szegedy, arXiv 1502.03167)."""

    name = "graph.batch_norm"
    input = operand_def(FLOATS)
    scale = operand_def(FLOATS.of_rank(1))
    bias = operand_def(FLOATS.of_rank(1))
    mean = operand_def(FLOATS.of_rank(1))
    variance = operand_def(FLOATS.of_rank(1))
    result = result_def(FLOATS)
    epsilon = prop_def(NOT_NEGATIVE, default_value=FloatAttr(1e-5, 64))
    ACCESS: ClassVar = Access.POINTWISE
    IN_PLACE: ClassVar = (0,)
    VECTOR_COST: ClassVar = 2
    assembly_format = f"$input `,` $scale `,` $bias `,` $mean `,` $variance {TYPES}"

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return Box.of(box.spans[1:2]) if index else box

    def infer(self) -> Sequence[Attribute]:
        channels = check_channels(
            self.input, scale=self.scale, bias=self.bias, mean=self.mean, variance=self.variance
        )
        shape = shape_of(self.input)
        return (tensor((shape[0], channels, *shape[2:]), element_type(self.input)),)
