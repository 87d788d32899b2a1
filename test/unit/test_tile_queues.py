"""Queues of instructions: the simulated order and random ones keep to fifos and flags."""

from random import Random
from typing import Any

import pytest

from ge.runtime.cores.replay import (
    POP,
    PUSH,
    RUN,
    SET,
    WAIT,
    BadFlag,
    Latencies,
    Record,
    Stuck,
    random_order,
    simulate,
)


def order(queues: Any, records: Any, depths: dict[int, int], seed: int) -> list[tuple[int, int]]:
    return [(p, n) for p, n in random_order(queues, records, depths, Random(seed))]


def test_a_fifo_stops_both_sides() -> None:
    """One place: the second push waits for the first pop, which waits for the first push."""
    records = [Record(PUSH, 0, 0, 0, ()), Record(POP, 1, 0, 1, ())]
    done = simulate([[0, 0], [1, 1]], records, [10.0, 30.0], {0: 1}, Latencies(20.0, 5.0))
    # pushes end at 10 and 45 + 5 + 10, pops at 15 + 30 and 65 + 30
    assert done.ends == [60.0, 95.0]
    assert done.waited == [{~0: 40.0}, {0: 15.0 + 20.0}]
    assert order([[0, 0], [1, 1]], records, {0: 1}, 0) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_random_orders_keep_to_flags() -> None:
    """The wait comes after the set in each, whatever else changes places."""
    records = [Record(RUN, 0, -1, 0, ()), Record(SET, 0, 0, 1, ()), Record(WAIT, 1, 0, 2, ())]
    queues = [[0, 1, 0], [0, 2, 0]]
    seen = {tuple(order(queues, records, {}, seed)) for seed in range(40)}
    assert len(seen) > 1
    assert all(o.index((0, 1)) < o.index((1, 1)) for o in seen)


def test_simulated_and_random_orders_stop_alike() -> None:
    wait, again = Record(WAIT, 0, 0, 0, ()), Record(SET, 1, 0, 1, ())
    for queues, problem in (([[0], []], Stuck), ([[0], [1, 1]], BadFlag), ([[], [1]], BadFlag)):
        with pytest.raises(problem):
            simulate(queues, [wait, again], [0.0, 0.0], {}, Latencies(1.0, 1.0))
        with pytest.raises(problem):
            order(queues, [wait, again], {}, 0)
