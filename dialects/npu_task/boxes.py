"""Which bytes a strided view of a buffer is, and whether two views have bytes in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

MOST_BOXES = 4096  # that a view is cut into, and runs that are compared one by one

Dims = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ByteBox:
    """Runs of `width` bytes, `count` times `pitch` bytes apart for each (count, pitch) of `dims`,
    outermost first. A pitch is never smaller than what it repeats."""

    low: int
    width: int
    dims: Dims = ()

    @property
    def high(self) -> int:
        high = self.low + self.width
        for count, pitch in self.dims:
            high += (count - 1) * pitch
        return high

    @property
    def size(self) -> int:
        return self.width * prod(count for count, _ in self.dims)

    def at(self, index: int) -> "ByteBox":
        """The box at one index of the outermost dimension."""
        return ByteBox(self.low + index * self.dims[0][1], self.width, self.dims[1:])

    def meets(self, other: "ByteBox") -> bool:
        """Whether both may have a byte in common: exact up to `MOST_BOXES` runs."""
        if not self.dims and not other.dims:  # the usual case
            return self.low < other.low + other.width and other.low < self.low + self.width
        if self.low >= other.high or other.low >= self.high:
            return False
        if not self.dims or (other.dims and other.dims[0][1] > self.dims[0][1]):
            return other.meets(self)
        count, pitch = self.dims[0]
        mine, theirs, first = self.at(0), other, 0
        if other.dims and other.dims[0][1] == pitch:  # only the distance of two indices matters
            theirs, first = other.at(0), 1 - other.dims[0][0]
        begin = max(first, (theirs.low - mine.high) // pitch + 1)
        end = min(count, -((mine.low - theirs.high) // pitch))
        if end - begin > MOST_BOXES:
            return True
        return any(self.at(i).meets(theirs) for i in range(begin, end))


def boxes_of(low: int, width: int, dims: Iterable[tuple[int, int]]) -> list[ByteBox] | None:
    """The bytes of elements of `width` bytes from byte `low` on, with these sizes and strides in
    bytes, none below 0. None for more than `MOST_BOXES` boxes."""
    return _nested(low, width, sorted((d for d in dims if d[0] != 1 and d[1]), key=lambda d: d[1]))


def _nested(low: int, width: int, dims: Sequence[tuple[int, int]]) -> list[ByteBox] | None:
    """As `boxes_of`, for sizes above 1 and strides above 0 in ascending order."""
    boxes = [ByteBox(low, width)]
    for count, pitch in dims:
        repeated = list[ByteBox]()
        for box in boxes:
            repeated += _repeated(box, count, pitch)
            if len(repeated) > MOST_BOXES:
                return None
        boxes = repeated
    return boxes


def _repeated(box: ByteBox, count: int, pitch: int) -> list[ByteBox]:
    if not box.dims and pitch <= box.width:
        return [ByteBox(box.low, (count - 1) * pitch + box.width)]
    if pitch >= box.high - box.low:
        inner, step = box.dims[0] if box.dims else (0, 0)
        dims = ((count * inner, step), *box.dims[1:]) if pitch == inner * step else None
        return [ByteBox(box.low, box.width, dims or ((count, pitch), *box.dims))]
    count = min(count, MOST_BOXES + 1)
    return [ByteBox(box.low + i * pitch, box.width, box.dims) for i in range(count)]
