"""Steps of a loop that repeat themselves are simulated once.

What happens in a step depends on its records and on how it begins: when each queue of the loop
ended the step before, and which sets, pushes and places in fifos are still to be met. Times are
sums and maxima of these and of what is constant, so that a step that begins as another one of its
kind did, only later, takes what that one took. The pipes of a loop come to a pace after a few
steps, and come back to it in the same way after each tile that is cut off; what is `Known` of one
core holds for others, too. So few steps are simulated, however many there are.

Exact but for rounding: what counts as the same differs by less than `EQUAL_CYCLES`, and as sums and
maxima make no difference larger, n steps are off by n times that at most.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from typing import NamedTuple, TypeAlias

from ge.runtime.cores.replay import RUN, Replay, Simulation

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
    """What rounds have records of."""

    pipes: tuple[int, ...]
    channels: tuple[int, ...]


class Pending(NamedTuple):
    """Of a channel: what was taken that counts for what is given later (the last wait for a flag,
    places in a fifo), and what was given since then."""

    channel: int
    taken: tuple[float, ...]
    given: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Beginning:
    """How a round begins, in cycles after the last of its queues ended the one before."""

    touched: Touched
    ends: tuple[float, ...]
    pending: tuple[Pending, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """What a round takes that begins in a certain way."""

    after: Beginning
    cycles: float  # from the last end before to the last end
    waited: tuple[tuple[int, int, float], ...]  # pipe, channel, cycles


@dataclass(slots=True)
class Known:
    """Of rounds in queues with the same table of records."""

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
    """By any of the rounds."""
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
    """How things are; those that were nearly so before are taken for it. What was taken before any
    queue could wait for it is as good as taken just then, or when the next one was given."""
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
    """Bring queues to where a round begins; what was taken before counts as often as it was
    given."""
    for pipe, end in zip(beginning.touched.pipes, beginning.ends, strict=True):
        replay.simulation.ends[pipe] = now + end
    for channel, taken, given in beginning.pending:
        replay.taken[channel] = [now + t for t in taken]
        replay.given[channel] = [now] * len(taken) + [now + t for t in given]
