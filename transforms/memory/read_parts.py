"""Kernels read a slice where its elements lie, which is then not launched.

    %1 = memref.alloc() : memref<4x8x16xf32, hbm>
    npu_task.launch @layer_norm_0 ins(%0 : ...) outs(%1 : ...)
    %2 = memref.alloc() : memref<4x1x16xf32, hbm>
    npu_task.launch @slice_0 ins(%1 : ...) outs(%2 : ...)
    npu_task.launch @matmul_0 ins(%2, %w : ...) outs(%3 : ...)
becomes
    %1 = memref.alloc() : memref<4x8x16xf32, hbm>
    %2 = memref.reinterpret_cast %1 to offset: [0], sizes: [4, 1, 16], strides: [128, 16, 1] : ...
    npu_task.launch @layer_norm_0 ins(%0 : ...) outs(%1 : ...)
    npu_task.launch @matmul_0 ins(%2, %w : ...) outs(%3 : ...)

The counterpart of `write-parts`, with its limits: the slice is along one dimension, the kernels
that use it accept strided rows (`KernelOp.accepts_strided`), and each contiguous run has at least
`SHORTEST` bytes, all of them whole. It is no output of the model, and what it is a slice of, a
buffer that the program allocates, is not written after it. Where that lives longer now, the bytes
must fit below the most that is live between two tasks of the block.
"""

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ge.dialects.graph.slicing import SliceOp
from ge.dialects.npu_task.attributes import HBM, IO, STATE
from ge.dialects.npu_task.memory import access, owner_of
from ge.dialects.npu_task.ops import CopyOp, LaunchOp
from ge.dialects.support.element_types import elements_per_byte, storage_bytes
from ge.dialects.support.types import byte_size, element_type, is_dynamic, numel, shape_of
from ge.transforms.analysis.dependencies import arena_bytes, in_arena, users_of
from ge.transforms.analysis.liveness import LiveProfile
from ge.transforms.analysis.task_graph import TaskGraph, buffer_graph
from ge.transforms.memory.write_parts import (
    SHORTEST,
    BufferParts,
    Placement,
    each_block,
    move,
)


class PartReading(BufferParts):
    """Works on the blocks of one function."""

    KIND = SliceOp

    def block(self, ops: Sequence[Operation]) -> None:
        """Make views of the slices of a block."""
        slices = [
            (position, op, placement) for position, op in enumerate(ops)
            if isinstance(op, LaunchOp) and (placement := self.placement(op)) is not None
        ]  # fmt: skip
        if not slices:
            return
        graph = buffer_graph(ops, arena_bytes)
        positions = {op: i for i, op in enumerate(ops)}
        profile = graph.live_between()
        for position, op, placement in slices:
            whole, part = owner_of(op.ins[0]).owner, op.outs[0].owner
            if (
                isinstance(whole, AllocOp)
                and isinstance(part, AllocOp)
                and self.may_read(whole, part, op, placement)
                and all(is_only_read(b, position, positions) for b in (whole, part))
                and may_live(graph, profile, whole, part)
            ):
                Rewriter.erase_op(op)
                graph.merge(whole.memref, part.memref)
                move(part, placement, whole)

    def placement(self, op: LaunchOp) -> Placement | None:
        """Return where the result of a slice lies in its operand; None for any other launch, and
        for a slice along several dimensions, in steps, or into runs that are too short."""
        main = self.kernels[op.callee].main
        if not isinstance(main, SliceOp) or (len(op.ins), len(op.outs)) != (1, 1):
            return None
        if is_dynamic(main.input.type) or (starts := main.part_starts()) is None:
            return None
        shape, sizes = shape_of(main.input), shape_of(main.result)
        cut = [i for i, (d, n) in enumerate(zip(shape, sizes, strict=True)) if d != n]
        if len(cut) != 1 or not prod(sizes):
            return None
        axis, element = cut[0], element_type(main.input)
        inner = prod(shape[axis + 1 :])
        found = Placement(starts[0][axis] * inner, sizes[axis] * inner, shape[axis] * inner)
        whole = all(
            n % elements_per_byte(element) == 0 for n in (found.offset, found.length, found.pitch)
        )
        return found if whole and storage_bytes(found.length, element) >= SHORTEST else None

    def may_read(self, whole: AllocOp, part: AllocOp, op: LaunchOp, placement: Placement) -> bool:
        """Return whether a part of one buffer can stand for another one, which a slice writes."""
        source, buffers = op.ins[0], (whole, part)
        return (
            all(b.parent is op.parent and STATE not in b.attributes for b in buffers)
            and all(b.memref.type.memory_space == HBM for b in buffers)
            and IO not in part.attributes
            and numel(shape_of(whole.memref)) == numel(shape_of(source))
            and element_type(whole.memref) == element_type(source)
            and self.movable(part, placement, op)
        )


def is_only_read(buffer: AllocOp, after: int, positions: Mapping[Operation, int]) -> bool:
    """Return whether tasks of its block alone, the ops with positions, use a buffer after one of
    them, and none of these writes to it."""
    for user in users_of(buffer.memref):
        if positions.get(user, after + 1) <= after:
            continue
        if user not in positions or not isinstance(user, LaunchOp | CopyOp):
            return False
        if any(owner_of(v) is buffer.memref for v in access(user).writes):
            return False
    return True


def may_live(graph: TaskGraph, profile: LiveProfile, whole: AllocOp, part: AllocOp) -> bool:
    """Return whether a buffer may live until a part of it, which has been a buffer, is read for the
    last time: then there is room, and it is reserved."""
    first, end = graph.last_use(whole.memref), graph.last_use(part.memref)
    if end <= first or not in_arena(whole):
        return True
    more = byte_size(whole.memref.type) - byte_size(part.memref.type)
    return profile.reserve(first, end, more)


class ReadPartsPass(ModulePass):
    """Have kernels read slices where their elements lie."""

    name = "read-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        each_block(op, PartReading)
