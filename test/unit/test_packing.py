"""Packing: buffers that conflict never share bytes, whatever the method."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge.transforms.analysis.liveness import LiveProfile
from ge.transforms.memory import packing
from ge.transforms.memory.packing import (
    METHODS,
    Holes,
    Packing,
    PackingProblem,
    best_fit,
    first_fit,
    greedy,
    intersections,
    intervals,
    pack,
    scan,
)

ALIGNMENT = 64

BUFFERS = st.lists(
    st.tuples(
        st.integers(0, 12).map(lambda n: n * ALIGNMENT), st.integers(0, 30), st.integers(0, 12)
    ),
    max_size=40,
)


def problem_of(buffers: list[tuple[int, int, int]]) -> PackingProblem:
    sizes = [size for size, _, _ in buffers]
    starts = [start for _, start, _ in buffers]
    return intervals(sizes, starts, [start + length for _, start, length in buffers])


def check(problem: PackingProblem, packed: Packing) -> None:
    spans = list(zip(problem.starts, problem.ends, strict=True))
    bytes_ = [(o, o + s) for o, s in zip(packed.offsets, problem.sizes, strict=True)]
    for i, j in combinations(range(len(spans)), 2):
        together = spans[i][0] <= spans[j][1] and spans[j][0] <= spans[i][1]
        apart = bytes_[i][1] <= bytes_[j][0] or bytes_[j][1] <= bytes_[i][0]
        assert apart or not together or 0 in (problem.sizes[i], problem.sizes[j])
    assert all(o % ALIGNMENT == 0 for o in packed.offsets)
    assert packed.peak == max((high for _, high in bytes_), default=0)
    assert packed.peak >= problem.lower_bound


@settings(max_examples=2 * settings().max_examples)
@given(BUFFERS)
def test_every_method_is_sound(buffers: list[tuple[int, int, int]]):
    problem = problem_of(buffers)
    check(problem, scan(problem))
    neighbours = intersections(problem.starts, problem.ends)
    assert neighbours is not None
    for name, order, place in METHODS:
        offsets = greedy(problem, neighbours, order(problem), place)
        tops = (o + s for o, s in zip(offsets, problem.sizes, strict=True))
        check(problem, Packing(offsets, max(tops, default=0), name))


@settings(max_examples=2 * settings().max_examples)
@given(BUFFERS)
def test_the_best_is_kept(buffers: list[tuple[int, int, int]]):
    problem = problem_of(buffers)
    best = pack(problem)
    check(problem, best)
    assert best.peak <= scan(problem).peak


@settings(max_examples=2 * settings().max_examples)
@given(BUFFERS)
def test_the_peak_is_the_maximum_over_time(buffers: list[tuple[int, int, int]]):
    def alive(time: int) -> int:
        return sum(size for size, start, length in buffers if start <= time <= start + length)

    p = problem_of(buffers)
    profile = LiveProfile.of(zip(p.sizes, p.starts, p.ends, strict=True), 50)
    assert profile.peak == p.lower_bound == max(map(alive, range(50)))
    assert alive(profile.peak_step) == profile.peak


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=60))
def test_holes_never_touch_nor_overlap_what_is_taken(steps: list[tuple[bool, int]]):
    holes = Holes()
    taken: dict[int, int] = {}
    for take, size in steps:
        if take or not taken:
            taken[holes.take(size)] = size
        else:
            offset = min(taken)
            holes.add(offset, taken.pop(offset))
        edges = sorted([*taken.items(), *holes.starts.items()])
        position = 0
        for offset, length in edges:
            assert offset == position, "taken bytes and holes cover all bytes below the top"
            position += length
        assert position == holes.top
        assert sorted((s, o) for o, s in holes.starts.items()) == holes.by_size
        assert not any(o + s in holes.starts for o, s in holes.starts.items())


def test_first_and_best_fit():
    spans = [(0, 10), (30, 40), (45, 50), (48, 60)]
    assert first_fit(spans, 5) == 10
    assert best_fit(spans, 5) == 40
    assert best_fit(spans, 21) == first_fit(spans, 21) == 60
    assert best_fit([], 7) == first_fit([], 7) == 0


def test_the_scan_takes_the_hole_that_fits_best():
    """A third buffer takes the place of the first one at byte 0, which is just as large, and a
    fourth the smaller one of two holes."""
    together = problem_of([(512, 0, 1), (512, 0, 9), (512, 2, 3)])
    assert scan(together).offsets == [0, 512, 0]
    holes = problem_of([(1024, 0, 1), (512, 0, 9), (512, 0, 1), (512, 0, 9), (512, 3, 1)])
    assert scan(holes).offsets[4] == scan(holes).offsets[2]


def test_conflicts_may_be_more_than_intervals_say():
    """Two buffers whose intervals do not meet, but which no event orders."""
    problem = PackingProblem([64, 64], [0, 2], [1, 3], 64, neighbours=[[1], [0]])
    offsets = greedy(problem, [[1], [0]], [0, 1], first_fit)
    assert offsets == [0, 64]


def test_too_many_conflicts_leave_the_scan(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing, "MOST_CONFLICTS", 3)
    problem = problem_of([(64, 0, 9), (128, 0, 2), (64, 1, 5), (128, 3, 6), (192, 4, 5)])
    assert intersections(problem.starts, problem.ends) is None
    assert pack(problem) == scan(problem)


def test_no_buffers():
    assert pack(intervals([], [], [])) == Packing([], 0, "scan")
