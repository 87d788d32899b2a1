"""Proof of a schedule, from the IR alone: its streams are replayed (`happens_before.py`).

`check_streams(module, target)` checks rules S1 to S7 (docs/proofs.md). Where events are recorded
before they are waited for, no streams wait for each other in a circle.

Nothing here is shared with the scheduler in `transforms`; `memory.py` proves that no two tasks race
for the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.attributes import HBM
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import RecordOp, SlotOp, WaitOp, event_number
from ge.dialects.npu_task.program_info import CAP, figure, is_outside_arena
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, byte_size, is_dynamic
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.happens_before import Epoch, HappensBefore, Item
from ge.runtime.check.memory import check_plan
from ge.runtime.check.problems import Problem, require_none

# ---- live bytes ------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class CappedBuffer:
    """A buffer of the arena, as one epoch uses it."""

    bytes: int
    users: list[Item]
    live_in: bool
    live_out: bool


def arena_buffers(op: Operation) -> Iterator[SSAValue]:
    for inner in op.walk():
        for value in (*inner.operands, *inner.results):
            if not isinstance(value.type, MemRefType):
                continue
            buffer = owner_of(value)
            owner = buffer.owner
            if isinstance(owner, SlotOp) and owner.segment.data == "arena":
                yield buffer
            elif isinstance(owner, AllocOp) and not is_outside_arena(owner):
                if owner.memref.type.memory_space == HBM and not is_dynamic(owner.memref.type):
                    yield buffer


class RunAhead:
    """The run of an epoch in which one stream is as far ahead as it can be: tasks that others wait
    for run only when it cannot go on without them."""

    def __init__(self, epoch: Epoch, buffers: Sequence[CappedBuffer]) -> None:
        self.streams = epoch.streams
        self.uses: dict[Item, list[CappedBuffer]] = {}
        for buffer in buffers:
            for user in buffer.users:
                self.uses.setdefault(user, []).append(buffer)
        self.users_left = {b: len(b.users) for b in buffers}
        self.started = {b for b in buffers if b.live_in}
        self.position = [0] * len(epoch.streams)
        self.live = self.most = sum(b.bytes for b in self.started)

    def most_live(self, ahead: int) -> int:
        for stream in (ahead, *range(len(self.streams))):
            while self.head(stream) is not None:
                self.finish(stream)
        return self.most

    def head(self, stream: int) -> Item | None:
        """The next task or blocked wait of a stream. Records and other waits take no time."""
        items = self.streams[stream]
        while (place := self.position[stream]) < len(items):
            item, record = items[place], items[place].record
            if item.is_task or (record and self.position[record.stream] < record.number):
                return item
            self.position[stream] += 1
        return None

    def start_all(self) -> None:
        """Start the next tasks of all streams: what they write to is live."""
        for stream in range(len(self.streams)):
            item = self.head(stream)
            for buffer in self.uses.get(item, ()) if item is not None else ():
                if buffer not in self.started:
                    self.started.add(buffer)
                    self.live += buffer.bytes
        self.most = max(self.most, self.live)

    def finish(self, stream: int) -> None:
        self.start_all()
        while (item := self.head(stream)) is not None and not item.is_task:
            assert item.record is not None
            self.finish(item.record.stream)
        if item is None:
            return
        self.position[stream] += 1
        for buffer in self.uses.get(item, ()):
            self.users_left[buffer] -= 1
            if not self.users_left[buffer] and not buffer.live_out:
                self.live -= buffer.bytes


# ---- the whole program -----------------------------------------------------------------------


@dataclass
class StreamChecker:
    func: FuncOp
    target: Target
    order: HappensBefore
    problems: list[Problem] = field(default_factory=list[Problem])

    def check(self) -> list[Problem]:
        self.check_limits()
        self.problems += self.order.strays
        for epoch in self.order.epochs:
            self.problems += epoch.problems
        cap = self.func.attributes.get(CAP)
        if isinstance(cap, IntegerAttr) and not self.problems:
            self.check_cap(cap.value.data)
        return self.problems

    def check_limits(self) -> None:
        records = (op for op in self.func.walk() if isinstance(op, RecordOp))
        events = {event_number(op): op for op in records}
        stated = figure(self.func, "events")
        for event, op in events.items():
            if event < 0 or (stated is not None and event >= stated):
                text = f"event {event} is not among those that the program states"
                self.problems.append(Problem("S2", text, op))
        for what, count, limit in (
            ("streams", self.order.stated, self.target.max_streams),
            ("events", max(len(events), stated or 0), self.target.max_events),
        ):
            if count > limit:
                text = f"the program has {count} {what}, {self.target.name} has {limit}"
                self.problems.append(Problem("S3", text, self.func))

    def check_cap(self, cap: int) -> None:
        parts = self.order.parts
        users: list[dict[SSAValue, list[Item]]] = [{} for _ in parts]
        for uses, part in zip(users, parts, strict=True):
            for op in [i.op for i in part.items] if isinstance(part, Epoch) else [part]:
                for buffer in dict.fromkeys(arena_buffers(op)):
                    uses.setdefault(buffer, []).extend([i for i in [self.order.items.get(op)] if i])
        first = {b: i for i in range(len(parts) - 1, -1, -1) for b in users[i]}
        last = {b: i for i in range(len(parts)) for b in users[i]}
        alignment = self.target.hbm_alignment
        for i, part in enumerate(parts):
            if not isinstance(part, Epoch) or not part.items:
                continue
            buffers = [
                CappedBuffer(
                    align_up(byte_size(b.type), alignment),
                    users[i].get(b, []),
                    first[b] < i,
                    last[b] > i,
                )
                for b in first
                if first[b] <= i <= last[b]
            ]
            for stream, queue in enumerate(part.streams):
                if queue and (most := RunAhead(part, buffers).most_live(stream)) > cap:
                    text = f"{most} bytes may be live when stream {stream} runs ahead, not {cap}"
                    self.problems.append(Problem("S7", text, queue[0].op))


def check_streams(
    module: ModuleOp, target: Target | None = None, order: HappensBefore | None = None
) -> list[Problem]:
    """What is wrong with the streams and events of a program, and with the bytes that it states to
    be live at most. Without a target, its limits are those of the one that the program names.
    Raises GeError when that cannot be read."""
    if (main := main_function(module)) is None:
        return []
    return StreamChecker(main, target or target_for(main), order or HappensBefore(main)).check()


def useless_events(module: ModuleOp) -> list[Problem]:
    """The records that nobody needs, and the waits for what the order of a stream or another event
    tells already: they cost time, no more."""
    if (main := main_function(module)) is None:
        return []
    useful = {op for epoch in HappensBefore(main).epochs for op in epoch.useful()}
    return [
        Problem("S8", f"{op.name} of event {event_number(op)} orders nothing", op)
        for op in main.walk()
        if isinstance(op, RecordOp | WaitOp) and op not in useful
    ]


def check_schedule(module: ModuleOp, target: Target | None = None) -> list[Problem]:
    """As `check_streams`, and races."""
    races = [p for p in check_plan(module) if p.kind == "race"]
    return [*check_streams(module, target), *races]


def require_schedule(
    module: ModuleOp, target: Target | None = None, with_races: bool = True
) -> None:
    check = check_schedule if with_races else check_streams
    require_none(check(module, target), "schedule")
