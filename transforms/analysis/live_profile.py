"""How many bytes are live at each step of an order, and when the most are."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

Life = tuple[int, int, int]
"""Bytes of a buffer, its first and its last step, both included. A buffer whose last step is
before its first one is never live."""


@dataclass(slots=True)
class LiveProfile:
    """The bytes live at each step, and the most of them."""

    bytes: list[int]
    peak: int

    @classmethod
    def of(cls, lives: Iterable[Life], steps: int) -> "LiveProfile":
        """The profile of buffers over so many steps."""
        change = [0] * (steps + 1)
        for size, first, last in lives:
            change[first] += size
            change[last + 1] -= size
        live = list(accumulate(change[:-1]))
        return cls(live, max(live, default=0))

    @property
    def peak_step(self) -> int:
        """The first step at which the most bytes are live."""
        return self.bytes.index(self.peak) if self.bytes else 0

    def reserve(self, first: int, end: int, extra: int) -> bool:
        """Have `extra` more bytes live from step `first` up to `end`, unless the peak would rise;
        returns whether it was done."""
        if max(self.bytes[first:end], default=0) + extra > self.peak:
            return False
        for step in range(first, end):
            self.bytes[step] += extra
        return True
