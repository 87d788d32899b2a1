"""What passes on `graph.if` and `graph.loop` share: smaller versions of an op, and a block of ops
put in its place."""

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.control import IfOp, LoopOp, YieldOp

ControlT = TypeVar("ControlT", IfOp, LoopOp)


def blocks_of(op: IfOp | LoopOp) -> list[Block]:
    """The two branches, or the body."""
    return [region.block for region in op.regions]


def nested_blocks(op: Operation) -> Iterator[Block]:
    """The blocks in an op that see the values around it."""
    if not isinstance(op, FusedOp):
        for region in op.regions:
            yield from region.blocks


def end_of(block: Block) -> YieldOp:
    """The op that ends a branch or the body of a loop."""
    last = block.last_op
    assert isinstance(last, YieldOp)
    return last


def replace_op(op: Operation, values: Sequence[SSAValue]) -> None:
    """Put values in the place of an op's results; the op goes."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    erase(op)


def erase(op: Operation) -> None:
    op.detach()
    op.erase()


def inline(block: Block, before: Operation, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Move the ops of a block before an op, with values for the block's arguments. The block's
    last op goes; returns its operands."""
    for arg, value in zip(block.args, arguments, strict=True):
        arg.replace_all_uses_with(value)
    end = end_of(block)
    results = list(end.operands)
    erase(end)
    target = before.parent
    assert target is not None
    for op in list(block.ops):
        op.detach()
        target.insert_op_before(op, before)
    return results


def keep_results(op: ControlT, kept: Collection[int]) -> ControlT:
    """The op with the results at `kept` alone, and what a loop carries for them. The others, and
    the arguments of the body for them, are used by nothing that stays."""
    indices = [i for i in range(len(op.results)) if i in kept]
    if len(indices) == len(op.results):
        return op
    before = 1 if isinstance(op, LoopOp) else 0  # the condition that a loop's body yields
    for block in blocks_of(op):
        end = end_of(block)
        end.operands = [*end.operands[:before], *(end.operands[before + i] for i in indices)]
    types = [op.results[i].type for i in indices]
    if isinstance(op, LoopOp):
        count, body = len(op.carried), op.body.block
        for i in reversed(range(count)):
            if i not in kept:
                body.erase_arg(body.args[2 + i], safe_erase=False)
        carried = [op.carried[i] for i in indices if i < count]
        operands = [op.trip_count, op.condition, carried]
    else:
        operands = [op.condition]
    new = type(op)(
        operands=operands,
        result_types=[types],
        regions=[op.detach_region(region) for region in tuple(op.regions)],
        attributes=op.attributes,
    )
    new.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    for i, result in zip(indices, new.results, strict=True):
        op.results[i].replace_all_uses_with(result)
    erase(op)
    return new


def with_limits(loop: LoopOp, trip: SSAValue | None, condition: SSAValue | None) -> LoopOp:
    """The loop with another trip count and start condition."""
    new = LoopOp(
        operands=[trip, condition, loop.carried],
        result_types=[loop.result_types],
        regions=[loop.detach_region(loop.body)],
        attributes=loop.attributes,
    )
    new.location = loop.location
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    replace_op(loop, new.results)
    return new
