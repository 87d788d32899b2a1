"""Types of the `tile` dialect: tiles in a core's memories, boxes of memrefs, queues.

!tile.tile<128x64xf16, l1>        rows x columns of elements in one of the core's memories
!tile.ring<2 x 128x64xf16, l1>    as many copies of such a tile
!tile.box<128x64xf16>             a box of a memref, seen as rows and columns
!tile.fifo<128x128xf32>           tiles on their way from one program to the other
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import tensor

FRACTAL = 16  # rows and columns of the blocks in which operands of the cube come
BLOCK = (
    32  # bytes: what offsets in a core's memories, and of rows in an allocation, are multiples of
)


class Memory(StrEnum):
    """A memory of a core. For each column BT has a number that sums begin with, FB a scale by which
    they leave L0C."""

    L1 = "l1"
    L0A = "l0a"
    L0B = "l0b"
    L0C = "l0c"
    UB = "ub"
    BT = "bt"
    FB = "fb"


class Pipe(StrEnum):
    """A queue of a core's instructions, which run one after the other: of three that move data in
    (MTE2), within (MTE1) and out (MTE3), the cube (M), the vector unit (V), and FIX, which takes
    sums out of L0C."""

    MTE1 = "mte1"
    MTE2 = "mte2"
    MTE3 = "mte3"
    M = "m"
    V = "v"
    FIX = "fix"


@irdl_attr_definition
class PipeAttr(EnumAttribute[Pipe], SpacedOpaqueSyntaxAttribute):
    """`#tile<pipe mte2>`."""

    name = "tile.pipe"


@irdl_attr_definition
class MemoryAttr(EnumAttribute[Memory], SpacedOpaqueSyntaxAttribute):
    """`#tile<memory l1>`."""

    name = "tile.memory"


PIPES = {pipe: PipeAttr(pipe) for pipe in Pipe}
MEMORIES = {memory: MemoryAttr(memory) for memory in Memory}


@cache
def element_text(element: Attribute) -> str:
    """`str` of an attribute makes a printer."""
    return str(element)


@dataclass(frozen=True, init=False)  # or its parameters would have no part in equality
class Shaped(ParametrizedAttribute, TypeAttribute):
    """Rows and columns of elements."""

    rows: IntAttr
    cols: IntAttr
    element: Attribute

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.data, self.cols.data

    @property
    def count(self) -> int:
        return self.rows.data * self.cols.data

    @property
    def row_bytes(self) -> int:
        return self.cols.data * bitwidth(self.element) // 8

    @property
    def bytes(self) -> int:
        """Bytes of the elements, without gaps."""
        return self.count * bitwidth(self.element) // 8

    @property
    def tensor(self) -> TensorType[Attribute]:
        """The tensor type that the region of a `tile.map` sees."""
        return tensor(self.shape, self.element)

    def text(self) -> str:
        return f"{self.rows.data}x{self.cols.data}x{element_text(self.element)}"

    def verify(self) -> None:
        if min(self.shape) < 1:
            raise VerifyException(f"rows and columns are at least 1, not {self.text()}")
        if self.count * bitwidth(self.element) % 8:
            raise VerifyException(f"{self.text()} is no whole number of bytes")


@irdl_attr_definition
class TileType(Shaped):
    """One tile in a memory."""

    name = "tile.tile"
    memory: MemoryAttr

    def __init__(self, rows: int, cols: int, element: Attribute, memory: Memory):
        super().__init__(IntAttr(rows), IntAttr(cols), element, MEMORIES[memory])

    @property
    def space(self) -> Memory:
        return self.memory.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [*_shape(parser), _memory(parser)]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text()}, {self.space}>")

    def verify(self) -> None:
        super().verify()
        check_layout(self, self.space)


@cache
def tile_in(rows: int, cols: int, element: Attribute, memory: Memory) -> TileType:
    """The type of a tile, made and verified once: the programs of a model ask for few, often."""
    return TileType(rows, cols, element, memory)


@cache
def ring_in(copies: int, rows: int, cols: int, element: Attribute, memory: Memory) -> "RingType":
    """The type of a ring, as `tile_in`."""
    return RingType(copies, rows, cols, element, memory)


@irdl_attr_definition
class RingType(Shaped):
    """Copies of a tile, used in turn."""

    name = "tile.ring"
    memory: MemoryAttr
    number: IntAttr

    def __init__(self, copies: int, rows: int, cols: int, element: Attribute, memory: Memory):
        shape = IntAttr(rows), IntAttr(cols), element
        super().__init__(*shape, MEMORIES[memory], IntAttr(copies))

    @property
    def space(self) -> Memory:
        return self.memory.data

    @property
    def copies(self) -> int:
        return self.number.data

    @property
    def tile(self) -> TileType:
        """The type of one copy."""
        return tile_in(*self.shape, self.element, self.space)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            copies = IntAttr(parser.parse_integer(allow_boolean=False))
            parser.parse_keyword("x")
            return [*_shape(parser), _memory(parser), copies]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.copies} x {self.text()}, {self.space}>")

    def verify(self) -> None:
        super().verify()
        check_layout(self, self.space)
        if self.copies < 1:
            raise VerifyException(f"a ring has at least one copy, not {self.copies}")


class Unplaced(Shaped):
    """Rows and columns in no memory of a core."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return _shape(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text()}>")


@irdl_attr_definition
class BoxType(Unplaced):
    """A box of a memref's elements; elements beyond the memref's end do not exist."""

    name = "tile.box"

    def __init__(self, rows: int, cols: int, element: Attribute):
        super().__init__(IntAttr(rows), IntAttr(cols), element)


@irdl_attr_definition
class FifoType(Unplaced):
    """A queue of tiles between the two programs of a kernel."""

    name = "tile.fifo"

    def __init__(self, rows: int, cols: int, element: Attribute):
        super().__init__(IntAttr(rows), IntAttr(cols), element)


@cache
def box_in(rows: int, cols: int, element: Attribute) -> BoxType:
    """The type of a box, as `tile_in`."""
    return BoxType(rows, cols, element)


def check_layout(t: Shaped, memory: Memory) -> None:
    """Raises VerifyException for a tile that the memory does not hold, nor has as a sub-tile: of
    sums any number of rows leaves L0C; BT and FB have rows of numbers, which come by L1."""
    if memory is not Memory.UB:
        rows = 0 if memory is Memory.L0C and not isinstance(t, RingType) else t.rows.data
        if memory in (Memory.BT, Memory.FB) and rows != 1:
            raise VerifyException(f"{memory} has a row of numbers, not {t.text()}")
        if memory in (Memory.L1, Memory.BT, Memory.FB) and rows == 1:
            rows = 0
        if rows % FRACTAL or t.cols.data % FRACTAL:
            rule = f"rows and columns in {memory} are multiples of {FRACTAL}"
            way = "take a larger tile, which a load fills with `pad`"
            raise VerifyException(f"{rule}, not {t.text()}: {way}")
        inner = BLOCK * 8 // bitwidth(t.element)  # elements of the inner dimension of a fractal
        if memory is Memory.L0B and t.rows.data % inner:
            rule = f"rows of {t.element} in {memory} are multiples of {inner}"
            raise VerifyException(f"{rule}: {t.text()}")
        if memory in (Memory.L0A, Memory.L1) and t.cols.data % inner:
            rule = f"columns of {t.element} in {memory} are multiples of {inner}"
            raise VerifyException(f"{rule}: {t.text()}")


def _shape(parser: AttrParser) -> list[Attribute]:
    dims, element = parser.parse_ranked_shape()
    if len(dims) != 2 or min(dims) < 0:
        parser.raise_error("a tile has rows and columns, two numbers")
    return [*map(IntAttr, dims), element]


def _memory(parser: AttrParser) -> MemoryAttr:
    parser.parse_punctuation(",")
    return MEMORIES[parser.parse_str_enum(Memory)]


# ---- facts of values -------------------------------------------------------------------------


def tile_type(value: SSAValue) -> TileType:
    """Raises VerifyException for any other type."""
    if type(t := value.type) is not TileType:  # `isinstance` of attributes takes much longer
        raise VerifyException(f"expected a tile, got {t}")
    return t


def box_type(value: SSAValue) -> BoxType:
    """Raises VerifyException for any other type."""
    if not isinstance(value.type, BoxType):
        raise VerifyException(f"expected a box of a memref, got {value.type}")
    return value.type


def fifo_type(value: SSAValue) -> FifoType:
    """Raises VerifyException for any other type."""
    if not isinstance(value.type, FifoType):
        raise VerifyException(f"expected a fifo, got {value.type}")
    return value.type
