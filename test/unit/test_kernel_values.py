"""Values of elementwise kernels, reductions and signal kernels against independent formulas."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import i1, i8, i32, i64
from xdsl.ir import Block

from ge.dialects.graph import activation, elementwise
from ge.dialects.graph.image import NonMaxSuppressionOp
from ge.dialects.graph.indexing import OneHotOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.graph.signal import DftOp, StftOp
from ge.dialects.support.element_types import ui8, ui64
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, type_of
from ge.runtime.numbers import elementwise as kernels


def run(op_class: type[TensorOp], *arrays: Array | None, **params: Any) -> Array:
    values = [None if a is None else Block(arg_types=[type_of(a)]).args[0] for a in arrays]
    op = op_class.of(*values, **params)
    return np.asarray(numbers.evaluate(op, [a for a in arrays if a is not None])[0])


def ulps(result: Array, exact: Array) -> Array:
    spacing = np.spacing(np.abs(exact.astype(result.dtype))).astype(np.float64)
    return np.abs(result.astype(np.float64) - exact) / spacing


def erf_exactly(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.tolist()])


POINTS = np.concatenate([np.linspace(-6, 6, 20001), np.logspace(-30, 0, 500)])


def test_erf_in_float32():
    x = POINTS.astype(np.float32)
    assert ulps(kernels.erf(x), erf_exactly(x)).max() < 2.2


def test_erf_in_float64():
    assert ulps(kernels.erf(POINTS), erf_exactly(POINTS)).max() < 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_at_the_ends(dtype: type):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324], dtype)
    result = kernels.erf(x)
    np.testing.assert_array_equal(result[:5], [0, 0, 1, -1, np.nan])
    assert np.signbit(result[1])
    assert not np.signbit(result[0])


X = np.arange(-192, 193) / 16  # exact in every float type
NORMAL = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in X.tolist()])
SIGMOID = 1 / (1 + np.exp(-X))
ACTIVATIONS: list[tuple[type[TensorOp], dict[str, Any], Array]] = [
    (activation.ReluOp, {}, np.maximum(X, 0)),
    (activation.SigmoidOp, {}, SIGMOID),
    (activation.SiluOp, {}, X * SIGMOID),
    (activation.SiluOp, {"alpha": 1.702}, X / (1 + np.exp(-1.702 * X))),
    (activation.GeluOp, {}, X * NORMAL),
    (
        activation.GeluOp,
        {"approximate": "tanh"},
        0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))),
    ),
    (activation.GeluOp, {"approximate": "sigmoid"}, X / (1 + np.exp(-1.702 * X))),
    (activation.SoftplusOp, {}, np.log1p(np.exp(X))),
    (activation.SoftsignOp, {}, X / (1 + np.abs(X))),
    (activation.MishOp, {}, X * np.tanh(np.log1p(np.exp(X)))),
    (activation.EluOp, {"alpha": 0.5}, np.where(X >= 0, X, 0.5 * np.expm1(X))),
    (
        activation.SeluOp,
        {"alpha": 1.5, "gamma": 2.0},
        2.0 * np.where(X > 0, X, 1.5 * np.expm1(X)),
    ),
    (activation.CeluOp, {"alpha": 2.0}, np.maximum(X, 0) + np.minimum(0, 2 * np.expm1(X / 2))),
    (activation.LeakyReluOp, {"alpha": 0.1}, np.where(X >= 0, X, 0.1 * X)),
    (activation.LeakyReluOp, {"alpha": 2.0}, np.where(X >= 0, X, 2.0 * X)),
    (activation.LeakyReluOp, {"alpha": 0.0}, np.where(X >= 0, X, 0.0)),
    (activation.ThresholdedReluOp, {"alpha": 1.0}, np.where(X > 1, X, 0)),
    (activation.HardSigmoidOp, {"alpha": 0.2, "beta": 0.5}, np.clip(0.2 * X + 0.5, 0, 1)),
    (activation.HardSwishOp, {}, X * np.clip(X / 6 + 0.5, 0, 1)),
    (
        activation.ShrinkOp,
        {"lambd": 1.5, "bias": 0.5},
        np.where(abs(X) > 1.5, X - np.copysign(0.5, X), 0),
    ),
    (elementwise.ErfOp, {}, erf_exactly(X)),
]
TOLERANCES = [
    (np.float64, 1e-12),
    (np.float32, 3e-6),
    (np.float16, 2e-3),
    (ml_dtypes.bfloat16, 1e-2),
]


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
@pytest.mark.parametrize(("op", "params", "exact"), ACTIVATIONS)
def test_activation(
    op: type[TensorOp], params: dict[str, Any], exact: Array, dtype: Any, tolerance: float
):
    result = run(op, X.astype(dtype), **params)
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_allclose(result.astype(np.float64), exact, tolerance, tolerance)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_rounded_once(dtype: Any):
    x = np.linspace(-5, 5, 3 * kernels.BLOCK).astype(dtype)
    wide = run(activation.GeluOp, x.astype(np.float32))
    np.testing.assert_array_equal(run(activation.GeluOp, x), wide.astype(dtype))


def test_blocks_cover_views_and_any_size():
    x = np.linspace(-3, 3, 2 * kernels.BLOCK + 10, dtype=np.float32).reshape(2, -1)
    expected = run(elementwise.ErfOp, x)
    np.testing.assert_array_equal(run(elementwise.ErfOp, x.T), expected.T)
    out = np.empty(x.T.shape, np.float32).T
    kernels.in_blocks(kernels.erf)(x, out=out)
    np.testing.assert_array_equal(out, expected)
    assert run(elementwise.ErfOp, np.float32(0.5).reshape(())).shape == ()


def ints(*values: int, dtype: Any = np.int8) -> Array:
    return np.array(values, dtype)


INTEGERS: list[tuple[type[TensorOp], tuple[Array, ...], dict[str, Any], list[int]]] = [
    (elementwise.AddOp, (ints(127, -128), ints(1, -1)), {}, [-128, 127]),
    (elementwise.MulOp, (ints(100, 16), ints(3, 16)), {}, [44, 0]),
    (elementwise.SubOp, (ints(1, dtype=np.uint8), ints(2, dtype=np.uint8)), {}, [255]),
    (elementwise.AbsOp, (ints(-128, -5),), {}, [-128, 5]),
    (elementwise.DivOp, (ints(-7, 7, -7, 6), ints(2, -2, -2, -3)), {}, [-3, -3, 3, -2]),
    (elementwise.ModOp, (ints(-7, 7, -7), ints(3, -3, -3)), {}, [2, -2, -1]),
    (elementwise.ModOp, (ints(-7, 7, -7), ints(3, -3, -3)), {"fmod": True}, [-1, 1, -1]),
    (elementwise.PowOp, (ints(-3, 2), ints(3, 7)), {}, [-27, -128]),
    (elementwise.PowOp, (ints(2, 4), np.array([-1, 0.5], np.float32)), {}, [0, 2]),
    (elementwise.NotOp, (ints(0, 5, dtype=np.uint8),), {}, [255, 250]),
    (elementwise.ShiftOp, (ints(-8, 1), ints(1, 3)), {"direction": "right"}, [-4, 0]),
    (elementwise.ShiftOp, (ints(64, 3), ints(1, 8)), {"direction": "left"}, [-128, 0]),
]


@pytest.mark.parametrize(("op", "arrays", "params", "expected"), INTEGERS)
def test_integers(
    op: type[TensorOp], arrays: tuple[Array, ...], params: dict[str, Any], expected: list[int]
):
    result = run(op, *arrays, **params)
    assert result.dtype == arrays[0].dtype
    assert result.tolist() == expected


def test_cast_rounds_toward_zero_and_wraps_around():
    x = np.array([1.9, -1.9, 300.0, -1.0, 2**33 + 5.0, np.nan], np.float64)
    assert run(elementwise.CastOp, x[:5], to=ui8).tolist() == [1, 255, 44, 255, 5]
    assert run(elementwise.CastOp, x[:5], to=i32).tolist() == [1, -1, 300, -1, 5]
    assert run(elementwise.CastOp, np.array([2.0**63, 7.5]), to=ui64).tolist() == [2**63, 7]
    assert run(elementwise.CastOp, x, to=i1).tolist() == [True] * 6
    half = np.array([-2.7, 60000], np.float16)
    assert run(elementwise.CastOp, half, to=i8).tolist() == [-2, 96]
    assert run(elementwise.CastOp, half.astype(ml_dtypes.bfloat16), to=i64)[0] == -2


def test_round_is_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5], np.float32)
    assert run(elementwise.RoundOp, x).tolist() == [0, 2, 2, 0, -2]


def test_nan_goes_through_extremes_and_limits():
    x, y = np.array([np.nan, 1, 5], np.float32), np.array([1, np.nan, 2], np.float32)
    zero, four = np.zeros((), np.float32), np.full((1,), 4, np.float32)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        a, b = x.astype(dtype), y.astype(dtype)
        assert np.isnan(run(elementwise.MaximumOp, a, b).astype(np.float32)).tolist() == [1, 1, 0]
        assert np.isnan(run(elementwise.MinimumOp, a, b).astype(np.float32)).tolist() == [1, 1, 0]
        limited = run(elementwise.ClampOp, a, zero.astype(dtype), four.astype(dtype))
        assert limited.dtype == dtype
        np.testing.assert_array_equal(limited.astype(np.float32), [np.nan, 1, 4])
    assert run(elementwise.ClampOp, x, four, zero)[1:].tolist() == [0, 0]
    np.testing.assert_array_equal(run(elementwise.ClampOp, x, None, four), [np.nan, 1, 4])
    np.testing.assert_array_equal(run(elementwise.ClampOp, x, None, None), x)


def test_infinities():
    x = np.array([np.inf, -np.inf, 1, np.nan], np.float32)
    assert run(elementwise.IsInfOp, x).tolist() == [True, True, False, False]
    assert run(elementwise.IsInfOp, x, negative=False).tolist() == [True, False, False, False]
    assert run(elementwise.IsInfOp, x, positive=False).tolist() == [False, True, False, False]
    none = run(elementwise.IsInfOp, x, positive=False, negative=False)
    assert none.tolist() == [False] * 4


# ---- reductions ------------------------------------------------------------------------------

EMPTY = {
    "sum": 0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1, "l1": 0, "l2": 0,
    "log_sum": -np.inf, "log_sum_exp": -np.inf, "sum_square": 0,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "expected"), EMPTY.items())
def test_nothing_reduces_to_the_neutral_element(kind: str, expected: float):
    result = run(ReduceOp, np.empty((2, 0), np.float32), None, kind=kind, axes=[1])
    np.testing.assert_array_equal(result, np.full((2, 1), expected))


def test_the_softmax_of_nothing_is_an_array_of_its_own():
    """What comes after may be computed in it, which it may not in the operand."""
    x = np.empty((3, 0), np.float16)
    result = run(SoftmaxOp, x, axis=-1)
    assert result is not x
    assert result.shape == x.shape


def test_nothing_reduces_to_the_limits_of_the_type():
    for dtype, low, high in ((np.int8, -128, 127), (np.uint8, 0, 255), (np.bool_, False, True)):
        x = np.empty((0,), dtype)
        assert run(ReduceOp, x, None, kind="max").tolist() == [low]
        assert run(ReduceOp, x, None, kind="min").tolist() == [high]


def test_reductions_of_integers():
    x = ints(100, 100, 100, -1)
    assert run(ReduceOp, x, None, kind="sum").tolist() == [43]  # wraps around
    assert run(ReduceOp, x, None, kind="mean").tolist() == [74]  # of the true sum, 299
    assert run(ReduceOp, -x, None, kind="mean").tolist() == [-74]
    assert run(ReduceOp, ints(3, 4), None, kind="l2").tolist() == [5]


def test_log_sum_exp_does_not_overflow():
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    result = run(ReduceOp, x, None, kind="log_sum_exp", axes=[1], keep_dims=False)
    np.testing.assert_allclose(result, [1000 + math.log(2), -np.inf, np.inf])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_summed_in_float32(dtype: Any):
    x = np.ones(5000, dtype)
    assert run(ReduceOp, x, None, kind="sum")[0] == np.asarray(5000, dtype)
    assert run(ReduceOp, x, None, kind="mean")[0] == 1
    assert run(CumulativeOp, x, None, kind="sum", axis=0)[-1] == np.asarray(5000, dtype)


def test_positions_of_equal_extremes():
    x = np.array([[2, 1, 2, 1]], np.float32)
    for kind, first, last in (("max", 0, 2), ("min", 1, 3)):
        assert run(ArgReduceOp, x, kind=kind, axis=1).tolist() == [[first]]
        result = run(ArgReduceOp, x, kind=kind, axis=-1, select_last_index=True, keep_dims=False)
        assert result.tolist() == [last]


def test_running_sums():
    x = ints(1, 2, 3, 4)
    expected = {
        (False, False): [1, 3, 6, 10],
        (True, False): [0, 1, 3, 6],
        (False, True): [10, 9, 7, 4],
        (True, True): [9, 7, 4, 0],
    }
    for (exclusive, reverse), values in expected.items():
        flags = {"exclusive": exclusive, "reverse": reverse}
        assert run(CumulativeOp, x, None, kind="sum", axis=0, **flags).tolist() == values
    exclusive = run(CumulativeOp, x, None, kind="prod", axis=0, exclusive=True)
    assert exclusive.tolist() == [1, 1, 2, 6]


# ---- signals and boxes -----------------------------------------------------------------------


@pytest.mark.parametrize("length", [9, 10])
def test_transforms_invert_each_other(length: int):
    x = np.random.default_rng(0).standard_normal((2, length, 3, 1)).astype(np.float32)
    full = run(DftOp, x, None, None, axis=1)
    back = run(DftOp, full, None, None, axis=1, inverse=True)
    np.testing.assert_allclose(back[..., :1], x, atol=1e-6)
    np.testing.assert_allclose(back[..., 1:], 0 * x, atol=1e-6)

    lower = run(DftOp, x, None, None, axis=1, onesided=True)
    np.testing.assert_allclose(lower, full[:, : length // 2 + 1], atol=1e-6)
    params = {"axis": 1, "length": length, "inverse": True, "onesided": True}
    np.testing.assert_allclose(run(DftOp, lower, None, None, **params), x, atol=1e-6)


def test_frames_are_windowed_and_transformed():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 20, 1)).astype(np.float32)
    window = rng.standard_normal(6).astype(np.float32)
    result = run(StftOp, x, window, None, None, frame_step=4)
    assert result.shape == (2, 4, 4, 2)
    for i in range(4):
        frame = x[:, 4 * i : 4 * i + 6, 0] * window
        expected = np.fft.rfft(frame.astype(np.float64))
        np.testing.assert_allclose(result[:, i, :, 0], expected.real, atol=1e-5)
        np.testing.assert_allclose(result[:, i, :, 1], expected.imag, atol=1e-5)


def overlap(a: Array, b: Array) -> float:
    """Intersection over union of two boxes given by any two opposite corners."""
    ay, by = sorted(a[::2]), sorted(b[::2])
    ax, bx = sorted(a[1::2]), sorted(b[1::2])
    height = max(0.0, min(ay[1], by[1]) - max(ay[0], by[0]))
    width = max(0.0, min(ax[1], bx[1]) - max(ax[0], bx[0]))
    areas = (ay[1] - ay[0]) * (ax[1] - ax[0]) + (by[1] - by[0]) * (bx[1] - bx[0])
    return height * width / (areas - height * width)


def test_boxes_taken_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    boxes, scores = rng.random((2, 40, 4)), rng.random((2, 3, 40)).round(1)
    limit, iou, least = np.array([7]), np.array([0.1]), np.array([0.25])
    rows: list[list[int]] = []
    for b, c in np.ndindex(2, 3):
        taken: list[int] = []
        for i in sorted(range(40), key=lambda i: (-scores[b, c, i], i)):
            free = all(overlap(boxes[b, i], boxes[b, j]) <= 0.1 for j in taken)
            if len(taken) < 7 and scores[b, c, i] > 0.25 and free:
                taken.append(i)
        rows += [[b, c, i] for i in taken]
    result = run(NonMaxSuppressionOp, boxes, scores, limit, iou, least)
    assert result.tolist() == rows

    corners = np.sort(boxes.reshape(2, 40, 2, 2), axis=2)
    sizes, centers = corners[:, :, 1] - corners[:, :, 0], corners.mean(axis=2)
    by_center = np.concatenate((centers[..., ::-1], sizes[..., ::-1]), axis=-1)
    params = {"center_point_box": True}
    again = run(NonMaxSuppressionOp, by_center, scores, limit, iou, least, **params)
    assert again.tolist() == rows
    assert run(NonMaxSuppressionOp, boxes, scores, None, None, None).shape == (0, 3)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0, -1.0, -2.5])
def test_celu_is_what_its_formula_says(alpha: float):
    x = X.astype(np.float32)
    want = np.maximum(0, X) + np.minimum(0, alpha * (np.exp(X / alpha) - 1))
    got = run(activation.CeluOp, x, alpha=alpha)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float32])
def test_one_hot_of_more_classes_than_the_indices_can_count(dtype: type):
    indices = np.array([3, 127, 0], dtype)
    got = run(OneHotOp, indices, None, np.array([0, 1], np.float32), depth=300)
    assert got.argmax(-1).tolist() == [3, 127, 0]
    assert got.sum() == 3
    if np.dtype(dtype).kind != "u":
        last = run(OneHotOp, np.array([-1], dtype), None, np.array([0, 1]), depth=300)
        assert last.argmax() == 299


def test_exponents_need_not_fit_into_the_type_of_the_base():
    base, exponent = np.array([1, -1, 3, 3], np.int8), np.array([200, 255, 5, 300], np.int64)
    want = [pow(b, e, 256) for b, e in zip(base.tolist(), exponent.tolist(), strict=True)]
    got = run(elementwise.PowOp, base, exponent)
    assert got.astype(np.uint8).tolist() == want


def test_a_power_is_that_of_its_own_numbers_alone():
    """A negative exponent beside it does not make it a fraction."""
    base, exponent = np.full(2, 2, np.int64), np.array([64, -1], np.int64)
    assert run(elementwise.PowOp, base, exponent).tolist() == [0, 0]


def test_means_of_large_integers_are_exact():
    large = np.array([[2**53 + 1, 2**53 + 1], [-(2**53) - 1, -(2**53) - 1], [-3, -4]], np.int64)
    got = run(ReduceOp, large, None, kind="mean", axes=[1])
    assert got.tolist() == [[2**53 + 1], [-(2**53) - 1], [-3]]
    unsigned = np.array([2**63, 2**63 - 2], np.uint64)  # the sum is below 2^64
    assert run(ReduceOp, unsigned, None, kind="mean", axes=[0]).tolist() == [2**63 - 1]
