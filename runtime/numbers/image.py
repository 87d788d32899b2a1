"""Kernels of resampling, and non-maximum suppression. For each place of the result the elements
around its coordinate in the input, and their weights. Resizing does one axis after the other."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ge.dialects.graph import image as g
from ge.dialects.graph.image import NonMaxSuppressionOp
from ge.dialects.graph.support.window import coordinates, nearest_index
from ge.runtime.data.arrays import Array, compute_dtype, dtype_of, rounded, widen
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.convolution import dimensions


def linear_weight(distance: Array) -> Array:
    return np.clip(1 - np.abs(distance), 0, 1)


def cubic_weight(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel (IEEE ASSP 29, 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def weighted(x: Array, axis: int, index: Array, weights: Array) -> Array:
    """The sum over t of weights[:, t] * x[index[:, t]] along an axis; the border repeats."""
    index = index.astype(np.intp)
    taps, ones = weights.shape[1], [1] * (x.ndim - axis - 1)
    columns = weights.astype(x.dtype).T.reshape(taps, len(index), *ones)
    result = x.take(index[:, 0], axis, mode="clip")
    result *= columns[0]
    part = np.empty_like(result)
    for t in range(1, index.shape[1]):
        x.take(index[:, t], axis, out=part, mode="clip")
        part *= columns[t]
        result += part
    return result


class Resampler:
    def __init__(self, op: g.ResizeOp) -> None:
        self.mode, self.kind = op.mode.data, op.coordinates.data
        self.nearest_mode = op.nearest_mode.data
        self.a = op.cubic_coeff_a.value.data
        self.exclude_outside = bool(op.exclude_outside.value.data)
        self.antialias = bool(op.antialias.value.data)

    def taps(self, x: Array, size: int, scale: float) -> tuple[Array, Array]:
        shrink = min(scale, 1.0) if self.antialias else 1.0
        radius = (1 if self.mode == "linear" else 2) / shrink
        start = int(np.floor(-radius)) + 1
        index = np.floor(x)[:, None] + np.arange(start, 2 - start)
        distance = (index - x[:, None]) * shrink
        linear = self.mode == "linear"
        weights = linear_weight(distance) if linear else cubic_weight(distance, self.a)
        if self.exclude_outside:
            weights = np.where((index >= 0) & (index < size), weights, 0)
        if self.exclude_outside or self.antialias:
            total = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(total == 0, 1, total)
        return index, weights

    def __call__(
        self, x: Array, axis: int, count: int, scale: float, roi: tuple[float, float]
    ) -> tuple[Array, Array | None]:
        """The axis resized, and which positions lie outside of the input (None for none)."""
        size = x.shape[axis]
        if count == size and scale == 1.0 and roi == (0.0, 1.0):
            return x, None
        i = np.arange(count, dtype=np.float64)
        at = coordinates(self.kind, i, count, size, scale, roi)
        outside = None
        if self.kind == "tf_crop_and_resize":
            outside = (at < 0) | (at > size - 1)
        if self.mode == "nearest":
            at, half = at.astype(np.float32), np.float32(0.5)
            index = nearest_index(at, half, self.nearest_mode, np.floor, np.ceil).astype(np.intp)
            return x.take(index, axis, mode="clip"), outside
        return weighted(x, axis, *self.taps(at, size, scale)), outside


@kernel(g.ResizeOp)
def resize(op: g.ResizeOp) -> Fn:
    axes, resample = op.resized_axes(), Resampler(op)
    fixed_scales, fixed_sizes = op.scale_values(), op.ints("sizes")
    value = op.extrapolation_value.value.data
    policy, nearest = op.keep_aspect_ratio_policy.data, op.mode.data == "nearest"

    def targets(x: Array, scales: Array | None, sizes: Array | None) -> list[tuple[int, float]]:
        shape = tuple(x.shape[a] for a in axes)
        factors = fixed_scales if scales is None else tuple(float(s) for s in scales)
        if factors is not None:
            return [(g.scaled_dim(n, s), s) for n, s in zip(shape, factors, strict=True)]
        result_sizes = dimensions(sizes, fixed_sizes)
        if policy == "stretch":
            return [(m, m / n if n else 1.0) for n, m in zip(shape, result_sizes, strict=True)]
        scale = g.fitted_scale(shape, result_sizes, policy)
        return [(m, scale) for m in op.bounded_sizes(shape, result_sizes)]

    def run(
        x: Array, roi: Array | None, scales: Array | None = None, sizes: Array | None = None
    ) -> Array:
        wide = x if nearest else x.astype(compute_float(x), copy=False)
        crop = [0.0] * len(axes) + [1.0] * len(axes) if roi is None or not roi.size else roi
        outside: list[tuple[int, Array]] = []
        by_axis = targets(x, scales, sizes)
        # Shrinking axes first, then the last axis, whose elements are moved one by one.
        for i in sorted(range(len(axes)), key=lambda i: (by_axis[i][1] > 1, -axes[i])):
            part = float(crop[i]), float(crop[i + len(axes)])
            wide, missed = resample(wide, axes[i], *by_axis[i], part)
            if missed is not None:
                outside.append((axes[i], missed))
        if any(missed.any() for _, missed in outside):
            wide = wide.copy()
            for axis, missed in outside:
                wide[(slice(None),) * axis + (missed,)] = value
        return to_type(wide, x.dtype)

    return run


def compute_float(x: Array) -> np.dtype[Any]:
    return np.dtype(np.float32) if x.dtype.kind in "iub" else compute_dtype(x)


def to_type(x: Array, dtype: np.dtype[Any]) -> Array:
    """Integers saturate."""
    if dtype.kind in "iu" and x.dtype.kind == "f":
        limits = np.iinfo(dtype)
        return np.clip(np.rint(x), limits.min, limits.max).astype(dtype)
    return rounded(x, dtype)


def reflect(x: Array, low: float, high: float) -> Array:
    span = high - low
    if span == 0:
        return np.full_like(x, low)
    t = np.mod(x - low, 2 * span)
    return low + np.where(t > span, 2 * span - t, t)


class Border:
    def __init__(self, mode: str, align_corners: bool) -> None:
        self.mode, self.align_corners = mode, align_corners

    def edges(self, size: int) -> tuple[float, float]:
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)

    def coordinate(self, x: Array, size: int) -> Array:
        """The coordinate that taps lie around and from which their distance is measured: a border
        is what taps are clipped to, not the point (all taps of a point two elements away are at the
        border)."""
        if self.mode == "zeros":
            return x
        if self.mode == "border":  # nan is infinity of one element
            return np.nan_to_num(np.clip(x, -2, size + 1))
        return reflect(x, *self.edges(size))

    def element(self, index: Array, size: int) -> tuple[Array, Array]:
        inside = (index >= 0) & (index < size)
        if self.mode == "reflection":
            index = reflect(index, *self.edges(size))
        index = np.nan_to_num(index)  # infinity has no reflection
        return np.clip(index, 0, size - 1).astype(np.intp), inside | (self.mode != "zeros")


@kernel(g.GridSampleOp)
def grid_sample(op: g.GridSampleOp) -> Fn:
    align_corners = bool(op.align_corners.value.data)
    border = Border(op.padding_mode.data, align_corners)
    mode = op.mode.data
    kernels: dict[str, tuple[range, Callable[[Array], Array]]] = {
        "nearest": (range(1), np.ones_like),
        "linear": (range(2), linear_weight),
        "cubic": (range(-1, 3), lambda d: cubic_weight(d, -0.75)),
    }
    offsets, weight = kernels[mode]

    def axis_taps(normal: Array, size: int) -> list[tuple[Array, Array]]:
        normal = np.where(np.isnan(normal), -1, normal)  # as PyTorch's grid_sample takes nan
        x = (normal + 1) / 2 * (size - 1) if align_corners else ((normal + 1) * size - 1) / 2
        x = border.coordinate(np.rint(x) if mode == "nearest" else x, size)
        base = np.floor(x)
        result: list[tuple[Array, Array]] = []
        for o in offsets:
            index, counts = border.element(base + o, size)
            result.append((index, np.where(counts, weight(base + o - x), 0)))
        return result

    def run(x: Array, grid: Array) -> Array:
        sizes = x.shape[2:]
        wide = x.astype(compute_float(x), copy=False)
        result = np.zeros((*x.shape[:2], *grid.shape[1:-1]), wide.dtype)
        for n, places in enumerate(widen(grid)):
            taps = [axis_taps(places[..., -1 - i], size) for i, size in enumerate(sizes)]
            for choice in np.ndindex(*(len(t) for t in taps)):
                picked: list[tuple[Array, Array]] = [taps[i][c] for i, c in enumerate(choice)]
                weights = reduce(np.multiply, (w for _, w in picked)).astype(wide.dtype)
                values = wide[n][(slice(None), *(index for index, _ in picked))]
                result[n] += np.where(weights != 0, values * weights, 0)
        return to_type(result, x.dtype)

    return run


@kernel(g.AffineGridOp)
def affine_grid(op: g.AffineGridOp) -> Fn:
    fixed, dtype = op.ints("size"), dtype_of(g.element_type(op.result))
    align_corners = bool(op.align_corners.value.data)

    def line(size: int) -> Array:
        i = np.arange(size, dtype=np.float64)
        if align_corners:
            return 2 * i / (size - 1) - 1 if size > 1 else np.zeros(size)
        return (2 * i + 1) / size - 1

    def run(theta: Array, size: Array | None = None) -> Array:
        sizes = dimensions(size, fixed)[2:]
        lines = [line(n) for n in sizes]
        places = np.meshgrid(*lines, indexing="ij")[::-1]
        homogeneous = np.stack([*places, np.ones(sizes)], axis=-1).reshape(-1, len(sizes) + 1)
        grid = homogeneous @ theta.astype(np.float64).swapaxes(1, 2)
        return grid.reshape(len(theta), *sizes, len(sizes)).astype(dtype)

    return run


def corners(boxes: Array, center_point_box: bool) -> Array:
    """The boxes [n, 4] as lower and upper corners (y, x, y, x)."""
    if center_point_box:
        center, half = boxes[:, 1::-1], boxes[:, :1:-1] / 2
        return np.concatenate((center - half, center + half), axis=1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate((np.minimum(a, b), np.maximum(a, b)), axis=1)


def overlaps(box: Array, others: Array, iou_threshold: float) -> Array:
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    intersection = np.maximum(sides, 0).prod(axis=1)
    area = (box[2:] - box[:2]).prod()
    union = area + (others[:, 2:] - others[:, :2]).prod(axis=1) - intersection
    return (intersection > 0) & (intersection / np.where(union > 0, union, 1) > iou_threshold)


def suppress(boxes: Array, scores: Array, limit: int, iou: float, least: float | None) -> list[int]:
    """Indices of the boxes that are kept, best score first."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least] if least is not None else order
    indices: list[int] = []
    while order.size and len(indices) < limit:
        best, order = order[0], order[1:]
        indices.append(int(best))
        order = order[~overlaps(boxes[best], boxes[order], iou)]
    return indices


@kernel(NonMaxSuppressionOp)
def non_max_suppression(op: NonMaxSuppressionOp) -> Fn:
    center_point_box = bool(op.center_point_box.value.data)

    def run(
        boxes: Array,
        scores: Array,
        max_output: Array | None,
        iou: Array | None,
        least: Array | None,
    ) -> Array:
        limit = 0 if max_output is None else int(max_output.item())
        threshold = 0.0 if iou is None else iou.item()
        lowest = None if least is None else least.item()
        rows: list[tuple[int, int, int]] = []
        for b, class_scores in enumerate(scores):
            of_batch = corners(boxes[b], center_point_box)
            for c, s in enumerate(class_scores):
                rows.extend((b, c, i) for i in suppress(of_batch, s, limit, threshold, lowest))
        return np.array(rows, np.int64).reshape(-1, 3)

    return run
