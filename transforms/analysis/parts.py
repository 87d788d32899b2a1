"""Parts of one axis that slices, splits and gathers of one index take.

%1 = graph.slice %0 starts [8] ends [16] axes [2]       Part(%0, 2, Range(8, 8))
%2 = graph.gather %0, 3 axis 1                          Part(%0, 1, Range(3, 1), dropped=True)
"""

from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue

from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.slicing import SliceOp, SplitOp, slice_bounds
from ge.dialects.support.types import DYNAMIC, constant_ints, normalize_axis, rank_of, shape_of


@dataclass(frozen=True)
class Range:
    """`count` elements of a dimension: start, start + step, ..."""

    start: int
    count: int
    step: int = 1

    def of(self, outer: "Range") -> "Range":
        """Return this range of the elements that `outer` picks."""
        start = outer.start + self.start * outer.step
        return Range(start, self.count, self.step * outer.step)

    def is_all(self, dim: int) -> bool:
        return self.count == dim and (dim <= 1 or (self.start == 0 and self.step == 1))

    def end(self, dim: int) -> int:
        """The bound that SliceOp takes; before the first element it counts from the end."""
        end = self.start + self.count * self.step
        return end if end >= 0 else end - dim


@dataclass(frozen=True)
class Part:
    """A range along an axis of a value; without this axis if it is `dropped`."""

    source: SSAValue
    axis: int
    range: Range
    dropped: bool = False

    @property
    def is_last(self) -> bool:
        return self.axis == rank_of(self.source) - 1


def part_of(value: SSAValue) -> Part | None:
    """The part of another value that a slice, a split or a gather of one index gives; None for
    other values, for slices along several axes, and where numbers are not known."""
    match op := value.owner:
        case SliceOp():
            if (bounds := op.bounds()) is None or len(bounds) != 1:
                return None
            ((axis, start, end, step),), shape = bounds, shape_of(op.input)
            if start is None or end is None or not step or shape[axis] == DYNAMIC:
                return None
            return Part(op.input, axis, Range(*slice_bounds(start, end, step, shape[axis]), step))
        case SplitOp() if isinstance(value, OpResult):
            axis = normalize_axis(op.axis.value.data, rank_of(op.input))
            sizes = [shape_of(p)[axis] for p in op.parts]
            index = value.index
            if DYNAMIC in sizes:
                return None
            return Part(op.input, axis, Range(sum(sizes[:index]), sizes[index]))
        case GatherOp() if rank_of(op.indices) == 0 and rank_of(op.input) > 0:
            axis = normalize_axis(op.axis.value.data, rank_of(op.input))
            index, size = constant_ints(op.indices), shape_of(op.input)[axis]
            if index is None or size <= 0:
                return None
            return Part(op.input, axis, Range(index[0] % size, 1), dropped=True)
        case _:
            return None
