"""List scheduling on the simulated machine: tasks start by priority wherever there is room.

A task whose dependencies are done is a candidate. Whenever something ends, candidates are taken by
priority (Graham, SIAM J. Appl. Math. 17, 1969; with the longest path to the end as the priority it
is the critical path method, Kohler, IEEE Trans. Computers 24, 1975):
- a candidate is launched when cores for it are free, or when no other launch is under way for its
  engine, so that its launch is over when the engine is free;
- one that would lift the live bytes over the limit waits (see below); smaller ones pass it;
- it goes to a stream of its engine on which nothing is under way, if possible that of a task that
  it depends on, else to a new one.

The machine is the clock's: launch costs, cores, shared bandwidth. The result is an order of issue,
streams, and the tasks that others wait for because of memory.

A hard limit on the bytes that are live while a segment runs in another order.

Tasks that run in an order of their own keep buffers live that the order of the program would not
keep live together: a scheduler that looks at time alone may take many times the memory. Here a
task may start only if

- its buffers fit beside all that is live now, and
- the rest of the program, in program order, would still fit after it. The order of the program can
  then always go on: a schedule is never stuck (the safe state of Dijkstra's banker's algorithm,
  EWD 108, with one known order as the witness).

That must hold in every run, not only at the times of the clock. Each free byte therefore belongs to
the tasks that used it last; a task that takes it waits for them (by an event, unless the streams
order them already). The live bytes then never exceed the limit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from ge.dialects.targets.target import Target
from ge.runtime.clock.simulation import Simulation, are_free
from ge.runtime.clock.timeline import COMM, Task
from ge.transforms.analysis.task_graph import Window
from ge.transforms.schedule.events import Planned


@dataclass(slots=True, eq=False)
class Life:
    """A buffer while the schedule runs."""

    bytes: int
    users: Sequence[int]
    allocated: bool
    live_after: bool  # when the segment ends
    unfinished: int  # users that are not done
    pending: list[int]  # users in program order, without the last ones that have started
    # The tasks that used its bytes before it
    before: dict[int, None] = field(default_factory=dict[int, None])


class MemoryCap:
    """The tasks that may start under a limit of `cap` bytes, and those that they wait for."""

    def __init__(self, window: Window, cap: int) -> None:
        self.cap = cap
        self.started = [False] * len(window)
        self.frontier = 0  # the first task in program order that has not started
        # Bytes live at each task when those that have not started run in program order.
        self.rest = np.array(window.profile().bytes, np.int64)
        self.lives: list[list[Life]] = [[] for _ in self.started]
        self.live = 0
        for b in window.buffers:
            size, users, begun = window.graph.bytes[b], window.users(b), window.live_before(b)
            life = Life(size, users, begun, window.live_after(b), len(users), list(users))
            self.live += size if begun else 0
            for user in users:
                self.lives[user].append(life)
        # Free bytes with the tasks that used them last; first those that are free longest.
        self.free: deque[tuple[int, tuple[int, ...]]] = deque([(cap - self.live, ())])

    def needs(self, task: int) -> int:
        """The bytes that a task allocates."""
        size = 0
        for life in self.lives[task]:
            if not life.allocated:
                size += life.bytes
        return size

    def allows(self, task: int) -> bool:
        """Return whether a task may start now."""
        size = self.needs(task)
        if not size:
            return True
        if self.live + size > self.cap:
            return False
        return task == self.frontier or self.after(task).max(initial=0) <= self.cap

    def after(self, task: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """The bytes live at each task from the frontier up to `task`, in program order, if `task`
        runs before all of them."""
        first = self.frontier
        rest = self.rest[first : task + 1].copy()
        for life in self.lives[task]:
            if not life.allocated:
                rest[: life.users[0] - first] += life.bytes
            last = self.last(life, task)
            if not life.live_after and last < task:
                rest[max(last + 1 - first, 0) :] -= life.bytes
        return rest

    def start(self, task: int) -> list[int]:
        """Start a task. Returns the tasks that used the bytes of its buffers before them: also of
        buffers that another task has begun, as this one may write its part of them first."""
        size = self.needs(task)
        self.rest[self.frontier : task + 1] = self.after(task)
        self.started[task] = True
        while self.frontier < len(self.started) and self.started[self.frontier]:
            self.frontier += 1
        new = [life for life in self.lives[task] if not life.allocated]
        self.live += size
        users: dict[int, None] = {}
        while size > 0:
            free, last_users = self.free.popleft()
            users |= dict.fromkeys(last_users)
            if free > size:
                self.free.appendleft((free - size, last_users))
            size -= free
        for life in new:
            life.allocated, life.before = True, users
        found: dict[int, None] = {}
        for life in (*new, *self.lives[task]):
            found |= life.before
        return list(found)

    def finish(self, task: int) -> None:
        """A task is done: its buffers without further users are free."""
        for life in self.lives[task]:
            life.unfinished -= 1
            if not life.unfinished and not life.live_after:
                self.live -= life.bytes
                self.free.append((life.bytes, tuple(life.users)))

    def last(self, life: Life, task: int) -> int:
        """The last user of a buffer, in program order, that has not started when `task` has; -1:
        none."""
        pending = life.pending
        while pending and self.started[pending[-1]]:
            pending.pop()
        for user in reversed(pending):
            if user != task and not self.started[user]:
                return user
        return -1


def memory_orderings(window: Window, cap: int) -> dict[int, list[int]]:
    """For tasks in program order those that they wait for to stay below a limit that this order
    keeps, whatever the streams."""
    memory = MemoryCap(window, cap)
    after: dict[int, list[int]] = {}
    for task in range(len(window)):
        if users := memory.start(task):
            after[task] = users
        memory.finish(task)
    return after


LOOK_AHEAD = 16  # candidates of an engine that are looked at while those before cannot start


@dataclass
class Streams:
    """The streams that an engine's tasks may be on, opened when they are needed."""

    spare: list[int]  # used by no engine yet
    most: int  # for one engine
    engines: dict[str, list[int]]  # with one stream each at the start
    last: dict[int, int] = field(default_factory=dict[int, int])  # task issued last to a stream


@dataclass
class Schedule:
    """An order in which to issue tasks, and on which streams."""

    order: list[int]
    stream: list[int]  # of each task, not in the order of issue
    # Task -> those that it waits for because it takes their memory.
    after: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    # The tasks in the order of issue, once it is known what they wait for.
    planned: list[Planned] = field(default_factory=list[Planned])


def path_lengths(
    times: Sequence[float], before: Sequence[Sequence[int]], launch_us: float
) -> list[float]:
    """For each task the longest path to the end: its launch and time, and those of tasks that
    depend on it, one after the other."""
    path = [0.0] * len(times)
    for i in reversed(range(len(times))):
        path[i] += times[i] + launch_us
        for j in before[i]:
            path[j] = max(path[j], path[i])
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
        patient: bool = False,
    ) -> None:
        copies = [t.again(t.stream, t.time, [], []) for t in tasks]
        for copy, earlier in zip(copies, before, strict=True):
            copy.after += [copies[i] for i in earlier]
        super().__init__(copies, target, host_driven=False, is_accounted=False)
        self.before, self.priority = before, priority
        self.memory, self.streams = memory, streams
        # Launch nothing for a busy engine while a task of a higher priority only waits for what
        # runs there: what devices send each other begins earlier if its chunk is made first.
        self.patient = patient
        self.overtakes = False  # a patient scheduler would do something else
        self.held: dict[int, list[int]] = {}  # task -> those that it waits for by patience
        # For each engine a heap of candidates, and the tasks that are launched but do not run yet.
        self.candidates: dict[str, list[tuple[float, int]]] = {t.engine: [] for t in tasks}
        self.under_way: dict[str, set[int]] = {t.engine: set() for t in tasks}
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
        heappush(self.candidates[self.tasks[i].engine], (-self.priority[i], i))

    def begin(self, i: int) -> None:
        self.under_way[self.tasks[i].engine].discard(i)
        super().begin(i)

    def finish(self, i: int) -> None:
        self.finished[i] = True
        self.memory.finish(i)
        super().finish(i)

    def dispatch(self) -> None:
        for engine, heap in self.candidates.items():
            while heap and self.launch_one(engine, heap):
                pass

    def launch_one(self, engine: str, heap: list[tuple[float, int]]) -> bool:
        """Launch the first of the engine's candidates that can start; whether there is one."""
        passed: list[tuple[float, int]] = []
        chosen = None
        while heap and chosen is None and len(passed) < LOOK_AHEAD:
            entry = heappop(heap)
            i = entry[1]
            if self.has_room(engine, i) and self.memory.allows(i) and not self.waits(engine, i):
                chosen = entry
            else:
                passed.append(entry)
        for entry in passed:
            heappush(heap, entry)
        if chosen is None and not (self.launching or self.running or self.waiting):
            # Nothing happens any more unless the next task in program order is launched.
            frontier = -self.priority[self.memory.frontier], self.memory.frontier
            if frontier in heap:
                heap.remove(frontier)
                heapify(heap)
                chosen = frontier
        if chosen is None:
            return False
        if (stream := self.stream_for(chosen[1])) is None:
            heappush(heap, chosen)
            return False
        self.put(chosen[1], stream)
        return True

    def has_room(self, engine: str, i: int) -> bool:
        """Return whether cores would be free for a task, or nothing else is under way."""
        under_way = self.under_way[engine]
        if not under_way:
            return True
        free = dict(self.free)
        for j in under_way:
            for name, cores in self.tasks[j].cores:
                free[name] -= cores
        return are_free(self.tasks[i].cores, free)

    def waits(self, engine: str, i: int) -> bool:
        """Return whether this scheduler waits with the launch of a task for one that comes before
        it. It then also waits for what runs there: streams would start it earlier."""
        if self.overtakes or not self.is_early(engine, i):
            return False
        if not self.patient:
            self.overtakes = True
            return False
        self.held[i] = [j for j in self.running if self.tasks[j].engine == engine]
        return True

    def is_early(self, engine: str, i: int) -> bool:
        """Return whether a patient scheduler waits for a task that comes before this one, with the
        launch of this one, as long as the engine is busy."""
        if engine == COMM or COMM not in self.candidates:
            return False
        if are_free(self.tasks[i].cores, self.free):
            return False
        running = [j for j in self.running if self.tasks[j].engine == engine]
        return any(
            self.tasks[j].engine == engine
            and self.priority[j] > self.priority[i]
            and self.missing[j] == sum(before in running for before in self.before[j])
            for r in running
            for j in self.followers[r]
        )

    def stream_for(self, i: int) -> int | None:
        """A stream of the engine on which nothing is under way; None when there is none."""
        s = self.streams
        own = s.engines[self.tasks[i].engine]
        idle = [x for x in own if x not in s.last or self.finished[s.last[x]]]
        if idle:
            earlier = self.before[i]
            return max(idle, key=lambda x: (s.last.get(x, -1) in earlier, -own.index(x)))
        # collectives meet those of other devices in one order
        if s.spare and len(own) < s.most and self.tasks[i].engine != COMM:
            own.append(s.spare.pop(0))
            return own[-1]
        return None

    def put(self, i: int, stream: int) -> None:
        users = self.memory.start(i)
        if users := [*dict.fromkeys((*users, *self.held.get(i, ())))]:
            self.schedule.after[i] = users
        self.schedule.order.append(i)
        self.schedule.stream[i] = stream
        self.streams.last[stream] = i
        self.under_way[self.tasks[i].engine].add(i)
        self.launch(i)
