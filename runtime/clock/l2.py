"""What L2 holds of device memory while a program runs: which reads hit, what is written back.

L2 is a write-back cache that replaces what was used least recently (LRU), at the granularity of
whole accesses: a launch touches a range of addresses at a time, and a range is evicted whole. That
is what LRU does to data that is read from one end to the other: once its beginning is gone, its
rest is replaced before it is reached. So a range hits if all that was touched since fits into L2
beside it (its reuse distance; Mattson et al., IBM Systems Journal 9(2), 1970).

- What is written stays dirty until it is evicted; the launch that evicts it pays for that. If it is
  written again before, its first contents never reach HBM.
- A range that is larger than L2 replaces everything and never hits.
- Copies between host and device go past L2.

Limits: the order is that in which tasks are issued, not that in which they run; lines, sets and the
two halves of the L2 of some chips are not modelled; nor is the order of tiles within a launch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Bytes `low` to `high` of a segment of device memory."""

    segment: Hashable
    low: int
    high: int


@dataclass(slots=True, eq=False)
class _Range:
    """Bytes that L2 holds, of which `dirty` have not been written to HBM. An empty range is none
    any more."""

    low: int
    high: int
    dirty: int
    used: int  # when it was touched last
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
    _held: int = 0
    _segments: dict[Hashable, _Segment] = field(default_factory=dict[Hashable, _Segment])
    # A heap by (unique) time of use; a range that was touched again since is in it again
    _by_use: list[tuple[int, _Range]] = field(default_factory=list[tuple[int, _Range]])
    _now: int = 0

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
        if (r := self._segment(place).exactly(place)) is not None:
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
        if (r := self._segment(place).exactly(place)) is not None:
            # A second part of a buffer that is written row by row adds to what is dirty there.
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
        if (r := self._segment(place).exactly(place)) is None:
            self.written_back += size
            return
        r.dirty = min(r.high - r.low, r.dirty + size)
        self._touch(r)

    def flush(self) -> None:
        self._evict(0)

    def _segment(self, place: AddressRange) -> _Segment:
        if (segment := self._segments.get(place.segment)) is None:
            segment = self._segments[place.segment] = _Segment()
        return segment

    def _touch(self, r: _Range) -> None:
        self._now += 1
        r.used = self._now
        heappush(self._by_use, (r.used, r))

    def _put(self, place: AddressRange, dirty: int) -> None:
        segment = self._segment(place)
        new = _Range(place.low, place.high, dirty, 0, place.segment)
        at = bisect_left(segment.lows, place.low)
        segment.replace(slice(at, at), [new])
        self._held += place.high - place.low
        self._touch(new)
        self._evict(self.capacity)

    def _evict(self, least: int) -> None:
        """Evict what was used least recently until no more than `least` bytes are held."""
        while self._held > least:
            used, r = heappop(self._by_use)
            if used != r.used or r.low == r.high:
                continue
            self.written_back += r.dirty
            self._held -= r.high - r.low
            segment = self._segments[r.segment]
            at = bisect_left(segment.lows, r.low)
            segment.replace(slice(at, at + 1), [])
            r.high = r.low

    def _overlap(self, place: AddressRange) -> int:
        segment = self._segment(place)
        ranges = segment.ranges[segment.within(place)]
        return sum(min(r.high, place.high) - max(r.low, place.low) for r in ranges)

    def forget(self, place: AddressRange) -> tuple[int, int]:
        """Hold nothing of a place any more, without writing it back (something wrote it past L2):
        how many bytes of it were held, and how many of these dirty."""
        segment = self._segment(place)
        which = segment.within(place)
        held = dirty = 0
        rests: list[_Range] = []
        for r in segment.ranges[which]:
            size = r.high - r.low
            for low, high in ((r.low, place.low), (place.high, r.high)):
                if low < high:
                    rest = r.dirty * (high - low) // size
                    rests.append(_Range(low, high, rest, 0, place.segment))
            part = min(r.high, place.high) - max(r.low, place.low)
            held += part
            dirty += r.dirty * part // size
            r.high = r.low
        segment.replace(which, rests)
        self._held -= held
        for r in rests:
            self._touch(r)
        return held, dirty
