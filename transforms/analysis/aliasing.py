"""What ops on memrefs read and write, and which buffers the arena holds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.npu_task.attributes import HBM
from ge.dialects.npu_task.memory import Task, access
from ge.dialects.npu_task.program_info import is_outside_arena
from ge.dialects.support.operation import all_ops, operands_of
from ge.dialects.support.types import align_up, byte_size, is_dynamic


def in_arena(op: object) -> bool:
    """Whether an op allocates a buffer that the arena will hold: of the device, of a known size."""
    if type(op) is not AllocOp or is_outside_arena(op):
        return False
    t = cast("MemRefType[Attribute]", op.results[0].type)
    return t.memory_space == HBM and not is_dynamic(t)


def arena_bytes(buffer: SSAValue, alignment: int = 1) -> int:
    """The bytes of the arena that a buffer takes; 0 if it is elsewhere."""
    return align_up(byte_size(buffer.type), alignment) if in_arena(buffer.owner) else 0


def accesses(op: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """The memrefs that an op reads and those that it writes; a branch or loop may do both to all
    that it names."""
    if isinstance(op, Task):
        reads, writes, new = access(op)
        return reads, (*writes, *new)
    return op.operands, op.results if op.regions else ()


def all_accesses(op: Operation) -> list[SSAValue]:
    """The memrefs that an op reads or writes, or one inside of it does."""
    if not op.regions:
        if type(op) is ReinterpretCastOp:
            return []
        return [*operands_of(op), *(op.results if isinstance(op, Task) else ())]
    found: list[SSAValue] = []
    for inner in (op, *all_ops([b for r in op.regions for b in r.blocks])):
        if type(inner) is not ReinterpretCastOp:
            found += operands_of(inner)
            if inner.regions or isinstance(inner, Task):
                found += inner.results
    return found


def users_of(buffer: SSAValue) -> Iterator[Operation]:
    """The ops that use a buffer or a view of it."""
    for use in buffer.uses:
        if isinstance(use.operation, ReinterpretCastOp):
            yield from users_of(use.operation.result)
        else:
            yield use.operation


def erase_unused(ops: Iterable[Operation]) -> None:
    """Erase the ops, the last ones first, whose results nobody uses."""
    for op in reversed(list(ops)):
        if all(r.first_use is None for r in op.results):
            Rewriter.erase_op(op)


def ops_by_block(body: Block) -> dict[Block, list[Operation]]:
    """The ops of a block and of those inside of it, outer blocks first."""
    ops: dict[Block, list[Operation]] = {}
    for op in all_ops((body,)):
        if op.parent is not None:
            ops.setdefault(op.parent, []).append(op)
    return ops
