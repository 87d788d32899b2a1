"""Kernels of casts between element types."""

from typing import Any

import numpy as np

from ge.dialects.graph import elementwise as g
from ge.dialects.support.element_types import is_integer, row_of
from ge.dialects.support.types import element_type
from ge.runtime.data.arrays import NARROW_FLOATS, Array, dtype_of, float_limits, kind_of
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.elementwise import store


@kernel(g.CastOp, into=True)
def cast(op: g.CastOp) -> Fn:
    to, integral = dtype_of(op.to), is_integer(op.to)
    source, target = row_of(element_type(op.input)), row_of(op.to)
    if target is not None and target.is_float and target.storage_only:
        saturate, rounding = bool(op.saturate.value.data), op.rounding.data

        def run_small(x: Array, out: Array | None = None) -> Array:
            return store(to_small_float(x, to, saturate, rounding), out)

        return run_small
    widens = source is not None and source.storage_only and not source.is_float

    def run(x: Array, out: Array | None = None) -> Array:
        if integral and kind_of(x.dtype) == "f":
            x = float_to_int64(x, to)
        elif widens:  # ml_dtypes does not convert its types to each other
            x = x.astype(np.int8)
        return store(x.astype(to), out)

    return run


def float_to_int64(x: Array, to: np.dtype[Any]) -> Array:
    """Floats rounded toward zero, in an integer type that `to` wraps around from."""
    if x.dtype in NARROW_FLOATS:
        x = x.astype(np.float32)
    if to == np.uint64:
        return np.where(x < 2.0**63, x.astype(np.int64).astype(to), x.astype(to))
    return x.astype(np.int64)


def to_small_float(
    x: Array, to: np.dtype[Any], saturate: bool = False, rounding: str = "nearest"
) -> Array:
    """Numbers as floats of at most 8 bits: see `graph.cast`."""
    if x.dtype != np.float64:
        x = x.astype(np.float64 if x.dtype.itemsize > 2 and x.dtype.kind in "iu" else np.float32)
    if rounding != "nearest":
        x = power_of_two(x, up=rounding == "up")
    if saturate:
        limits = float_limits(to)
        x = np.clip(x, float(limits.min), float(limits.max))
    return (odd_float32(x) if x.dtype == np.float64 else np.asarray(x)).astype(to)


def odd_float32(x: Array) -> Array:
    """float64 as float32, for a second rounding to fewer bits, which is then as if there were one:
    what is not exact lies between two numbers, of which this is the odd one."""
    near = np.asarray(x.astype(np.float32))
    toward_zero = np.where(np.abs(near) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    exact = (toward_zero == x) | np.isnan(x)
    return np.where(exact, near, (toward_zero.view(np.int32) | 1).view(np.float32))


def power_of_two(x: Array, up: bool) -> Array:
    """The power of two next to each positive number, not below it or not above it."""
    fraction, exponent = np.frexp(x)  # x is fraction * 2^exponent, fraction from 0.5 to below 1
    power = np.ldexp(x.dtype.type(1), exponent - 1 + (up & (fraction > 0.5)))
    return np.where((x > 0) & np.isfinite(x), power, x)


@kernel(g.BitcastOp)
def bitcast(op: g.BitcastOp) -> Fn:
    to = dtype_of(op.to)

    def run(x: Array) -> Array:
        return x.view(to)

    return run
