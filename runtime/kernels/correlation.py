"""The three ways in which windows over an image are multiplied by weights, each block by block, so
that what is worked on stays in the processor's cache.

- A window of one element is a matrix product of the image itself.
- A depthwise convolution takes some rows of one channel at a time: these and the rows of the
  result that follow from them are a product with a band matrix, of which most elements are zeros,
  but BLAS multiplies them faster than anything else skips them.
- For all others the windows are copied out as columns of a matrix (im2col).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.kernels.linear import Kept

Product = Callable[[Array, Array, Array], object]
"""Multiplies the first two arrays (of matrices) into the third."""

Finish = Callable[[Array, int, Array], object]
"""What is done to each block [channels, ...] of the product, whose first channel has this number,
to get the block of the result, which goes to the second array (it may be the block itself)."""

BLOCK_BYTES = 1 << 19
"""A block of a result, or of the columns for it."""

BAND_ROWS = 8
"""Rows of the image between the first ones of the windows that one band matrix is for."""


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


def tap_range(window: Window, i: int, tap: int, size: int, places: int) -> tuple[slice, slice]:
    """For one element of the window along dimension i: the places of the window at which it is
    inside the input, and the input elements that it then meets."""
    stride = window.strides[i]
    offset = tap * window.dilations[i] - window.pads[i]
    first = max(0, -(offset // stride))
    last = min(places, (size - 1 - offset) // stride + 1)
    if first >= last:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


@dataclass(frozen=True, slots=True)
class Correlation:
    """The convolution of x [batch, channels, spatial...] with a weight, into a contiguous `out`."""

    x: Array
    weight: Array
    window: Window
    groups: int
    product: Product
    out: Array
    finish: Finish | None = None

    def run(self, kept: Kept) -> None:
        """`kept` holds band matrices from run to run."""
        window, places = self.window, self.out.shape[2:]
        if prod(window.kernel) == 1 and set(window.strides) == {1} and not any(window.pads):
            self.by_points()
        elif self.groups > 1 and self.weight.shape[1] == 1 and len(places) == 2 and self.x.size:
            self.by_bands(kept)
        else:
            self.by_columns()

    def multiply(self, rows: Array, columns: Array, first: int, target: Array) -> None:
        """A block of the result, which starts with channel `first`. The product gets memory of its
        own where the result's is in many parts, as these are slower to go over twice."""
        if self.finish is None:
            self.product(rows, columns, target)
            return
        whole = target.flags.c_contiguous
        block = target if whole else np.empty(target.shape, target.dtype)
        self.product(rows, columns, block)
        self.finish(block, first, target)

    def by_points(self) -> None:
        batch, groups, count = len(self.x), self.groups, prod(self.out.shape[2:])
        rows = self.weight.reshape(groups, len(self.weight) // groups, self.weight.shape[1])
        points = self.x.reshape(batch, groups, rows.shape[2], count)
        result = self.out.reshape(batch, groups, rows.shape[1], count)
        row_bytes = max(sum(rows.shape[1:]) * self.x.itemsize, 1)
        step = max(BLOCK_BYTES // row_bytes, 64)
        for image in range(batch):
            for group in range(groups):
                for start in range(0, count, step):
                    some = image, group, slice(None), slice(start, start + step)
                    self.multiply(rows[group], points[some], group * rows.shape[1], result[some])

    def by_columns(self) -> None:
        x, window, groups = self.x, self.window, self.groups
        rows = self.weight.reshape(groups, len(self.weight) // groups, prod(self.weight.shape[1:]))
        places = self.out.shape[2:]
        result = self.out.reshape(len(x), groups, rows.shape[1], prod(places))
        view = windows(padded(x, window), window, places)
        line = prod(places[1:])
        line_bytes = x.shape[1] * prod(window.kernel) * line * x.itemsize
        step = max(1, 4 * BLOCK_BYTES // max(line_bytes, 1))
        before = (slice(None),) * (1 + window.rank)  # the dimensions before an image's places
        for image in range(len(x)):
            for start in range(0, places[0], step):
                piece = view[image][(*before, slice(start, start + step))]
                columns = np.ascontiguousarray(piece).reshape(groups, rows.shape[2], -1)
                part = result[image, :, :, start * line : (start + step) * line]
                for group in range(groups):
                    self.multiply(rows[group], columns[group], group * rows.shape[1], part[group])

    def by_bands(self, kept: Kept) -> None:
        """A band matrix multiplies rows that windows do not meet by zero: where that could make a
        nan, the block is computed by columns."""
        x, window = self.x, self.window
        channels, (height, width) = x.shape[1], self.out.shape[2:]
        several = len(self.weight) // channels
        tiles = -(-height * window.strides[0] // BAND_ROWS)
        rows = -(-height // max(tiles, 1))
        bands = kept(self.weight, (rows, *window.strides, *window.dilations), self.bands(rows))
        taken = (height - 1) * window.strides[0] + window.extent(0)
        taps = window.kernel[1]
        step = max(1, BLOCK_BYTES // ((taken * taps + height * several) * width * x.itemsize))
        shifted = np.zeros((min(step, channels), taken, taps, width), x.dtype)
        ranges = [tap_range(window, 1, t, x.shape[3], width) for t in range(taps)]
        top = window.pads[0]
        count = min(x.shape[2], taken - top)
        lines = shifted.reshape(len(shifted), taken * taps, width)
        for image in range(len(x)):
            for first in range(0, channels, step):
                some = slice(first, first + step)
                part, block = self.out[image, first * several : (first + step) * several], None
                for t, (at, elements) in enumerate(ranges):
                    block = x[image, some, :count, elements]
                    shifted[: len(block), top : top + count, t, at] = block
                target = part.reshape(-1, several, height, width)
                whole = height // rows
                self.tiles(bands[some], lines, 0, whole, target)
                if height % rows:
                    self.tiles(bands[some, :, : height % rows], lines, whole * rows, 1, target)
                if part.dtype.kind == "f" and not np.isfinite(np.vdot(part, part)):
                    Correlation(
                        x[image : image + 1, some],
                        self.weight[first * several : (first + step) * several],
                        window,
                        len(target),
                        self.product,
                        part[None],
                    ).by_columns()
                if self.finish is not None:
                    self.finish(part, first * several, part)

    def tiles(self, bands: Array, lines: Array, first: int, tiles: int, target: Array) -> None:
        """So many times as many rows of the result as `bands` has, from row `first` on."""
        window, rows, width = self.window, bands.shape[2], target.shape[3]
        line = window.strides[0] * window.kernel[1]
        terms = ((rows - 1) * window.strides[0] + window.extent(0)) * window.kernel[1]
        channel, step = lines.strides[:2]
        columns = np.ndarray(
            (len(target), tiles, terms, width),
            lines.dtype,
            lines,
            first * line * step,
            (channel, rows * line * step, *lines.strides[1:]),
        )
        for i in range(target.shape[1]):
            part = target[:, i, first : first + tiles * rows]
            part = part.reshape(len(target), tiles, rows, width)
            self.product(bands[:, i, None, :, :terms], columns, part)

    def bands(self, rows: int) -> Callable[[], Array]:
        """Makes the matrices [channels, outputs of a channel, rows, terms]: row r has the weight
        where the r-th window is, in the lines [row of the image, element of a window's row]."""

        def make() -> Array:
            window, taps = self.window, self.window.kernel[1]
            taken = (rows - 1) * window.strides[0] + window.extent(0)
            outputs = len(self.weight) // self.groups
            result = np.zeros((self.groups, outputs, rows, taken, taps), self.weight.dtype)
            weight = self.weight.reshape(self.groups, outputs, *window.kernel)
            for r in range(rows):
                start = r * window.strides[0]
                stop = start + window.extent(0)
                result[:, :, r, start : stop : window.dilations[0]] = weight
            return result.reshape(self.groups, outputs, rows, taken * taps)

        return make
