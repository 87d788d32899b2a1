"""Instructions of the `tile` dialect that move data: between device memory and a core's memories,
between those, and between a cube core and its vector core."""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, UnitAttr, f16, f32, i8, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import LineOp, Names, initialize
from ge.dialects.tile.buffers import box_of, constant_index
from ge.dialects.tile.instruction import (
    Instruction,
    Number,
    check_number,
    number_attr,
    parse_end,
    parse_scalar,
    parse_value,
    program_of,
    scalar_text,
)
from ge.dialects.tile.types import (
    BoxType,
    FifoType,
    Memory,
    Pipe,
    Shaped,
    TileType,
    box_type,
    fifo_type,
    tile_type,
)

MOVES = {
    (Memory.L1, Memory.L0A): Pipe.MTE1,
    (Memory.L1, Memory.L0B): Pipe.MTE1,
    (Memory.L1, Memory.BT): Pipe.MTE1,
    (Memory.L1, Memory.FB): Pipe.FIX,
    (Memory.L0C, Memory.L1): Pipe.FIX,
    (Memory.UB, Memory.UB): Pipe.V,
}
"""The ways within a core. From L0C to UB and from UB to L1 data go through a fifo."""

UNIT = UnitAttr()
OUT = {Memory.L0C: Pipe.FIX, Memory.UB: Pipe.MTE3}  # the ways out of a core


@irdl_op_definition
class LoadOp(Instruction, LineOp):
    """Copies a box to a tile in L1 or UB. What lies outside of the memref becomes `pad`; without it
    the tile's bytes there stay unchanged, and the box begins within the memref. With `rows` the
    box's rows become those of the tile from `first` on, `step` apart, and others stay.

        tile.load %box to %t pad 0.0
        tile.load %box to %t rows %first step 9 pad 0.0
    """

    name = "tile.load"
    PIPE: ClassVar = Pipe.MTE2
    source = operand_def(BoxType)
    target = operand_def(TileType)
    first = opt_operand_def(IndexType)
    step = opt_prop_def(IntegerAttr[I64])
    pad = opt_prop_def(Attribute)

    def __init__(
        self,
        source: SSAValue,
        target: SSAValue,
        pad: Number | None = None,
        rows: tuple[SSAValue, int] | None = None,
    ):
        given: dict[str, Attribute] = {}
        if pad is not None:
            given["pad"] = number_attr(pad, tile_type(target).element)
        if rows is not None:
            given["step"] = number(rows[1])
        initialize(self, (source, target) if rows is None else (source, target, rows[0]), (), given)

    @property
    def row_step(self) -> int:
        """Rows of the tile from one of the box to the next."""
        return 1 if self.step is None else self.step.value.data

    @classmethod
    def parse(cls, parser: Parser) -> "LoadOp":
        source, target = parse_ends(parser)
        rows = None
        if parser.parse_optional_keyword("rows"):
            first = parser.parse_operand(IndexType())
            parser.parse_keyword("step")
            rows = first, parser.parse_integer(allow_boolean=False)
        pad = parse_scalar(parser) if parser.parse_optional_keyword("pad") else None
        op = cls(source, target, pad, rows)
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        text = ends_text(names, self.source, self.target)
        if self.first is not None:
            text += f" rows {names.name_of(self.first)} step {self.row_step}"
        if self.pad is not None:
            text += f" pad {scalar_text(self.pad)}"
        return text + attributes

    def verify_(self) -> None:
        source, target = box_type(self.source), tile_type(self.target)
        if target.space not in (Memory.L1, Memory.UB):
            raise VerifyException(f"a load is to l1 or ub, not to {target.space}")
        if (first := self.first) is None:
            check_same_shape(source, target)
        else:
            at = constant_index(first) or 0
            rows, step = source.rows.data, self.row_step
            last = at + (rows - 1) * step
            fits = source.cols == target.cols and min(at, last) >= 0 and last < target.rows.data
            if not fits or step < 1:
                text = f"{rows} rows from {at} on, {step} apart"
                raise VerifyException(f"{source} does not fit into {target}: {text}")
        check_same_element(source, target)
        if self.pad is None:
            box_of(self.source).check_meets()
        else:
            check_number(self.pad, target.element)


@irdl_op_definition
class StoreOp(Instruction, LineOp):
    """Copies a tile in L0C or UB to a box; only what lies within the memref is written. From L0C
    sums become the box's element type, after `relu`. `add` adds to the box's contents, at one time
    for all cores. With `scale`, a row in FB, sums of integers leave as f16, or rounded and with
    `zero` added as i8: each is a float of 32 bits, times the number of its column.

        tile.store %acc to %box relu
        tile.store %acc to %codes scale %row zero -3
    """

    name = "tile.store"
    source = operand_def(TileType)
    target = operand_def(BoxType)
    relu = opt_prop_def(UnitAttr)
    add = opt_prop_def(UnitAttr)
    scale = opt_operand_def(TileType)
    zero = opt_prop_def(IntegerAttr[I64])

    def __init__(
        self,
        source: SSAValue,
        target: SSAValue,
        *,
        relu: bool = False,
        add: bool = False,
        scale: SSAValue | None = None,
        zero: int = 0,
    ):
        given: dict[str, Attribute] = {"relu": UNIT} if relu else {}
        if add:
            given["add"] = UNIT
        if zero:
            given["zero"] = number(zero)
        initialize(self, (source, target) if scale is None else (source, target, scale), (), given)

    @property
    def has_relu(self) -> bool:
        return self.relu is not None

    @property
    def is_atomic(self) -> bool:
        """True if it adds to the contents of the box."""
        return self.add is not None

    def pipe(self) -> Pipe:
        return OUT[tile_type(self.source).space]

    def reads(self) -> Sequence[SSAValue]:
        own = (self.source, self.target) if self.is_atomic else (self.source,)
        return own if self.scale is None else (*own, self.scale)

    @classmethod
    def parse(cls, parser: Parser) -> "StoreOp":
        source, target = parse_ends(parser)
        relu = parser.parse_optional_keyword("relu") is not None
        add = parser.parse_optional_keyword("add") is not None
        scale, zero = None, 0
        if parser.parse_optional_keyword("scale"):
            scale = parse_value(parser)
            if parser.parse_optional_keyword("zero"):
                zero = parser.parse_integer(allow_boolean=False)
        op = cls(source, target, relu=relu, add=add, scale=scale, zero=zero)
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        text = ends_text(names, self.source, self.target)
        text += " relu" * self.has_relu + " add" * self.is_atomic
        if self.scale is not None:
            text += f" scale {names.name_of(self.scale)}"
        if self.zero is not None:
            text += f" zero {self.zero.value.data}"
        return text + attributes

    def verify_(self) -> None:
        source, target = tile_type(self.source), box_type(self.target)
        if self.scale is None:
            check_way_out("a store", source, target)
        else:
            self.check_scale(tile_type(self.scale), source, target)
        box_of(self.target).check_meets()
        if any(step > 1 for step in box_of(self.target).box_steps):
            raise VerifyException("a store is to elements side by side: its box has no steps")
        if self.has_relu and source.space is not Memory.L0C:
            raise VerifyException("relu is of stores from l0c: what is in ub has passed a tile.map")

    def check_scale(self, scale: TileType, source: TileType, target: BoxType) -> None:
        if self.is_atomic:
            raise VerifyException(f"sums of {i32} in l0c are scaled, not added to others: {source}")
        check_scales(scale, source, target, (f16, i8))
        if self.zero is not None and target.element != i8:
            raise VerifyException(f"a zero point is of {i8}, not of {target.element}")


@irdl_op_definition
class MoveOp(Instruction, LineOp):
    """Copies a tile to another memory of the core, or within UB: `transposed`, rows become
    columns. Within UB columns of the source may be taken, from `first` on, `step` apart: all, or
    `each` so many, from `further` columns further on the next ones. Sums of L0C become the element
    type of the tile in L1.

        tile.move %slot to %l0b transposed
        tile.move %wide to %odd columns 1 step 2
        tile.move %pairs to %exchanged columns 1 step -1 each 2 further 2
    """

    name = "tile.move"
    source = operand_def(TileType)
    target = operand_def(TileType)
    transposed = opt_prop_def(UnitAttr)
    first = opt_prop_def(IntegerAttr[I64])
    step = opt_prop_def(IntegerAttr[I64])
    each = opt_prop_def(IntegerAttr[I64])
    further = opt_prop_def(IntegerAttr[I64])

    def __init__(
        self,
        source: SSAValue,
        target: SSAValue,
        *,
        transposed: bool = False,
        columns: Sequence[int] = (),
    ):
        names = ("first", "step", "each", "further")
        given: dict[str, Attribute] = dict(zip(names, map(number, columns), strict=False))
        if transposed:
            given["transposed"] = UNIT
        initialize(self, (source, target), (), given)

    @property
    def columns(self) -> tuple[int, ...]:
        """The first column of the source that is taken, how far they are apart, and where they are
        groups, of how many and how far these are apart; () where all are taken."""
        if "first" not in self.properties:
            return ()
        numbers = (self.first, self.step, self.each, self.further)
        return tuple(n.value.data for n in numbers if n is not None)

    @property
    def taken(self) -> list[int]:
        """The column of the source for each of the target."""
        count = tile_type(self.target).cols.data
        first, step, each, further = (*self.columns, count, 0)[:4]
        return [first + i % each * step + i // each * further for i in range(count)]

    @property
    def is_transposed(self) -> bool:
        return self.transposed is not None

    def pipe(self) -> Pipe:
        return MOVES[tile_type(self.source).space, tile_type(self.target).space]

    @classmethod
    def parse(cls, parser: Parser) -> "MoveOp":
        source, target = parse_ends(parser)
        turned, columns = bool(parser.parse_optional_keyword("transposed")), list[int]()
        for word in ("columns", "step", "each", "further"):
            if parser.parse_optional_keyword(word):
                columns.append(parser.parse_integer(allow_boolean=False))
        if len(columns) % 2:
            parser.raise_error("columns have a step, and groups of them are `further` apart")
        op = cls(source, target, transposed=turned, columns=columns)
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        text = ends_text(names, self.source, self.target) + " transposed" * self.is_transposed
        for word, count in zip(("columns", "step", "each", "further"), self.columns, strict=False):
            text += f" {word} {count}"
        return text + attributes

    def verify_(self) -> None:
        source, target = tile_type(self.source), tile_type(self.target)
        way = source.space, target.space
        if way not in MOVES:
            ways = ", ".join(f"{a} to {b}" for a, b in MOVES)
            raise VerifyException(f"there is no way from {way[0]} to {way[1]}; moves are {ways}")
        if self.columns:
            if way[1] is not Memory.UB or self.is_transposed:
                raise VerifyException("columns are taken within ub, and not transposed")
            first, step, *groups = self.columns
            fits = source.rows == target.rows and (not groups or groups[0] > 0)
            if not fits or min(self.taken) < 0 or max(self.taken) >= source.cols.data:
                text = f"{target.cols.data} columns from {first} on, {step} apart"
                raise VerifyException(f"{source} has not what {target} takes: {text}")
        elif self.is_transposed:
            if way[0] is Memory.L0C:
                raise VerifyException("what leaves l0c is not transposed")
            if source.shape[::-1] != target.shape:
                raise VerifyException(f"{source} transposed does not fit into {target}")
        else:
            check_same_shape(source, target)
        if way[0] is Memory.L0C:
            check_cast(source, target)
        else:
            check_same_element(source, target)


class FifoInstruction(Instruction, LineOp, ABC):
    """One end of a queue: its first operand goes to its second one."""

    def __init__(self, *ends: SSAValue):
        initialize(self, ends)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(*parse_ends(parser))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        return ends_text(names, *self.operands) + attributes


@irdl_op_definition
class PushOp(FifoInstruction):
    """Puts a tile of L0C or UB in a queue, when it has room. Sums of L0C become the queue's element
    type; with `scale`, a row in FB, sums of integers become f16 as in a `tile.store`.

        tile.push %acc to %scores
        tile.push %sums to %halves scale %row
    """

    name = "tile.push"
    source = operand_def(TileType)
    target = operand_def(FifoType)
    scale = opt_operand_def(TileType)

    def __init__(self, source: SSAValue, target: SSAValue, scale: SSAValue | None = None):
        super().__init__(*((source, target) if scale is None else (source, target, scale)))

    def pipe(self) -> Pipe:
        return OUT[tile_type(self.source).space]

    def reads(self) -> Sequence[SSAValue]:
        return (self.source,) if self.scale is None else (self.source, self.scale)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ends = parse_ends(parser)
        scale = parse_value(parser) if parser.parse_optional_keyword("scale") else None
        op = cls(*ends, scale)
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        text = ends_text(names, self.source, self.target)
        if self.scale is not None:
            text += f" scale {names.name_of(self.scale)}"
        return text + attributes

    def verify_(self) -> None:
        source, target = tile_type(self.source), fifo_type(self.target)
        part = part_of(target, source, self)
        if self.scale is None:
            check_way_out("a push", source, part)
        else:
            check_scales(tile_type(self.scale), source, part, (f16,))


@irdl_op_definition
class PopOp(FifoInstruction):
    """Takes the oldest tile of a queue to UB or L1, when there is one.

    tile.pop %scores to %s
    """

    name = "tile.pop"
    PIPE: ClassVar = Pipe.MTE2
    source = operand_def(FifoType)
    target = operand_def(TileType)

    def verify_(self) -> None:
        source, target = fifo_type(self.source), tile_type(self.target)
        if target.space not in (Memory.L1, Memory.UB):
            raise VerifyException(f"a pop is to l1 or ub, not to {target.space}")
        check_same_shape(part_of(source, target, self), target)
        check_same_element(source, target)


# ---- what they have in common ----------------------------------------------------------------


def part_of(fifo: FifoType, tile: TileType, op: Instruction) -> FifoType:
    """The type of the part of a fifo's tiles that passes a core at its end: where the vector
    program is split, the rows of one of its cores. Not known before `op` is part of a program."""
    if tile.space is not Memory.UB:
        return fifo
    program, rows = program_of(op), fifo.rows.data
    parts = max(rows // tile.rows.data, 1) if program is None else program.parts
    if rows % parts:
        raise VerifyException(f"{rows} rows of {fifo} cannot be split between {parts} cores")
    return FifoType(rows // parts, fifo.cols.data, fifo.element)


def parse_ends(parser: Parser) -> tuple[SSAValue, SSAValue]:
    source = parse_value(parser)
    parser.parse_keyword("to")
    return source, parse_value(parser)


def ends_text(names: Names, source: SSAValue, target: SSAValue) -> str:
    """The text `%source to %target`, as `parse_ends` reads it."""
    return f" {names.name_of(source)} to {names.name_of(target)}"


def check_same_shape(source: Shaped, target: Shaped) -> None:
    if source.shape != target.shape:
        raise VerifyException(f"{source} does not fit into {target}")


def check_same_element(source: Shaped, target: Shaped) -> None:
    if source.element != target.element:
        raise VerifyException(f"{source} and {target} differ in element type")


def check_way_out(what: str, source: TileType, target: Shaped) -> None:
    if source.space not in OUT:
        raise VerifyException(f"{what} is from l0c or ub, not from {source.space}")
    check_same_shape(source, target)
    if source.space is Memory.L0C:
        check_cast(source, target)
    else:
        check_same_element(source, target)


def check_scales(
    scale: TileType, source: TileType, target: Shaped, allowed: Sequence[Attribute]
) -> None:
    """Check that sums of integers leave by a row of scales. Raises VerifyException."""
    check_same_shape(source, target)
    if (source.space, source.element) != (Memory.L0C, i32):
        raise VerifyException(f"sums of {i32} in l0c are scaled, not added to others: {source}")
    if target.element not in allowed:
        kinds = " or ".join(map(str, allowed))
        raise VerifyException(f"sums leave by a scale as {kinds}, not {target.element}")
    if scale.space is not Memory.FB or scale.element != f32:
        raise VerifyException(f"scales are {f32} in fb, not {scale}")
    if scale.shape != (1, source.cols.data):
        raise VerifyException(f"{scale.text()} has no scale for each column of {source.text()}")


def check_cast(source: Shaped, target: Shaped) -> None:
    """Check the element type that FIX stores sums in: any float for f32, and i32 unchanged. Raises
    VerifyException."""
    same = source.element == target.element
    if not same and not (source.element == f32 and is_float(target.element)):
        rule = f"sums of {f32} become floats, sums of {i32} stay"
        raise VerifyException(f"{rule}: not {source.element} to {target.element}")
