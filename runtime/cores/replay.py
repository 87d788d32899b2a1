"""The queues of one block: a cube core with the vector cores beside it, or one of them.

A pipe runs its records in order, one at a time; pipes wait for each other at flags and at fifos.
Every flag and every end of a fifo belongs to one pipe, so what comes when does not depend on the
order in which the pipes are simulated (a Kahn network): each one runs until it has to wait.

    start of a record  = the end of the one before it in its pipe, but not before
        wait           its flag was set the same number of times, plus `flag_cycles`
        push           there is a free place in the fifo, plus `cross_flag_cycles`
        pop            there is a tile in it, plus `cross_flag_cycles`
        barrier        all pipes of the block have come to it, and all other cores, plus two
                       `cross_flag_cycles`: to one core that counts them, and back (an assumption)

All records are in the queues from the beginning: that the scalar unit takes time to issue them is
not modelled, nor that queues are of finite length.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

RUN, SET, WAIT, PUSH, POP, MEET = range(6)


class Record(NamedTuple):
    """What instructions of one op have in common that last equally long."""

    kind: int
    pipe: int
    channel: int  # a flag or fifo, or the barriers
    op: int  # number of the op among those of the kernel
    sizes: tuple[int, ...]  # of its box, as far as that lies in the memref, or of what a fifo takes


class Latencies(NamedTuple):
    """In cycles: from setting a flag to the end of the wait, in one core and across cores."""

    flag: float
    cross: float

    @property
    def barrier(self) -> float:
        return 2 * self.cross


class QueuePosition(NamedTuple):
    """A record in a queue: which pipe, and how many are before it."""

    pipe: int
    number: int


class Stuck(Exception):
    """No pipe can go on; `heads` are the records that the pipes wait at."""

    def __init__(self, heads: Sequence[QueuePosition]) -> None:
        super().__init__(heads)
        self.heads = heads


class BadFlag(Exception):
    """A flag is set again before the wait, or it is still set, or a fifo not empty, at the end."""

    def __init__(self, channel: int, left: bool) -> None:
        super().__init__(channel, left)
        self.channel, self.left = channel, left


class RecordRun(NamedTuple):
    """That a record ran, in cycles."""

    end: float
    start: float
    pipe: int
    number: int  # in its queue


@dataclass(slots=True)
class Simulation:
    """In cycles, by pipe."""

    ends: list[float]
    waited: list[dict[int, float]]  # by channel; ~channel where the fifo was full
    met: list[float] = field(default_factory=list[float])  # when all pipes had come to barriers
    steps: list[RecordRun] = field(default_factory=list[RecordRun])  # where they are asked for

    @property
    def cycles(self) -> float:
        return max(self.ends, default=0.0)

    def busy(self, pipe: int) -> float:
        return self.ends[pipe] - sum(self.waited[pipe].values())


@dataclass(slots=True)
class Replay:
    """Queues that run, and when sets, pushes, waits and pops of each channel ended."""

    queues: Sequence[Sequence[int]]
    table: Sequence[tuple[int, float, int]]  # kind, cycles and channel of each record
    depths: Mapping[int, int]
    latencies: Latencies
    keep_steps: bool
    simulation: Simulation
    heads: list[int]
    given: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    # a channel, or ~channel for a place in a fifo -> the pipe
    sleeping: dict[int, int] = field(default_factory=dict[int, int])

    def until(self, ends: Sequence[int]) -> bool:
        """Run each queue up to a number of records, or as far as it comes; whether all come so far.
        May be called again with later ends."""
        heads, asleep = self.heads, set(self.sleeping.values())
        numbers = zip(heads, ends, strict=True)
        ready = deque(p for p, (n, end) in enumerate(numbers) if n < end and p not in asleep)
        while ready:
            pipe = ready.popleft()
            self._run(pipe, ends[pipe], ready)
        return all(n >= end for n, end in zip(heads, ends, strict=True))

    def _run(self, pipe: int, end: int, ready: deque[int]) -> None:
        """Run a queue until it has to wait."""
        simulation, given, taken, sleeping = self.simulation, self.given, self.taken, self.sleeping
        table, depths, (flag, cross) = self.table, self.depths, self.latencies
        queue, time, waited = self.queues[pipe], simulation.ends[pipe], simulation.waited[pipe]
        number, steps = self.heads[pipe], simulation.steps
        while number < end:
            kind, duration, channel = table[queue[number]]
            if kind != RUN:
                if kind == MEET:
                    break
                if kind == SET:
                    given[channel].append(time)
                else:
                    if kind == PUSH:
                        source, index = taken[channel], len(given[channel]) - depths[channel]
                        awaited, latency = ~channel, cross
                    else:
                        source, index = given[channel], len(taken[channel])
                        awaited, latency = channel, flag if kind == WAIT else cross
                    if index >= len(source):
                        sleeping[awaited] = pipe
                        break
                    if index >= 0 and (begin := source[index] + latency) > time:
                        waited[awaited] += begin - time
                        time = begin
                    (given if kind == PUSH else taken)[channel].append(time + duration)
                other = ~channel if kind == POP else channel
                if other in sleeping:
                    ready.append(sleeping.pop(other))
            if self.keep_steps:
                steps.append(RecordRun(time + duration, time, pipe, number))
            time += duration
            number += 1
        self.heads[pipe], simulation.ends[pipe] = number, time

    def meet(self, released: Sequence[float]) -> bool:
        """Take all queues past a barrier, if all have come to one."""
        heads, simulation = self.heads, self.simulation
        if not all_meet(self.queues, heads, lambda number: self.table[number][0]):
            return False
        come = max(simulation.ends)
        end = released[len(simulation.met)] if released else come + self.latencies.barrier
        simulation.met.append(come)
        for pipe, number in past_barrier(self.queues, heads):
            channel = self.table[self.queues[pipe][number]][2]
            simulation.waited[pipe][channel] += end - simulation.ends[pipe]
            simulation.ends[pipe] = end
            if self.keep_steps:
                simulation.steps.append(RecordRun(end, end, pipe, number))
        return True


def all_meet(
    queues: Sequence[Sequence[int]], heads: Sequence[int], kind: Callable[[int], int]
) -> bool:
    """Whether all queues that have records have come to a barrier."""
    here = [(queue, n) for queue, n in zip(queues, heads, strict=True) if queue]
    return bool(here) and all(n < len(queue) and kind(queue[n]) == MEET for queue, n in here)


def past_barrier(queues: Sequence[Sequence[int]], heads: list[int]) -> Iterator[QueuePosition]:
    """The barrier in each queue; goes on behind it."""
    for pipe, queue in enumerate(queues):
        if queue:
            heads[pipe] += 1
            yield QueuePosition(pipe, heads[pipe] - 1)
