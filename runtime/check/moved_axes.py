"""The ways of an axis of an input: through copies, views of buffers and launches, op by op.

Elements along an axis are told apart by a digit of their index, `index // unit % count`, which
stays one where axes are joined or cut up:

    memref<4x9x8>, axis 0: elements // 72 % 4;  axis 1: elements // 8 % 9
    the same bytes as memref<36x8>: both are digits of axis 0, index // 9 % 4 and index // 1 % 9

Through an op a digit goes along axes of which each element of the result needs the element at its
place alone, or the first n the first n (`each_axes`, `prefix_axes` of what ops say of their boxes).
Other effects of an op are for the classes that follow something (`growing_state.py`, `padding.py`).

Elements may be picked by constant indices, which count along an axis of the result or do not.

    graph.gather_nd %mask, dense<[[[0, 0], [0, 1]], [[1, 0], [1, 1]]]> : tensor<2x2xi1>

names elements 0, 1, 0, 1 along axis 1 of the mask, at 2x2 places: they follow axis 1 of the result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.indexing import GatherNdOp, GatherOp, Picking
from ge.dialects.graph.shape import View
from ge.dialects.npu_task.memory import row_major, view_of
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, CopyOp, KernelOp, LaunchOp, TransferOp
from ge.dialects.support.boxes import each_axes, prefix_axes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Dense,
    Shape,
    constant_value,
    is_dynamic,
    numel,
    rank_of,
    shape_of,
)


@dataclass(frozen=True, slots=True)
class Digit:
    """index // unit % count, of the index along an axis or of an element in a buffer."""

    unit: int
    count: int


Key: TypeAlias = tuple[int, Digit]  # an axis, and a digit of the index along it

Source: TypeAlias = tuple[int, Key]  # of an operand, by its number

T = TypeVar("T")  # the knowledge about the elements that a digit tells apart

Marks: TypeAlias = dict[Key, T]


class Scattered(Exception):
    """A view in which a digit is none of one axis."""


def digit_in(
    digit: Digit, sizes: Sequence[int], strides: Sequence[int], offset: int = 0
) -> Key | None:
    """The axis of a view along which a digit of the elements of its buffer is one, None where all
    of its elements have 0 there. Raises Scattered."""
    span, below, found = digit.unit * digit.count, offset % digit.unit, None
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if size == 1 or stride % span == 0:
            continue
        if stride > 0 and digit.unit % stride == 0 and stride * size % span == 0:
            below += digit.unit - stride
            if found is not None:
                raise Scattered
            found = axis
        elif stride > 0 and (size - 1) * stride < digit.unit:
            below += (size - 1) * stride
        else:
            raise Scattered
    if below >= digit.unit or offset // digit.unit % digit.count:
        raise Scattered
    return None if found is None else (found, Digit(digit.unit // strides[found], digit.count))


@dataclass
class MovedAxes(Generic[T]):
    """Follows knowledge about digits through a program."""

    kernels: Mapping[str, KernelOp]
    # Of the elements of buffers in their order, and of tensors of unknown size by their axes
    memory: dict[SSAValue, dict[Digit, T]] = field(default_factory=dict[SSAValue, dict[Digit, T]])
    axes: dict[SSAValue, Marks[T]] = field(default_factory=dict[SSAValue, Marks[T]])
    launched: LaunchOp | None = None  # whose kernel is followed

    # ---- what classes that follow something say

    def made(self, op: TensorOp, key: Key, sources: Sequence[tuple[Source, T]]) -> T:
        """Knowledge about a digit of a result that goes with these digits of operands."""
        return sources[0][1]

    def crossed(
        self, op: TensorOp, result: int, left: set[Source], known: Sequence[Marks[T]]
    ) -> Marks[T]:
        """Marks of a result for digits that do not go along any of its axes: by default nothing is
        known of them any more."""
        return {}

    def joined(self, a: T, b: T) -> T:
        """Knowledge about a buffer of which parts hold each of these."""
        return a

    def lost(self, op: Operation) -> None:
        """A digit is none of one axis any more."""

    def constant(self, value: SSAValue) -> Dense | None:
        """The numbers of a value in a kernel, if it is a constant: of the kernel, or of the program
        that launches it."""
        while isinstance(value, BlockArgument) and isinstance(
            fused := value.block.parent_op(), FusedOp
        ):
            value = fused.inputs[value.index]
        if isinstance(value, BlockArgument) and self.launched is not None:
            value = self.launched.ins[value.index]
        if isinstance(op := value.owner, ConstantOp):
            is_dense = isinstance(op.value, DenseIntOrFPElementsAttr)
            return cast(Dense, op.value) if is_dense else None
        return constant_value(value)

    # ---- buffers

    def read(self, value: SSAValue, op: Operation) -> Marks[T]:
        if value in self.axes or is_dynamic(value.type):
            return self.axes.get(value, {})
        view, found = view_of(value), Marks[T]()
        for digit, what in self.memory.get(view.owner, {}).items():
            try:
                key = digit_in(digit, view.sizes, view.strides, view.offset)
            except Scattered:
                self.lost(op)
                continue
            if key is not None:
                found[key] = what
        return found

    def write(self, value: SSAValue, marks: Marks[T]) -> None:
        if is_dynamic(value.type):
            self.axes[value] = marks
            return
        view = view_of(value)
        new = {
            Digit(digit.unit * view.strides[axis], digit.count): what
            for (axis, digit), what in marks.items()
        }
        old = self.memory.get(view.owner, {})
        if numel(view.sizes) < numel(shape_of(view.owner)):
            new = old | {d: self.joined(old[d], w) if d in old else w for d, w in new.items()}
        self.memory[view.owner] = new

    # ---- tasks and ops

    def task(self, op: Operation) -> None:
        match op:
            case CopyOp():
                self.write(op.target, self.read(op.source, op))
            case BatchCopyOp():
                for source, target in zip(op.sources, op.targets, strict=True):
                    self.write(target, self.read(source, op))
            case TransferOp():
                self.write(op.result, self.read(op.source, op))
            case LaunchOp() if op.callee in self.kernels:
                self.launch(op, self.kernels[op.callee])
            case _:
                pass

    def launch(self, op: LaunchOp, kernel: KernelOp) -> None:
        self.launched, body = op, kernel.body.block
        marks: dict[SSAValue, Marks[T]] = {
            a: self.read(v, op) for a, v in zip(body.args, op.ins, strict=False)
        }
        self.block(body, marks)
        for value, own in op.returned(kernel):
            self.write(own, marks.get(value, {}))

    def block(self, block: Block, marks: dict[SSAValue, Marks[T]]) -> None:
        for op in block.ops:
            if isinstance(op, FusedOp) and not isinstance(op, CustomOp):
                marks |= {
                    a: marks.get(v, {}) for a, v in zip(op.block.args, op.inputs, strict=True)
                }
                self.block(op.block, marks)
                marks |= {r: marks.get(v, {}) for r, v in zip(op.results, op.yielded, strict=True)}
            elif isinstance(op, TensorOp) and any(marks.get(v) for v in op.operands):
                known = [marks.get(v, Marks[T]()) for v in op.operands]
                for i, result in enumerate(op.results):
                    if result.first_use is not None:
                        marks[result] = self.result(op, i, known)

    def result(self, op: TensorOp, index: int, known: Sequence[Marks[T]]) -> Marks[T]:
        """Knowledge about the digits of a result."""
        if isinstance(op, View):
            return self.viewed(op, known[0])
        left = {(i, key) for i, marks in enumerate(known) for key in marks}
        found = Marks[T]()
        for ask, fits in ((each_axes, any_digit), (prefix_axes, first_digit)):
            for axis in range(rank_of(op.results[index])):
                self.along(op, index, axis, known, left, found, (ask, fits))
        if left:
            found |= self.crossed(op, index, left, known)
        return found

    def along(
        self,
        op: TensorOp,
        index: int,
        axis: int,
        known: Sequence[Marks[T]],
        left: set[Source],
        found: Marks[T],
        how: "How",
    ) -> None:
        """Take digits of operands that go along an axis of a result from those that are left."""
        ask, going = how
        size = shape_of(op.results[index])[axis]
        gone = {
            (i, (a, d)): moved
            for i, (a, d) in left
            if (moved := going(d, shape_of(op.operands[i])[a], size)) is not None
        }
        if not gone or (axes := ask(op, axis, index)) is None:
            return
        taken = [source for source in sorted(gone, key=str) if source[1][0] in axes[source[0]]]
        for digit in dict.fromkeys(gone[source] for source in taken):
            own = [(s, known[s[0]][s[1]]) for s in taken if gone[s] == digit]
            found[axis, digit] = self.made(op, (axis, digit), own)
        left.difference_update(taken)

    def viewed(self, op: View, marks: Marks[T]) -> Marks[T]:
        shape, whole = shape_of(op.input), shape_of(op.results[0])
        found, strides = Marks[T](), row_major(shape)
        for (axis, digit), what in marks.items():
            own = Digit(digit.unit * strides[axis], digit.count)
            try:
                key = digit_in(own, whole, row_major(whole))
            except Scattered:
                self.lost(op)
                continue
            if key is not None:
                found[key] = what
        return found


How: TypeAlias = tuple[
    Callable[[TensorOp, int, int], Sequence[Iterable[int]] | None],
    Callable[[Digit, int, int], Digit | None],
]


def any_digit(digit: Digit, length: int, size: int) -> Digit | None:
    return digit if size > 1 or digit.count == 1 else None


def first_digit(digit: Digit, length: int, size: int) -> Digit | None:
    """The digit of an axis of which the first elements need the first ones by the digit of an axis
    of `length` elements, where these are the first ones of it."""
    if digit.unit * digit.count != length or size % length:
        return None
    return Digit(digit.unit * (size // length), digit.count)


@dataclass(frozen=True, slots=True)
class Picked:
    """The indices along an axis of the input, one for each place in row-major order; `first` is the
    axis of the result that is the first one of `places`."""

    elements: Sequence[int]
    places: Shape
    first: int


def picked_elements(op: Picking, axis: int, indices: Dense) -> Picked:
    """The elements that constant indices pick along one of the axes that they are for."""
    shape = shape_of(op.indices)
    elements = [int(n) for n in indices.get_values()]
    if len(elements) == 1:  # stored once
        elements *= numel(shape)
    if isinstance(op, GatherNdOp):
        depth = axis - op.batch_dims.value.data
        return Picked(elements[depth :: shape[-1]], shape[:-1], 0)
    return Picked(elements, shape, axis if isinstance(op, GatherOp) else 0)


def followed(numbers: Sequence[int], picked: Picked, count: int) -> Key | None:
    """The digit of an axis of the result that `numbers` are at each place, where it goes through
    all of `count` of them again and again to the end of the axis."""
    stride = numel(picked.places)
    for axis, size in enumerate(picked.places):
        stride //= max(size, 1)
        line = numbers[: stride * size : max(stride, 1)]
        unit = next((i for i, n in enumerate(line) if n == 1), 0)
        if not unit or size % (unit * count):
            continue
        if all(n == at // stride % size // unit % count for at, n in enumerate(numbers)):
            return picked.first + axis, Digit(unit, count)
    return None
