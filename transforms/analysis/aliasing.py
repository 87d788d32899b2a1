"""Which buffer a memref is part of, and what a task reads and writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ge.dialects.npu_task.ops import CopyOp, IfOp, LaunchOp, LoopOp, TransferOp
from ge.dialects.support.types import array_ints

LOOP_ARGUMENTS = 2
"""A loop's body has these arguments before the carried buffers: iteration number, condition."""

Task = LaunchOp | CopyOp | TransferOp
"""What runs on a stream."""


def owner_of(value: SSAValue) -> SSAValue:
    """The buffer whose memory a memref is, or is part of: views are followed to what they look
    at, arguments of a loop's body to the carried buffer that they stand for."""
    while True:
        if isinstance(value.owner, ReinterpretCastOp):
            value = value.owner.source
        elif isinstance(value, BlockArgument) and (buffer := _carried(value)) is not None:
            value = buffer
        else:
            return value


def _carried(arg: BlockArgument) -> SSAValue | None:
    assert isinstance(arg.owner, Block)
    loop, index = arg.owner.parent_op(), arg.index - LOOP_ARGUMENTS
    if not isinstance(loop, LoopOp) or index < 0:
        return None
    order = array_ints(loop.order)
    return loop.carried[sum(order[:index])] if order[index] else None


def accesses(op: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """The memrefs that an op reads and those that it writes."""
    match op:
        case LaunchOp():
            return op.ins, (*op.outs, *op.results)
        case CopyOp():
            return (op.source,), (op.target,)
        case TransferOp():
            return (op.source,), (op.result,)
        case IfOp():
            return (op.condition,), (*op.outs, *op.results)
        case LoopOp():
            return op.operands, (*op.carried, *op.scans, *op.results)
        case _:
            return op.operands, ()


@dataclass
class Uses:
    """Where the buffers of a block are used: the positions in `ops` of the first and of the last
    op that reads or writes them, or has one inside that does; and where they are allocated."""

    ops: list[Operation]
    first: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    last: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    places: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def add(self, buffer: SSAValue, position: int) -> None:
        self.first.setdefault(buffer, position)
        self.last[buffer] = position


def find_uses(block: Block, found: dict[Block, Uses]) -> Uses:
    """The uses in a block and, in `found`, in it and those inside, outer blocks first."""
    uses = found[block] = Uses(list(block.ops))
    for position, op in enumerate(uses.ops):
        if isinstance(op, AllocOp):
            uses.places[op] = position
        if isinstance(op, ReinterpretCastOp):
            continue
        for value in {v for values in accesses(op) for v in values}:
            uses.add(owner_of(value), position)
        for region in op.regions:
            for buffer in find_uses(region.block, found).last:
                uses.add(buffer, position)
    return uses
