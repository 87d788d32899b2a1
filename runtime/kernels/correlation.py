"""The ways in which a convolution becomes matmuls.

- A window of one element is a matmul of the image itself.
- A depthwise convolution is one with band matrices: most of their elements are zeros, but BLAS
  multiplies them faster than anything else skips them.
- All others copy the windows out as columns of a matrix (im2col), in blocks that stay in the
  processor's cache.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from threading import local
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.kernels.linear import DerivedArrays, exact_terms, magnitude, to_integers

Matmul = Callable[[Array, Array, Array], object]  # multiplies the first two arrays into the third

# Multiplies channels [channels, height, width] and band matrices into the third array.
BandMatmul = Callable[[Array, Array, Array], None]

# Computes the second array, which may be the first, from a block of the result.
Epilogue = Callable[[Array, Array], object]

BLOCK_BYTES = 1 << 20  # a block of a result, or of the columns for it
BAND_ROWS = 8  # rows of an image between the first and last position of a band matrix
WHOLE_ROWS = 16  # images of so many rows are multiplied by one band matrix
PADDED_LAYOUTS = 32  # images of so many sizes keep the zeros around them


class Scratch(local):
    """Memory for blocks, one for each use and thread: the system takes as long to map new memory
    as it takes to work on it."""

    def __init__(self) -> None:
        self.bytes: dict[str, Array] = {}
        self.padded: dict[Hashable, Array] = {}

    def __call__(self, use: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array with any elements, valid until the next one for this use."""
        size = prod(shape) * dtype.itemsize
        if use not in self.bytes or self.bytes[use].size < size:
            self.bytes[use] = np.empty(size, np.uint8)
        return self.bytes[use][:size].view(dtype).reshape(shape)

    def with_zeros(self, layout: Hashable, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array that holds zeros where none of the users with this layout writes."""
        if (array := self.padded.get((layout, dtype))) is None or len(array) < shape[0]:
            if len(self.padded) >= PADDED_LAYOUTS:
                self.padded.clear()
            array = self.padded[layout, dtype] = np.zeros(shape, dtype)
        return array[: shape[0]]


scratch = Scratch()


def padded(x: Array, window: Window, value: int = 0) -> Array:
    """x with `value` around its spatial dimensions."""
    if not any(window.pads):
        return x
    begins, ends = window.pads[: window.rank], window.pads[window.rank :]
    sizes = [b + d + e for b, d, e in zip(begins, x.shape[2:], ends, strict=True)]
    result = np.full((*x.shape[:2], *sizes), value, x.dtype)
    inside = (slice(b, b + d) for b, d in zip(begins, x.shape[2:], strict=True))
    result[(..., *inside)] = x
    return result


def windows(x: Array, window: Window, positions: Shape) -> Array:
    """The view [batch, channels, kernel..., positions...] of a padded input."""
    spatial = x.strides[2:]
    by_kernel = [s * d for s, d in zip(spatial, window.dilations, strict=True)]
    by_position = [s * d for s, d in zip(spatial, window.strides, strict=True)]
    return as_strided(
        x,
        (*x.shape[:2], *window.kernel, *positions),
        (*x.strides[:2], *by_kernel, *by_position),
        writeable=False,
    )


def tap_range(window: Window, i: int, tap: int, size: int, positions: int) -> tuple[slice, slice]:
    """For one element of the window along dimension i: the positions at which it is inside the
    input, and the input elements that it then meets."""
    stride = window.strides[i]
    offset = tap * window.dilations[i] - window.pads[i]
    first = max(0, -(offset // stride))
    last = min(positions, (size - 1 - offset) // stride + 1)
    if first >= last:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


@dataclass(slots=True)
class Correlation:
    """The convolution of x [batch, channels, spatial...] with a weight, into a contiguous `out`. If
    that has integers, the matmul writes floats of their size that hold them where `in_floats`; x
    may then be of another type than the weight."""

    x: Array
    weight: Array
    window: Window
    groups: int
    matmul: Matmul
    out: Array
    bias: Array | None = None
    epilogue: Epilogue | None = None
    in_floats: bool = False

    @property
    def is_float(self) -> bool:
        return self.out.dtype.kind == "f"

    @property
    def sums(self) -> Array:
        """The result, as the matmul writes it."""
        return self.out.view(self.weight.dtype) if self.in_floats else self.out

    def run(self, derived: DerivedArrays) -> None:
        """`derived` holds band matrices from run to run."""
        window = self.window
        if prod(window.kernel) == 1 and set(window.strides) == {1} and not any(window.pads):
            self.by_points(derived)
        elif self.groups > 1 and self.weight.shape[1] == 1 and window.rank == 2 and self.x.size:
            self.by_bands(derived)
        else:
            self.by_columns(derived)

    def converted(self, x: Array) -> Array:
        """A part of x in the type of the weight."""
        if x.dtype == self.weight.dtype:
            return x
        result = scratch("converted", x.shape, self.weight.dtype)
        np.copyto(result, x)
        return result

    def multiply(
        self, rows: Array, columns: Array, first: int, target: Array, bias: Array | None
    ) -> None:
        """A block of the result, which starts with channel `first`. The matmul gets memory of its
        own where the result's is not contiguous, as that is slower to go over twice."""
        once = bias is None and self.epilogue is None and not self.in_floats
        direct = target.flags.c_contiguous or once
        block = target if direct else scratch("block", target.shape, target.dtype)
        self.matmul(rows, columns, block)
        self.finish(block, first, target, bias)

    def finish(self, block: Array, first: int, target: Array, bias: Array | None) -> None:
        if self.in_floats:
            copied = block is not target and bias is None and self.epilogue is None
            floats, block, target = block, block.view(self.out.dtype), target.view(self.out.dtype)
            to_integers(floats, block)
            if copied:
                target[...] = block
        if bias is not None:
            terms = bias[first : first + len(block)].reshape(-1, *[1] * (block.ndim - 1))
            np.add(block, terms, out=target if self.epilogue is None else block)
        if self.epilogue is not None:
            self.epilogue(block, target)

    def with_bias(self, rows: Array, derived: DerivedArrays) -> tuple[Array, Array | None]:
        """The weight [groups, outputs, terms] with the bias as one more term, if the matmul gives
        floats and both are constants; the bias that is still to be added."""
        bias, constant = self.bias, not self.weight.flags.writeable
        in_floats = self.is_float or (self.in_floats and self.x.dtype.itemsize == 1)
        if bias is None or bias.flags.writeable or not constant or not in_floats:
            return rows, bias

        def build() -> Array:
            if not self.is_float:
                most = int(np.abs(rows).sum(axis=2).max(initial=0)) * magnitude(self.x)
                if most + magnitude(bias) > exact_terms(rows.dtype, 1):
                    return np.empty(0, rows.dtype)
            terms = bias.astype(rows.dtype).reshape(*rows.shape[:2], 1)
            return np.concatenate([rows, terms], axis=2)

        whole = derived(self.weight, "bias", build, bias)
        return (whole, None) if whole.size else (rows, bias)

    def by_points(self, derived: DerivedArrays) -> None:
        batch, groups, count = len(self.x), self.groups, prod(self.out.shape[2:])
        outputs, terms = len(self.weight) // groups, self.weight.shape[1]
        rows, bias = self.weight.reshape(groups, outputs, terms), self.bias
        result = self.sums.reshape(batch, groups, outputs, count)
        if outputs >= terms:  # a copy of the image costs less than to add the bias
            rows, bias = self.with_bias(rows, derived)
        is_copied = rows.shape[2] > terms
        x = self.x if is_copied else self.converted(self.x)
        points = x.reshape(batch, groups, terms, count)
        for image in range(batch):
            for group in range(groups):
                columns = points[image, group]
                if is_copied:
                    columns = scratch("columns", (terms + 1, count), rows.dtype)
                    columns[:terms], columns[terms] = points[image, group], 1
                target = result[image, group]
                self.multiply(rows[group], columns, group * outputs, target, bias)

    def by_columns(self, derived: DerivedArrays) -> None:
        x, window, groups = self.converted(self.x), self.window, self.groups
        rows = self.weight.reshape(groups, len(self.weight) // groups, prod(self.weight.shape[1:]))
        positions, terms = self.out.shape[2:], rows.shape[2]
        result = self.sums.reshape(len(x), groups, rows.shape[1], prod(positions))
        view = windows(padded(x, window), window, positions)
        line = prod(positions[1:])
        line_bytes = x.shape[1] * prod(window.kernel) * line * x.itemsize
        step = max(1, 4 * BLOCK_BYTES // max(line_bytes, 1))
        before = (slice(None),) * (1 + window.rank)  # the dimensions before an image's positions
        bias = self.bias
        if groups == 1 and 4 * terms < prod(positions):  # no second copy of many weights
            rows, bias = self.with_bias(rows, derived)
        for image in range(len(x)):
            for start in range(0, positions[0], step):
                chunk = view[image][(*before, slice(start, start + step))]
                shape = (groups, rows.shape[2], chunk.size // max(groups * terms, 1))
                columns = scratch("columns", shape, x.dtype)
                columns[:, :terms].reshape(chunk.shape)[...] = chunk
                columns[:, terms:] = 1
                part = result[image, :, :, start * line : (start + step) * line]
                for group in range(groups):
                    first = group * rows.shape[1]
                    self.multiply(rows[group], columns[group], first, part[group], bias)

    def by_bands(self, derived: DerivedArrays) -> None:
        """A band matrix multiplies elements that windows do not meet by zero: where that could make
        a nan, the block is computed by columns."""
        x, window, (height, width) = self.x, self.window, self.out.shape[2:]
        sums = self.sums
        several, elements = len(self.weight) // self.groups, prod(x.shape[2:])
        block_bytes, bias = BLOCK_BYTES, self.bias
        is_small = x.shape[2] <= WHOLE_ROWS and window.strides[1] == 1 and width <= x.shape[3]
        if is_small and (self.is_float or self.in_floats):
            elements *= window.kernel[1] + 1
            bands, method = self.bands_of_images(derived), self.by_images
            bias = None if self.is_float else bias
        else:
            count = -(-height // -(-height * window.strides[0] // BAND_ROWS))
            extent = (height - 1) * window.strides[0] + window.extent(0)
            elements = extent * window.kernel[1] * width
            bands, method = self.bands(derived, count), self.along_rows
            block_bytes //= 2  # the lines are written and read again
        step = max(1, block_bytes // ((elements + height * width * several) * sums.itemsize))
        step = min(step, self.groups)
        multiply = method(step, bands)
        for image in range(len(x)):
            for first in range(0, self.groups, step):
                some = slice(first, first + step)
                part = sums[image, first * several : (first + step) * several]
                target = part.reshape(-1, several, height, width)
                multiply(x[image, some], bands[some], target)
                finite = not self.is_float or isfinite(np.vdot(part, part))
                if not finite:
                    weight = self.weight[first * several : (first + step) * several]
                    Correlation(
                        x[None, image, some], weight, window, len(target), self.matmul, part[None]
                    ).by_columns(derived)
                self.finish(part, first * several, part, bias if finite else self.bias)

    def by_images(self, most: int, bands: Array) -> BandMatmul:
        """For up to `most` small images at a time, bands [channels, outputs, row, terms] of
        `bands_of_images`. The image is copied once for each element of a window's row, shifted by
        it: that is one run of memory, where rows of few elements would be many short ones, but for
        the elements that get into another row."""
        window, (rows, line), terms = self.window, self.x.shape[2:], bands.shape[3]
        memory = scratch("images", (most, terms * line), self.weight.dtype)
        lines, size = memory.reshape(most, terms, line), rows * line
        copies: list[tuple[Array, slice]] = []
        outside: list[Array] = []
        for tap in range(window.kernel[1]):
            shift = tap * window.dilations[1] - window.pads[1]
            some = slice(max(shift, 0), max(size + min(shift, 0), 0))
            first = tap * size - shift
            copies.append((memory[:, some.start + first : some.stop + first], some))
            shifted = lines[:, tap * rows : (tap + 1) * rows]
            outside += [
                shifted[..., : max(-shift, 0)],
                shifted[..., max(line - max(shift, 0), 0) :],
            ]
        outside = [a for a in outside if a.size]
        lines[:, window.kernel[1] * rows :] = 1  # what the bias is multiplied by
        columns = lines[..., : self.out.shape[3]]

        def multiply(x: Array, bands: Array, target: Array) -> None:
            count, image = len(x), x.reshape(len(x), size)
            for copy, some in copies:
                copy[:count] = image[:, some]
            for array in outside:
                array[:count] = 0
            for i in range(target.shape[1]):
                self.matmul(bands[:, i], columns[:count], target[:, i])

        return multiply

    def along_rows(self, most: int, bands: Array) -> BandMatmul:
        """For up to `most` channels at a time, bands [channels, outputs, row, terms]. Rows of the
        image are copied to lines [channels, row, element of a window's row, column]."""
        window, (height, width), rows = self.window, self.out.shape[2:], bands.shape[2]
        taps, stride, image = window.kernel[1], window.strides[0], self.x.shape[2:]
        extent = (height - 1) * stride + window.extent(0)
        lines = scratch.with_zeros((window, image), (most, extent, taps, width), self.weight.dtype)
        inside = lines[:, window.pads[0] :][:, : image[0]]
        copied = inside.shape[1]
        ranges = [tap_range(window, 1, tap, image[1], width) for tap in range(taps)]
        per_channel, per_row, per_line, _ = lines.strides

        def tiles_of(first: int, tiles: int, size: int) -> tuple[slice, Shape, Array]:
            """The rows of the result in so many tiles of a size, and the lines that they meet."""
            terms = ((size - 1) * stride + window.extent(0)) * taps
            columns = np.ndarray(
                (most, tiles, terms, width), lines.dtype, lines, first * stride * per_row,
                (per_channel, rows * stride * per_row, per_line, lines.itemsize),
            )  # fmt: skip
            return slice(first, first + tiles * size), (tiles, size, width), columns

        whole, rest = divmod(height, rows)
        pieces = [tiles_of(0, whole, rows)]
        if rest:
            pieces.append(tiles_of(whole * rows, 1, rest))

        def multiply(x: Array, bands: Array, target: Array) -> None:
            count = len(x)
            for tap, (positions, elements) in enumerate(ranges):
                inside[:count, :, tap, positions] = x[:, :copied, elements]
            for where, shape, columns in pieces:
                matrices = bands[:, :, None, : shape[1], : columns.shape[2]]
                for i in range(target.shape[1]):
                    part = target[:, i, where].reshape(count, *shape)
                    self.matmul(matrices[:, i], columns[:count], part)

        return multiply

    def bands(self, derived: DerivedArrays, count: int) -> Array:
        """The matrices [channels, outputs, row, terms] of `along_rows` for `count` rows:
        row i of a result meets the rows of the image from i times the stride on."""
        window, groups, outputs = self.window, self.groups, len(self.weight) // self.groups
        stride, dilation, extent = window.strides[0], window.dilations[0], window.extent(0)

        def build() -> Array:
            weight = self.weight.reshape(groups, outputs, *window.kernel)
            rows = (count - 1) * stride + extent
            result = np.zeros((groups, outputs, count, rows, window.kernel[1]), weight.dtype)
            for i in range(count):
                result[:, :, i, i * stride : i * stride + extent : dilation] = weight
            return result.reshape(groups, outputs, count, -1)

        return derived(self.weight, ("rows", count, stride, dilation), build)

    def bands_of_images(self, derived: DerivedArrays) -> Array:
        """The matrices [channels, outputs, row, terms] for all rows of an image: the terms are the
        rows of the image for each element of a window's row, and the bias."""
        window, outputs = self.window, len(self.weight) // self.groups
        rows, height = self.x.shape[2], self.out.shape[2]
        bias = self.bias if self.is_float else None

        def build() -> Array:
            shape = (self.groups, outputs, height, window.kernel[1])
            weight = self.weight.reshape(self.groups, outputs, *window.kernel)
            result = np.zeros((*shape, rows), weight.dtype)
            for tap in range(window.kernel[0]):
                positions, elements = tap_range(window, 0, tap, rows, height)
                met = range(*elements.indices(rows))
                for i, row in zip(range(height)[positions], met, strict=True):
                    result[:, :, i, :, row] = weight[:, :, tap]
            result = result.reshape(*shape[:3], -1)
            if bias is None:
                return result
            terms = bias.astype(weight.dtype).reshape(*shape[:2], 1, 1)
            terms = np.broadcast_to(terms, (*shape[:3], 1))
            return np.concatenate([result, terms], axis=3)

        return derived(self.weight, ("images", window, rows), build, bias)
