"""Which task made what another one reads: the dependencies that no schedule can do without.

Values flow through buffers. A task depends on the last tasks that wrote the elements that it reads;
views count as the part of their buffer that they are. That a buffer is written again while others
still read it, or that two buffers share bytes, orders tasks as well, but is the choice of who
planned the memory: it is not looked at here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from xdsl.dialects.builtin import StridedLayoutAttr
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import SSAValue

from ge.dialects.support.types import array_ints, numel, shape_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of a buffer: within [low, high), of each `pitch` the first `width` (all of them if
    the pitch is 0)."""

    low: int
    high: int
    pitch: int = 0
    width: int = 0

    def meets(self, other: "Region") -> bool:
        """Whether the two may have elements in common."""
        if self.high <= other.low or other.high <= self.low:
            return False
        if not self.pitch or self.pitch != other.pitch:
            return True
        ahead = (other.low - self.low) % self.pitch
        return ahead < self.width or ahead + other.width > self.pitch

    def covers(self, other: "Region") -> bool:
        """Whether all of the other is surely in this one."""
        return self == other or (
            not self.pitch and self.low <= other.low and other.high <= self.high
        )


EVERYTHING = Region(0, 1 << 62)
"""The whole of a buffer whose shape is not known."""


def region_of(value: SSAValue) -> tuple[SSAValue, Region]:
    """The buffer that a memref is, or is a part of, and which elements of it."""
    owner, offset = value, 0
    while isinstance(owner.owner, ReinterpretCastOp):
        if owner is value:
            offset = array_ints(owner.owner.static_offsets)[0]
        owner = owner.owner.source
    shape = shape_of(value)
    if any(d < 0 for d in shape) or offset < 0:
        return owner, EVERYTHING
    layout = getattr(value.type, "layout", None)
    if not isinstance(layout, StridedLayoutAttr):
        return owner, Region(offset, offset + numel(shape))
    strides = [getattr(s, "data", None) for s in layout.strides]
    if any(not isinstance(s, int) for s in strides):
        return owner, EVERYTHING
    return owner, strided(offset, shape, [s for s in strides if isinstance(s, int)])


def strided(offset: int, shape: Sequence[int], strides: Sequence[int]) -> Region:
    """The region of a view: rows of elements side by side, one for each pitch, where its outer
    dimensions have one pitch in common, else all between its ends."""
    dims = [(d, s) for d, s in zip(shape, strides, strict=True) if d != 1]
    if not numel(shape):
        return Region(offset, offset)
    high = offset + 1 + sum((d - 1) * s for d, s in dims)
    width = 1
    while dims and dims[-1][1] == width:
        width *= dims.pop()[0]
    if not dims:
        return Region(offset, high)
    pitch = span = dims[-1][1]
    for d, s in reversed(dims):
        if s != span:
            return Region(offset, high)
        span = d * s
    return Region(offset, high, pitch, width)


class Regions:
    """`region_of`, worked out once for each value."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, tuple[SSAValue, Region]] = {}

    def of(self, value: SSAValue) -> tuple[SSAValue, Region]:
        """The buffer that a memref is, or is a part of, and which elements of it."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = region_of(value)
        return found


class Writers(Generic[T]):
    """Who wrote each part of each buffer last."""

    def __init__(self, regions: Regions) -> None:
        self._writes: dict[SSAValue, list[tuple[Region, T]]] = {}
        self._regions = regions

    def of(self, values: Iterable[SSAValue]) -> list[T]:
        """Who wrote what these memrefs hold, each once."""
        found: dict[T, None] = {}
        for value in values:
            buffer, region = self._regions.of(value)
            for written, writer in self._writes.get(buffer, ()):
                if region.meets(written):
                    found[writer] = None
        return list(found)

    def write(self, writer: T, values: Iterable[SSAValue]) -> None:
        """Note that these memrefs are written."""
        for value in values:
            buffer, region = self._regions.of(value)
            older = self._writes.get(buffer, ())
            kept = [w for w in older if not region.covers(w[0])]
            self._writes[buffer] = [*kept, (region, writer)]
