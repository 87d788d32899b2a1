"""Elements picked and placed by index or condition: gather, scatter, one-hot, top-k and such."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, UnrankedTensorType, i64
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
    TYPES,
    Elements,
    HasAxes,
    Movement,
    OneResultOp,
    ShapeComputation,
    check_length,
    check_parameter,
    check_same_element,
    check_scalar,
    element_axis,
    elements_of,
    parameter,
    scalar_parameter,
)
from ge.dialects.support.boxes import Access, Box, Work
from ge.dialects.support.constraints import (
    ANY,
    COMPUTED,
    INDICES,
    INT,
    INTEGERS,
    NUMBERS,
    TRUTHS,
    choice,
    choice_def,
)
from ge.dialects.support.element_types import check_computed
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    byte_size,
    constant_ints,
    element_type,
    is_static,
    merge_dims,
    numel,
    rank_of,
    shape_of,
    shape_text,
    tensor,
)

ZERO = IntegerAttr(0, i64)


def merge_shapes(a: Shape, b: Shape, names: str) -> Shape:
    """Merge two shapes of one value. Raises VerifyException where they differ."""
    if a == b:
        return a
    text = f"shapes of {names} differ: {shape_text(a)} and {shape_text(b)}"
    if len(a) != len(b):
        raise VerifyException(text)
    return tuple(merge_dims(x, y, text) for x, y in zip(a, b, strict=True))


# ---- gather ----------------------------------------------------------------------------------


class Picking(Movement, OneResultOp, ABC):
    """Ops that pick elements by indices; negative indices count from the end."""

    ACCESS: ClassVar = Access.LOOKUP
    TAKES_INDICES: ClassVar = True
    input = operand_def(ANY)
    indices = operand_def(INTEGERS)
    assembly_format = f"$input `,` $indices {TYPES}"

    @abstractmethod
    def indexed_axes(self) -> Collection[int]:
        """The axes of the input that indices are along."""


@irdl_op_definition
class GatherOp(Picking, ShapeComputation, HasAxes):
    """The slices of `axis` that the indices name: numpy's take. The dimensions of the indices
    stand in the result where `axis` was."""

    name = "graph.gather"
    axis = prop_def(INT, default_value=ZERO)

    def can_fail(self) -> bool:
        known, size = constant_ints(self.indices), shape_of(self.input)[self.axis.value.data]
        inside = known is not None and all(-size <= i < size for i in known)
        return not (inside and is_static(shape_of(self.input)))

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        axis = element_axis(self.axis.value.data, len(shape))
        result = (*shape[:axis], *shape_of(self.indices), *shape[axis + 1 :])
        return (tensor(result, element_type(self.input)),)

    def indexed_axes(self) -> Collection[int]:
        return (self.axis.value.data,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape, rank = shape_of(self.input), rank_of(self.indices)
        axis = self.axis.value.data
        before, own, after = (
            box.spans[:axis],
            box.spans[axis : axis + rank],
            box.spans[axis + rank :],
        )
        return Box.of(own if index else [*before, (0, shape[axis]), *after])

    def elements(self, steps: int) -> Elements | None:
        if rank_of(self.input) != 1:
            return None
        known, indices = elements_of(self.input, steps), elements_of(self.indices, steps)
        if known is None or indices is None:
            return None
        inside = range(-len(known), len(known))
        return tuple(known[i] if i is not None and i in inside else None for i in indices)


@irdl_op_definition
class GatherElementsOp(Picking, HasAxes):
    """result[i, j, ...] = input[i, indices[i, j, ...], ...] with the index at `axis`: numpy's
    take_along_axis. Other dimensions of the indices may be smaller than the input's."""

    name = "graph.gather_elements"
    axis = prop_def(INT, default_value=ZERO)

    def infer(self) -> Sequence[Attribute]:
        axis = element_axis(self.axis.value.data, rank_of(self.input))
        check_inside(shape_of(self.indices), shape_of(self.input), axis)
        return (tensor(shape_of(self.indices), element_type(self.input)),)

    def indexed_axes(self) -> Collection[int]:
        return (self.axis.value.data,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = self.axis.value.data
        return box if index else box.along(shape_of(self.input), (axis,))


def from_front(indices: SSAValue | None) -> bool:
    """True if indices are known not to count from the end."""
    known = () if indices is None else constant_ints(indices)
    return known is not None and min(known, default=0) >= 0


def check_inside(indices: Shape, shape: Shape, axis: int) -> None:
    """Indices do not go beyond the input in a dimension other than `axis`."""
    if len(indices) != len(shape):
        raise VerifyException(f"ranks of input and indices differ: {len(shape)} and {len(indices)}")
    for i, (d, limit) in enumerate(zip(indices, shape, strict=True)):
        if i != axis and DYNAMIC not in (d, limit) and d > limit:
            raise VerifyException(f"dimension {i} of the indices is {d}, of the input only {limit}")


@irdl_op_definition
class GatherNdOp(Picking):
    """Slices of the input named by vectors of indices (the last dimension of `indices`), apart
    for each place in the first `batch_dims` dimensions, which both operands share."""

    name = "graph.gather_nd"
    result = result_def(ANY.or_unranked())
    batch_dims = prop_def(INT, default_value=ZERO)
    assembly_format = f"$input `,` $indices {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, indices = shape_of(self.input), shape_of(self.indices)
        batch, element = self.batch_dims.value.data, element_type(self.input)
        if not 0 <= batch < min(len(shape), len(indices)):
            raise VerifyException(f"batch_dims {batch} is out of range for {self.indices.type}")
        common = merge_shapes(shape[:batch], indices[:batch], "batches")
        if (depth := indices[-1]) == DYNAMIC:
            return (UnrankedTensorType(element),)
        check_depth(depth, len(shape) - batch)
        return (tensor((*common, *indices[batch:-1], *shape[batch + depth :]), element),)

    def indexed_axes(self) -> Collection[int]:
        batch = self.batch_dims.value.data
        return range(batch, batch + shape_of(self.indices)[-1])

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape, indices = shape_of(self.input), shape_of(self.indices)
        batch, depth, places = self.batch_dims.value.data, indices[-1], len(indices) - 1
        if index:
            return Box.of([*box.spans[:places], (0, depth)])
        slices = enumerate(box.spans[places:], batch + depth)
        return Box.part(shape, dict([*enumerate(box.spans[:batch]), *slices]))


def check_depth(depth: int, rank: int) -> None:
    if not 1 <= depth <= rank:
        raise VerifyException(f"vectors of {depth} indices do not fit {rank} dimensions")


# ---- scatter ---------------------------------------------------------------------------------


ScatterReduction = choice("graph.scatter_reduction", "none", "add", "mul", "max", "min")


class Placing(Movement, OneResultOp, ABC):
    """Ops that put updates into a copy of the input; negative indices count from the end.
    `reduction` combines them with the elements there; with `none` the last of several updates of
    one element wins."""

    ACCESS: ClassVar = Access.WHOLE
    IN_PLACE: ClassVar = (0,)
    TAKES_INDICES: ClassVar = True
    input = operand_def(ANY)
    indices = operand_def(INTEGERS)
    updates = operand_def(ANY)
    reduction = choice_def(ScatterReduction, "none")
    assembly_format = f"$input `,` $indices `,` $updates {TYPES}"

    @abstractmethod
    def indexed_axes(self) -> Collection[int]:
        """The axes of the input that indices are along."""

    def counts_size(self, axis: int, result: int = 0) -> bool:
        return axis in self.indexed_axes() and not from_front(self.indices)

    def index_operands(self) -> Sequence[SSAValue]:
        return (self.indices,)

    def check_elements(self) -> None:
        check_same_element(self.input, self.updates)
        if self.reduction.data != "none":
            check_computed(element_type(self.input))

    def static_work(self) -> Work:
        elements = numel(shape_of(self.result)) + numel(shape_of(self.updates))
        return Work(0, elements, *self.traffic())


@irdl_op_definition
class ScatterElementsOp(Placing, HasAxes):
    """A copy of the input in which result[i, indices[i, j, ...], ...] = updates[i, j, ...] with
    the index at `axis`."""

    name = "graph.scatter_elements"
    axis = prop_def(INT, default_value=ZERO)
    assembly_format = f"$input `,` $indices `,` $updates {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        self.check_elements()
        axis = element_axis(self.axis.value.data, rank_of(self.input))
        check_inside(shape_of(self.indices), shape_of(self.input), axis)
        merge_shapes(shape_of(self.indices), shape_of(self.updates), "indices and updates")
        return (self.input.type,)

    def indexed_axes(self) -> Collection[int]:
        return (self.axis.value.data,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = self.axis.value.data
        return box.along(shape_of(self.operands[index]), (axis,)) if index else box


@irdl_op_definition
class ScatterNdOp(Placing):
    """A copy of the input in which the slice at each vector of indices (the last dimension of
    `indices`) is replaced by (combined with) a slice of the updates."""

    name = "graph.scatter_nd"

    def infer(self) -> Sequence[Attribute]:
        self.check_elements()
        shape, indices = shape_of(self.input), shape_of(self.indices)
        if not indices:
            raise VerifyException("indices are vectors of indices, not a scalar")
        if (depth := indices[-1]) != DYNAMIC:
            check_depth(depth, len(shape))
            expected = (*indices[:-1], *shape[depth:])
            merge_shapes(expected, shape_of(self.updates), "slices and updates")
        return (self.input.type,)

    def indexed_axes(self) -> Collection[int]:
        return range(shape_of(self.indices)[-1])

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape, depth = shape_of(self.operands[index]), shape_of(self.indices)[-1]
        slices = box.spans[depth:] if index == 2 else []
        own = dict(enumerate(slices, len(shape) - len(slices)))
        return Box.part(shape, own) if index else box


WriteMode = choice("graph.write_mode", "linear", "circular")


@irdl_op_definition
class TensorScatterOp(Movement, OneResultOp, HasAxes):
    """A copy of `input` (a cache: batch first) in which `updates` stand on `axis` from
    write_indices[b] on (0 when absent). `mode` `circular` goes on at the begin after the end;
    `linear` must not come to it."""

    ACCESS: ClassVar = Access.WHOLE
    IN_PLACE: ClassVar = (0,)
    TAKES_INDICES: ClassVar = True
    name = "graph.tensor_scatter"
    input = operand_def(COMPUTED)
    updates = operand_def(COMPUTED)
    write_indices = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(COMPUTED)
    axis = prop_def(INT, default_value=IntegerAttr(-2, i64))
    mode = choice_def(WriteMode, "linear")
    assembly_format = f"$input `,` $updates (`at` $write_indices^)? {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_same_element(self.input, self.updates)
        shape, updates = shape_of(self.input), shape_of(self.updates)
        axis = element_axis(self.axis.value.data, len(shape))
        if axis == 0:
            raise VerifyException("axis 0 is the batch")
        if len(updates) != len(shape):
            raise VerifyException(
                f"ranks of input and updates differ: {shape_text(shape)} and {shape_text(updates)}"
            )
        common = shape[:axis] + shape[axis + 1 :]
        merge_shapes(
            common, updates[:axis] + updates[axis + 1 :], "input and updates beside the axis"
        )
        if DYNAMIC not in (shape[axis], updates[axis]) and updates[axis] > shape[axis]:
            raise VerifyException(f"{updates[axis]} updates do not fit into {shape[axis]} places")
        if self.write_indices is not None:
            check_length("write_indices", shape_of(self.write_indices)[0], shape[0])
        return (self.input.type,)

    def counts_size(self, axis: int, result: int = 0) -> bool:
        """True along the axis of a "circular" write, which goes on at the begin, and of a write
        whose indices may count from the end."""
        is_own = axis == self.axis.value.data
        plain = self.mode.data == "linear" and from_front(self.write_indices)
        return is_own and not plain

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        if index == 2:
            return Box.of(box.spans[:1])
        axis = self.axis.value.data
        return box.along(shape_of(self.updates), (axis,)) if index else box


# ---- conditions ------------------------------------------------------------------------------


@irdl_op_definition
class NonZeroOp(Movement, OneResultOp):
    """The indices (i64) of the elements that are not 0: one column an element, in row-major
    order, one row a dimension."""

    ACCESS: ClassVar = Access.WHOLE
    name = "graph.nonzero"
    input = operand_def(COMPUTED)
    result = result_def(INDICES.of_rank(2))
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        return (tensor((rank_of(self.input), DYNAMIC), i64),)


@irdl_op_definition
class CompressOp(Movement, OneResultOp, HasAxes):
    """The slices of `axis` (the elements in their order when absent) where the condition, a
    vector of i1 that may be shorter, holds."""

    ACCESS: ClassVar = Access.WHOLE
    TAKES_INDICES: ClassVar = True
    name = "graph.compress"
    input = operand_def(COMPUTED)
    condition = operand_def(TRUTHS.of_rank(1))
    result = result_def(COMPUTED)
    axis = opt_prop_def(INT)
    assembly_format = f"$input `,` $condition {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = list(shape_of(self.input))
        if self.axis is None:
            return (tensor((DYNAMIC,), element_type(self.input)),)
        shape[element_axis(self.axis.value.data, len(shape))] = DYNAMIC
        return (tensor(shape, element_type(self.input)),)


@irdl_op_definition
class UniqueOp(Movement, HasAxes):
    """The distinct slices of `axis` (the distinct elements when absent), ascending if `sorted`,
    else in order of first occurrence; then (i64) the index of the first occurrence of each, the
    place among them of each slice of the input, and how often each occurs."""

    ACCESS: ClassVar = Access.WHOLE
    name = "graph.unique"
    input = operand_def(COMPUTED)
    axis = opt_prop_def(INT)
    sorted = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    values = result_def(COMPUTED)
    first = result_def(INDICES.of_rank(1))
    inverse = result_def(INDICES.of_rank(1))
    counts = result_def(INDICES.of_rank(1))
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, element = list(shape_of(self.input)), element_type(self.input)
        if self.axis is None:
            count = DYNAMIC if DYNAMIC in shape else numel(shape)
            shape = [DYNAMIC]
        else:
            axis = element_axis(self.axis.value.data, len(shape))
            count, shape[axis] = shape[axis], DYNAMIC
        indices = tensor((DYNAMIC,), i64)
        return (tensor(shape, element), indices, tensor((count,), i64), indices)


# ---- one-hot and order -----------------------------------------------------------------------


@irdl_op_definition
class OneHotOp(Movement, OneResultOp, HasAxes):
    """A new dimension `axis` of size `depth`, values[1] where its index is the element of
    `indices`, else values[0]. Negative indices count from the end; an index outside
    -depth .. depth - 1 is nowhere."""

    name = "graph.one_hot"
    indices = operand_def(NUMBERS)
    depth_value = opt_operand_def(NUMBERS)
    depth = opt_prop_def(INT)
    values = operand_def(ANY.of_rank(1))
    axis = prop_def(INT, default_value=IntegerAttr(-1, i64))
    PARAMETERS: ClassVar = {"depth_value": "depth"}
    assembly_format = f"$indices `,` $values {parameter('depth')} {TYPES}"

    def axes_rank(self) -> int:
        return super().axes_rank() + 1

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.indices), element_type(self.values)
        if shape_of(self.values) not in ((2,), (DYNAMIC,)):
            raise VerifyException(f"values are two elements, off and on, not {self.values.type}")
        axis = element_axis(self.axis.value.data, len(shape) + 1)
        if (value := check_parameter(self, "depth", "the depth is missing")) is not None:
            check_scalar(value, "depth")
        depth = self.ints("depth")
        if depth is not None and depth[0] < 0:
            raise VerifyException(f"depth is {depth[0]}")
        size = DYNAMIC if depth is None else depth[0]
        return (tensor((*shape[:axis], size, *shape[axis:]), element),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        if index:
            return None
        axis = self.axis.value.data
        return Box.of([*box.spans[:axis], *box.spans[axis + 1 :]])

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)), *self.traffic())


@irdl_op_definition
class TopKOp(Movement, HasAxes):
    """The `k` largest (smallest unless `largest`) elements along `axis` in descending (ascending)
    order, and their indices (i64). Of equal elements the one with the lower index comes first."""

    ACCESS: ClassVar = Access.WHOLE
    name = "graph.top_k"
    input = operand_def(COMPUTED)
    k_value = opt_operand_def(INTEGERS)
    k = opt_prop_def(INT)
    axis = prop_def(INT, default_value=IntegerAttr(-1, i64))
    largest = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    sorted = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    values = result_def(COMPUTED)
    indices = result_def(INDICES)
    PARAMETERS: ClassVar = {"k_value": "k"}
    assembly_format = f"$input {parameter('k')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = list(shape_of(self.input))
        axis = element_axis(self.axis.value.data, len(shape))
        k = scalar_parameter(self, "k", "k is missing")
        assert k is not None
        if k != DYNAMIC and (k < 0 or shape[axis] not in (DYNAMIC, max(k, shape[axis]))):
            raise VerifyException(f"k is {k} for axis {axis} of {shape_text(shape)}")
        shape[axis] = k
        return (tensor(shape, element_type(self.input)), tensor(shape, i64))

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = self.axis.value.data
        return None if index else box.along(shape_of(self.input), (axis,))

    def static_work(self) -> Work:
        """A bitonic sort of each row: log2(n) (log2(n) + 1) / 2 passes."""
        shape = shape_of(self.input)
        rows, size = numel(shape), shape[self.axis.value.data]
        stages = max(size - 1, 1).bit_length()
        written = sum(byte_size(r.type) for r in self.results)
        return Work(0, rows * stages * (stages + 1) // 2, byte_size(self.input.type), written)
