"""Kernels of the convolutions: the windows of an image are copied out as columns of a matrix
(im2col), which the weights multiply. A window of one element needs no copy.

Grouped and depthwise convolutions are the same with one product for each group.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph import convolution as g
from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape, element_type
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.kernels import Fn, kernel
from ge.runtime.kernels.linear import (
    Converted,
    compute_dtype,
    exact_dtype,
    exact_matmul,
    magnitude,
    rounded,
)

Product = Callable[[Array, Array, Array], object]
"""Multiplies the first two arrays (of matrices) into the third."""

COLUMN_BYTES = 16 << 20
"""The columns of larger images are made and multiplied piece by piece."""


def padded(x: Array, window: Window) -> Array:
    """x with zeros around its spatial dimensions."""
    if not any(window.pads):
        return x
    r, sizes = window.rank, x.shape[2:]
    shape = [window.pads[i] + d + window.pads[i + r] for i, d in enumerate(sizes)]
    result = np.zeros((*x.shape[:2], *shape), x.dtype)
    inside = tuple(slice(p, p + d) for p, d in zip(window.pads, sizes, strict=False))
    result[(..., *inside)] = x
    return result


def windows(x: Array, window: Window, places: Shape) -> Array:
    """The view [batch, channels, kernel..., places...] of a padded input."""
    spatial = x.strides[2:]
    by_kernel = [s * d for s, d in zip(spatial, window.dilations, strict=True)]
    by_place = [s * d for s, d in zip(spatial, window.strides, strict=True)]
    return as_strided(
        x,
        (*x.shape[:2], *window.kernel, *places),
        (*x.strides[:2], *by_kernel, *by_place),
        writeable=False,
    )


def correlate(
    x: Array, w: Array, window: Window, groups: int, product: Product, out: Array
) -> None:
    """The convolution of x with weight w, into a contiguous `out`."""
    batch, channels = x.shape[:2]
    places = out.shape[2:]
    rows = w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))
    result = out.reshape(batch, groups, rows.shape[1], prod(places))
    if prod(window.kernel) == 1 and set(window.strides) == {1} and not any(window.pads):
        product(rows, x.reshape(batch, groups, channels // groups, prod(places)), result)
        return
    view = windows(padded(x, window), window, places)
    line = prod(places[1:])
    line_bytes = channels * prod(window.kernel) * line * x.itemsize
    step = max(1, COLUMN_BYTES // max(line_bytes, 1))
    along = 2 + window.rank - 1  # the first place dimension of one image
    for image in range(batch):
        for start in range(0, places[0], step):
            piece = view[image][(slice(None),) * along + (slice(start, start + step),)]
            count = prod(piece.shape[along:])
            columns = np.ascontiguousarray(piece).reshape(groups, rows.shape[2], count)
            product(rows, columns, result[image, :, :, start * line : (start + step) * line])


def add_bias(out: Array, bias: Array | None) -> None:
    if bias is not None:
        out += bias.reshape(-1, *[1] * (out.ndim - 2))


def into(a: Array, b: Array, out: Array) -> None:
    np.matmul(a, b, out=out)


def arithmetic(
    x: Array, w: Array, terms: int, dtype: np.dtype[Any]
) -> tuple[np.dtype[Any], Product]:
    """The dtype to compute sums of `terms` products in, and how to multiply."""
    if dtype.kind not in "iu":
        return compute_dtype(x), into
    bound = magnitude(x) * magnitude(w)
    wide = exact_dtype(bound, terms)
    if wide is None:
        return dtype, into
    return wide, lambda a, b, out: exact_matmul(a, b, bound, out)


@kernel(g.ConvOp, into=True)
def conv(op: g.ConvOp) -> Fn:
    groups, dtype = op.groups, dtype_of(element_type(op.result))
    weight, channels = Converted(), op.channel_axis

    def run(x: Array, w: Array, bias: Array | None = None, out: Array | None = None) -> Array:
        x = np.moveaxis(x, channels, 1)
        window = op.window_over(w.shape[2:]).resolved(x.shape[2:])
        shape = (x.shape[0], w.shape[0], *window.output(x.shape[2:]))
        wide, product = arithmetic(x, w, prod(w.shape[1:]), dtype)
        exact = dtype if dtype.kind in "iu" else wide
        direct = out is not None and out.dtype == exact and out.flags.c_contiguous
        target = out if direct else np.empty(shape, exact)
        assert target is not None
        correlate(x.astype(wide, copy=False), weight(w, wide), window, groups, product, target)
        add_bias(target, bias)
        return target if direct else rounded(target, dtype, out)

    return run


def scatter(columns: Array, window: Window, image: Shape) -> Array:
    """The sum of overlapping blocks: `columns` [batch, channels, kernel..., places...] added up
    in an image, padding included, of which the inside is returned."""
    r = window.rank
    sizes = [window.pads[i] + d + window.pads[i + r] for i, d in enumerate(image)]
    total = np.zeros((*columns.shape[:2], *sizes), columns.dtype)
    places = columns.shape[2 + r :]
    for tap in np.ndindex(*window.kernel):
        where = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(tap, window.dilations, window.strides, places, strict=True)
        )
        total[(..., *where)] += columns[(slice(None), slice(None), *tap)]
    return total[(..., *(slice(p, p + d) for p, d in zip(window.pads, image, strict=False)))]


@kernel(g.ConvTransposeOp)
def conv_transpose(op: g.ConvTransposeOp) -> Fn:
    groups, dtype = op.groups, dtype_of(element_type(op.result))
    weight, channel_axis = Converted(), op.channel_axis

    def run(x: Array, w: Array, bias: Array | None = None) -> Array:
        x = np.moveaxis(x, channel_axis, 1)
        window, extra = op.transposed_window(w.shape[2:]), op.extra()
        image = tuple(
            g.transposed_dim(window, extra, i, size) for i, size in enumerate(x.shape[2:])
        )
        batch, channels = x.shape[:2]
        wide, product = arithmetic(x, w, channels // groups, dtype)
        rows = weight(w, wide).reshape(groups, channels // groups, prod(w.shape[1:]))
        rows, places = rows.swapaxes(1, 2), prod(x.shape[2:])
        points = x.astype(wide, copy=False).reshape(batch, groups, channels // groups, places)
        exact = dtype if dtype.kind in "iu" else wide
        columns = np.empty((batch, groups, rows.shape[1], places), exact)
        product(rows, points, columns)
        blocks = columns.reshape(batch, groups * w.shape[1], *window.kernel, *x.shape[2:])
        result = np.ascontiguousarray(scatter(blocks, window, image))
        add_bias(result, bias)
        return rounded(result, dtype)

    return run


def dimensions(operand: Array | None, known: Shape | None) -> Shape:
    """A shape that is an operand, or else known from a property."""
    if operand is not None:
        return tuple(int(d) for d in operand)
    assert known is not None
    return known


@kernel(g.Col2ImOp)
def col2im(op: g.Col2ImOp) -> Fn:
    image_shape, block_shape = op.ints("image_shape"), op.ints("block_shape")

    def run(x: Array, image: Array | None, block: Array | None) -> Array:
        sizes = dimensions(image, image_shape)
        window = op.window_over(dimensions(block, block_shape))
        channels = x.shape[1] // prod(window.kernel)
        blocks = x.reshape(x.shape[0], channels, *window.kernel, *window.output(sizes))
        wide = blocks.astype(compute_dtype(x), copy=False)
        return rounded(np.ascontiguousarray(scatter(wide, window, sizes)), x.dtype)

    return run


def bilinear(image: Array, y: Array, x: Array) -> Array:
    """The image, [channels, height, width], read at the places (y, x), zero outside."""
    height, width = image.shape[1:]
    flat = image.reshape(image.shape[0], height * width)
    top, left = np.floor(y), np.floor(x)
    result = np.zeros((image.shape[0], *y.shape), image.dtype)
    for row, row_weight in ((top, top + 1 - y), (top + 1, y - top)):
        for column, column_weight in ((left, left + 1 - x), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = np.where(inside, row * width + column, 0).astype(np.intp)
            result += np.where(inside, flat[:, index] * (row_weight * column_weight), 0)
    return result


@kernel(g.DeformConvOp)
def deform_conv(op: g.DeformConvOp) -> Fn:
    window = op.window()
    groups, parts = op.group.value.data, op.offset_group.value.data
    places = np.indices(window.kernel).reshape(2, -1, 1, 1)

    def run(
        x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
    ) -> Array:
        wide, sizes = compute_dtype(x), offset.shape[2:]
        resolved = window.resolved(x.shape[2:])
        grid = np.indices(sizes).reshape(2, 1, *sizes)
        start = [
            grid[i] * window.strides[i] - resolved.pads[i] + places[i] * window.dilations[i]
            for i in range(2)
        ]
        taps, terms = places.shape[1], prod(w.shape[1:])
        moves = offset.astype(wide).reshape(x.shape[0], parts, taps, 2, *sizes)
        weights = w.astype(wide).reshape(groups, w.shape[0] // groups, terms)
        result = np.empty((x.shape[0], w.shape[0], *sizes), wide)
        for n, image in enumerate(x.astype(wide)):
            split = image.reshape(parts, x.shape[1] // parts, *image.shape[1:])
            samples = np.stack(
                [
                    bilinear(part, start[0] + moves[n, i, :, 0], start[1] + moves[n, i, :, 1])
                    for i, part in enumerate(split)
                ]
            )
            if mask is not None:
                samples *= mask[n].astype(wide).reshape(parts, 1, taps, *sizes)
            columns = samples.reshape(groups, terms, prod(sizes))
            result[n] = np.matmul(weights, columns).reshape(w.shape[0], *sizes)
        add_bias(result, bias)
        return rounded(result, x.dtype)

    return run
