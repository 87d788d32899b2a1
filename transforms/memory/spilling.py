"""Which buffers leave device memory, and when, so that a program stays below a limit. Nothing here
changes a program.

Steps are tasks in program order. A buffer that no step needs between two of its uses may be away
then: it is copied to the host after the first one and back before the second one. Steps over the
limit are looked at in order; there the buffer goes whose bytes stay free for the longest: those
that are missing, times the steps up to its next use (for equal sizes the farthest next use first,
which is best: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ge.transforms.analysis.live_profile import LiveProfile

Profile = np.ndarray[tuple[int], np.dtype[np.int64]]
"""Bytes for each step."""

LEAD = 32
"""Steps that a copy back may come before the use that it is for."""


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer of the arena."""

    bytes: int
    uses: list[int] = field(default_factory=list[int])
    """The steps that read or write it, in order, each once."""
    writes: list[int] = field(default_factory=list[int])
    """Those that write it."""
    whole: int = -1
    """The first step that writes all of it; -1: none."""

    def is_written(self, step: int) -> bool:
        """Whether all that is ever written has its value after a step: a copy of it is one of
        values only."""
        return 0 <= self.whole <= step or not self.writes or self.writes[-1] <= step


@dataclass(slots=True, eq=False)
class Gap:
    """A buffer is away from after step `use` until `load`, for step `next`."""

    buffer: int
    use: int
    next: int
    load: int


def live_bytes(buffers: Sequence[Buffer], inside: Sequence[int]) -> Profile:
    """The bytes live at each step; `inside` are those that a step needs for itself alone."""
    lives = ((b.bytes, b.uses[0], b.uses[-1]) for b in buffers if b.uses)
    return np.array(LiveProfile.of(lives, len(inside)).bytes, np.int64) + np.array(inside, np.int64)


def gaps_of(buffers: Sequence[Buffer]) -> list[Gap]:
    """Where buffers could be away, by their first step."""
    found = [
        Gap(i, use, after, after)
        for i, b in enumerate(buffers)
        for use, after in zip(b.uses, b.uses[1:], strict=False)
        if after - use > 1 and b.bytes and b.is_written(use)
    ]
    return sorted(found, key=lambda g: g.use)


def choose(buffers: Sequence[Buffer], inside: Sequence[int], limit: int) -> tuple[list[Gap], int]:
    """The gaps in which buffers are away so that no step has more than `limit` bytes live, or as
    near to it as that gets, and the most bytes that are live then."""
    bytes_live = live_bytes(buffers, inside)
    waiting = gaps_of(buffers)[::-1]
    open_gaps: list[Gap] = []
    chosen: list[Gap] = []
    for step in range(len(inside)):
        open_gaps = [g for g in open_gaps if g.next > step]
        while waiting and waiting[-1].use < step:
            if (gap := waiting.pop()).next > step:
                open_gaps.append(gap)
        while open_gaps and (missing := int(bytes_live[step]) - limit) > 0:
            best = max(
                open_gaps, key=lambda g: min(missing, buffers[g.buffer].bytes) * (g.next - step)
            )
            open_gaps.remove(best)
            bytes_live[best.use + 1 : best.next] -= buffers[best.buffer].bytes
            chosen.append(best)
    kept = _needed(buffers, chosen, bytes_live, limit)
    return kept, int(bytes_live.max(initial=0))


def _needed(
    buffers: Sequence[Buffer],
    chosen: Sequence[Gap],
    bytes_live: Profile,
    limit: int,
) -> list[Gap]:
    """The gaps without those that the others made needless, the copies back as early as memory
    allows: they run beside the steps before."""
    kept: list[Gap] = []
    for gap in sorted(chosen, key=lambda g: g.next):
        size = buffers[gap.buffer].bytes
        if int(bytes_live[gap.use + 1 : gap.next].max(initial=0)) + size <= limit:
            bytes_live[gap.use + 1 : gap.next] += size
        else:
            kept.append(gap)
    for gap in kept:
        size = buffers[gap.buffer].bytes
        earliest = max(gap.use + 2, gap.next - LEAD)
        while gap.load > earliest and int(bytes_live[gap.load - 1]) + size <= limit:
            gap.load -= 1
            bytes_live[gap.load] += size
    return sorted(kept, key=lambda g: (g.buffer, g.use))
