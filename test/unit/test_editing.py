"""Edits done on xDSL's linked lists directly leave what xDSL's own leave."""

import random

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Block, SSAValue

from ge.dialects.support.editing import detach, erase, replace_uses, set_operands


def program(seed: int) -> tuple[Block, list[test.TestOp]]:
    """Ops in a block that use earlier ones at random, some several times."""
    rng = random.Random(seed)
    block = Block(arg_types=[i64, i64])
    ops: list[test.TestOp] = []
    values: list[SSAValue] = [*block.args]
    for i in range(12):
        op = test.TestOp(rng.choices(values, k=rng.randrange(4)), [i64] * rng.randrange(3))
        block.add_op(op)
        ops.append(op)
        for result in op.results:
            if i % 3:
                result.name_hint = f"v{len(values)}"
        values += op.results
    return block, ops


def uses(block: Block) -> list[object]:
    """Ops by number: the operands of each, and the uses of each value in their order."""
    ops = list(block.ops)
    number = {op: i for i, op in enumerate(ops)}
    values = [*block.args, *(r for op in ops for r in op.results)]
    place = {v: i for i, v in enumerate(values)}
    return [
        [[place.get(v, -1) for v in op.operands] for op in ops],
        [[(number.get(u.operation, -1), u.index) for u in v.uses] for v in values],
        [v.name_hint for v in values],
        [op.prev_op is (ops[i - 1] if i else None) for i, op in enumerate(ops)],
    ]


@pytest.mark.parametrize("seed", range(40))
def test_same_as_xdsl(seed: int) -> None:
    (mine, own), (theirs, other) = program(seed), program(seed)
    rng = random.Random(seed)
    for _ in range(6):
        i, j = rng.randrange(12), rng.randrange(12)
        a = [*mine.args, *(r for op in own for r in op.results)]
        b = [*theirs.args, *(r for op in other for r in op.results)]
        i, j = i % len(a), j % len(a)
        replace_uses(a[i], a[j])
        b[i].replace_all_uses_with(b[j])
        assert uses(mine) == uses(theirs)
        k = rng.randrange(12)
        order = [rng.randrange(2) for _ in own[k].operands]
        set_operands(own[k], [mine.args[n] for n in order])
        other[k].operands = [theirs.args[n] for n in order]
        assert uses(mine) == uses(theirs)
    for i in rng.sample(range(12), 6):
        if any(r.first_use is not None for r in own[i].results):
            with pytest.raises(ValueError, match="still has uses"):
                erase(own[i])
            return
        erase(own[i])
        theirs.erase_op(other[i])
        assert uses(mine) == uses(theirs)


def test_first_and_last() -> None:
    block, ops = program(3)
    detach(ops[0], block)
    detach(ops[-1], block)
    assert block.first_op is ops[1]
    assert block.last_op is ops[-2]
    assert ops[0].parent is None
    assert ops[-1].prev_op is None


def test_op_with_a_region() -> None:
    block, _ = program(5)
    outer = test.TestOp(list(block.args), regions=[ModuleOp([]).detach_region(0)])
    block.add_op(outer)
    count = len(list(block.ops))
    erase(outer)
    assert len(list(block.ops)) == count - 1
    assert all(u.operation is not outer for v in block.args for u in v.uses)
