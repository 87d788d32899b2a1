"""What rounding may do to sums: orders of all processors are within the bounds that tests and
`--tiles sample:N` take, also where terms cancel; what is wrong is beyond them."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_matmul, assert_near, assert_sums
from test_lower_attention import attention as attention_of
from test_split_sums import plain
from tile_lowering import lowered

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.runtime.data.arrays import Array
from ge.runtime.device.interpreter import KernelCode
from ge.runtime.device.random_inputs import random_array
from ge.runtime.device.tiled import differences_of, differs, most_terms

COUNT, WIDTH = 5000, 16
Order = Callable[[Array], Array]


def one_by_one(terms: Array) -> Array:
    return np.add.accumulate(terms)[-1]


def in_lanes(count: int) -> Order:
    """As processors with so many sums in a register have it."""

    def add(terms: Array) -> Array:
        padded = np.zeros((-(-len(terms) // count) * count, *terms.shape[1:]), terms.dtype)
        padded[: len(terms)] = terms
        return one_by_one(one_by_one(padded.reshape(-1, count, *terms.shape[1:])))

    return add


def in_blocks(size: int) -> Order:
    def add(terms: Array) -> Array:
        return one_by_one(
            np.stack([one_by_one(terms[i : i + size]) for i in range(0, COUNT, size)])
        )

    return add


def pairwise(terms: Array) -> Array:
    while len(terms) > 1:
        odd = terms[len(terms) & ~1 :]
        terms = np.concatenate([terms[:-1:2] + terms[1::2], odd])
    return terms[0]


def left_out(terms: Array) -> Array:
    return one_by_one(terms[1:])


def in_halves(terms: Array) -> Array:
    return pairwise(terms.astype(np.float16)).astype(terms.dtype)


ORDERS: list[Order] = [
    one_by_one,
    lambda terms: one_by_one(terms[::-1]),
    *map(in_lanes, (4, 8, 16, 32, 64)),
    *map(in_blocks, (64, 384, 448)),
    pairwise,
]


def matrices(cancel: bool) -> tuple[Array, Array]:
    """Of which all sums are 0 beside the terms, or as they come."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, COUNT), (COUNT, WIDTH)))
    if cancel:
        a[:, COUNT // 2 :], b[COUNT // 2 :] = a[:, : COUNT // 2], -b[: COUNT // 2]
        b[0] += 1e-3
    return a, b


def added(a: Array, b: Array, order: Order) -> Array:
    """a @ b, in this order."""
    return order(a.T[:, :, None] * b[:, None, :])


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_orders_are_within_the_bound(order: Order, cancel: bool) -> None:
    a, b = matrices(cancel)
    assert_matmul(added(a, b, order), a, b)
    positive = np.abs(a), np.abs(b)
    assert_matmul(added(*positive, order), *positive)


@pytest.mark.parametrize("wrong", [left_out, in_halves])
def test_mistakes_are_not(wrong: Order) -> None:
    a, b = matrices(False)
    with pytest.raises(AssertionError, match=r"sums of 5001 terms are off, by .* times"):
        assert_matmul(added(a, b, wrong), a, b)


def test_a_nan_is_no_sum() -> None:
    with pytest.raises(AssertionError, match="1 of 2 sums"):
        assert_sums(np.float32([1, np.nan]), np.float32([1, 1]), 2, 1)


def test_near_is_relative_to_the_largest() -> None:
    assert_near(np.array([1e-6, 100.0]), np.array([0.0, 100.0]), 1e-5)
    with pytest.raises(AssertionError):
        assert_near(np.array([1e-2, 100.0]), np.array([0.0, 100.0]), 1e-5)


# ---- kernels ---------------------------------------------------------------------------------


def kernel(text: str) -> KernelOp:
    (found,) = (op for op in lowered(text).module.ops if isinstance(op, KernelOp))
    return found


@pytest.fixture(scope="module")
def long_sums() -> KernelOp:
    return kernel(plain(3, COUNT, WIDTH, "f32"))


def wrong_elements(op: KernelOp, a: Array, b: Array, order: Order) -> int:
    code = KernelCode(op, {})
    wanted = code.run([a, b], [None])
    (wrong,) = differences_of(op, code, [a, b], [added(a, b, order)], wanted)
    return int(wrong.sum())


@pytest.mark.parametrize("cancel", [False, True])
def test_orders_of_a_kernel_are_explained(long_sums: KernelOp, cancel: bool) -> None:
    a, b = matrices(cancel)
    assert most_terms(long_sums) == COUNT
    assert [wrong_elements(long_sums, a, b, order) for order in ORDERS] == [0] * len(ORDERS)
    (plain_rule,) = KernelCode(long_sums, {}).run([a, b], [None])
    if cancel:  # the largest result says nothing of the terms
        assert differs(added(a, b, one_by_one), plain_rule).any()


@pytest.mark.parametrize("wrong", [left_out, in_halves])
def test_mistakes_of_a_kernel_are_not(long_sums: KernelOp, wrong: Order) -> None:
    assert wrong_elements(long_sums, *matrices(False), wrong) > 40


def attention(q: Array, k: Array, v: Array, order: Order) -> Array:
    scores = order(np.moveaxis(q[..., :, None, :] * k[..., None, :, :], -1, 0)) / np.sqrt(
        np.float32(q.shape[-1])
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    summed = order(np.moveaxis(weights[..., None] * v[..., None, :, :], -2, 0))
    return summed / order(np.moveaxis(weights, -1, 0))[..., None]


def test_sums_before_other_ops_are_explained() -> None:
    shapes = [1, 1, 17, 512], [1, 1, 40, 512], [1, 1, 40, 512]
    op = kernel(attention_of(*shapes, "f32"))
    rng = np.random.default_rng(0)
    inputs = [random_array(rng, *data_type(t)) for t in op.input_types]
    code = KernelCode(op, {})
    wanted = code.run(inputs, [None])
    for order in (one_by_one, in_lanes(16), pairwise):
        (wrong,) = differences_of(op, code, inputs, [attention(*inputs, order)], wanted)
        assert not wrong.any()
    for mistake in (left_out, in_halves):
        (wrong,) = differences_of(op, code, inputs, [attention(*inputs, mistake)], wanted)
        assert wrong.mean() > 0.5
