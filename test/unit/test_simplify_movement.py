"""Random chains of ops that move data, before and after simplify-movement: the same bits, and
never more launches."""

from math import prod
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.indexing import GatherNdOp, GatherOp
from ge.dialects.graph.shape import (
    BroadcastToOp,
    ReshapeOp,
    SqueezeOp,
    TileOp,
    TransposeOp,
    UnsqueezeOp,
)
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.support.types import Shape, shape_of, tensor
from ge.runtime.data.arrays import Array, dense
from ge.runtime.device.session import Session
from ge.transforms.analysis.views import view_offsets
from ge.transforms.graph.eliminate_dead_code import EliminateDeadCodePass
from ge.transforms.graph.simplify_movement import SimplifyMovementPass

INPUTS: list[Shape] = [(2, 3, 4), (4, 6), (1, 12, 2), (2, 1, 3, 4)]
MOST = 96
"""Elements of the largest tensor."""


class Builder:
    """Random ops on the values so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.block = Block(arg_types=[tensor(s, f32) for s in INPUTS])
        self.values: list[SSAValue] = list(self.block.args)

    def add(self, op: Any) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array) -> SSAValue:
        return self.add(ConstantOp.make(dense(array), tensor(array.shape, i64)))

    def step(self) -> None:
        value = self.random.choice(self.values[-5:])
        name = self.random.choice(
            ["view", "view", "transpose", "transpose", "slice", "slice", "split", "concat",
             "concat", "pad", "broadcast", "tile", "gather", "gather_nd", "compute"]
        )  # fmt: skip
        made = getattr(self, name)(value, shape_of(value))
        if made is None:
            return
        if any(prod(shape_of(r)) > MOST for r in made.results):
            made.erase()
            return
        self.add(made)
        self.values.extend(made.results)

    def view(self, value: SSAValue, shape: Shape) -> Operation | None:
        ones = [i for i, d in enumerate(shape) if d == 1]
        kind = self.random.randrange(4)
        if kind == 0 and len(shape) < 5:
            return UnsqueezeOp.of(value, None, axes=[self.random.randint(0, len(shape))])
        if kind == 1 and ones:
            return SqueezeOp.of(value, None, axes=[self.random.choice(ones)])
        dims, left = list[int](), prod(shape)
        while left > 1 and len(dims) < 4:
            dims.append(self.random.choice([d for d in (1, 2, 3, 4, 6, left) if left % d == 0]))
            left //= dims[-1]
        dims.append(left)
        if self.random.random() < 0.3 and 0 not in dims:
            dims[self.random.randrange(len(dims))] = -1
        return ReshapeOp.of(value, None, shape=dims, allow_zero=0 in dims)

    def transpose(self, value: SSAValue, shape: Shape) -> Operation | None:
        order = list(range(len(shape)))
        self.random.shuffle(order)
        return TransposeOp.of(value, permutation=order)

    def slice(self, value: SSAValue, shape: Shape) -> Operation | None:
        axes = self.random.sample(range(len(shape)), min(len(shape), self.random.randint(1, 2)))
        bounds = [sorted(self.random.choices(range(shape[a] + 1), k=2)) for a in axes]
        steps = [self.random.choice([1, 1, 1, 2, -1]) for _ in axes]
        if self.random.random() < 0.9:
            bounds = [(a, max(b, a + 1)) for a, b in bounds]
        starts = [b - 1 if s < 0 else a for (a, b), s in zip(bounds, steps, strict=True)]
        ends = [a - 1 if s < 0 else b for (a, b), s in zip(bounds, steps, strict=True)]
        ends = [-shape[x] - 1 if e < 0 else e for x, e in zip(axes, ends, strict=True)]
        return SliceOp.of(
            value, None, None, None, None, starts=starts, ends=ends, axes=axes, steps=steps
        )

    def split(self, value: SSAValue, shape: Shape) -> Operation | None:
        axes = [i for i, d in enumerate(shape) if d > 1]
        if not axes:
            return None
        axis = self.random.choice(axes)
        cut = self.random.randint(1, shape[axis] - 1)
        sizes = [cut, shape[axis] - cut]
        return SplitOp.of(value, None, results=2, axis=axis, sizes=sizes)

    def concat(self, value: SSAValue, shape: Shape) -> Operation | None:
        if not shape:
            return None
        axis = self.random.randrange(len(shape))
        fitting = [
            v
            for v in self.values
            if len(s := shape_of(v)) == len(shape)
            and all(a == b or i == axis for i, (a, b) in enumerate(zip(s, shape, strict=True)))
        ]
        owner = value.owner
        if isinstance(owner, SplitOp) and self.random.random() < 0.5:
            return ConcatOp.of(list(owner.parts), axis=owner.axis.value.data)
        count = self.random.randint(1, 3)
        return ConcatOp.of([self.random.choice(fitting) for _ in range(count)], axis=axis)

    def pad(self, value: SSAValue, shape: Shape) -> Operation | None:
        pads = [self.random.choice([0, 0, 1]) for _ in range(2 * len(shape))]
        return PadOp.of(value, None, None, None, pads=pads) if shape else None

    def broadcast(self, value: SSAValue, shape: Shape) -> Operation | None:
        wanted = [d if d != 1 else self.random.randint(1, 3) for d in shape]
        return BroadcastToOp.of(value, None, shape=[*([2] * self.random.randint(0, 1)), *wanted])

    def tile(self, value: SSAValue, shape: Shape) -> Operation | None:
        repeats = [self.random.choice([1, 1, 2]) for _ in shape]
        return TileOp.of(value, None, repeats=repeats) if shape else None

    def gather(self, value: SSAValue, shape: Shape) -> Operation | None:
        if not shape or not all(shape):
            return None
        axis = self.random.randrange(len(shape))
        start, dim = self.random.randrange(shape[axis]), shape[axis]
        wanted = range(start, dim) if self.random.random() < 0.7 else [start, 0, dim - 1]
        indices = np.array(wanted, np.int64)
        if self.random.random() < 0.3:
            indices = np.array(start - dim)
        return GatherOp.of(value, self.constant(indices), axis=axis)

    def gather_nd(self, value: SSAValue, shape: Shape) -> Operation | None:
        if not shape or not all(shape):
            return None
        depth = self.random.randint(1, len(shape))
        indices = np.moveaxis(np.indices(shape[:depth]), 0, -1)
        if self.random.random() < 0.3:
            indices = indices[::-1]
        return GatherNdOp.of(value, self.constant(np.ascontiguousarray(indices)))

    def compute(self, value: SSAValue, shape: Shape) -> Operation | None:
        fitting = [v for v in self.values if shape_of(v) == shape]
        if self.random.random() < 0.3:
            return g.NegOp.of(value)
        return g.AddOp.of(value, self.random.choice(fitting))

    def module(self) -> ModuleOp:
        outputs = self.random.sample(self.values, min(3, len(self.values)))
        self.block.add_op(ReturnOp(*outputs))
        types = ([a.type for a in self.block.args], [v.type for v in outputs])
        return ModuleOp([FuncOp("main", types, Region(self.block))])


def launches(module: ModuleOp) -> int:
    """Ops that are neither views nor constants."""
    EliminateDeadCodePass().apply(Context(), module)
    return sum(
        bool(op.results) and not isinstance(op, ConstantOp) and view_offsets(op) is None
        for op in module.walk()
    )


@settings(max_examples=settings().max_examples // 2, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_every_bit_stays(random: Random):
    builder = Builder(random)
    for _ in range(random.randint(2, 14)):
        builder.step()
    module = builder.module()
    module.verify()
    rng = np.random.default_rng(0)
    inputs = {f"arg{i}": rng.standard_normal(s).astype(np.float32) for i, s in enumerate(INPUTS)}
    before = list(Session(module).run(inputs).values())
    changed = module.clone()
    SimplifyMovementPass(exact=True).apply(Context(), changed)
    changed.verify()
    after = list(Session(changed).run(inputs).values())
    for a, b in zip(before, after, strict=True):
        assert a.shape == b.shape
        assert np.array_equal(a, b), f"{module}\nbecame\n{changed}"
    assert launches(changed) <= launches(module), f"{module}\nbecame\n{changed}"
