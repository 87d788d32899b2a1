"""Simulation of tasks: an event after the other, from idle engines to idle engines (see
`clock.py`).

Tasks that run together share bandwidths by dominant resource fairness (Ghodsi et al., NSDI
2011), with progressive filling: all tasks get more of what they need, in proportion, until a
bandwidth is used up; those that need it stop there, the others go on. With one bandwidth this
is max-min fairness: whoever asks for less than an equal share gets all of it."""

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from ge.dialects.targets.target import Target
from ge.runtime.clock.bounds import Job, lower_bound
from ge.runtime.clock.timeline import COMM, COMPUTE, IdleGap, Task, Timeline, bandwidth, capacities
from ge.runtime.library.costs.estimates import whole_l2_bytes_per_us


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


def are_free(cores: Sequence[tuple[str, int]], free: Mapping[str, int]) -> bool:
    """Return whether so many cores of each engine are free."""
    for engine, count in cores:
        if free[engine] < count:
            return False
    return True


def fits(demands: Sequence[tuple[float, float]], bandwidths: tuple[float, float]) -> bool:
    """Return whether what tasks move at full speed is no more than the bandwidths."""
    hbm = l2 = 0.0
    for of_hbm, of_l2 in demands:
        hbm += of_hbm
        l2 += of_l2
    return hbm <= bandwidths[0] and l2 <= bandwidths[1]


class Simulation:
    """Runs tasks from idle engines to idle engines. `is_accounted`: causes of idle time are noted,
    except when tasks run alone."""

    def __init__(
        self, tasks: Sequence[Task], target: Target, host_driven: bool, is_accounted: bool = True
    ) -> None:
        self.tasks, self.target, self.host_driven = tasks, target, host_driven
        self.is_accounted = is_accounted
        self.free = capacities(target)
        self.bandwidth = bandwidth(target)
        self.bandwidths = self.bandwidth, whole_l2_bytes_per_us(target)
        self.now = 0.0
        self.launching: list[tuple[float, int]] = []
        # Engines -> the tasks that need cores of these, with numbers by which they came
        self.waiting: dict[tuple[str, ...], deque[tuple[int, int]]] = {}
        self.arrivals = 0
        self.running: dict[int, float] = {}  # task -> microseconds that it would still take alone
        self.speeds: dict[int, float] = {}
        self.missing = [len(t.after) for t in tasks]
        index = {t: i for i, t in enumerate(tasks)}
        self.followers: list[list[int]] = [[] for _ in tasks]
        for i, t in enumerate(tasks):
            for before in t.after:
                self.followers[index[before]].append(i)
        self.timeline = Timeline(target, list(tasks))

    def run(self, bounds: tuple[float, float] | None = None) -> Timeline:
        """`bounds`: the lower bound of the time, and the longest path, where they are known."""
        result = self.timeline
        for i, t in enumerate(self.tasks):
            result.bytes += t.time.bytes
            for engine, cores in t.cores:
                result.core_us[engine] += cores * t.time.total_us
            if not t.after:
                self.ready(i)
        while self.launching or self.running or self.waiting:
            self.advance()
        result.latency_us = self.now
        result.lower_bound_us, result.path_us = bounds or self.bounds()
        return result

    def bounds(self) -> tuple[float, float]:
        index = {t: i for i, t in enumerate(self.tasks)}
        jobs = [
            Job(
                t.time.total_us,
                [index[n] for n in t.needs],
                {e: n / self.timeline.capacity[e] for e, n in t.cores},
                t.time.bytes / self.bandwidth,
            )
            for t in self.tasks
        ]
        if not self.host_driven:
            return lower_bound(jobs, self.target.launch_us)
        # The host issues one task after the other, so that the launches alone add up.
        bound, path = lower_bound(jobs, 0.0)
        last = min((t.time.total_us for t in self.tasks), default=0.0)
        return max(bound, len(jobs) * self.target.host_launch_us + last), path

    def ready(self, i: int) -> None:
        self.launch(i)  # a scheduler launches it later

    def launch(self, i: int) -> None:
        self.tasks[i].ready_us = self.now
        if self.host_driven:
            at = max(self.now, (i + 1) * self.target.host_launch_us)
        else:
            at = self.now + self.target.launch_us
        heappush(self.launching, (at, i))

    def advance(self) -> None:
        then = self.launching[0][0] if self.launching else float("inf")
        for i, rest in self.running.items():
            then = min(then, self.now + rest / self.speeds[i])
        if self.is_accounted:
            self.account(then)
        step, self.now = then - self.now, then
        nearly = 1e-9 + 1e-12 * self.now  # what rounding may leave of a duration
        for i in self.running:
            self.running[i] -= step * self.speeds[i]
        finished = [i for i, rest in self.running.items() if rest <= nearly]
        for i in finished:
            self.finish(i)
        while self.launching and self.launching[0][0] <= self.now + nearly:
            self.wait(heappop(self.launching)[1])
        if self.start() or finished:
            self.share()

    def finish(self, i: int) -> None:
        t = self.tasks[i]
        del self.running[i]
        t.duration_us = self.now - t.start_us
        for engine, cores in t.cores:
            self.free[engine] += cores
        for follower in self.followers[i]:
            self.missing[follower] -= 1
            if not self.missing[follower]:
                self.ready(follower)

    def wait(self, i: int) -> None:
        self.arrivals += 1
        engines = tuple([e for e, _ in self.tasks[i].cores])
        self.waiting.setdefault(engines, deque()).append((self.arrivals, i))

    def start(self) -> bool:
        """Start the tasks for which cores are free; a task does not overtake another one that
        waits for the same engine. Tasks that need the same engines are in one queue, of which
        only the first can start."""
        if not self.waiting:
            return False
        blocked: set[str] = set()
        started = False
        heads = [(queue[0], engines) for engines, queue in self.waiting.items()]
        heapify(heads)
        while heads:
            (_, i), engines = heappop(heads)
            cores = self.tasks[i].cores
            if not blocked.isdisjoint(engines) or not are_free(cores, self.free):
                blocked.update(engines)
                continue
            queue = self.waiting[engines]
            queue.popleft()
            if queue:
                heappush(heads, (queue[0], engines))
            else:
                del self.waiting[engines]
            self.begin(i)
            started = True
        return started

    def begin(self, i: int) -> None:
        t = self.tasks[i]
        for engine, cores in t.cores:
            self.free[engine] -= cores
        t.start_us = self.now
        self.running[i] = t.time.total_us

    def share(self) -> None:
        if len(self.running) < 2:
            self.speeds = dict.fromkeys(self.running, 1.0)
            return
        running = list(self.running)
        demands = [self.demands(i) for i in running]
        if fits(demands, self.bandwidths):
            self.speeds = dict.fromkeys(running, 1.0)
        else:
            self.speeds = dict(zip(running, fair_speeds(demands, self.bandwidths), strict=True))

    def demands(self, i: int) -> tuple[float, float]:
        """Bytes a microsecond of HBM and of L2 that a task moves at full speed."""
        time = self.tasks[i].time
        if not time.total_us:
            return 0.0, 0.0
        return time.bytes / time.total_us, time.l2_bytes / time.total_us

    def work(self, then: float) -> set[str]:
        """Return the engines that work until then, after noting that they do."""
        active = {self.tasks[i].engine for i in self.running}
        for engine in active:
            self.timeline.busy_us[engine] += then - self.now
        if COMM in active and active.isdisjoint(COMPUTE):
            for i in self.running:
                if self.tasks[i].engine == COMM:
                    self.tasks[i].exposed_us += then - self.now
        return active

    def account(self, then: float) -> None:
        active = self.work(then)
        for engine in COMPUTE:
            if engine in active:
                continue
            if active & {*COMPUTE, "host"}:
                cause = "compute"
            elif COMM in active:
                cause = "communication"
            elif active:
                cause = "memory"
            else:
                cause = "schedule" if self.launching and not self.host_driven else "sync"
            self.timeline.idled(IdleGap(engine, cause, self.now, then))
