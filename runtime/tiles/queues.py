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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

RUN, SET, WAIT, PUSH, POP, MEET = range(6)

CHANGE = 1 / 32  # how often a random order of pipes is another one


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


class Place(NamedTuple):
    """A record in a queue: which pipe, and how many are before it."""

    pipe: int
    number: int


class Stuck(Exception):
    """No pipe can go on; `heads` are the records that the pipes wait at."""

    def __init__(self, heads: Sequence[Place]) -> None:
        super().__init__(heads)
        self.heads = heads


class BadFlag(Exception):
    """A flag is set again before the wait, or it is still set, or a fifo not empty, at the end."""

    def __init__(self, channel: int, left: bool) -> None:
        super().__init__(channel, left)
        self.channel, self.left = channel, left


class Step(NamedTuple):
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
    steps: list[Step] = field(default_factory=list[Step])  # where they are asked for

    @property
    def cycles(self) -> float:
        return max(self.ends, default=0.0)

    def busy(self, pipe: int) -> float:
        return self.ends[pipe] - sum(self.waited[pipe].values())


def simulate(
    queues: Sequence[Sequence[int]],
    records: Sequence[Record],
    cycles: Sequence[float],
    depths: Mapping[int, int],
    latencies: Latencies,
    keep_steps: bool = False,
    released: Sequence[float] = (),
) -> Simulation:
    """Run the queues of numbers of `records`, which take so many `cycles`; `depths` are those of
    the fifos. With `keep_steps` the steps too, in an order in which what was waited for comes
    first. `released`: when each barrier lets the pipes go on; without it, as if there were no other
    cores. Raises Stuck, and BadFlag."""
    simulation = Simulation([0.0] * len(queues), [defaultdict(float) for _ in queues])
    ends, steps, (flag, cross) = simulation.ends, simulation.steps, latencies
    heads = [0] * len(queues)
    given: dict[int, list[float]] = defaultdict(list)  # when sets and pushes ended
    taken: dict[int, list[float]] = defaultdict(list)  # when waits and pops ended
    sleeping: dict[int, int] = {}  # a channel, or ~channel for a place in a fifo -> the pipe
    ready = deque(pipe for pipe, queue in enumerate(queues) if queue)
    table = [(r.kind, c, r.channel) for r, c in zip(records, cycles, strict=True)]
    while ready:
        pipe = ready.popleft()
        queue, time, waited = queues[pipe], ends[pipe], simulation.waited[pipe]
        number = heads[pipe]
        while number < len(queue):
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
            if keep_steps:
                steps.append(Step(time + duration, time, pipe, number))
            time += duration
            number += 1
        heads[pipe], ends[pipe] = number, time
        if not ready and _all_meet(queues, records, heads):
            _meet(queues, records, heads, simulation, released, latencies.barrier, keep_steps)
            ready.extend(filter(queues.__getitem__, range(len(queues))))
    _check_end(queues, heads)
    _check_flags(given, taken, depths)
    return simulation


def _check_flags(
    given: Mapping[int, list[float]], taken: Mapping[int, list[float]], depths: Mapping[int, int]
) -> None:
    for channel, times in given.items():
        waits = taken[channel]
        if channel not in depths and any(t < w for t, w in zip(times[1:], waits, strict=False)):
            raise BadFlag(channel, left=False)
        if len(times) > len(waits):
            raise BadFlag(channel, left=True)


def _all_meet(
    queues: Sequence[Sequence[int]], records: Sequence[Record], heads: Sequence[int]
) -> bool:
    """Whether all pipes have come to a barrier."""
    here = [(queue, n) for queue, n in zip(queues, heads, strict=True) if queue]
    return all(n < len(queue) and records[queue[n]].kind == MEET for queue, n in here)


def _meet(
    queues: Sequence[Sequence[int]],
    records: Sequence[Record],
    heads: list[int],
    simulation: Simulation,
    released: Sequence[float],
    latency: float,
    keep_steps: bool,
) -> None:
    """Take all pipes past the barrier that they have come to."""
    come = max(simulation.ends)
    end = released[len(simulation.met)] if released else come + latency
    simulation.met.append(come)
    for pipe, queue in enumerate(queues):
        if queue:
            channel = records[queue[heads[pipe]]].channel
            simulation.waited[pipe][channel] += end - simulation.ends[pipe]
            simulation.ends[pipe] = end
            if keep_steps:
                simulation.steps.append(Step(end, end, pipe, heads[pipe]))
            heads[pipe] += 1


def meetings(alone: Sequence[Sequence[float]], latency: float) -> list[float]:
    """When barriers let all cores go on, of the times at which each of these comes to them, when it
    goes on without the others."""
    released: list[float] = []
    for number in range(len(alone[0]) if alone else 0):
        begins = [met[number - 1] + latency if number else 0.0 for met in alone]
        longest = max(met[number] - begin for met, begin in zip(alone, begins, strict=True))
        released.append((released[-1] if released else 0.0) + longest + latency)
    return released


def _check_end(queues: Sequence[Sequence[int]], heads: Sequence[int]) -> None:
    stuck = [Place(p, n) for p, n in enumerate(heads) if n < len(queues[p])]
    if stuck:
        raise Stuck(stuck)


def by_time(simulation: Simulation) -> Iterable[Place]:
    """The records in the order in which they end."""
    return (Place(s.pipe, s.number) for s in sorted(simulation.steps, key=lambda s: s.end))


def random_order(
    queues: Sequence[Sequence[int]],
    records: Sequence[Record],
    depths: Mapping[int, int],
    random: Random,
) -> Generator[Place]:
    """The records in an order that the pipes allow. The first of some order of the pipes that can
    run does; the order changes now and then: so each pipe is far ahead of another one in half of
    the runs (PCT: Burckhardt et al., ASPLOS 2010). Raises Stuck, and BadFlag."""
    heads = [0] * len(queues)
    full: dict[int, int] = defaultdict(int)  # flags that are set, tiles that are in fifos

    def can_run(pipe: int) -> bool:
        if heads[pipe] == len(queues[pipe]):
            return False
        record = records[queues[pipe][heads[pipe]]]
        if record.kind in (WAIT, POP):
            return full[record.channel] > 0
        if record.kind == MEET:
            return False
        return record.kind != PUSH or full[record.channel] < depths[record.channel]

    order = random.sample(range(len(queues)), len(queues))
    while True:
        if (pipe := next(filter(can_run, order), None)) is None:
            if not _all_meet(queues, records, heads) or not any(queues):
                break
            yield from _past_barrier(queues, heads)
            continue
        record = records[queues[pipe][heads[pipe]]]
        if record.kind == SET and full[record.channel]:
            raise BadFlag(record.channel, left=False)
        if record.kind != RUN:
            full[record.channel] += 1 if record.kind in (SET, PUSH) else -1
        yield Place(pipe, heads[pipe])
        heads[pipe] += 1
        if random.random() < CHANGE:
            random.shuffle(order)
    _check_end(queues, heads)
    for channel, count in full.items():
        if count:
            raise BadFlag(channel, left=True)


def _past_barrier(queues: Sequence[Sequence[int]], heads: list[int]) -> Iterator[Place]:
    for pipe, queue in enumerate(queues):
        if queue:
            yield Place(pipe, heads[pipe])
            heads[pipe] += 1
