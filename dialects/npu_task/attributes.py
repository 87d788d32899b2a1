"""Attributes of the `npu_task` dialect, those of the functions and buffers of a program by name,
and functions that describe the types of its values.

Bytes of a size that is known only at run time are expressions of the dimensions of a program's
inputs: `256 * batch`, or `at most 16 * batch` where the size depends on data. Where the
dimensions have ranges, such a value has a place in the "dynamic" segment, which has room for the
most bytes that it can take.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
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
    Operation,
    OpResult,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ge.dialects.support.constraints import INTS
from ge.dialects.support.definitions import (
    FLAG,
    FUNCTION,
    MODULE,
    NUMBER,
    OP,
    TABLE,
    TEXT,
    TEXTS,
    Stated,
)
from ge.dialects.support.dims import Range, most
from ge.dialects.support.types import DYNAMIC, agree, array_ints, is_dynamic, type_shape
from ge.dialects.targets.target import TARGET, TARGET_FILE

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
    transfers from and to the host, COMM to and from other devices, without cores."""

    CUBE = "cube"
    VECTOR = "vector"
    DMA = "dma"
    HOST = "host"
    COMM = "comm"


@irdl_attr_definition
class EngineAttr(EnumAttribute[Engine], SpacedOpaqueSyntaxAttribute):
    """`#npu_task<engine cube>`."""

    name = "npu_task.engine"


@irdl_attr_definition
class EventType(ParametrizedAttribute, TypeAttribute):
    """`!npu_task.event`, the result of a record, which waits take: all work is done that was issued
    to a stream before."""

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
    """True if values of one memref type may be stored in another one: element type and rank agree,
    dimensions too where both are known."""
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


# of @main
STREAMS = "npu_task.streams"
RECEIVED = "npu_task.received_bytes"  # that collectives bring a device, at most, each of them once
CAP = "npu_task.cap_bytes"  # most bytes that are live at one time
CERTIFICATE = "npu_task.certificate"
NO_REUSE = "npu_task.no_reuse"  # kinds of ops whose results share no memory
SPILLED = "npu_task.spilled_bytes"
RECOMPUTED = "npu_task.recomputed"
ORDER = "npu_task.order"

# of buffers
IO = "npu_task.io"  # an input or output of the model
PINNED = "npu_task.pinned"  # shares no memory with others
STATE = "npu_task.state"  # the name of what it keeps from run to run
GROWS = "npu_task.grows"  # the axis of a state along which runs append, up to its size
VALID = "npu_task.valid"  # the shape of the part of a state that holds values when a run begins

# of a kernel: why it has no tile program; and of one with sizes that are not known, the names of
# the programs of what it becomes when they are
NO_TILES, OPEN_TILES = "npu_task.no_tiles", "npu_task.open_tiles"

# of tasks
BYTES = "npu_task.bytes"  # of each result on the device whose size is not known
OFFSETS = "npu_task.offsets"  # of these in the "dynamic" segment; -1: the device allocates it

FIGURES = (
    "streams", "events", "arena_bytes", "lower_bound_bytes", "no_reuse_bytes", "weight_bytes",
    "io_bytes", "alignment",
)  # fmt: skip
"""What every program states: `npu_task.` and one of these."""


def is_outside_arena(buffer: Operation) -> bool:
    """True if the allocation is an input, an output or state of the model."""
    return IO in buffer.attributes or STATE in buffer.attributes


def figure(func: Operation, name: str) -> int | None:
    attr = func.attributes.get(f"npu_task.{name}")
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def state(func: Operation, **figures: int) -> None:
    for name, value in figures.items():
        func.attributes[f"npu_task.{name}"] = number(value)


COUNTS = (
    *(f"npu_task.{name}" for name in (*FIGURES, "state_bytes", "dynamic_bytes")),
    CAP, SPILLED, RECOMPUTED, RECEIVED,
)  # fmt: skip

STATED = {
    **dict.fromkeys(COUNTS, Stated(NUMBER, (FUNCTION,))),
    TARGET: Stated(TEXT, (FUNCTION, MODULE)),  # of modules of kernels alone
    TARGET_FILE: Stated(TEXT, (FUNCTION, MODULE)),
    ORDER: Stated(TEXT, (FUNCTION,)),
    CERTIFICATE: Stated(TABLE, (FUNCTION,)),
    NO_REUSE: Stated(TEXTS, (FUNCTION,)),
    IO: Stated(FLAG, (OP,)),
    PINNED: Stated(FLAG, (OP,)),
    STATE: Stated(TEXT, (OP,)),
    GROWS: Stated(NUMBER, (OP,)),
    VALID: Stated(INTS, (OP,)),
    BYTES: Stated(TEXTS, (OP,)),
    OFFSETS: Stated(INTS, (OP,)),
    NO_TILES: Stated(TEXT, (OP,)),
    OPEN_TILES: Stated(TEXTS, (OP,)),
}


AT_MOST = "at most "


def unknown_results(op: Operation) -> list[OpResult]:
    """The results of a task that are on the device and of a size that is not known."""
    return [r for r in op.results if space_of(r.type) == HBM and is_dynamic(r.type)]


def state_bytes(op: Operation, texts: Sequence[str]) -> None:
    """Say the bytes of each of `unknown_results`: "" where nothing is known."""
    op.attributes[BYTES] = ArrayAttr(map(StringAttr, texts))


def stated_bytes(op: Operation) -> list[str]:
    """The bytes of each of `unknown_results`; "" where nothing is stated."""
    attr, count = op.attributes.get(BYTES), len(unknown_results(op))
    texts = cast("ArrayAttr[Attribute]", attr).data if isinstance(attr, ArrayAttr) else ()
    stated = [t.data if isinstance(t, StringAttr) else "" for t in texts]
    return stated if len(stated) == count else [""] * count


def expression_of(text: str) -> str:
    """The expression that bytes are, or that they are at most."""
    return text.removeprefix(AT_MOST)


def most_bytes(text: str, ranges: Mapping[str, Range]) -> int | None:
    """The most bytes that a stated text allows where sizes are in these ranges."""
    return most(expression_of(text), ranges)


def state_offsets(op: Operation, offsets: Sequence[int]) -> None:
    """Say where each of `unknown_results` is; -1: the device allocates it."""
    op.attributes[OFFSETS] = DenseArrayBase.from_list(i64, offsets)


def placed_results(
    op: Operation, ranges: Mapping[str, Range]
) -> Iterator[tuple[OpResult, int, int]]:
    """The results that have a place in the "dynamic" segment, each with its offset and the most
    bytes that it takes: 0 where nothing is known of these."""
    attr = op.attributes.get(OFFSETS)
    offsets = array_ints(cast(Attribute, attr)) if isinstance(attr, DenseArrayBase) else ()
    results = unknown_results(op)
    if len(offsets) == len(results):
        for result, offset, text in zip(results, offsets, stated_bytes(op), strict=True):
            if offset >= 0:
                yield result, offset, most_bytes(text, ranges) or 0
