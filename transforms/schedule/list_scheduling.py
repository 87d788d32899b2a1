"""List scheduling on the simulated machine: tasks start by priority wherever there is room.

A task whose dependencies are done is a candidate. Whenever something ends, candidates are taken by
priority (Graham, SIAM J. Appl. Math. 17, 1969; with the longest path to the end as the priority it
is the critical path method, Kohler, IEEE Trans. Computers 24, 1975):
- a candidate is launched when cores for it are free, or when nothing else has been launched for its
  engine that does not run yet, so that its launch is over when the engine is free;
- one that would lift the bytes live over the limit waits (`memory_cap.py`); smaller ones pass it;
- it goes to a stream of its engine on which nothing is under way, if there is one to the stream of
  a task that it depends on, else to a new one.

The machine is the clock's: launch costs, cores, shared bandwidth. What comes out are an order of
issue, streams, and the tasks that others have to wait for because of memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from ge.dialects.targets.target import Target
from ge.runtime.clock.clock import Simulation
from ge.runtime.clock.timeline import Task
from ge.transforms.schedule.memory_cap import MemoryCap

LOOK_AHEAD = 16
"""Candidates of an engine that are looked at while those before them cannot start."""


@dataclass
class Streams:
    """The streams that an engine's tasks may be on, opened when they are needed."""

    spare: list[int]
    """Streams that no engine uses yet."""
    most: int
    """Streams that one engine may have."""
    engines: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """First the stream that each engine has from the start."""
    last: dict[int, int] = field(default_factory=dict[int, int])
    """The task that was issued last to a stream."""


@dataclass
class Schedule:
    """An order in which to issue tasks, and on which streams."""

    order: list[int]
    stream: list[int]
    """For each task (not in the order of issue)."""
    after: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """For a task those that it has to wait for because it takes their memory."""


def path_lengths(
    times: Sequence[float], before: Sequence[Sequence[int]], launch_us: float
) -> list[float]:
    """For each task the longest path to the end: its launch and time, and those of tasks that
    depend on it, one after the other."""
    path = [t + launch_us for t in times]
    longest = [0.0] * len(times)
    for i in range(len(times) - 1, -1, -1):
        path[i] += longest[i]
        for j in before[i]:
            longest[j] = max(longest[j], path[i])
    return path


class ListScheduler(Simulation):
    """The clock's machine, with a choice of what to launch next."""

    def __init__(
        self,
        tasks: Sequence[Task],
        before: Sequence[Sequence[int]],
        priority: Sequence[float],
        memory: MemoryCap,
        streams: Streams,
        target: Target,
    ) -> None:
        copies = [replace(t, after=[], events=[]) for t in tasks]
        for copy, earlier in zip(copies, before, strict=True):
            copy.after = [copies[i] for i in earlier]
        super().__init__(copies, target, host_driven=False)
        self.before, self.priority = before, priority
        self.memory, self.streams = memory, streams
        self.candidates: dict[str, list[tuple[float, int]]] = {t.engine: [] for t in tasks}
        """For each engine a heap; the highest priority first."""
        self.under_way: dict[str, set[int]] = {t.engine: set() for t in tasks}
        """Tasks that have been launched, but do not run yet."""
        self.finished = [False] * len(tasks)
        self.schedule = Schedule([], [0] * len(tasks))

    def play(self) -> float:
        """Schedule all tasks. Returns the makespan."""
        for i, t in enumerate(self.tasks):
            if not t.after:
                self.ready(i)
        self.dispatch()
        while self.launching or self.running or self.waiting:
            self.advance()
        assert len(self.schedule.order) == len(self.tasks)
        return self.now

    def advance(self) -> None:
        super().advance()
        self.dispatch()

    def ready(self, i: int) -> None:
        """All that a task depends on is done: it is a candidate."""
        heappush(self.candidates[self.tasks[i].engine], (-self.priority[i], i))

    def begin(self, i: int) -> None:
        """Task i runs: the next one of its engine may be launched."""
        self.under_way[self.tasks[i].engine].discard(i)
        super().begin(i)

    def finish(self, i: int) -> None:
        self.finished[i] = True
        self.memory.finish(i)
        super().finish(i)

    def dispatch(self) -> None:
        """Launch candidates until none can be."""
        for engine, heap in self.candidates.items():
            while heap and self.launch_one(engine, heap):
                pass

    def launch_one(self, engine: str, heap: list[tuple[float, int]]) -> bool:
        """Launch the first of the engine's candidates that can be. Returns whether there is one."""
        passed: list[tuple[float, int]] = []
        found = None
        while heap and found is None and len(passed) < LOOK_AHEAD:
            entry = heappop(heap)
            if self.has_room(engine, entry[1]) and self.memory.allows(entry[1]):
                found = entry[1]
            else:
                passed.append(entry)
        for entry in passed:
            heappush(heap, entry)
        frontier = self.memory.frontier
        if found is None and self.is_stuck() and (-self.priority[frontier], frontier) in heap:
            heap.remove((-self.priority[frontier], frontier))
            heapify(heap)
            found = frontier
        stream = None if found is None else self.stream_for(found)
        if found is None:
            return False
        if stream is None:
            heappush(heap, (-self.priority[found], found))
            return False
        self.put(found, stream)
        return True

    def is_stuck(self) -> bool:
        """Whether nothing will happen any more unless a task is launched."""
        return not (self.launching or self.running or self.waiting)

    def has_room(self, engine: str, i: int) -> bool:
        """Whether a task should be launched now, if its memory allows it."""
        soon = self.under_way[engine]
        if not soon:
            return True
        free = dict(self.free)
        for j in soon:
            for name, cores in self.tasks[j].cores:
                free[name] -= cores
        return all(free[name] >= cores for name, cores in self.tasks[i].cores)

    def stream_for(self, i: int) -> int | None:
        """A stream of the engine on which nothing is under way; None when there is none."""
        s, engine = self.streams, self.tasks[i].engine
        mine = s.engines[engine]
        idle = [x for x in mine if x not in s.last or self.finished[s.last[x]]]
        if idle:
            earlier = self.before[i]
            return max(idle, key=lambda x: (s.last.get(x, -1) in earlier, -mine.index(x)))
        if s.spare and len(mine) < s.most:
            mine.append(s.spare.pop(0))
            return mine[-1]
        return None

    def put(self, i: int, stream: int) -> None:
        """Launch a task on a stream."""
        users = self.memory.start(i)
        if users:
            self.schedule.after[i] = users
        self.schedule.order.append(i)
        self.schedule.stream[i] = stream
        self.streams.last[stream] = i
        self.under_way[self.tasks[i].engine].add(i)
        self.launch(i)
