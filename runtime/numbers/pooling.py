"""Kernels of pooling. Maxima and sums over a window are taken along one dimension after the
other, each as a few operations on strided views of the whole tensor."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge.dialects.graph import pooling as g
from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array, rounded, widen
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.convolution import dimensions, tap_range
from ge.runtime.numbers.reduction import lowest


def slide(
    x: Array, axis: int, window: Window, i: int, places: int, combine: Any, neutral: Any
) -> Array:
    """Combine the elements under dimension i of the window, which lies along `axis`."""
    shape = (*x.shape[:axis], places, *x.shape[axis + 1 :])
    result = np.full(shape, neutral, x.dtype)
    before = (slice(None),) * axis
    for tap in range(window.kernel[i]):
        at, elements = tap_range(window, i, tap, x.shape[axis], places)
        target = result[(*before, at)]
        combine(target, x[(*before, elements)], out=target)
    return result


def slide_all(x: Array, window: Window, places: Shape, combine: Any, neutral: Any) -> Array:
    for i, count in enumerate(places):
        x = slide(x, i + 2, window, i, count, combine, neutral)
    return x


def counts(window: Window, sizes: Sequence[int], places: Shape, with_pads: bool) -> Array:
    """Number of elements that each position covers, with or without padding, at least 1."""
    total = np.ones((1,) * window.rank, np.int64)
    for i, (size, count) in enumerate(zip(sizes, places, strict=True)):
        starts = np.arange(count) * window.strides[i] - window.pads[i]
        taps = starts[:, None] + np.arange(window.kernel[i]) * window.dilations[i]
        low = -window.pads[i] if with_pads else 0
        high = size + (window.pads[i + window.rank] if with_pads else 0)
        covered = ((taps >= low) & (taps < high)).sum(axis=1)
        total = total * covered.reshape([-1 if j == i else 1 for j in range(window.rank)])
    return np.maximum(total, 1)


@kernel(g.PoolOp)
def pool(op: g.PoolOp) -> Fn:
    kind, window, p = op.kind.data, op.window(), op.p.value.data
    with_pads = bool(op.count_include_pad.value.data)

    def run(x: Array) -> Array:
        resolved = window.resolved(x.shape[2:])
        places = resolved.output(x.shape[2:])
        wide = widen(x)
        if kind == "max":
            y = slide_all(wide, resolved, places, np.maximum, lowest(wide.dtype))
        elif kind == "average":
            y = slide_all(wide, resolved, places, np.add, 0)
            y /= counts(resolved, x.shape[2:], places, with_pads).astype(y.dtype)
        else:
            y = slide_all(np.abs(wide) ** p, resolved, places, np.add, 0)
            y = np.sqrt(y) if p == 2 else y ** y.dtype.type(1 / p)
        return rounded(y, x.dtype)

    return run


@kernel(g.MaxPoolIndicesOp)
def max_pool_indices(op: g.MaxPoolIndicesOp) -> Fn:
    window, column_major = op.window(), bool(op.column_major.value.data)

    def run(x: Array) -> tuple[Array, Array]:
        sizes = x.shape[2:]
        resolved = window.resolved(sizes)
        places = resolved.output(sizes)
        order = "F" if column_major else "C"
        index_of = np.arange(int(np.prod(sizes))).reshape(sizes, order=order)
        wide = widen(x)
        best = np.full((*x.shape[:2], *places), lowest(wide.dtype), wide.dtype)
        indices = np.full(best.shape, -1, np.int64)
        for tap in np.ndindex(*resolved.kernel):
            ranges = [
                tap_range(resolved, i, t, n, m)
                for i, (t, n, m) in enumerate(zip(tap, sizes, places, strict=True))
            ]
            at = (..., *(r[0] for r in ranges))
            elements = tuple(r[1] for r in ranges)
            candidate = wide[(..., *elements)]
            better = (candidate > best[at]) | (indices[at] < 0)
            np.copyto(best[at], candidate, where=better)
            np.copyto(indices[at], index_of[elements], where=better)
        start = np.multiply(np.arange(x.shape[0] * x.shape[1], dtype=np.int64), index_of.size)
        indices += start.reshape(*x.shape[:2], *[1] * len(sizes))
        return rounded(best, x.dtype), indices

    return run


@kernel(g.MaxUnpoolOp)
def max_unpool(op: g.MaxUnpoolOp) -> Fn:
    output_shape = op.ints("output_shape")

    def run(x: Array, indices: Array, shape: Array | None) -> Array:
        inner = op.unpooled_shape(x.shape)
        flat = np.zeros(int(np.prod(inner)), x.dtype)
        flat[indices.reshape(-1)] = x.reshape(-1)
        if shape is None and output_shape is None:
            return flat.reshape(inner)
        outer = dimensions(shape, output_shape)
        result = np.zeros(outer, x.dtype)
        result[tuple(slice(0, d) for d in inner)] = flat.reshape(inner)
        return result

    return run


@kernel(g.LrnOp)
def lrn(op: g.LrnOp) -> Fn:
    size, bias = op.size.value.data, op.bias.value.data
    alpha, beta = op.alpha.value.data, op.beta.value.data
    around = Window((size,), (1,), (1,), ((size - 1) // 2, size // 2))

    def run(x: Array) -> Array:
        wide = widen(x)
        t = wide.dtype.type
        squares = slide(wide * wide, 1, around, 0, x.shape[1], np.add, 0)
        return rounded(wide / (t(bias) + t(alpha / size) * squares) ** t(beta), x.dtype)

    return run


def sample_weights(position: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """The elements before and after each position along one axis, and their weights, all zero more
    than one element outside."""
    inside = (position >= -1) & (position <= size)
    position = np.clip(position, 0, size - 1)
    low = np.minimum(position.astype(np.intp), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = position - low
    return low, high, np.where(inside, 1 - part, 0), np.where(inside, part, 0)


def cell_positions(start: float, length: float, cells: int, ratio: int) -> Array:
    samples = ratio or max(int(np.ceil(length / cells)), 1)
    step = length / cells
    within = (np.arange(samples) + 0.5) * step / samples
    return (start + np.arange(cells)[:, None] * step + within).reshape(-1)


@kernel(g.RoiAlignOp)
def roi_align(op: g.RoiAlignOp) -> Fn:
    rows, columns = op.ints("output_size") or (1, 1)
    average, ratio = op.mode.data == "average", op.sampling_ratio.value.data
    scale, half_pixel = op.spatial_scale.value.data, bool(op.half_pixel.value.data)

    def region(image: Array, roi: Array) -> Array:
        x1, y1, x2, y2 = roi.astype(np.float64) * scale - (0.5 if half_pixel else 0)
        height, width = y2 - y1, x2 - x1
        if not half_pixel:
            height, width = max(height, 1.0), max(width, 1.0)
        y = sample_weights(cell_positions(y1, height, rows, ratio), image.shape[1])
        x = sample_weights(cell_positions(x1, width, columns, ratio), image.shape[2])
        corners = [
            image[:, y[i][:, None], x[j]] * (y[i + 2][:, None] * x[j + 2]).astype(image.dtype)
            for i in (0, 1)
            for j in (0, 1)
        ]
        reduce = np.add if average else np.maximum
        samples = reduce.reduce(corners).reshape(
            image.shape[0], rows, -1, columns, x[0].size // columns
        )
        return samples.mean(axis=(2, 4)) if average else samples.max(axis=(2, 4))

    def run(x: Array, rois: Array, batch_indices: Array) -> Array:
        wide = widen(x)
        result = np.empty((len(rois), x.shape[1], rows, columns), wide.dtype)
        for n, roi in enumerate(rois):
            result[n] = region(wide[batch_indices[n]], roi)
        return rounded(result, x.dtype)

    return run


@kernel(g.MaxRoiPoolOp)
def max_roi_pool(op: g.MaxRoiPoolOp) -> Fn:
    rows, columns = op.ints("output_size") or (1, 1)
    scale = op.spatial_scale.value.data

    def edges(first: float, last: float, cells: int, size: int) -> list[slice]:
        start, end = (int(np.floor(v * scale + 0.5)) for v in (first, last))
        step = max(end - start + 1, 1) / cells
        low = np.clip(np.floor(np.arange(cells) * step).astype(int) + start, 0, size)
        high = np.clip(np.ceil(np.arange(1, cells + 1) * step).astype(int) + start, 0, size)
        return [slice(a, b) for a, b in zip(low, high, strict=True)]

    def run(x: Array, rois: Array) -> Array:
        result = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
        for n, (image, x1, y1, x2, y2) in enumerate(rois.astype(np.float64)):
            for i, row in enumerate(edges(y1, y2, rows, x.shape[2])):
                for j, column in enumerate(edges(x1, x2, columns, x.shape[3])):
                    cell = x[int(image), :, row, column]
                    if cell.size:
                        result[n, :, i, j] = cell.max(axis=(1, 2))
        return result

    return run
