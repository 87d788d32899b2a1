"""Replace buffers by slots at fixed offsets of one arena; those never live together share bytes.

    %0 = memref.alloc() {npu_task.io} : memref<64xf32, hbm>
    %1 = memref.alloc() : memref<64xf32, hbm>
    %2 = memref.alloc() : memref<64xf32, hbm>
    %3 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @relu_0 on 1 ins(%0 : ...) outs(%1 : ...)
    npu_task.launch @relu_0 on 1 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @relu_0 on 1 ins(%2 : ...) outs(%3 : ...)
becomes
    %0 = npu_task.slot io 0 : memref<64xf32, hbm>
    %1 = npu_task.slot arena 0 : memref<64xf32, hbm>
    %2 = npu_task.slot arena 512 : memref<64xf32, hbm>
    %3 = npu_task.slot arena 0 : memref<64xf32, hbm>
    (the launches)

Two buffers share bytes only where every use of one happens before the first write of the other
(see `liveness.py`); `packing.py` computes the offsets. Where that takes more bytes than program
order has live at one time, the offsets follow program order, and events keep tasks in it. Inputs
and outputs of the model have bytes of their own in the "io" segment, which the gears of a case
share; those that one transfer copies follow each other there. So has state in the "state" segment;
buffers of dynamic shape stay with the device's allocator. Figures of the plan are attributes of the
function: `npu_task.arena_bytes`, `npu_task.lower_bound_bytes` (the most that is live at one time),
`npu_task.no_reuse_bytes`, `npu_task.weight_bytes` and `npu_task.io_bytes`; where there is state
also `npu_task.state_bytes`.

`liveness_table` is a table of a plan's buffers with their lifetimes:

    buffer  bytes  offset  stream  producer      first use      last use        live
    %0        512       0       0  copy         1 copy         2 @relu_0        ##
    %1        512     512       1  @relu_0      2 @relu_0      3 @relu_1         #-
    the peak is at step 2, @relu_0: 1024 bytes in 2 buffers; the arena has 1024 bytes

Steps count tasks and barriers (the beginning and end of branches and loops) in the order in which
the host issues them, from 1. The last column draws when a buffer is live, with `#` at the peak.

Buffers of ops that users name (`no_reuse`) share bytes with nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation

from ge.dialects.graph.support.op_names import nearest_name, plain, short_name
from ge.dialects.npu_task.attributes import IO, NO_REUSE, PINNED, STATE, state
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, KernelOp, LaunchOp, SlotOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.editing import erase, replace_uses
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, put_before
from ge.dialects.support.streams import print_result
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import align_up, byte_size
from ge.dialects.targets.target import Target, target_for
from ge.transforms.analysis.dependencies import in_arena
from ge.transforms.analysis.liveness import Lifetime, Liveness, LiveProfile
from ge.transforms.memory.packing import (
    Packing,
    PackingProblem,
    orderings,
    pack,
    problem_in_order,
    problem_of,
    streams_of,
)
from ge.transforms.rewriting.passes import TargetPass
from ge.transforms.schedule.events import add_orderings

WIDTH = 40  # characters of the drawing

HEADS = ("buffer", "bytes", "offset", "stream", "producer", "first use", "last use", "live")

RIGHT = {"bytes", "offset", "stream"}


def name_of(op: Operation) -> str:
    """The kernel of a launch, or the name of another op."""
    return f"@{op.callee}" if isinstance(op, LaunchOp) else op.name.partition(".")[2]


def located(op: Operation) -> str:
    """The name of an op, and its source location."""
    location = str(location_of(op))
    return f"{name_of(op)} {location}" if location else name_of(op)


def drawing(life: Lifetime, peak: int, steps: int) -> str:
    width = min(WIDTH, steps)
    first, last, high = ((step - 1) * width // steps for step in (life.start, life.end, peak))
    marks = ["-" if first <= i <= last else " " for i in range(width)]
    if life.start <= peak <= life.end:
        marks[high] = "#"
    return "".join(marks).rstrip()


def liveness_table(lives: Sequence[Lifetime], sizes: Sequence[int], offsets: Sequence[int]) -> str:
    """The table of buffers with their aligned sizes and their offsets."""
    if not lives:
        return "no buffers in the arena"
    steps = max(b.end for b in lives)
    profile = LiveProfile.of(
        ((size, b.start, b.end) for b, size in zip(lives, sizes, strict=True)), steps + 1
    )
    peak = profile.peak_step
    rows: list[tuple[str, ...]] = [HEADS]
    at_peak = 0
    for i, (life, size, offset) in enumerate(zip(lives, sizes, offsets, strict=True)):
        assert life.first_use is not None
        assert life.last_use is not None
        first, last = located(life.first_use), located(life.last_use)
        at_peak += life.start <= peak <= life.end
        name = life.buffer.name_hint or str(i)
        stream = "all" if life.stream >= len(life.uses) else str(life.stream)
        producer = name_of(life.first_use)
        uses = (producer, f"{life.start} {first}", f"{life.end} {last}")
        shown = drawing(life, peak, steps)
        rows.append((f"%{name}", str(size), str(offset), stream, *uses, shown))
    arena = max(o + s for o, s in zip(offsets, sizes, strict=True))
    where = next(located(b.first_use) for b in lives if b.start == peak and b.first_use is not None)
    end = (
        f"the peak is at step {peak}, {where}: {profile.peak} bytes in {at_peak} buffers; "
        f"the arena has {arena} bytes"
    )
    return "\n".join([*aligned_rows(rows), end])


def aligned_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if head in RIGHT else cell.ljust(width)
            for cell, width, head in zip(row, widths, rows[0], strict=True)
        ).rstrip()
        for row in rows
    ]


def check_kinds(kinds: Collection[str], ops: Iterable[type[Operation]]) -> list[str]:
    """The full names of the ops of these kinds (`MatMul`, `matmul`, `graph.matmul`, or a name of a
    framework: `BatchMatMul`). Raises GeError for a kind of none of `ops`."""
    full = sorted({op.name for op in ops if issubclass(op, TensorOp)})
    names: list[str] = []
    for kind in kinds:
        same = [n for n in full if is_of(n, kind)]
        if not same:
            hint = nearest_name(kind, full) or "kinds are names as in graph.matmul"
            raise GeError(f"there is no op '{kind}' whose results could be kept apart", hint=hint)
        names += same
    return list(dict.fromkeys(names))


def is_of(op: str, kind: str) -> bool:
    """Return whether an op with this full name is of a kind: of the op itself, or of all with its
    name."""
    return plain(op) == plain(kind) or ("." not in kind and short_name(op) == short_name(kind))


def pinned_buffers(module: ModuleOp, main: FuncOp, kinds: Collection[str]) -> list[AllocOp]:
    """The allocations that launches with an op of these kinds write, also where it is fused."""
    if not kinds:
        return []
    kernels = {
        op.sym_name.data
        for op in module.ops
        if isinstance(op, KernelOp) and any(is_of(o.name, k) for o in op.walk() for k in kinds)
    }
    launches = (op for op in main.walk() if isinstance(op, LaunchOp) and op.callee in kernels)
    owners = (owner_of(value).owner for op in launches for value in op.outs)
    return list(dict.fromkeys(owner for owner in owners if isinstance(owner, AllocOp)))


def replace_by_slot(alloc: Operation, segment: str, offset: int) -> SlotOp:
    (buffer,) = alloc.results
    slot = SlotOp(segment, offset, buffer.type)
    slot.location = alloc.location
    slot.result.name_hint = buffer.name_hint
    assert alloc.parent is not None
    put_before(alloc.parent, slot, alloc)
    replace_uses(buffer, slot.result)
    erase(alloc)
    return slot


def side_by_side(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Offsets without reuse, and the sum."""
    *offsets, total = accumulate(sizes, initial=0)
    return offsets, total


def batches(body: Block) -> dict[AllocOp, list[AllocOp]]:
    """Return for each buffer that a batch copy fills all buffers of that copy, in its order."""
    rows: dict[AllocOp, list[AllocOp]] = {}
    for op in body.ops:
        if isinstance(op, BatchCopyOp):
            owners = [owner_of(v).owner for v in op.on_device]
            row = [owner for owner in owners if isinstance(owner, AllocOp)]
            rows |= dict.fromkeys(row, row)
    return rows


@dataclass
class Planner:
    """Plans the memory of one function."""

    target: Target
    alignment: int
    reuse: bool
    search: int = 0  # steps
    print_liveness: bool = False
    waits: bool = True  # tasks may be made to wait for others, for a smaller arena

    def plan(self, func: FuncOp, pinned: Collection[AllocOp] = ()) -> None:
        """Give each buffer of @main its bytes, `pinned` ones after those that are shared, and state
        the figures."""
        allocs = [op for op in all_ops(func.body.blocks) if type(op) is AllocOp]
        io = [op for op in allocs if IO in op.attributes]
        kept = [op for op in allocs if STATE in op.attributes]
        io_offsets, io_bytes = self.inputs_and_outputs(func.body.block, io)
        kept_offsets, kept_bytes = self.apart(kept)
        pinned_offsets, pinned_bytes = self.apart(pinned)
        liveness = Liveness(
            func.body.block, streams_of(func), lambda op: in_arena(op) and op not in pinned
        )
        problem = problem_of(liveness, self.alignment)
        offsets, total = side_by_side(problem.sizes)
        shared = total
        if self.reuse:
            packing = self.pack(func, liveness, problem)
            offsets, shared = packing.offsets, packing.peak
        if self.print_liveness:
            print_result(liveness_table(liveness.buffers, problem.sizes, offsets))
        for op, offset in zip(io, io_offsets, strict=True):
            replace_by_slot(op, "io", offset)
        for op, offset in zip(kept, kept_offsets, strict=True):
            slot = replace_by_slot(op, "state", offset)
            slot.attributes.update(op.attributes)
        for life, offset in zip(liveness.buffers, offsets, strict=True):
            replace_by_slot(life.op, "arena", offset)
        for life in liveness.unused:
            erase(life.op)
        for op, offset in zip(pinned, pinned_offsets, strict=True):
            slot = replace_by_slot(op, "arena", shared + offset)
            slot.attributes[PINNED] = UnitAttr()
        state(
            func,
            arena_bytes=shared + pinned_bytes,
            lower_bound_bytes=problem.lower_bound + pinned_bytes,
            no_reuse_bytes=total + pinned_bytes,
            weight_bytes=self.weight_bytes(func),
            io_bytes=io_bytes,
            alignment=self.alignment,
            **({"state_bytes": kept_bytes} if kept else {}),
        )

    def weight_bytes(self, func: FuncOp) -> int:
        constants = [op for op in all_ops(func.body.blocks) if isinstance(op, ConstantOp)]
        sizes = (byte_size(op.result.type) for op in constants)
        return self.target.constants_bytes(sizes, self.alignment)

    def pack(self, func: FuncOp, liveness: Liveness, problem: PackingProblem) -> Packing:
        """The best packing, by happens-before or, with more events, by program order."""
        best = pack(problem)
        if best.peak <= problem.lower_bound or not self.waits:
            return best
        in_order = problem_in_order(liveness, self.alignment)
        packing = pack(in_order, self.search)
        if packing.peak >= best.peak:
            return best
        try:
            later = orderings(liveness, in_order.sizes, packing.offsets)
            add_orderings(func, later, liveness.streams, self.target.max_events)
        except GeError:  # more events than the target has
            return best
        return packing

    def inputs_and_outputs(self, body: Block, allocs: Sequence[AllocOp]) -> tuple[list[int], int]:
        """Return offsets of which none share bytes, except that branches of a case share those
        behind the function's; and how many bytes all take."""
        ends: dict[Block, int] = {}
        placed: dict[AllocOp, int] = {}
        rows = batches(body)
        in_rows = dict.fromkeys(a for op in allocs for a in rows.get(op, (op,)))
        for alloc in sorted(in_rows, key=lambda op: op.parent is not body):
            assert alloc.parent is not None
            placed[alloc] = ends.get(alloc.parent, ends.get(body, 0))
            size = align_up(byte_size(alloc.memref.type), self.alignment)
            ends[alloc.parent] = placed[alloc] + size
        return [placed[op] for op in allocs], max(ends.values(), default=0)

    def apart(self, allocs: Iterable[AllocOp]) -> tuple[list[int], int]:
        """Offsets that share nothing, and the sum of the sizes."""
        return side_by_side(align_up(byte_size(op.memref.type), self.alignment) for op in allocs)


@dataclass(frozen=True)
class AssignOffsetsPass(TargetPass):
    """Give each buffer of @main a fixed offset in device memory; buffers that are never live
    together may share bytes."""

    name = "assign-offsets"

    alignment: int = 0
    """Bytes that offsets are multiples of, a power of two; 0: the target's."""
    reuse: bool = True
    """Whether buffers may share bytes."""
    search: int = 0
    """Steps that a search for the smallest packing may take where the quick methods leave a gap
    to the lower bound."""
    no_reuse: tuple[str, ...] = ()
    """Kinds of ops (`matmul`, `fused_op.conv`): what launches with one of them write shares bytes
    with nothing."""
    print_liveness: bool = False
    """Print a table of the buffers that share bytes, with their lifetimes and offsets; on
    standard error where the module is printed."""
    waits: bool = True
    """Whether tasks may be made to wait for others, for a smaller arena."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.alignment < 0 or self.alignment & (self.alignment - 1):
            raise GeError(f"alignment is a power of two, not {self.alignment}")
        if (main := main_function(op)) is not None:
            target = target_for(main, self.target)
            alignment = self.alignment or target.hbm_alignment
            if self.no_reuse:
                names = check_kinds(self.no_reuse, ctx.loaded_ops)
                main.attributes[NO_REUSE] = ArrayAttr(map(StringAttr, names))
            pinned = filter(in_arena, pinned_buffers(op, main, self.no_reuse))
            shown, waits = self.print_liveness, self.waits
            planner = Planner(target, alignment, self.reuse, self.search, shown, waits)
            planner.plan(main, dict.fromkeys(pinned))
