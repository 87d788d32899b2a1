"""Proof of a schedule, from the IR alone: its streams are replayed (`happens_before.py`).

`check_streams(module, target)` checks rules S1 to S7 (docs/proofs.md). Where events are recorded
before they are waited for, no streams wait for each other in a circle.

Nothing here is shared with the scheduler in `transforms`; `memory.py` proves that no two tasks race
for the same bytes.

An engine runs the kernels that are its own: matmuls the cube, shape arithmetic the host, the rest
the vector cores; their work on the cores is proved by tile programs (`tiles.py`).

Runs which overlap do not disturb each other: of two tasks of different runs on the
same bytes, one of which writes, one waits for the other.

Inputs and outputs with slots of their own (`npu_task/memory.py`) have `prefetch` sets of memory,
which runs take in turn; all else is there once. A slot that a task touches counts as a whole.
Given are the tasks of all runs in the order of issue, each with those that it waits for; that the
tasks of one run do not disturb each other is proved by `memory.py`."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple, Protocol

from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.collectives import Collective
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.npu_task.attributes import CAP, HBM, OPEN_TILES, Engine, figure, is_outside_arena
from ge.dialects.npu_task.memory import access, input_places, output_places, owner_of
from ge.dialects.npu_task.ops import KernelOp, RecordOp, SlotOp, WaitOp, event_number
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, byte_size, is_dynamic
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.happens_before import Epoch, HappensBefore, Item
from ge.runtime.check.memory import check_plan
from ge.runtime.check.problems import Problem, name_of, require_none

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
        """Start the next tasks of all streams: the memory that they write to is live."""
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
    """Errors in the streams and events of a program, and in the bytes that it states to be live at
    most. Without a target, its limits are those of the one that the program names. Raises GeError
    if that cannot be read."""
    if (main := main_function(module)) is None:
        return []
    return StreamChecker(main, target or target_for(main), order or HappensBefore(main)).check()


def useless_events(module: ModuleOp) -> list[Problem]:
    """The records that nobody needs, and the waits that the order of a stream or another event
    implies already: they cost time, no more."""
    if (main := main_function(module)) is None:
        return []
    useful = {op for epoch in HappensBefore(main).epochs for op in epoch.useful()}
    return [
        Problem("S8", f"{op.name} of event {event_number(op)} orders nothing", op)
        for op in main.walk()
        if isinstance(op, RecordOp | WaitOp) and op not in useful
    ]


def check_schedule(module: ModuleOp, target: Target | None = None) -> list[Problem]:
    """The problems of `check_streams`, and races."""
    races = [p for p in check_plan(module) if p.kind == "race"]
    return [*check_streams(module, target), *races]


def require_schedule(module: ModuleOp, target: Target | None = None) -> None:
    require_none(check_schedule(module, target), "schedule")


def engine_problem(kernel: KernelOp) -> str | None:
    """The reason why the engine of a kernel cannot run it; None if it can."""
    engine, op = kernel.engine.data, kernel.main
    members = op.members if isinstance(op, FusedOp) else [op]
    work = op.work()
    matmul = any(o.ALWAYS_MACS for o in members) if work is None else work.macs > 0
    sends = isinstance(op, Collective | AcknowledgeOp)
    if sends and engine is not Engine.COMM:
        return f"what devices send each other is on {Engine.COMM}, not on {engine}"
    if engine is Engine.COMM and not sends:
        return f"{Engine.COMM} is for what devices send each other, not for {op.name}"
    if engine is Engine.DMA:
        return "DMA copies between host and device, and runs no kernel"
    if matmul and engine is not Engine.CUBE:
        return f"matmuls run on the cube, not on {engine}"
    multiplies = matmul or (work is None and any(o.IS_MATMUL for o in members))
    if engine is Engine.CUBE and not multiplies:
        return f"the cube computes matmuls, and there are none in {op.name}"
    shapes = all(is_shape_arithmetic(o) for o in members)
    if engine is Engine.HOST and not shapes and not any(is_dynamic(r.type) for r in op.results):
        return f"the host does shape arithmetic only, not {op.name}"
    return None


ON_CORES = Engine.CUBE, Engine.VECTOR


@dataclass
class CoreProof:
    """The proof of a program's kernels, counted by the form in which they state their work on a
    core."""

    problems: list[Problem] = field(default_factory=list[Problem])
    programs: int = 0
    open: int = 0  # whose tile programs have sizes for arguments
    others: int = 0  # on cores, without a tile program

    @property
    def summary(self) -> Iterator[str]:
        """A clause for each kind of kernels that there are."""
        if self.programs:
            yield f"tile programs of {plural(self.programs)}"
        if self.open:
            programs = f"the tile programs of {plural(self.open)}, whose sizes are arguments"
            yield f"nothing yet of {programs}"
        if self.others:
            yield f"nothing of what {plural(self.others)} without a tile program keep on a core"


def plural(count: int) -> str:
    return f"{count} kernel{'s' * (count > 1)}"


def prove_cores(module: ModuleOp, target: Target) -> CoreProof:
    """Prove that each kernel runs on an engine that can run it, on no more cores than there are."""
    proof = CoreProof()
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp):
            continue
        engine, tiling = kernel.engine.data, kernel.tiling
        rule, problem = "K1", engine_problem(kernel)
        if problem is None and tiling is not None:
            rule, is_cube = "K2", len(tiling.sizes) == 3
            cores = target.cube_cores if is_cube else target.vector_cores
            if engine not in ON_CORES:
                problem = "has tiles, but runs on no core"
            elif not 1 <= tiling.blocks.data <= cores:
                kind = "cube" if is_cube else "vector"
                problem = f"has {tiling.blocks.data} blocks for {cores} {kind} cores"
        if problem is not None:
            text = f"@{kernel.sym_name.data}: {problem}"
            proof.problems.append(Problem(rule, text, kernel))
        is_open = OPEN_TILES in kernel.attributes
        proof.programs += kernel.tiles is not None
        proof.open += is_open
        proof.others += kernel.tiles is None and not is_open and engine in ON_CORES
    return proof


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
    """Yield errors in overlapping runs, of which so many copies are made ahead."""
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
