"""Steps of the outermost loops of a core's program: those that issue the same are issued once."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import add
from typing import Any, NamedTuple

from ge.runtime.cores.rounds import END, LoopRound


class LoopStep(NamedTuple):
    """What a step of an outermost loop issued."""

    kind: tuple[int, int]  # the loop's number, and which of its different steps
    parts: tuple[tuple[int, tuple[int, ...]], ...]  # pipes and their records
    counts: tuple[int, ...]  # of each pipe's records


@dataclass(slots=True)
class Trace:
    """The steps of the outermost loops of a program, on one core."""

    first: tuple[int, ...] = ()  # records of each pipe before them
    steps: list[LoopStep] = field(default_factory=list["LoopStep"])

    def key(self, queues: list[list[int]]) -> Hashable:
        """What tells issues apart: the steps, and all records that are in none."""
        if len({step.kind[0] for step in self.steps}) != 1:
            return tuple(map(tuple, queues))
        counts = map(sum, zip(*(step.counts for step in self.steps), strict=True))
        cuts = zip(queues, self.first, counts, strict=True)
        others = tuple((*queue[:n], -1, *queue[n + count :]) for queue, n, count in cuts)
        return tuple(step.kind for step in self.steps), others

    def rounds(self) -> list[LoopRound]:
        """And where the last one ends; none, if there are several loops."""
        if len({step.kind[0] for step in self.steps}) != 1:
            return []
        heads, found = self.first, list[LoopRound]()
        for step in self.steps:
            found.append(LoopRound(step.kind, heads))
            heads = tuple(map(add, heads, step.counts))
        return [*found, LoopRound(END, heads)]


@dataclass(slots=True)
class LoopSteps:
    """What the steps of an outermost loop issue, by their keys (`signature.py`)."""

    loop: int
    known: dict[Any, LoopStep] = field(default_factory=dict[Any, "LoopStep"])
    kinds: dict[Any, int] = field(default_factory=dict[Any, int])

    def replay(self, queues: list[list[int]], trace: Trace, key: Any) -> bool:
        """Issue the records of a step, if they are known."""
        if not trace.steps:
            trace.first = tuple(map(len, queues))
        step = self.known.get(key)
        if step is None:
            return False
        trace.steps.append(step)
        for pipe, part in step.parts:
            queues[pipe].extend(part)
        return True

    def keep(self, queues: list[list[int]], heads: list[int], trace: Trace, key: Any) -> None:
        """Of a step that was issued behind `heads`."""
        numbered = enumerate(zip(queues, heads, strict=True))
        parts = tuple((p, tuple(queue[n:])) for p, (queue, n) in numbered if len(queue) > n)
        counts = tuple(len(queue) - n for queue, n in zip(queues, heads, strict=True))
        step = LoopStep((self.loop, self.kinds.setdefault(parts, len(self.kinds))), parts, counts)
        trace.steps.append(step)
        if key is not None:
            self.known[key] = step
