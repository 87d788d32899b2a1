"""Where windows that slide over an image meet its elements."""

from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array


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
