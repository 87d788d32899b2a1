"""Where the inputs and outputs of a program are on the device.

    %0 = npu_task.slot io 0 : memref<8x64xf32, hbm>
    npu_task.copy %x to %0 on 2           input 0 is in %0, brought there by this copy
    npu_task.launch @relu_0 ins(%0) outs(%1)
    %2 = memref.alloc() : memref<8x64xf32, host>
    npu_task.copy %1 to %2 on 3           output 0 is in %1, and brought back by this one
    func.return %2

An input or output has a place of its own where nothing else is in the slot: then a run may bring
other memory for it. Others keep their copies: an input that is a part of an output, an output that
a constant is copied to. Values of dynamic shape are in buffers that the device makes in each run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import HOST, space_of
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.memory import access, owner_of, row_major, view_of
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp, SlotOp, TransferOp
from ge.dialects.support.types import numel, shape_of


@dataclass(frozen=True, slots=True)
class Place:
    """A slot, or what a transfer makes or reads, and the task that copies it from or to the
    host."""

    value: SSAValue
    source: SSAValue
    target: SSAValue
    task: Operation

    @property
    def is_slot(self) -> bool:
        return isinstance(self.value.owner, SlotOp)


def input_places(block: Block) -> dict[int, Place]:
    """The places of the inputs of a program, by number."""
    places: dict[int, Place] = {}
    for index, arg in enumerate(block.args):
        if space_of(arg.type) != HOST or (use := arg.get_user_of_unique_use()) is None:
            continue
        if use.parent is not block:
            continue
        if isinstance(use, TransferOp):
            places[index] = Place(use.result, arg, use.result, use)
        elif (target := _target_of(use, arg)) is not None and isinstance(target.owner, SlotOp):
            if target.owner.segment.data == "io" and list(writers(target)) == [use]:
                places[index] = Place(target, arg, target, use)
    return places


def output_places(block: Block) -> dict[int, Place]:
    """The places of the outputs of a program, by number."""
    places: dict[int, Place] = {}
    last = block.last_op
    taken = {p.value for p in input_places(block).values()}
    for index, value in enumerate(() if last is None else last.operands):
        place = _output_place(block, value)
        if place is not None and place.value not in taken:
            taken.add(place.value)
            places[index] = place
    return places


def _output_place(block: Block, value: SSAValue) -> Place | None:
    task = value.owner
    if isinstance(task, TransferOp):
        made = not isinstance(owner_of(task.source).owner, SlotOp)
        return Place(task.source, task.source, value, task) if made else None
    copies = list(writers(value)) if isinstance(task, AllocOp) else []
    if len(copies) != 1 or copies[0].parent is not block:
        return None
    (copy,) = copies
    source = _source_of(copy, value)
    if source is None or space_of(value.type) != HOST:
        return None
    slot, view = owner_of(source), view_of(source)
    whole = numel(shape_of(slot)) == numel(shape_of(source))
    dense = view.offset == 0 and view.strides == row_major(view.sizes)
    if not isinstance(slot.owner, SlotOp) or slot.owner.segment.data != "io":
        return None
    before = all(_is_before(block, w, copy) for w in writers(slot))
    return Place(slot, source, value, copy) if whole and dense and before else None


def writers(value: SSAValue) -> Iterator[Operation]:
    """The ops that write to a buffer or a view of it; a branch or loop that has it as a place for
    results is one."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, ReinterpretCastOp):
            yield from writers(op.result)
        elif isinstance(op, LoopOp):
            if value in (*op.carried, *op.scans):
                yield op
        elif value in (op.outs if isinstance(op, IfOp | CaseOp) else access(op).writes):
            yield op


def _is_before(block: Block, op: Operation, copy: Operation) -> bool:
    top = block.find_ancestor_op_in_block(op)
    return top is not None and top.is_before_in_block(copy)


def pairs_of(op: Operation) -> list[tuple[SSAValue, SSAValue]]:
    """What a copy copies, and where it goes."""
    if isinstance(op, BatchCopyOp):
        return op.pairs
    return [(op.source, op.target)] if isinstance(op, CopyOp) else []


def _target_of(copy: Operation, source: SSAValue) -> SSAValue | None:
    return next((t for s, t in pairs_of(copy) if s is source), None)


def _source_of(copy: Operation, target: SSAValue) -> SSAValue | None:
    return next((s for s, t in pairs_of(copy) if t is target), None)
