"""Lower bounds of the time of any schedule of a set of tasks.

Each task has a head (the longest chain of tasks that make what it needs, with their launches and
its own) and a tail (the longest chain that needs it). No schedule is shorter than

- the longest head + time + tail: the critical path;
- for each engine, and for the bandwidth of HBM, and for any set of tasks: the least head in the
  set, all work of the set at the full rate, and the least tail in the set. The sets that count
  are those of all tasks with at least some head, or at least some tail (the one-machine bound of
  Carlier, European Journal of Operational Research 11, 1982, for machines with many cores);
- the same with the work of tasks on cores weighed by a dual feasible function (Fekete and
  Schepers, Mathematical Programming 91, 2001): two tasks that take more than half of the cores
  each cannot run at the same time, although cores are left over.

What a task needs is what it reads: neither streams, nor events, nor places in memory, which are
the schedule's choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Parameters of the dual feasible functions: tasks on fewer than this share of the cores count for
# nothing, those that leave less than it free count as if they took all cores
LEFT_OVER = (0.0, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class Job:
    """A task in the form that the bound needs. Jobs are ordered so that those needed come first."""

    time_us: float  # alone on the machine, without its launch
    needs: Sequence[int]  # the jobs that make what it needs
    shares: dict[str, float]  # engine -> the share of its cores that it takes
    bandwidth_us: float  # the time in which the whole bandwidth of HBM moves its bytes


def lower_bound(jobs: Sequence[Job], launch_us: float) -> tuple[float, float]:
    """The lower bound of the time for all jobs, and the length of the critical path alone. Where
    all jobs come either before or after one of them, the bounds of both parts add up."""
    bound = path = 0.0
    start = 0
    for end in bottlenecks(jobs):
        part = [
            Job(j.time_us, [n - start for n in j.needs if n >= start], j.shares, j.bandwidth_us)
            for j in jobs[start:end]
        ]
        more, longer = part_bound(part, launch_us)
        bound, path, start = bound + more, path + longer, end
    return bound, path


def bottlenecks(jobs: Sequence[Job]) -> list[int]:
    """The ends of the parts of jobs that can only run one part after the other: behind each job
    that needs, at last, all before it and is needed by all after it; and the end of all."""
    last_user = list(range(len(jobs)))
    for i, job in enumerate(jobs):
        for n in job.needs:
            last_user[n] = i
    # Job i is one when nothing from before it is used only behind it, or not at all, and nothing
    # behind it needs nothing or only what comes before it.
    sinks = next((i for i, u in enumerate(last_user) if u == i), len(jobs))
    first_need = len(jobs)
    clear = [True] * len(jobs)
    for i in range(len(jobs) - 1, -1, -1):
        clear[i] = first_need >= i
        first_need = min(first_need, min(jobs[i].needs, default=-1))
    ends = [i + 1 for i in range(min(sinks + 1, len(jobs))) if clear[i]]
    return ends if ends and ends[-1] == len(jobs) else [*ends, len(jobs)]


def part_bound(jobs: Sequence[Job], launch_us: float) -> tuple[float, float]:
    """The bounds of `lower_bound`, for jobs that may overlap."""
    heads, tails = chains(jobs, launch_us)
    path = max((h + j.time_us + t for h, j, t in zip(heads, jobs, tails, strict=True)), default=0.0)
    by_head = sorted(range(len(jobs)), key=lambda i: -heads[i])
    by_tail = sorted(range(len(jobs)), key=lambda i: -tails[i])

    def work_bound(work: Sequence[float]) -> float:
        return max(_bound(by_head, heads, tails, work), _bound(by_tail, tails, heads, work))

    bounds = [path, work_bound([j.bandwidth_us for j in jobs])]
    for engine in dict.fromkeys([e for j in jobs for e in j.shares]):
        shares = [j.shares.get(engine, 0) for j in jobs]
        for spare in LEFT_OVER:
            times = [
                j.time_us * weight(share, spare) if share else 0.0
                for j, share in zip(jobs, shares, strict=True)
            ]
            bounds.append(work_bound(times))
    return max(bounds), path


def chains(jobs: Sequence[Job], launch_us: float) -> tuple[list[float], list[float]]:
    heads, tails = [launch_us] * len(jobs), [0.0] * len(jobs)
    for i, job in enumerate(jobs):
        heads[i] = launch_us + max((heads[n] + jobs[n].time_us for n in job.needs), default=0.0)
    for i in range(len(jobs) - 1, -1, -1):
        tail = launch_us + jobs[i].time_us + tails[i]
        for n in jobs[i].needs:
            tails[n] = max(tails[n], tail)
    return heads, tails


def weight(share: float, spare: float) -> float:
    """A dual feasible function: the weights of shares that are at most 1 together are, too."""
    if share > 1 - spare:
        return 1.0
    return share if share >= spare else 0.0


def _bound(
    order: Sequence[int], here: Sequence[float], there: Sequence[float], work: Sequence[float]
) -> float:
    """The best bound of the sets of the first jobs in `order`, which is by falling `here`."""
    best = total = 0.0
    least = float("inf")
    for i in order:
        if work[i]:
            total += work[i]
            least = min(least, there[i])
            best = max(best, here[i] + total + least)
    return best
