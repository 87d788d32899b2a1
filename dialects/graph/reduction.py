"""Reductions along axes, positions of extremes, and running sums and products."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, UnrankedTensorType, i1, i64
from xdsl.ir import Attribute
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
    TYPES,
    HasAxes,
    OneResultOp,
    distinct_axes,
    parameter,
    scalar_parameter,
    vector_parameter,
)
from ge.dialects.support.boxes import Box, Work
from ge.dialects.support.constraints import (
    COMPUTED,
    INDICES,
    INT,
    INTEGERS,
    INTS,
    NUMBERS,
    choice,
    choice_def,
)
from ge.dialects.support.tensor_op import Permuted, PermuteInterface, RowsInterface, SplitInterface
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    element_type,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
    tensor,
)

REDUCE_KINDS = (
    "sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square",
)  # fmt: skip
ReduceKind = choice("graph.reduce_kind", *REDUCE_KINDS)
ArgReduceKind = choice("graph.arg_reduce_kind", "max", "min")
CumulativeKind = choice("graph.cumulative_kind", "sum", "prod")


def reduced_shape(shape: Shape, axes: Sequence[int], keep_dims: bool) -> Shape:
    if keep_dims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


@irdl_op_definition
class ReduceOp(OneResultOp, RowsInterface, SplitInterface, PermuteInterface, HasAxes):
    """One value from all elements along `axes` (all axes when empty or absent).

    `kind`: `sum`, `mean`, `max` and `min` (of i1: or, and), `prod`, `l1` = sum |x|,
    `l2` = sqrt(sum x^2), `log_sum` = log(sum x), `log_sum_exp` = log(sum exp(x)) without overflow,
    `sum_square` = sum x^2. Nothing reduces to the neutral element: 0, nan for `mean`,
    1 for `prod`, the lowest and highest value for `max` and `min`, -inf for the logarithms.
    Integers wrap around; the mean of integers rounds toward zero.
    """

    name = "graph.reduce"
    AXES: ClassVar = ("axes",)
    kind = choice_def(ReduceKind)
    input = operand_def(COMPUTED)
    axes_value = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(COMPUTED.or_unranked())
    axes = opt_prop_def(INTS)
    keep_dims = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    PARAMETERS: ClassVar = {"axes_value": "axes"}
    assembly_format = f"$kind $input {parameter('axes')} {TYPES}"

    def row_axes(self) -> Collection[int] | None:
        return self.reduced_axes()

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return None if index else super().operand_box(index, box)

    def reduced_axes(self) -> tuple[int, ...] | None:
        """The axes that are reduced; None when they are known only at run time."""
        rank = len(shape_of(self.input))
        axes = self.ints("axes")
        if axes is None and self.axes_value is not None:
            return None
        return distinct_axes(axes, rank) if axes else tuple(range(rank))

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        axes = self.reduced_axes()
        if axes is None or self.axes_value is not None:
            return None
        params = {"axes": sorted(order.index(a) for a in axes)}
        if self.keep_dims.value.data:
            return Permuted((0,), order, params)
        rest = [i for i in range(len(order)) if i not in axes]
        return Permuted((0,), [rest.index(i) for i in order if i in rest], params)

    def infer(self) -> Sequence[Attribute]:
        element, shape = element_type(self.input), shape_of(self.input)
        if element == i1 and self.kind.data not in ("max", "min"):
            raise VerifyException(
                f'element type i1 has only kinds max and min, not "{self.kind.data}"'
            )
        keep_dims = bool(self.keep_dims.value.data)
        axes = self.reduced_axes()
        if axes is not None:
            return (tensor(reduced_shape(shape, axes, keep_dims), element),)
        count = vector_parameter(self, "axes")
        assert count is not None
        if count > len(shape):
            raise VerifyException(f"{count} axes are given for rank {len(shape)}")
        if keep_dims:
            return (tensor([DYNAMIC] * len(shape), element),)
        if count == DYNAMIC:
            return (UnrankedTensorType(element),)
        return (tensor([DYNAMIC] * (len(shape) - count if count else 0), element),)

    def static_work(self) -> Work:
        cost = {"log_sum_exp": 6, "l1": 2, "l2": 2, "sum_square": 2}.get(self.kind.data, 1)
        return Work(0, numel(shape_of(self.input)) * cost, *self.traffic())


@irdl_op_definition
class ArgReduceOp(OneResultOp, RowsInterface, HasAxes):
    """The position (i64) of the largest or smallest element along `axis`: the first of several
    equal ones, or the last with `select_last_index`. `kind` is `max` or `min`."""

    name = "graph.arg_reduce"
    kind = choice_def(ArgReduceKind)
    input = operand_def(COMPUTED)
    result = result_def(INDICES)
    axis = prop_def(INT, default_value=IntegerAttr(0, i64))
    keep_dims = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    select_last_index = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    assembly_format = f"$kind $input {TYPES}"

    def row_axes(self) -> Collection[int]:
        return (self.axis.value.data,)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        if not shape:
            raise VerifyException("a scalar has no axis to search along")
        axis = normalize_axis(self.axis.value.data, len(shape))
        if shape[axis] == 0:
            raise VerifyException(f"axis {axis} is empty: there is no extreme")
        return (tensor(reduced_shape(shape, (axis,), bool(self.keep_dims.value.data)), i64),)

    def static_work(self) -> Work:
        return Work(0, 2 * numel(shape_of(self.input)), *self.traffic())


@irdl_op_definition
class CumulativeOp(OneResultOp, RowsInterface, HasAxes):
    """The running sum or product along `axis`: y[i] = x[0] + ... + x[i], without x[i] when
    `exclusive`, from the end when `reverse`. `kind` is `sum` or `prod`."""

    name = "graph.cumulative"
    kind = choice_def(CumulativeKind)
    input = operand_def(NUMBERS)
    axis_value = opt_operand_def(INTEGERS)
    result = result_def(NUMBERS)
    axis = opt_prop_def(INT)
    exclusive = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    reverse = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    PARAMETERS: ClassVar = {"axis_value": "axis"}
    assembly_format = f"$kind $input {parameter('axis')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        scalar_parameter(self, "axis", "the axis is missing")
        for axis in self.ints("axis") or ():
            normalize_axis(axis, len(shape))
        return (self.input.type,)

    def row_axes(self) -> Collection[int] | None:
        axis = self.ints("axis")
        return None if axis is None else (normalize_axis(axis[0], rank_of(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """Along the axis the elements before the last one of the box, or after its first."""
        axes, shape = self.row_axes(), shape_of(self.input)
        if index or axes is None:
            return None
        (axis,), shift = axes, int(bool(self.exclusive.value.data))
        (begin, size), dim = box.spans[axis], shape[axis]
        if not isinstance(begin, int):
            return box.along(shape, axes)
        own = (0, begin + size - shift)
        if self.reverse.value.data:
            own = (begin + shift, dim - begin - shift)
        return Box.of([own if i == axis else s for i, s in enumerate(box.spans)])
