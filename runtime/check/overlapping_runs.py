"""Proof that runs which overlap do not disturb each other: of two tasks of different runs on the
same bytes, one of which writes, one waits for the other.

Inputs and outputs with slots of their own (`places.py`) have `prefetch` sets of memory, which runs
take in turn; all else is there once. A slot that a task touches counts as a whole. Given are the
tasks of all runs in the order of issue, each with those that it waits for; what the tasks of one
run do to each other is proved by `memory.py`.
"""

from collections.abc import Container, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.memory import access, owner_of
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.npu_task.places import input_places, output_places
from ge.dialects.support.types import byte_size
from ge.runtime.check.problems import Problem, name_of


class Issued(Protocol):
    """A task of a run."""

    @property
    def op(self) -> Operation: ...

    @property
    def run(self) -> int: ...

    @property
    def after(self) -> "Sequence[Issued]": ...


class Touched(NamedTuple):
    memory: tuple[str, int]  # segment, and which set of it
    low: int
    high: int
    writes: bool

    def disturbs(self, other: "Touched") -> bool:
        shared = self.low < other.high and other.low < self.high
        return shared and self.memory == other.memory and (self.writes or other.writes)


def check_runs(main: FuncOp, tasks: Sequence[Issued], prefetch: int) -> Iterator[Problem]:
    """What is wrong with runs that overlap, of which so many copies are made ahead."""
    before: dict[Issued, int] = {}  # a bit for each task that has ended
    for i, task in enumerate(tasks):
        before[task] = 1 << i
        for other in task.after:
            if other not in before:
                yield Problem("S9", f"{of_run(task)} waits for one that is issued later", task.op)
            before[task] |= before.get(other, 0)
    block = main.body.block
    places = (*input_places(block).values(), *output_places(block).values())
    in_turn = {p.value.owner for p in places if p.is_slot}
    touched = [list(slots_of(t, in_turn, prefetch)) for t in tasks]
    for (i, a), (j, b) in combinations(enumerate(tasks), 2):
        if a.run == b.run or before[b] >> i & 1:
            continue
        if any(mine.disturbs(other) for mine in touched[i] for other in touched[j]):
            text = f"{of_run(a)} and {of_run(b)} touch the same bytes, and nothing orders them"
            yield Problem("S10", text, b.op)


def of_run(task: Issued) -> str:
    return f"{name_of(task.op)} of run {task.run}"


def slots_of(task: Issued, in_turn: Container[object], prefetch: int) -> Iterator[Touched]:
    effects = access(task.op)
    for values, writes in ((effects.reads, False), (effects.writes, True)):
        for slot in map(owner_of, values):
            if isinstance(op := slot.owner, SlotOp):
                low = op.offset.value.data
                memory = op.segment.data, task.run % prefetch if op in in_turn else 0
                yield Touched(memory, low, low + byte_size(slot.type), writes)
