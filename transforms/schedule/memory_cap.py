"""A hard limit on the bytes that are live while a segment runs in another order.

Tasks that run in an order of their own keep buffers live that the order of the program would not
keep live together: a scheduler that looks at time alone may take many times the memory. Here a
task may start only if

- its buffers fit beside all that is live now, and
- the rest of the program, in program order, would still fit after it. The order of the program can
  then always go on: a schedule is never stuck (the safe state of Dijkstra's banker's algorithm,
  EWD 108, with one known order as the witness).

That must hold in every run, not only at the times of the clock. Each free byte therefore belongs to
the tasks that used it last; a task that takes it waits for them (by an event, unless the streams
order them already). The live bytes then never exceed the limit.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ge.transforms.analysis.task_graph import Window


@dataclass(slots=True, eq=False)
class Life:
    """A buffer while the schedule runs."""

    bytes: int
    users: Sequence[int]
    allocated: bool
    live_after: bool  # when the segment ends
    unfinished: int  # users that are not done
    pending: list[int]  # users in program order, without the last ones that have started
    before: tuple[int, ...] = ()  # the tasks that used its bytes before it


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
        return sum(life.bytes for life in self.lives[task] if not life.allocated)

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
            life.allocated, life.before = True, tuple(users)
        return list(users | dict.fromkeys(u for life in self.lives[task] for u in life.before))

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
        return next((u for u in reversed(pending) if u != task and not self.started[u]), -1)


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
