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

Steps of a loop that repeat themselves are run until times do so, too (`run_rounds`).

All records are in the queues from the beginning: that the scalar unit takes time to issue them is
not modelled, nor that queues are of finite length.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeAlias

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


class Round(NamedTuple):
    """One of the steps of the loop that all queues are in."""

    kind: Hashable  # rounds of a kind have the same records
    heads: tuple[int, ...]  # how many records of each queue come before


Rounds: TypeAlias = Sequence[Round]


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
                steps.append(Step(time + duration, time, pipe, number))
            time += duration
            number += 1
        self.heads[pipe], simulation.ends[pipe] = number, time

    def meet(self, released: Sequence[float]) -> bool:
        """Take all queues past a barrier, if all have come to one."""
        heads, simulation = self.heads, self.simulation
        if not _all_meet(self.queues, heads, lambda number: self.table[number][0]):
            return False
        come = max(simulation.ends)
        end = released[len(simulation.met)] if released else come + self.latencies.barrier
        simulation.met.append(come)
        for pipe, number in _past_barrier(self.queues, heads):
            channel = self.table[self.queues[pipe][number]][2]
            simulation.waited[pipe][channel] += end - simulation.ends[pipe]
            simulation.ends[pipe] = end
            if self.keep_steps:
                simulation.steps.append(Step(end, end, pipe, number))
        return True


def simulate(
    queues: Sequence[Sequence[int]],
    records: Sequence[Record],
    cycles: Sequence[float],
    depths: Mapping[int, int],
    latencies: Latencies,
    keep_steps: bool = False,
    rounds: Rounds = (),
    released: Sequence[float] = (),
) -> Simulation:
    """Run the queues of numbers of `records`, which take so many `cycles`; `depths` are those of
    the fifos. With `keep_steps` the steps too, in an order in which what was waited for comes
    first; else what repeats itself in the `rounds` is not run again. `released`: when each barrier
    lets the queues go on; without it, as if no other core were there. Raises Stuck, and BadFlag."""
    simulation = Simulation([0.0] * len(queues), [defaultdict(float) for _ in queues])
    table = [(r.kind, c, r.channel) for r, c in zip(records, cycles, strict=True)]
    heads = [0] * len(queues)
    replay = Replay(queues, table, depths, latencies, keep_steps, simulation, heads)
    if rounds and not keep_steps:
        run_rounds(replay, rounds)
    whole = [len(queue) for queue in queues]
    replay.until(whole)
    while replay.meet(released):
        replay.until(whole)
    _check_end(queues, replay.heads)
    for channel, times in replay.given.items():
        waits = replay.taken[channel]
        if channel not in depths and any(t < w for t, w in zip(times[1:], waits, strict=False)):
            raise BadFlag(channel, left=False)
        if len(times) > len(waits):
            raise BadFlag(channel, left=True)
    return simulation


# ---- steady state ----------------------------------------------------------------------------


def side_by_side(by_unit: Sequence[Rounds]) -> Rounds:
    """The rounds of several units together, each with the steps of one loop; none where a unit has
    another number of steps, or several loops."""
    if len({len(rounds) for rounds in by_unit}) != 1:
        return ()
    together = [
        Round(tuple(r.kind for r in rounds), tuple(n for r in rounds for n in r.heads))
        for rounds in zip(*by_unit, strict=True)
    ]
    return together


LONGEST_PERIOD = 4  # rounds: rings have two tiles, or four
EQUAL_CYCLES = 1e-6  # times that differ by less are taken for the same


@dataclass(frozen=True, slots=True)
class _State:
    """What was between two rounds."""

    ends: list[float]
    waited: list[dict[int, float]]
    given: dict[int, int]  # how many there were, by channel
    taken: dict[int, int]

    @classmethod
    def of(cls, replay: Replay) -> "_State":
        counts = ({c: len(times) for c, times in d.items()} for d in (replay.given, replay.taken))
        simulation = replay.simulation
        return cls(simulation.ends.copy(), [dict(w) for w in simulation.waited], *counts)


def run_rounds(replay: Replay, rounds: Rounds) -> None:
    """Run queues up to the last of the rounds, but once only where they repeat themselves.

    What comes behind a round depends on when each queue ended it, and on the sets and pushes that
    are not taken yet: times are sums and maxima of these and of what is constant. If all of them
    have grown by the same `shift` since some rounds ago, then they do so again as long as the same
    kinds of rounds follow. Queues and channels that these rounds do not touch stay as they are.
    Exact but for rounding: what counts as the same differs by less than `EQUAL_CYCLES`, each time.
    """
    states: list[_State] = []
    number = 0
    while number < len(rounds):
        if not replay.until(rounds[number].heads):  # queues wait for what comes behind: go on
            states.clear()
            number += 1
            continue
        states.append(_State.of(replay))
        for period in range(1, min(LONGEST_PERIOD, len(states) - 1) + 1):
            times = _repetitions(rounds, number, period)
            if not times:
                continue
            before, touched = states[-1 - period], _touched(rounds, number, period)
            shift = _shift(replay, before, touched)
            if shift is not None:
                _repeat(replay, before, touched, times, shift)
                number += times * period
                for pipe in touched:
                    replay.heads[pipe] = rounds[number].heads[pipe]
                states.clear()
                break
        else:
            number += 1


def _repetitions(rounds: Rounds, number: int, period: int) -> int:
    """How often the rounds before `number` follow again, before the last round."""
    count = 0
    last = len(rounds) - 1
    while number + count < last and rounds[number + count].kind == (
        rounds[number - period + count % period].kind
    ):
        count += 1
    return count // period


def _touched(rounds: Rounds, number: int, period: int) -> list[int]:
    """The queues that have records in the rounds before `number`."""
    heads = zip(rounds[number - period].heads, rounds[number].heads, strict=True)
    return [pipe for pipe, (a, b) in enumerate(heads) if a != b]


def _shift(replay: Replay, before: _State, touched: Sequence[int]) -> float | None:
    """The cycles by which all that matters is later than it was, if it is the same for all."""
    ends = replay.simulation.ends
    if not touched:
        return None
    shift = ends[touched[0]] - before.ends[touched[0]]
    later = [ends[pipe] - before.ends[pipe] for pipe in touched]
    for channel, times in replay.given.items():
        taken = replay.taken[channel]
        old = before.given.get(channel, 0), before.taken.get(channel, 0)
        new = len(times), len(taken)
        if old == new:
            continue
        if new[0] - old[0] != new[1] - old[1]:
            return None
        later += (b - a for a, b in zip(times[old[1] : old[0]], times[new[1] :], strict=True))
        if channel in replay.depths:  # places that pushes will wait for
            first = [max(count - replay.depths[channel], 0) for count in (old[0], new[0])]
            places = taken[first[0] : old[1]], taken[first[1] :]
            if len(places[0]) != len(places[1]):
                return None
            later += (b - a for a, b in zip(*places, strict=True))
    return shift if all(abs(each - shift) < EQUAL_CYCLES for each in later) else None


def _repeat(
    replay: Replay, before: _State, touched: Sequence[int], times: int, shift: float
) -> None:
    """What came since then comes again so many times, each time by `shift` later: so are the ends
    of queues, and the sets, pushes and places in fifos that are still to be met."""
    for pipe in touched:
        replay.simulation.ends[pipe] += times * shift
        waited, old = replay.simulation.waited[pipe], before.waited[pipe]
        for channel, cycles in waited.items():
            waited[channel] = cycles + times * (cycles - old.get(channel, 0.0))
    for channel, given in replay.given.items():
        taken = replay.taken[channel]
        if len(given) == before.given.get(channel, 0):
            continue
        places = max(len(given) - replay.depths.get(channel, 0), 0)
        for moments, first in ((given, len(taken)), (taken, places)):
            moments[first:] = [moment + times * shift for moment in moments[first:]]


def meetings(alone: Sequence[Sequence[float]], latency: float) -> list[float]:
    """When barriers let all cores go on, of the times at which each of these comes to them, when it
    goes on without the others."""
    released: list[float] = []
    for number in range(len(alone[0]) if alone else 0):
        begins = [met[number - 1] + latency if number else 0.0 for met in alone]
        longest = max(met[number] - begin for met, begin in zip(alone, begins, strict=True))
        released.append((released[-1] if released else 0.0) + longest + latency)
    return released


def _all_meet(
    queues: Sequence[Sequence[int]], heads: Sequence[int], kind: Callable[[int], int]
) -> bool:
    """Whether all queues that have records have come to a barrier."""
    here = [(queue, n) for queue, n in zip(queues, heads, strict=True) if queue]
    return bool(here) and all(n < len(queue) and kind(queue[n]) == MEET for queue, n in here)


def _past_barrier(queues: Sequence[Sequence[int]], heads: list[int]) -> Iterator[Place]:
    """The barrier in each queue; goes on behind it."""
    for pipe, queue in enumerate(queues):
        if queue:
            heads[pipe] += 1
            yield Place(pipe, heads[pipe] - 1)


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
            if not _all_meet(queues, heads, lambda number: records[number].kind):
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
