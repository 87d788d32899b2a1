"""The ways in which a convolution is computed.

- A window of one element is a matmul of the image itself.
- A depthwise convolution multiplies and adds (below).
- All others copy the windows out as columns of a matrix (im2col), in blocks that stay in the
  processor's cache, for a matmul.

Of depthwise convolutions one call of einsum multiplies by all elements of the windows, and adds
up, for a block of channels. Its innermost loop takes long only where few elements lie side by side;
so images are copied first, among the zeros around them:

- With many channels and few positions, the channels of a pixel lie side by side.
- With few channels and many positions, the elements that one column of the window meets
  are a plane, in which all positions lie side by side. Its rows follow from each other where those
  of the window meet rows a whole number of strides apart; else each row of the window has its own
  plane, too."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.numbers.linear import (
    EXACT_TERMS,
    DerivedArrays,
    exact_terms,
    magnitude,
    to_integers,
    whole_dtype,
)
from ge.runtime.numbers.plan import Plan, scratch


def padded_shape(x: Array, window: Window) -> Shape:
    begins, ends = window.pads[: window.rank], window.pads[window.rank :]
    return (
        *x.shape[:2],
        *(b + d + e for b, d, e in zip(begins, x.shape[2:], ends, strict=True)),
    )


def pad(x: Array, window: Window, value: int, result: Array) -> Array:
    """Write x, with `value` around its spatial dimensions, to an array of the padded shape."""
    inside: list[slice] = []
    for i, size in enumerate(x.shape[2:]):
        before, begin = (slice(None),) * (2 + i), window.pads[i]
        result[(*before, slice(0, begin))] = value
        result[(*before, slice(begin + size, None))] = value
        inside.append(slice(begin, begin + size))
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
    offset = tap * window.dilations[i] - window.pads[i]
    return range_inside(offset, window.strides[i], size, positions)


def range_inside(offset: int, stride: int, size: int, positions: int) -> tuple[slice, slice]:
    """Position p meets the element of number offset + p * stride: the positions that meet one of
    the `size` elements there are, and these elements."""
    first = max(0, -(offset // stride))
    last = min(positions, (size - 1 - offset) // stride + 1)
    if first >= last:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


LINE_BYTES = 64  # of a cache
POSITIONS = 2  # for each channel, up to which the channels of a pixel lie side by side


def goes_by_pixels(channels: int, places: Shape) -> bool:
    return prod(places) <= POSITIONS * channels


def covered(window: Window, places: Shape) -> list[int]:
    """The elements along each dimension of a padded image, up to the last that a window meets."""
    return [(n - 1) * window.strides[i] + window.extent(i) for i, n in enumerate(places)]


def sums_by_pixels(plan: Plan, x: Array, weight: Array, window: Window, places: Shape) -> Array:
    """The sums [channels, outputs, height, width], valid until the next ones, of images [channels,
    height, width] and a weight [outputs, kernel height, kernel width, channels]."""
    channels, dtype = len(x), weight.dtype
    layout = (window, x.shape)
    pixels = plan.scratch.with_zeros(layout, (*covered(window, places), channels), dtype)
    inside = pixels[window.pads[0] :, window.pads[1] :][: x.shape[1], : x.shape[2]]
    met_part = x[:, : inside.shape[0], : inside.shape[1]]
    plan.add(np.copyto, inside, met_part.transpose(1, 2, 0))
    by_tap = [s * d for s, d in zip(pixels.strides[:2], window.dilations, strict=True)]
    by_place = [s * d for s, d in zip(pixels.strides[:2], window.strides, strict=True)]
    met = np.ndarray(
        (*window.kernel, *places, channels), dtype, pixels, 0,
        (*by_tap, *by_place, dtype.itemsize),
    )  # fmt: skip
    # An odd number of lines apart, so that one channel of all pixels has the whole cache
    lines = -(-channels * dtype.itemsize // LINE_BYTES) | 1
    pitch = lines * LINE_BYTES // dtype.itemsize
    sums = plan.scratch("sums", (len(weight), *places, pitch), dtype)[..., :channels]
    plan.add(np.einsum, "mabc,abijc->mijc", weight, met, out=sums)
    return sums.transpose(3, 0, 1, 2)


@dataclass(frozen=True, slots=True)
class Planes:
    """The elements of images that a window meets, [channels, columns of the window, groups, rows,
    places]. A group has one row of the window, or all: then two of them meet rows `step` apart."""

    window: Window
    places: Shape

    @property
    def step(self) -> int:
        """0 where each row of the window has its own group."""
        apart, rest = divmod(self.window.dilations[0], self.window.strides[0])
        return 0 if rest else apart

    @property
    def shape(self) -> Shape:
        """Shape for one channel."""
        (kernel_rows, columns), (height, width) = self.window.kernel, self.places
        if not self.step:
            return (columns, kernel_rows, height, width)
        return (columns, 1, height + (kernel_rows - 1) * self.step, width)

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def met(self, planes: Array) -> Array:
        """The view [channels, columns, rows of the window, places]."""
        by_channel, by_column, by_group, by_line, by_element = planes.strides
        by_row = self.step * by_line or by_group
        return np.ndarray(
            (len(planes), *reversed(self.window.kernel), prod(self.places)),
            planes.dtype, planes, 0, (by_channel, by_column, by_row, by_element),
        )  # fmt: skip


def fill_planes(plan: Plan, x: Array, planes: Array, layout: Planes) -> None:
    """Copy images [channels, height, width] among the zeros of their planes."""
    window, (_, width) = layout.window, layout.places
    flat = set(window.strides) == {1} and width == x.shape[2] and x.flags.c_contiguous
    for column, group in np.ndindex(*planes.shape[1:3]):
        plane = planes[:, column, group]
        right = column * window.dilations[1] - window.pads[1]
        down = group * window.dilations[0] - window.pads[0]
        rows, from_rows = range_inside(down, window.strides[0], x.shape[1], plane.shape[1])
        columns, from_columns = range_inside(right, window.strides[1], x.shape[2], width)
        target = plane[:, rows, columns]
        if not flat:
            plan.add(np.copyto, target, x[:, from_rows, from_columns])
        elif target.size:
            copy_shifted(plan, x[:, from_rows], plane[:, rows], right)
            for outside in (plane[:, rows, : columns.start], plane[:, rows, columns.stop :]):
                if outside.size:
                    plan.add(outside.fill, 0)


def copy_shifted(plan: Plan, x: Array, plane: Array, right: int) -> None:
    """Copy rows as one run of memory, so that a place meets the element so far to its right; beside
    the image that is one of another row."""
    source, target = (a.reshape(len(a), -1) for a in (x, plane))
    count = source.shape[1] - abs(right)
    first, last = max(0, -right), max(0, right)
    plan.add(np.copyto, target[:, first : first + count], source[:, last : last + count])


def sums_by_images(
    plan: Plan, x: Array, weight: Array, window: Window, places: Shape, sums: Array
) -> None:
    """Write the sums [channels, outputs, places], in the type of the weight, of images [channels,
    height, width] and a weight [channels, outputs, kernel height, kernel width]."""
    layout = Planes(window, places)
    key = (window, x.shape[1:], "planes")
    planes = plan.scratch.with_zeros(key, (len(x), *layout.shape), weight.dtype)
    fill_planes(plan, x, planes, layout)
    # Strides have numpy go over the places first, then over the window
    plan.add(np.einsum, "cmba,cabi->cmi", weight, layout.met(planes), out=sums)


Matmul = Callable[[Array, Array, Array], object]  # multiplies the first two arrays into the third

# Computes the second array, which may be the first, from a block of the result.
Epilogue = Callable[[Array, Array], object]

BLOCK_BYTES = 1 << 20  # a block of a result, or of the columns for it


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
    plan: Plan = field(default_factory=lambda: Plan(scratch))

    @property
    def is_float(self) -> bool:
        return self.out.dtype.kind == "f"

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.weight.shape[1] == 1 and self.window.rank == 2

    @property
    def is_exact(self) -> bool:
        """True if the type of the weight holds whole sums."""
        is_wide = self.is_float or self.in_floats or self.weight.dtype == self.out.dtype
        return is_wide or prod(self.window.kernel) <= EXACT_TERMS

    @property
    def sums(self) -> Array:
        """The result, as the matmul writes it."""
        return self.out.view(self.weight.dtype) if self.in_floats else self.out

    def prepare(self, derived: DerivedArrays) -> Plan:
        """The calls that compute it. `derived` holds arrays that follow from the weight from run to
        run."""
        window = self.window
        if prod(window.kernel) == 1 and set(window.strides) == {1} and not any(window.pads):
            self.by_points(derived)
        elif self.is_depthwise and self.is_exact and self.x.size:
            self.by_channels(derived)
        else:
            self.by_columns(derived)
        return self.plan

    def converted(self, x: Array) -> Array:
        """A part of x in the type of the weight."""
        if x.dtype == self.weight.dtype:
            return x
        result = self.plan.scratch("converted", x.shape, self.weight.dtype)
        self.plan.add(np.copyto, result, x)
        return result

    def padded(self) -> Array:
        """x in the type of the weight, with zeros around it."""
        if not any(self.window.pads):
            return self.converted(self.x)
        shape = padded_shape(self.x, self.window)
        around = self.plan.scratch("padded", shape, self.weight.dtype)
        self.plan.add(pad, self.x, self.window, 0, around)
        return around

    def multiply(
        self, rows: Array, columns: Array, first: int, target: Array, bias: Array | None
    ) -> None:
        """A block of the result, which starts with channel `first`. The matmul gets memory of its
        own where the result's is not contiguous, as that is slower to go over twice."""
        once = bias is None and self.epilogue is None and not self.in_floats
        direct = target.flags.c_contiguous or once
        block = target if direct else self.plan.scratch("block", target.shape, target.dtype)
        self.plan.add(self.matmul, rows, columns, block)
        self.finish(block, first, target, bias)

    def finish(self, block: Array, first: int, target: Array, bias: Array | None) -> None:
        if self.in_floats:
            copied = block is not target and bias is None and self.epilogue is None
            floats, block, target = block, block.view(self.out.dtype), target.view(self.out.dtype)
            self.plan.add(to_integers, floats, block)
            if copied:
                self.plan.add(np.copyto, target, block)
        if bias is not None:
            terms = bias[first : first + len(block)].reshape(-1, *[1] * (block.ndim - 1))
            self.plan.add(np.add, block, terms, out=target if self.epilogue is None else block)
        if self.epilogue is not None:
            self.plan.add(self.epilogue, block, target)

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
            # A matmul takes up to a quarter less time where the outputs of a term lie side by side
            whole = np.concatenate([rows.swapaxes(1, 2), terms.swapaxes(1, 2)], axis=1)
            return whole.swapaxes(1, 2)

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
                    columns = self.plan.scratch("columns", (terms + 1, count), rows.dtype)
                    self.plan.add(np.copyto, columns[:terms], points[image, group])
                    self.plan.add(columns[terms].fill, 1)
                target = result[image, group]
                self.multiply(rows[group], columns, group * outputs, target, bias)

    def by_columns(self, derived: DerivedArrays) -> None:
        x, window, groups = self.padded(), self.window, self.groups
        rows = self.weight.reshape(groups, len(self.weight) // groups, prod(self.weight.shape[1:]))
        positions, terms = self.out.shape[2:], rows.shape[2]
        result = self.sums.reshape(len(x), groups, rows.shape[1], prod(positions))
        view = windows(x, window, positions)
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
                columns = self.plan.scratch("columns", shape, x.dtype)
                self.plan.add(np.copyto, columns[:, :terms].reshape(chunk.shape), chunk)
                if shape[1] > terms:
                    self.plan.add(columns[:, terms:].fill, 1)
                part = result[image, :, :, start * line : (start + step) * line]
                for group in range(groups):
                    first = group * rows.shape[1]
                    self.multiply(rows[group], columns[group], first, part[group], bias)

    def by_channels(self, derived: DerivedArrays) -> None:
        window, places, groups = self.window, self.out.shape[2:], self.groups
        outputs, result = len(self.weight) // groups, self.sums
        weight = self.weight.reshape(groups, outputs, *window.kernel)
        by_pixels = goes_by_pixels(groups, places)
        elements = Planes(window, places).elements
        if by_pixels:
            turned = weight.transpose(1, 2, 3, 0)
            weight = derived(self.weight, "pixels", lambda: np.ascontiguousarray(turned))
            elements = prod(covered(window, places))
        elements += outputs * prod(places)
        parts = elements * groups * weight.itemsize // BLOCK_BYTES
        step = -(-groups // max(1, min(groups, parts)))
        for image in range(len(self.x)):
            for start in range(0, groups, step):
                some, first = slice(start, start + step), start * outputs
                x = self.x[image, some]
                target = result[image, first : first + len(x) * outputs]
                if by_pixels:
                    taps = weight[..., some]
                    sums = sums_by_pixels(self.plan, x, taps, window, places)
                else:
                    sums = self.sums_by_images(x, weight[some], target)
                self.finish_sums(sums, first, target)

    def sums_by_images(self, x: Array, weight: Array, target: Array) -> Array:
        """The sums of some channels, in the memory of the result if that has their type."""
        shape, dtype = (*weight.shape[:2], *self.out.shape[2:]), weight.dtype
        direct = target.dtype == dtype
        sums = target.reshape(shape) if direct else self.plan.scratch("sums", shape, dtype)
        flat, places = sums.reshape(*shape[:2], -1), self.out.shape[2:]
        sums_by_images(self.plan, x, weight, self.window, places, flat)
        return target if direct else sums

    def finish_sums(self, sums: Array, first: int, target: Array) -> None:
        """Finish the sums of some channels [channels, outputs of each, positions...], which may be
        the target itself."""
        bias = self.bias
        if sums is not target:
            block = target.reshape(sums.shape)
            if self.is_float and bias is None and self.epilogue is not None:
                self.plan.add(self.epilogue, sums, block)
                return
            if self.is_float and bias is not None:
                terms = bias[first : first + len(target)]
                self.plan.add(np.add, sums, terms.reshape(*sums.shape[:2], 1, 1), out=block)
                bias = None
            elif sums.dtype.kind == block.dtype.kind:
                self.plan.add(np.copyto, block, sums)
            else:
                self.plan.add(copy_whole, sums, block)
        self.finish(target, first, target, bias)


def copy_whole(floats: Array, target: Array) -> None:
    """Copy floats that hold integers to integers of any size."""
    target[...] = floats.astype(whole_dtype(floats.dtype))
