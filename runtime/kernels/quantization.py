"""Kernels of quantize and dequantize: computed in float32 (float64 where an operand is, or where
int32 values need it), rounded once. Weights are dequantized once."""

from typing import Any

import numpy as np

from ge.dialects.graph import quantization as g
from ge.runtime.data.arrays import Array, dtype_of, integer_limits
from ge.runtime.kernels import Fn, array_kernel, kernel
from ge.runtime.kernels.linear import DerivedArrays
from ge.runtime.kernels.normalization import widen


def _spread(op: g.Granular) -> Fn:
    block = op.block_size.value.data
    axis = None if op.axis is None else op.axis.value.data

    def spread(parameter: Array, x: Array) -> Array:
        if parameter.size == 1 and not block:
            return parameter.reshape(())
        assert axis is not None
        if block:
            # The last block may be cut.
            return np.repeat(parameter, block, axis)[tuple(slice(d) for d in x.shape)]
        return parameter.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])

    return spread


@kernel(g.QuantizeOp)
def quantize(op: g.QuantizeOp) -> Fn:
    to, spread = dtype_of(op.to), _spread(op)
    limits = integer_limits(to)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        wide: Any = np.float64 if x.dtype == np.float64 or to.itemsize > 2 else np.float32
        y = np.divide(x, spread(scale, x), dtype=wide, casting="unsafe")
        y = np.asarray(np.rint(y, out=y) if y.ndim else np.rint(y))
        if zero_point is not None and zero_point.any():
            y += spread(zero_point, x)
        np.clip(y, limits.min, limits.max, out=y)
        return y.astype(to)

    return run


@kernel(g.DequantizeOp)
def dequantize(op: g.DequantizeOp) -> Fn:
    spread, weights = _spread(op), DerivedArrays()
    scales: dict[int, Array] = {}  # those of weights, by the name that they have in `weights`

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        parameters = [scale] if zero_point is None else [scale, zero_point]
        if any(a.flags.writeable for a in (x, *parameters)):
            return compute(x, scale, zero_point)
        scales.update((id(a), a) for a in parameters)
        form = tuple(map(id, parameters))
        return weights(x, form, lambda: compute(x, scale, zero_point))

    def compute(x: Array, scale: Array, zero_point: Array | None) -> Array:
        wide: Any = np.float64 if scale.dtype == np.float64 else np.float32
        if zero_point is not None and zero_point.any():
            exact: Any = np.int64 if x.dtype.itemsize > 2 else wide
            x = np.subtract(x, spread(zero_point, x), dtype=exact)
        y = np.multiply(x, spread(scale, x), dtype=wide, casting="unsafe")
        return np.asarray(y).astype(scale.dtype, copy=False)

    return run


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
