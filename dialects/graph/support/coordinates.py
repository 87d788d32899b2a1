"""The places of the elements of a resized axis in the input."""

from collections.abc import Callable
from typing import Any


def coordinates(
    kind: str, i: Any, count: int, size: int, scale: float, roi: tuple[float, float]
) -> Any:
    """The coordinates in an axis of `size` elements of place `i`, a number or an array, of the
    `count` places of the result."""
    length, nowhere = scale * size, i * 0.0
    if kind == "align_corners":
        return i * (size - 1) / (length - 1) if length != 1 else nowhere
    if kind == "asymmetric":
        return i / scale
    if kind == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if kind == "tf_crop_and_resize":
        start, end = roi[0] * (size - 1), roi[1] * (size - 1)
        if length == 1:
            return nowhere + (start + end) / 2
        return start + i * (end - start) / (length - 1)
    if kind == "pytorch_half_pixel" and count == 1:
        return nowhere
    shift = size / 2 * (1 - count / length) if kind == "half_pixel_symmetric" else 0.0
    return shift + (i + 0.5) / scale - 0.5


def nearest_index(
    x: Any, half: Any, mode: str, floor: Callable[[Any], Any], ceil: Callable[[Any], Any]
) -> Any:
    """The element nearest to each coordinate; those and `half` are of float32, so that a scale such
    as 0.4, which float32 does not hold exactly, does not spoil a tie."""
    if mode == "floor":
        return floor(x)
    if mode == "ceil":
        return ceil(x)
    return ceil(x - half) if mode == "round_prefer_floor" else floor(x + half)
