"""Which gears would waste least, by how often each size comes.

A size runs in the smallest gear that is as large in each dimension. What is wasted is what the gear
has more elements, the product of its sizes, times how often. For one dimension the best gears are
found exactly, by dynamic programming over the sizes; for several they are chosen one by one, the
largest first and then the size that saves most.
"""

from collections.abc import Mapping, Sequence
from math import inf, prod

Size = tuple[int, ...]


def waste(gears: Sequence[Size], counts: Mapping[Size, int]) -> tuple[int, int]:
    """Elements that are wasted, and how many runs no gear takes."""
    wasted = missed = 0
    for size, count in counts.items():
        fitting = [g for g in gears if all(a >= b for a, b in zip(g, size, strict=True))]
        if fitting:
            wasted += count * (min(map(prod, fitting)) - prod(size))
        else:
            missed += count
    return wasted, missed


def best_gears(counts: Mapping[Size, int], k: int) -> tuple[list[Size], str]:
    """At most k gears that take all sizes with little waste, and how they were found."""
    if all(len(size) == 1 for size in counts):
        return [(n,) for n in exact({size[0]: n for size, n in counts.items()}, k)], "exact"
    return greedy(counts, k), "greedy"


def exact(counts: Mapping[int, int], k: int) -> list[int]:
    """The k sizes, the largest among them, of which each size takes the next larger one."""
    sizes = sorted(counts)
    runs, elements = [0], [0]
    for n in sizes:
        runs.append(runs[-1] + counts[n])
        elements.append(elements[-1] + counts[n] * n)

    def cost(first: int, last: int) -> int:
        """Of the sizes first, ..., last in a gear of the last."""
        return sizes[last] * (runs[last + 1] - runs[first]) - elements[last + 1] + elements[first]

    best: list[float] = [0.0, *(inf for _ in sizes)]
    chosen: list[list[int]] = []
    for _ in range(min(k, len(sizes))):
        after: list[float] = [0.0]
        before: list[int] = [0]
        for last in range(len(sizes)):
            costs = [best[first] + cost(first, last) for first in range(last + 1)]
            before.append(min(range(last + 1), key=costs.__getitem__))
            after.append(costs[before[-1]])
        best = after
        chosen.append(before)
    gears: list[int] = []
    end = len(sizes)
    while end and chosen:
        gears.append(sizes[end - 1])
        end = chosen.pop()[end]
    return sorted(gears)


def greedy(counts: Mapping[Size, int], k: int) -> list[Size]:
    gears = [tuple(map(max, zip(*counts, strict=True)))]
    while len(gears) < k:
        tries = [(waste([*gears, size], counts)[0], size) for size in counts if size not in gears]
        if not tries or min(tries)[0] >= waste(gears, counts)[0]:
            break
        gears.append(min(tries)[1])
    return sorted(gears)
