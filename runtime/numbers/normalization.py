"""Kernels of softmax and the normalizations. They work on rows, in place on one temporary;
16-bit floats are computed in float32 and rounded once.

Sums along rows are dot products (BLAS), several times as fast as numpy's reductions.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ge.dialects.graph import normalization as g
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, kernel


def widen(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def narrow(y: Array, like: Array, out: Array | None) -> Array:
    if out is None:
        return y.astype(like.dtype, copy=False)
    if out is not y:
        out[...] = y
    return out


def temporary(x: Array, out: Array | None) -> Array:
    if out is not None and out.dtype == x.dtype and out.flags.c_contiguous:
        return out
    return np.empty(x.shape, x.dtype)


def row_sums(rows: Array) -> Array:
    return (rows @ np.ones(rows.shape[1], rows.dtype))[:, None]


# ---- softmax -----------------------------------------------------------------------------------


BLOCK = 1 << 17  # elements computed at a time: they stay in a core's L2 cache between the passes


def in_row_blocks(rows: Callable[[Array, Array], None], x: Array, y: Array) -> None:
    step = max(1, BLOCK // x.shape[1])
    for i in range(0, len(x), step):
        rows(x[i : i + step], y[i : i + step])


def softmax_rows(x: Array, y: Array) -> None:
    """y may be x."""
    # With an initial value numpy takes a faster loop.
    np.subtract(x, x.max(1, keepdims=True, initial=-np.inf), out=y)
    np.exp(y, out=y)
    y /= row_sums(y)


def log_softmax_rows(x: Array, y: Array) -> None:
    np.subtract(x, x.max(1, keepdims=True, initial=-np.inf), out=y)
    y -= np.log(row_sums(np.exp(y)))


def hardmax_rows(x: Array, y: Array) -> None:
    largest = x.argmax(1)
    y[...] = 0
    y[np.arange(len(x)), largest] = 1


_ROWS: dict[type[Any], Callable[[Array, Array], None]] = {
    g.SoftmaxOp: softmax_rows,
    g.LogSoftmaxOp: log_softmax_rows,
    g.HardmaxOp: hardmax_rows,
}


@kernel(*_ROWS, into=True)
def softmax(op: g.SoftmaxLike) -> Fn:
    rows, axis, flatten = _ROWS[type(op)], op.axis.value.data, bool(op.flatten.value.data)

    def run(x: Array, out: Array | None = None) -> Array:
        if not x.size:
            return np.empty_like(x) if out is None else out
        wide = widen(x)
        if not flatten and axis % x.ndim != x.ndim - 1:
            moved = np.moveaxis(wide, axis, -1).copy()  # it is changed in place
            matrix = moved.reshape(-1, moved.shape[-1])
            in_row_blocks(rows, matrix, matrix)
            return narrow(np.moveaxis(moved, -1, axis), x, out)
        columns = math.prod(x.shape[axis % x.ndim :])
        y = temporary(wide, out)
        in_row_blocks(rows, wide.reshape(-1, columns), y.reshape(-1, columns))
        return narrow(y, x, out)

    return run


# ---- normalizations ----------------------------------------------------------------------------


def center(x: Array, y: Array) -> None:
    means = x @ np.full(x.shape[1], 1 / x.shape[1], x.dtype)
    np.subtract(x, means[:, None], out=y)


def inverse_rms(rows: Array, epsilon: float) -> Array:
    squares = np.vecdot(rows, rows)
    squares /= rows.dtype.type(rows.shape[1])
    squares += rows.dtype.type(epsilon)
    return (1 / np.sqrt(squares))[:, None]


@kernel(g.LayerNormOp, g.RmsNormOp, into=True)
def trailing_norm(op: g.LayerNormOp | g.RmsNormOp) -> Fn:
    axis, epsilon = op.axis.value.data, op.epsilon.value.data
    centered = isinstance(op, g.LayerNormOp)

    def run(x: Array, scale: Array, bias: Array | None = None, out: Array | None = None) -> Array:
        if not x.size:
            return np.empty_like(x) if out is None else out
        wide = np.ascontiguousarray(widen(x))
        y = temporary(wide, out)
        columns = math.prod(x.shape[axis % x.ndim :])
        rows, result = wide.reshape(-1, columns), y.reshape(-1, columns)
        if centered:
            center(rows, result)
            result *= inverse_rms(result, epsilon)
        else:
            np.multiply(rows, inverse_rms(rows, epsilon), out=result)
        y *= widen(scale)
        if bias is not None:
            y += widen(bias)
        return narrow(y, x, out)

    return run


@kernel(g.GroupNormOp, into=True)
def group_norm(op: g.GroupNormOp) -> Fn:
    groups, epsilon = op.groups.value.data, op.epsilon.value.data

    def run(x: Array, scale: Array, bias: Array, out: Array | None = None) -> Array:
        if not x.size:
            return np.empty_like(x) if out is None else out
        wide = np.ascontiguousarray(widen(x))
        y = temporary(wide, out)
        batch, channels = x.shape[:2]
        rows = y.reshape(batch * groups, -1)
        center(wide.reshape(batch * groups, -1), rows)
        factor = inverse_rms(rows, epsilon).reshape(batch, groups, 1)
        factor = factor * widen(scale).reshape(1, groups, channels // groups)
        by_channel = y.reshape(batch, channels, -1)
        by_channel *= factor.reshape(batch, channels, 1)
        by_channel += widen(bias)[:, None]
        return narrow(y, x, out)

    return run


@kernel(g.BatchNormOp, into=True)
def batch_norm(op: g.BatchNormOp) -> Fn:
    epsilon = op.epsilon.value.data

    def run(
        x: Array, scale: Array, bias: Array, mean: Array, variance: Array, out: Array | None = None
    ) -> Array:
        wide = widen(x)
        kind: Any = wide.dtype
        factor = (scale / np.sqrt(widen(variance) + kind.type(epsilon))).astype(kind)
        offset = (widen(bias) - widen(mean) * factor).astype(kind)
        shape = (-1, *(1,) * (x.ndim - 2))
        y = np.multiply(wide, factor.reshape(shape), out=temporary(wide, out))
        y += offset.reshape(shape)
        return narrow(y, x, out)

    return run
