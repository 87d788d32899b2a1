"""Contents of L2: between the launches of a program, within one, and beside one launch alone.

L2 is a write-back cache that replaces the bytes used least recently (`LastUsed`; an assumption: its
policy is not published). Within a launch it holds pieces of operands (`nest.py`). Between launches
(`L2Cache`: the reads that hit, the bytes written back) it holds whole accesses: a launch touches a
range of addresses at a time, and a range is evicted whole. That is what LRU does to data that is
read from one end to the other: once its beginning is gone, its rest is replaced before it is
reached. So a range hits if all bytes touched since fit into L2 beside it (its reuse distance;
Mattson et al., IBM Systems Journal 9(2), 1970).

- Written bytes stay dirty until they are evicted; the launch that evicts it pays for that. If they
  are written again before, their first contents never reach HBM.
- A range that is larger than L2 replaces everything and never hits.
- Copies between host and device go past L2.

Limits of that: the order is that in which tasks are issued, not that in which they run; lines, sets
and the two halves of the L2 of some chips are not modelled; nor is the order of tiles in a launch.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ge.dialects.targets.target import Target

K = TypeVar("K", bound=Hashable)


def evicted_bytes(read: int, written: int, target: Target) -> int:
    """Bytes of the results of a launch alone that leave L2 for HBM during it: on targets with split
    cores, the same share of the bytes that L2 has no room for as results have of all bytes; else
    all."""
    total = read + written
    if not target.split_cores:
        return written
    return written * max(total - target.l2_bytes, 0) // max(total, 1)


class LastUsed(Generic[K]):
    """Contents of a cache, in the order in which they were used last, and their bytes."""

    def __init__(self) -> None:
        self.sizes = OrderedDict[K, int]()
        self.bytes = 0

    def use(self, key: K, size: int) -> bool:
        """Returns whether it was held."""
        before = self.sizes.pop(key, 0)
        self.sizes[key] = size
        self.bytes += size - before
        return before > 0

    def drop(self, key: K) -> None:
        self.bytes -= self.sizes.pop(key)

    def pop(self) -> K:
        """Evict the entry used least recently."""
        key, size = self.sizes.popitem(last=False)
        self.bytes -= size
        return key


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Bytes `low` to `high` of a segment of device memory."""

    segment: Hashable
    low: int
    high: int


@dataclass(slots=True, eq=False)
class _Range:
    """Bytes that L2 holds, of which `dirty` have not been written to HBM."""

    low: int
    high: int
    dirty: int
    segment: Hashable


@dataclass(slots=True, eq=False)
class _Segment:
    lows: list[int] = field(default_factory=list[int])
    ranges: list[_Range] = field(default_factory=list[_Range])

    def exactly(self, place: AddressRange) -> _Range | None:
        i = bisect_left(self.lows, place.low)
        if i < len(self.lows) and self.lows[i] == place.low and self.ranges[i].high == place.high:
            return self.ranges[i]
        return None

    def within(self, place: AddressRange) -> slice:
        start = bisect_right(self.lows, place.low) - 1
        if start < 0 or self.ranges[start].high <= place.low:
            start += 1
        return slice(start, bisect_left(self.lows, place.high))

    def replace(self, which: slice, new: list[_Range]) -> None:
        self.ranges[which] = new
        self.lows[which] = [r.low for r in new]


@dataclass
class L2Cache:
    """`capacity` bytes."""

    capacity: int
    written_back: int = 0  # bytes that were evicted dirty so far
    _held: LastUsed[_Range] = field(default_factory=LastUsed[_Range])
    _segments: dict[Hashable, _Segment] = field(default_factory=lambda: defaultdict(_Segment))

    def copy(self) -> "L2Cache":
        """The same contents, to be changed apart (one for each branch)."""
        return deepcopy(self)

    def read(self, place: AddressRange, size: int) -> int:
        """Read `size` bytes of a place: how many of them come from HBM. A place of which only a
        small part is read is not kept."""
        span = place.high - place.low
        if span <= 0 or size <= 0:
            return 0
        if 2 * size < span:
            return size - size * self._overlap(place) // span
        if span > self.capacity:
            self.flush()
            return size
        if (r := self._segments[place.segment].exactly(place)) is not None:
            self._touch(r)
            return 0
        hit, dirty = self.forget(place)
        self._put(place, dirty)
        return max(size - size * hit // span, 0)

    def write(self, place: AddressRange, size: int) -> None:
        """Write `size` bytes of a place (fewer than it spans: rows of it)."""
        span = place.high - place.low
        if span <= 0 or size <= 0:
            return
        if (r := self._segments[place.segment].exactly(place)) is not None:
            # A second part of a buffer that is written row by row adds to the dirty bytes there.
            r.dirty = min(span, size if size == span else r.dirty + size)
            self._touch(r)
            return
        _, before = self.forget(place)
        if span > self.capacity:
            self.flush()
            self.written_back += size
            return
        self._put(place, min(span, size if size == span else before + size))

    def write_part(self, place: AddressRange, size: int) -> None:
        """Write `size` bytes somewhere in a place: where it is not held, they are not kept."""
        if (r := self._segments[place.segment].exactly(place)) is None:
            self.written_back += size
            return
        r.dirty = min(r.high - r.low, r.dirty + size)
        self._touch(r)

    def flush(self) -> None:
        self._evict(0)

    def _touch(self, r: _Range) -> None:
        self._held.use(r, r.high - r.low)

    def _put(self, place: AddressRange, dirty: int) -> None:
        segment = self._segments[place.segment]
        new = _Range(place.low, place.high, dirty, place.segment)
        at = bisect_left(segment.lows, place.low)
        segment.replace(slice(at, at), [new])
        self._touch(new)
        self._evict(self.capacity)

    def _evict(self, room: int) -> None:
        while self._held.bytes > room:
            r = self._held.pop()
            self.written_back += r.dirty
            segment = self._segments[r.segment]
            at = bisect_left(segment.lows, r.low)
            segment.replace(slice(at, at + 1), [])

    def _overlap(self, place: AddressRange) -> int:
        segment = self._segments[place.segment]
        ranges = segment.ranges[segment.within(place)]
        return sum(min(r.high, place.high) - max(r.low, place.low) for r in ranges)

    def forget(self, place: AddressRange) -> tuple[int, int]:
        """Hold nothing of a place any more, without writing it back (something wrote it past L2):
        how many bytes of it were held, and how many of these dirty."""
        segment = self._segments[place.segment]
        which = segment.within(place)
        held = dirty = 0
        rests: list[_Range] = []
        for r in segment.ranges[which]:
            size = r.high - r.low
            for low, high in ((r.low, place.low), (place.high, r.high)):
                if low < high:
                    rest = r.dirty * (high - low) // size
                    rests.append(_Range(low, high, rest, place.segment))
            part = min(r.high, place.high) - max(r.low, place.low)
            held += part
            dirty += r.dirty * part // size
            self._held.drop(r)
        segment.replace(which, rests)
        for r in rests:
            self._touch(r)
        return held, dirty
