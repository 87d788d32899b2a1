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
from itertools import count


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes `low` to `high` of a segment of device memory."""

    segment: Hashable
    low: int
    high: int


@dataclass(slots=True, eq=False)
class _Range:
    """Bytes that L2 holds, of which `dirty` have not been written to HBM. An empty range is none
    any more."""

    segment: Hashable
    low: int
    high: int
    dirty: int
    used: int
    """When it was touched last."""


@dataclass
class L2Cache:
    """`capacity` bytes. `read` and `write` say how many bytes cross HBM to serve an access."""

    capacity: int
    written_back: int = 0
    """Bytes that were evicted dirty so far."""
    _held: int = 0
    _ranges: dict[Hashable, list[_Range]] = field(default_factory=dict[Hashable, list[_Range]])
    """Segment -> disjoint ranges by address."""
    _by_use: list[tuple[int, int, _Range]] = field(default_factory=list[tuple[int, int, _Range]])
    """A heap; a range that was touched again since is in it again."""
    _clock: "count[int]" = field(default_factory=count)

    def copy(self) -> "L2Cache":
        """The same contents, to be changed apart (one for each branch)."""
        return deepcopy(self)

    def read(self, place: Place, size: int) -> int:
        """Read `size` bytes of a place: how many of them come from HBM. A place of which only a
        small part is read is not kept."""
        span = place.high - place.low
        if span <= 0 or size <= 0:
            return 0
        hit, dirty = self._overlap(place)
        if span > self.capacity:
            self.flush()
            return size
        if 2 * size >= span:
            self._take(place)
            self._put(place, dirty)
        return size - min(size * hit // span, size)

    def write(self, place: Place, size: int) -> None:
        """Write `size` bytes of a place (fewer than it spans: rows of it)."""
        span = place.high - place.low
        if span <= 0 or size <= 0:
            return
        before = self._take(place)
        if span > self.capacity:
            self.flush()
            self.written_back += size
            return
        # A second part of a buffer that is written row by row adds to what is dirty there.
        self._put(place, min(span, size if size == span else before + size))

    def forget(self, place: Place) -> None:
        """The place is written in HBM, past L2."""
        self._take(place)

    def flush(self) -> None:
        """Evict everything."""
        self._evict(0)

    def _put(self, place: Place, dirty: int) -> None:
        """Hold a place, of which nothing is held now, as what was used last."""
        new = _Range(place.segment, place.low, place.high, dirty, next(self._clock))
        ranges = self._ranges.setdefault(place.segment, [])
        ranges.insert(bisect_left(ranges, place.low, key=_low), new)
        self._held += place.high - place.low
        self._push(new)
        self._evict(self.capacity)

    def _push(self, r: _Range) -> None:
        heappush(self._by_use, (r.used, next(self._clock), r))

    def _evict(self, least: int) -> None:
        """Evict what was used least recently until no more than `least` bytes are held."""
        while self._held > least:
            used, _, r = heappop(self._by_use)
            if used != r.used or r.low == r.high:
                continue
            self.written_back += r.dirty
            self._held -= r.high - r.low
            ranges = self._ranges[r.segment]
            del ranges[bisect_left(ranges, r.low, key=_low)]
            r.high = r.low

    def _overlap(self, place: Place) -> tuple[int, int]:
        """Bytes of a place that are held, and how many of these are dirty."""
        ranges = self._ranges.get(place.segment, ())
        held = dirty = 0
        for r in ranges[_first(ranges, place.low) : bisect_left(ranges, place.high, key=_low)]:
            part = min(r.high, place.high) - max(r.low, place.low)
            held += part
            dirty += r.dirty * part // (r.high - r.low)
        return held, dirty

    def _take(self, place: Place) -> int:
        """Hold nothing of a place any more, without writing it back; how much of it was dirty."""
        ranges = self._ranges.get(place.segment)
        if not ranges:
            return 0
        start, end = _first(ranges, place.low), bisect_left(ranges, place.high, key=_low)
        dirty, kept = 0, list[_Range]()
        for r in ranges[start:end]:
            size = r.high - r.low
            for low, high in ((r.low, place.low), (place.high, r.high)):
                if low < high:
                    rest = _Range(r.segment, low, high, r.dirty * (high - low) // size, r.used)
                    kept.append(rest)
                    self._push(rest)
            part = min(r.high, place.high) - max(r.low, place.low)
            dirty += r.dirty * part // size
            self._held -= part
            r.high = r.low
        ranges[start:end] = kept
        return dirty


def _low(r: _Range) -> int:
    return r.low


def _first(ranges: "list[_Range] | tuple[()]", low: int) -> int:
    """The index of the first range that ends behind an address."""
    i = bisect_right(ranges, low, key=_low) - 1
    return i if i >= 0 and ranges[i].high > low else i + 1
