"""The complete search: its packings are sound, and what it calls impossible is impossible."""

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import pipeline
from ge.transforms.memory.assign_offsets import AssignOffsetsPass
from ge.transforms.memory.packing import intervals, pack
from ge.transforms.memory.search import Outcome, search

Buffer = tuple[int, int, int]
"""Size, first and last time."""


def buffers(most: int) -> st.SearchStrategy[list[Buffer]]:
    one = st.tuples(st.integers(1, 9), st.integers(0, 7), st.integers(0, 4))
    return st.lists(one.map(lambda b: (b[0], b[1], b[1] + b[2])), min_size=1, max_size=most)


def meet(a: Buffer, b: Buffer) -> bool:
    return a[1] <= b[2] and b[1] <= a[2]


def smallest(given: list[Buffer]) -> int:
    """The smallest peak: in some order, each buffer lies on the highest below it."""
    best = sum(size for size, _, _ in given)
    for order in permutations(given):
        tops: list[int] = []
        for i, b in enumerate(order):
            tops.append(b[0] + max((tops[j] for j in range(i) if meet(b, order[j])), default=0))
        best = min(best, max(tops))
    return best


def find(given: list[Buffer], capacity: int) -> Outcome:
    """The outcome of a search; a packing is checked."""
    sizes, starts, ends = (list(column) for column in zip(*given, strict=True))
    result = search(sizes, starts, ends, capacity)
    if result.outcome is Outcome.PACKED:
        placed = list(zip(given, result.offsets, strict=True))
        assert all(0 <= o <= capacity - b[0] for b, o in placed)
        for (a, low), (b, high) in combinations(placed, 2):
            assert not meet(a, b) or low + a[0] <= high or high + b[0] <= low
    return result.outcome


@settings(max_examples=2 * settings().max_examples)
@given(buffers(6))
def test_the_smallest_capacity_is_found(given: list[Buffer]):
    least = smallest(given)
    assert find(given, least) is Outcome.PACKED
    assert find(given, least - 1) is Outcome.IMPOSSIBLE


@settings()
@given(buffers(40), st.integers(0, 3))
def test_packings_are_sound(given: list[Buffer], slack: int):
    sizes, starts, ends = (list(column) for column in zip(*given, strict=True))
    problem = intervals(sizes, starts, ends)
    find(given, problem.lower_bound + slack)
    packed = pack(problem, 1_000_000)
    if packed.peak > problem.lower_bound:
        assert packed.smallest
        assert find(given, packed.peak - 1) is Outcome.IMPOSSIBLE


def test_nothing_to_pack():
    assert search([], [], [], 0).outcome is Outcome.PACKED
    assert search([0, 0], [0, 0], [1, 1], 0).offsets == [0, 0]
    assert search([1], [0], [0], 0).outcome is Outcome.IMPOSSIBLE


def test_the_search_repeats_itself():
    """The steps do not depend on time: neither does the packing."""
    sizes = [(7 * i) % 13 + 1 for i in range(40)]
    starts = [(5 * i) % 17 for i in range(40)]
    ends = [s + i % 5 for i, s in enumerate(starts)]
    bound = intervals(sizes, starts, ends).lower_bound
    first, second = (search(sizes, starts, ends, bound) for _ in range(2))
    assert first == second
    short = search(sizes, starts, ends, bound, first.steps)
    assert short == first
    cut = search(sizes, starts, ends, bound, first.steps - 1)
    assert (cut.outcome, cut.steps) == (Outcome.UNDECIDED, first.steps - 1)


def test_a_gap_that_the_quick_methods_leave_is_closed():
    """The buffers (KiB, first use, last use) of a decoder of two layers with a mask that lives
    long; every level of memory optimization that shares bytes searches for this."""
    given = [
        (8, 3, 11), (8, 3, 5), (2, 4, 17), (8, 5, 8), (4, 5, 8), (4, 5, 8), (8, 8, 9), (8, 9, 14),
        (16, 11, 12), (8, 12, 20), (8, 14, 17), (4, 14, 17), (4, 14, 17), (8, 17, 18), (8, 18, 22),
        (16, 20, 21), (8, 21, 23),
    ]  # fmt: skip
    sizes, starts, ends = (list(column) for column in zip(*given, strict=True))
    problem = intervals(sizes, starts, ends)
    assert pack(problem).peak > problem.lower_bound
    assert pack(problem, 1_000_000).peak == problem.lower_bound
    for level in (1, 2, 3):
        (plan,) = (p for p in pipeline(Options(memory=level)) if isinstance(p, AssignOffsetsPass))
        assert plan.search
