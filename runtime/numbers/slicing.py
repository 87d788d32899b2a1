"""Kernels that take tensors apart (as views) and put them together along axes."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ge.dialects.graph import slicing as g
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.shape import fitting, ints_of, refusing


@kernel(g.ConcatOp, into=True)
def concat(op: g.ConcatOp) -> Fn:
    axis = op.axis.value.data

    def run(*arrays: Array, out: Array | None = None) -> Array:
        return np.concatenate(arrays, axis, out=out)

    return refusing(run)


@kernel(g.SplitOp)
def split(op: g.SplitOp) -> Fn:
    axis, count, sizes = op.axis.value.data, len(op.parts), ints_of(op, "sizes")

    def run(x: Array, operand: Array | None) -> Array | tuple[Array, ...]:
        parts = sizes(operand)
        if parts is None:
            parts = g.even_sizes(x.shape[axis], count)
        g.check_sizes(parts, x.shape[axis])
        before, result, start = (slice(None),) * (axis % x.ndim), list[Array](), 0
        for size in parts:
            result.append(x[(*before, slice(start, start + size))])
            start += size
        return result[0] if count == 1 else tuple(result)

    return refusing(run)


def slice_of(start: int, end: int, step: int, dim: int) -> slice:
    first, count = g.slice_bounds(start, end, step, dim)
    last = first + count * step
    return slice(first, last if last >= 0 else None, step) if count else slice(0, 0)


@kernel(g.SliceOp)
def slice_(op: g.SliceOp) -> Fn:
    parameters = [ints_of(op, p) for p in ("starts", "ends", "axes", "steps")]

    def run(x: Array, *operands: Array | None) -> Array:
        starts, ends, axes, steps = (p(o) for p, o in zip(parameters, operands, strict=True))
        axes = range(len(starts)) if axes is None else axes
        steps = (1,) * len(starts) if steps is None else steps
        if 0 in steps:
            raise GeError("a step is 0")
        index = [slice(None)] * x.ndim
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            index[axis] = slice_of(start, end, step, x.shape[axis])
        return x[tuple(index)]

    return refusing(run)


@kernel(g.PadOp)
def pad(op: g.PadOp) -> Fn:
    mode, pads_of, axes_of = op.mode.data, ints_of(op, "pads"), ints_of(op, "axes")

    def run(x: Array, pads: Array | None, axes: Array | None, value: Array | None) -> Array:
        chosen = axes_of(axes)
        chosen = range(x.ndim) if chosen is None else g.distinct_axes(chosen, x.ndim)
        amounts, shape = pads_of(pads), x.shape
        g.check_length("pads", len(amounts), 2 * len(chosen))
        fitting(g.padded(shape, chosen, amounts), x.dtype)
        begins, ends = [0] * x.ndim, [0] * x.ndim
        for i, axis in enumerate(chosen):
            begins[axis], ends[axis] = amounts[i], amounts[i + len(chosen)]
        if mode == "constant":
            return constant_pad(x, begins, ends, value)
        pairs = list(zip(begins, ends, strict=True))
        inside = zip(pairs, x.shape, strict=True)
        x = x[tuple(slice(max(-b, 0), max(d + min(e, 0), 0)) for (b, e), d in inside)]
        return np.pad(x, [(max(b, 0), max(e, 0)) for b, e in pairs], mode=cast(Any, mode))

    return refusing(run)


def constant_pad(
    x: Array, begins: Sequence[int], ends: Sequence[int], value: Array | None
) -> Array:
    """Negative widths take elements away."""
    fill = np.zeros((), x.dtype) if value is None else value.reshape(())
    shape = [b + d + e for b, d, e in zip(begins, x.shape, ends, strict=True)]
    result = np.full(shape, fill, x.dtype)
    source: list[slice] = []
    target: list[slice] = []
    for begin, old, new in zip(begins, x.shape, shape, strict=True):
        first, last = max(begin, 0), max(min(begin + old, new), 0)
        target.append(slice(first, max(first, last)))
        source.append(slice(first - begin, max(first, last) - begin))
    result[tuple(target)] = x[tuple(source)]
    return result
