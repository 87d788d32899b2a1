"""Bodies cost the same where they are equal but for their values."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Block

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, MulOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import KernelOp, ReturnOp
from ge.dialects.support.types import tensor
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array, dense, type_of
from ge.runtime.library.costs.structure import by_structure, once, settle, structure


def constant(array: Array) -> Any:
    return ConstantOp.make(dense(array), type_of(array)).result


def two(first: type[Any], second: type[Any], weight: Array, swapped: bool = False) -> Body:
    """second(first(x, weight), y), or with the last operands swapped."""
    x, y = Block(arg_types=[tensor((8, 64), f32)] * 2).args
    one = first.of(x, constant(weight))
    operands = (y, one.result) if swapped else (one.result, y)
    last = second.of(*operands)
    inputs = list(dict.fromkeys((*one.operands, *(v for v in last.operands if v is y))))
    return Body([one, last], inputs, [last.result])


def test_long_constants_count_by_their_type():
    zeros, ones = np.zeros(64, np.float32), np.ones(64, np.float32)
    assert structure(two(AddOp, MulOp, zeros)) == structure(two(AddOp, MulOp, ones))
    wide = np.zeros((8, 64), np.float32)
    assert structure(two(AddOp, MulOp, zeros)) != structure(two(AddOp, MulOp, wide))


def test_ops_and_wiring_count():
    w = np.zeros(64, np.float32)
    bodies = [two(AddOp, MulOp, w), two(MulOp, AddOp, w), two(AddOp, MulOp, w, swapped=True)]
    assert len({structure(b) for b in bodies}) == 3


def sliced(end: int) -> Body:
    (x,) = Block(arg_types=[tensor((8, 64), f32)]).args
    ints = [constant(np.array([n])) for n in (0, end, 1, 1)]
    op = SliceOp.of(x, *ints)
    return Body.of(op)


def test_short_constants_count_by_their_elements():
    assert structure(sliced(4)) == structure(sliced(4)) != structure(sliced(8))


def test_equal_bodies_are_weighed_once():
    seen: list[Body] = []

    @once
    def weigh(body: Any, target: Target) -> int:
        seen.append(body)
        return len(seen)

    w = np.zeros(64, np.float32)
    target = Target.load()
    assert weigh(two(AddOp, MulOp, w), target) == weigh(two(AddOp, MulOp, w + 1), target) == 1
    assert weigh(two(MulOp, AddOp, w), target) == 2
    assert weigh(two(AddOp, MulOp, w), Target.load("310p3")) == 3


def kernel(*order: int) -> KernelOp:
    """A launch on buffers of 8 x 64 and 64 elements, which adds them; in this order of both."""
    block = Block(arg_types=[(tensor((8, 64), f32), tensor((64,), f32))[i] for i in order])
    args = sorted(block.args, key=lambda a: order[a.index])
    block.add_op(add := AddOp.of(*args))
    block.add_op(ReturnOp(add.result))
    return KernelOp("add_0", Engine.VECTOR, block)


def test_kernels_are_asked_once_for_each_way_in_which_they_take_operands():
    seen: list[KernelOp] = []

    @by_structure
    def pairs(op: KernelOp) -> frozenset[tuple[int, int]]:
        seen.append(op)
        return frozenset(op.in_place_pairs())

    assert [pairs(kernel(*order)) for order in ((0, 1), (1, 0), (0, 1))] == [
        {(0, 0)},
        {(0, 1)},
        {(0, 0)},
    ]
    assert len(seen) == 2
    first = kernel(0, 1)
    copy = first.clone()
    settle(copy, first)
    assert pairs(copy) == {(0, 0)}
    assert len(seen) == 2
