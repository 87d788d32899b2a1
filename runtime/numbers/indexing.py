"""Kernels that pick and place elements by index or condition.

numpy's indexing wraps negative indices and refuses those out of range, as ONNX asks.
"""

from typing import Any

import numpy as np

from ge.dialects.graph import indexing as g
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import BFLOAT16, Array
from ge.runtime.numbers import Fn, array_kernel, kernel
from ge.runtime.numbers.shape import fitting, ints_of, refusing


def as_index(indices: Array) -> Array:
    return indices.astype(np.int64, copy=False)


def comparable(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == BFLOAT16 else x


# ---- gather ----------------------------------------------------------------------------------


@kernel(g.GatherOp)
def gather(op: g.GatherOp) -> Fn:
    axis = op.axis.value.data

    def run(x: Array, indices: Array) -> Array:
        if indices.ndim == 0:
            return x[(*(slice(None),) * (axis % x.ndim), int(indices), ...)]
        return np.take(x, as_index(indices), axis)

    return refusing(run)


@kernel(g.GatherElementsOp)
def gather_elements(op: g.GatherElementsOp) -> Fn:
    axis = op.axis.value.data

    def run(x: Array, indices: Array) -> Array:
        g.check_inside(indices.shape, x.shape, axis % x.ndim)
        return x[along_axis(indices, axis)]

    return refusing(run)


def along_axis(indices: Array, axis: int) -> tuple[Any, ...]:
    """The index of numpy for `indices` at `axis` and its own place elsewhere."""
    index: list[Any] = list(np.indices(indices.shape, sparse=True))
    index[axis] = as_index(indices)
    return tuple(index)


@kernel(g.GatherNdOp)
def gather_nd(op: g.GatherNdOp) -> Fn:
    batch = op.batch_dims.value.data

    def run(x: Array, indices: Array) -> Array:
        places = np.indices(indices.shape[:-1], sparse=True)[:batch]
        return x[(*places, *vectors(indices))]

    return refusing(run)


def vectors(indices: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(as_index(indices), -1, 0))


# ---- scatter ---------------------------------------------------------------------------------

_COMBINE: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def scattered(x: Array, index: Any, updates: Array, reduction: str) -> Array:
    result = np.array(x, order="C")
    if reduction == "none":
        result[index] = updates
        return result
    if x.dtype == BFLOAT16:
        return scattered(comparable(x), index, comparable(updates), reduction).astype(x.dtype)
    _COMBINE[reduction].at(result, index, updates)
    return result


@kernel(g.ScatterElementsOp)
def scatter_elements(op: g.ScatterElementsOp) -> Fn:
    axis, reduction = op.axis.value.data, op.reduction.data

    def run(x: Array, indices: Array, updates: Array) -> Array:
        g.check_inside(indices.shape, x.shape, axis % x.ndim)
        g.merge_shapes(indices.shape, updates.shape, "indices and updates")
        return scattered(x, along_axis(indices, axis), updates, reduction)

    return refusing(run)


@kernel(g.ScatterNdOp)
def scatter_nd(op: g.ScatterNdOp) -> Fn:
    reduction = op.reduction.data

    def run(x: Array, indices: Array, updates: Array) -> Array:
        return scattered(x, vectors(indices), updates, reduction)

    return refusing(run)


@kernel(g.TensorScatterOp)
def tensor_scatter(op: g.TensorScatterOp) -> Fn:
    axis, circular = op.axis.value.data, op.mode.data == "circular"

    def run(x: Array, updates: Array, write_indices: Array | None) -> Array:
        result, size, count = np.array(x, order="C"), x.shape[axis], updates.shape[axis]
        starts = np.zeros(len(x), np.int64) if write_indices is None else write_indices
        before = (slice(None),) * (axis % x.ndim - 1)
        for row, update, start in zip(result, updates, starts.tolist(), strict=True):
            if start < 0 or (not circular and start + count > size):
                raise GeError(f"write index {start} with {count} updates is outside 0..{size}")
            row[(*before, (start + np.arange(count)) % size)] = update
        return result

    return refusing(run)


# ---- conditions ------------------------------------------------------------------------------


@array_kernel(g.NonZeroOp)
def nonzero(x: Array) -> Array:
    if x.ndim == 0:
        return np.zeros((0, int(bool(x))), np.int64)
    return np.array(np.nonzero(x), np.int64)


@kernel(g.CompressOp)
def compress(op: g.CompressOp) -> Fn:
    axis = None if op.axis is None else op.axis.value.data

    def run(x: Array, condition: Array) -> Array:
        return np.compress(condition, x, axis)

    return refusing(run)


@kernel(g.UniqueOp)
def unique(op: g.UniqueOp) -> Fn:
    axis = None if op.axis is None else op.axis.value.data
    ascending = bool(op.sorted.value.data)

    def run(x: Array) -> tuple[Array, ...]:
        flat = x.reshape(-1) if axis is None else x
        along = 0 if axis is None else axis
        _, first, inverse, counts = np.unique(
            comparable(flat), return_index=True, return_inverse=True, return_counts=True, axis=along
        )
        inverse = inverse.reshape(-1)
        if not ascending:
            order = np.argsort(first)
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            first, inverse, counts = first[order], place[inverse], counts[order]
        return np.take(flat, first, along), first, inverse, counts

    return refusing(run)


# ---- one-hot and order -----------------------------------------------------------------------


@kernel(g.OneHotOp)
def one_hot(op: g.OneHotOp) -> Fn:
    axis, depth_of = op.axis.value.data, ints_of(op, "depth")

    def run(indices: Array, depth: Array | None, values: Array) -> Array:
        (size,) = depth_of(depth)
        if size < 0:
            raise GeError(f"depth is {size}")
        at = axis % (indices.ndim + 1)
        fitting((size, *indices.shape), values.dtype)
        places: Array = np.arange(int(size))
        places = places.reshape(size, *(1,) * (indices.ndim - at))
        if indices.dtype.kind != "u":
            wide = as_index(indices) if indices.dtype.kind == "i" else indices
            indices = np.where(wide < 0, wide + size, wide)
        return np.where(np.expand_dims(indices, at) == places, values[1:], values[:1])

    return refusing(run)


@kernel(g.TopKOp)
def top_k(op: g.TopKOp) -> Fn:
    axis, largest, k_of = op.axis.value.data, bool(op.largest.value.data), ints_of(op, "k")

    def run(x: Array, k: Array | None) -> tuple[Array, Array]:
        (count,), size = k_of(k), x.shape[axis]
        if not 0 <= count <= size:
            raise GeError(f"k is {count}, but the dimension is {size}")
        keys = comparable(x)
        if largest:  # a stable sort from behind, so that the lower of equal indices comes first
            backward = np.argsort(np.flip(keys, axis), axis, kind="stable")
            order = size - 1 - np.flip(backward, axis)
        else:
            order = np.argsort(keys, axis, kind="stable")
        order = order[(*(slice(None),) * (axis % x.ndim), slice(count))]
        return np.take_along_axis(x, order, axis), order

    return refusing(run)
