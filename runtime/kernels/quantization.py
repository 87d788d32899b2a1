"""Kernels of quantize and dequantize: computed in float32 (float64 where an operand is, or where
int32 values need it), rounded once."""

from typing import Any

import numpy as np

from ge.dialects.graph import quantization as g
from ge.runtime.arrays import Array, dtype_of
from ge.runtime.kernels import Fn, kernel


def _spread(op: g.Granular) -> Fn:
    """A function that brings a scale or zero point to a shape that broadcasts with x."""
    block = op.block_size.value.data
    axis = None if op.axis is None else op.axis.value.data

    def spread(parameter: Array, x: Array) -> Array:
        if parameter.size == 1 and not block:
            return parameter.reshape(())
        assert axis is not None
        if block:
            wide = np.repeat(parameter, block, axis)
            return np.take(wide, np.arange(x.shape[axis]), axis) if wide.shape != x.shape else wide
        return parameter.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])

    return spread


@kernel(g.QuantizeOp)
def quantize(op: g.QuantizeOp) -> Fn:
    to, spread = dtype_of(op.to), _spread(op)
    limits = np.iinfo(to)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        wide: Any = np.float64 if x.dtype == np.float64 or to.itemsize > 2 else np.float32
        y = np.divide(x, spread(scale, x), dtype=wide, casting="unsafe")
        y = np.asarray(np.rint(y, out=y) if y.ndim else np.rint(y))
        if zero_point is not None and zero_point.any():
            y += spread(zero_point, x)
        np.clip(y, limits.min, limits.max, out=y)
        with np.errstate(invalid="ignore"):  # nan
            return y.astype(to)

    return run


@kernel(g.DequantizeOp)
def dequantize(op: g.DequantizeOp) -> Fn:
    spread = _spread(op)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        wide: Any = np.float64 if scale.dtype == np.float64 else np.float32
        if zero_point is not None and zero_point.any():
            exact: Any = np.int64 if x.dtype.itemsize > 2 else wide
            x = np.subtract(x, spread(zero_point, x), dtype=exact)
        y = np.multiply(x, spread(scale, x), dtype=wide, casting="unsafe")
        return np.asarray(y).astype(scale.dtype, copy=False)

    return run
