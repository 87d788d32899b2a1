"""Who wrote and who read each byte of a core's memories last, for the proof of a tile program.

Bytes are kept in grains: the largest stretches of which every access takes all or nothing. For each
grain stand the number of the last write and of the last read by each pipe, so that an access is
ordered after them when its vector clock has reached those numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ge.runtime.check.tile_program import Bytes

Span: TypeAlias = "slice[int, int, None]"
Grains: TypeAlias = "Span | NDArray[np.int64]"
Clock: TypeAlias = NDArray[np.int64]

UNWRITTEN, LEFT = -1, -2  # LEFT: by an earlier load, of a tile that another one did not fill


@dataclass
class History:
    """One memory: `size` grains, `pipes` queues that touch it."""

    size: int
    pipes: int
    written: NDArray[np.int64] = field(init=False)  # [pipe, grain]: the last write by each pipe
    read: NDArray[np.int64] = field(init=False)
    added: NDArray[np.int64] = field(init=False)  # the last sum that each pipe added to it
    owner: NDArray[np.int64] = field(init=False)  # [grain]: whose value the last write was
    loaded: NDArray[np.bool_] = field(init=False)  # [grain]: whether that was a load

    def __post_init__(self) -> None:
        self.written = np.zeros((self.pipes, self.size), np.int64)
        self.read = np.zeros((self.pipes, self.size), np.int64)
        self.added = np.zeros((self.pipes, self.size), np.int64)
        self.owner = np.full(self.size, UNWRITTEN, np.int64)
        self.loaded = np.zeros(self.size, np.bool_)

    def late_writes(self, at: Grains, clock: Clock) -> list[tuple[int, int]]:
        """The writes (pipe, number) that an access with this clock may come before."""
        return _later(self.written[:, at], clock)

    def late_reads(self, at: Grains, clock: Clock) -> list[tuple[int, int]]:
        return _later(self.read[:, at], clock)

    def late_adds(self, at: Grains, clock: Clock) -> list[tuple[int, int]]:
        return _later(self.added[:, at], clock)

    def note_add(self, at: Grains, pipe: int, number: int) -> None:
        self.added[pipe, at] = number

    def note_read(self, at: Grains, pipe: int, number: int) -> None:
        self.read[pipe, at] = number

    def note_write(
        self, at: Grains, pipe: int, number: int, owner: int, is_load: bool = False
    ) -> None:
        self.written[pipe, at] = number
        self.owner[at] = owner
        self.loaded[at] = is_load

    def note_left(self, at: Grains) -> None:
        """A load that is to fill these has less. What another load brought before stands for
        nothing now; what was computed or filled in may have been put there for this."""
        self.owner[at] = np.where(self.loaded[at], LEFT, self.owner[at])


def _later(numbers: NDArray[np.int64], clock: Clock) -> list[tuple[int, int]]:
    if not numbers.shape[1]:
        return []
    last = numbers.max(axis=1)
    late = last > clock
    return [(int(p), int(last[p])) for p in np.flatnonzero(late)] if late.any() else []


@dataclass
class Grid:
    """The grains of one memory."""

    grain: int
    known: dict[Bytes, Grains] = field(default_factory=dict[Bytes, Grains])

    @classmethod
    def of(cls, accesses: Iterable[Bytes]) -> "Grid":
        grain = 0
        for a in accesses:
            grain = gcd(grain, a.low, a.width, a.pitch if a.rows > 1 else 0)
        return cls(max(grain, 1))

    def grains(self, a: Bytes) -> Grains:
        """Which grains an access touches."""
        if (at := self.known.get(a)) is None:
            low, width = a.low // self.grain, a.width // self.grain
            if a.rows <= 1:
                at = slice(low, low + width * a.rows)
            else:
                rows = low + np.arange(a.rows)[:, None] * (a.pitch // self.grain)
                at = (rows + np.arange(width)[None, :]).ravel()
            self.known[a] = at
        return at


def cells(boxes: Sequence[tuple[tuple[int, int], ...]], shape: Sequence[int]) -> list[list[int]]:
    """Along each dimension, the borders at which one of the boxes begins or ends: a box covers each
    cell between two of them whole, or not at all."""
    borders = [{0, d} for d in shape]
    for box in boxes:
        for edges, (low, high) in zip(borders, box, strict=True):
            edges.update((low, high))
    return [sorted(edges) for edges in borders]
