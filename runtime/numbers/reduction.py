"""Kernels of the reductions. 16-bit floats are accumulated in float32 and rounded once."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import array_ints
from ge.runtime.data.arrays import BFLOAT16, NARROW_FLOATS, Array
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


def _min(x: Array, axes: Axes, keep: bool) -> Array:
    return np.minimum.reduce(x, axes, keepdims=keep, initial=lowest(x.dtype, highest=True))


def _prod(x: Array, axes: Axes, keep: bool) -> Array:
    return np.multiply.reduce(x, axes, dtype=x.dtype, keepdims=keep)


def _l2(x: Array, axes: Axes, keep: bool) -> Array:
    return np.sqrt(_sum(x * x, axes, keep))


def _log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    peak = _max(x, axes, True)
    peak = np.where(np.isfinite(peak), peak, x.dtype.type(0))
    total = np.log(_sum(np.exp(x - peak), axes, keep))
    return total + (peak if keep else peak.reshape(total.shape))


_REDUCE: dict[str, Callable[[Array, Axes, bool], Array]] = {
    "sum": _sum,
    "mean": _mean,
    "max": _max,
    "min": _min,
    "prod": _prod,
    "l1": lambda x, axes, keep: _sum(np.absolute(x), axes, keep),
    "l2": _l2,
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
    wide = np.moveaxis(x.astype(np.float32) if x.dtype in NARROW_FLOATS else x, axis, -1)
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
