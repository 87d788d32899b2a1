"""Kernels that change shape or order, take tensors apart and put them together, and make them from
their shape and a rule; results are views of the input where numpy has one."""

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph import creation as creation
from ge.dialects.graph import shape as g
from ge.dialects.graph import slicing
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import array_ints, element_type, shape_text
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.npz import require_memory
from ge.runtime.numbers import Fn, kernel


def refusing(fn: Fn) -> Fn:
    """Errors of verification and of numpy at run time become GeErrors."""

    @wraps(fn)
    def wrapped(*arrays: Any, **out: Any) -> Any:
        try:
            return fn(*arrays, **out)
        except (VerifyException, IndexError, ValueError) as e:
            raise GeError(str(e)) from None

    return wrapped


def fitting(shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Raises GeError for a shape, computed at run time, that this machine cannot hold."""
    size = prod(max(d, 0) for d in shape) * dtype.itemsize
    require_memory(size, "a", dtype, "tensor of shape", shape_text(shape))
    return tuple(shape)


def ints_of(op: TensorOp, name: str) -> Callable[[Array | None], Any]:
    """Reads parameter `name` from its operand, None where the property has it, as integers."""
    constant = op.ints(name)

    def read(operand: Array | None) -> tuple[int, ...] | None:
        return constant if operand is None else tuple(int(v) for v in operand.reshape(-1).tolist())

    return read


@kernel(g.ReshapeOp)
def reshape(op: g.ReshapeOp) -> Fn:
    target, allow_zero = ints_of(op, "shape"), bool(op.allow_zero.value.data)

    def run(x: Array, shape: Array | None) -> Array:
        return x.reshape(g.reshaped(x.shape, target(shape), allow_zero))

    return refusing(run)


@kernel(g.SqueezeOp)
def squeeze(op: g.SqueezeOp) -> Fn:
    axes_of = ints_of(op, "axes")

    def run(x: Array, axes: Array | None) -> Array:
        return np.squeeze(x, axes_of(axes))

    return refusing(run)


@kernel(g.UnsqueezeOp)
def unsqueeze(op: g.UnsqueezeOp) -> Fn:
    axes_of = ints_of(op, "axes")

    def run(x: Array, axes: Array | None) -> Array:
        return x.reshape(g.unsqueezed(x.shape, axes_of(axes)))

    return refusing(run)


@kernel(g.TransposeOp, into=True)
def transpose(op: g.TransposeOp) -> Fn:
    permutation = array_ints(op.permutation)

    def run(x: Array, out: Array | None = None) -> Array:
        turned = x.transpose(permutation)
        if out is None:
            return turned
        np.copyto(out, turned)
        return out

    return run


@kernel(g.DepthToSpaceOp)
def depth_to_space(op: g.DepthToSpaceOp) -> Fn:
    b, dcr = op.block.value.data, op.mode.data == "dcr"

    def run(x: Array) -> Array:
        n, c, h, w = x.shape
        depth = c // (b * b)
        if dcr:
            parts = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            parts = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return parts.reshape(n, depth, h * b, w * b)

    return refusing(run)


@kernel(g.SpaceToDepthOp)
def space_to_depth(op: g.SpaceToDepthOp) -> Fn:
    b, dcr = op.block.value.data, op.mode.data == "dcr"

    def run(x: Array) -> Array:
        n, c, h, w = x.shape
        parts = x.reshape(n, c, h // b, b, w // b, b)
        order = (0, 3, 5, 1, 2, 4) if dcr else (0, 1, 3, 5, 2, 4)
        return parts.transpose(order).reshape(n, c * b * b, h // b, w // b)

    return refusing(run)


@kernel(g.ReverseSequenceOp)
def reverse_sequence(op: g.ReverseSequenceOp) -> Fn:
    batch, time = op.batch_axis.value.data, op.time_axis.value.data

    def run(x: Array, lengths: Array) -> Array:
        rows = np.moveaxis(x, (batch, time), (0, 1))
        steps: Array = np.arange(int(x.shape[time]))
        if ((lengths < 0) | (lengths > x.shape[time])).any():
            raise GeError(f"lengths {lengths.tolist()} are not all within 0..{x.shape[time]}")
        ends = lengths[:, None]
        places: Array = np.where(steps < ends, ends - 1 - steps, steps)
        reversed_rows = rows[np.arange(len(rows))[:, None], places]
        return np.moveaxis(reversed_rows, (0, 1), (batch, time))

    return refusing(run)


@kernel(g.BroadcastToOp)
def broadcast_to(op: g.BroadcastToOp) -> Fn:
    target = ints_of(op, "shape")

    def run(x: Array, shape: Array | None) -> Array:
        result = np.broadcast_shapes(x.shape, target(shape))
        return np.broadcast_to(x, fitting(result, x.dtype))

    return refusing(run)


@kernel(g.TileOp)
def tile(op: g.TileOp) -> Fn:
    repeats_of = ints_of(op, "repeats")

    def run(x: Array, repeats: Array | None) -> Array:
        counts = repeats_of(repeats)
        g.check_length("repeats", len(counts), x.ndim)
        fitting([d * n for d, n in zip(x.shape, counts, strict=True)], x.dtype)
        return np.tile(x, counts)

    return refusing(run)


@kernel(g.ShapeOfOp)
def shape_of(op: g.ShapeOfOp) -> Fn:
    bounds = op.bounds()

    def run(x: Array) -> Array:
        return np.array(x.shape[bounds], np.int64)

    return run


@kernel(slicing.ConcatOp, into=True)
def concat(op: slicing.ConcatOp) -> Fn:
    axis = op.axis.value.data

    def run(*arrays: Array, out: Array | None = None) -> Array:
        return np.concatenate(arrays, axis, out=out)

    return refusing(run)


@kernel(slicing.SplitOp)
def split(op: slicing.SplitOp) -> Fn:
    axis, count, sizes = op.axis.value.data, len(op.parts), ints_of(op, "sizes")

    def run(x: Array, operand: Array | None) -> Array | tuple[Array, ...]:
        parts = sizes(operand)
        if parts is None:
            parts = slicing.even_sizes(x.shape[axis], count)
        slicing.check_sizes(parts, x.shape[axis])
        before, result, start = (slice(None),) * (axis % x.ndim), list[Array](), 0
        for size in parts:
            result.append(x[(*before, slice(start, start + size))])
            start += size
        return result[0] if count == 1 else tuple(result)

    return refusing(run)


def slice_of(start: int, end: int, step: int, dim: int) -> slice:
    first, count = slicing.slice_bounds(start, end, step, dim)
    last = first + count * step
    return slice(first, last if last >= 0 else None, step) if count else slice(0, 0)


@kernel(slicing.SliceOp)
def slice_(op: slicing.SliceOp) -> Fn:
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


@kernel(slicing.PadOp)
def pad(op: slicing.PadOp) -> Fn:
    mode, pads_of, axes_of = op.mode.data, ints_of(op, "pads"), ints_of(op, "axes")

    def run(x: Array, pads: Array | None, axes: Array | None, value: Array | None) -> Array:
        chosen = axes_of(axes)
        chosen = range(x.ndim) if chosen is None else slicing.distinct_axes(chosen, x.ndim)
        amounts, shape = pads_of(pads), x.shape
        slicing.check_length("pads", len(amounts), 2 * len(chosen))
        fitting(slicing.padded(shape, chosen, amounts), x.dtype)
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


@kernel(creation.RangeOp)
def range_(op: creation.RangeOp) -> Fn:
    dtype = dtype_of(element_type(op.start))

    def run(start: Array, limit: Array, delta: Array) -> Array:
        if not delta.any():
            raise GeError("delta is 0")
        numeric = int if dtype.kind in "iu" else float
        first, last, step = (numeric(a.item()) for a in (start, limit, delta))
        count = creation.number_of_steps(first, last, step)
        fitting((count,), dtype)
        places: Array = np.arange(count)
        values: Array = first + places * step
        return values.astype(dtype)

    return refusing(run)


@kernel(creation.FillOp)
def fill(op: creation.FillOp) -> Fn:
    shape_of, value = ints_of(op, "shape"), op.value.value.data
    dtype = dtype_of(op.value.type)

    def run(shape: Array | None) -> Array:
        return np.full(fitting(shape_of(shape), dtype), value, dtype)

    return refusing(run)


@kernel(creation.EyeOp)
def eye(op: creation.EyeOp) -> Fn:
    shape_of, diagonal = ints_of(op, "shape"), op.diagonal.value.data
    dtype = dtype_of(op.element)

    def run(shape: Array | None) -> Array:
        return np.eye(*fitting(shape_of(shape), dtype), k=diagonal, dtype=dtype)

    return refusing(run)


@kernel(creation.TriOp)
def tri(op: creation.TriOp) -> Fn:
    triangle, diagonal = np.triu if op.upper.value.data else np.tril, ints_of(op, "k")

    def run(x: Array, k: Array | None) -> Array:
        return triangle(x, *(diagonal(k) or (0,)))

    return run
