"""Replace buffers by slots at fixed offsets of one arena; those never live together share bytes.

    %0 = memref.alloc() {npu_task.io} : memref<64xf32, hbm>
    %1 = memref.alloc() : memref<64xf32, hbm>
    %2 = memref.alloc() : memref<64xf32, hbm>
    %3 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @relu_0 on 1 ins(%0 : ...) outs(%1 : ...)
    npu_task.launch @relu_0 on 1 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @relu_0 on 1 ins(%2 : ...) outs(%3 : ...)
becomes
    %0 = npu_task.slot "io" 0 : memref<64xf32, hbm>
    %1 = npu_task.slot "arena" 0 : memref<64xf32, hbm>
    %2 = npu_task.slot "arena" 512 : memref<64xf32, hbm>
    %3 = npu_task.slot "arena" 0 : memref<64xf32, hbm>
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
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, SlotOp
from ge.dialects.npu_task.program_info import IO, NO_REUSE, PINNED, STATE, state
from ge.dialects.support.editing import erase, replace_uses
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, put_before
from ge.dialects.support.streams import print_result
from ge.dialects.support.types import align_up, byte_size
from ge.dialects.targets.target import Target, target_for
from ge.transforms.analysis.aliasing import in_arena
from ge.transforms.analysis.liveness import Liveness
from ge.transforms.memory.packing import Packing, PackingProblem, pack
from ge.transforms.memory.packing_problem import orderings, problem_in_order, problem_of
from ge.transforms.memory.pinning import check_kinds, pinned_buffers
from ge.transforms.memory.planned_slots import streams_of
from ge.transforms.memory.print_liveness import liveness_table
from ge.transforms.schedule.events import add_orderings


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
    """What is allocated for each batch copy, in its order, by each of these buffers."""
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
        if best.peak <= problem.lower_bound:
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
        """Offsets that share nothing, but that branches of a case share what is after those of the
        function; and how many bytes all take."""
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
class AssignOffsetsPass(ModulePass):
    """Give each buffer of @main a fixed offset in device memory; buffers that are never live
    together may share bytes."""

    name = "assign-offsets"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
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
            planner = Planner(target, alignment, self.reuse, self.search, self.print_liveness)
            planner.plan(main, dict.fromkeys(pinned))
