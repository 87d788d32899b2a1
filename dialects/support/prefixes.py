"""Whether the first elements of a result depend on the first elements of operands alone, by the
boxes that the op states: then what lies behind them (the padding of a gear) does not count.

    %0, %1 = graph.lstm %x, %w, %r : (tensor<5x8x16xf32>, ...) -> tensor<5x1x8x4xf32>, ...
    each_axes(op, 2)      # ({1}, {}, {}): element n of the batch needs element n of %x along 1
    prefix_axes(op, 0)    # ({0}, {}, {}): the first n steps need the first n, they go forward
    prefix_axes(op, 0, 1) # None: the last state needs all steps

Shapes are static, as for boxes.
"""

from dataclasses import dataclass

from ge.dialects.support.access import Access
from ge.dialects.support.boxes import Box, BoxInterface, Span, Unknown
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
    along which it is the first n elements of the operand, or fewer of them. Where the axis of the
    result is k times as long as all of these (an image is enlarged), it is so for the first k * n.
    Asks for as many boxes as the axis has elements."""
    if not says_boxes(op) or op.counts_size(axis, result):
        return None
    size = shape_of(op.results[result])[axis]
    lengths = {d for v in op.operands for d in shape_of(v) if d > 1 and size % d == 0}
    found = (_prefix_axes(op, axis, result, d) for d in sorted(lengths, reverse=True))
    return next((axes for axes in found if axes is not None), None)


def _prefix_axes(op: BoxInterface, axis: int, result: int, length: int) -> tuple[Axes, ...] | None:
    """`prefix_axes` for axes of operands of one length."""
    shape = shape_of(op.results[result])
    times = shape[axis] // length
    needs = [[_Needs(d, d == length) for d in shape_of(v)] for v in op.operands]
    for n in range(1, length + 1):
        box = Box.part(shape, {axis: (0, n * times)})
        for i, own in enumerate(needs):
            needed = op.operand_box(i, box, result) or Box.whole(shape_of(op.operands[i]))
            if not all([need.see(s, n) for need, s in zip(own, needed.spans, strict=True)]):
                return None
    found = [frozenset(a for a, need in enumerate(own) if not need.same) for own in needs]
    return tuple(found) if any(found) else None


@dataclass(slots=True)
class _Needs:
    """What the first elements need of an operand along one of its axes, for all n so far."""

    size: int
    prefix: bool
    same: bool = True
    first: Span | None = None

    def see(self, span: Span, n: int) -> bool:
        """Takes what is needed for n. Returns whether it is the same for each n, or the first n."""
        low, high = max(span[0], 0), min(span[0] + span[1], self.size)
        own = (low, max(high, low))
        self.first = self.first or own
        self.same = self.same and own == self.first
        self.prefix = self.prefix and own[1] <= n
        return self.same or self.prefix
