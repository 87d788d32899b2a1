"""Packing of buffers into one arena: buffers that are live together get different bytes.

The problem is dynamic storage allocation, which is NP-hard (Garey and Johnson, SR2). Several
greedy methods run side by side and the best is kept; one that reaches the lower bound ends it:
- scan: buffers in the order in which they begin, each into the smallest hole that is free then
  (best fit); needs intervals only and O(n log n) steps;
- by size, by bytes times lifetime, by lifetime, by start: buffers in that order, each at the lowest
  offset (first fit) or in the smallest hole (best fit) between its neighbours that are placed;
  "greedy by size" is that of Pisarchyk and Lee, arXiv 2001.03288;
- search (see `search.py`), for a number of steps: is there a packing within the lower bound, and
  if not, within how much? The answer may be that the best one known is the smallest there is.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import gcd

from ge.transforms.analysis.live_profile import LiveProfile


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers to pack. Sizes are multiples of the alignment, so all offsets will be too."""

    sizes: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    """Buffer i is live from starts[i] to ends[i], both included. Buffers that are not live
    together do not conflict."""
    lower_bound: int
    """No packing is smaller."""
    neighbours: Sequence[Sequence[int]] | None = None
    """For each buffer those that it conflicts with, where that is known better than by
    intervals and there are not too many; None: see `intersections`."""


@dataclass(frozen=True, slots=True)
class Packing:
    """An offset for each buffer, the bytes of the arena, and the method that found it."""

    offsets: list[int]
    peak: int
    method: str
    smallest: bool = False
    """Whether a search has proved that no packing is smaller."""


MOST_CONFLICTS = 2_000_000
"""With more pairs of buffers that conflict, only the scan is tried."""

MOST_SEARCHED = 2_000
"""With more buffers there is no search."""

EFFORT = 4_000_000
"""Pairs of buffers that are looked at before the search ends."""


def intersections(starts: Sequence[int], ends: Sequence[int]) -> list[list[int]] | None:
    """For each buffer those that are live together with it; None if there are too many."""
    result: list[list[int]] = [[] for _ in starts]
    alive: list[int] = []
    pairs = 0
    for i in sorted(range(len(starts)), key=starts.__getitem__):
        alive = [j for j in alive if ends[j] >= starts[i]]
        pairs += len(alive)
        if pairs > MOST_CONFLICTS:
            return None
        result[i].extend(alive)
        for j in alive:
            result[j].append(i)
        alive.append(i)
    return result


def intervals(sizes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Problem:
    """The problem in which buffers conflict when their intervals meet."""
    lives = zip(sizes, starts, ends, strict=True)
    return Problem(sizes, starts, ends, LiveProfile.of(lives, max(ends, default=0) + 1).peak)


def pack(problem: Problem, steps: int = 0) -> Packing:
    """The best packing that the methods find, with a search of at most so many steps: the machine
    and what else it does change nothing."""
    best = pack_greedily(problem)
    if best.peak > problem.lower_bound and steps and len(problem.sizes) <= MOST_SEARCHED:
        best = pack_by_search(problem, best, steps)
    return best


def pack_by_search(problem: Problem, best: Packing, steps: int) -> Packing:
    """The smallest packing that a search finds in so many steps, by intervals. What is impossible
    within some bytes raises the lower bound; between it and the best packing halves are tried."""
    from ge.transforms.memory.search import Outcome, search

    unit: int = gcd(*problem.sizes)
    low, high = problem.lower_bound, best.peak
    capacity, left = low, steps
    proven = True
    while low < high and left > 0:
        share = (left + 1) // 2 if capacity < high - unit else left
        found = search(problem.sizes, problem.starts, problem.ends, capacity, share)
        left -= max(found.steps, 1)
        if found.outcome is Outcome.PACKED:
            best = Packing(list(found.offsets), top(found.offsets, problem.sizes), "search")
            high = best.peak
        else:
            proven &= found.outcome is Outcome.IMPOSSIBLE
            low = capacity + unit
        capacity = low + (high - low) // (2 * unit) * unit
    return replace(best, smallest=proven and low >= high)


def top(offsets: Iterable[int], sizes: Iterable[int]) -> int:
    """The bytes of an arena."""
    return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def pack_greedily(problem: Problem) -> Packing:
    """The best packing of the methods that take each buffer once."""
    best = scan(problem)
    if best.peak <= problem.lower_bound:
        return best
    neighbours = problem.neighbours
    if neighbours is None:
        neighbours = intersections(problem.starts, problem.ends)
    if neighbours is None:
        return best
    effort = EFFORT
    pairs = sum(len(n) for n in neighbours) // 2
    for method, order, place in METHODS:
        offsets = greedy(problem, neighbours, order(problem), place)
        peak = top(offsets, problem.sizes)
        if peak < best.peak:
            best = Packing(offsets, peak, method)
        effort -= pairs
        if best.peak <= problem.lower_bound or effort < pairs:
            break
    return best


# ---- the scan --------------------------------------------------------------------------------


@dataclass(slots=True)
class Holes:
    """The free bytes below the top of an arena: holes that do not touch each other."""

    top: int = 0
    by_size: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(size, offset), sorted."""
    starts: dict[int, int] = field(default_factory=dict[int, int])
    """Offset -> size."""
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """First byte after the hole -> offset."""

    def add(self, offset: int, size: int) -> None:
        """Free some bytes, which become one hole with those beside them."""
        if (before := self.ends.get(offset)) is not None:
            size += self.remove(before)
            offset = before
        if offset + size in self.starts:
            size += self.remove(offset + size)
        self.starts[offset] = size
        self.ends[offset + size] = offset
        insort(self.by_size, (size, offset))

    def remove(self, offset: int) -> int:
        """Take a hole away; returns its size."""
        size = self.starts.pop(offset)
        del self.ends[offset + size]
        del self.by_size[bisect_left(self.by_size, (size, offset))]
        return size

    def take(self, size: int) -> int:
        """The offset of `size` bytes in the smallest hole that has them, else at the top, where
        a hole may be made larger."""
        index = bisect_left(self.by_size, (size, 0))
        if index < len(self.by_size):
            _, offset = self.by_size[index]
        elif self.top in self.ends:
            offset = self.ends[self.top]
        else:
            offset = self.top
        available = self.remove(offset) if offset in self.starts else 0
        if available > size:
            self.add(offset + size, available - size)
        self.top = max(self.top, offset + size)
        return offset


def scan(problem: Problem) -> Packing:
    """Buffers in the order in which they begin, best fit."""
    offsets = [0] * len(problem.sizes)
    holes = Holes()
    alive: list[tuple[int, int]] = []
    order = sorted(range(len(offsets)), key=lambda i: (problem.starts[i], -problem.sizes[i]))
    for i in order:
        if not (size := problem.sizes[i]):
            continue
        while alive and alive[0][0] < problem.starts[i]:
            _, j = heappop(alive)
            holes.add(offsets[j], problem.sizes[j])
        offsets[i] = holes.take(size)
        heappush(alive, (problem.ends[i], i))
    return Packing(offsets, holes.top, "scan")


# ---- greedy by an order ----------------------------------------------------------------------


def greedy(
    problem: Problem,
    neighbours: Sequence[Sequence[int]],
    order: Iterable[int],
    place: Callable[[list[tuple[int, int]], int], int],
) -> list[int]:
    """Place buffers one by one. `place` finds an offset for a size beside spans of bytes."""
    sizes = problem.sizes
    offsets = [-1] * len(sizes)
    for i in order:
        if not (size := sizes[i]):
            offsets[i] = 0
            continue
        spans = [(o, o + sizes[j]) for j in neighbours[i] if (o := offsets[j]) >= 0]
        spans.sort()
        offsets[i] = place(spans, size)
    return offsets


def first_fit(spans: list[tuple[int, int]], size: int) -> int:
    """The lowest offset with `size` free bytes."""
    free = 0
    for low, high in spans:
        if low - free >= size:
            break
        free = max(free, high)
    return free


def best_fit(spans: list[tuple[int, int]], size: int) -> int:
    """The offset of the smallest hole of at least `size` bytes, else after all spans."""
    free, best, least = 0, -1, 0
    for low, high in spans:
        if low - free >= size and (best < 0 or low - free < least):
            best, least = free, low - free
        free = max(free, high)
    return free if best < 0 else best


def _by(key: Callable[[Problem, int], int]) -> Callable[[Problem], list[int]]:
    """An order in which larger keys come first, then earlier starts."""

    def order(p: Problem) -> list[int]:
        indices = sorted(range(len(p.sizes)), key=p.starts.__getitem__)
        indices.sort(key=lambda i: key(p, i), reverse=True)
        return indices

    return order


_size = _by(lambda p, i: p.sizes[i])
_area = _by(lambda p, i: p.sizes[i] * (p.ends[i] - p.starts[i] + 1))
_lifetime = _by(lambda p, i: p.ends[i] - p.starts[i])
_start = _by(lambda p, i: -p.starts[i])

METHODS = (
    ("by size, best fit", _size, best_fit),
    ("by size, first fit", _size, first_fit),
    ("by area, first fit", _area, first_fit),
    ("by lifetime, first fit", _lifetime, first_fit),
    ("by start, first fit", _start, first_fit),
)
