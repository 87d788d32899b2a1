"""Kernels that change shape or order; results are views of the input where numpy has one."""

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph import shape as g
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import array_ints, shape_text
from ge.runtime.data.arrays import Array
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
        if len(lengths) != len(rows):
            raise GeError(f"{len(lengths)} lengths of {len(rows)} sequences")
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
