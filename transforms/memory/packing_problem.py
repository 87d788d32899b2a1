"""The packing problem of lifetimes, and the tasks that have to wait where buffers share bytes in
program order alone."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from ge.dialects.support.types import align_up
from ge.transforms.analysis.liveness import Liveness
from ge.transforms.memory.packing import MOST_CONFLICTS, PackingProblem, intervals

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
    """Which buffer had each byte last: spans that do not overlap, by their first byte."""

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
