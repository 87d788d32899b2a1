"""Buffers that nobody needs for a while are copied to host memory and back, so that the device
stays below a limit.

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

`spilling.py` chooses which ones, and when: in program order, before tasks are on streams. The
copies run on the streams of the DMA engines, beside launches. What is live inside of a branch or
loop counts with it, and all that is used inside stays through it. A buffer that was not written
since it came back is not copied to the host again. The function says how many bytes go to the host:
`npu_task.spilled_bytes`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, MemRefType, ModuleOp, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import HOST, number
from ge.dialects.npu_task.memory import Task, owner_of
from ge.dialects.npu_task.ops import CopyOp
from ge.dialects.npu_task.program_info import SPILLED
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import segments
from ge.dialects.support.types import align_up, byte_size, element_type, numel, shape_of
from ge.dialects.targets.target import target_for
from ge.transforms.analysis.aliasing import accesses, erase_unused, in_arena
from ge.transforms.memory.pinning import check_kinds, pinned_buffers
from ge.transforms.memory.spilling import Buffer, Gap, choose, live_bytes


@dataclass
class Steps:
    """The steps of a block, and the buffers of the arena that are allocated in it."""

    block: Block
    alignment: int
    pinned: Collection[Operation] = ()
    ops: list[Operation] = field(default_factory=list[Operation])
    inside: list[int] = field(default_factory=list[int])
    """For each step the bytes that are live at one time of what is allocated inside of it."""
    buffers: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])

    def __post_init__(self) -> None:
        for op in self.block.ops:
            if isinstance(op, AllocOp) and in_arena(op) and op not in self.pinned:
                size = align_up(byte_size(op.memref.type), self.alignment)
                self.buffers[op.memref] = Buffer(size)
            elif isinstance(op, Task) or op.regions:
                self.add(op)

    def add(self, op: Operation) -> None:
        """Note which buffers a step uses. One with regions may read and write all of them."""
        step = len(self.ops)
        self.ops.append(op)
        self.inside.append(self.peak_inside(op))
        reads, writes = accesses(op)
        if op.regions:
            reads = writes = [v for inner in op.walk() for v in inner.operands]
        for value in reads:
            self.use(value, step)
        for value in writes:
            if (buffer := self.use(value, step)) is not None:
                buffer.writes.append(step)
                if not op.regions and buffer.whole < 0 and is_whole(value):
                    buffer.whole = step

    def location(self, buffer: SSAValue) -> LocationAttr:
        """Where what a buffer holds comes from."""
        uses = self.buffers[buffer].uses
        return self.ops[uses[0]].location

    def use(self, value: SSAValue, step: int) -> Buffer | None:
        """Note that a step uses the buffer of a value; None for one that is not planned."""
        buffer = self.buffers.get(owner_of(value))
        if buffer is not None and buffer.uses[-1:] != [step]:
            buffer.uses.append(step)
        return buffer

    def peak_inside(self, op: Operation) -> int:
        """The most bytes that what is allocated in the regions of an op has live at one time."""
        blocks = (b for region in op.regions for b in region.blocks)
        found = (Steps(b, self.alignment, self.pinned) for b in blocks)
        peaks = (live_bytes(list(s.buffers.values()), s.inside).max(initial=0) for s in found)
        return int(max(peaks, default=0))


def is_whole(value: SSAValue) -> bool:
    """Whether a memref shows all elements of its buffer."""
    return numel(shape_of(value)) == numel(shape_of(owner_of(value)))


@dataclass
class Spill:
    """Takes one buffer to the host and back, in its gaps."""

    steps: Steps
    original: SSAValue
    buffer: Buffer
    moved: int = 0
    """Bytes copied to the host."""
    host: SSAValue | None = None
    """Where its value is on the host; None where that is not the last one."""

    def apply(self, gaps: Sequence[Gap]) -> None:
        """Insert the copies of all gaps of the buffer, in order."""
        current = self.original
        since = 0
        for gap, end in zip(gaps, (*(g.next for g in gaps[1:]), len(self.steps.ops)), strict=True):
            if any(since <= w <= gap.use for w in self.buffer.writes):
                self.host = None
            host = self.host or self.store(current, self.steps.ops[gap.use])
            current = self.load(host, self.steps.ops[gap.load])
            since = gap.next
            views: dict[SSAValue, SSAValue] = {self.original: current}
            for use in self.buffer.uses:
                if gap.next <= use < end:
                    self.redirect(self.steps.ops[use], views)

    def store(self, source: SSAValue, after: Operation) -> SSAValue:
        """Copy to a new buffer of the host after a step."""
        t = MemRefType(element_type(source), shape_of(source), NoneAttr(), HOST)
        alloc = allocation(t)
        self.insert((alloc, CopyOp(source, alloc.memref)), after, before=False)
        self.host = alloc.memref
        self.moved += byte_size(t)
        return alloc.memref

    def load(self, host: SSAValue, before: Operation) -> SSAValue:
        """Copy to a new buffer of the device before a step."""
        alloc = allocation(self.original.type)
        alloc.memref.name_hint = self.original.name_hint
        self.insert((alloc, CopyOp(host, alloc.memref)), before, before=True)
        return alloc.memref

    def redirect(self, op: Operation, views: dict[SSAValue, SSAValue]) -> None:
        """Let a step use the buffer in its new place."""
        for inner in op.walk():
            for i, operand in enumerate(inner.operands):
                maker = operand.owner
                if isinstance(maker, Operation) and maker.parent is self.steps.block:
                    if owner_of(operand) is self.original:
                        inner.operands[i] = self.in_place(operand, op, views)

    def in_place(
        self, value: SSAValue, before: Operation, views: dict[SSAValue, SSAValue]
    ) -> SSAValue:
        """What shows the buffer in its new place as `value` does in the first one."""
        if value not in views:
            assert isinstance(value.owner, ReinterpretCastOp)
            source = self.in_place(value.owner.source, before, views)
            cast = value.owner.clone({value.owner.source: source})
            cast.result.name_hint = value.name_hint
            self.insert((cast,), before, before=True)
            views[value] = cast.result
        return views[value]

    def insert(self, ops: tuple[Operation, ...], place: Operation, before: bool) -> None:
        """Insert ops next to a step, with the location of the buffer."""
        for op in ops:
            op.location = self.steps.location(self.original)
        if before:
            self.steps.block.insert_ops_before(ops, place)
        else:
            self.steps.block.insert_ops_after(ops, place)


def allocation(t: Attribute) -> AllocOp:
    return AllocOp.create(result_types=[t], properties={"operandSegmentSizes": segments(0, 0)})


def spill(func: FuncOp, limit: int, alignment: int, pinned: Collection[Operation] = ()) -> None:
    """Insert copies so that no task of a function has more than `limit` bytes live, or as near to
    it as that gets."""
    steps = Steps(func.body.block, alignment, pinned)
    buffers = list(steps.buffers.values())
    before = int(live_bytes(buffers, steps.inside).max(initial=0))
    if before <= limit:
        return
    gaps, peak = choose(buffers, steps.inside, limit)
    if not gaps:
        return
    of_buffer: dict[int, list[Gap]] = {}
    for gap in gaps:
        of_buffer.setdefault(gap.buffer, []).append(gap)
    values = list(steps.buffers)
    moved = 0
    for i, mine in of_buffer.items():
        one = Spill(steps, values[i], buffers[i])
        one.apply(mine)
        moved += one.moved
    erase_unused(op for op in steps.block.ops if isinstance(op, ReinterpretCastOp))
    func.attributes[SPILLED] = number(moved)
    remark(
        func,
        f"{len(gaps)} times a buffer is away, {moved} bytes go to the host: at most {peak} bytes "
        f"are alive at one time, before {before}; the limit is {limit}",
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
        pinned = [p for p in pinned_buffers(op, main, self.no_reuse) if in_arena(p)]
        kept = sum(align_up(byte_size(p.memref.type), alignment) for p in pinned)
        spill(main, max(self.limit - kept, 0), alignment, set(pinned))
