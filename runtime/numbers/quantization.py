"""Kernels of casts between element types, quantize and dequantize: the latter computed in float32
(float64 where an operand is, or where int32 values need it), rounded once. Weights are dequantized
once."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ge.dialects.graph import elementwise
from ge.dialects.graph import quantization as g
from ge.dialects.support.element_types import is_float, is_integer, row_of
from ge.dialects.support.types import Shape, element_type
from ge.runtime.data.arrays import (
    Array,
    dtype_of,
    float_limits,
    integer_limits,
    kind_of,
    rounded,
    widen,
)
from ge.runtime.numbers import Fn, array_kernel, kernel
from ge.runtime.numbers.linear import DerivedArrays, magnitude


@kernel(elementwise.CastOp, into=True)
def cast(op: elementwise.CastOp) -> Fn:
    to, integral = dtype_of(op.to), is_integer(op.to)
    source, target = row_of(element_type(op.input)), row_of(op.to)
    if target is not None and target.is_float and target.storage_only:
        saturate, rounding = bool(op.saturate.value.data), op.rounding.data

        def run_small(x: Array, out: Array | None = None) -> Array:
            return rounded(to_small_float(x, to, saturate, rounding), to, out)

        return run_small
    widens = source is not None and source.storage_only and not source.is_float

    def run(x: Array, out: Array | None = None) -> Array:
        if integral and kind_of(x.dtype) == "f":
            x = float_to_int64(x, to)
        elif widens:  # ml_dtypes does not convert its types to each other
            x = x.astype(np.int8)
        return rounded(x.astype(to), to, out)  # never x itself, which others may read

    return run


def float_to_int64(x: Array, to: np.dtype[Any]) -> Array:
    """Floats rounded toward zero, in an integer type that `to` wraps around from."""
    x = widen(x)
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
    """Convert float64 to float32, for a second rounding to fewer bits that then has the result of a
    single one: an inexact value lies between two numbers, and the odd one of these is taken."""
    near = np.asarray(x.astype(np.float32))
    toward_zero = np.where(np.abs(near) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    exact = (toward_zero == x) | np.isnan(x)
    return np.where(exact, near, (toward_zero.view(np.int32) | 1).view(np.float32))


def power_of_two(x: Array, up: bool) -> Array:
    """The power of two next to each positive number, not below it or not above it."""
    fraction, exponent = np.frexp(x)  # x is fraction * 2^exponent, fraction from 0.5 to below 1
    power = np.ldexp(x.dtype.type(1), exponent - 1 + (up & (fraction > 0.5)))
    return np.where((x > 0) & np.isfinite(x), power, x)


@kernel(elementwise.BitcastOp)
def bitcast(op: elementwise.BitcastOp) -> Fn:
    to = dtype_of(op.to)

    def run(x: Array) -> Array:
        return x.view(to)

    return run


def spread_of(op: g.Granular) -> Fn:
    """Return what brings a parameter into a shape that broadcasts with the input of an op."""
    block = op.block_size.value.data
    axis = None if op.axis is None else op.axis.value.data

    def spread(parameter: Array, x: Array) -> Array:
        if parameter.size == 1 and not block:
            return parameter.reshape(())
        assert axis is not None
        if block >= x.shape[axis] and block:
            return parameter  # one block, which is broadcast
        if block:
            # The last block may be cut.
            return np.repeat(parameter, block, axis)[tuple(slice(d) for d in x.shape)]
        return parameter.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])

    return spread


def in_blocks(op: g.Granular, compute: Fn, result: Any) -> Fn:
    """Return the same function, which goes through large arrays of one scale block by block: what
    it computes in between then stays in a cache. `result`: the type of results; None: of scales."""
    if op.block_size.value.data:
        return compute

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        if scale.size > 1 or x.size <= BLOCK:
            return compute(x, scale, zero_point)
        y = np.empty(x.shape, result or scale.dtype)
        for some in blocks(x.shape):
            y[some] = compute(x[some], scale, zero_point)
        return y

    return run


@kernel(g.QuantizeOp)
def quantize(op: g.QuantizeOp) -> Fn:
    to, spread = dtype_of(op.to), spread_of(op)
    if is_float(op.to):
        return _quantize_to_float(op)
    limits = integer_limits(to)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        wide: Any = np.float64 if x.dtype == np.float64 or to.itemsize > 2 else np.float32
        y = np.divide(x, spread(scale, x), dtype=wide, casting="unsafe")
        y = np.asarray(np.rint(y, out=y) if y.ndim else np.rint(y))
        if zero_point is not None and zero_point.any():
            y += spread(zero_point, x)
        np.fmax(y, limits.min, out=y)  # of nan and a number the number
        np.fmin(y, limits.max, out=y)
        return y.astype(to)

    return in_blocks(op, run, to)


def _quantize_to_float(op: g.QuantizeOp) -> Fn:
    to, spread, saturate = dtype_of(op.to), spread_of(op), bool(op.saturate.value.data)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        wide: Any = np.float64 if x.dtype == np.float64 else np.float32
        y = np.divide(x, spread(scale, x), dtype=wide, casting="unsafe")
        if zero_point is not None:
            y += spread(zero_point, x).astype(wide)
        return to_small_float(np.asarray(y), to, saturate)

    return run


@kernel(g.DequantizeOp)
def dequantize(op: g.DequantizeOp) -> Fn:
    spread, weights = spread_of(op), DerivedArrays()
    to = None if op.to is None else dtype_of(op.to)
    scales: dict[int, Array] = {}  # those of weights, by the name that they have in `weights`

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        parameters = [scale] if zero_point is None else [scale, zero_point]
        if any(a.flags.writeable for a in (x, *parameters)):
            return whole(x, scale, zero_point)
        scales.update((id(a), a) for a in parameters)
        form = tuple(map(id, parameters))
        return weights(x, form, lambda: whole(x, scale, zero_point))

    def compute(x: Array, scale: Array, zero_point: Array | None) -> Array:
        result = to or scale.dtype
        wide: Any = np.float64 if np.float64 in (scale.dtype, result) else np.float32
        if zero_point is not None and zero_point.any():
            exact: Any = np.int64 if x.dtype.itemsize > 2 else wide
            x = np.subtract(x, spread(zero_point, x), dtype=exact)
        y = np.multiply(x, spread(scale, x), dtype=wide, casting="unsafe")
        return np.asarray(y).astype(result, copy=False)

    whole = in_blocks(op, compute, to)
    return run


def fixed_point(scale: Array, rounding: str) -> tuple[Array, Array]:
    """Multiplier and exponent of each scale: multiplier * 2^(exponent - 31), as the op defines."""
    scale = np.where(np.isfinite(scale), scale, 0).astype(np.float64)
    fraction, exponent = np.frexp(scale)
    if rounding == "power_of_two":
        exponent = exponent + (np.abs(fraction) >= 0.75)
        fraction = np.sign(fraction) / 2
    multiplier = np.rint(fraction * 2**31).astype(np.int64)
    rounded_up = np.abs(multiplier) == 2**31
    return np.where(rounded_up, multiplier // 2, multiplier), exponent.astype(np.int64) + rounded_up


BLOCK = 1 << 16  # elements that are requantized at a time, and stay in the processor's cache


def blocks(shape: Shape) -> Iterator[tuple[slice, ...]]:
    """The parts of a larger array that have up to `BLOCK` elements in one run of memory."""
    axis, inner = len(shape) - 1, 1
    while inner * shape[axis] <= BLOCK:
        inner *= shape[axis]
        axis -= 1
    step = BLOCK // inner
    for outer in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], step):
            yield (*(slice(i, i + 1) for i in outer), slice(start, start + step))


MOST_SHIFT = 62  # products have 62 bits: a larger shift leaves less than a half of anything


def shifted_left(x: Array, places: Array) -> Array:
    """x * 2^places, saturated to 32 bits."""
    wide = x << np.clip(places, 0, 31)
    limits = np.iinfo(np.int32)
    return np.where((places > 31) & (x != 0), np.sign(x) << 40, wide).clip(limits.min, limits.max)


def half_even(x: Array, multiplier: Array, exponent: Array) -> Array:
    """Rounded once with ties to even; saturated where the shift is negative."""
    product, shift = x * multiplier, 31 - exponent
    right = np.clip(shift, 0, MOST_SHIFT)
    quotient = product >> right
    rest, half = product - (quotient << right), np.left_shift(1, np.maximum(right - 1, 0))
    up = (rest > half) | ((rest == half) & (quotient & 1 == 1))
    quotient += up & (right > 0)
    left = np.where(shift < 0, np.sign(product) << 40, quotient)
    return np.where(shift > MOST_SHIFT, 0, left)


def twice_rounded(x: Array, multiplier: Array, exponent: Array) -> Array:
    """TensorFlow Lite's MultiplyByQuantizedMultiplier."""
    product = shifted_left(x, np.maximum(exponent, 0)) * multiplier
    # the quotient of C++, toward zero, after half of the divisor has been added or taken away
    nudged = product + np.where(product >= 0, 2**30, 1 - 2**30)
    high = np.where(nudged >= 0, nudged >> 31, -(-nudged >> 31))
    right = np.clip(-exponent, 0, MOST_SHIFT)
    mask = np.left_shift(1, right) - 1
    up = (high & mask) > (mask >> 1) + (high < 0)
    return (high >> right) + up


def half_up(x: Array, multiplier: Array, exponent: Array) -> Array:
    product, shift = x * multiplier, 31 - exponent
    right = np.clip(shift, 0, MOST_SHIFT)
    half = np.where(right > 0, np.left_shift(1, np.maximum(right - 1, 0)), 0)
    left = np.where(shift < 0, np.sign(product) << 40, (product + half) >> right)
    return np.where(shift > MOST_SHIFT, 0, left)


ROUNDINGS = {"half_even": half_even, "tflite": twice_rounded, "power_of_two": half_up}


def subtracted(x: Array, offset: Array) -> Array:
    limits = np.iinfo(np.int32)
    return (x.astype(np.int64) - int(offset.reshape(()))).clip(limits.min, limits.max)


def is_exact_in_float64(x: Array, scale: Array, rounding: str) -> bool:
    """True if products that are rounded once have no more than 53 bits: scales that are no wider
    than float32 are multipliers of 24 bits."""
    if rounding != "half_even" or scale.dtype.itemsize > 4:
        return False
    return x.dtype.itemsize < 4 or magnitude(x) < 2**29


@kernel(g.RequantizeOp)
def requantize(op: g.RequantizeOp) -> Fn:
    to, rounding = dtype_of(op.to), op.rounding.data
    low, high = op.limits()
    axis = None if op.axis is None else op.axis.value.data

    def compute(x: Array, scale: Array, offset: Array | None, zero_point: Array | None) -> Array:
        shifted = x if offset is None or not offset.any() else subtracted(x, offset)
        wide = np.float32 if rounding == "float32" else np.float64
        if rounding == "float32" or is_exact_in_float64(shifted, scale, rounding):
            factor = np.where(np.isfinite(scale), scale, 0)
            y = np.asarray(np.multiply(shifted, factor, dtype=wide, casting="unsafe"))
            np.rint(y, out=y)
        else:
            multiplier, exponent = fixed_point(scale, rounding)
            y = ROUNDINGS[rounding](shifted.astype(np.int64), multiplier, exponent)
        if zero_point is not None and zero_point.any():
            y = y + y.dtype.type(int(zero_point.reshape(())))
        return np.asarray(np.clip(y, low, high)).astype(to)

    def run(
        x: Array, scale: Array, offset: Array | None = None, zero_point: Array | None = None
    ) -> Array:
        ones = [1] * x.ndim
        if scale.size > 1:
            assert axis is not None
            ones[axis] = -1
        scale = scale.reshape(ones)
        if x.size <= BLOCK:
            return compute(x, scale, offset, zero_point)
        out = np.empty(x.shape, to)
        for some in blocks(x.shape):
            own = zip(some, scale.shape, strict=False)
            factors = scale[tuple(i if d > 1 else slice(None) for i, d in own)]
            out[some] = compute(x[some], factors, offset, zero_point)
        return out

    return run


@array_kernel(g.LookupOp)
def lookup(x: Array, table: Array) -> Array:
    return table.reshape(-1)[x.view(np.uint8) ^ 128 if x.dtype == np.int8 else x]


@array_kernel(g.DynamicQuantizeOp)
def dynamic_quantize(x: Array) -> tuple[Array, ...]:
    wide = widen(x)
    low, high = min(float(wide.min(initial=0)), 0.0), max(float(wide.max(initial=0)), 0.0)
    kind = wide.dtype.type
    scale = kind(x.dtype.type(kind(high - low) / kind(255))) or kind(1)
    zero_point = np.clip(np.rint(-low / scale), 0, 255)
    y: Array = np.asarray(wide / scale)  # of a scalar, numpy makes no array
    np.rint(y, out=y)
    y += kind(zero_point)
    np.clip(y, 0, 255, out=y)
    return y.astype(np.uint8), np.asarray(scale, x.dtype), np.asarray(zero_point, np.uint8)
