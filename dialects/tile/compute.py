"""Instructions of the `tile` dialect that compute, on the cube (M) and on the vector unit (V), and
the flags that order pipes."""

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import IndexType, f32, i1, i8, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, HasParent, IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.boxes import Access
from ge.dialects.support.constraints import ANY, choice, choice_def
from ge.dialects.support.definitions import SEGMENTS
from ge.dialects.support.element_types import row_of
from ge.dialects.support.operation import GeOp, LineOp, Names, initialize, segments
from ge.dialects.support.tensor_op import TensorOp
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
from ge.dialects.tile.transfers import check_same_element, ends_text, parse_ends
from ge.dialects.tile.types import PIPES, Memory, Pipe, PipeAttr, TileType, tile_type


@irdl_op_definition
class MmadOp(Instruction, LineOp):
    """acc = (init ? 0 : acc) + lhs rhs. Without `init` it adds to acc; with `bias` sums begin with
    the numbers of a row in BT.

        tile.mmad %acc, %a, %b init %first bias %row
    """

    name = "tile.mmad"
    PIPE: ClassVar = Pipe.M
    WRITES: ClassVar = ("acc",)
    acc = operand_def(TileType)
    lhs = operand_def(TileType)
    rhs = operand_def(TileType)
    init = opt_operand_def(i1)
    bias = opt_operand_def(TileType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        acc: SSAValue,
        lhs: SSAValue,
        rhs: SSAValue,
        init: SSAValue | None = None,
        bias: SSAValue | None = None,
    ):
        more = [value for value in (init, bias) if value is not None]
        sizes = segments(1, 1, 1, init is not None, bias is not None)
        initialize(self, (acc, lhs, rhs, *more), (), {SEGMENTS: sizes})

    def reads(self) -> Sequence[SSAValue]:
        own = self.acc, self.lhs, self.rhs
        return own if self.bias is None else (*own, self.bias)

    def not_read_if(self) -> tuple[SSAValue, SSAValue] | None:
        return None if self.init is None else (self.acc, self.init)

    @classmethod
    def parse(cls, parser: Parser) -> "MmadOp":
        acc = parse_value(parser)
        parser.parse_punctuation(",")
        lhs = parse_value(parser)
        parser.parse_punctuation(",")
        rhs = parse_value(parser)
        init = parser.parse_operand(i1) if parser.parse_optional_keyword("init") else None
        bias = parse_value(parser) if parser.parse_optional_keyword("bias") else None
        op = cls(acc, lhs, rhs, init, bias)
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        text = " " + ", ".join(map(names.name_of, (self.acc, self.lhs, self.rhs)))
        if self.init is not None:
            text += f" init {names.name_of(self.init)}"
        if self.bias is not None:
            text += f" bias {names.name_of(self.bias)}"
        return text + attributes

    def verify_(self) -> None:
        acc, lhs, rhs = (tile_type(v) for v in (self.acc, self.lhs, self.rhs))
        for t, space in ((acc, Memory.L0C), (lhs, Memory.L0A), (rhs, Memory.L0B)):
            if t.space is not space:
                raise VerifyException(f"the cube multiplies l0a by l0b into l0c: {t} in {space}")
        if (*lhs.shape, rhs.cols.data) != (acc.rows.data, rhs.rows.data, acc.cols.data):
            raise VerifyException(f"{lhs.text()} times {rhs.text()} is no {acc.text()}")
        check_same_element(lhs, rhs)
        if acc.element != sum_type(lhs.element):
            wanted = sum_type(lhs.element)
            raise VerifyException(f"sums of {lhs.element} are {wanted}, not {acc.element}")
        if self.bias is not None:
            self.check_bias(tile_type(self.bias), acc)

    def check_bias(self, bias: TileType, acc: TileType) -> None:
        if self.init is None:
            raise VerifyException("sums begin with a bias where they begin: `init` says where")
        if (bias.space, bias.shape) != (Memory.BT, (1, acc.cols.data)):
            raise VerifyException(f"a bias is a row of {acc.cols.data} numbers in bt, not {bias}")
        check_same_element(bias, acc)


def sum_type(element: Attribute) -> Attribute:
    """Type of the sums of products in L0C. Raises VerifyException for types that the cube does not
    multiply."""
    row = row_of(element)
    if row is not None and row.is_float and not row.storage_only and row.bits <= 32:
        return f32
    if element == i8 or (row is not None and row.name == "i4"):
        return i32
    raise VerifyException(f"the cube does not multiply {element}")


class VectorInstruction(Instruction, ABC):
    """On tiles in UB."""

    PIPE: ClassVar = Pipe.V

    def verify_(self) -> None:
        for value in self.operands:
            if isinstance(t := value.type, TileType) and t.space is not Memory.UB:
                way = "bring what it computes of to a tile in ub"
                raise VerifyException(f"the vector unit works on ub, not on {t}: {way}")


@irdl_op_definition
class YieldOp(GeOp):
    """The values that a `tile.map` writes."""

    name = "tile.yield"
    values = var_operand_def(ANY)
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(MapOp), Pure()))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        initialize(self, values)


@irdl_op_definition
class MapOp(VectorInstruction):
    """Elementwise graph ops on tiles; tiles of one row or one column broadcast as the ops' operands
    do. All of `ins` are read before any of `outs` is written.

        tile.map ins(%s, %m) outs(%p) {
        ^bb0(%x: tensor<128x128xf32>, %y: tensor<128x1xf32>):
          %0 = graph.sub %x, %y : (tensor<128x128xf32>, tensor<128x1xf32>) -> tensor<128x128xf32>
          tile.yield %0 : tensor<128x128xf32>
        }
    """

    name = "tile.map"
    ins = var_operand_def(TileType)
    outs = var_operand_def(TileType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    def __init__(self, ins: Sequence[SSAValue], outs: Sequence[SSAValue], body: Block | Region):
        region = body if isinstance(body, Region) else Region(body)
        sizes: dict[str, Attribute] = {"operandSegmentSizes": segments(len(ins), len(outs))}
        initialize(self, (*ins, *outs), (), sizes, regions=(region,))

    @property
    def members(self) -> list[TensorOp]:
        """The ops of the body that compute."""
        ops = (op for op in self.body.block.ops if isinstance(op, TensorOp))
        return [op for op in ops if not op.has_trait(ConstantLike)]

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        return last.operands if isinstance(last, YieldOp) else ()

    def reads(self) -> Sequence[SSAValue]:
        return self.ins

    def writes(self) -> Sequence[SSAValue]:
        return self.outs

    def reads_number(self, value: SSAValue) -> bool:
        alone = tile_type(value).shape == (1, 1) and value not in self.outs
        return alone and any(tile_type(out).shape != (1, 1) for out in self.outs)

    @classmethod
    def parse(cls, parser: Parser) -> "MapOp":
        def values(keyword: str) -> list[SSAValue]:
            if not parser.parse_optional_keyword(keyword):
                return []
            return parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_value(parser)
            )

        ins, outs = values("ins"), values("outs")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(ins, outs, parser.parse_region())
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        for keyword, values in (("ins", self.ins), ("outs", self.outs)):
            if values:
                printer.print_string(f" {keyword}")
                with printer.in_parens():
                    printer.print_list(values, printer.print_operand)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        super().verify_()
        if not self.outs:
            raise VerifyException("a map writes at least one tile")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body of a map ends in tile.yield")
        for given, values, what in (
            (self.ins, self.body.block.args, "the body's argument"),
            (self.outs, self.yielded, "what the body yields"),
        ):
            if len(given) != len(values):
                raise VerifyException(f"{len(given)} tiles, and {len(values)} times {what}")
            for tile, value in zip(given, values, strict=True):
                if value.type != (wanted := tile_type(tile).tensor):
                    raise VerifyException(f"{what} is {value.type}, for a tile of {wanted}")
        for op in self.body.block.ops:
            pointwise = isinstance(op, TensorOp) and op.ACCESS is Access.POINTWISE
            if not pointwise and not op.has_trait(ConstantLike) and not isinstance(op, YieldOp):
                raise VerifyException(f"{op.name} is not elementwise: a map has no other ops")


ReduceKind = choice("tile.reduce_kind", "max", "min", "sum")


@irdl_op_definition
class ReduceOp(VectorInstruction, LineOp):
    """The largest, the smallest or the sum: of each row where the target is a column, of each
    column where it is a row.

        tile.reduce max %s to %m
    """

    name = "tile.reduce"
    kind = choice_def(ReduceKind)
    source = operand_def(TileType)
    target = operand_def(TileType)

    def __init__(self, kind: str, source: SSAValue, target: SSAValue):
        super().__init__(operands=[source, target], properties={"kind": ReduceKind.of(kind)})

    @property
    def along_rows(self) -> bool:
        """True if it reduces each row; a single column that becomes one number is reduced as a
        column."""
        return tile_type(self.target).shape == (tile_type(self.source).rows.data, 1)

    @classmethod
    def parse(cls, parser: Parser) -> "ReduceOp":
        kind = ReduceKind.parse_word(parser, "kind")
        op = cls(kind, *parse_ends(parser))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        return f" {self.kind.data}" + ends_text(names, self.source, self.target) + attributes

    def verify_(self) -> None:
        super().verify_()
        source, target = tile_type(self.source), tile_type(self.target)
        rows, cols = source.shape
        if target.shape not in ((rows, 1), (1, cols)):
            raise VerifyException(f"{source.text()} is reduced to {rows}x1 or 1x{cols}: {target}")
        check_same_element(source, target)


IndexAxis = choice("tile.index_axis", "rows", "columns")


@irdl_op_definition
class IndexOp(VectorInstruction, LineOp):
    """target[r, c] = base + r (`rows`) or base + c (`columns`): masks compare it with a bound.

    tile.index columns %base to %t
    """

    name = "tile.index"
    READS: ClassVar = ()
    axis = choice_def(IndexAxis)
    base = operand_def(IndexType)
    target = operand_def(TileType)

    def __init__(self, axis: str, base: SSAValue, target: SSAValue):
        super().__init__(operands=[base, target], properties={"axis": IndexAxis.of(axis)})

    @classmethod
    def parse(cls, parser: Parser) -> "IndexOp":
        axis = IndexAxis.parse_word(parser, "axis")
        op = cls(axis, *parse_ends(parser))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        return f" {self.axis.data}" + ends_text(names, self.base, self.target) + attributes

    def verify_(self) -> None:
        super().verify_()
        if (element := tile_type(self.target).element) not in (f32, i32):
            raise VerifyException(f"numbers of rows and columns are i32 or f32, not {element}")


@irdl_op_definition
class GatherOp(VectorInstruction, LineOp):
    """target[r, c] = source[r, at[r, c]]; one row of `at` is for all rows. A run in which an index
    is none of the source's columns is refused.

        tile.gather %s at %k to %t
    """

    name = "tile.gather"
    READS: ClassVar = ("source", "at")
    source = operand_def(TileType)
    at = operand_def(TileType)
    target = operand_def(TileType)

    def __init__(self, source: SSAValue, at: SSAValue, target: SSAValue):
        super().__init__(operands=[source, at, target])

    @classmethod
    def parse(cls, parser: Parser) -> "GatherOp":
        source = parse_value(parser)
        parser.parse_keyword("at")
        op = cls(source, *parse_ends(parser))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        ends = ends_text(names, self.at, self.target)
        return f" {names.name_of(self.source)} at{ends}{attributes}"

    def verify_(self) -> None:
        super().verify_()
        source, at, target = (tile_type(v) for v in (self.source, self.at, self.target))
        if at.element != i32:
            raise VerifyException(f"columns are gathered at numbers of i32, not {at.element}")
        fits = at.shape in (target.shape, (1, target.cols.data))
        if not fits or source.rows != target.rows:
            raise VerifyException(f"{at.text()} of {source.text()} is no {target.text()}")
        check_same_element(source, target)


ScatterKind = choice("tile.scatter_kind", "none", "add", "mul", "max", "min")


@irdl_op_definition
class ScatterOp(VectorInstruction, LineOp):
    """target[r, at[r, c]] = source[r, c], column after column, or what both combine to. What an
    index that is none of the target's columns is for is left out. The scalar unit does it, on whom
    the vector unit waits.

        tile.scatter add %s at %k to %t
    """

    name = "tile.scatter"
    READS: ClassVar = ("source", "at", "target")
    kind = choice_def(ScatterKind)
    source = operand_def(TileType)
    at = operand_def(TileType)
    target = operand_def(TileType)

    def __init__(self, kind: str, source: SSAValue, at: SSAValue, target: SSAValue):
        kinds = {"kind": ScatterKind.of(kind)}
        super().__init__(operands=[source, at, target], properties=kinds)

    @classmethod
    def parse(cls, parser: Parser) -> "ScatterOp":
        kind = ScatterKind.parse_word(parser, "kind")
        source = parse_value(parser)
        parser.parse_keyword("at")
        op = cls(kind, source, *parse_ends(parser))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        ends = ends_text(names, self.at, self.target)
        return f" {self.kind.data} {names.name_of(self.source)} at{ends}{attributes}"

    def verify_(self) -> None:
        super().verify_()
        source, at, target = (tile_type(v) for v in (self.source, self.at, self.target))
        if at.element != i32:
            raise VerifyException(f"elements are scattered to numbers of i32, not {at.element}")
        if at.shape != source.shape or source.rows != target.rows:
            raise VerifyException(f"{source.text()} at {at.text()} is not for {target.text()}")
        check_same_element(source, target)


FILLS = {Memory.UB: Pipe.V, Memory.L1: Pipe.MTE2}


@irdl_op_definition
class FillOp(Instruction, LineOp):
    """One number in all elements of a tile in UB or L1.

    tile.fill %m, -inf
    """

    name = "tile.fill"
    READS: ClassVar = ()
    target = operand_def(TileType)
    value = prop_def(Attribute)

    def __init__(self, target: SSAValue, value: Number):
        attr = number_attr(value, tile_type(target).element)
        super().__init__(operands=[target], properties={"value": attr})

    def pipe(self) -> Pipe:
        return FILLS[tile_type(self.target).space]

    @classmethod
    def parse(cls, parser: Parser) -> "FillOp":
        target = parse_value(parser)
        parser.parse_punctuation(",")
        op = cls(target, parse_scalar(parser))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        return f" {names.name_of(self.target)}, {scalar_text(self.value)}" + attributes

    def verify_(self) -> None:
        if (t := tile_type(self.target)).space not in FILLS:
            raise VerifyException(f"tiles in ub and l1 are filled, not {t}")
        check_number(self.value, t.element)


# ---- flags -----------------------------------------------------------------------------------


class FlagOp(Instruction, LineOp, ABC):
    """Flag `id` of those from pipe `source` to pipe `target`."""

    READS: ClassVar = ()
    WRITES: ClassVar = ()
    source = prop_def(PipeAttr)
    target = prop_def(PipeAttr)
    id = operand_def(IndexType)

    def __init__(self, source: Pipe, target: Pipe, id: SSAValue):
        # a third of a program's ops are flags: their arguments are not examined
        properties: dict[str, Attribute] = {"source": PIPES[source], "target": PIPES[target]}
        initialize(self, (id,), (), properties)

    @classmethod
    def parse(cls, parser: Parser) -> "FlagOp":
        source = parser.parse_str_enum(Pipe)
        parser.parse_punctuation("->")
        target = parser.parse_str_enum(Pipe)
        with parser.in_square_brackets():
            op = cls(source, target, parser.parse_operand(IndexType()))
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        # without accessors: a third of a program's lines are flags
        source: Any = self.properties["source"]
        target: Any = self.properties["target"]
        pipes = " " + source.data + " -> " + target.data  # faster than to format them
        return f"{pipes}[{names.name_of(self.id)}]{attributes}"

    def verify_(self) -> None:
        if self.source == self.target:
            raise VerifyException("a flag is between two pipes: each runs in order by itself")
        if (program := program_of(self)) is not None:
            for pipe in (self.source.data, self.target.data):
                if pipe not in program.PIPES:
                    raise VerifyException(f"{program.name} has no pipe {pipe}")


@irdl_op_definition
class SetOp(FlagOp):
    """Sets the flag when what the source pipe was issued before is done. It must not be set then.

    tile.set mte2 -> mte1 [%slot]
    """

    name = "tile.set"

    def pipe(self) -> Pipe:
        return self.source.data


@irdl_op_definition
class WaitOp(FlagOp):
    """The target pipe goes on when the flag is set, and clears it.

    tile.wait mte2 -> mte1 [%slot]
    """

    name = "tile.wait"

    def pipe(self) -> Pipe:
        return self.target.data
