"""Happens-before of tasks on streams, by vector clocks (Fidge, "Timestamps in message-passing
systems that preserve the partial ordering", 1988): how many tasks of each stream are done, in every
run, before the next one of a stream starts."""

from collections.abc import Sequence

Clock = Sequence[int]


class HappensBefore:
    """The clocks of streams while tasks are issued to them. Barriers count as a task of each."""

    def __init__(self, streams: int) -> None:
        self.issued = [0] * streams
        self.clocks = [[0] * streams for _ in range(streams)]

    def issue(self, stream: int) -> int:
        """Issue a task: it is the `n`-th of its stream. What the stream's clock says then is what
        is done when the task is."""
        self.issued[stream] += 1
        self.clocks[stream][stream] = self.issued[stream]
        return self.issued[stream]

    def clock(self, stream: int) -> list[int]:
        """A copy of a stream's clock."""
        return list(self.clocks[stream])

    def wait(self, stream: int, done: Clock) -> None:
        """What is issued next to the stream starts when all that a clock covers is done."""
        self.clocks[stream] = [max(p) for p in zip(self.clocks[stream], done, strict=True)]

    def barrier(self) -> Clock:
        """All streams wait for each other. Returns how many tasks there were before."""
        before = tuple(self.issued)
        self.issued = [n + 1 for n in self.issued]
        self.clocks = [list(self.issued) for _ in self.issued]
        return before
