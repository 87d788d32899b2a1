"""Outputs with elements of less than a byte: where tiles cut them between bytes, so that no two
cores write one."""

from collections.abc import Sequence
from math import gcd, lcm, prod

from ge.dialects.fused_op import Body
from ge.dialects.support.access import Access
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.runtime.library.costs.core_tiles import bits_of


def packed_outputs(body: Body) -> set[tuple[int, int]]:
    """Elements, and bits of each, of packed outputs."""
    outputs = ((numel(shape_of(v)), bits_of(v)) for v in body.outputs)
    return {(size, bits) for size, bits in outputs if size and bits < 8}


def packed_unit(body: Body, elements: int) -> int:
    """What tiles of a vector kernel's `elements` are multiples of, so that each has whole bytes of
    each output; 0 where tiles are no runs of an output's elements, so that one core writes it."""
    packed = packed_outputs(body)
    if not packed:
        return 1
    rows = (rows_of(op) for op in body.ops)
    runs = all(r is None or r.contiguous for r in rows)
    ordered = (Access.POINTWISE, Access.VIEW, Access.ROWS)
    if not runs or (len(body.ops) > 1 and any(op.ACCESS not in ordered for op in body.ops)):
        return 0
    return lcm(*(8 * elements // gcd(8 * elements, size * bits) for size, bits in packed))


def cuts_bytes(body: Body, matmuls: Sequence[TensorOp]) -> bool:
    """Whether tiles of matmuls may begin inside a byte of an output. Tiles have multiples of 16
    rows and columns; what lies next to each other is a row, or the places of a channel."""
    packed = packed_outputs(body)
    if not packed:
        return False
    others = (op for op in body.ops if op not in matmuls)
    if any(op.ACCESS not in (Access.POINTWISE, Access.VIEW) for op in others):
        return True
    shapes = [(shape_of(r), "group" in op.properties) for op in matmuls for r in op.results]
    runs = [prod(shape[2:]) if channels else shape[-1] for shape, channels in shapes if shape]
    return any(run * bits % 8 for run in runs for _, bits in packed)
