"""State changes where it is: what a model appends to it is written behind it, and what takes its
place is computed there.

    %s = memref.alloc() {npu_task.state = "past", npu_task.valid = array<i64: 7, 16>} : memref<8x16>
    %0 = memref.reinterpret_cast %s to offset: [0], sizes: [7, 16] ...
    %1 = memref.alloc() : memref<7x16xf32>
    npu_task.copy %0 to %1
    %2 = memref.alloc() : memref<8x16xf32>
    npu_task.launch @concat_0 ins(%1, %new) outs(%2)
    npu_task.launch @attention_0 ins(%q, %2) outs(%y)
    npu_task.copy %2 to %s
becomes
    %0 = memref.reinterpret_cast %s to offset: [112], sizes: [1, 16] ...
    npu_task.copy %new to %0
    npu_task.launch @attention_0 ins(%q, %s) outs(%y)

A kernel whose result is only appended writes there itself, as in `write-parts`. A result that takes
the place of the whole state is computed in its buffer where all reads of the state come before, or
the kernel may work in place, if need be at the end; elsewhere the copy there stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ge.dialects.npu_task.attributes import STATE
from ge.dialects.npu_task.memory import owner_of, row_major
from ge.dialects.npu_task.ops import CopyOp, LaunchOp, kernels_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import ops_of
from ge.dialects.support.types import numel, shape_of
from ge.transforms.analysis.dependencies import arena_bytes, erase_unused, in_arena, users_of
from ge.transforms.analysis.task_graph import TaskGraph, buffer_graph
from ge.transforms.memory.overwrite_operands import replace
from ge.transforms.memory.write_parts import (
    PartWriting,
    Placement,
    erase_unused_kernels,
    move,
    part_view,
)


@dataclass
class Updating:
    """Works on the state of one function."""

    writing: PartWriting
    graph: TaskGraph
    ops: Sequence[Operation]

    def state(self, state: AllocOp) -> None:
        """Remove the copy at the end that puts a value into a state."""
        copies = [u for u in users_of(state.memref) if is_update(u, state.memref)]
        if len(copies) != 1 or not isinstance(value := copies[0].operands[0].owner, AllocOp):
            return
        copy, block = copies[0], state.parent
        if (
            not in_arena(value)
            or value.parent is not block
            or value.memref.type != copy.target.type
        ):
            return
        concat = self.appends(state, value)
        if concat is not None:
            Rewriter.erase_op(copy)
            replace(value.memref, state.memref, value)
            self.append(state, *concat)
        elif self.is_free(state.memref, value.memref) or self.waits(state.memref, copy):
            Rewriter.erase_op(copy)
            replace(value.memref, state.memref, value)

    def is_free(self, state: SSAValue, value: SSAValue) -> bool:
        """Return whether nothing reads a state any more when a value is written, or only the kernel
        that writes it, which may do so in place."""
        buffer = self.graph.buffers[state]
        *before, _ = (self.graph.writer[buffer], *self.graph.readers[buffer])
        read, written = max(before, default=-1), self.graph.first_use(value)
        op = self.ops[written]
        if read != written or not isinstance(op, LaunchOp) or value not in op.outs:
            return read < written
        return self.in_place(op, state, value)

    def in_place(self, op: LaunchOp, state: SSAValue, value: SSAValue) -> bool:
        """Return whether a kernel may write a result over a state, which it reads once."""
        inside = [i for i, v in enumerate(op.ins) if owner_of(v) is state]
        pairs = self.writing.kernels[op.callee].in_place_pairs()
        return (
            len(inside) == 1
            and op.ins[inside[0]].type == value.type
            and (op.outs.index(value), inside[0]) in pairs
        )

    def waits(self, state: SSAValue, copy: CopyOp) -> bool:
        """Have the kernel whose result is copied to a state run where the copy is, behind all that
        reads the state, if it may work in place and no other op needs its result."""
        value, block = copy.source, copy.parent
        op = self.ops[self.graph.first_use(value)]
        if not isinstance(op, LaunchOp) or {*users_of(value)} != {op, copy} or block is None:
            return False
        others = [owner_of(v).owner for v in op.ins if owner_of(v) is not state]
        if len(op.outs) > 1 or any(
            isinstance(o, AllocOp) and STATE in o.attributes for o in others
        ):
            return False
        if not self.in_place(op, state, value):
            return False
        op.detach()
        block.insert_op_before(op, copy)
        return True

    def appends(
        self, state: AllocOp, value: AllocOp
    ) -> tuple[LaunchOp, Sequence[Placement], AllocOp, CopyOp] | None:
        """The concatenation that appends to a state: where its operands belong, the buffer that
        has the state's values, and the copy that puts them there."""
        for op in users_of(value.memref):
            if not isinstance(op, LaunchOp) or value.memref not in op.outs:
                continue
            placements = self.writing.placements(op)
            old = op.ins[0].owner if op.ins else None
            if placements is None or not isinstance(old, AllocOp) or op.parent is not state.parent:
                return None
            loads = [
                u
                for u in users_of(old.memref)
                if isinstance(u, CopyOp) and u.target is old.memref
                if owner_of(u.source) is state.memref
            ]
            return (op, placements, old, loads[0]) if len(loads) == 1 else None
        return None

    def append(
        self, state: AllocOp, op: LaunchOp, placements: Sequence[Placement], old: AllocOp,
        load: CopyOp,
    ) -> None:  # fmt: skip
        """Let operands be written behind the state, and the state be read in place."""
        for i, (placement, value) in enumerate(zip(placements, op.ins, strict=True)):
            if not i:
                continue
            alloc = owner_of(value).owner
            if self.is_alone(alloc, value, op) and self.writing.movable(alloc, placement, op):
                move(alloc, placement, state)
                continue
            shape = shape_of(value)
            view = part_view(state.memref, placement, 0, shape, row_major(shape))
            copy = CopyOp(value, view.result)
            view.location = copy.location = op.location
            Rewriter.insert_op((view, copy), InsertPoint.before(op))
        Rewriter.erase_op(op)
        if self.writing.movable(old, placements[0], op):
            Rewriter.erase_op(load)
            move(old, placements[0], state)

    def is_alone(self, alloc: object, value: SSAValue, op: LaunchOp) -> TypeGuard[AllocOp]:
        """Return whether an operand has a buffer of its own, that only this concatenation
        appends."""
        return (
            isinstance(alloc, AllocOp)
            and in_arena(alloc)
            and alloc.parent is op.parent
            and numel(shape_of(alloc.memref)) == numel(shape_of(value))
            and sum(owner_of(v) is alloc.memref for v in op.ins) == 1
        )


def is_update(op: Operation, state: SSAValue) -> TypeGuard[CopyOp]:
    """Return whether an op puts a value into the whole of a state."""
    return isinstance(op, CopyOp) and op.target is state


class UpdateStatePass(ModulePass):
    """Have state written where it is, without copies."""

    name = "update-state"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        ops = ops_of(main.body.block)
        states = [o for o in ops if STATE in o.attributes and isinstance(o, AllocOp)]
        if not states:
            return
        kernels = kernels_of(op)
        updating = Updating(PartWriting(kernels), buffer_graph(ops, arena_bytes), ops)
        for state in states:
            updating.state(state)
        erase_unused(o for o in main.body.block.ops if isinstance(o, ReinterpretCastOp))
        erase_unused_kernels(main, kernels)
