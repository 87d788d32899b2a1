"""Shares of bandwidths among tasks that run together.

Dominant resource fairness (Ghodsi et al., NSDI 2011), by progressive filling: all tasks get more of
what they need, in proportion, until a bandwidth is used up; those that need it stop there, the
others go on. With one bandwidth this is max-min fairness: whoever asks for less than an equal share
gets all of it.
"""

from collections.abc import Sequence


def fair_speeds(demands: Sequence[Sequence[float]], capacities: Sequence[float]) -> list[float]:
    """The speed of each task, from 0 to 1 (as fast as alone). `demands` are the rates that each
    asks of each resource at full speed, in the units of `capacities`. n log n in tasks."""
    speeds = [1.0] * len(demands)
    free = list(capacities)
    needs = [max(d / c for d, c in zip(ds, capacities, strict=True)) for ds in demands]
    active = sorted((i for i, need in enumerate(needs) if need), key=needs.__getitem__)
    while active:
        levels = [_level(active, demands, needs, r, amount) for r, amount in enumerate(free)]
        level = min(levels)
        if level == float("inf"):
            break
        full = levels.index(level)
        stopped = [i for i in active if demands[i][full]]
        for i in stopped:
            speeds[i] = min(1.0, level / needs[i])
            for r, demand in enumerate(demands[i]):
                free[r] = max(free[r] - speeds[i] * demand, 0.0)
        active = [i for i in active if not demands[i][full]]
    return speeds


def _level(
    active: Sequence[int],
    demands: Sequence[Sequence[float]],
    needs: Sequence[float],
    resource: int,
    free: float,
) -> float:
    """The share of its dominant resource that each task may have until `free` is used up; tasks
    that need less than that share run at full speed. Infinite when it is never used up."""
    slope = sum(demands[i][resource] / needs[i] for i in active)
    for i in active:
        demand = demands[i][resource]
        if slope * needs[i] > free * (1 + 1e-12):
            return free / slope
        free -= demand
        slope -= demand / needs[i]
    return float("inf")
