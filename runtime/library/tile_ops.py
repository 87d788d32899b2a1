"""Boxes as tiles, and ops that are several instructions on them.

Integers that stand for floats: quantize, dequantize and requantize as instructions of the vector
unit.

    graph.requantize %x, %scale to i8          cast, mul, round, cast

The last conversion limits numbers to those of the type. Floats of 16 bits are few: where no code of
any of them differs, they are multiplied by the inverse of a scale, not divided by it, and the zero
point is added before codes are rounded, which the conversion to integers does then.

Rotary position embedding: rows of pairs (a, b), each element computed of both.

Halves that begin where UB can be addressed are sub-tiles:

    y[:h] = a cos - b sin         y[h:] = a sin + b cos

Other pairs, such as neighbours, are brought together by gathering columns: x with the elements of
each pair exchanged, and the angle of each element.

    y = x cos + exchanged sin     where sin is negative for the first element of a pair

Running sums and products: row after row, in the order of the kernel's body.

    %y = graph.cumulative sum %x axis 0
        y[0] = x[0]; for i: y[i] = y[i - 1] + x[i]

Where the axis is that of a tile's columns, rows become columns first, and columns rows at the end.
Of rows in parts, the last sum of each part is kept for the next one."""

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.graph.elementwise import CastOp, ClampOp, FloorOp, RoundOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp, RequantizeOp
from ge.dialects.graph.reduction import CumulativeOp
from ge.dialects.graph.shape import BroadcastToOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp, SplitOp
from ge.dialects.graph.support.elementwise_bases import Elementwise
from ge.dialects.graph.support.parameters import highest, lowest
from ge.dialects.support.boxes import Access, Box, aligned_box, plus
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.data.arrays import dtype_of, float_limits
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, LoopIndex, number_of
from ge.runtime.library.language.values import Shape
from ge.runtime.library.launch import Launch, NotLowered

if TYPE_CHECKING:
    from ge.runtime.library.pulling import Pull


GridOp: TypeAlias = QuantizeOp | DequantizeOp | RequantizeOp


class TileSource(Protocol):
    """A source of the tiles of values."""

    @property
    def launch(self) -> Launch: ...

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> v.Expression: ...

    def tile(self, value: SSAValue, box: Box) -> v.Tile: ...

    def buffer(self, shape: v.Shape, like: SSAValue | Attribute) -> v.Tile: ...

    def column(self, tile: v.Tile, number: int) -> v.Tile: ...


LARGEST = 3.4028234663852886e38  # of f32


def on_grid(pull: TileSource, op: GridOp, box: Box, column: bool) -> v.Expression:
    """The tile of a box. Raises NotLowered where its arithmetic is not that of f32."""
    source, target = element_type(op.input), element_type(op.results[0])
    # codes of 8 bits and f16 are exact in f16, and what they give is rounded once there as well
    short = (
        target == f16 == element_type(op.scale) and not is_float(source) and bitwidth(source) <= 8
    )
    kind = f16 if short and isinstance(op, DequantizeOp) else f32
    x = pull.expression(op.input, box, column)
    if isinstance(op, QuantizeOp) and is_conversion(pull.launch, op):
        return v.saturated(x, target)
    x = v.cast(x, kind)
    scale = scale_of(pull, op, box, column, kind)
    zero = whole_of(pull, op, op.zero_point, box, column, kind)
    if isinstance(op, DequantizeOp):
        exact = bitwidth(source) <= 16 or zero is None
        if exact and bitwidth(target) <= 32:
            x = (x if zero is None else x - zero) * scale
            return v.cast(x, target)
    elif isinstance(op, QuantizeOp):
        if is_float(target) and op.saturate.value.data and bitwidth(source) <= 32:
            x, most = x / scale, float(float_limits(dtype_of(target)).max)
            x = x if zero is None else x + zero
            return v.cast(v.minimum(v.maximum(x, -most), most), target)
        if not is_float(target) and bitwidth(target) <= 16 and bitwidth(source) <= 32:
            form = form_of(pull.launch, op)
            x = x / scale if form is None else x * form.inverse
            if zero is not None and (form is None or not form.adds_first):
                x = v.unary(RoundOp, x)
            return v.saturated(x if zero is None else x + zero, target)
    elif op.rounding.data == "float32" and (
        known_number(pull.launch, op.offset) == 0 or bitwidth(source) <= 16
    ):
        offset = whole_of(pull, op, op.offset, box, column, kind)
        x = x if offset is None else x - offset
        finite = v.where(v.abs(scale) <= LARGEST, scale, 0.0)  # others count as 0
        low, high = op.limits()
        x = v.unary(RoundOp, x * finite)
        x = x if zero is None else x + zero
        x = x if low == lowest(target) else v.maximum(x, low)
        return v.saturated(x if high == highest(target) else v.minimum(x, high), target)
    rounding = f" by rounding {op.rounding.data}" if isinstance(op, RequantizeOp) else ""
    raise NotLowered(f"{op.name} of {source} to {target}{rounding} is not computed in f32")


def is_conversion(launch: Launch, op: QuantizeOp) -> bool:
    """True if f16 is rounded to codes of 8 bits, by a scale of 1 and without a zero point."""
    narrow = element_type(op.input) == f16 and bitwidth(op.to) == 8 and not is_float(op.to)
    return (
        narrow and known_number(launch, op.scale) == 1 and known_number(launch, op.zero_point) == 0
    )


class Form(NamedTuple):
    """A way to codes without a division: `inverse` of the scale, and whether the zero point may be
    added before these are rounded."""

    inverse: float
    adds_first: bool


def form_of(launch: Launch, op: QuantizeOp) -> Form | None:
    """The way to the codes of floats of 16 bits, which a cast may have widened; None of others, and
    where numbers are not known, or some code would differ."""
    cast = op.input.owner
    element = element_type(cast.input if isinstance(cast, CastOp) else op.input)
    scale, zero = known_number(launch, op.scale), known_number(launch, op.zero_point)
    if not is_float(element) or bitwidth(element) != 16 or not scale or zero is None:
        return None
    return same_codes(element, element_type(op.result), scale, zero)


@lru_cache(256)
def same_codes(element: Attribute, target: Attribute, scale: float, zero: float) -> Form | None:
    """The first way that gives all floats of a type the codes of the division."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(element)).astype(np.float32)
    low, high = float(lowest(target)), float(highest(target))
    with np.errstate(all="ignore"):
        inverse, zero_point = np.float32(1) / np.float32(scale), np.float32(zero)
        ways = (
            np.rint(numbers / np.float32(scale)) + zero_point,
            np.rint(numbers * inverse + zero_point),
            np.rint(numbers * inverse) + zero_point,
        )
        exact, *found = (np.minimum(np.where(way >= low, way, low), high) for way in ways)
    same = [np.array_equal(codes, exact) for codes in found]
    return Form(float(inverse), same[0]) if any(same) else None


def scale_of(pull: TileSource, op: GridOp, box: Box, column: bool, kind: Attribute) -> v.Expression:
    """The scales of a box: one number, a row or a column, or one for each element."""
    return parameter(pull, op, 1, op.scale, box, column, kind)


def whole_of(
    pull: TileSource, op: GridOp, value: SSAValue | None, box: Box, column: bool, kind: Attribute
) -> "v.Value | None":
    """A zero point or an offset; None: there is none, or it is 0."""
    if value is None:
        return None
    number = known_number(pull.launch, value)
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
    target = pull.buffer((rows, cols), kind)
    for i in range(count):
        part = target.part(i * block, 0, (block, cols))
        part[:] = v.cast(each.part(i, 0, (1, cols)), kind)
    return target


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
    first, all_of_them = spans[axis][0], None
    if bitwidth(element_type(value)) < 8:  # a column of them would begin within a byte
        all_of_them = pull.buffer((rows, count), kind)
        all_of_them[:] = v.cast(pull.tile(value, needed), kind)
    for i in range(count):
        spans[axis] = (plus(first, i), 1)
        part = target.part(0, i * block, (rows, block))
        if all_of_them is None:
            part[:] = v.cast(pull.expression(value, Box.of(spans), True), kind)
        else:
            part[:] = pull.column(all_of_them, i)
    return target


def known_number(launch: Launch, value: SSAValue | None) -> float | None:
    """One number: 0 where there is no value, None where it is not known."""
    number = 0 if value is None else launch.number(value)
    return None if number is None else float(number)


COPIES = (TransposeOp, SplitOp, BroadcastToOp)


def long_dims(box: Box) -> list[int]:
    """The dimensions along which a box has several elements."""
    return [i for i, size in enumerate(box.sizes) if size > 1]


def is_pointwise(op: object) -> bool:
    """True if a `tile.map` has the same op."""
    return isinstance(op, Elementwise | ClampOp)


def tile_shape(box: Box, column: bool) -> Shape:
    """Raises NotLowered for a box of more than two long dimensions."""
    sizes = [box.sizes[i] for i in long_dims(box)]
    if len(sizes) > 2:
        raise NotLowered(f"a tile has two dimensions, not {sizes}")
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    size = sizes[0] if sizes else 1
    return (size, 1) if column else (1, size)


def is_copy(op: TensorOp) -> bool:
    """True if a box of the result has the elements of the operand's box, and in their order (not so
    a triangle, a slice backwards or a concatenation)."""
    if isinstance(op, SliceOp):
        return all(step is not None and step > 0 for *_, step in op.bounds() or ((None,),))
    return op.ACCESS is Access.VIEW or isinstance(op, COPIES)


def place_of(op: TensorOp, box: Box, result: int) -> Box | None:
    """The box of a view's or a copy's operand; None where it has not the rows and columns of the
    result's."""
    is_one = len(op.operands) == 1 and is_copy(op)
    needed = op.operand_box(0, box, result) if is_one else None
    if needed is None:
        return None
    found: list[int] = []
    for dim in long_dims(box):  # one at a time, to see which is which
        sizes = tuple(size if i == dim else 1 for i, size in enumerate(box.sizes))
        line = op.operand_box(0, Box(box.offsets, sizes), result)
        long = [] if line is None else long_dims(line)
        if line is None or len(long) != 1 or line.sizes[long[0]] != box.sizes[dim]:
            return None
        found += long
    return needed if found == long_dims(needed) else None


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
    """The factors of the first and the second elements of pairs."""
    tile, table = table_of(pull, value, box), shape_of(value)[-1]
    half = table // 2 if op.full_tables.value.data else table
    first, second = (tile.part(0, at, (tile.shape[0], half)) for at in (0, table - half))
    return v.wide(first), v.wide(second)


def angles(
    pull: "Pull", op: RotaryEmbeddingOp, value: SSAValue, box: Box, size: int
) -> v.Expression:
    """The factor of each element."""
    tile = table_of(pull, value, box, BLOCK * 8 // bitwidth(element_type(value)))
    if op.full_tables.value.data:
        return v.wide(tile.part(0, 0, (tile.shape[0], size)))
    each = pull.buffer((tile.shape[0], size), value)
    pairs = (0, 0, (2, 1)) if op.interleaved.value.data else (0, 1, (size // 2, 0))
    return v.wide(pull.c.take(each, tile, *pairs))


def firsts(pull: "Pull", op: RotaryEmbeddingOp, size: int) -> v.Expression:
    """A condition that is true for elements that are the first of their pair."""
    column = v.cast(pull.count("columns", size, 0), f32)
    if not op.interleaved.value.data:
        return column < size // 2
    return column - v.unary(FloorOp, column * 0.5) * 2 < 1


def accumulated(pull: "Pull", op: CumulativeOp, value: SSAValue, box: Box, column: bool) -> v.Tile:
    """The tile of a box, which has all of the axis or a part in a loop over all of them. Raises
    NotLowered where it has not."""
    (axis,), dims = op.row_axes() or (-1,), long_dims(box)
    if axis not in dims:
        raise NotLowered("a running sum is along a dimension that its tiles have not")
    source = pull.tile(op.input, box)
    along_rows = dims == [axis, *dims[1:]] and len(dims) == 2
    scan = Scan(pull, op, value, box, axis)
    if along_rows:
        return scan.rows(source)
    found = scan.columns(source)
    if not column:
        return found
    turned = pull.buffer(found.T.shape, value)
    pull.c.move(turned, found.T)
    return turned


class Scan:
    """The sums of one box, while they are written."""

    def __init__(
        self, pull: "Pull", op: CumulativeOp, value: SSAValue, box: Box, axis: int
    ) -> None:
        self.pull, self.c, self.op, self.value = pull, pull.c, op, value
        self.extent, self.size = shape_of(value)[axis], box.sizes[axis]
        self.is_exclusive = bool(op.exclusive.value.data)
        self.is_reverse = bool(op.reverse.value.data)
        self.neutral = 0 if op.kind.data == "sum" else 1
        self.box, self.axis = box, axis

    def columns(self, source: v.Tile) -> v.Tile:
        """The sums along each row of a tile."""
        rows, cols = source.shape
        unit = BLOCK * 8 // min(bitwidth(element_type(self.value)), 8 * BLOCK)
        shape = align_up(rows, unit), align_up(cols, unit)
        wide = source
        if shape != source.shape:
            wide = self.pull.buffer(shape, self.value)
            self.c.fill(wide, 0)
            wide.part(0, 0, source.shape)[:] = source
        turned = self.pull.buffer(wide.T.shape, self.value)
        self.c.move(turned, wide.T)
        summed = self.rows(turned)
        back = self.pull.buffer(shape, self.value)
        self.c.move(back, summed.T)
        if shape == source.shape:
            return back
        result = self.pull.buffer(source.shape, self.value)
        result[:] = back.part(0, 0, source.shape)
        return result

    def rows(self, source: v.Tile) -> v.Tile:
        """The sums along each column of a tile."""
        c, back = self.c, int(self.is_exclusive)
        result, last = self.pull.buffer(source.shape, self.value), self.last(source.shape[1])
        count = self.extent if last is None else self.size
        first, step = (self.extent - 1, -1) if self.is_reverse else (0, 1)
        if count < source.shape[0]:
            c.fill(result, self.neutral)  # beyond the last row

        def row(tile: v.Tile, i: "Index | int") -> v.Tile:
            return tile.part(first + step * i, 0, (1, tile.shape[1]))

        if self.is_exclusive:
            c.fill(row(result, 0), self.neutral)
        begin = row(result, back) if back < count else None
        if begin is not None:
            c.assign(begin, row(source, 0) if last is None else self.sum(last, row(source, 0)))
        if count > back + 1:
            for i in c.range(back + 1, count):
                c.assign(row(result, i), self.sum(row(result, i - 1), row(source, i - back)))
        if last is not None:
            c.assign(last, row(result, count - 1))
        return result

    def sum(self, total: v.Tile, element: v.Tile) -> v.Expression:
        return total + element if self.op.kind.data == "sum" else total * element

    def last(self, cols: int) -> v.Tile | None:
        """The last sums before this part, at first those that change nothing; None where it is all
        of the axis. Raises NotLowered where parts do not come one after the other."""
        at = self.box.offsets[self.axis]
        if number_of(at) == 0 and self.size >= self.extent:
            return None
        loop = at.args[0] if isinstance(at, Index) and at.kind == "muli" else at
        if not isinstance(loop, LoopIndex) or self.is_exclusive or self.is_reverse:
            raise NotLowered(f"running sums of {self.extent} elements are in parts")
        offsets = [0 if i == self.axis else o for i, o in enumerate(self.box.offsets)]
        level = self.pull.level_before(loop, Box(tuple(offsets), self.box.sizes))
        if level is None:
            raise NotLowered("parts of running sums do not come one after the other")
        with self.c.vector.at(level):
            tile = self.pull.buffer((1, cols), self.value)
            is_sum = self.neutral == 0 and is_float(tile.element)
            self.c.fill(tile, -0.0 if is_sum else self.neutral)  # 0 - 0 has not the sign of -0
        return tile
