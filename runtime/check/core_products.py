"""Matmuls as the proof of core plans sees them: their sizes, and what a tile of one keeps in each
memory of a core."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionLike, AttentionOp
from ge.dialects.graph.convolution import Convolution
from ge.dialects.npu_task.core_plan import (
    FRACTAL,
    PASSING_ROWS,
    STATISTICS,
    sum_bytes,
    wider_element,
)
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import align_up, element_type, numel, shape_of


def width_of(value: SSAValue) -> int:
    return storage_bytes(1, element_type(value))


def has_channels(op: TensorOp) -> bool:
    return isinstance(op, Convolution) or "group" in op.properties


def column_axis(op: TensorOp) -> int:
    last = max(len(shape_of(op.results[0])) - 1, 0)
    return min(1, last) if has_channels(op) else last


def groups_of(op: TensorOp) -> int:
    group = op.properties.get("group")
    return max(group.value.data, 1) if isinstance(group, IntegerAttr) else 1


def extents(op: TensorOp) -> tuple[int, int, int]:
    """How many matmuls an op is, and the rows and columns of the result of each."""
    shape = shape_of(op.results[0])
    if isinstance(op, AttentionLike):
        batch, heads, queries, _ = op.sizes("query")
        return batch * heads, queries, op.sizes("key")[2]
    groups, size = groups_of(op), max(numel(shape), 1)
    columns = max(shape[column_axis(op)] // groups, 1) if shape else 1
    stacked = len(shape) > 2 and len(op.operands) > 1 and len(shape_of(op.operands[1])) > 2
    if has_channels(op) or not stacked:
        return groups, max(size // (groups * columns), 1), columns
    rows = max(shape[len(shape) - 2], 1)
    return max(size // (rows * columns), 1), rows, columns


def tiles_of(op: TensorOp, tile: Sequence[int], copies: int) -> Iterator[tuple[str, str, int, int]]:
    """Memory, name, bytes and copies of each buffer that a tile of a matmul asks for; `copies` of
    what is filled while the other one is in use."""
    m, n, k = tile
    element = wider_element(op)
    width, sums = storage_bytes(1, element), sum_bytes(element)
    yield from (("l0a", "lhs", m * k * width, copies), ("l0b", "rhs", k * n * width, copies))
    if not isinstance(op, AttentionLike):
        yield from (("l1", "lhs", m * k * width, copies), ("l1", "rhs", k * n * width, copies))
        yield "l0c", "sum", m * n * sums, 1
        return
    rows, size = min(m, PASSING_ROWS), align_up(op.sizes("query")[3], FRACTAL)
    yield from (("l1", "query", m * size * width, 1), ("l1", "key", n * size * width, copies))
    yield "l0c", "scores", m * n * sums, 1
    yield from (("ub", name, rows * n * sums, copies) for name in ("scores", "weights"))
    yield "ub", "statistics", STATISTICS * m * sums, 1
    masks = [v for v in op.masks if numel(shape_of(v)) > 1]
    if masks:
        yield "ub", "mask", rows * n * sum(map(width_of, masks)), copies
    if isinstance(op, AttentionOp) and op.sizes("value")[3]:
        size = align_up(op.sizes("value")[3], FRACTAL)
        yield "l1", "value", n * size * width, copies
        yield "l1", "weights", m * n * width, copies
        yield "l0c", "sum", m * size * sums, 1
        yield "ub", "sum", rows * size * sums, copies
