"""Integers that stand for floats, on tiles: what quantize, dequantize and requantize are for the
vector unit.

    graph.requantize %x, %scale to i8          cast, mul, round, max, min, cast
"""

from math import prod
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.elementwise import RoundOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp, RequantizeOp
from ge.dialects.graph.support.folding import highest, lowest
from ge.dialects.support.boxes import Box, plus
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.data.arrays import dtype_of, float_limits
from ge.runtime.library.language import values as v
from ge.runtime.library.launch import Launch, NotLowered

GridOp: TypeAlias = QuantizeOp | DequantizeOp | RequantizeOp


class TileSource(Protocol):
    """Where the tiles of values come from."""

    @property
    def launch(self) -> Launch: ...

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> v.Expression: ...

    def tile(self, value: SSAValue, box: Box) -> v.Tile: ...

    def buffer(self, shape: v.Shape, like: SSAValue | Attribute) -> v.Tile: ...


LARGEST = 3.4028234663852886e38  # of f32


def on_grid(pull: TileSource, op: GridOp, box: Box, column: bool) -> v.Expression:
    """The tile of a box. Raises NotLowered where its arithmetic is not that of f32."""
    source, target = element_type(op.input), element_type(op.results[0])
    # codes of 8 bits and f16 are exact in f16, and what they give is rounded once there as well
    short = (
        target == f16 == element_type(op.scale) and not is_float(source) and bitwidth(source) <= 8
    )
    kind = f16 if short and isinstance(op, DequantizeOp) else f32
    x = v.cast(pull.expression(op.input, box, column), kind)
    scale = scale_of(pull, op, box, column, kind)
    zero = whole_of(pull, op, op.zero_point, box, column, kind)
    if isinstance(op, DequantizeOp):
        exact = bitwidth(source) <= 16 or zero is None
        if exact and bitwidth(target) <= 32:
            x = (x if zero is None else x - zero) * scale
            return v.cast(x, target)
    elif isinstance(op, QuantizeOp):
        low, high = float(lowest(target)), float(highest(target))
        if is_float(target) and op.saturate.value.data and bitwidth(source) <= 32:
            x, most = x / scale, float(float_limits(dtype_of(target)).max)
            x = x if zero is None else x + zero
            return v.cast(v.minimum(v.maximum(x, -most), most), target)
        if not is_float(target) and bitwidth(target) <= 16 and bitwidth(source) <= 32:
            x = x / scale
            x = v.unary(RoundOp, x) if zero is None else v.unary(RoundOp, x) + zero
            return v.cast(v.minimum(v.where(x >= low, x, low), high), target)  # low for nan
    elif op.rounding.data == "float32" and (
        number_of(pull.launch, op.offset) == 0 or bitwidth(source) <= 16
    ):
        offset = whole_of(pull, op, op.offset, box, column, kind)
        x = x if offset is None else x - offset
        finite = v.where(v.abs(scale) <= LARGEST, scale, 0.0)  # others count as 0
        low, high = op.limits()
        x = v.unary(RoundOp, x * finite)
        x = v.maximum(x if zero is None else x + zero, low)
        return v.cast(v.minimum(x, high), target)
    rounding = f" by rounding {op.rounding.data}" if isinstance(op, RequantizeOp) else ""
    raise NotLowered(f"{op.name} of {source} to {target}{rounding} is not computed in f32")


def scale_of(pull: TileSource, op: GridOp, box: Box, column: bool, kind: Attribute) -> v.Expression:
    """The scales of a box: one number, a row or a column, or one for each element."""
    return parameter(pull, op, 1, op.scale, box, column, kind)


def whole_of(
    pull: TileSource, op: GridOp, value: SSAValue | None, box: Box, column: bool, kind: Attribute
) -> "v.Value | None":
    """A zero point or an offset; None: there is none, or it is 0."""
    if value is None:
        return None
    number = number_of(pull.launch, value)
    if number is not None:
        return number or None
    index = next(i for i, o in enumerate(op.operands) if o is value and i > 1)
    return parameter(pull, op, index, value, box, column, kind)


def parameter(
    pull: TileSource,
    op: GridOp,
    index: int,
    value: SSAValue,
    box: Box,
    column: bool,
    kind: Attribute,
) -> v.Expression:
    """One number, a row or a column, or where a tile has several blocks one for each element."""
    needed = op.operand_box(index, box)
    assert needed is not None
    along, block = False, 0 if isinstance(op, RequantizeOp) else op.block_size.value.data
    if numel(shape_of(value)) > 1 and op.axis is not None:
        axis = normalize_axis(op.axis.value.data, len(box.sizes))
        long = [i for i, size in enumerate(box.sizes) if size > 1]
        if block:
            return blocks_of(pull, value, needed, box, axis, block, kind)
        along = axis in long and (axis != long[-1] or (len(long) == 1 and column))
    return v.cast(pull.expression(value, needed, along), kind)


def blocks_of(
    pull: TileSource,
    value: SSAValue,
    needed: Box,
    box: Box,
    axis: int,
    block: int,
    kind: Attribute,
) -> v.Expression:
    """The parameter of each block of rows or of columns: a row or a column of its own if the tile
    is within one, else repeated for each of them."""
    count, long = needed.sizes[axis], [i for i, size in enumerate(box.sizes) if size > 1]
    in_columns = long[-1:] == [axis]
    if count == 1:
        return v.cast(pull.expression(value, needed, in_columns), kind)
    if in_columns:
        return columns_of(pull, value, needed, box, axis, block, kind)
    rows, cols = (box.sizes[i] for i in long)
    if count * block != rows:
        raise NotLowered(f"a tile of {rows} rows begins within a block of {block}")
    each = pull.tile(value, needed)
    target = pull.buffer((rows, cols), value)
    for i in range(count):
        part = target.part(i * block, 0, (block, cols))
        part[:] = each.part(i, 0, (1, cols))
    return v.cast(target, kind)


def columns_of(
    pull: TileSource,
    value: SSAValue,
    needed: Box,
    box: Box,
    axis: int,
    block: int,
    kind: Attribute,
) -> v.Tile:
    """The parameters of blocks of columns, each in all columns of its block."""
    cols, count = box.sizes[axis], needed.sizes[axis]
    if count * block != cols or block * bitwidth(kind) % (8 * BLOCK):
        raise NotLowered(f"a tile of {cols} columns has no whole blocks of {block}")
    rows = max(prod(box.sizes) // cols, 1)
    target, spans = pull.buffer((rows, cols), kind), needed.spans
    first = spans[axis][0]
    for i in range(count):
        spans[axis] = (plus(first, i), 1)
        part = target.part(0, i * block, (rows, block))
        part[:] = v.cast(pull.expression(value, Box.of(spans), True), kind)
    return target


def number_of(launch: Launch, value: SSAValue | None) -> float | None:
    """One number: 0 where there is no value, None where it is not known."""
    number = 0 if value is None else launch.number(value)
    return None if number is None else float(number)
