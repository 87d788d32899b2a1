"""The lower bound of schedules: never above what a schedule takes, and what it looks at."""

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from ge.runtime.clock.bounds import Job, lower_bound

LAUNCH = 2.0


@st.composite
def job_lists(draw: st.DrawFn) -> list[Job]:
    """Jobs on two engines of four cores, some of which need earlier ones."""
    jobs: list[Job] = []
    for i in range(draw(st.integers(1, 12))):
        needs = draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else []
        shares = {
            e: draw(st.integers(1, 4)) / 4
            for e in draw(st.sampled_from([("cube",), ("vector",), ("cube", "vector")]))
        }
        time = draw(st.floats(0.5, 20))
        jobs.append(Job(time, needs, shares, draw(st.floats(0, 1)) * time))
    return jobs


def greedy(jobs: list[Job]) -> float:
    """The makespan of starting each job, in order, as soon as what it needs is done and all
    engines have room; bandwidth is a machine that works on one job at a time."""
    ends: list[float] = []
    events: list[float] = [0.0]
    running: list[tuple[float, int]] = []
    free = {"cube": 1.0, "vector": 1.0}
    memory = now = 0.0
    for i, job in enumerate(jobs):
        ready = LAUNCH + max((ends[n] for n in job.needs), default=0.0)
        heappush(events, ready)
        while now < ready or any(free[e] < s - 1e-9 for e, s in job.shares.items()):
            now = max(now, heappop(events))
            while running and running[0][0] <= now:
                _, done = heappop(running)
                for engine, share in jobs[done].shares.items():
                    free[engine] += share
        for engine, share in job.shares.items():
            free[engine] -= share
        memory = max(memory, now) + job.bandwidth_us
        ends.append(max(now + job.time_us, memory))
        heappush(running, (ends[-1], i))
        heappush(events, ends[-1])
    return max(ends)


@given(job_lists())
def test_no_schedule_is_faster(jobs: list[Job]) -> None:
    bound, path = lower_bound(jobs, LAUNCH)
    assert path <= bound <= greedy(jobs) * (1 + 1e-9)


def test_work_of_an_engine_between_the_least_head_and_the_least_tail() -> None:
    first = Job(10, [], {"vector": 1.0}, 0.0)
    branches = [Job(5, [0], {"cube": 0.5}, 0.0) for _ in range(8)]
    last = Job(10, range(1, 9), {"vector": 1.0}, 0.0)
    bound, path = lower_bound([first, *branches, last], LAUNCH)
    assert path == 3 * LAUNCH + 10 + 5 + 10
    assert bound == 3 * LAUNCH + 10 + 8 * 5 / 2 + 10


def test_parts_on_both_sides_of_a_bottleneck_add_up() -> None:
    """A chain of three and a shortcut of 9 on the same cores, then a task that needs both: the
    shortcut hides two launches. The second block is the same."""
    block = [(5.0, [0]), (5.0, [1]), (5.0, [2]), (9.0, [0]), (1.0, [3, 4])]
    jobs = [Job(1.0, [], {"cube": 1.0}, 0.0)]
    for start in (0, 5):
        jobs += [Job(t, [n + start for n in needs], {"cube": 1.0}, 0.0) for t, needs in block]
    bound, path = lower_bound(jobs, LAUNCH)
    assert path == 3 + 2 * (7 + 7 + 7 + 3)
    assert bound == 3 + 2 * (2 + 5 + 5 + 5 + 9 + 2 + 1)


def test_two_tasks_with_more_than_half_of_the_cores_do_not_run_together() -> None:
    jobs = [Job(5, [], {"cube": 0.6}, 0.0) for _ in range(4)]
    assert lower_bound(jobs, LAUNCH)[0] == LAUNCH + 20


def test_bytes_take_their_time() -> None:
    jobs = [Job(5, [], {"cube": 0.25}, 4.0) for _ in range(4)]
    assert lower_bound(jobs, LAUNCH)[0] == LAUNCH + 16
