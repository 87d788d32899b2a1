"""Packing of buffers into one arena: buffers that are live together get different bytes.

The problem is dynamic storage allocation, which is NP-hard (Garey and Johnson, SR2). The best
result of several greedy methods is taken; the first one that reaches the lower bound ends it:
- scan: buffers by their start, each in the smallest hole that is free then (best fit): intervals
  are enough, in O(n log n) steps;
- by size, by bytes times lifetime, by lifetime, by start: buffers in that order, each at the lowest
  offset (first fit) or in the smallest hole (best fit) between its neighbours that are placed;
  "greedy by size" is that of Pisarchyk and Lee, arXiv 2001.03288;
- search (`search.py`): is there a packing within the lower bound, and if not, within how much? It
  may prove that the best known packing is the smallest one.

The problem is made of lifetimes; where buffers share bytes in program order alone, tasks have to
wait for others.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import gcd

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import PINNED, figure
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.types import align_up
from ge.transforms.analysis.liveness import Liveness, LiveProfile


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """Buffers to pack. Sizes are multiples of the alignment, so all offsets are, too."""

    sizes: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    """Buffer i is live from starts[i] to ends[i], both included."""
    lower_bound: int
    neighbours: Sequence[Sequence[int]] | None = None
    """For each buffer those that it conflicts with, where that is known better than by intervals
    and there are not too many; None: see `intersections`."""


@dataclass(frozen=True, slots=True)
class Packing:
    """An offset for each buffer, and the bytes of the arena."""

    offsets: list[int]
    peak: int
    method: str
    smallest: bool = False
    """Whether a search has proved that no packing is smaller."""


MOST_CONFLICTS = 2_000_000
"""With more pairs of buffers that conflict, only the scan is tried."""

MOST_SEARCHED = 2_000
"""With more buffers there is no search."""

EFFORT = 4_000_000  # pairs of buffers that the greedy methods visit


def intersections(starts: Sequence[int], ends: Sequence[int]) -> list[list[int]] | None:
    """For each buffer those that are live together with it; None if there are too many."""
    result: list[list[int]] = [[] for _ in starts]
    live: list[int] = []
    pairs = 0
    for i in sorted(range(len(starts)), key=starts.__getitem__):
        live = [j for j in live if ends[j] >= starts[i]]
        pairs += len(live)
        if pairs > MOST_CONFLICTS:
            return None
        result[i].extend(live)
        for j in live:
            result[j].append(i)
        live.append(i)
    return result


def intervals(sizes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> PackingProblem:
    """The problem in which buffers conflict when their intervals meet."""
    lives = zip(sizes, starts, ends, strict=True)
    return PackingProblem(sizes, starts, ends, LiveProfile.of(lives, max(ends, default=0) + 1).peak)


def pack(problem: PackingProblem, steps: int = 0) -> Packing:
    """The best packing of the greedy methods and of a search of at most so many steps: the result
    does not depend on the speed of the machine."""
    best = pack_greedily(problem)
    if best.peak > problem.lower_bound and steps and len(problem.sizes) <= MOST_SEARCHED:
        best = pack_by_search(problem, best, steps)
    return best


def pack_by_search(problem: PackingProblem, best: Packing, steps: int) -> Packing:
    """The smallest packing that a search finds in so many steps, by intervals: bisection between
    the lower bound and the best packing."""
    from ge.transforms.memory.search import Outcome, search

    unit: int = gcd(*problem.sizes)
    low, high = problem.lower_bound, best.peak
    capacity = low
    proven = True
    while low < high and steps > 0:
        share = (steps + 1) // 2 if capacity < high - unit else steps
        result = search(problem.sizes, problem.starts, problem.ends, capacity, share)
        steps -= max(result.steps, 1)
        if result.outcome is Outcome.PACKED:
            best = Packing(list(result.offsets), top(result.offsets, problem.sizes), "search")
            high = best.peak
        else:
            proven &= result.outcome is Outcome.IMPOSSIBLE
            low = capacity + unit
        capacity = low + (high - low) // (2 * unit) * unit
    return replace(best, smallest=proven and low >= high)


def top(offsets: Iterable[int], sizes: Iterable[int]) -> int:
    """The bytes of an arena."""
    return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def pack_greedily(problem: PackingProblem) -> Packing:
    """The best packing of the methods that place each buffer once."""
    best = scan(problem)
    if best.peak <= problem.lower_bound:
        return best
    neighbours = problem.neighbours or intersections(problem.starts, problem.ends)
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
    """The free bytes below the top of an arena: separate holes."""

    top: int = 0
    by_size: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(size, offset), sorted."""
    starts: dict[int, int] = field(default_factory=dict[int, int])
    """Offset -> size."""
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """End -> offset."""

    def add(self, offset: int, size: int) -> None:
        """Free bytes, and join them with the holes beside them."""
        if (before := self.ends.get(offset)) is not None:
            size += self.remove(before)
            offset = before
        if offset + size in self.starts:
            size += self.remove(offset + size)
        self.starts[offset] = size
        self.ends[offset + size] = offset
        insort(self.by_size, (size, offset))

    def remove(self, offset: int) -> int:
        """Remove a hole; returns its size."""
        size = self.starts.pop(offset)
        del self.ends[offset + size]
        del self.by_size[bisect_left(self.by_size, (size, offset))]
        return size

    def take(self, size: int) -> int:
        """The offset of `size` bytes in the smallest hole that is large enough, else at the top,
        from the hole that ends there if there is one."""
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


def scan(problem: PackingProblem) -> Packing:
    """Buffers by their start, best fit."""
    offsets = [0] * len(problem.sizes)
    holes = Holes()
    live: list[tuple[int, int]] = []
    order = sorted(range(len(offsets)), key=lambda i: (problem.starts[i], -problem.sizes[i]))
    for i in order:
        if not (size := problem.sizes[i]):
            continue
        while live and live[0][0] < problem.starts[i]:
            _, j = heappop(live)
            holes.add(offsets[j], problem.sizes[j])
        offsets[i] = holes.take(size)
        heappush(live, (problem.ends[i], i))
    return Packing(offsets, holes.top, "scan")


# ---- greedy by an order ----------------------------------------------------------------------


def greedy(
    problem: PackingProblem,
    neighbours: Sequence[Sequence[int]],
    order: Iterable[int],
    place: Callable[[list[tuple[int, int]], int], int],
) -> list[int]:
    """Place buffers one by one. `place` returns an offset for a size beside spans of bytes."""
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


def _by(key: Callable[[PackingProblem, int], int]) -> Callable[[PackingProblem], list[int]]:
    """An order in which larger keys come first, then earlier starts."""

    def order(p: PackingProblem) -> list[int]:
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


Orderings = dict[Operation, list[Operation]]
"""Task -> earlier tasks of its block that it has to wait for."""


def problem_in_order(liveness: Liveness, alignment: int) -> PackingProblem:
    """The packing problem where buffers conflict by program order."""
    buffers = liveness.buffers
    sizes = [align_up(b.bytes, alignment) for b in buffers]
    return intervals(sizes, [b.start for b in buffers], [b.end for b in buffers])


def problem_of(liveness: Liveness, alignment: int) -> PackingProblem:
    """The packing problem where buffers conflict by happens-before; its lower bound is that of
    program order."""
    in_order = problem_in_order(liveness, alignment)
    starts, ends = in_order.starts, list(in_order.ends)
    groups, conflicts = liveness.groups(), liveness.conflicts()
    for i, ranges in enumerate(conflicts):
        for group, range_ in zip(groups, ranges, strict=True):
            if range_:
                ends[i] = max(ends[i], starts[group[range_[-1]]])
    neighbours = None
    if sum(len(r) for ranges in conflicts for r in ranges) <= MOST_CONFLICTS:
        neighbours = _neighbours(groups, conflicts)
    return PackingProblem(in_order.sizes, starts, ends, in_order.lower_bound, neighbours)


def _neighbours(groups: list[list[int]], conflicts: list[list[range]]) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in conflicts]
    for i, ranges in enumerate(conflicts):
        for group, range_ in zip(groups, ranges, strict=True):
            for k in range_:
                result[i].append(group[k])
                result[group[k]].append(i)
    return result


def orderings(liveness: Liveness, sizes: Sequence[int], offsets: Sequence[int]) -> Orderings:
    """The tasks that have to wait so that a packing of `problem_in_order` is safe in every run: a
    buffer waits for those that had its bytes last; these waited for the ones before."""
    result: Orderings = {}
    owners = ByteOwners()
    for i, life in enumerate(liveness.buffers):
        for j in owners.replace(offsets[i], offsets[i] + sizes[i], i):
            other = liveness.buffers[j]
            if not other.is_over(life.before):
                for task in life.first_tasks.values():
                    result.setdefault(task, []).extend(other.last_tasks.values())
    return result


@dataclass(slots=True)
class ByteOwners:
    """The buffer that had each byte last: spans that do not overlap, by their first byte."""

    lows: list[int] = field(default_factory=list[int])
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """End, buffer."""

    def replace(self, low: int, high: int, buffer: int) -> list[int]:
        """Give bytes to a buffer; returns the buffers that had them."""
        if low == high:
            return []
        first = bisect_left(self.lows, low)
        if first and self.spans[first - 1][0] > low:
            first -= 1
        last = bisect_left(self.lows, high)
        lows, spans = self.lows[first:last], self.spans[first:last]
        new = [(low, (high, buffer))]
        if lows and lows[0] < low:
            new.insert(0, (lows[0], (low, spans[0][1])))
        if spans and spans[-1][0] > high:
            new.append((high, spans[-1]))
        self.lows[first:last] = [start for start, _ in new]
        self.spans[first:last] = [span for _, span in new]
        return list(dict.fromkeys(owner for _, owner in spans))


def streams_of(func: FuncOp) -> int:
    """The number of streams of a function. Raises GeError where it states none."""
    if (streams := figure(func, "streams")) is None:
        raise error_at(func, "@main has no streams", "run assign-streams first")
    return streams


def is_arena_slot(op: Operation) -> bool:
    return isinstance(op, SlotOp) and op.segment.data == "arena"


def lives_of_slots(func: FuncOp) -> Liveness:
    def shares(op: Operation) -> bool:
        return is_arena_slot(op) and PINNED not in op.attributes

    return Liveness(func.body.block, streams_of(func), shares)
