"""graph.requantize in each rounding mode against exact rationals."""

from fractions import Fraction
from functools import cache
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import i8, i16
from xdsl.dialects.test import TestOp

from ge.dialects.graph.quantization import RequantizeOp
from ge.dialects.support.constraints import ROUNDINGS
from ge.dialects.support.element_types import ui8
from ge.dialects.support.types import tensor
from ge.runtime.data.arrays import Array, dtype_of, element_of
from ge.runtime.numbers import evaluate

LIMITS = {i8: (-128, 127), ui8: (0, 255), i16: (-(2**15), 2**15 - 1)}


def requantized(
    x: Array,
    scale: Array,
    rounding: str,
    to: Any = i8,
    offset: int | None = None,
    zero: int | None = None,
    **params: Any,
) -> Array:
    arrays = [x, scale]
    if offset is not None:
        arrays.append(np.array(offset, x.dtype))
    if zero is not None:
        arrays.append(np.array(zero, dtype_of(to)))
    values = [TestOp(result_types=[tensor(a.shape, element_of(a.dtype))]).res[0] for a in arrays]
    rest = iter(values[2:])
    op = RequantizeOp.of(
        values[0], values[1], None if offset is None else next(rest),
        None if zero is None else next(rest), to=to, rounding=rounding, **params,
    )  # fmt: skip
    return evaluate(op, arrays)[0]


def half_even(x: Fraction) -> int:
    return round(x)


def half_up(x: Fraction) -> int:
    return floor(x + Fraction(1, 2))


def half_away(x: Fraction) -> int:
    return half_up(x) if x >= 0 else -half_up(-x)


def saturate32(x: int) -> int:
    return min(max(x, -(2**31)), 2**31 - 1)


@cache
def mantissa_of(scale: float) -> tuple[Fraction, int, int]:
    """A scale as a mantissa from 1/2 on and an exponent, and the mantissa in 31 bits."""
    fraction, exponent = np.frexp(np.float64(scale))
    m = Fraction(float(fraction))
    return m, int(exponent), half_even(m * 2**31)


def exact(d: int, scale: float, rounding: str) -> int:
    """The definition, of one element."""
    if rounding == "float32":
        return round(float(np.float32(d) * np.float32(scale)))
    m, e, multiplier = mantissa_of(scale)
    if rounding == "power_of_two":
        if m == 0:
            return 0
        e += abs(m) >= Fraction(3, 4)
        return half_up(d * Fraction(2) ** (e - 1))
    if multiplier == 2**31:
        multiplier, e = 2**30, e + 1
    assert multiplier == 0 or 2**30 <= multiplier < 2**31
    if rounding == "half_even":
        return half_even(d * multiplier * Fraction(2) ** (e - 31))
    first = saturate32(d * 2 ** max(e, 0))
    return half_away(half_up(Fraction(first * multiplier, 2**31)) * Fraction(2) ** min(e, 0))


def expected(x: Array, scale: float, rounding: str, to: Any, zero: int = 0) -> list[int]:
    low, high = LIMITS[to]
    return [min(max(exact(int(d), scale, rounding) + zero, low), high) for d in x]


@pytest.mark.parametrize(
    ("rounding", "wide"),
    [
        pytest.param(r, wide, marks=pytest.mark.soak if wide and r != "tflite" else [])
        for r in ROUNDINGS
        for wide in (False, True)
    ],
)
def test_shifts(rounding: str, wide: bool) -> None:
    """Shifts from below 0 to beyond 62, extremes and signs, all ties of small numbers."""
    rng = np.random.default_rng(0)
    edges = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1, 2**29, -(2**29), 2**30 + 1]
    for e in range(-40, 35, max(1, 48 // settings().max_examples)):
        for mantissa in (0.5, 1 - 2.0**-24, float(rng.uniform(0.5, 1))):
            scale = np.float64(mantissa) * 2.0**e
            scale = scale if wide else np.float64(np.float32(scale))
            size = np.clip(200 / scale, 1, 2**31 - 1)
            near = rng.integers(-int(size) - 1, int(size) + 1, 10)
            x = np.concatenate([edges, np.arange(-6, 7), near]).clip(-(2**31), 2**31 - 1)
            x = x.astype(np.int32)
            got = requantized(x, np.array(scale, np.float64 if wide else np.float32), rounding)
            assert got.tolist() == expected(x, float(scale), rounding, i8), (e, mantissa)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_ties(rounding: str) -> None:
    """All ties of accumulators within 2^20."""
    for shift in range(1, 21):
        half = 2 ** (shift - 1)
        count = min(2**20 // half, 300)
        x = np.array([k * half for k in range(-count, count + 1)], np.int32)
        got = requantized(x, np.array(2.0**-shift, np.float32), rounding, to=i16)
        assert got.tolist() == expected(x, 2.0**-shift, rounding, i16), shift


@pytest.mark.parametrize("rounding", ["half_even", "float32"])
def test_against_floats(rounding: str) -> None:
    """At most one step from round(x * scale), in less than 1 of 10,000 cases."""
    rng = np.random.default_rng(1)
    x = rng.integers(-(2**31), 2**31, 1_000_000, dtype=np.int64).astype(np.int32)
    for scale in (np.float32(5e-8), np.float32(3.1e-8), np.float32(1 / 2**25)):
        want = np.clip(np.rint(x * np.float64(scale)), -128, 127).astype(np.int64)
        got = requantized(x, np.array(scale), rounding).astype(np.int64)
        assert np.abs(got - want).max() <= 1
        assert (got != want).mean() < 1e-4


@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20),
    st.floats(2.0**-45, 2.0**20),
    st.sampled_from(ROUNDINGS),
    st.sampled_from([i8, ui8, i16]),
    st.booleans(),
    st.integers(0, 100),
)
@settings(max_examples=settings().max_examples)
def test_any(
    values: list[int], scale: float, rounding: str, to: Any, wide: bool, zero: int
) -> None:
    kind = np.float64 if wide else np.float32
    x, factor = np.array(values, np.int32), np.array(scale, kind)
    got = requantized(x, factor, rounding, to, zero=zero)
    assert got.tolist() == expected(x, float(factor), rounding, to, zero)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_channels_offset_and_limits(rounding: str) -> None:
    x = np.arange(-128, 128, dtype=np.int16).astype(np.int8).reshape(2, 128)
    scale = np.array([0.37, 1.5], np.float32)
    got = requantized(x, scale, rounding, ui8, offset=-5, zero=7, axis=0, low=7, high=90)
    for row, factor, result in zip(x, scale, got, strict=True):
        shifted = row.astype(np.int64) + 5
        want = [min(max(exact(int(d), float(factor), rounding) + 7, 7), 90) for d in shifted]
        assert result.tolist() == want


@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan, -np.inf])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_scale_without_meaning(rounding: str, scale: float) -> None:
    x = np.array([-7, 0, 9], np.int32)
    assert requantized(x, np.array(scale, np.float32), rounding, zero=3).tolist() == [3, 3, 3]


def test_offset_saturates() -> None:
    """Offsets saturate rather than wrap around."""
    x = np.array([2**31 - 1, -(2**31)], np.int32)
    got = requantized(x, np.array(2.0**-25, np.float64), "half_even", offset=-(2**30))
    assert got.tolist() == [64, -32]


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 40_000), 1), ((1, 70_000), 1), ((90_000, 2), 0)]
)
def test_large_arrays_in_blocks(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**20), 2**20, shape, np.int32)
    scale = rng.uniform(1e-5, 1e-3, shape[axis]).astype(np.float32)
    by_axis = scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    want = np.rint(x * by_axis.astype(np.float64)) - 3
    got = requantized(x, scale, "half_even", zero=-3, axis=axis)
    assert (got == want.clip(-128, 127)).all()
