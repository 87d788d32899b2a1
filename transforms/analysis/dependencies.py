"""Reads and writes of ops on memrefs, buffers that the arena holds, and dependencies of the tasks
of a segment.

A segment is what a block issues between two barriers (control flow, or the ends of the block). A
task depends on the last tasks that wrote what it reads, and on those that read or wrote what it
writes. A view counts as the elements of the buffer that it shows: tasks that write different parts
of a buffer do not depend on each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast, get_args

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.npu_task.attributes import HBM, is_outside_arena
from ge.dialects.npu_task.memory import ByteRegions, RegionHistory, Task, access
from ge.dialects.npu_task.ops import ConstantOp, WaitOp
from ge.dialects.support.operation import all_ops, operands_of, ops_of
from ge.dialects.support.types import align_up, byte_size, is_dynamic


def in_arena(op: object) -> bool:
    """Return whether an op allocates a buffer that the arena will hold: of the device, of a known
    size."""
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
    """Erase the ops whose results are not used, the last ones first."""
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


TASKS = frozenset(get_args(Task))


@dataclass
class Segment:
    """The ops between two barriers, and what its tasks depend on."""

    ops: list[Operation]
    regions: ByteRegions = field(default_factory=ByteRegions)
    tasks: list[Operation] = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = [op for op in self.ops if type(op) in TASKS]

    @cached_property
    def before(self) -> list[list[int]]:
        """For each task the earlier ones that must be done before it starts, each once."""
        return dependencies(self.tasks, self.regions)

    def with_others(self, ops: Iterable[Operation], move: bool) -> Iterator[Operation]:
        """The tasks and events in `ops` with the other ops of the segment: each before the task
        that it is before now or, if they may `move`, before the first task that uses it."""
        left = dict.fromkeys(self.ops)
        in_order = iter(self.ops)
        waits: list[Operation] = []
        for op in ops:
            if type(op) is WaitOp:
                waits.append(op)
                continue
            if type(op) in TASKS:
                others = _definitions(op, left) if move else iter(in_order.__next__, op)
                for other in others:
                    left.pop(other, None)
                    yield other
                yield from waits
                waits = []
                del left[op]
            yield op
        yield from left


def _definitions(op: Operation, left: dict[Operation, None]) -> Iterator[Operation]:
    """The ops of `left` that define the operands of an op. They are removed from it."""
    for value in operands_of(op):
        owner = value.owner
        if owner in left and type(owner) not in TASKS:
            assert isinstance(owner, Operation)
            del left[owner]
            yield from _definitions(owner, left)
            yield owner


def dependencies(tasks: Sequence[Operation], regions: ByteRegions) -> list[list[int]]:
    """For each task the earlier ones that must be done before it starts."""
    history, result = RegionHistory[int](), list[list[int]]()
    for i, op in enumerate(tasks):
        reads, writes = accesses(op)
        before: dict[int, None] = {}
        for region in map(regions.of, reads):
            if not isinstance(region.owner.owner, ConstantOp):
                before |= dict.fromkeys(history.writers(region))
                history.read(region, i)
        for region in map(regions.of, writes):
            before |= dict.fromkeys((*history.writers(region), *history.readers(region)))
            history.write(region, i)
        before.pop(i, None)
        result.append(list(before))
    return result


def segments(block: Block, regions: ByteRegions | None = None) -> Iterator[Segment | Operation]:
    """The segments of a block, and between them the ops that are barriers. `regions`: what is known
    of the block's values."""
    regions = regions or ByteRegions()
    ops: list[Operation] = []
    for op in ops_of(block):
        if op.regions:
            yield Segment(ops, regions)
            yield op
            ops = []
        elif op is not block.last_op:
            ops.append(op)
    yield Segment(ops, regions)
