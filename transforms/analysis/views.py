"""Graph ops that are views: their result is part of the operand's memory, so nothing is
launched.

These are reshape, squeeze and unsqueeze, and slices and splits whose elements lie next to each
other, all with static shapes: rows 2 to 4 of a matrix are a view, its columns are not. Of packed
elements a view is whole bytes, or ends with the operand.
"""

from collections.abc import Sequence
from functools import cache
from math import prod

from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.memory import row_major
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import elements_per_byte
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import SliceInterface, TensorOp
from ge.dialects.support.types import Shape, element_type, is_dynamic, numel, shape_of


@cache
def may_be_view(cls: type[Operation]) -> bool:
    """Return whether ops of a class may be views."""
    return issubclass(cls, SliceInterface) or (
        issubclass(cls, TensorOp) and cls.ACCESS is Access.VIEW
    )


def view_offsets(op: Operation) -> list[int] | None:
    """The first element of each result in the memory of operand 0; None when op is no view."""
    if not may_be_view(type(op)):
        return None
    for value in (operands_of(op)[0], *op.results):
        if is_dynamic(value.type):
            return None
    if isinstance(op, TensorOp) and op.ACCESS is Access.VIEW:
        return [0] * len(op.results)
    assert isinstance(op, SliceInterface)
    if len(op.operands) != 1 or (starts := op.part_starts()) is None:
        return None
    source, sizes = op.operands[0], [shape_of(r) for r in op.results]
    offsets = _contiguous(shape_of(source), starts, sizes)
    if offsets is None or (many := elements_per_byte(element_type(source))) == 1:
        return offsets
    ends = [offset + prod(size) for offset, size in zip(offsets, sizes, strict=True)]
    last = numel(shape_of(source))
    whole = not any(o % many for o in offsets) and all(e % many == 0 or e == last for e in ends)
    return offsets if whole else None


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
