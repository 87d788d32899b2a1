"""What an op may say of itself beyond `TensorOp`: bases that an author adds to a class where they
hold, and that passes ask for with `isinstance`."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from ge.dialects.support.access import Access, Rows, aligned_axes, rows_along
from ge.dialects.support.boxes import Box, BoxInterface, Unknown, aligned_box
from ge.dialects.support.inference import Param
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of


class RowsInterface(TensorOp, ABC):
    """Ops on independent rows of elements of the first operand."""

    ACCESS: ClassVar = Access.ROWS

    @abstractmethod
    def row_axes(self) -> Collection[int] | None:
        """The axes along which rows are, counted from the front; None when they are not known."""

    def rows(self) -> Rows | None:
        """The rows; None when it is not known where they are."""
        axes = self.row_axes()
        return None if axes is None else rows_along(shape_of(operands_of(self)[0]), axes)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """All of each row; other operands broadcast. A result without the axes has the others in
        their order."""
        axes, shape = self.row_axes(), shape_of(operands_of(self)[index])
        if axes is None:
            return None
        if index:
            return aligned_box(box, shape)
        if len(shape) == len(box.sizes):
            return box.along(shape, axes)
        return Box.part(
            shape, dict(zip((i for i in range(len(shape)) if i not in axes), box.spans))
        )

    def local_parts(self, index: int) -> int | None:
        rows = self.rows() if index == 0 else None
        return None if rows is None else rows.parts


def rows_of(op: Operation) -> Rows | None:
    """The rows that an op works on, None where there are none or they are not known."""
    return op.rows() if isinstance(op, RowsInterface) else None


class SplitInterface(TensorOp):
    """Ops that can be split along an axis of their results."""

    def is_same_op(self, axis: int) -> bool:
        """Whether the op, as it is, computes a part of the result, cut along an axis, if it is
        given the parts of operands that this needs."""
        return True

    def split_axes(self, axis: int) -> tuple[int | None, ...] | None:
        """How the op comes apart when all its results are cut along `axis` (counted from the
        front): for each operand the axis along which part i of the results needs part i of it
        alone, None where each part needs all of it. None altogether when the parts are not
        independent, or another op would have to compute them."""
        if not self.is_same_op(axis):
            return None
        shape, part, axes = shape_of(self.results[0]), Unknown(), list[int | None]()
        if is_plainly_pointwise(self):
            aligned = aligned_axes(axis, len(shape), operands_of(self))
            return aligned if shape[axis] == 1 or aligned.count(None) < len(aligned) else None
        box = Box.part(shape, {axis: (part, 1)})
        for index in range(len(operands_of(self))):
            needed = self.operand_box(index, box)
            cuts = [] if needed is None else [s for s in needed.spans if not isinstance(s[0], int)]
            if needed is None or not cuts:
                axes.append(None)
            elif cuts == [(part, 1)]:
                axes.append(needed.offsets.index(part))
            else:
                return None
        is_cut = shape[axis] == 1 or any(own is not None for own in axes)
        return tuple(axes) if is_cut else None


def is_plainly_pointwise(op: TensorOp) -> bool:
    """Whether operands broadcast to the results, and boxes are those of any such op."""
    if op.ACCESS is not Access.POINTWISE:
        return False
    rank = len(shape_of(op.results[0]))
    if any([len(shape_of(v)) > rank for v in operands_of(op)]):
        return False
    return type(op).operand_box is BoxInterface.operand_box


def split_axes(op: Operation, axis: int) -> tuple[int | None, ...] | None:
    """As `SplitInterface.split_axes`; None for any other op."""
    return op.split_axes(axis) if isinstance(op, SplitInterface) else None


class SliceInterface(TensorOp, ABC):
    """Ops whose results may be boxes of elements of the first operand."""

    @abstractmethod
    def part_starts(self) -> Sequence[Sequence[int]] | None:
        """For each result the index of its first element in operand 0, if it is a box of that
        operand's elements; None otherwise. Shapes are static."""


@dataclass(frozen=True, slots=True)
class Permuted:
    """How an op says the same of operands whose dimensions are in another order: which operands
    (by number; the others stay), with which properties, and in which order the dimensions of the
    results are then. Dimension i of a permuted value is dimension order[i] of the value."""

    operands: Sequence[int]
    order: Sequence[int]
    params: Mapping[str, Param]


class PermuteInterface(TensorOp, ABC):
    """Ops that take operands whose dimensions are in another order."""

    @abstractmethod
    def permuted(self, order: Sequence[int]) -> Permuted | None:
        """The op for operands whose dimensions are in this order, None when it needs the one that
        they have. An operand of fewer dimensions counts as one with ones in front."""
