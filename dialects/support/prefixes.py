"""Whether the first elements of a result depend on the first elements of operands alone, by the
boxes that the op states: then what lies behind them (the padding of a gear) does not count.

    %0, %1 = graph.lstm %x, %w, %r : (tensor<5x8x16xf32>, ...) -> tensor<5x1x8x4xf32>, ...
    each_axes(op, 2)      # ({1}, {}, {}): element n of the batch needs element n of %x along 1
    prefix_axes(op, 0)    # ({0}, {}, {}): the first n steps need the first n, they go forward
    prefix_axes(op, 0, 1) # None: the last state needs all steps

Shapes are static, as for boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ge.dialects.support.access import Access
from ge.dialects.support.boxes import Box, BoxInterface, Unknown
from ge.dialects.support.types import shape_of

Axes = frozenset[int]


def says_boxes(op: object) -> bool:
    """Whether an op says which elements of operands its results need."""
    if not isinstance(op, BoxInterface):
        return False
    follows = op.ACCESS in (Access.POINTWISE, Access.VIEW)
    return follows or type(op).operand_box is not BoxInterface.operand_box


def each_axes(op: BoxInterface, axis: int, result: int = 0) -> tuple[Axes, ...] | None:
    """For each operand the axes, as long as `axis` of a result, along which element i of the result
    needs what is at index i of the operand alone. Along other axes all elements need the same. None
    where no operand has such an axis, where one is needed in another way, or where sizes count."""
    if not says_boxes(op) or op.counts_size(axis, result):
        return None
    shape = shape_of(op.results[result])
    part, found = Unknown(), list[Axes]()
    box = Box.part(shape, {axis: (part, 1)})
    for i, operand in enumerate(op.operands):
        needed = op.operand_box(i, box, result)
        spans = [] if needed is None else needed.spans
        cut = {a for a, span in enumerate(spans) if not isinstance(span[0], int)}
        if any(spans[a] != (part, 1) for a in cut):
            return None
        found.append(frozenset(a for a in cut if shape_of(operand)[a] == shape[axis]))
    return tuple(found) if any(found) else None


def prefix_axes(op: BoxInterface, axis: int, result: int = 0) -> tuple[Axes, ...] | None:
    """As `each_axes`, for what the first n elements of the result need, whatever n is: the axes
    along which it is the first n elements of the operand, or fewer of them. Asks for as many boxes
    as the axis has elements."""
    if not says_boxes(op) or op.counts_size(axis, result):
        return None
    shape = shape_of(op.results[result])
    needs = [[_Needs(d, d == shape[axis]) for d in shape_of(v)] for v in op.operands]
    for n in range(1, shape[axis] + 1):
        box = Box.part(shape, {axis: (0, n)})
        for i, own in enumerate(needs):
            spans = _spans(op, i, box, result)
            if not all([need.see(span, n) for need, span in zip(own, spans, strict=True)]):
                return None
    found = [frozenset(a for a, need in enumerate(own) if not need.same) for own in needs]
    return tuple(found) if any(found) else None


@dataclass(slots=True)
class _Needs:
    """What the first n elements need of an operand along one of its axes, for the n so far."""

    size: int
    prefix: bool
    same: bool = True
    first: tuple[int, int] | None = None

    def see(self, span: tuple[int, int], n: int) -> bool:
        """Takes what the first n need. Returns whether it is the same for each n, or a prefix."""
        low, high = max(span[0], 0), min(span[0] + span[1], self.size)
        own = (low, max(high, low))
        self.first = self.first or own
        self.same = self.same and own == self.first
        self.prefix = self.prefix and own[1] <= n
        return self.same or self.prefix


def _spans(op: BoxInterface, index: int, box: Box, result: int) -> Sequence[tuple[int, int]]:
    shape = shape_of(op.operands[index])
    return (op.operand_box(index, box, result) or Box.whole(shape)).spans
