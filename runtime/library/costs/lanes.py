"""Lanes of the vector unit that ops take."""

from collections.abc import Container, Iterable, Mapping

from xdsl.dialects.builtin import i32

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike
from ge.dialects.support.access import Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.instructions import cycles


def lane_operations(
    body: Body,
    target: Target,
    fixpipe: Mapping[TensorOp, None] | None = None,
    without: Container[TensorOp] = (),
) -> float:
    """Element-operations of the vector unit, of 16-bit lanes, without those of some ops. A fixpipe
    computes the ops that are named, and adds the bias of convolutions whose sums are integers."""
    ops = [op for op in body.ops if op not in without]
    if fixpipe is not None:
        ops = [op for op in ops if op not in fixpipe and not _sums_integers(body, op)]
    return sum(lanes_of(body, ops, target).values())


def lanes_of(body: Body, ops: Iterable[TensorOp], target: Target) -> dict[TensorOp, float]:
    """The element-operations of each op, of 16-bit lanes; where the target states cycles of
    instructions, what all lanes could do meanwhile."""

    def lanes(op: TensorOp) -> float:
        work = body.work_of(op)
        if target.vector_cycles and not work.macs:
            return sum(count for count, _ in cycles(body, op, target)) * target.vector_lanes
        return work.vector * lane_width(op)

    return {op: lanes(op) for op in ops}


def _sums_integers(body: Body, op: TensorOp) -> bool:
    return body.work_of(op).macs > 0 and element_type(op.results[0]) == i32


def lane_width(op: TensorOp) -> float:
    """Lanes of 16 bits that an element of an op's result takes. Sums and exponentials of rows
    (softmax, norms, attention) are computed in 32 bits."""
    if not op.results:
        return 1.0
    rows = isinstance(op, AttentionLike) or op.ACCESS is Access.ROWS
    return max(bitwidth(element_type(op.results[0])), 32 if rows else 16) / 16
