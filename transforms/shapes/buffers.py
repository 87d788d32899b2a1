"""Where the values of a program are while it is copied for known sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import MemRefType, StringAttr, UnitAttr
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import HBM, data_type
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.memory import MemoryView, owner_of, row_major, view_of
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, CopyOp, LaunchOp, segments
from ge.dialects.npu_task.program_info import IO, STATE, is_outside_arena
from ge.dialects.support.operation import created, put_last
from ge.dialects.support.types import Shape, element_type, numel, shape_of
from ge.runtime.data.arrays import Array, dense


def buffer_type(
    value: SSAValue | Attribute, space: StringAttr = HBM, shape: Shape | None = None
) -> MemRefType[Attribute]:
    element, known = data_type(value.type if isinstance(value, SSAValue) else value)
    return casts.dense(element, known if shape is None else tuple(shape), space)


def alloc(t: Attribute, io: bool = False) -> AllocOp:
    """A buffer of a static memref type, of an input or output of the program if `io`."""
    op = created(AllocOp, (), (t,), {"operandSegmentSizes": segments(0, 0)})
    if io:
        op.attributes[IO] = UnitAttr()
    return op


@dataclass
class Buffers:
    """What the values of a program are while it is copied for known sizes: buffers, or elements."""

    # Value of the program -> the buffer that it is now
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    # Buffer of the program -> its elements, where they follow from shapes and constants
    known: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    # New view -> the buffer that it is of, and its first element
    views: dict[SSAValue, tuple[SSAValue, int]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, int]]
    )
    # Buffers of the program that hold an output
    outputs: set[SSAValue] = field(default_factory=set[SSAValue])
    block: Block = field(default_factory=Block)  # that ops are added to
    at: Operation | None = None  # that is copied

    def add(self, op: Operation) -> None:
        if self.at is not None:
            op.location = self.at.location
        put_last(self.block, op)

    def allocate(self, value: SSAValue, t: Attribute, io: bool = False) -> SSAValue:
        op = alloc(buffer_type(t), io)
        op.memref.name_hint = value.name_hint
        self.add(op)
        self.known.pop(value, None)
        self.buffers[value] = op.memref
        return op.memref

    def show(self, value: SSAValue) -> None:
        """All of a new buffer turns out to be an output."""
        owner, _ = self.views.get(value, (value, 0))
        if isinstance(op := owner.owner, AllocOp) and op.parent is self.block:
            if not is_outside_arena(op) and numel(shape_of(owner)) == numel(shape_of(value)):
                op.attributes[IO] = UnitAttr()

    def elements(self, value: SSAValue) -> Array | None:
        """The elements of a value of the program, where they are known."""
        owner = owner_of(value)
        if (whole := self.known.get(owner)) is None:
            return None
        if value is owner:
            return whole
        view = view_of(value)
        flat = np.ascontiguousarray(whole).reshape(-1)[view.offset :]
        strides = [s * flat.itemsize for s in view.strides]
        return np.lib.stride_tricks.as_strided(flat, view.sizes, strides).copy()

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer that a value of the program is now."""
        if (array := self.elements(value)) is not None:
            constant = ConstantOp(dense(array), buffer_type(value, HBM, array.shape))
            self.add(constant)
            return constant.result
        if value in self.buffers:
            return self.buffers[value]
        return self.view(view_of(value))

    def view(self, view: MemoryView) -> SSAValue:
        """A view of the buffer that the owner of a view of the program is now."""
        base = self.buffers[view.owner]
        owner, start = self.views.get(base, (base, 0))
        offset = start + view.offset
        return self.cast(owner, offset, view.sizes, view.strides)

    def cast(self, owner: SSAValue, offset: int, sizes: Shape, strides: Shape) -> SSAValue:
        element = element_type(owner)
        if not offset and strides == row_major(sizes) and numel(sizes):
            t = casts.dense(element, sizes)
        else:
            t = casts.strided(element, sizes, strides, offset)
        self.add(new := casts.cast(owner, offset, sizes, strides, t))
        self.views[new.result] = owner, offset
        return new.result

    def part(self, source: SSAValue, offset: int, shape: Shape) -> SSAValue:
        """The dense part of a new buffer from an element on."""
        owner, start = self.views.get(source, (source, 0))
        return self.cast(owner, start + offset, shape, row_major(shape))

    def is_whole(self, value: SSAValue) -> bool:
        """Whether a value is all of a buffer, written in the block that the buffer is of."""
        owner = owner_of(value)
        if self.at is None or getattr(owner.owner, "parent", None) is not self.at.parent:
            return False
        if isinstance(owner.owner, Operation) and STATE in owner.owner.attributes:
            return False
        return value is owner or numel(shape_of(value)) == numel(shape_of(owner))

    def place(self, value: SSAValue) -> SSAValue:
        """The buffer that a value of the program is now, to be written to."""
        owner = owner_of(value)
        if owner in self.known:
            if self.is_whole(value):
                del self.known[owner]
            else:
                self.settle(owner)
        return self.buffer(value)

    def settle(self, owner: SSAValue) -> None:
        """Put known elements into the buffer itself."""
        constant = self.buffer(owner)
        del self.known[owner]
        self.add(CopyOp(constant, self.buffers[owner]))

    def settled(self, owner: SSAValue) -> None:
        """Before ops of a region write to a buffer: it holds what is known of it."""
        if owner in self.known and owner in self.buffers:
            self.settle(owner)


def written(op: Operation) -> Sequence[SSAValue]:
    """The buffers that an op, or the end of a block of it, writes to."""
    match op:
        case LaunchOp() | IfOp() | CaseOp():
            return op.outs
        case CopyOp():
            return (op.target,)
        case BatchCopyOp():
            return op.targets
        case LoopOp():
            return (*op.carried, *op.scans)
        case _:
            return ()
