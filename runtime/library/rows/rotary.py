"""Rotary position embedding on tiles: rows of pairs (a, b), each element computed of both.

Halves that begin where UB can be addressed are sub-tiles:

    y[:h] = a cos - b sin         y[h:] = a sin + b cos

Other pairs, such as neighbours, are brought together by gathering columns: x with the elements of
each pair exchanged, and the angle of each element.

    y = x cos + exchanged sin     where sin is negative for the first element of a pair
"""

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.support.boxes import Box, aligned_box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.launch import NotLowered

if TYPE_CHECKING:
    from ge.runtime.library.pulling import Pull


def rotated(
    pull: "Pull", op: RotaryEmbeddingOp, value: SSAValue, box: Box, shape: v.Shape
) -> v.Tile:
    """The tile of a box. Raises NotLowered where it has not whole rows."""
    (rows, cols), length = shape, shape_of(value)[-1]
    if cols != length or not isinstance(box.offsets[-1], int):
        raise NotLowered("rows are rotated as a whole")
    size = shape_of(op.cos)[-1] * (1 if op.full_tables.value.data else 2)
    unit = BLOCK * 8 // min(bitwidth(element_type(v)) for v in op.operands)
    if length % unit or (size < cols and size % unit):
        raise NotLowered(f"rows of {op.input.type} are not rotated in parts of 32 bytes")
    x, y = pull.tile(op.input, box), pull.buffer((rows, cols), value)
    half = size // 2
    if half % unit == 0 and not op.interleaved.value.data:
        a, b = (v.wide(x.part(0, at, (rows, half))) for at in (0, half))
        (c0, c1), (s0, s1) = halves(pull, op, op.cos, box), halves(pull, op, op.sin, box)
        y.part(0, 0, (rows, half))[:] = v.cast(a * c0 - b * s0, y.element)
        y.part(0, half, (rows, half))[:] = v.cast(a * s1 + b * c1, y.element)
    else:
        first = x.part(0, 0, (rows, size)) if size < cols else x
        other = pull.buffer((rows, size), value)
        pairs = (1, -1, (2, 2)) if op.interleaved.value.data else (half, 1, (half, -half))
        pull.c.take(other, first, *pairs)
        cos, sin = angles(pull, op, op.cos, box, size), angles(pull, op, op.sin, box, size)
        sin = v.where(firsts(pull, op, size), -sin, sin)
        result = v.wide(first) * cos + v.wide(other) * sin
        y.part(0, 0, (rows, size))[:] = v.cast(result, y.element)
    if size < cols:
        y.part(0, size, (rows, cols - size))[:] = x.part(0, size, (rows, cols - size))
    return y


def table_of(pull: "Pull", value: SSAValue, box: Box, unit: int = 1) -> v.Tile:
    """The rows of a table for a box, with a multiple of `unit` columns."""
    spans = aligned_box(box, shape_of(value)).spans
    spans[-1] = (0, align_up(shape_of(value)[-1], unit))
    return pull.tile(value, Box.of(spans))


def halves(
    pull: "Pull", op: RotaryEmbeddingOp, value: SSAValue, box: Box
) -> tuple[v.Expression, v.Expression]:
    """What both elements of pairs are multiplied with."""
    tile, table = table_of(pull, value, box), shape_of(value)[-1]
    half = table // 2 if op.full_tables.value.data else table
    first, second = (tile.part(0, at, (tile.shape[0], half)) for at in (0, table - half))
    return v.wide(first), v.wide(second)


def angles(
    pull: "Pull", op: RotaryEmbeddingOp, value: SSAValue, box: Box, size: int
) -> v.Expression:
    """What each element is multiplied with."""
    tile = table_of(pull, value, box, BLOCK * 8 // bitwidth(element_type(value)))
    if op.full_tables.value.data:
        return v.wide(tile.part(0, 0, (tile.shape[0], size)))
    each = pull.buffer((tile.shape[0], size), value)
    pairs = (0, 0, (2, 1)) if op.interleaved.value.data else (0, 1, (size // 2, 0))
    return v.wide(pull.c.take(each, tile, *pairs))


def firsts(pull: "Pull", op: RotaryEmbeddingOp, size: int) -> v.Expression:
    """Which elements are the first of their pair."""
    column = v.cast(pull.count("columns", size, 0), f32)
    if not op.interleaved.value.data:
        return column < size // 2
    return column - v.unary(FloorOp, column * 0.5) * 2 < 1
