"""Remedies for a program that exceeds its memory limit, the cheap ones first, until the arena fits.

- order: reorder the launches for memory (or keep the program's order where they were reordered);
- fuse: fuse regions for memory;
- recompute: recompute values, those first that cost the least time for their bytes;
- spill: move buffers to host memory and back.

A remedy that helps stays, the next ones come on top of it. A plan may be larger than its peak of
live bytes, so a remedy may be asked for more than the limit says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ge.transforms.memory.check_capacity import OverLimitError

SLOWER = 1.2  # how many times as long a program may take for recomputation at memory level 3

RETRIES = 3  # how often a remedy is asked for more, where the plan that it leads to has gaps


@dataclass(frozen=True)
class Remedies:
    """Remedies for a program that exceeds the limit. In bytes: `limit` of the arena, and what may
    be alive at one time after `recompute` and after `spill`; 0: nothing is done."""

    limit: int = 0
    # Whether the launches have the other order: chosen for memory below memory level 2, that
    # of the program from there on
    order: bool = False
    fuse: bool = False
    recompute: int = 0
    spill: int = 0
    # How many times as long the launches may take at memory level 3, one after the other, for
    # what is computed again; 1: nothing is
    slower: float = SLOWER
    elementwise: bool = True  # whether elementwise values are computed again before fusion, too

    @property
    def any(self) -> bool:
        """Return whether the program needed a remedy to fit."""
        return self.order or self.fuse or bool(self.recompute or self.spill)


@dataclass(frozen=True)
class TriedRemedy:
    """A remedy, the bytes that the arena has without and with it, and whether it stayed."""

    remedy: str
    arena_bytes: int
    saved_bytes: int
    applied: bool

    def __str__(self) -> str:
        saved = f"saves {self.saved_bytes} bytes" if self.saved_bytes > 0 else "saves nothing"
        return f"{self.remedy}: {WHAT[self.remedy]} {saved}"


# Each remedy in words, in the order in which they are tried
WHAT = {
    "order": "another order of the launches",
    "fuse": "fusion for memory",
    "recompute": "computing values again",
    "spill": "host memory for buffers",
}

IN_BYTES = ("recompute", "spill")  # those that do as much as it takes

# Makes the program anew; the bytes of its arena. Raises OverLimitError.
Attempt = Callable[[Remedies], int]


def find_fit(
    first: OverLimitError, remedies: Remedies, names: Sequence[str], attempt: Attempt
) -> list[TriedRemedy]:
    """Try the remedies called `names` until the program fits, after it failed with `first`. The
    last attempt is the one that fits. Raises OverLimitError, which tells what each of them would
    have saved, when none does."""
    best, attempts = first, list[TriedRemedy]()
    for name in names if first.limit >= 0 else ():
        candidate, outcome = apply(name, remedies, first.limit, attempt)
        arena = outcome.arena if isinstance(outcome, OverLimitError) else outcome
        helps = arena < best.arena
        attempts.append(TriedRemedy(name, arena, best.arena - arena, helps))
        if not isinstance(outcome, OverLimitError):
            return attempts
        if helps:
            best, remedies = outcome, candidate
    if attempts:
        if best is not first:
            best.message = f"{first.message}; with all that helps it needs {best.arena}"
        best.notes += tuple(str(t) for t in attempts)
    raise best


def apply(
    name: str, remedies: Remedies, limit: int, attempt: Attempt
) -> tuple[Remedies, OverLimitError | int]:
    """Try a remedy on top of others: what was done, and the bytes or the error of the best
    attempt."""
    best: tuple[Remedies, OverLimitError] | None = None
    in_bytes = name in IN_BYTES
    goal = limit
    for _ in range(RETRIES if in_bytes else 1):
        candidate = replace(remedies, **{name: max(goal, 1) if in_bytes else True})
        try:
            return candidate, attempt(candidate)
        except OverLimitError as e:
            if best is None or e.arena < best[1].arena:
                best = candidate, e
            goal -= e.arena - limit
            if goal <= 0 or e.lower_bound > limit:
                break
    assert best is not None
    return best
