"""Proof of the work that the threads of a host do in a call: that nothing is launched before its
arguments and tilings are there, that no buffer is overwritten while somebody still reads it, and
that threads and device do not wait for each other in a circle.

It takes the schedule as data, and the order of the device's own tasks (streams and events) from the
text of the program. Trusted are the buffers that a task says it reads and writes, and that those of
an earlier call still hold what it left there. A is before B where one follows from the other: the
order of a thread or of a stream, the waits of a task, the tasks that it issues.

    problem                  meaning
    deadlock                 tasks that wait for each other
    issued                   a task of the device is issued never, or twice
    too early                a task is issued before one that it waits for: it would not wait
    not written              a launch reads arguments or tilings that are not written before it
    not copied               a launch does not wait for the copy of its tilings
    overwritten              a buffer is written while a launch may still read what it held before
"""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Protocol

from xdsl.ir import Operation

from ge.runtime.check.happens_before import Epoch

Block = tuple[str, int]


class HostTask(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> int: ...
    @property
    def after(self) -> "Sequence[HostTask]": ...
    @property
    def until(self) -> Sequence[int]: ...
    @property
    def issues(self) -> Sequence[int]: ...
    @property
    def writes(self) -> Block | None: ...
    @property
    def reads(self) -> Sequence[tuple[Block, int]]: ...


class TilingCopy(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def block(self) -> Block: ...
    @property
    def launches(self) -> Sequence[int]: ...


class HostSchedule(Protocol):
    @property
    def tasks(self) -> Sequence[Sequence[HostTask]]: ...
    @property
    def copies(self) -> Sequence[TilingCopy]: ...


def host_problems(schedule: HostSchedule, ops: Iterable[Operation]) -> list[str]:
    """Errors in a schedule; `ops` are the program's between two barriers, events too."""
    return _Proof(schedule, device_order(ops)).problems()


def device_order(ops: Iterable[Operation]) -> list[list[int]]:
    """For each task the last ones of each stream that end before it starts: by its own stream, and
    by events."""
    epoch = Epoch.of(ops)
    tasks = [item for item in epoch.items if item.is_task]
    number = {item: i for i, item in enumerate(tasks)}
    return [[number[other] for other in epoch.tasks_before(item)] for item in tasks]


class _Proof:
    """Nodes are numbers: the device's tasks, its copies of tilings, then the tasks of threads."""

    def __init__(self, schedule: HostSchedule, order: Sequence[Sequence[int]]) -> None:
        self.schedule, self.device = schedule, len(order)
        self.hosts = [task for tasks in schedule.tasks for task in tasks]
        first = self.device + len(schedule.copies)
        self.number = {id(task): first + i for i, task in enumerate(self.hosts)}
        self.issuers: dict[int, list[HostTask]] = {}
        for task in self.hosts:
            for i in task.issues:
                self.issuers.setdefault(i, []).append(task)
        self.order = order
        self.before = self._edges(order)
        self.names = {self.number[id(t)]: f"'{t.name}'" for t in self.hosts}
        self.sets = self._ancestors()

    def _edges(self, order: Sequence[Sequence[int]]) -> list[list[int]]:
        before = [*map(list, order), *([] for _ in self.schedule.copies), *([] for _ in self.hosts)]
        for copy in self.schedule.copies:
            for launch in copy.launches:
                before[launch].append(copy.number)
        for tasks in self.schedule.tasks:
            for i, task in enumerate(tasks):
                own = before[self.number[id(task)]]
                own += [self.number[id(tasks[i - 1])]] if i else []
                own += [self.number[id(other)] for other in task.after]
                own += task.until
                for issued in task.issues:
                    before[issued].append(self.number[id(task)])
        return before

    def _ancestors(self) -> list[int] | None:
        """For each node the set of those before it, as bits; None where they wait in a circle."""
        sets = [0] * len(self.before)
        try:
            for node in TopologicalSorter(dict(enumerate(self.before))).static_order():
                for other in self.before[node]:
                    sets[node] |= sets[other] | 1 << other
        except CycleError:
            return None
        return sets

    def is_before(self, first: int, then: int) -> bool:
        assert self.sets is not None
        return bool(self.sets[then] >> first & 1)

    def problems(self) -> list[str]:
        if self.sets is None:
            return ["deadlock: threads and device wait for each other in a circle"]
        count = self.device + len(self.schedule.copies)
        problems = [
            f"issued: task {i} of the device is issued {len(self.issuers.get(i, ()))} times"
            for i in range(count)
            if len(self.issuers.get(i, ())) != 1
        ]
        problems += self._too_early()
        writers: dict[Block, list[HostTask]] = {}
        for task in self.hosts:
            if task.writes is not None:
                writers.setdefault(task.writes, []).append(task)
        copied: dict[Block, list[TilingCopy]] = {}
        for copy in self.schedule.copies:
            copied.setdefault(copy.block, []).append(copy)
        for task in self.hosts:
            for block, unit in task.reads:
                problems += self._read(task, block, unit, writers.get(block, ()), copied)
        return list(dict.fromkeys(problems))

    def _too_early(self) -> Iterable[str]:
        """Tasks of the device that may be issued before one that they wait for."""
        for then, before in enumerate(self.order):
            for first in before:
                one, other = (self.issuers.get(i, [])[:1] for i in (first, then))
                if one and other and one != other:
                    if not self.is_before(self.number[id(one[0])], self.number[id(other[0])]):
                        yield f"too early: task {then} may be issued before task {first}"

    def _read(
        self,
        task: HostTask,
        block: Block,
        unit: int,
        writers: Sequence[HostTask],
        copied: Mapping[Block, Sequence[TilingCopy]],
    ) -> Iterable[str]:
        """Yield errors in a task's reading of a block that a unit has written."""
        node = self.number[id(task)]
        own = [w for w in writers if w.unit == unit]
        text = f"{block[0]} buffer {block[1]} of '{task.name}' (unit {task.unit})"
        on_device = block[0] == "tiling"
        if not own and unit >= 0:  # else it is there from an earlier call
            yield f"not written: {text}"
        for writer in own:
            if not self.is_before(self.number[id(writer)], node):
                yield f"not written: {text} may be read before it is written"
        launches = [i for i in task.issues if i < self.device] if on_device else []
        for writer in own:
            there = self.number[id(writer)]
            copies = [c.number for c in copied.get(block, ()) if self.is_before(there, c.number)]
            if not all(any(self.is_before(c, i) for c in copies) for i in launches):
                yield f"not copied: {text}"
        readers = [node, *task.issues] if on_device else [node]
        for other in writers:
            there = self.number[id(other)]
            if other.unit == unit:
                continue
            earlier = bool(own) and all(self.is_before(there, self.number[id(w)]) for w in own)
            if not earlier and not all(self.is_before(reader, there) for reader in readers):
                yield f"overwritten: {text} by '{other.name}' (unit {other.unit})"
