"""Which tasks decide when a simulated run ends, and how much later each other one might end.

The slack of a task is the time by which it may end later without the run ending later, when
everything else keeps its order. A task holds others back in two ways: they depend on it (an event,
or the order of its stream), or they wait for the cores that it frees. Slack is found backwards
from the end, as in the critical path method (Kelley and Walker, 1959):

    slack(t) = min over the tasks f that it holds back of slack(f) + the time that f waits
               for something else, after t is done
    slack(t) = the end of its part of the run - end(t)          where it holds back nothing

Parts are what lies between two barriers (control flow waits for all tasks before it).

The critical path is followed back from the task that ends last: from each task to the one whose
cores it waited for, else to the last one of those it depends on, else to the last one of the part
before. Its tasks do not overlap: their times, with the launches and waits between them, add up to
the time of the run.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict

from ge.runtime.clock.timeline import Task, Timeline

NEARLY = 1e-6  # times closer than this, in microseconds, count as equal


def slack(timeline: Timeline) -> dict[Task, float]:
    """Microseconds by which each task might end later."""
    launch = timeline.target.launch_us
    ends = sorted({*timeline.barriers_us, timeline.latency_us})
    slacks: dict[Task, float] = {}
    for t in timeline.tasks:
        end = ends[min(bisect_left(ends, t.end_us - NEARLY), len(ends) - 1)]
        slacks[t] = max(end - t.end_us, 0.0)
    handed = _handovers(timeline)
    for f in sorted(timeline.tasks, key=lambda t: t.start_us, reverse=True):
        waited = max(f.wait_us - launch, 0.0)
        for before in f.after:
            slacks[before] = min(slacks[before], slacks[f] + f.ready_us - before.end_us + waited)
        for before in handed.get(f, ()):
            slacks[before] = min(slacks[before], slacks[f])
    return slacks


def critical_path(timeline: Timeline) -> list[Task]:
    """The tasks of the critical path, in the order in which they run."""
    handed = _handovers(timeline)
    by_end = sorted(timeline.tasks, key=lambda t: t.end_us)
    ends = [t.end_us for t in by_end]
    path: list[Task] = []
    number = len(by_end)
    task = by_end[-1] if by_end else None
    while task is not None:
        path.append(task)
        if before := handed.get(task) or task.after:
            task = max(before, key=lambda t: t.end_us)
        else:
            number = min(bisect_right(ends, task.ready_us + NEARLY), number)
            earlier = by_end[number - 1] if number else None
            task = None if earlier is None or earlier.start_us >= task.start_us else earlier
    return path[::-1]


def _handovers(timeline: Timeline) -> dict[Task, list[Task]]:
    """Task -> those whose cores it waited for: of its engines, done when it started."""
    ended: dict[tuple[str, int], list[Task]] = defaultdict(list)
    for t in timeline.tasks:
        for engine, _ in t.cores:
            ended[engine, round(t.end_us / NEARLY)].append(t)
    handed: dict[Task, list[Task]] = {}
    for t in timeline.tasks:
        if t.wait_us <= timeline.target.launch_us + NEARLY:
            continue
        moment = round(t.start_us / NEARLY)
        for engine, _ in t.cores:
            for near in (moment - 1, moment, moment + 1):
                before = [b for b in ended.get((engine, near), ()) if b.start_us < t.start_us]
                handed.setdefault(t, []).extend(before)
    return handed
