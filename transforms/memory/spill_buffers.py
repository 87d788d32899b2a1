"""Copy buffers to host memory and back while they are not used, to stay below a memory limit.

    npu_task.launch @exp_0 ins(%x : ...) outs(%0 : memref<64xf32, hbm>)
    (launches that need much memory)
    npu_task.launch @add_0 ins(%0, %1 : ...) outs(%2 : ...)
becomes
    npu_task.launch @exp_0 ins(%x : ...) outs(%0 : memref<64xf32, hbm>)
    %h = memref.alloc() : memref<64xf32, host>
    npu_task.copy %0 to %h : ...
    (launches that need much memory)
    %3 = memref.alloc() : memref<64xf32, hbm>
    npu_task.copy %h to %3 : ...
    npu_task.launch @add_0 ins(%3, %1 : ...) outs(%2 : ...)

Buffers and times are chosen in program order, before tasks are on streams. The copies
run on the streams of the DMA engines, beside launches. What is allocated inside of a branch or loop
counts while it runs, and a buffer that is used inside is live throughout. A buffer that was not
written since it came back is not copied to the host again. `npu_task.spilled_bytes` of the function
is the number of bytes copied to the host.

A task graph in program order says when buffers are used. Between two uses a buffer may be away: it
is copied to the host after the first one and back before the second one. Tasks over the limit are
visited in order; at each the buffer leaves that frees the most bytes for the longest: the missing
bytes times the tasks up to its next use (for equal sizes the farthest next use first, which is
optimal: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import HOST, SPILLED, number
from ge.dialects.npu_task.memory import Task, owner_of
from ge.dialects.npu_task.ops import CopyOp
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size, element_type, numel, shape_of
from ge.dialects.targets.target import target_for
from ge.transforms.analysis.dependencies import (
    accesses,
    all_accesses,
    arena_bytes,
    erase_unused,
    in_arena,
)
from ge.transforms.analysis.task_graph import TaskGraph, buffer_graph
from ge.transforms.memory.assign_offsets import check_kinds, pinned_buffers

Bytes = np.ndarray[tuple[int], np.dtype[np.int64]]

LEAD = 32
"""Tasks between a copy back and the use that it is for, at most."""


@dataclass
class SpillProblem:
    """The tasks of a block and the buffers of the arena that may leave it."""

    graph: TaskGraph
    inside: Sequence[int]
    """Of each task the bytes live at one time that are allocated inside of it."""
    writes: list[list[int]] = field(init=False)
    """Of each buffer the tasks that write it."""
    defined: list[int] = field(init=False)
    """Of each buffer the first task after which none of its undefined bytes is written any more: a
    copy before would copy them."""

    def __post_init__(self) -> None:
        self.writes = [[] for _ in self.graph.bytes]
        self.defined = [-1] * len(self.graph.bytes)

    def live_bytes(self) -> Bytes:
        """The bytes live at each task."""
        live = self.graph.live(range(len(self.graph))).bytes
        return np.array(live, np.int64) + np.array(self.inside, np.int64)

    def peak(self) -> int:
        return int(self.live_bytes().max(initial=0))


@dataclass(slots=True, eq=False)
class Absence:
    """A buffer is away from after task `use` until `load`, for task `next`."""

    buffer: int
    use: int
    next: int
    load: int


def possible_absences(problem: SpillProblem) -> list[Absence]:
    """Return the spans in which buffers could be away, by their first task."""
    graph = problem.graph
    absences = [
        Absence(b, use, after, after)
        for b, size in enumerate(graph.bytes)
        for use, after in pairwise((graph.writer[b], *graph.readers[b]))
        if after - use > 1 and size and problem.defined[b] <= use
    ]
    return sorted(absences, key=lambda a: a.use)


def choose(problem: SpillProblem, limit: int) -> tuple[list[Absence], int]:
    """The absences with which no task has more than `limit` bytes live, or as near to it as that
    gets, and the most bytes that are live then."""
    size, bytes_live = problem.graph.bytes, problem.live_bytes()
    waiting = possible_absences(problem)[::-1]
    possible: list[Absence] = []
    chosen: list[Absence] = []
    for task in range(len(bytes_live)):
        possible = [a for a in possible if a.next > task]
        while waiting and waiting[-1].use < task:
            if (absence := waiting.pop()).next > task:
                possible.append(absence)
        while possible and (missing := int(bytes_live[task]) - limit) > 0:
            best = max(possible, key=lambda a: min(missing, size[a.buffer]) * (a.next - task))
            possible.remove(best)
            bytes_live[best.use + 1 : best.next] -= size[best.buffer]
            chosen.append(best)
    needed = _needed(size, chosen, bytes_live, limit)
    return needed, int(bytes_live.max(initial=0))


def _needed(
    size: Sequence[int], chosen: Sequence[Absence], bytes_live: Bytes, limit: int
) -> list[Absence]:
    """The absences without those that the others made needless, the copies back as early as memory
    allows: they run beside the tasks before."""
    needed: list[Absence] = []
    for absence in sorted(chosen, key=lambda a: a.next):
        away = bytes_live[absence.use + 1 : absence.next]
        if int(away.max(initial=0)) + size[absence.buffer] <= limit:
            away += size[absence.buffer]
        else:
            needed.append(absence)
    for absence in needed:
        earliest = max(absence.use + 2, absence.next - LEAD)
        bytes_ = size[absence.buffer]
        while absence.load > earliest and int(bytes_live[absence.load - 1]) + bytes_ <= limit:
            absence.load -= 1
            bytes_live[absence.load] += bytes_
    return sorted(needed, key=lambda a: (a.buffer, a.use))


def spill_problem(
    block: Block, tasks: Sequence[Operation], alignment: int, pinned: Collection[Operation]
) -> SpillProblem:
    """The buffers that are allocated in a block, and the tasks that use them."""

    def size_of(buffer: SSAValue) -> int:
        may_leave = buffer.owner.parent is block and buffer.owner not in pinned
        return arena_bytes(buffer, alignment) if may_leave else 0

    def peak_inside(op: Operation) -> int:
        blocks = (b for region in op.regions for b in region.blocks)
        peaks = (spill_problem(b, tasks_of(b), alignment, pinned).peak() for b in blocks)
        return max(peaks, default=0)

    graph = buffer_graph(tasks, size_of)
    problem = SpillProblem(graph, list(map(peak_inside, tasks)))
    filled: set[int] = set()
    for i, op in enumerate(tasks):
        for value in all_accesses(op) if op.regions else accesses(op)[1]:
            buffer = graph.buffers[owner_of(value)]
            if not graph.bytes[buffer]:
                continue
            problem.writes[buffer].append(i)
            if buffer not in filled:
                problem.defined[buffer] = i
            if not op.regions and is_whole(value):
                filled.add(buffer)
    return problem


def tasks_of(block: Block) -> list[Operation]:
    return [op for op in block.ops if isinstance(op, Task) or op.regions]


def is_whole(value: SSAValue) -> bool:
    """Return whether a memref shows all elements of its buffer."""
    return numel(shape_of(value)) == numel(shape_of(owner_of(value)))


@dataclass
class Spill:
    """Copies one buffer to the host and back."""

    tasks: Sequence[Operation]
    original: SSAValue
    users: Sequence[int]
    writes: Sequence[int]
    """The tasks that use the buffer, and those that write it."""
    moved: int = 0
    """Bytes copied to the host."""
    host: SSAValue | None = None
    """Where its value is on the host; None where that is not the last one."""

    def apply(self, absences: Sequence[Absence]) -> None:
        """Insert the copies of all absences of the buffer, in order."""
        current, since = self.original, 0
        ends = (*(a.next for a in absences[1:]), len(self.tasks))
        for absence, end in zip(absences, ends, strict=True):
            if any(since <= w <= absence.use for w in self.writes):
                self.host = None
            host = self.host or self.store(current, self.tasks[absence.use])
            current = self.load(host, self.tasks[absence.load])
            since = absence.next
            views: dict[SSAValue, SSAValue] = {self.original: current}
            for user in self.users:
                if absence.next <= user < end:
                    self.redirect(self.tasks[user], views)

    def store(self, source: SSAValue, after: Operation) -> SSAValue:
        """Copy to a new buffer of the host after a task."""
        t = casts.dense(element_type(source), shape_of(source), HOST)
        alloc = casts.alloc(t)
        self.insert((alloc, CopyOp(source, alloc.memref)), InsertPoint.after(after))
        self.host = alloc.memref
        self.moved += byte_size(t)
        return alloc.memref

    def load(self, host: SSAValue, before: Operation) -> SSAValue:
        """Copy to a new buffer of the device before a task."""
        alloc = casts.alloc(self.original.type)
        alloc.memref.name_hint = self.original.name_hint
        self.insert((alloc, CopyOp(host, alloc.memref)), InsertPoint.before(before))
        return alloc.memref

    def redirect(self, op: Operation, views: dict[SSAValue, SSAValue]) -> None:
        """Let a task use another buffer, and views of that one."""
        for inner in op.walk():
            for i, operand in enumerate(inner.operands):
                if isinstance(operand, OpResult) and operand.op.parent is op.parent:
                    if owner_of(operand) is self.original:
                        inner.operands[i] = self.view(operand, op, views)

    def view(self, value: SSAValue, before: Operation, views: dict[SSAValue, SSAValue]) -> SSAValue:
        """The view of the other buffer that corresponds to `value`."""
        if value not in views:
            assert isinstance(value.owner, ReinterpretCastOp)
            source = self.view(value.owner.source, before, views)
            cast = value.owner.clone({value.owner.source: source})
            cast.result.name_hint = value.name_hint
            self.insert((cast,), InsertPoint.before(before))
            views[value] = cast.result
        return views[value]

    def insert(self, ops: Sequence[Operation], point: InsertPoint) -> None:
        """Insert ops that have the location of the buffer."""
        for op in ops:
            op.location = self.tasks[self.users[0]].location
        Rewriter.insert_op(ops, point)


def spill(func: FuncOp, limit: int, alignment: int, pinned: Collection[Operation] = ()) -> None:
    """Insert copies so that no task of a function has more than `limit` bytes live, or as near to
    it as that gets."""
    tasks = tasks_of(func.body.block)
    problem = spill_problem(func.body.block, tasks, alignment, pinned)
    graph, before = problem.graph, problem.peak()
    if before <= limit:
        return
    absences, peak = choose(problem, limit)
    if not absences:
        return
    values = list(graph.buffers)
    moved = 0
    for b, of_buffer in groupby(absences, lambda a: a.buffer):
        users = (graph.writer[b], *graph.readers[b])
        spill = Spill(tasks, values[b], users, problem.writes[b])
        spill.apply(list(of_buffer))
        moved += spill.moved
    erase_unused(op for op in func.body.block.ops if isinstance(op, ReinterpretCastOp))
    func.attributes[SPILLED] = number(moved)
    remark(
        func,
        f"{len(absences)} times a buffer is away, {moved} bytes go to the host: at most {peak} "
        f"bytes are alive at one time, before {before}; the limit is {limit}",
    )


@dataclass(frozen=True)
class SpillBuffersPass(ModulePass):
    """Copy buffers of @main to host memory and back where more bytes than a limit are live."""

    name = "spill-buffers"

    limit: int
    """Bytes of the arena that may be live at one time."""
    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    no_reuse: tuple[str, ...] = ()
    """Kinds of ops (`matmul`, `fused_op.conv`) whose results stay where they are, whose bytes
    count too."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.limit < 0:
            raise GeError(f"the limit is at least 0 bytes, not {self.limit}")
        if (main := main_function(op)) is None:
            return
        if self.no_reuse:
            check_kinds(self.no_reuse, ctx.loaded_ops)
        alignment = target_for(main, self.target).hbm_alignment
        pinned = dict.fromkeys(filter(in_arena, pinned_buffers(op, main, self.no_reuse)))
        pinned_bytes = sum(arena_bytes(p.memref, alignment) for p in pinned)
        spill(main, max(self.limit - pinned_bytes, 0), alignment, pinned)
