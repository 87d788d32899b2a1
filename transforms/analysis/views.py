"""Which graph ops are views: their result is part of the operand's memory, so nothing is launched.

These are reshape, squeeze and unsqueeze, and slices and splits whose elements lie next to each
other, all with static shapes: rows 2 to 4 of a matrix are a view, its columns are not.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.shape import View
from ge.dialects.graph.slicing import SliceOp, SplitOp, slice_bounds
from ge.dialects.npu_task.memory import row_major
from ge.dialects.npu_task.ops import is_dynamic
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, normalize_axis, numel, shape_of

CANDIDATES = (View, SliceOp, SplitOp)


def view_offsets(op: Operation) -> list[int] | None:
    """The first element of each result in the memory of operand 0; None when op is no view."""
    if not isinstance(op, CANDIDATES):
        return None
    assert isinstance(op, TensorOp)
    if any(is_dynamic(v.type) for v in (op.operands[0], *op.results)):
        return None
    if isinstance(op, View):
        return [0]
    if len(op.operands) != 1:
        return None
    shape = shape_of(op.operands[0])
    if isinstance(op, SliceOp):
        starts = _starts(op, shape)
        return None if starts is None else _contiguous(shape, [starts], [shape_of(op.result)])
    axis = normalize_axis(op.axis.value.data, len(shape))
    sizes = [shape_of(part) for part in op.parts]
    begins = accumulate((s[axis] for s in sizes[:-1]), initial=0)
    starts = [[b if d == axis else 0 for d in range(len(shape))] for b in begins]
    return _contiguous(shape, starts, sizes)


def whole_of(value: SSAValue) -> SSAValue:
    """The tensor all of whose memory a value shows, as a view of it or of views of it."""
    while isinstance(value.owner, Operation) and view_offsets(value.owner) is not None:
        source = value.owner.operands[0]
        if numel(shape_of(source)) != numel(shape_of(value)):
            break
        value = source
    return value


def storage(value: SSAValue) -> SSAValue:
    """The value whose memory a view shows, or shows a part of."""
    while isinstance(op := value.owner, Operation) and view_offsets(op) is not None:
        value = op.operands[0]
    return value


def _starts(op: SliceOp, shape: Shape) -> list[int] | None:
    """The first index in each dimension, None unless all steps are 1."""
    starts = [0] * len(shape)
    for axis, start, end, step in op.bounds() or ():
        if start is None or end is None or step != 1:
            return None
        starts[axis] = slice_bounds(start, end, step, shape[axis])[0]
    return starts


def _contiguous(
    shape: Shape, starts: Sequence[Sequence[int]], sizes: Sequence[Shape]
) -> list[int] | None:
    """The offsets of boxes of elements in a row-major tensor; None unless each is contiguous."""
    strides = row_major(shape)
    offsets: list[int] = []
    for start, size in zip(starts, sizes, strict=True):
        partial = [i for i, (d, n) in enumerate(zip(shape, size, strict=True)) if d != n]
        if prod(size) > 1 and partial and any(n != 1 for n in size[: partial[-1]]):
            return None
        offset = sum(a * b for a, b in zip(start, strides, strict=True))
        offsets.append(offset if prod(size) else 0)
    return offsets
