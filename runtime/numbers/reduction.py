"""Kernels of the reductions, softmax and the normalizations. 16-bit floats are computed in float32
and rounded once.

Normalizations work on rows, in place on one temporary. Sums along rows are dot products (BLAS),
several times as fast as numpy's reductions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ge.dialects.graph import normalization as g
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import array_ints
from ge.runtime.data.arrays import BFLOAT16, NARROW_FLOATS, Array, rounded, widen
from ge.runtime.numbers import Fn, kernel

Axes = tuple[int, ...]


def lowest(dtype: np.dtype[Any], highest: bool = False) -> Any:
    """The neutral element of max, or of min when `highest`."""
    if dtype.kind == "b":
        return highest
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if highest else np.iinfo(dtype).min
    return np.inf if highest else -np.inf


def _sum(x: Array, axes: Axes, keep: bool) -> Array:
    return np.add.reduce(x, axes, dtype=x.dtype, keepdims=keep)


def _mean(x: Array, axes: Axes, keep: bool) -> Array:
    count = math.prod(x.shape[a] for a in axes)
    if x.dtype.kind not in "iu":
        return np.asarray(_sum(x, axes, keep) / x.dtype.type(count))
    if count == 0:
        raise GeError("the mean of no integers is not defined")
    wide = np.uint64 if x.dtype.kind == "u" else np.int64
    total = np.asarray(np.add.reduce(x, axes, dtype=wide, keepdims=keep))
    quotient = total // wide(count)  # exact, as a quotient of floats is not beyond 2^53
    return quotient + ((total < 0) & (quotient * wide(count) != total))


def _max(x: Array, axes: Axes, keep: bool) -> Array:
    return np.maximum.reduce(x, axes, keepdims=keep, initial=lowest(x.dtype))


def _log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    peak = _max(x, axes, True)
    peak = np.where(np.isfinite(peak), peak, x.dtype.type(0))
    total = np.log(_sum(np.exp(x - peak), axes, keep))
    return total + (peak if keep else peak.reshape(total.shape))


_REDUCE: dict[str, Callable[[Array, Axes, bool], Array]] = {
    "sum": _sum,
    "mean": _mean,
    "max": _max,
    "min": lambda x, axes, keep: np.minimum.reduce(
        x, axes, keepdims=keep, initial=lowest(x.dtype, highest=True)
    ),
    "prod": lambda x, axes, keep: np.multiply.reduce(x, axes, dtype=x.dtype, keepdims=keep),
    "l1": lambda x, axes, keep: _sum(np.absolute(x), axes, keep),
    "l2": lambda x, axes, keep: np.sqrt(_sum(x * x, axes, keep)),
    "log_sum": lambda x, axes, keep: np.log(_sum(x, axes, keep)),
    "log_sum_exp": _log_sum_exp,
    "sum_square": lambda x, axes, keep: _sum(x * x, axes, keep),
}
# Kinds that are computed in float64 for integers, and truncated.
_IN_FLOAT64 = ("l2", "log_sum", "log_sum_exp")


def _compute_dtype(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    if dtype in NARROW_FLOATS and kind not in ("max", "min"):
        return np.dtype(np.float32)
    if dtype.kind in "iu" and kind in _IN_FLOAT64:
        return np.dtype(np.float64)
    return dtype


def reduce_array(x: Array, kind: str, axes: Axes, keep_dims: bool) -> Array:
    wide = x.astype(_compute_dtype(x.dtype, kind), copy=False)
    return np.asarray(_REDUCE[kind](wide, axes, keep_dims)).astype(x.dtype, copy=False)


@kernel(ReduceOp)
def reduce(op: ReduceOp) -> Fn:
    kind, keep_dims = op.kind.data, bool(op.keep_dims.value.data)
    static_axes = () if op.axes is None else array_ints(op.axes)

    def run(x: Array, axes_value: Array | None) -> Array:
        axes = static_axes if axes_value is None else axes_value.tolist()
        absolute = tuple(a % x.ndim for a in axes or range(x.ndim)) if x.ndim else ()
        return reduce_array(x, kind, absolute, keep_dims)

    return run


@kernel(ArgReduceOp)
def arg_reduce(op: ArgReduceOp) -> Fn:
    find: Any = np.argmax if op.kind.data == "max" else np.argmin
    axis, keep_dims = op.axis.value.data, bool(op.keep_dims.value.data)
    last = bool(op.select_last_index.value.data)

    def run(x: Array) -> Array:
        if x.dtype == BFLOAT16:
            x = x.astype(np.float32)
        if last:
            return x.shape[axis] - 1 - find(np.flip(x, axis), axis, keepdims=keep_dims)
        return find(x, axis, keepdims=keep_dims)

    return run


def running(x: Array, kind: str, axis: int, exclusive: bool, reverse: bool) -> Array:
    wide = np.moveaxis(widen(x), axis, -1)
    wide = wide[..., ::-1] if reverse else wide
    ufunc = np.add if kind == "sum" else np.multiply
    result = np.empty(wide.shape, wide.dtype)
    if exclusive:
        result[..., :1] = ufunc.identity
        ufunc.accumulate(wide[..., :-1], -1, out=result[..., 1:])
    else:
        ufunc.accumulate(wide, -1, out=result)
    result = result[..., ::-1] if reverse else result
    return np.moveaxis(result, -1, axis).astype(x.dtype, copy=False)


@kernel(CumulativeOp)
def cumulative(op: CumulativeOp) -> Fn:
    kind, static_axis = op.kind.data, None if op.axis is None else op.axis.value.data
    exclusive, reverse = bool(op.exclusive.value.data), bool(op.reverse.value.data)

    def run(x: Array, axis_value: Array | None) -> Array:
        axis = static_axis if axis_value is None else int(axis_value.reshape(()))
        assert axis is not None
        return running(x, kind, axis, exclusive, reverse) if x.ndim else x.copy()

    return run


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
            return rounded(np.moveaxis(moved, -1, axis), x.dtype, out)
        columns = math.prod(x.shape[axis % x.ndim :])
        y = temporary(wide, out)
        in_row_blocks(rows, wide.reshape(-1, columns), y.reshape(-1, columns))
        return rounded(y, x.dtype, out)

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
        return rounded(y, x.dtype, out)

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
        return rounded(y, x.dtype, out)

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
        return rounded(y, x.dtype, out)

    return run
