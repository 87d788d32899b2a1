"""Depthwise convolutions: one call of einsum multiplies by all elements of the windows, and adds
up, for a block of channels. Its innermost loop takes long only where few elements lie side by side;
so images are copied first, among the zeros around them:

- With many channels and few positions, the channels of a pixel lie side by side.
- With few channels and many positions, what one column of the window meets is a plane of its own,
  in which all positions lie side by side. Its rows follow from each other where those of the window
  meet rows a whole number of strides apart; else each row of the window has its own plane, too.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.numbers.plan import Plan
from ge.runtime.numbers.windows import range_inside

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
    """What a window meets of images, [channels, columns of the window, groups, rows, places]. A
    group has one row of the window, or all: then two of them meet rows `step` apart."""

    window: Window
    places: Shape

    @property
    def step(self) -> int:
        """0 where each row of the window has its own group."""
        apart, rest = divmod(self.window.dilations[0], self.window.strides[0])
        return 0 if rest else apart

    @property
    def shape(self) -> Shape:
        """That for one channel."""
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
