"""Attributes of the `npu_task` dialect, and what is asked about the types of its values."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnrankedTensorType,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ge.dialects.support.types import DYNAMIC, agree, array_ints, type_shape

_DATA = "_ge_data"  # a cache in types, which are immutable


@lru_cache(maxsize=65536)
def number(value: int) -> IntegerAttr[I64]:
    return IntegerAttr(value, i64)


@lru_cache(maxsize=65536)
def symbol(name: str) -> SymbolRefAttr:
    return SymbolRefAttr(name)


# Memory spaces of memrefs: MLIR takes none of a dialect that it does not know.
HOST, HBM = StringAttr("host"), StringAttr("hbm")


class Engine(StrEnum):
    """HOST is the control processor: small integer work that decides shapes and branches. DMA
    transfers from and to the host."""

    CUBE = "cube"
    VECTOR = "vector"
    DMA = "dma"
    HOST = "host"


@irdl_attr_definition
class EngineAttr(EnumAttribute[Engine], SpacedOpaqueSyntaxAttribute):
    """`#npu_task<engine cube>`."""

    name = "npu_task.engine"


@irdl_attr_definition
class EventType(ParametrizedAttribute, TypeAttribute):
    """`!npu_task.event`, what a record makes and waits take: that all is done that was issued to a
    stream before."""

    name = "npu_task.event"


@irdl_attr_definition
class TilingAttr(ParametrizedAttribute):
    """`#npu_task.tiling<[128, 256, 64] blocks 24 buffers 2>`, the tile of a cube kernel; that of a
    vector kernel is [elements]. With 2 buffers loading overlaps with computing."""

    name = "npu_task.tiling"
    tile: DenseArrayBase
    blocks: IntAttr
    buffers: IntAttr

    @classmethod
    def of(cls, tile: Sequence[int], blocks: int, buffers: int) -> "TilingAttr":
        return tiling_of(tuple(tile), blocks, buffers)

    @property
    def sizes(self) -> tuple[int, ...]:
        return array_ints(self.tile)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            tile = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            parser.parse_keyword("blocks")
            blocks = parser.parse_integer()
            parser.parse_keyword("buffers")
            buffers = parser.parse_integer()
        return [DenseArrayBase.from_list(i64, tile), IntAttr(blocks), IntAttr(buffers)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            tile = ", ".join(str(v) for v in self.sizes)
            printer.print_string(f"[{tile}] blocks {self.blocks.data} buffers {self.buffers.data}")

    def verify(self) -> None:
        if len(self.sizes) not in (1, 3):
            raise VerifyException(f"a tile has one size or three, not {len(self.sizes)}")
        if min(self.sizes) < 1 or self.blocks.data < 1:
            raise VerifyException("tile sizes and blocks are at least 1")
        if self.buffers.data not in (1, 2):
            raise VerifyException(f"buffers is 1 or 2, not {self.buffers.data}")


@lru_cache
def tiling_of(tile: tuple[int, ...], blocks: int, buffers: int) -> TilingAttr:
    tile_sizes = DenseArrayBase.from_list(i64, list(tile))
    return TilingAttr(tile_sizes, IntAttr(blocks), IntAttr(buffers))


def fits(source: Attribute, target: Attribute) -> bool:
    """Whether the values of a memref type may be stored in another one: element type and rank
    agree, dimensions too where both are known."""
    (a, s), (b, t) = data_type(source), data_type(target)
    return a == b and agree(s, t)


def data_type(t: Attribute) -> tuple[Attribute, tuple[int, ...]]:
    """Element type and shape of a tensor or memref type; `[?]` is the shape of an unranked tensor,
    and any other type stands for itself."""
    data: tuple[Attribute, tuple[int, ...]] | None = t.__dict__.get(_DATA)
    if data is not None:
        return data
    if isinstance(t, UnrankedTensorType):
        return cast(UnrankedTensorType[Attribute], t).element_type, (DYNAMIC,)
    if not isinstance(t, TensorType | MemRefType):
        return t, ()
    typed: Any = t  # pyright: ignore[reportUnknownVariableType]
    data = vars(t)[_DATA] = typed.element_type, type_shape(typed)
    return data


def space_of(t: Attribute) -> Attribute | None:
    return cast("MemRefType[Attribute]", t).memory_space if isinstance(t, MemRefType) else None
