"""Whether blocks of a kernel write bytes of their own, as the proof of core plans sees it: elements
of less than a byte share theirs with those beside them."""

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.access import Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of
from ge.runtime.check.core_products import has_channels


def shared_bytes(
    body: Body, tile: int, elements: int, matmuls: Sequence[TensorOp]
) -> Iterator[SSAValue]:
    """The outputs of which tiles (of a matmul, or of `tile` of the `elements` of a longest value)
    may begin inside a byte."""
    kept = all(map(_keeps_order, body.ops)) or (len(body.ops) == 1 and not matmuls)
    for value in body.outputs:
        bits = bitwidth(element_type(value))
        if bits % 8 == 0 or not numel(shape_of(value)):
            continue
        runs = [run for op in matmuls for run in _runs(op)]
        cut = numel(shape_of(value)) * tile * bits % (8 * elements) and not matmuls
        if not kept or cut or any(run * bits % 8 for run in runs):
            yield value


def _keeps_order(op: TensorOp) -> bool:
    """Whether a run of an op's results is made of a run of its operands; tiles of a matmul are runs
    of rows or channels."""
    rows = rows_of(op)
    if rows is not None:
        return rows.contiguous
    return op.ALWAYS_MACS or op.ACCESS in (Access.POINTWISE, Access.VIEW)


def _runs(op: TensorOp) -> Iterator[int]:
    """Where tiles of a matmul begin: at multiples of what lies next to each other, and of a
    fractal."""
    yield FRACTAL
    for result in op.results:
        shape = shape_of(result)
        yield prod(shape[2:]) if has_channels(op) else prod(shape[-1:])
