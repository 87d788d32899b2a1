"""Ops that give a tensor another shape or order and keep its elements, and the shape itself."""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, UnrankedTensorType, i64
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
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
    distinct_axes,
    element_axis,
    elements_of,
    parameter,
    partial_ints,
    same_static_type,
    stated_shape,
    vector_parameter,
)
from ge.dialects.support.boxes import Access, Box, Work, aligned_box, joined, spread
from ge.dialects.support.constraints import (
    ANY,
    COUNT,
    INDICES,
    INT,
    INTEGERS,
    INTS,
    VALUES,
    choice,
    choice_def,
)
from ge.dialects.support.tensor_op import ResizeInterface, SplitInterface, TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    array_ints,
    broadcast,
    byte_size,
    element_type,
    int_array,
    is_shape_like,
    is_static,
    numel,
    rank_of,
    shape_of,
    shape_text,
    tensor,
    times,
)


def of_rank(count: int, element: Attribute) -> Attribute:
    return UnrankedTensorType(element) if count == DYNAMIC else tensor((DYNAMIC,) * count, element)


# ---- the same elements in the same order -----------------------------------------------------


class View(OneResultOp, ShapeComputation, ABC):
    """Ops whose result is the input's memory under another shape."""

    ACCESS: ClassVar = Access.VIEW
    input = operand_def(ANY)  # again in each op: its own operands would come first otherwise
    result = result_def(VALUES)

    def static_work(self) -> Work:
        return Work()

    def elements(self, steps: int) -> Elements | None:
        return elements_of(self.input, steps)

    def unchanged(self) -> SSAValue | None:
        if self.input.type != self.result.type:
            return None
        shape = shape_of(self.input)  # one unknown dimension follows from the number of elements
        decided = is_static(shape) or (shape.count(DYNAMIC) == 1 and 0 not in shape)
        return self.input if decided else None


def reshaped(shape: Shape, target: Sequence[int | None], allow_zero: bool = False) -> Shape:
    """The shape after `graph.reshape` to `target`. Dimensions that are copied cancel out: the size
    for -1 may be known where others are not."""
    result: list[int] = []
    copied: list[int] = []
    for i, d in enumerate(target):
        if d == 0 and not allow_zero:
            if i >= len(shape):
                raise VerifyException(
                    f"dimension {i} is 0 (copy), but the input is {shape_text(shape)}"
                )
            copied.append(i)
            result.append(shape[i])
        elif d is not None and d < -1:
            raise VerifyException(f"dimension {i} is {d}: use -1 for the dimension to infer")
        else:
            result.append(DYNAMIC if d is None else d)
    if target.count(-1) > 1:
        raise VerifyException(f"only one dimension can be -1, got {list(target)}")
    inferred = target.index(-1) if -1 in target else None
    stated = [d for i, d in enumerate(result) if i != inferred and i not in copied]
    rest = [d for i, d in enumerate(shape) if i not in copied]
    if inferred is not None:
        result[inferred] = leftover(shape, rest, stated)
    elif is_static(rest) and is_static(stated) and numel(rest) != numel(stated):
        raise VerifyException(f"cannot reshape {shape_text(shape)} to {shape_text(result)}")
    return tuple(result)


def leftover(shape: Shape, rest: Sequence[int], stated: Sequence[int]) -> int:
    if 0 in stated:
        raise VerifyException("dimension -1 cannot follow from others of which one is 0")
    if not (is_static(rest) and is_static(stated)):
        return DYNAMIC
    if numel(rest) % (size := numel(stated)):
        raise VerifyException(f"{shape_text(shape)} does not divide into parts of {size} elements")
    return numel(rest) // size


@irdl_op_definition
class ReshapeOp(View, ResizeInterface):
    """The elements in their order under another shape. In `shape` one -1 stands for the size
    left over, and 0 for the input's dimension at the same index (for itself if `allow_zero`)."""

    name = "graph.reshape"
    input = operand_def(ANY)
    shape_value = opt_operand_def(INTEGERS.of_rank(1))
    shape = opt_prop_def(INTS)
    allow_zero = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    PARAMETERS: ClassVar = {"shape_value": "shape"}
    assembly_format = f"$input {parameter('shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        count = vector_parameter(self, "shape", "the shape is missing")
        target, element = partial_ints(self, "shape"), element_type(self.input)
        if target is None:
            return (of_rank(DYNAMIC if count is None else count, element),)
        allow_zero = bool(self.allow_zero.value.data)
        return (tensor(reshaped(shape_of(self.input), target, allow_zero), element),)

    def part_axis(self, axis: int) -> int | None:
        before, after = shape_of(self.input), shape_of(self.result)
        if self.shape_value is not None or not (is_static(before) and is_static(after)):
            return None
        same = (
            i for i, d in enumerate(before)
            if d == after[axis] and d > 1 and numel(before[:i]) == numel(after[:axis])
        )  # fmt: skip
        return next(same, None)

    def resize(self, whole: TensorOp) -> None:
        assert isinstance(whole, ReshapeOp)
        before, part = shape_of(whole.input), shape_of(self.input)
        if before == part or not (is_static(before) and is_static(part)):
            return
        axes = [whole.part_axis(axis) for axis in range(rank_of(whole.result))]
        shape = [
            d if i is None or before[i] == part[i] else part[i]
            for d, i in zip(shape_of(whole.result), axes, strict=True)
        ]
        self.shape = int_array(tuple(shape))


class AxesView(View, HasAxes, ABC):
    input = operand_def(ANY)
    axes_value = opt_operand_def(INTEGERS.of_rank(1))
    axes = opt_prop_def(INTS)
    PARAMETERS: ClassVar = {"axes_value": "axes"}
    assembly_format = f"$input {parameter('axes')} {TYPES}"


@irdl_op_definition
class SqueezeOp(AxesView):
    """Without the dimensions of size 1 at `axes` (all of size 1 when absent)."""

    AXES: ClassVar = ("axes",)
    name = "graph.squeeze"

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.input), element_type(self.input)
        axes = self.ints("axes")
        count = vector_parameter(self, "axes")
        if axes is None and count is not None:
            return (of_rank(count if count == DYNAMIC else len(shape) - count, element),)
        if axes is None:
            if DYNAMIC in shape:
                return (UnrankedTensorType(element),)
            return (tensor([d for d in shape if d != 1], element),)
        removed = distinct_axes(axes, len(shape))
        for a in removed:
            if shape[a] not in (1, DYNAMIC):
                raise VerifyException(f"dimension {a} of {shape_text(shape)} is not 1")
        return (tensor([d for i, d in enumerate(shape) if i not in removed], element),)


@irdl_op_definition
class UnsqueezeOp(AxesView):
    """The input with dimensions of size 1 inserted, which are `axes` of the result."""

    name = "graph.unsqueeze"

    def axes_rank(self) -> int:
        return super().axes_rank() + len(self.ints("axes") or ())

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.input), element_type(self.input)
        count = vector_parameter(self, "axes", "the axes are missing")
        if (axes := self.ints("axes")) is not None:
            return (tensor(unsqueezed(shape, axes), element),)
        return (of_rank(DYNAMIC if count in (None, DYNAMIC) else len(shape) + count, element),)


def unsqueezed(shape: Shape, axes: Sequence[int]) -> Shape:
    added = distinct_axes(axes, len(shape) + len(axes))
    rest = iter(shape)
    return tuple(1 if i in added else next(rest) for i in range(len(shape) + len(axes)))


# ---- another order ---------------------------------------------------------------------------


@irdl_op_definition
class TransposeOp(Movement, OneResultOp, SplitInterface, HasFolderInterface):
    """result[i, j, ...] has the input's dimension permutation[0] first, and so on."""

    name = "graph.transpose"
    input = operand_def(ANY)
    permutation = prop_def(INTS)
    assembly_format = f"$input {TYPES}"

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        order, spans = array_ints(self.permutation), box.spans
        return Box.of([spans[order.index(i)] for i in range(len(order))])

    def infer(self) -> Sequence[Attribute]:
        shape, order = shape_of(self.input), array_ints(self.permutation)
        if sorted(order) != list(range(len(shape))):
            raise VerifyException(f"{list(order)} is not a permutation of {len(shape)} dimensions")
        return (tensor([shape[i] for i in order], element_type(self.input)),)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        order = array_ints(self.permutation)
        same = list(order) == list(range(len(order))) and self.input.type == self.result.type
        return (self.input,) if same else None


BlockOrder = choice("graph.block_order", "dcr", "crd")


class BlockOp(Movement, OneResultOp, ABC):
    """Moves between channels and blocks of pixels."""

    input = operand_def(ANY.of_rank(4))
    block = prop_def(COUNT)
    result = result_def(ANY.of_rank(4))
    mode = choice_def(BlockOrder, "dcr")
    assembly_format = f"$input {TYPES}"

    def checked_shape(self) -> Shape:
        return shape_of(self.input)


def divided(dim: int, by: int, name: str) -> int:
    if dim == DYNAMIC:
        return DYNAMIC
    if dim % by:
        raise VerifyException(f"{name} {dim} does not divide by {by}")
    return dim // by


@irdl_op_definition
class DepthToSpaceOp(BlockOp):
    """Channels become blocks of `block` x `block` positions. `mode` is the order in which the
    input's channels hold row in block, column in block and channel: `dcr` or `crd`."""

    name = "graph.depth_to_space"

    def infer(self) -> Sequence[Attribute]:
        n, c, h, w = self.checked_shape()
        b = self.block.value.data
        shape = (n, divided(c, b * b, "number of channels"), times(h, b), times(w, b))
        return (tensor(shape, element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        block, (_, c, h, w) = self.block.value.data, shape_of(self.result)
        images, channels, rows, columns = box.spans
        row, y = spread(rows, (h, block))  # of one block, too, rows go along rows
        column, x = spread(columns, (w, block))
        if self.mode.data == "dcr":
            channels = joined([y, x, channels], (block, block, c))
        else:
            channels = joined([channels, y, x], (c, block, block))
        return Box.of([images, channels, row, column])


@irdl_op_definition
class SpaceToDepthOp(BlockOp):
    """Blocks of `block` x `block` positions become channels: the inverse of depth_to_space."""

    name = "graph.space_to_depth"

    def infer(self) -> Sequence[Attribute]:
        n, c, h, w = self.checked_shape()
        b = self.block.value.data
        shape = (n, times(c, b * b), divided(h, b, "height"), divided(w, b, "width"))
        return (tensor(shape, element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        block, (_, c, h, w) = self.block.value.data, shape_of(self.input)
        images, channels, rows, columns = box.spans
        if self.mode.data == "dcr":
            y, x, channels = spread(channels, (block, block, c))
        else:
            channels, y, x = spread(channels, (c, block, block))
        row = joined([rows, y], (h, block))  # of one block, too, rows go along rows
        return Box.of([images, channels, row, joined([columns, x], (w, block))])


@irdl_op_definition
class ReverseSequenceOp(Movement, OneResultOp, HasAxes):
    """Along `time_axis` the first lengths[b] elements of batch b (an index on `batch_axis`) come
    in reverse order; the rest stay."""

    name = "graph.reverse_sequence"
    AXES: ClassVar = (
        "batch_axis",
        "time_axis",
    )
    TAKES_INDICES: ClassVar = True
    input = operand_def(ANY)
    lengths = operand_def(INTEGERS.of_rank(1))
    batch_axis = prop_def(INT)
    time_axis = prop_def(INT)
    assembly_format = f"$input `,` $lengths {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        batch = element_axis(self.batch_axis.value.data, len(shape), "batch_axis")
        time = element_axis(self.time_axis.value.data, len(shape), "time_axis")
        if batch == time:
            raise VerifyException(f"batch_axis and time_axis are both {batch}")
        check_length("lengths", shape_of(self.lengths)[0], shape[batch])
        return (self.input.type,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape = shape_of(self.input)
        if index:
            return Box.of([box.spans[element_axis(self.batch_axis.value.data, len(shape))]])
        return box.along(shape, (element_axis(self.time_axis.value.data, len(shape)),))


# ---- repetition ------------------------------------------------------------------------------


@irdl_op_definition
class BroadcastToOp(Movement, OneResultOp, ShapeComputation):
    """The input repeated to `shape` by numpy's rules in both directions: the result's shape is
    the broadcast of the input's shape and `shape`."""

    name = "graph.broadcast_to"
    result = result_def(VALUES)
    input = operand_def(ANY)
    shape_value = opt_operand_def(INTEGERS.of_rank(1))
    shape = opt_prop_def(INTS)
    PARAMETERS: ClassVar = {"shape_value": "shape"}
    assembly_format = f"$input {parameter('shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        target, element = stated_shape(self), element_type(self.input)
        if target is None:
            return (UnrankedTensorType(element),)
        return (tensor(broadcast(shape_of(self.input), target), element),)

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)), *self.traffic())

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return aligned_box(box, shape_of(self.input)) if index == 0 else None

    def elements(self, steps: int) -> Elements | None:
        known = elements_of(self.input, steps)
        shape = shape_of(self.result)
        return known * numel(shape) if known and len(known) == 1 and is_static(shape) else None

    def unchanged(self) -> SSAValue | None:
        return self.input if same_static_type(self.input, self.result) else None


@irdl_op_definition
class TileOp(Movement, OneResultOp, HasFolderInterface):
    """The input set side by side repeats[i] times along dimension i."""

    name = "graph.tile"
    input = operand_def(ANY)
    repeats_value = opt_operand_def(INTEGERS.of_rank(1))
    repeats = opt_prop_def(INTS)
    PARAMETERS: ClassVar = {"repeats_value": "repeats"}
    assembly_format = f"$input {parameter('repeats')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.input), element_type(self.input)
        count = vector_parameter(self, "repeats", "the repeats are missing")
        check_length("repeats", DYNAMIC if count is None else count, len(shape))
        repeats = partial_ints(self, "repeats")
        if repeats is None:
            return (of_rank(len(shape), element),)
        check_length("repeats", len(repeats), len(shape))
        if any(r is not None and r < 0 for r in repeats):
            raise VerifyException(f"repeats {list(repeats)} has a negative number")
        pairs = zip(shape, repeats, strict=True)
        return (tensor([DYNAMIC if r is None else times(d, r) for d, r in pairs], element),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        if index:
            return None
        pairs = zip(box.spans, shape_of(self.input), shape_of(self.result), strict=True)
        return Box.of([spread(s, (n // max(d, 1), d))[1] for s, d, n in pairs])

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)), *self.traffic())

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        repeats = self.ints("repeats")
        plain = repeats is not None and all(r == 1 for r in repeats)
        return (self.input,) if plain and self.input.type == self.result.type else None


# ---- the shape -------------------------------------------------------------------------------


@irdl_op_definition
class ShapeOfOp(OneResultOp, ShapeComputation):
    """The input's dimensions from `start` up to, not including, `end` (the rank when absent),
    as a vector of i64; both count from the end when negative and are clamped to the rank."""

    name = "graph.shape_of"
    input = operand_def(ANY)
    result = result_def(INDICES.of_rank(1))
    start = prop_def(INT, default_value=IntegerAttr(0, i64))
    end = opt_prop_def(INT)
    assembly_format = f"$input {TYPES}"

    def bounds(self) -> slice:
        end = None if self.end is None else self.end.value.data
        return slice(self.start.value.data, end)

    def infer(self) -> Sequence[Attribute]:
        return (tensor((len(range(rank_of(self.input))[self.bounds()]),), i64),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return Box.nothing(shape_of(self.input))

    def elements(self, steps: int) -> Elements | None:
        return tuple(None if d == DYNAMIC else d for d in shape_of(self.input)[self.bounds()])

    def static_work(self) -> Work:
        return Work(0, 0, 0, byte_size(self.result.type))


def is_shape_arithmetic(op: Operation) -> bool:
    """True if an op has operands and results for the control processor alone: short vectors or
    scalars of integers, the shape of a tensor."""
    operands = () if isinstance(op, ShapeOfOp) else op.operands
    return all(is_shape_like(v) for v in (*operands, *op.results))
