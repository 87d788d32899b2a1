"""The three ways in which windows over an image are multiplied by weights, each block by block, so
that what is worked on stays in the processor's cache.

- A window of one element is a matrix product of the image itself.
- A depthwise convolution takes some rows of one channel at a time: these and the rows of the
  result that follow from them are a product with a band matrix, of which most elements are zeros,
  but BLAS multiplies them faster than anything else skips them.
- For all others the windows are copied out as columns of a matrix (im2col).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from threading import local
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.kernels.linear import Kept

Product = Callable[[Array, Array, Array], object]
"""Multiplies the first two arrays (of matrices) into the third."""

Then = Callable[[Array, Array], object]
"""Makes of each block of a result another one, in the second array, which may be the first."""

BLOCK_BYTES = 1 << 20
"""A block of a result, or of the columns for it."""

LONG_SUM = 64
"""Products of so many terms take longer than what follows them: they are left whole."""

BAND_ROWS = 8
"""Rows of the image between the first ones of the windows that one band matrix is for."""


class Scratch(local):
    """Memory for blocks, one for each use, kept by each thread: new memory has to be made by the
    system page by page, which takes as long as to work on it."""

    def __init__(self) -> None:
        self.bytes: dict[str, Array] = {}

    def __call__(self, use: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array with any elements, valid until the next one for this use."""
        size = prod(shape) * dtype.itemsize
        if use not in self.bytes or self.bytes[use].size < size:
            self.bytes[use] = np.empty(size, np.uint8)
        return self.bytes[use][:size].view(dtype).reshape(shape)


scratch = Scratch()


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
    bias: Array | None = None
    then: Then | None = None

    def run(self, kept: Kept) -> None:
        """`kept` holds band matrices from run to run."""
        window, places = self.window, self.out.shape[2:]
        if prod(window.kernel) == 1 and set(window.strides) == {1} and not any(window.pads):
            self.by_points()
        elif self.groups > 1 and self.weight.shape[1] == 1 and len(places) == 2 and self.x.size:
            self.by_bands(kept)
        else:
            self.by_columns()

    def multiply(
        self, rows: Array, columns: Array, first: int, target: Array, bias: Array | None
    ) -> None:
        """A block of the result, which starts with channel `first`. The product gets memory of its
        own where the result's is in many parts, as these are slower to go over twice."""
        direct = target.flags.c_contiguous or (bias is None and self.then is None)
        block = target if direct else scratch("block", target.shape, target.dtype)
        self.product(rows, columns, block)
        self.finish(block, first, target, bias)

    def finish(self, block: Array, first: int, target: Array, bias: Array | None) -> None:
        """Add the bias to a block of products and apply `then`, into `target`."""
        if bias is not None:
            terms = bias[first : first + len(block)].reshape(-1, *[1] * (block.ndim - 1))
            np.add(block, terms, out=target if self.then is None else block)
        if self.then is not None:
            self.then(block, target)

    def with_bias(self, rows: Array) -> tuple[Array, Array | None]:
        """The weight [groups, outputs, terms] with the bias as one more term, if the sums are of
        floats and that costs less than to add it; the bias that is to be added to the products."""
        few = 4 * rows.shape[2] < prod(self.out.shape[2:])
        if self.bias is None or self.groups > 1 or self.out.dtype.kind != "f" or not few:
            return rows, self.bias
        return np.concatenate([rows, self.bias.astype(rows.dtype)[None, :, None]], axis=2), None

    def by_points(self) -> None:
        batch, groups, count = len(self.x), self.groups, prod(self.out.shape[2:])
        rows = self.weight.reshape(groups, len(self.weight) // groups, self.weight.shape[1])
        points = self.x.reshape(batch, groups, rows.shape[2], count)
        result = self.out.reshape(batch, groups, rows.shape[1], count)
        row_bytes = max(sum(rows.shape[1:]) * self.x.itemsize, 1)
        terms, bias = rows.shape[2], self.bias
        step = max(BLOCK_BYTES // row_bytes, 64) if terms < LONG_SUM else max(count, 1)
        if rows.shape[1] >= 2 * terms:  # a copy of the image costs less than to add the bias
            rows, bias = self.with_bias(rows)
        extended = rows.shape[2] > terms
        for image in range(batch):
            for group in range(groups):
                for start in range(0, count, step):
                    some = image, group, slice(None), slice(start, start + step)
                    block = points[some]
                    if extended:
                        block = scratch("columns", (terms + 1, block.shape[1]), block.dtype)
                        block[:terms], block[terms] = points[some], 1
                    first = group * rows.shape[1]
                    self.multiply(rows[group], block, first, result[some], bias)

    def by_columns(self) -> None:
        x, window, groups = self.x, self.window, self.groups
        rows = self.weight.reshape(groups, len(self.weight) // groups, prod(self.weight.shape[1:]))
        places, terms = self.out.shape[2:], rows.shape[2]
        result = self.out.reshape(len(x), groups, rows.shape[1], prod(places))
        view = windows(padded(x, window), window, places)
        line = prod(places[1:])
        line_bytes = x.shape[1] * prod(window.kernel) * line * x.itemsize
        step = max(1, 4 * BLOCK_BYTES // max(line_bytes, 1))
        before = (slice(None),) * (1 + window.rank)  # the dimensions before an image's places
        rows, bias = self.with_bias(rows)
        for image in range(len(x)):
            for start in range(0, places[0], step):
                piece = view[image][(*before, slice(start, start + step))]
                shape = (groups, rows.shape[2], piece.size // max(groups * terms, 1))
                columns = scratch("columns", shape, x.dtype)
                columns[:, :terms].reshape(piece.shape)[...] = piece
                columns[:, terms:] = 1
                part = result[image, :, :, start * line : (start + step) * line]
                for group in range(groups):
                    first = group * rows.shape[1]
                    self.multiply(rows[group], columns[group], first, part[group], bias)

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
        shifted = scratch("columns", (min(step, channels), taken, taps, width), x.dtype)
        shifted[...] = 0
        ranges = [tap_range(window, 1, t, x.shape[3], width) for t in range(taps)]
        top = window.pads[0]
        count = min(x.shape[2], taken - top)
        lines = shifted.reshape(len(shifted), taken * taps, width)
        for image in range(len(x)):
            for first in range(0, channels, step):
                some = slice(first, first + step)
                part = self.out[image, first * several : (first + step) * several]
                target = part.reshape(-1, several, height, width)
                inside = shifted[: len(target), top : top + count]
                for t, (at, elements) in enumerate(ranges):
                    inside[:, :, t, at] = x[image, some, :count, elements]
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
                self.finish(part, first * several, part, self.bias)

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
