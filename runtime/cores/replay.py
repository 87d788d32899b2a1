"""The queues of one block, run to their end: a cube core with the vector cores beside it, or one of
them.

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

Steps of a loop that repeat themselves are simulated once: a step depends on its records and on the
state at which it begins: when each queue of the loop ended the step before, and which sets, pushes
and places in fifos are still to be met. Times are sums and maxima of these and of constants, so
that a step that begins as another one of its kind did, only later, takes what that one took. The
pipes of a loop come to a pace after a few steps, and come back to it in the same way after each
tile that is cut off; facts that are `Known` of one core hold for others, too. So few steps are
simulated, however many there are.

Exact but for rounding: what counts as the same differs by less than `EQUAL_CYCLES`, and as sums and
maxima make no difference larger, n steps are off by n times that at most.

Instead of the order that times give, queues may run in a random one that the pipes allow."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from random import Random
from typing import NamedTuple, TypeAlias

RUN, SET, WAIT, PUSH, POP, MEET = range(6)


class Record(NamedTuple):
    """Facts shared by the instructions of one op that last equally long."""

    kind: int
    pipe: int
    channel: int  # a flag or fifo, or the barriers
    op: int  # number of the op among those of the kernel
    sizes: tuple[int, ...]  # of its box, as far as that lies in the memref, or of what a fifo takes


class Latencies(NamedTuple):
    """Cycles from setting a flag to the end of the wait, in one core and across cores."""

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
    """The run of a record, in cycles."""

    end: float
    start: float
    pipe: int
    number: int  # in its queue


@dataclass(slots=True)
class Simulation:
    """Times of a simulation in cycles, by pipe."""

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
    """True if all queues that have records have come to a barrier."""
    here = [(queue, n) for queue, n in zip(queues, heads, strict=True) if queue]
    return bool(here) and all(n < len(queue) and kind(queue[n]) == MEET for queue, n in here)


def past_barrier(queues: Sequence[Sequence[int]], heads: list[int]) -> Iterator[QueuePosition]:
    """The barrier in each queue; goes on behind it."""
    for pipe, queue in enumerate(queues):
        if queue:
            heads[pipe] += 1
            yield QueuePosition(pipe, heads[pipe] - 1)


EQUAL_CYCLES = 1e-6  # times that differ by less are taken for the same
TOGETHER = 4  # steps at most, whose queues wait for what comes in the next one
WORTHWHILE = 300  # records: shorter loops are as soon simulated
MOST_KNOWN = 300  # steps that are simulated before the loop is taken for one without a pace

END = "end"


class LoopRound(NamedTuple):
    """One of the steps of the loop that all queues are in; or, of the kind `END`, none."""

    kind: Hashable  # rounds of a kind have the same records
    heads: tuple[int, ...]  # how many records of each queue come before


Rounds: TypeAlias = Sequence[LoopRound]


def side_by_side(by_unit: Sequence[Rounds]) -> Rounds:
    """The rounds of several units together, each with the steps of one loop; none where a unit has
    another number of steps, or several loops."""
    if len({len(rounds) for rounds in by_unit}) != 1:
        return ()
    if len(by_unit) == 1:
        return by_unit[0]
    together = [
        LoopRound(tuple(r.kind for r in rounds), tuple(n for r in rounds for n in r.heads))
        for rounds in zip(*by_unit, strict=True)
    ]
    return together


class Touched(NamedTuple):
    """The pipes and channels of which rounds have records."""

    pipes: tuple[int, ...]
    channels: tuple[int, ...]


class Pending(NamedTuple):
    """State of a channel: the times that were taken and count for later ones (the last wait for a
    flag, places in a fifo), and those given since then."""

    channel: int
    taken: tuple[float, ...]
    given: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Beginning:
    """The state at which a round begins, in cycles after the last of its queues ended the one
    before."""

    touched: Touched
    ends: tuple[float, ...]
    pending: tuple[Pending, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """The result of a round that begins in a certain way: its end state, and its cycles."""

    after: Beginning
    cycles: float  # from the last end before to the last end
    waited: tuple[tuple[int, int, float], ...]  # pipe, channel, cycles


@dataclass(slots=True)
class Known:
    """Results of rounds in queues with the same table of records."""

    touched: dict[Hashable, Touched] = field(default_factory=dict[Hashable, Touched])  # by kind
    beginnings: dict[Hashable, Beginning] = field(default_factory=dict[Hashable, Beginning])
    # None: queues wait for what comes behind, or a flag is set twice
    passed: dict[tuple[Beginning, Hashable], Passed | None] = field(
        default_factory=dict[tuple[Beginning, Hashable], Passed | None]
    )


def run_rounds(replay: Replay, rounds: Rounds, known: Known) -> bool:
    """Run queues up to the last of the rounds; whether that goes round by round, and pays."""
    if sum(rounds[-1].heads) - sum(rounds[0].heads) < WORTHWHILE:
        return False
    if not replay.until(rounds[0].heads):
        return False
    touched = _touched(replay, rounds, known)
    if not touched.pipes:
        return True
    now = max(replay.simulation.ends[pipe] for pipe in touched.pipes)
    beginning, counts, number = _beginning(replay, touched, now, known), Counter[Passed](), 0
    while number < len(rounds) - 1:
        for together in range(1, min(TOGETHER, len(rounds) - 1 - number) + 1):
            kind = rounds[number].kind
            if together > 1:
                kind = together, *(r.kind for r in rounds[number : number + together])
            key = beginning, kind
            if key not in known.passed:
                if len(known.passed) == MOST_KNOWN:
                    return False
                ends = rounds[number].heads, rounds[number + together].heads
                known.passed[key] = _pass(replay, beginning, ends, known)
            if (passed := known.passed[key]) is not None:
                break
        else:
            return False
        counts[passed] += 1
        beginning, now, number = passed.after, now + passed.cycles, number + together
    _begin(replay, beginning, now)
    replay.heads[:] = rounds[-1].heads
    for passed, count in counts.items():
        for pipe, channel, cycles in passed.waited:
            replay.simulation.waited[pipe][channel] += count * cycles
    return True


def _touched(replay: Replay, rounds: Rounds, known: Known) -> Touched:
    """The pipes and channels that any of the rounds touches."""
    numbers = {r.kind: n for n, r in enumerate(rounds[:-1])}
    for kind, number in numbers.items():
        if kind not in known.touched:
            begins, ends = rounds[number].heads, rounds[number + 1].heads
            spans = enumerate(zip(begins, ends, strict=True))
            records = {n for p, (a, b) in spans for n in replay.queues[p][a:b]}
            channels = {replay.table[n][2] for n in records if replay.table[n][0] != RUN}
            pipes = tuple(p for p, a in enumerate(begins) if a != ends[p])
            known.touched[kind] = Touched(pipes, tuple(channels))
    parts = [known.touched[kind] for kind in numbers]
    pipes, channels = ({n for part in parts for n in part[i]} for i in (0, 1))
    return Touched(tuple(sorted(pipes)), tuple(sorted(channels)))


def _pass(
    replay: Replay, beginning: Beginning, heads: tuple[Sequence[int], Sequence[int]], known: Known
) -> Passed | None:
    """Run the records between these places of the queues."""
    spans = zip(replay.queues, *heads, strict=True)
    queues = [queue[a:b] for queue, a, b in spans]
    simulation = Simulation([0.0] * len(queues), [defaultdict(float) for _ in queues])
    facts = replay.table, replay.depths, replay.latencies
    part = Replay(queues, *facts, False, simulation, [0] * len(queues))
    _begin(part, beginning, 0.0)
    if not part.until([len(queue) for queue in queues]) or sets_twice(part) is not None:
        return None
    cycles = max(simulation.ends[pipe] for pipe in beginning.touched.pipes)
    waits = ((p, c, t) for p, waited in enumerate(simulation.waited) for c, t in waited.items())
    return Passed(_beginning(part, beginning.touched, cycles, known), cycles, tuple(waits))


def sets_twice(replay: Replay) -> int | None:
    """A flag that is set again before it is waited for."""
    for channel, times in replay.given.items():
        waits = replay.taken[channel]
        if channel not in replay.depths and any(map(lt, islice(times, 1, None), waits)):
            return channel
    return None


def _beginning(replay: Replay, touched: Touched, now: float, known: Known) -> Beginning:
    """Canonical state of the queues: times relative to `now`, and a state that is nearly equal to a
    known one is replaced by that. Times taken before any queue could wait for them count as taken
    just then, or when the next one was given."""
    ends = tuple(replay.simulation.ends[pipe] - now for pipe in touched.pipes)
    over, pending, times = min(ends) - max(replay.latencies), list[Pending](), [*ends]
    for channel in touched.channels:
        given, taken = replay.given[channel], replay.taken[channel]
        depth = replay.depths.get(channel)
        first = len(taken) - 1 if depth is None else len(given) - depth
        since = [t - now for t in given[len(taken) :]]
        just = min(over, *since) if since else over
        places = [max(t - now, just) for t in taken[max(first, 0) :]]
        times += *places, *since
        pending.append(Pending(channel, tuple(places), tuple(since)))
    counts = tuple((len(p.taken), len(p.given)) for p in pending)
    key = touched, counts, tuple(round(t / EQUAL_CYCLES) for t in times)
    return known.beginnings.setdefault(key, Beginning(touched, ends, tuple(pending)))


def _begin(replay: Replay, beginning: Beginning, now: float) -> None:
    """Bring queues to the point at which a round begins; earlier takes count as often as there were
    gives."""
    for pipe, end in zip(beginning.touched.pipes, beginning.ends, strict=True):
        replay.simulation.ends[pipe] = now + end
    for channel, taken, given in beginning.pending:
        replay.taken[channel] = [now + t for t in taken]
        replay.given[channel] = [now] * len(taken) + [now + t for t in given]


CHANGE = 1 / 32  # how often a random order of pipes is another one


def simulate(
    queues: Sequence[Sequence[int]],
    records: Sequence[Record],
    cycles: Sequence[float],
    depths: Mapping[int, int],
    latencies: Latencies,
    keep_steps: bool = False,
    rounds: Rounds = (),
    released: Sequence[float] = (),
    known: Known | None = None,
) -> Simulation:
    """Run the queues of numbers of `records`, which take so many `cycles`; `depths` are those of
    the fifos. With `keep_steps` the steps too, in an order in which a record comes after those it
    waited for; else steps that repeat in the `rounds` are not run again, nor those `known` of other
    queues with the same records and cycles. `released`: the times at which each barrier lets the
    queues go on; without it, as if no other core were there. Raises Stuck, and BadFlag."""
    table = [(r.kind, c, r.channel) for r, c in zip(records, cycles, strict=True)]

    def begin() -> Replay:
        simulation = Simulation([0.0] * len(queues), [defaultdict(float) for _ in queues])
        heads = [0] * len(queues)
        return Replay(queues, table, depths, latencies, keep_steps, simulation, heads)

    replay = begin()
    if rounds and not keep_steps:
        if not run_rounds(replay, rounds, Known() if known is None else known):
            replay = begin()
    whole = [len(queue) for queue in queues]
    replay.until(whole)
    while replay.meet(released):
        replay.until(whole)
    _check_end(queues, replay.heads)
    if (channel := sets_twice(replay)) is not None:
        raise BadFlag(channel, left=False)
    for channel, times in replay.given.items():
        if len(times) > len(replay.taken[channel]):
            raise BadFlag(channel, left=True)
    return replay.simulation


def meetings(alone: Sequence[Sequence[float]], latency: float) -> list[float]:
    """The times at which barriers let all cores go on, from the times at which each of these comes
    to them when it goes on without the others."""
    released: list[float] = []
    for number in range(len(alone[0]) if alone else 0):
        begins = [met[number - 1] + latency if number else 0.0 for met in alone]
        longest = max(met[number] - begin for met, begin in zip(alone, begins, strict=True))
        released.append((released[-1] if released else 0.0) + longest + latency)
    return released


def _check_end(queues: Sequence[Sequence[int]], heads: Sequence[int]) -> None:
    stuck = [QueuePosition(p, n) for p, n in enumerate(heads) if n < len(queues[p])]
    if stuck:
        raise Stuck(stuck)


def by_time(simulation: Simulation) -> Iterable[QueuePosition]:
    """The records in the order in which they end."""
    return (QueuePosition(s.pipe, s.number) for s in sorted(simulation.steps, key=lambda s: s.end))


def random_order(
    queues: Sequence[Sequence[int]],
    records: Sequence[Record],
    depths: Mapping[int, int],
    random: Random,
) -> Generator[QueuePosition]:
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
            if not all_meet(queues, heads, lambda number: records[number].kind):
                break
            yield from past_barrier(queues, heads)
            continue
        record = records[queues[pipe][heads[pipe]]]
        if record.kind == SET and full[record.channel]:
            raise BadFlag(record.channel, left=False)
        if record.kind != RUN:
            full[record.channel] += 1 if record.kind in (SET, PUSH) else -1
        yield QueuePosition(pipe, heads[pipe])
        heads[pipe] += 1
        if random.random() < CHANGE:
            random.shuffle(order)
    _check_end(queues, heads)
    for channel, count in full.items():
        if count:
            raise BadFlag(channel, left=True)
