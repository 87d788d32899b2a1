"""The memory of the emulated NPU: one byte pool for each segment, slots are views into it.

In poison mode every byte that holds no live value is 0xFF (nan in each float type of 16 bits and
more, -1 in each signed integer type), so a plan that lets two lifetimes overlap, or that reads what
was never written, gives wrong numbers instead of right ones by luck.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import figure
from ge.dialects.npu_task.memory import MemoryView
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import byte_size
from ge.runtime.data.arrays import Array, is_packed, packed, unpacked
from ge.runtime.data.npz import WITHOUT_MEMORY, machine_bytes, require_memory
from ge.runtime.numbers.plan import Scratch

if TYPE_CHECKING:
    from ge.runtime.device.state import DeviceState

POISON = 0xFF
KEPT = "state"  # the segment whose bytes stay from run to run
DYNAMIC_SEGMENT = "dynamic"  # of tensors of unknown size that have places

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Bytes `start` to `end` of a segment."""

    segment: str
    start: int
    end: int

    def overlaps(self, other: "SegmentRange") -> bool:
        return self.segment == other.segment and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class SlotUse:
    """A slot's bytes, and the first and last step that touches them."""

    extent: SegmentRange
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class PackedView:
    """Elements of less than a byte: `data` has a row of bytes for each row of `length` of them."""

    data: Bytes
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    length: int

    def load(self) -> Array:
        return unpacked(self.data, self.dtype, self.length).reshape(self.shape)

    def store(self, array: Array) -> None:
        rows = self.data.shape[:-1]
        np.copyto(self.data, packed(array.reshape(*rows, self.length)))

    def view(self, view: MemoryView) -> "PackedView":
        """A view of a whole buffer. Raises GeError when it reaches outside, or has parts of
        bytes."""
        if not view.is_whole_bytes():
            raise GeError(f"a view of packed {view.element} has whole bytes, not parts of them")
        check_within(view, prod(self.shape))
        low, width, rows = view.geometry
        sizes, strides = [n for n, _ in rows], [s for _, s in rows]
        raw = self.data.reshape(-1)
        data = np.ndarray((*sizes, width), np.uint8, raw, low, (*strides, 1))
        return PackedView(data, self.dtype, view.sizes, view.rows()[-1][0])


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A row of packed elements, which may begin inside of a byte: its neighbours stay."""

    whole: PackedView
    row: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole.shape[1:]

    def store(self, array: Array) -> None:
        elements = self.whole.load()
        elements[self.row, ...] = array
        self.whole.store(elements)


def loaded(value: Array | PackedView) -> Array:
    """The elements in an array: its own, for packed ones."""
    return value.load() if isinstance(value, PackedView) else value


class Device:
    """Segments of device memory by name, and the states that are kept there."""

    def __init__(self, sizes: dict[str, int] | None = None, poison: bool = False) -> None:
        self.sizes, self.poison = sizes or {}, poison
        self.states: dict[Operation, DeviceState] = {}
        self.scratch = Scratch()  # of what computes on it, which is alone there
        require_memory(sum(self.sizes.values()), "the program", hint=WITHOUT_MEMORY)
        self.pools: dict[str, Bytes] = {n: np.empty(s, np.uint8) for n, s in self.sizes.items()}
        if poison:
            self.poison_all()

    @classmethod
    def of(cls, func: FuncOp, poison: bool = False) -> "Device":
        sizes: dict[str, int] = {}
        for op in func.walk():
            if isinstance(op, SlotOp):
                extent = extent_of(op)
                sizes[extent.segment] = max(sizes.get(extent.segment, 0), extent.end)
        dynamic = figure(func, "dynamic_bytes") or 0
        if 0 < dynamic <= machine_bytes() // 2:  # else tensors take what they need, as they come
            sizes[DYNAMIC_SEGMENT] = dynamic
        return cls(sizes, poison)

    def view(
        self, extent: SegmentRange, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> Array | PackedView:
        if is_packed(dtype):
            return PackedView(self.bytes(extent), dtype, shape, prod(shape))
        return self.bytes(extent).view(dtype).reshape(shape)

    def bytes(self, extent: SegmentRange) -> Bytes:
        return self.pools[extent.segment][extent.start : extent.end]

    def place(self, array: Array, offset: int, most: int) -> Array:
        """A tensor of unknown size at its place. Raises GeError where it is larger."""
        if array.nbytes > most:
            raise GeError(
                f"a tensor has {array.nbytes} bytes, and its place {most}",
                hint="the sizes of inputs are out of the ranges that the program has for them",
            )
        if DYNAMIC_SEGMENT not in self.pools:
            return array
        raw = self.bytes(SegmentRange(DYNAMIC_SEGMENT, offset, offset + array.nbytes))
        view = raw.view(array.dtype).reshape(array.shape)
        np.copyto(view, array)
        return view

    def poison_all(self) -> None:
        for name, pool in self.pools.items():
            if name != KEPT:
                pool.fill(POISON)


def extent_of(op: SlotOp) -> SegmentRange:
    start = op.offset.value.data
    return SegmentRange(op.segment.data, start, start + byte_size(op.result.type))


def strided_view(base: Array, dtype: np.dtype[Any], view: MemoryView) -> Array:
    """A view of a buffer; of a constant that is one number everywhere, and lies in memory once, a
    copy. Raises GeError when it reaches outside the buffer."""
    check_within(view, base.size)
    raw = np.ascontiguousarray(base).reshape(-1).view(np.uint8)
    width = dtype.itemsize
    strides = [s * width for s in view.strides]
    return np.ndarray(view.sizes, dtype, raw, view.offset * width, strides)


def check_within(view: MemoryView, size: int) -> None:
    if not 0 <= view.offset <= view.end <= size or min(view.strides, default=0) < 0:
        where = f"elements {view.offset} to {view.end}"
        raise GeError(f"a view of {where} leaves its buffer of {size}")


def dead_after(lifetimes: Iterable[SlotUse]) -> dict[int, list[SegmentRange]]:
    """Step -> the bytes that hold no live value any more after it."""
    by_segment: dict[str, list[SlotUse]] = defaultdict(list)
    for lifetime in lifetimes:
        by_segment[lifetime.extent.segment].append(lifetime)
    dead: dict[int, list[SegmentRange]] = defaultdict(list)
    for members in by_segment.values():
        for ended in members:
            pieces = [ended.extent]
            for other in members:
                if other.first <= ended.last < other.last:
                    pieces = [p for piece in pieces for p in _without(piece, other.extent)]
            dead[ended.last] += pieces
    return dead


def _without(piece: SegmentRange, hole: SegmentRange) -> list[SegmentRange]:
    if not piece.overlaps(hole):
        return [piece]
    left = SegmentRange(piece.segment, piece.start, hole.start)
    right = SegmentRange(piece.segment, hole.end, piece.end)
    return [p for p in (left, right) if p.start < p.end]
