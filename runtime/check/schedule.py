"""Proof of a schedule, from the program's text alone: its streams are replayed, item by item.

`check_schedule(module, target)` reads what is issued between two barriers as one queue for each
stream, of tasks, records and waits, and reports

- stream: a task or event on no stream; an event that is none of those that the program states;
  more streams or events than the target has;
- lost wake-up: a wait for an event that is recorded never, or only later;
- deadlock: streams that wait for each other in a circle;
- reused: an event that is recorded again before all that wait for it are sure to have passed;
- cap: more bytes alive than the program states (`npu_task.cap_bytes`), in a run in which one of the
  streams is ahead of all others as far as events let it, each in turn.

What is sure is what holds in every run: an item runs after those before it on its stream, and a
wait after the record that it is for, whatever the time that tasks take. Nothing here is shared with
the scheduler in `transforms`; what tasks do to each other's bytes is the subject of `memory.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import (
    HBM,
    CopyOp,
    LaunchOp,
    RecordOp,
    SlotOp,
    TransferOp,
    WaitOp,
    is_dynamic,
)
from ge.dialects.npu_task.program_info import CAP, IO, figure
from ge.dialects.support.diagnostics import error_at, listing
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.memory import check_plan
from ge.runtime.check.problems import Problem, placed


@dataclass(slots=True, eq=False)
class Item:
    """A task, record or wait: the `number`-th of its stream."""

    op: Operation
    stream: int
    number: int
    record: "Item | None" = None
    """What a wait waits for."""
    clock: list[int] = field(default_factory=list[int])
    """How many items of each stream are sure to be done when this one is."""

    def follows(self, other: "Item") -> bool:
        """Whether this item is sure to run after another one is done."""
        return self.clock[other.stream] >= other.number

    @property
    def is_task(self) -> bool:
        return isinstance(self.op, LaunchOp | CopyOp | TransferOp)


class Queues:
    """What is issued between two barriers, by stream, and what is wrong with it."""

    def __init__(self, streams: int) -> None:
        self.streams: list[list[Item]] = [[] for _ in range(streams)]
        self.items: list[Item] = []
        self.problems: list[Problem] = []

    def report(self, kind: str, op: Operation, message: str) -> None:
        self.problems.append(Problem(kind, message, op))

    def add(self, op: Operation) -> None:
        """Issue an op to its stream."""
        stream = op.properties.get("stream")
        number = stream.value.data if isinstance(stream, IntegerAttr) else -1
        if not 0 <= number < len(self.streams):
            count = len(self.streams)
            self.report("stream", op, f"{placed(op)} is on none of the {count} streams")
            return
        queue = self.streams[number]
        queue.append(Item(op, number, len(queue) + 1))
        self.items.append(queue[-1])

    def check(self) -> None:
        """Replay the queues."""
        late = self.match()
        if not self.play():
            return
        for wait in late:
            assert wait.record is not None
            event, by = event_of(wait.op), before(self.streams[wait.stream], wait)
            text = f"the wait for event {event} before {by} is issued before the event is recorded"
            self.report("lost wake-up", wait.op, text)
        self.check_reuse()

    def match(self) -> list[Item]:
        """Find the record that each wait is for: the last one issued before. Returns the waits
        whose event is recorded only later."""
        last: dict[int, Item] = {}
        waiting: dict[int, list[Item]] = {}
        late: list[Item] = []
        for item in self.items:
            if isinstance(item.op, RecordOp):
                event = event_of(item.op)
                last[event] = item
                for wait in waiting.pop(event, ()):
                    wait.record = item
                    late.append(wait)
            elif isinstance(item.op, WaitOp):
                item.record = last.get(event_of(item.op))
                if item.record is None:
                    waiting.setdefault(event_of(item.op), []).append(item)
        for waits in waiting.values():
            for wait in waits:
                by = before(self.streams[wait.stream], wait)
                text = f"event {event_of(wait.op)} is never recorded, {by} waits for it"
                self.report("lost wake-up", wait.op, text)
        return late

    def play(self) -> bool:
        """Run all streams as far as they go and give each item its clock. Returns whether they come
        to their ends; reports a deadlock where they do not."""
        at = [0] * len(self.streams)
        clocks = [[0] * len(self.streams) for _ in self.streams]
        moved = True
        while moved:
            moved = False
            for s, queue in enumerate(self.streams):
                while at[s] < len(queue):
                    item = queue[at[s]]
                    record = item.record
                    if record is not None:
                        if not record.clock:
                            break
                        pairs = zip(clocks[s], record.clock, strict=True)
                        clocks[s] = [max(p) for p in pairs]
                    clocks[s][s] = item.number
                    item.clock = list(clocks[s])
                    at[s] += 1
                    moved = True
        stuck = [queue[i] for queue, i in zip(self.streams, at, strict=True) if i < len(queue)]
        if stuck:
            texts: list[str] = []
            for wait in stuck:
                assert wait.record is not None
                by = before(self.streams[wait.stream], wait)
                after = behind(self.streams[wait.record.stream], wait.record)
                texts.append(
                    f"stream {wait.stream} waits before {by} for event {event_of(wait.op)}, which "
                    f"stream {wait.record.stream} records after {after}"
                )
            self.report("deadlock", stuck[0].op, f"deadlock: {'; '.join(texts)}")
        return not stuck

    def check_reuse(self) -> None:
        """Report events that are recorded again before all their waits have passed."""
        last: dict[int, Item] = {}
        waits: dict[Item, list[Item]] = {}
        for item in self.items:
            if item.record is not None:
                waits.setdefault(item.record, []).append(item)
        for item in self.items:
            if not isinstance(item.op, RecordOp):
                continue
            event = event_of(item.op)
            older = last.get(event)
            for wait in waits.get(older, ()) if older is not None else ():
                if not item.follows(wait):
                    by = before(self.streams[wait.stream], wait)
                    after = behind(self.streams[item.stream], item)
                    text = f"event {event} is recorded again after {after} while {by} may wait"
                    self.report("reused", item.op, f"{text} for it")
            last[event] = item


def event_of(op: Operation) -> int:
    assert isinstance(op, RecordOp | WaitOp)
    return op.event.value.data


def before(queue: Sequence[Item], item: Item) -> str:
    """The next task of a stream."""
    after = (i.op for i in queue[item.number :] if i.is_task)
    return placed(op) if (op := next(after, None)) is not None else "the end"


def behind(queue: Sequence[Item], item: Item) -> str:
    """The last task of a stream before an item."""
    earlier = (i.op for i in reversed(queue[: item.number - 1]) if i.is_task)
    return placed(op) if (op := next(earlier, None)) is not None else "its beginning"


# ---- bytes alive -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer of the arena, in the part of the program that is replayed."""

    bytes: int
    users: list[Item]
    alive_before: bool
    alive_after: bool


def arena_buffers(op: Operation) -> Iterator[SSAValue]:
    """The buffers of the arena that an op, or what is inside of it, uses."""
    for inner in op.walk():
        for value in (*inner.operands, *inner.results):
            if not isinstance(value.type, MemRefType):
                continue
            buffer = owner_of(value)
            owner = buffer.owner
            if isinstance(owner, SlotOp) and owner.segment.data == "arena":
                yield buffer
            elif isinstance(owner, AllocOp) and IO not in owner.attributes:
                if owner.memref.type.memory_space == HBM and not is_dynamic(owner.memref.type):
                    yield buffer


def most_alive(queues: Queues, buffers: Sequence[Buffer], ahead: int) -> int:
    """The most bytes alive in the run in which stream `ahead` is as far ahead as it can be. Tasks
    that others wait for run only when it cannot go on without them."""
    touched: dict[Item, list[int]] = {}
    for i, b in enumerate(buffers):
        for user in b.users:
            touched.setdefault(user, []).append(i)
    left = [len(b.users) for b in buffers]
    born = [b.alive_before for b in buffers]
    at = [0] * len(queues.streams)
    alive = most = sum(b.bytes for b in buffers if b.alive_before)

    def passed(wait: Item) -> bool:
        return wait.record is None or at[wait.record.stream] >= wait.record.number

    def head(stream: int) -> Item | None:
        """The next task or blocked wait of a stream. Records and other waits take no time."""
        queue = queues.streams[stream]
        while at[stream] < len(queue):
            item = queue[at[stream]]
            if item.is_task or not passed(item):
                return item
            at[stream] += 1
        return None

    def start_all() -> None:
        """Let the next tasks of all streams start: what they write to is alive."""
        nonlocal alive, most
        for stream in range(len(queues.streams)):
            item = head(stream)
            for i in touched.get(item, ()) if item is not None else ():
                if not born[i]:
                    born[i] = True
                    alive += buffers[i].bytes
        most = max(most, alive)

    def finish(stream: int) -> None:
        """Let the next task of a stream end, after what it has to wait for."""
        nonlocal alive
        start_all()
        while (item := head(stream)) is not None and not item.is_task:
            assert item.record is not None
            finish(item.record.stream)
        if item is None:
            return
        at[stream] += 1
        for i in touched.get(item, ()):
            left[i] -= 1
            if not left[i] and not buffers[i].alive_after:
                alive -= buffers[i].bytes

    for stream in (ahead, *range(len(queues.streams))):
        while head(stream) is not None:
            finish(stream)
    return most


# ---- the whole program -----------------------------------------------------------------------


class Replay:
    """Replays the main function of a program."""

    def __init__(self, func: FuncOp, target: Target) -> None:
        self.func, self.target = func, target
        self.streams = max(min(figure(func, "streams") or 0, target.max_streams), 0)
        self.problems: list[Problem] = []

    def run(self) -> list[Problem]:
        """Replay all parts of the function; what is wrong with them."""
        self.check_limits()
        parts = list(self.parts(self.func.body.block))
        for part in parts:
            if isinstance(part, Queues):
                part.check()
                self.problems += part.problems
        cap = self.func.attributes.get(CAP)
        if isinstance(cap, IntegerAttr) and not self.problems:
            self.check_cap(parts, cap.value.data)
        return self.problems

    def check_limits(self) -> None:
        """Report more streams or events than the target has, and events beyond those stated."""
        events = {event_of(op): op for op in self.func.walk() if isinstance(op, RecordOp | WaitOp)}
        stated = figure(self.func, "events")
        for event, op in events.items():
            if event < 0 or (stated is not None and event >= stated):
                text = f"event {event} is none of those that the program states"
                self.problems.append(Problem("stream", text, op))
        for what, count, limit in (
            ("streams", figure(self.func, "streams") or 0, self.target.max_streams),
            ("events", max(len(events), stated or 0), self.target.max_events),
        ):
            if count > limit:
                text = f"the program has {count} {what}, {self.target.name} has {limit}"
                self.problems.append(Problem("stream", text, self.func))

    def parts(self, block: Block) -> Iterator[Queues | Operation]:
        """What a block issues between barriers, and the barriers; parts inside of control flow are
        checked at once."""
        queues = Queues(self.streams)
        for op in block.ops:
            if op.regions:
                yield queues
                for inner in (b for r in op.regions for b in r.blocks):
                    for part in self.parts(inner):
                        if isinstance(part, Queues):
                            part.check()
                            self.problems += part.problems
                yield op
                queues = Queues(self.streams)
            elif isinstance(op, LaunchOp | CopyOp | TransferOp | RecordOp | WaitOp):
                queues.add(op)
        yield queues

    def check_cap(self, parts: Sequence[Queues | Operation], cap: int) -> None:
        """Report a part in which more than `cap` bytes may be alive."""
        used: list[dict[SSAValue, list[Item]]] = [{} for _ in parts]
        for found, part in zip(used, parts, strict=True):
            items = part.items if isinstance(part, Queues) else ()
            tasks: Iterable[tuple[Operation, list[Item]]] = (
                [(part, [])] if isinstance(part, Operation) else [(i.op, [i]) for i in items]
            )
            for op, item in tasks:
                for buffer in dict.fromkeys(arena_buffers(op)):
                    found.setdefault(buffer, []).extend(item)
        first = {b: i for i in range(len(parts) - 1, -1, -1) for b in used[i]}
        last = {b: i for i in range(len(parts)) for b in used[i]}
        alignment = self.target.hbm_alignment
        for i, part in enumerate(parts):
            if not isinstance(part, Queues) or not part.items:
                continue
            buffers = [
                Buffer(
                    -(-byte_size(b.type) // alignment) * alignment,
                    used[i].get(b, []),
                    first[b] < i,
                    last[b] > i,
                )
                for b in first
                if first[b] <= i <= last[b]
            ]
            for stream, queue in enumerate(part.streams):
                if queue and (most := most_alive(part, buffers, stream)) > cap:
                    text = f"{most} bytes may be alive when stream {stream} runs ahead, not {cap}"
                    self.problems.append(Problem("cap", text, queue[0].op))


def check_streams(module: ModuleOp, target: Target) -> list[Problem]:
    """What is wrong with the streams and events of a program, and with the bytes that it states to
    be alive at most; nothing if they are proved."""
    main = main_function(module)
    return [] if main is None else Replay(main, target).run()


def check_schedule(module: ModuleOp, target: Target | None = None) -> list[Problem]:
    """As `check_streams`, and races. Without a target, its limits are those of the one that the
    program names. Raises GeError when that cannot be read."""
    if (main := main_function(module)) is None:
        return []
    races = [p for p in check_plan(module) if p.kind == "race"]
    return [*check_streams(module, target or target_for(main)), *races]


def require_schedule(
    module: ModuleOp, target: Target | None = None, with_races: bool = True
) -> None:
    """Raises GeError that lists what is wrong with a program's schedule, if anything is. Target and
    other errors as in `check_schedule`."""
    if with_races or (main := main_function(module)) is None:
        problems = check_schedule(module, target)
    else:
        problems = check_streams(module, target or target_for(main))
    if problems:
        hint = "compile the model again; if the compiler made it, this is a bug of the compiler"
        text = f"the schedule is not safe: {listing([p.message for p in problems])}"
        raise error_at(problems[0].op, text, hint)
