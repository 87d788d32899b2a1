"""Edits of the IR that passes make for most ops, done on its linked lists directly: xDSL's own make
a view of the operands for each use, and an erased value for each result."""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue, SSAValues

# pyright: reportPrivateUsage=false


def replace_uses(value: SSAValue, new: SSAValue) -> None:
    """As `value.replace_all_uses_with(new)`: the same uses, in the same order."""
    if new is value:
        return
    use, first = value.first_use, new.first_use
    while use is not None:
        following, op = use._next_use, use._operation
        operands = [*op._operands]
        operands[use._index] = new
        op._operands = SSAValues(operands)
        use._prev_use, use._next_use = None, first
        if first is not None:
            first._prev_use = use
        first, use = use, following
    value.first_use, new.first_use = None, first
    if new.name_hint is None:
        new.name_hint = value.name_hint


def set_operands(op: Operation, values: Sequence[SSAValue]) -> None:
    """As `op.operands = values`, for as many operands as before."""
    for old, value, use in zip(op._operands, values, op._operand_uses, strict=True):
        old.remove_use(use)
        value.add_use(use)
    op._operands = SSAValues(values)


def detach(op: Operation, block: Block) -> None:
    """As `block.detach_op(op)`, for an op of the block."""
    before, after = op._prev_op, op._next_op
    if before is None:
        block._first_op = after
    else:
        before._next_op = after
    if after is None:
        block._last_op = before
    else:
        after._prev_op = before
    op.parent = op._prev_op = op._next_op = None


def erase(op: Operation) -> None:
    """Detach an op, if it is in a block, and erase it. Raises ValueError where a result has
    uses."""
    if op.parent is not None:
        detach(op, op.parent)
    if op.regions or op._successors or any([r.first_use is not None for r in op.results]):
        op.erase()
        return
    for operand, use in zip(op._operands, op._operand_uses, strict=True):
        operand.remove_use(use)
    op._operand_uses = ()


def put_in_row(block: Block, old: Sequence[Operation], new: Sequence[Operation]) -> None:
    """Let ops, in their order, take the place of some that follow each other in a block: new ones
    with all of the old ones among them."""
    before, after = old[0]._prev_op, old[-1]._next_op
    for op in new:
        op.parent, op._prev_op = block, before
        if before is None:
            block._first_op = op
        else:
            before._next_op = op
        before = op
    assert before is not None
    before._next_op = after
    if after is None:
        block._last_op = before
    else:
        after._prev_op = before
