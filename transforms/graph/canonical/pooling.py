"""Pooling by a window over the whole image, which is a reduction."""

from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.support.types import is_static, rank_of, shape_of
from ge.transforms.graph.canonical.local import Make, Replacement, rule


def reduced(op: PoolOp, make: Make, kind: str | None) -> Replacement:
    """The reduction of this kind over all spatial dimensions, where one window covers them."""
    shape = shape_of(op.input)
    if kind is None or not is_static(shape) or 0 in shape or not op.window().covers(shape[2:]):
        return None
    return make(ReduceOp, op.input, kind=kind, axes=range(2, rank_of(op.input)))


@rule(PoolOp)
def maximum_of_image(op: PoolOp, make: Make) -> Replacement:
    """The maximum under a window over the whole image is that of the image."""
    return reduced(op, make, "max" if op.kind.data == "max" else None)


@rule(PoolOp, exact=False)
def average_of_image(op: PoolOp, make: Make) -> Replacement:
    """An average or a norm under a window over the whole image is that of the image; where
    padding counts as zeros there must be none."""
    if op.kind.data == "lp":
        return reduced(op, make, {1: "l1", 2: "l2"}.get(op.p.value.data))
    counts_padding = op.count_include_pad.value.data and any(op.window().pads)
    return reduced(op, make, "mean" if op.kind.data == "average" and not counts_padding else None)
