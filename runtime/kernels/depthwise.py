"""Depthwise convolutions: one call of einsum multiplies by all elements of the windows, and adds
up, for a block of channels. Its innermost loop takes long only where few elements lie side by side;
so images are copied first, among the zeros around them:

- With many channels and few positions, the channels of a pixel lie side by side.
- With few channels and many positions, an image is one run of memory. What lies around it gives
  sums between the rows of a result, which nobody reads. Where windows move by a stride, the rows
  and columns that are a stride apart are copied to lie side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

import numpy as np

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.kernels.scratch import scratch
from ge.runtime.kernels.windows import range_inside

LINE_BYTES = 64  # of a cache
POSITIONS = 8  # for each channel, up to which the channels of a pixel lie side by side


def goes_by_pixels(channels: int, places: Shape) -> bool:
    return prod(places) <= POSITIONS * channels


def covered(window: Window, places: Shape) -> list[int]:
    """The elements along each dimension of a padded image, up to the last that a window meets."""
    return [(n - 1) * window.strides[i] + window.extent(i) for i, n in enumerate(places)]


def sums_by_pixels(x: Array, weight: Array, window: Window, places: Shape) -> Array:
    """The sums [channels, outputs, height, width], valid until the next ones, of images [channels,
    height, width] and a weight [outputs, kernel height, kernel width, channels]."""
    channels, dtype = len(x), weight.dtype
    layout = (window, x.shape)
    pixels = scratch.with_zeros(layout, (*covered(window, places), channels), dtype)
    inside = pixels[window.pads[0] :, window.pads[1] :][: x.shape[1], : x.shape[2]]
    inside[...] = x[:, : inside.shape[0], : inside.shape[1]].transpose(1, 2, 0)
    by_tap = [s * d for s, d in zip(pixels.strides[:2], window.dilations, strict=True)]
    by_place = [s * d for s, d in zip(pixels.strides[:2], window.strides, strict=True)]
    met = np.ndarray(
        (*window.kernel, *places, channels), dtype, pixels, 0,
        (*by_tap, *by_place, dtype.itemsize),
    )  # fmt: skip
    # An odd number of lines apart, so that one channel of all pixels has the whole cache
    lines = -(-channels * dtype.itemsize // LINE_BYTES) | 1
    pitch = lines * LINE_BYTES // dtype.itemsize
    sums = scratch("sums", (len(weight), *places, pitch), dtype)[..., :channels]
    np.einsum("mabc,abijc->mijc", weight, met, out=sums)
    return sums.transpose(3, 0, 1, 2)


@dataclass(frozen=True, slots=True)
class Phase:
    """Every `stride`-th element along a dimension of a padded image, and the elements of the window
    that meet these."""

    start: int  # the first element, of the padded image
    taps: slice  # the elements of the window
    first: int  # the element of the phase that the first of the taps meets at position 0
    step: int  # elements of the phase between those that two taps meet


@lru_cache(maxsize=256)
def phases(window: Window, i: int) -> Sequence[Phase]:
    stride, dilation = window.strides[i], window.dilations[i]
    apart = stride // gcd(stride, dilation)  # taps between those that meet elements of one phase
    firsts = ((tap, *divmod(tap * dilation, stride)) for tap in range(apart))
    return [
        Phase(start, slice(tap, None, apart), first, apart * dilation // stride)
        for tap, first, start in firsts
        if tap < window.kernel[i]
    ]


def copy_phase(x: Array, plane: Array, window: Window, starts: Sequence[int]) -> None:
    """Copy the elements of a phase of both dimensions, among the zeros of its plane."""
    places, elements = zip(
        *(
            range_inside(start - window.pads[i], window.strides[i], x.shape[1 + i], n)
            for i, (start, n) in enumerate(zip(starts, plane.shape[1:], strict=True))
        ),
        strict=True,
    )
    plane[:, *places] = x[:, *elements]


def sums_by_images(
    x: Array, weight: Array, window: Window, places: Shape, bias: Array | None = None
) -> Array:
    """The sums [channels, outputs, height, width], valid until the next ones, of images [channels,
    height, width] and a weight [channels, outputs, kernel height, kernel width], with a bias
    [channels, outputs] where that is given."""
    (channels, outputs), dtype, (height, width) = weight.shape[:2], weight.dtype, places
    rows, columns = phases(window, 0), phases(window, 1)
    size, line = (n + (window.extent(i) - 1) // window.strides[i] for i, n in enumerate(places))
    layout = (window, x.shape[1:], "planes")
    planes = scratch.with_zeros(layout, (channels, len(rows), len(columns), size, line), dtype)
    run = (height - 1) * line + width  # from the first to the last element of a result
    shape = (channels, outputs, height * line)
    sums, more = (scratch(use, shape, dtype) for use in ("sums", "more"))
    by_channel, by_row, by_element = (planes.strides[k] for k in (0, 3, 4))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            copy_phase(x, planes[:, i, j], window, (row.start, column.start))
            taps = weight[:, :, row.taps, column.taps]
            first = ((i * len(columns) + j) * size + row.first) * by_row + column.first * by_element
            met = np.ndarray(
                (channels, *taps.shape[2:], run), dtype, planes, first,
                (by_channel, row.step * by_row, column.step * by_element, by_element),
            )  # fmt: skip
            target = (more if i or j else sums)[:, :, :run]
            # In this order the loop over a run is the innermost one in any case
            np.einsum("cmba,cbai->imc", taps, met, out=target.transpose(2, 1, 0), order="F")
            if i or j:
                sums += more
    if bias is not None:
        sums += bias[..., None]
    return sums.reshape(channels, outputs, height, line)[..., :width]
