"""What the vector unit does before and after matmuls."""

from dataclasses import replace

from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.support.access import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.runtime.costs.core_tiles import Footprint, Within


def around(
    body: Body, matmuls: list[TensorOp], accumulator: int
) -> tuple[Footprint | None, Footprint | None]:
    """What the vector unit computes of the operands of matmuls, and what follows them; None where
    it has nothing to do. A result of the cube comes to UB with `accumulator` bytes an element,
    unless it goes to memory as it is."""
    before = _before(body, matmuls)
    after = [op for op in body.ops if op not in before and op not in matmuls]
    names = Within.all_of(body)
    prologue = epilogue = None
    if any(op.ACCESS is not Access.VIEW for op in before):
        part = _part(body, list(before), {v for op in matmuls for v in op.operands})
        longest = max(numel(shape_of(r)) for op in before for r in op.results)
        prologue = Footprint.of(part, max(longest, 1), rows_stay=False, within=names)
    if any(op.ACCESS is not Access.VIEW for op in after):
        part = _part(body, after, set(body.outputs))
        widths = {r: accumulator for op in matmuls for r in op.results}
        arriving = {v: width for v, width in widths.items() if v in part.inputs}
        elements = max(sum(numel(shape_of(v)) for v in widths), 1)
        axes = {shape_of(r): column_axis(op) for op in matmuls for r in op.results}
        within = replace(names, arriving=arriving, axes=axes)
        epilogue = Footprint.of(part, elements, whole_rows=True, within=within)
    return prologue, epilogue


def column_axis(op: TensorOp) -> int:
    """The dimension of a result for which the right-hand side has columns: channels of a
    convolution, else the last one."""
    last = max(len(shape_of(op.results[0])) - 1, 0)
    return min(1, last) if "group" in op.properties else last


def _before(body: Body, matmuls: list[TensorOp]) -> dict[TensorOp, None]:
    """The ops that compute operands of the matmuls, in order."""
    values = {v for op in matmuls for v in op.operands}
    before: list[TensorOp] = []
    for op in reversed(body.ops):
        if op not in matmuls and any(r in values for r in op.results):
            values.update(op.operands)
            before.append(op)
    return dict.fromkeys(reversed(before))


def _part(body: Body, ops: list[TensorOp], used: set[SSAValue]) -> Body:
    inside = {r for op in ops for r in op.results}
    inputs = dict.fromkeys(v for op in ops for v in op.operands if v not in inside)
    outputs = [r for op in ops for r in op.results if r in used or r in body.outputs]
    return Body(ops, list(inputs), outputs, works=body.works)
