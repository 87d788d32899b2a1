"""Which tasks decide when a simulated run ends, and how much later each other one might end.

The slack of a task is the time by which it may end later without the run ending later, when
everything else keeps its order. A task holds others back in two ways: they depend on it (an event,
or the order of its stream), or they wait for the cores that it frees. Slack is found backwards
from the end, as in the critical path method (Kelley and Walker, 1959):

    slack(t) = min over the tasks f that it holds back of slack(f) + the time that f waits
               for something else, after t is done
    slack(t) = the end of its part of the run - end(t)          where it holds back nothing

Parts are what lies between two barriers (control flow waits for all tasks before it).
"""

from bisect import bisect_left
from collections import defaultdict

from ge.runtime.timeline import Task, Timeline

NEARLY = 1e-6
"""Times closer than this, in microseconds, count as equal."""


def slack(timeline: Timeline) -> dict[Task, float]:
    """Microseconds by which each task might end later."""
    launch = timeline.target.launch_us
    ends = sorted({*timeline.barriers_us, timeline.latency_us})
    found: dict[Task, float] = {}
    for t in timeline.tasks:
        end = ends[min(bisect_left(ends, t.end_us - NEARLY), len(ends) - 1)]
        found[t] = max(end - t.end_us, 0.0)
    handed = _handovers(timeline)
    for f in sorted(timeline.tasks, key=lambda t: t.start_us, reverse=True):
        waited = max(f.wait_us - launch, 0.0)
        for before in f.after:
            found[before] = min(found[before], found[f] + f.ready_us - before.end_us + waited)
        for before in handed.get(f, ()):
            found[before] = min(found[before], found[f])
    return found


def critical_path(timeline: Timeline) -> list[Task]:
    """The tasks without slack, in the order in which they start."""
    found = slack(timeline)
    tasks = [t for t in timeline.tasks if found[t] <= NEARLY]
    return sorted(tasks, key=lambda t: t.start_us)


def _handovers(timeline: Timeline) -> dict[Task, list[Task]]:
    """Task -> those whose cores it waited for: of its engines, done when it started."""
    ended: dict[tuple[str, int], list[Task]] = defaultdict(list)
    for t in timeline.tasks:
        for engine, _ in t.cores:
            ended[engine, round(t.end_us / NEARLY)].append(t)
    found: dict[Task, list[Task]] = {}
    for t in timeline.tasks:
        if t.wait_us <= timeline.target.launch_us + NEARLY:
            continue
        moment = round(t.start_us / NEARLY)
        for engine, _ in t.cores:
            for near in (moment - 1, moment, moment + 1):
                before = [b for b in ended.get((engine, near), ()) if b.start_us < t.start_us]
                found.setdefault(t, []).extend(before)
    return found
