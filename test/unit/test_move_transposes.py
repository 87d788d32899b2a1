"""Transposes between ops of any order: the same numbers, never more bytes, nothing left over."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, normal, run, written

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.lowering.driver.compiler import context
from ge.transforms.graph.move_transposes import MoveTransposesPass, cost

SHAPE = (2, 3, 4, 5)
ORDERS = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (3, 2, 1, 0), (1, 0, 2, 3)]


def transposed_bytes(module: ModuleOp) -> int:
    return sum(cost(op.input) for op in module.walk() if isinstance(op, TransposeOp))


def moved(module: ModuleOp, exact: bool = False) -> ModuleOp:
    result = module.clone()
    MoveTransposesPass(exact).apply(context(), result)
    result.verify()
    return result


STEPS = (
    "transpose", "unary", "vector", "scalar", "earlier", "softmax", "reduce", "pad", "slice",
    "concat", "split",
)  # fmt: skip


def step(kind: str, number: int, values: list[Expr]) -> None:
    """Append what one step computes of the last value."""
    x = values[-1]
    axis = number % len(x.shape)
    match kind:
        case "transpose":
            y = x.transpose(*ORDERS[number % len(ORDERS)])
        case "unary":
            y = x.tanh()
        case "vector":
            y = x + x.lift(np.linspace(0, 1, x.shape[-1], dtype=np.float32))
        case "scalar":
            y = x * 1.5
        case "earlier":
            same = [v for v in values if v.shape == x.shape]
            y = same[number % len(same)] + x
        case "softmax":
            y = x.op(SoftmaxOp, x, axis=axis)
        case "reduce":
            y = x + x.reduce("max", axis)
        case "pad":
            y = x.op(PadOp, x, None, None, None, pads=(0, 1), axes=(axis,))
        case "slice":
            y = x.op(SliceOp, x, None, None, None, None, starts=(0,), ends=(2,), axes=(axis,))
        case "concat":
            y = x.op(ConcatOp, [x, x.sin()], axis=axis)
        case _:
            size = x.shape[axis]
            if size < 2:
                return
            parts = x.op(SplitOp, x, None, axis=axis, sizes=[1, size - 1], results=2)
            y = parts[1] * parts[0]
    if np.prod(y.shape) <= 4096:
        values.append(y)


@settings(max_examples=settings().max_examples // 3)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30)), min_size=2, max_size=14),
    st.lists(st.integers(0, 14), max_size=2),
)
def test_random_webs(steps: list[tuple[str, int]], outputs: list[int]):
    def formula(x: Expr) -> list[Expr]:
        values = [x]
        for kind, number in steps:
            step(kind, number, values)
        return [values[-1], *(values[i % len(values)] for i in outputs)]

    before = written(formula, Tensor(*SHAPE))
    after = moved(before)
    assert transposed_bytes(after) <= transposed_bytes(before)
    x = normal(*SHAPE)
    for a, b in zip(run(before, x), run(after, x), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    exact = moved(before, exact=True)
    for a, b in zip(run(before, x), run(exact, x), strict=True):
        np.testing.assert_array_equal(b, a)


def channels_last(depth: int) -> ModuleOp:
    """A residual network as exporters of channels-last frameworks write it."""

    def conv(x: Expr, out: int) -> Expr:
        weight = normal(out, x.shape[-1], 3, 3) / np.float32(3 * x.shape[-1] ** 0.5)
        image = x.transpose(0, 3, 1, 2)
        y = x.op(ConvOp, image, x.lift(weight), None, pads=(1, 1, 1, 1)).transpose(0, 2, 3, 1)
        return y + x.lift(np.linspace(-1, 1, out, dtype=np.float32))

    def formula(x: Expr) -> Expr:
        x = conv(x, 8).relu()
        for _ in range(depth):
            x = (x + conv(conv(x, 8).relu(), 8)).relu()
        return x.mean(1, 2, keep=False)

    return written(formula, Tensor(1, 6, 6, 3))


@pytest.mark.parametrize("depth", [1, 5])
def test_channels_last_network(depth: int):
    before = channels_last(depth)
    after = moved(before)
    (left,) = [op for op in after.walk() if isinstance(op, TransposeOp)]
    assert isinstance(left.input.owner, Block)
    x = normal(1, 6, 6, 3)
    agree(run(before, x), run(after, x), 1e-5)
