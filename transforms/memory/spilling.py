"""Which buffers leave device memory, and when, so that a program stays below a limit. Nothing here
changes a program.

A task graph in program order says when buffers are used. Between two uses a buffer may be away: it
is copied to the host after the first one and back before the second one. Tasks over the limit are
visited in order; at each the buffer leaves that frees the most bytes for the longest: the missing
bytes times the tasks up to its next use (for equal sizes the farthest next use first, which is
optimal: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ge.transforms.analysis.task_graph import TaskGraph

Bytes = np.ndarray[tuple[int], np.dtype[np.int64]]

LEAD = 32
"""Tasks between a copy back and the use that it is for, at most."""


@dataclass
class SpillProblem:
    """The tasks of a block and the buffers of the arena that may leave it."""

    graph: TaskGraph
    inside: Sequence[int]
    """Of each task the bytes live at one time that are allocated inside of it."""
    writes: list[list[int]] = field(init=False)
    """Of each buffer the tasks that write it."""
    defined: list[int] = field(init=False)
    """Of each buffer the first task after which none of its undefined bytes is written any more: a
    copy before would copy them."""

    def __post_init__(self) -> None:
        self.writes = [[] for _ in self.graph.bytes]
        self.defined = [-1] * len(self.graph.bytes)

    def live_bytes(self) -> Bytes:
        """The bytes live at each task."""
        live = self.graph.live(range(len(self.graph))).bytes
        return np.array(live, np.int64) + np.array(self.inside, np.int64)

    def peak(self) -> int:
        return int(self.live_bytes().max(initial=0))


@dataclass(slots=True, eq=False)
class Absence:
    """A buffer is away from after task `use` until `load`, for task `next`."""

    buffer: int
    use: int
    next: int
    load: int


def possible_absences(problem: SpillProblem) -> list[Absence]:
    """Where buffers could be away, by their first task."""
    graph = problem.graph
    absences = [
        Absence(b, use, after, after)
        for b, size in enumerate(graph.bytes)
        for use, after in pairwise((graph.writer[b], *graph.readers[b]))
        if after - use > 1 and size and problem.defined[b] <= use
    ]
    return sorted(absences, key=lambda a: a.use)


def choose(problem: SpillProblem, limit: int) -> tuple[list[Absence], int]:
    """The absences with which no task has more than `limit` bytes live, or as near to it as that
    gets, and the most bytes that are live then."""
    size, bytes_live = problem.graph.bytes, problem.live_bytes()
    waiting = possible_absences(problem)[::-1]
    possible: list[Absence] = []
    chosen: list[Absence] = []
    for task in range(len(bytes_live)):
        possible = [a for a in possible if a.next > task]
        while waiting and waiting[-1].use < task:
            if (absence := waiting.pop()).next > task:
                possible.append(absence)
        while possible and (missing := int(bytes_live[task]) - limit) > 0:
            best = max(possible, key=lambda a: min(missing, size[a.buffer]) * (a.next - task))
            possible.remove(best)
            bytes_live[best.use + 1 : best.next] -= size[best.buffer]
            chosen.append(best)
    needed = _needed(size, chosen, bytes_live, limit)
    return needed, int(bytes_live.max(initial=0))


def _needed(
    size: Sequence[int], chosen: Sequence[Absence], bytes_live: Bytes, limit: int
) -> list[Absence]:
    """The absences without those that the others made needless, the copies back as early as memory
    allows: they run beside the tasks before."""
    needed: list[Absence] = []
    for absence in sorted(chosen, key=lambda a: a.next):
        away = bytes_live[absence.use + 1 : absence.next]
        if int(away.max(initial=0)) + size[absence.buffer] <= limit:
            away += size[absence.buffer]
        else:
            needed.append(absence)
    for absence in needed:
        earliest = max(absence.use + 2, absence.next - LEAD)
        bytes_ = size[absence.buffer]
        while absence.load > earliest and int(bytes_live[absence.load - 1]) + bytes_ <= limit:
            absence.load -= 1
            bytes_live[absence.load] += bytes_
    return sorted(needed, key=lambda a: (a.buffer, a.use))
