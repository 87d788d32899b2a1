"""What ops on buffers read and write, and where the buffers of a block are used."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.attributes import HBM, is_dynamic
from ge.dialects.npu_task.memory import Task, access, owner_of
from ge.dialects.npu_task.program_info import IO


def in_hbm(op: Operation) -> bool:
    """Whether an op allocates a buffer of the device whose size is known."""
    if not isinstance(op, AllocOp):
        return False
    return op.memref.type.memory_space == HBM and not is_dynamic(op.memref.type)


def in_arena(op: Operation) -> bool:
    """Whether an op allocates a buffer that the arena will hold."""
    return in_hbm(op) and IO not in op.attributes


def accesses(op: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """The memrefs that an op reads and those that it writes; a branch or loop may do both to all
    that it names."""
    if isinstance(op, Task):
        reads, writes, new = access(op)
        return reads, (*writes, *new)
    return op.operands, op.results if op.regions else ()


def users_of(buffer: SSAValue) -> Iterator[Operation]:
    """The ops that use a buffer or a view of it."""
    for use in buffer.uses:
        if isinstance(use.operation, ReinterpretCastOp):
            yield from users_of(use.operation.result)
        else:
            yield use.operation


def erase_unused(ops: Iterable[Operation]) -> None:
    """Erase the ops, those in front last, whose results nobody uses."""
    for op in reversed(list(ops)):
        if all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()


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


def find_uses(block: Block, of_block: dict[Block, Uses]) -> Uses:
    """The uses in a block; `of_block` gets those of it and of blocks inside, outer ones first."""
    uses = of_block[block] = Uses(list(block.ops))
    for position, op in enumerate(uses.ops):
        if isinstance(op, AllocOp):
            uses.places[op] = position
        if isinstance(op, ReinterpretCastOp):
            continue
        for value in {v for values in accesses(op) for v in values}:
            uses.add(owner_of(value), position)
        for region in op.regions:
            for buffer in find_uses(region.block, of_block).last:
                uses.add(buffer, position)
    return uses
