"""Tensors taken apart and put together along axes: concat, split, slice and pad."""

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import ClassVar, TypeVar

from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.shape import of_rank
from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    Elements,
    HasAxes,
    Movement,
    OneResultOp,
    ShapeComputation,
    check_length,
    check_same_element,
    check_scalar,
    dims,
    distinct_axes,
    element_axis,
    elements_of,
    optional,
    parameter,
    partial_ints,
    same_static_type,
    vector_parameter,
)
from ge.dialects.support.boxes import Box, Work, element_span, plus, window_span
from ge.dialects.support.boxes import times as multiple
from ge.dialects.support.constraints import (
    ANY,
    INT,
    INTEGERS,
    INTS,
    choice,
    choice_def,
)
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import (
    Permuted,
    PermuteInterface,
    SliceInterface,
    SplitInterface,
)
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    array_ints,
    element_type,
    merge_dims,
    numel,
    rank_of,
    shape_of,
    shape_text,
    tensor,
)

T = TypeVar("T")


@irdl_op_definition
class ConcatOp(Movement, OneResultOp, SplitInterface, PermuteInterface, ShapeComputation, HasAxes):
    """The inputs one after the other along `axis`; their other dimensions agree."""

    name = "graph.concat"
    inputs = var_operand_def(ANY)
    axis = prop_def(INT)
    assembly_format = f"$inputs {TYPES}"

    def is_same_op(self, axis: int) -> bool:
        return axis != self.axis.value.data

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = self.axis.value.data
        return shifted(box, axis, -sum(shape_of(v)[axis] for v in self.inputs[:index]))

    def infer(self) -> Sequence[Attribute]:
        if not self.inputs:
            raise VerifyException("nothing to concatenate")
        first = self.inputs[0]
        shape = list(shape_of(first))
        axis = element_axis(self.axis.value.data, len(shape))
        for value in self.inputs[1:]:
            check_same_element(first, value)
            other = shape_of(value)
            if len(other) != len(shape):
                raise VerifyException(f"ranks differ: {first.type} and {value.type}")
            for i, d in enumerate(other):
                if i == axis:
                    shape[i] = DYNAMIC if DYNAMIC in (d, shape[i]) else shape[i] + d
                else:
                    shape[i] = merge_dims(shape[i], d)
        return (tensor(shape, element_type(first)),)

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)), *self.traffic())

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        axis = order.index(self.axis.value.data)
        return Permuted(range(len(self.inputs)), order, {"axis": axis})

    def elements(self, steps: int) -> Elements | None:
        if rank_of(self.result) != 1:
            return None
        known = [elements_of(value, steps) for value in self.inputs]
        parts = [k for k in known if k is not None]
        return sum(parts, ()) if len(parts) == len(known) else None

    def unchanged(self) -> SSAValue | None:
        one = len(self.inputs) == 1 and self.inputs[0].type == self.result.type
        return self.inputs[0] if one else None


def shifted(box: Box, axis: int, by: int) -> Box:
    return Box.of([(plus(o, by if i == axis else 0), n) for i, (o, n) in enumerate(box.spans)])


@irdl_op_definition
class SplitOp(Movement, SliceInterface, PermuteInterface, HasAxes):
    """Consecutive parts along `axis`, one a result, of the given `sizes`; without sizes all of
    ceil(dimension / number of results) but the last, which takes the rest."""

    name = "graph.split"
    input = operand_def(ANY)
    sizes_value = opt_operand_def(INTEGERS.of_rank(1))
    sizes = opt_prop_def(INTS)
    axis = prop_def(INT)
    parts = var_result_def(ANY)
    PARAMETERS: ClassVar = {"sizes_value": "sizes"}
    assembly_format = f"$input {parameter('sizes')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, count = shape_of(self.input), len(self.parts)
        axis = element_axis(self.axis.value.data, len(shape))
        if count == 0:
            raise VerifyException("a split has at least one result")
        if (length := vector_parameter(self, "sizes")) is not None:
            check_length("sizes", length, count)
        sizes = partial_ints(self, "sizes")
        if sizes is not None:
            check_length("sizes", len(sizes), count)
            check_sizes(sizes, shape[axis])
        elif self.sizes_value is None and shape[axis] != DYNAMIC:
            sizes = even_sizes(shape[axis], count)
        else:
            sizes = (None,) * count
        element, before, after = element_type(self.input), shape[:axis], shape[axis + 1 :]
        return [tensor((*before, d, *after), element) for d in dims(sizes)]

    def part_starts(self) -> Sequence[Sequence[int]] | None:
        rank = len(shape_of(self.input))
        axis = self.axis.value.data
        sizes = [shape_of(part)[axis] for part in self.parts]
        starts = accumulate(sizes[:-1], initial=0)
        return [[s if d == axis else 0 for d in range(rank)] for s in starts]

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = self.axis.value.data
        before = sum(shape_of(part)[axis] for part in self.parts[:result])
        return shifted(box, axis, before) if index == 0 else None

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        axis = order.index(self.axis.value.data)
        return Permuted((0,), order, {"axis": axis})


def check_sizes(sizes: Elements, dim: int) -> None:
    if any(s is not None and s < 0 for s in sizes):
        raise VerifyException(f"sizes {list(sizes)} has a negative number")
    total = sum(s for s in sizes if s is not None)
    if None not in sizes and dim != DYNAMIC and total != dim:
        raise VerifyException(f"sizes {list(sizes)} add up to {total}, but the dimension is {dim}")


def even_sizes(dim: int, count: int) -> tuple[int, ...]:
    """`dim` in `count` parts of equal size, the last smaller where it does not divide."""
    size = -(-dim // count)
    last = dim - size * (count - 1)
    if last < 0:
        raise VerifyException(f"dimension {dim} does not split into {count} parts of {size}")
    return (size,) * (count - 1) + (last,)


def slice_bounds(start: int, end: int, step: int, dim: int) -> tuple[int, int]:
    """First index and number of elements of start:end:step in a dimension of size `dim`:
    negative bounds count from the end, bounds outside are clamped (ONNX Slice)."""
    low, high = (0, dim) if step > 0 else (-1, dim - 1)
    first = min(max(start + dim if start < 0 else start, 0), high)
    last = min(max(end + dim if end < 0 else end, low), high)
    return first, max(-((first - last) // step), 0)


def same_count(counts: Sequence[int]) -> int:
    """The common length of the parameters of a slice. Raises VerifyException if lengths differ."""
    known = {c for c in counts if c != DYNAMIC}
    if len(known) > 1:
        raise VerifyException(f"starts, ends, axes and steps differ in length: {counts}")
    return known.pop() if known else DYNAMIC


@lru_cache(maxsize=4096)
def known_bounds(
    rank: int,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
) -> Sequence[tuple[int, int, int, int]]:
    """Axis, start, end and step of each sliced axis. Raises VerifyException."""
    count = same_count([len(n) for n in (starts, ends, axes, steps) if n is not None])
    axes = distinct_axes(tuple(range(count)) if axes is None else axes, rank)
    return tuple(zip(axes, starts, ends, steps or (1,) * count, strict=True))


@irdl_op_definition
class SliceOp(
    Movement,
    OneResultOp,
    SplitInterface,
    SliceInterface,
    PermuteInterface,
    ShapeComputation,
    HasAxes,
):
    """The elements starts[i], starts[i] + steps[i], ... before ends[i] of dimension axes[i] (of
    dimension i when axes are absent; steps are 1 when absent). Negative bounds count from the
    end; bounds outside the dimension are clamped; a negative step goes backward."""

    name = "graph.slice"
    AXES: ClassVar = ("axes",)
    input = operand_def(ANY)
    starts_value = opt_operand_def(INTEGERS.of_rank(1))
    ends_value = opt_operand_def(INTEGERS.of_rank(1))
    axes_value = opt_operand_def(INTEGERS.of_rank(1))
    steps_value = opt_operand_def(INTEGERS.of_rank(1))
    starts = opt_prop_def(INTS)
    ends = opt_prop_def(INTS)
    axes = opt_prop_def(INTS)
    steps = opt_prop_def(INTS)
    PARAMETERS: ClassVar = {
        "starts_value": "starts", "ends_value": "ends",
        "axes_value": "axes", "steps_value": "steps",
    }  # fmt: skip
    irdl_options = SEGMENTED
    assembly_format = f"$input {parameter('starts', 'ends', 'axes', 'steps')} {TYPES}"

    def part_starts(self) -> Sequence[Sequence[int]] | None:
        shape = shape_of(self.input)
        starts = [0] * len(shape)
        for axis, start, end, step in self.bounds() or ():
            if start is None or end is None or step != 1:
                return None
            starts[axis] = slice_bounds(start, end, step, shape[axis])[0]
        return [starts]

    def count(self) -> int:
        counts: list[int] = []
        for prop in self.PARAMETERS.values():
            missing = f"the {prop} are missing" if prop in ("starts", "ends") else ""
            if (length := vector_parameter(self, prop, missing)) is not None:
                counts.append(length)
            elif (ints := self.ints(prop)) is not None:
                counts.append(len(ints))
        return same_count(counts)

    def is_same_op(self, axis: int) -> bool:
        return all(axis != bound[0] for bound in self.bounds() or ())

    def bounds(self) -> Sequence[tuple[int, int | None, int | None, int | None]] | None:
        """Axis, start, end and step of each sliced axis, None where only known at run time; None
        altogether when the axes themselves are."""
        rank = rank_of(self.input)
        starts, ends, *others = map(self.properties.get, self.PARAMETERS.values())
        if starts is not None and ends is not None and len(operands_of(self)) == 1:
            axes, steps = (None if a is None else array_ints(a) for a in others)
            return known_bounds(rank, array_ints(starts), array_ints(ends), axes, steps)
        count = self.count()
        if self.axes is None and self.axes_value is None:
            axes = None if count == DYNAMIC else tuple(range(count))
        else:
            axes = self.ints("axes")
        if axes is None:
            return None
        axes = distinct_axes(axes, rank)
        unknown = (None,) * len(axes)
        starts = partial_ints(self, "starts") or unknown
        ends = partial_ints(self, "ends") or unknown
        one = self.steps is None and self.steps_value is None
        steps = (1,) * len(axes) if one else partial_ints(self, "steps") or unknown
        return list(zip(axes, starts, ends, steps, strict=True))

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        spans, shape, bounds = box.spans, shape_of(self.input), self.bounds()
        if index or bounds is None:
            return None
        for axis, start, end, step in bounds:
            if start is None or end is None or step is None:
                spans[axis] = (0, shape[axis])
                continue
            offset, size = spans[axis]
            first, extent = slice_bounds(start, end, step, shape[axis])[0], (size - 1) * abs(step)
            begin = first if step > 0 else first - extent
            spans[axis] = plus(multiple(offset, step), begin), extent + 1
        return Box.of(spans)

    def infer(self) -> Sequence[Attribute]:
        shape, bounds = list(shape_of(self.input)), self.bounds()
        if bounds is None:
            return (of_rank(len(shape), element_type(self.input)),)
        for axis, start, end, step in bounds:
            if step == 0:
                raise VerifyException("a step is 0")
            shape[axis] = sliced_dim(shape[axis], start, end, step)
        return (tensor(shape, element_type(self.input)),)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        bounds = self.bounds()
        if bounds is None or self.axes_value is not None:
            return None
        return Permuted((0,), order, {"axes": [order.index(axis) for axis, *_ in bounds]})

    def elements(self, steps: int) -> Elements | None:
        known = elements_of(self.input, steps)
        if known is None or rank_of(self.input) != 1 or (taken := self.taken(known)) is None:
            return None
        return tuple(taken)

    def taken(self, items: Sequence[T]) -> list[T] | None:
        """The items that it takes of those of a vector, if known."""
        if (bounds := self.bounds()) is None:
            return None
        for _, start, end, step in bounds:
            if start is None or end is None or step is None:
                return None
            first, count = slice_bounds(start, end, step, len(items))
            items = [items[first + i * step] for i in range(count)]
        return list(items)

    def unchanged(self) -> SSAValue | None:
        if (bounds := self.bounds()) is None or not same_static_type(self.input, self.result):
            return None
        shape = shape_of(self.input)
        is_same = (step is not None and (step > 0 or shape[a] == 1) for a, *_, step in bounds)
        return self.input if all(is_same) else None


def sliced_dim(dim: int, start: int | None, end: int | None, step: int | None) -> int:
    if start is None or end is None or step is None:
        return 0 if dim == 0 else DYNAMIC
    if dim != DYNAMIC:
        return slice_bounds(start, end, step, dim)[1]
    if step > 0 and start >= 0 and 0 <= end <= start:
        return 0
    return DYNAMIC


PAD_MODES = ("constant", "edge", "reflect", "wrap")


PadMode = choice("graph.pad_mode", *PAD_MODES)


@irdl_op_definition
class PadOp(Movement, OneResultOp, PermuteInterface, HasFolderInterface, HasAxes):
    """Elements added before and after each of `axes` (all when absent): `pads` has the numbers
    to add before each axis, then those after; negative ones take away. `mode` says what comes
    in: `constant` (the scalar `value`, 0 when absent), `edge` (the outermost element), `reflect`
    (mirrored at the outermost element) or `wrap` (from the other end)."""

    name = "graph.pad"
    AXES: ClassVar = ("axes",)
    input = operand_def(ANY)
    pads_value = opt_operand_def(INTEGERS.of_rank(1))
    axes_value = opt_operand_def(INTEGERS.of_rank(1))
    value = opt_operand_def(ANY)
    pads = opt_prop_def(INTS)
    axes = opt_prop_def(INTS)
    mode = choice_def(PadMode, "constant")
    PARAMETERS: ClassVar = {"pads_value": "pads", "axes_value": "axes"}
    irdl_options = SEGMENTED
    assembly_format = f"$input {parameter('pads', 'axes')} {optional('value')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        element = element_type(self.input)
        if self.value is not None:
            check_scalar(self.value, "value")
            check_same_element(self.input, self.value)
        vector_parameter(self, "pads", "the pads are missing")
        vector_parameter(self, "axes")
        all_axes = self.axes is None and self.axes_value is None
        axes = tuple(range(len(shape))) if all_axes else self.ints("axes")
        pads = partial_ints(self, "pads")
        if axes is None or pads is None:
            return (of_rank(len(shape), element),)
        check_length("pads", len(pads), 2 * len(axes))
        return (tensor(padded(shape, distinct_axes(axes, len(shape)), pads), element),)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        if self.axes_value is not None or self.pads_value is not None:
            return None
        axes = distinct_axes(self.ints("axes") or range(len(order)), len(order))
        return Permuted((0,), order, {"axes": [order.index(a) for a in axes]})

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """The box of the input for a box of the result. Beyond the input the result is `value`; in
        the other modes nothing is beyond it."""
        spans, shape, pads = box.spans, shape_of(self.input), self.ints("pads")
        axes = self.ints("axes") if self.axes or self.axes_value else range(len(shape))
        if index or pads is None or axes is None:
            return None
        axes = distinct_axes(axes, len(shape))
        for i, axis in enumerate(axes):
            before, dim = pads[i], shape[axis]
            if not before and not pads[i + len(axes)]:
                continue
            if self.mode.data == "constant":
                spans[axis] = window_span(spans[axis], 1, -before, 1)
            else:
                low, high = max(-before, 0), dim + min(pads[i + len(axes)], 0)
                inner = partial(padding_source, self.mode.data, low, high)
                spans[axis] = element_span(spans[axis], dim, lambda i: (inner(i - before),))
        return Box.of(spans)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        plain = (pads := self.ints("pads")) is not None and not any(pads)
        return (self.input,) if plain and self.input.type == self.result.type else None


def padding_source(mode: str, low: int, high: int, index: int) -> int:
    """The element of low .. high - 1 that stands at an index, which may be outside of them."""
    if mode == "edge":
        return min(max(index, low), high - 1)
    size, at = high - low, index - low
    if mode == "wrap":
        return low + at % size
    at %= max(2 * (size - 1), 1)
    return low + min(at, 2 * (size - 1) - at)


def padded(shape: Shape, axes: Sequence[int], pads: Elements) -> Shape:
    result = list(shape)
    for i, axis in enumerate(axes):
        before, after = pads[i], pads[i + len(axes)]
        if before is None or after is None or shape[axis] == DYNAMIC:
            result[axis] = DYNAMIC if (before, after) != (0, 0) else shape[axis]
            continue
        result[axis] += before + after
        if result[axis] < 0:
            text = f"pads {before} and {after} of dimension {axis} of {shape_text(shape)}"
            raise VerifyException(f"{text} take away more than there is")
    return tuple(result)
