"""What lies under a sliding window: padding, and what is beyond the end of an image, is no work."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.pooling import LrnOp, MaxPoolIndicesOp, PoolOp
from ge.dialects.support.types import tensor
from ge.runtime.numbers import evaluate
from ge.transforms.graph.canonical.arithmetic import average_of_image
from ge.transforms.rewriting.building import Make

DIMENSION = st.tuples(
    st.integers(1, 7), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3),
    st.integers(0, 4), st.integers(0, 4),
)  # fmt: skip


def pool(dims: list[tuple[int, ...]], ceil_mode: bool, kind: str = "lp") -> PoolOp | None:
    sizes, kernel, strides, dilations, begins, ends = zip(*dims, strict=True)
    image = Block(arg_types=[tensor((1, 2, *sizes), f32)]).args[0]
    try:
        return PoolOp.of(
            image, kind=kind, p=1, kernel=kernel, strides=strides, dilations=dilations,
            pads=(*begins, *ends), ceil_mode=ceil_mode,
        )  # fmt: skip
    except VerifyException:  # the window does not fit
        return None


@given(st.lists(DIMENSION, min_size=1, max_size=2), st.booleans())
def test_the_work_of_pooling_is_what_it_adds_up(
    dims: list[tuple[int, ...]], ceil_mode: bool
) -> None:
    if (op := pool(dims, ceil_mode)) is None:
        return
    ones = np.ones([1, 2, *(d[0] for d in dims)], np.float32)
    (sums,) = evaluate(op, [ones])
    assert op.static_work().vector == sums.sum()


@given(
    st.lists(DIMENSION, min_size=1, max_size=2), st.booleans(), st.sampled_from(["lp", "average"])
)
def test_pooling_that_is_a_reduction_is_that_one(
    dims: list[tuple[int, ...]], ceil_mode: bool, kind: str
) -> None:
    if (op := pool(dims, ceil_mode, kind)) is None:
        return
    reduction = average_of_image.function(op, make := Make())
    array = np.random.default_rng(0).normal(size=[1, 2, *(d[0] for d in dims)]).astype(np.float32)
    (pooled,) = evaluate(op, [array])
    covers = pooled.size == 2 and op.static_work().vector == array.size
    assert (reduction is not None) == covers
    if reduction is not None:
        np.testing.assert_allclose(evaluate(make.ops[0], [array])[0], pooled, rtol=1e-4, atol=1e-6)


def test_a_kernel_far_larger_than_its_image() -> None:
    image = Block(arg_types=[tensor((1, 1280, 7, 7), f32)]).args[0]
    given_ = {"kernel": (1280, 1280), "pads": (0, 0, 1273, 1273)}
    small = PoolOp.of(image, kind="max", kernel=(7, 7)).static_work()
    assert PoolOp.of(image, kind="max", **given_).static_work().vector == small.vector
    assert MaxPoolIndicesOp.of(image, **given_).static_work().vector == small.vector


def test_neighbouring_channels_end_with_the_last_one() -> None:
    image = Block(arg_types=[tensor((1, 4, 1, 1), f32)]).args[0]
    near, far = (LrnOp.of(image, size=n).static_work().vector for n in (7, 99))
    assert near == far == 4 * 4 + 12 * 4
