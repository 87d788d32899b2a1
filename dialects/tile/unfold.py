"""The instruction of the `tile` dialect that makes a matrix of the windows of an image."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.operation import LineOp, Names
from ge.dialects.support.types import array_ints, int_array
from ge.dialects.tile.instruction import (
    Instruction,
    Number,
    check_number,
    number_attr,
    parse_end,
    parse_scalar,
    scalar_text,
)
from ge.dialects.tile.transfers import check_same_element, ends_text, parse_ends
from ge.dialects.tile.types import Memory, Pipe, TileType, tile_type

Pair = tuple[int, int]


@dataclass(frozen=True)
class Unfolding:
    """Windows over an image in L1: `width` pixels of a line of the image, `pixels` windows of a
    line of the result; along lines and columns the kernel, its strides and dilations. The first
    window of a line begins `left` pixels before it."""

    width: int
    pixels: int
    kernel: Pair
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    left: int = 0

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    def reach(self, dim: int, windows: int) -> int:
        """Lines (0) or columns (1) of the image that so many windows reach over."""
        kernel, dilation = self.kernel[dim], self.dilations[dim]
        return (windows - 1) * self.strides[dim] + (kernel - 1) * dilation + 1


@irdl_op_definition
class UnfoldOp(Instruction, LineOp):
    """Windows of an image in L1, whose rows are pixels (line by line, `width` each) and columns
    channels, become a part of a matrix in L0: there is a window for each pixel of the result
    (`pixels` in a line), and each has the `kernel` elements of one channel after those of another.
    L0A has windows as rows, L0B as columns. The part begins at element `from`. With `pad` windows
    may begin `left` of a line, and pass its end; pixels beyond it have the pad value.

        tile.unfold %image to %l0b width 64 pixels 32 kernel [3, 3] strides [2, 2] dilations [1, 1]
            from 144 left 1 pad 0.0
    """

    name = "tile.unfold"
    PIPE: ClassVar = Pipe.MTE1
    source = operand_def(TileType)
    target = operand_def(TileType)
    width = prop_def(IntegerAttr[I64])
    pixels = prop_def(IntegerAttr[I64])
    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    first = prop_def(IntegerAttr[I64])
    left = prop_def(IntegerAttr[I64])
    pad = opt_prop_def(Attribute)

    def __init__(
        self,
        source: SSAValue,
        target: SSAValue,
        windows: Unfolding,
        first: int = 0,
        pad: Number | None = None,
    ):
        w, value = windows, None if pad is None else number_attr(pad, tile_type(source).element)
        pairs = {"kernel": w.kernel, "strides": w.strides, "dilations": w.dilations}
        arrays = {name: int_array(tuple(pair)) for name, pair in pairs.items()}
        sizes = {"width": w.width, "pixels": w.pixels, "first": first, "left": w.left}
        numbers = {name: number(size) for name, size in sizes.items()}
        super().__init__(operands=[source, target], properties={**numbers, **arrays, "pad": value})

    @property
    def windows(self) -> Unfolding:
        arrays = map(array_ints, (self.kernel, self.strides, self.dilations))
        kernel, strides, dilations = ((a[0], a[1]) for a in arrays)
        width, pixels, left = (a.value.data for a in (self.width, self.pixels, self.left))
        return Unfolding(width, pixels, kernel, strides, dilations, left)

    @property
    def begin(self) -> int:
        """The element of the windows that the target begins with."""
        return self.first.value.data

    @property
    def window_rows(self) -> bool:
        """True if windows are the rows of the target."""
        return tile_type(self.target).space is Memory.L0A

    @classmethod
    def parse(cls, parser: Parser) -> "UnfoldOp":
        source, target = parse_ends(parser)

        def integer(keyword: str) -> int:
            parser.parse_keyword(keyword)
            return parser.parse_integer(allow_boolean=False)

        def pair(keyword: str) -> Pair:
            parser.parse_keyword(keyword)
            items = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer, f" of {keyword}"
            )
            if len(items) != 2:
                parser.raise_error(f"{keyword} has a number for lines and one for columns")
            return items[0], items[1]

        sizes = integer("width"), integer("pixels")
        pairs, first = (pair("kernel"), pair("strides"), pair("dilations")), integer("from")
        left = parser.parse_integer() if parser.parse_optional_keyword("left") else 0
        pad = parse_scalar(parser) if parser.parse_optional_keyword("pad") else None
        op = cls(source, target, Unfolding(*sizes, *pairs, left), first, pad)
        parse_end(parser, op)
        return op

    def line(self, names: Names, attributes: str) -> str:
        w, text = self.windows, ends_text(names, self.source, self.target)
        text += f" width {w.width} pixels {w.pixels} kernel {[*w.kernel]}"
        text += f" strides {[*w.strides]} dilations {[*w.dilations]}"
        text += f" from {self.begin}" + f" left {w.left}" * (w.left != 0)
        if self.pad is not None:
            text += f" pad {scalar_text(self.pad)}"
        return text + attributes

    def verify_(self) -> None:
        source, target, w = tile_type(self.source), tile_type(self.target), self.windows
        if source.space is not Memory.L1 or target.space not in (Memory.L0A, Memory.L0B):
            raise VerifyException(f"windows pass from l1 to l0a or l0b: {source} to {target}")
        check_same_element(source, target)
        if min(w.width, w.pixels, *w.kernel, *w.strides, *w.dilations) < 1:
            raise VerifyException("sizes, strides and dilations of windows are at least 1")
        count, depth = target.shape if self.window_rows else target.shape[::-1]
        lines, rest = divmod(count, w.pixels)
        if rest:
            raise VerifyException(f"{count} windows are no whole lines of {w.pixels}")
        pixels, channels = source.shape
        if self.pad is not None:
            check_number(self.pad, source.element)
            passes = w.left < 0 or w.reach(0, lines) * w.width > pixels
        else:
            last = (w.reach(0, lines) - 1) * w.width + w.reach(1, w.pixels)
            passes = w.left != 0 or w.reach(1, w.pixels) > w.width or last > pixels
        if passes:
            text = f"{lines} x {w.pixels} windows pass {pixels} pixels, {w.width} in a line"
            raise VerifyException(text)
        if self.begin < 0 or self.begin + depth > channels * w.taps:
            text = f"{depth} elements from {self.begin} on"
            raise VerifyException(f"{text} pass windows of {channels} channels x {w.taps}")
