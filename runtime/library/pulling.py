"""Tiles of values, pulled through the body of a launch from its inputs.

A lowering picks a box of a result and asks for its tile. Elements of an input are loaded there;
those of an op's result are computed from the tiles of the boxes that it needs of its operands:

    pull = Pull(c, launch, arguments)
    for i in c.share(tiles):
        pull.store(result, Box((i * 16, 0), (16, 768)))

The tile of a box has a row for each index of its first long dimension, a column for each of its
second one; where one dimension is long, it is a row, or a column if that is asked for.

A chain of elementwise ops is one `tile.map`. Each box is loaded once, before the loops that its
place does not depend on; in loops it has two slots, so that the next box is loaded while this one
is computed. Loads are padded with 1, which no elementwise op of the compiler stumbles over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.graph.creation import RangeOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.quantization import LookupOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.graph.support.parameters import highest, lowest
from ge.dialects.support.boxes import Access, Box
from ge.dialects.support.dims import Extent
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK, Memory, tile_in
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, LoopIndex, Scalar, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered
from ge.runtime.library.tile_ops import (
    GridOp,
    accumulated,
    is_pointwise,
    long_dims,
    on_grid,
    place_of,
    rotated,
    tile_shape,
)

Side: TypeAlias = Literal["rows", "columns"]
SIDES: tuple[Side, ...] = ("rows", "columns")

PAD = 1
CHEAP = 2  # vector instructions that are rather repeated than kept in a tile

Key: TypeAlias = tuple[Any, ...]


def key_of(number: Scalar) -> Any:
    """A key that is equal for equal expressions."""
    return number.key if isinstance(number, Index) else number


@dataclass
class Pull:
    """`given`: tiles of values that are there already, whatever box of them is asked for."""

    c: Tracer
    launch: Launch
    arguments: Arguments
    given: Mapping[SSAValue, v.Tile] = field(default_factory=dict[SSAValue, v.Tile])
    parts: Mapping[int, int] = field(default_factory=dict[int, int])
    """Sizes in which dimensions are reduced, where not at once."""
    copies: int = 2
    known: dict[Block, dict[Key, v.Expression]] = field(
        default_factory=dict[Block, dict[Key, v.Expression]]
    )
    buffers: list[tuple[Block | None, Any, int]] = field(
        default_factory=list[tuple[Block | None, Any, int]]
    )

    # ---- values

    def tile(
        self, value: SSAValue, box: Box, column: bool = False, into: v.Tile | None = None
    ) -> v.Tile:
        """The elements of a box in UB; in the tile `into` if it is given."""
        with self.c.vector.at(len(self.open) - 1 if into is not None else self._level(box)):
            return self.tile_here(value, box, column, into)

    def tile_here(
        self, value: SSAValue, box: Box, column: bool = False, into: v.Tile | None = None
    ) -> v.Tile:
        """The same, in the innermost loop."""
        found = self.expression(value, box, column)
        if isinstance(found, v.Tile) and into is None:
            return found
        target = self.buffer(tile_shape(box, column), value) if into is None else into
        self.c.assign(target, found)
        self._keep(value, box, column, target)
        return target

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> v.Expression:
        """The elements of a box, as an operand of a computation."""
        if value in self.given:
            return self.given[value]
        key = self._key(value, box, column)
        for block in self.open:
            if (found := self.known.get(block, {}).get(key)) is not None:
                return found
        if (constant := number(self.launch, value)) is not None:
            return constant
        op = value.owner
        if not isinstance(op, TensorOp) or value in self.launch.body.inputs:
            return self._load(value, box, column)
        if isinstance(op, ReduceOp):
            with self.c.vector.at(self._level(box)):
                return self._keep(value, box, column, self.reduced(op, value, box, column))
        new = self.computed(op, value, box, column)
        is_kept = op.VECTOR_COST > CHEAP or self.repeats_operand(op, box)
        if len(list(value.uses)) > 1 and is_kept and not isinstance(new, v.Tile):
            target = self.buffer(tile_shape(box, column), value)
            self.c.assign(target, new)
            self._keep(value, box, column, target)
            self._release(op)
            return target
        return self._keep(value, box, column, new)

    def repeats_operand(self, op: TensorOp, box: Box) -> bool:
        """True if a row or a column meets all others, for each of which there is an instruction."""
        size = numel(box.sizes)
        needed = (op.operand_box(i, box) for i in range(len(op.operands)))
        return any(b is not None and 1 < numel(b.sizes) < size for b in needed)

    def computed(self, op: TensorOp, value: SSAValue, box: Box, column: bool) -> v.Expression:
        """The expression that an op computes. Raises NotLowered if it has no tiles."""
        shape = tile_shape(box, column)
        if isinstance(op, ConcatOp):
            return self._concatenated(op, value, box, column)
        if isinstance(op, GatherOp):
            return self._gathered(op, value, box, column)
        if isinstance(op, CumulativeOp):
            with self.c.vector.at(self._level(box)):
                return accumulated(self, op, value, box, column)
        if isinstance(op, RangeOp):
            return self._numbers(op, box, column)
        if isinstance(op, GridOp):
            return on_grid(self, op, box, column)
        if isinstance(op, LookupOp):
            table = self.tile(op.table, Box.whole(shape_of(op.table)))
            codes = self.expression(op.input, box, column)
            return v.Copied(op, (codes, table), shape, element_type(value))
        if isinstance(op, RotaryEmbeddingOp):
            return rotated(self, op, value, box, shape)
        if op.ACCESS is Access.MOVEMENT:
            needed = place_of(op, box, op.results.index(value))
            if needed is None and isinstance(op, TransposeOp):
                return self._transposed(op, value, box)
            if needed is None:
                raise NotLowered(f"a box of {op.name} is none of its operand")
            return self.expression(op.operands[0], needed, column)
        if not is_pointwise(op) and op.ACCESS is not Access.VIEW:
            raise NotLowered(f"there are no tiles for {op.name}")
        args, places = list[v.Expression](), list[tuple[SSAValue, Box, bool]]()
        for index, operand in enumerate(op.operands):
            needed, is_column = self.broadcast_box(op, index, box, column)
            if op.ACCESS is Access.VIEW:
                if tile_shape(needed, shape[0] > 1) != shape:
                    raise NotLowered(f"a box of {op.name} is none of its operand")
                return self.expression(operand, needed, column)
            arg = self.expression(operand, needed, is_column)
            if isinstance(arg, v.Copied) and tile_shape(needed, is_column) != shape:
                arg = self.tile(operand, needed, is_column)  # not again for each row or column
            args.append(arg)
            places.append((operand, needed, is_column))
        for i, place in enumerate(places):  # what a later operand needed in a tile is there now
            if isinstance(args[i], v.Copied):
                args[i] = self.expression(*place)
        return v.Copied(op, tuple(args), shape, element_type(value))

    def _numbers(self, op: RangeOp, box: Box, column: bool) -> v.Tile:
        """0, 1, ... as a row or a column."""
        ends = [self.launch.number(x) for x in (op.start, op.delta)]
        if ends != [0, 1] or (element := element_type(op.result)) not in (f32, i32):
            raise NotLowered(f"there are no tiles for {op.name} of {op.result.type}")
        (size,), (base,) = box.sizes, box.offsets
        return self.count("rows" if column else "columns", size, base, element)

    def need(self, op: TensorOp, index: int, box: Box, result: int = 0) -> Box:
        """The box of an operand that a box of a result needs. Raises NotLowered where any element
        may be needed."""
        needed = op.operand_box(index, box, result)
        if needed is None:
            raise NotLowered(f"{op.name} needs any element of {op.operands[index].type}")
        return needed

    def broadcast_box(self, op: TensorOp, index: int, box: Box, column: bool) -> tuple[Box, bool]:
        """The box of an operand that may be repeated, and whether it is a column."""
        needed, long = self.need(op, index, box), long_dims(box)
        skip = len(box.sizes) - len(needed.sizes)
        is_column = [i + skip for i in long_dims(needed)] == long[:1]
        return needed, is_column and (len(long) == 2 or column)

    # ---- reductions

    def reduced(self, op: ReduceOp, value: SSAValue, box: Box, column: bool) -> v.Tile:
        """The reduction of a box of the operand: at once, or in parts of the sizes `parts`, which
        are combined element by element first."""
        source, axes = op.operands[0], op.reduced_axes() or ()
        shape, spans = shape_of(source), list(box.spans)
        for dim in () if op.keep_dims.value.data else sorted(axes):
            spans.insert(dim, (0, 1))
        box = Box.of(spans)
        sizes = {dim: self.parts.get(dim, shape[dim]) for dim in axes}
        loops = [dim for dim in axes if sizes[dim] < shape[dim]]
        offsets, result = list(box.offsets), self.buffer(tile_shape(box, column), value)
        part = tuple(sizes.get(dim, size) for dim, size in enumerate(box.sizes))
        if not loops:
            found, sides = self._part(op, Box(tuple(offsets), part), sizes, column)
            return self._along(op, found, sides, result)
        dims = {i for i, size in enumerate(part) if size > 1}
        is_column = column and not dims & {*sizes}
        total = self.buffer(tile_shape(Box(tuple(offsets), part), is_column), source)
        self.c.fill(total, neutral(op))
        found_sides = list[Side]()

        def nested(left: Sequence[int]) -> None:
            if not left:
                found, found_sides[:] = self._part(op, Box(tuple(offsets), part), sizes, column)
                combine = {"max": v.maximum, "min": v.minimum}.get(op.kind.data)
                total[:] = combine(total, found) if combine else total + found
                return
            dim = left[0]
            whole, rest = divmod(shape[dim], sizes[dim])
            for i in self.c.range(whole):
                offsets[dim] = i * sizes[dim]
                nested(left[1:])
            if rest:
                offsets[dim] = whole * sizes[dim]
                nested(left[1:])

        nested(loops)
        return self._along(op, total, found_sides, result)

    def _part(
        self, op: ReduceOp, part: Box, sizes: Mapping[int, int], column: bool
    ) -> tuple[v.Expression, list[Side]]:
        """The elements of a part of the operand, neutral where there are none, and along which of
        its sides they are reduced."""
        source, extents, dims = op.operands[0], shape_of(op.operands[0]), long_dims(part)
        is_column = column and not {*dims} & {*sizes}
        found, shape = self.expression(source, part, is_column), tile_shape(part, is_column)
        if len(list(source.uses)) > 1:
            found = self.tile(source, part, is_column)
        names: tuple[Side, ...] = ("rows",) if is_column else SIDES[2 - len(dims) :]
        sides: list[tuple[int, Side]] = list(zip(dims, names, strict=True))
        sides = [(d, side) for d, side in sides if d in sizes]
        for dim, side in sides:
            at, extent = part.offsets[dim], extents[dim]
            if isinstance(at, int) and at + part.sizes[dim] > extent:  # loops have whole parts
                if not isinstance(found, v.Tile):
                    tile = self.buffer(shape, source)
                    tile[:] = found
                    found = tile
                self._end(found, side, at, extent, neutral(op))
        return found, [side for _, side in sides]

    def _along(
        self, op: ReduceOp, found: v.Expression, sides: Sequence[Side], result: v.Tile
    ) -> v.Tile:
        """Reduce a tile along its sides; rows first, since that is cheaper."""
        if not sides:
            result[:] = found
            return result
        tile, source = found, op.operands[0]
        if not isinstance(found, v.Tile):
            tile = self.buffer(found.shape, source)
            tile[:] = found
        for i, side in enumerate(sides):
            shape = (1, tile.shape[1]) if side == "rows" else (tile.shape[0], 1)
            target = result if i == len(sides) - 1 else self.buffer(shape, source)
            if target.shape != shape:
                raise NotLowered("a row stands where a column is wanted")
            target[:] = v.Reduced(op.kind.data, tile, shape, result.element)
            tile = target
        return result

    def _end(self, tile: v.Tile, side: Side, base: int, extent: int, number: float) -> None:
        """Write a number behind the last row or column that there is; the first one is `base`."""
        (rows, cols), size = tile.shape, extent - base
        if type(extent) is Extent:  # how many there are is known when the core runs, maybe none
            numbers = self.count(side, rows if side == "rows" else cols, base - extent)
            tile[:] = v.where(v.compare("lt", numbers, 0), tile, number)
            return
        if side == "rows":
            self.c.fill(tile.part(size, 0, (rows - size, cols)), number)
            return
        start = size - size % max(BLOCK * 8 // max(bitwidth(tile.element), 8), 8)
        part = tile.part(0, start, (rows, cols - start))
        count = self.count(side, cols - start, base + start)
        part[:] = v.where(v.compare("lt", count, extent), part, number)

    def count(self, side: str, size: int, base: Scalar, element: Attribute = i32) -> v.Tile:
        """The numbers of rows or columns, from `base` on."""
        shape = (size, 1) if side == "rows" else (1, size)
        key = side, size, key_of(base), element
        for block in self.open:
            if (found := self.known.get(block, {}).get(key)) is not None:
                return cast(v.Tile, found)
        with self.c.vector.at(self._level(Box((base,), (1,)))):
            tile = self.c.tile_of(v.Counted(side, base, shape, element))
            self.known.setdefault(self.here, {})[key] = tile
        return tile

    # ---- results

    def store(self, value: SSAValue, box: Box, column: bool = False) -> None:
        """Compute a box of a result, and write it to device memory."""
        self.c.store(self.box(value, box), self.result(value, box, column))

    def result(self, value: SSAValue, box: Box, column: bool = False) -> v.Tile:
        """A box of a result, in a tile that stays until it is stored."""
        found = self.expression(value, box, column)
        if not isinstance(found, v.Tile):
            loops = self._loops(box)
            found = self._slot(tile_shape(box, column), value, loops)
            self.tile(value, box, column, found)
        return found

    # ---- memory

    def box(self, value: SSAValue, box: Box) -> v.Subview:
        """A box of an argument."""
        argument = self.arguments[value]
        rank = len(argument.shape)
        if not box.sizes:
            return v.Subview(argument, (0,) * rank, (0,), (1,) * rank)
        return v.Subview(argument, box.offsets, tuple(long_dims(box)) or (rank - 1,), (1,) * rank)

    def buffer(self, shape: v.Shape, like: SSAValue | Attribute) -> v.Tile:
        """A tile for a computed expression, of this element type or of a value's."""
        element = like if isinstance(like, Attribute) else element_type(like)
        return self._alloc(shape, element, None)

    def column(self, tile: v.Tile, number: int) -> v.Tile:
        """A column of a tile, in one of its own."""
        target = self.buffer((tile.shape[0], 1), tile.element)
        return self.c.take(target, tile, number, 1)

    def _load(self, value: SSAValue, box: Box, column: bool) -> v.Tile:
        with self.c.vector.at(self._level(box)):
            tile = self._slot(tile_shape(box, column), value, self._loops(box))
            extents = zip(shape_of(value), box.offsets, box.sizes, strict=True)
            whole = all(isinstance(at, int) and at + n <= extent for extent, at, n in extents)
            self.c.load(tile, self.box(value, box), pad=None if whole else PAD)
            self._keep(value, box, column, tile)
        return tile

    def _concatenated(self, op: ConcatOp, value: SSAValue, box: Box, column: bool) -> v.Tile:
        """The tile of a concatenation: all of a box of one operand, or row after row of the operand
        that has it."""
        axis, shape = normalize_axis(op.axis.value.data, len(box.sizes)), tile_shape(box, column)
        count = box.sizes[axis]
        if count > 1 and (column or len(dims := long_dims(box)) < 2 or dims[0] != axis):
            raise NotLowered("it is concatenated within rows")
        with self.c.vector.at(self._level(box)):
            tile, end, begin = self._slot(shape, value, self._loops(box)), 0, 0
            at = box.offsets[axis]
            for operand in op.inputs:
                start, end = end, end + shape_of(operand)[axis]
                is_last = operand is op.inputs[-1]
                until = count if is_last else between(end - at, 0, count)
                rows = until - begin
                if count > 1:
                    whole = between(minimum(at - start, end - count - at) + 1, 0, 1)
                    for _ in self.c.range(whole):
                        spans = [*box.spans]
                        spans[axis] = (at - start, count)
                        self._fill(tile, operand, Box.of(spans))
                    rows *= 1 - whole
                for i in self.c.range(begin, begin + rows):
                    spans = [*box.spans]
                    spans[axis] = (at + i - start, 1)
                    row = tile.part(i, 0, (1, shape[1])) if count > 1 else tile
                    self._fill(row, operand, Box.of(spans))
                begin = until
            self._keep(value, box, column, tile)
        return tile

    def _fill(self, tile: v.Tile, value: SSAValue, box: Box) -> None:
        """Bring a box to a tile that is there."""
        if value in self.launch.body.inputs:
            self.c.load(tile, self.box(value, box), pad=PAD)
        else:
            tile[:] = self.expression(value, box)

    def _transposed(self, op: TransposeOp, value: SSAValue, box: Box) -> v.Tile:
        """Rows become columns in UB."""
        source = self.tile(op.input, self.need(op, 0, box))
        target = self.buffer(tile_shape(box, False), value)
        if source.shape != target.shape[::-1]:
            raise NotLowered(f"a box of {op.name} is none of its operand")
        self.c.move(target, source.T)
        return target

    def _gathered(self, op: GatherOp, value: SSAValue, box: Box, column: bool) -> v.Tile:
        """Row after row of a matrix, at indices that the scalar unit reads."""
        table, indices = op.operands
        if not {table, indices} <= {*self.launch.body.inputs} or column:
            raise NotLowered("rows are gathered of what is computed before")
        (count,), (rows, _) = shape_of(indices), shape_of(table)
        with self.c.vector.at(self._level(box)):
            shape = box.sizes[0], box.sizes[1]
            tile = self._slot(shape, value, self._loops(box))
            for i in self.c.range(shape[0]) if shape[0] > 1 else (0,):
                place = minimum(box.offsets[0] + i, count - 1)
                read = v.Subview(self.arguments[indices], (place,), (), (1,))
                row = Box((self.c.read_index(read, rows), box.offsets[1]), (1, shape[1]))
                part = tile.part(i, 0, (1, shape[1]))
                self.c.load(part, self.box(table, row), pad=PAD)
            self._keep(value, box, column, tile)
        return tile

    def _level(self, box: Box) -> int:
        """The level in `open` of a value that needs a box: the innermost of the loops that the
        place of the box depends on, and of the part of a program for some cores: what others would
        load for nothing may lie where these store."""
        if self.given:
            return len(self.open) - 1
        bodies = [loop.values[self.c.vector] for loop in (*self._loops(box), *self.c.turns)]
        own = [i for i, block in enumerate(self.open) if block.args and block.args[0] in bodies]
        inner = range(max(own, default=0) + 1, len(self.open))
        return next((i for i in inner if self.open[i].args), len(self.open)) - 1

    def level_before(self, loop: LoopIndex, box: Box) -> int | None:
        """The level in `open`, before a loop, of a value that needs a box; None if the box depends
        on loops within that loop."""
        level, body = self._level(box), loop.values[self.c.vector].owner
        return level if level < self.open.index(body) else None

    def _slot(self, shape: v.Shape, like: SSAValue, loops: Sequence[LoopIndex]) -> v.Tile:
        """A tile that a transfer fills or empties: in loops one of a ring."""
        element = element_type(like)
        if not loops:
            return self._alloc(shape, element, None)
        places = {loop: self.open.index(loop.values[self.c.vector].owner) for loop in loops}
        innermost = max(loops, key=lambda loop: places[loop])
        return self._alloc(shape, element, self.copies)[innermost]

    def _alloc(self, shape: v.Shape, element: Attribute, copies: int | None) -> Any:
        """A new buffer, or one of a loop that is over: a ring, of one as deep, or its copies
        would not take turns."""
        try:
            kind = tile_in(*shape, element, Memory.UB)
        except VerifyException as e:
            raise NotLowered(str(e)) from None
        depth = len(self.open)
        for i, (owner, buffer, before) in enumerate(self.buffers):
            same = buffer.type is kind and getattr(buffer, "copies", None) == copies
            same = same and (copies is None or before == depth)
            if same and owner not in (*self.open, *self.c.vector.aside):
                self.buffers[i] = self.here, buffer, depth
                return buffer
        self.buffers.append((self.here, self.c.ub(*shape, element, copies), depth))
        return self.buffers[-1][1]

    # ---- known values

    @property
    def open(self) -> list[Block]:
        return self.c.vector.open

    @property
    def here(self) -> Block:
        return self.open[-1]

    def _loops(self, box: Box) -> list[LoopIndex]:
        return [loop for at in box.offsets if isinstance(at, Index) for loop in at.loops]

    def _key(self, value: SSAValue, box: Box, column: bool) -> Key:
        return (
            value,
            tuple(map(key_of, box.offsets)),
            box.sizes,
            column and len(long_dims(box)) == 1,
        )

    def _release(self, op: TensorOp) -> None:
        """Let others use the buffers of operands of an op that is computed, if all that is computed
        of them is in tiles; what asks for such a value nevertheless has it computed again."""
        here = self.known.get(self.here, {})
        tiles = {key[0] for key, found in here.items() if isinstance(found, v.Tile)}
        for operand in op.operands:
            users = [r for use in operand.uses for r in use.operation.results]
            if operand in self.launch.body.outputs or not tiles.issuperset(users):
                continue
            for key in [key for key in here if key[0] is operand]:
                self._free(here.pop(key))

    def _free(self, tile: v.Expression) -> None:
        """Let others use a buffer of the innermost loop."""
        for i, (owner, buffer, depth) in enumerate(self.buffers):
            if buffer is tile and owner is self.here:
                self.buffers[i] = None, buffer, depth

    def _keep(self, value: SSAValue, box: Box, column: bool, found: v.Expression) -> v.Expression:
        self.known.setdefault(self.here, {})[self._key(value, box, column)] = found
        return found


def between(number: Scalar, low: int, high: int) -> Scalar:
    return minimum(low - minimum(low - number, 0), high)


def neutral(op: ReduceOp) -> float:
    """The number that does not change the result of a reduction."""
    element = element_type(op.operands[0])
    match op.kind.data:
        case "sum":
            return 0
        case "max":
            return 0 if element == i1 else lowest(element)
        case _:
            return 1 if element == i1 else highest(element)


def number(launch: Launch, value: SSAValue) -> v.Expression | None:
    """The one number that an input is. Raises NotLowered where the text does not have it."""
    if launch.constant(value) is None or numel(shape_of(value)) != 1:
        return None
    if (known := launch.number(value)) is None:
        raise NotLowered("a constant of one element is not in the text")
    return v.Number(known, (1, 1), element_type(value))
