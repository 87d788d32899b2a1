"""Helpers that passes on graph ops share: moving, replacing and erasing ops, which ops are pure,
and `graph.if`, `graph.case` and `graph.loop` with fewer results or other limits."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import CaseOp, Control, LoopOp, YieldOp
from ge.dialects.support.editing import erase, replace_uses
from ge.dialects.support.operation import put_before
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.data.arrays import Array, dense, type_of

OpT = TypeVar("OpT", bound=Operation)
ControlT = TypeVar("ControlT", bound=Control)


@cache
def is_pure(kind: type[Operation]) -> bool:
    """Return whether an op of this class may be erased if its results have no uses; for control
    flow this holds if their regions are pure."""
    return issubclass(kind, Control | YieldOp) or any(
        isinstance(t, NoMemoryEffect) for t in kind.traits
    )


def nested_blocks(op: Operation) -> Iterator[Block]:
    """The blocks in an op that see the values around it."""
    if not isinstance(op, FusedOp):
        for region in op.regions:
            yield from region.blocks


def end_of(block: Block) -> YieldOp:
    last = block.last_op
    assert isinstance(last, YieldOp)
    return last


def replace_op(op: Operation, values: Sequence[SSAValue]) -> None:
    for result, value in zip(op.results, values, strict=True):
        replace_uses(result, value)
    erase(op)


def insert_before(before: Operation, op: OpT) -> OpT:
    """Insert a new op, with the source location of the one before which it is inserted."""
    op.location = before.location
    assert before.parent is not None
    put_before(before.parent, op, before)
    return op


def constant_before(before: Operation, array: Array) -> SSAValue:
    return insert_before(before, ConstantOp.make(dense(array), type_of(array))).result


def move_before(before: Operation, ops: Iterable[Operation]) -> None:
    """Move the ops, in order, before another one, of any block."""
    assert before.parent is not None
    for op in list(ops):
        op.detach()
        before.parent.insert_op_before(op, before)


def inline(block: Block, before: Operation, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Move the ops of a block before an op, with values for the block's arguments. The terminator
    is erased; returns its operands."""
    for arg, value in zip(block.args, arguments, strict=True):
        replace_uses(arg, value)
    end = block.last_op
    assert end is not None
    results = list(end.operands)
    erase(end)
    move_before(before, block.ops)
    return results


def unfuse(op: FusedOp) -> list[TensorOp]:
    """Put the ops of a fused op where it is; returns them."""
    members = [*op.members]
    replace_op(op, inline(op.block, op, op.inputs))
    return members


def keep_results(op: ControlT, indices: Collection[int]) -> ControlT:
    """The op with only the results at `indices`, and what a loop carries for them. Nothing that
    stays may use the others, or the body's arguments for them."""
    kept = [i for i in range(len(op.results)) if i in indices]
    if len(kept) == len(op.results):
        return op
    conditions = 1 if isinstance(op, LoopOp) else 0  # that the body yields before the results
    for region in op.regions:
        end = end_of(region.block)
        results = end.operands[conditions:]
        end.operands = [*end.operands[:conditions], *(results[i] for i in kept)]
    operands: list[SSAValue | Sequence[SSAValue] | None] = list(op.operands)
    if isinstance(op, LoopOp):
        body, carried = op.body.block, op.carried
        for i in reversed(range(len(carried))):
            if i not in indices:
                body.erase_arg(body.args[2 + i], safe_erase=False)
        operands = [op.trip_count, op.condition, [carried[i] for i in kept if i < len(carried)]]
    new = _rebuilt(op, operands, [op.results[i].type for i in kept])
    for i, result in zip(kept, new.results, strict=True):
        op.results[i].replace_all_uses_with(result)
    erase(op)
    return new


def _rebuilt(
    op: ControlT,
    operands: Sequence[SSAValue | Sequence[SSAValue] | None],
    types: Sequence[Attribute],
) -> ControlT:
    regions = [op.detach_region(region) for region in tuple(op.regions)]
    grouped = [regions] if isinstance(op, CaseOp) else regions
    new = type(op)(
        operands=operands, result_types=[types], regions=grouped, attributes=op.attributes
    )
    return insert_before(op, new)


def with_limits(loop: LoopOp, trip: SSAValue | None, condition: SSAValue | None) -> LoopOp:
    new = _rebuilt(loop, [trip, condition, loop.carried], loop.result_types)
    replace_op(loop, new.results)
    return new
