"""Queues of one block run to their end: in the order that their times give (`replay.py`; steps of
a loop that repeat themselves once, `rounds.py`), or in a random one that the pipes allow."""

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from random import Random

from ge.runtime.cores.replay import (
    MEET,
    POP,
    PUSH,
    RUN,
    SET,
    WAIT,
    BadFlag,
    Latencies,
    QueuePosition,
    Record,
    Replay,
    Simulation,
    Stuck,
    all_meet,
    past_barrier,
)
from ge.runtime.cores.rounds import Known, Rounds, run_rounds, sets_twice

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
    the fifos. With `keep_steps` the steps too, in an order in which what was waited for comes
    first; else what repeats itself in the `rounds` is not run again, nor what is `known` of other
    queues with the same records and cycles. `released`: when each barrier lets the queues go on;
    without it, as if no other core were there. Raises Stuck, and BadFlag."""
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
    """When barriers let all cores go on, of the times at which each of these comes to them, when it
    goes on without the others."""
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
