"""Windows that slide over the spatial dimensions: the common part of convolution and pooling.

A window with kernel k and dilation d spans (k - 1) * d + 1 input elements; it starts at
-pad_begin and moves by the stride.

The places of the elements of a resized axis in the input."""

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.irdl import opt_prop_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import GraphOp
from ge.dialects.support.boxes import Span, plus, window_span
from ge.dialects.support.constraints import INTS, choice, opt_choice_def
from ge.dialects.support.digits import DigitSum
from ge.dialects.support.types import DYNAMIC, Shape, shape_text

"""The window's part of an assembly format."""


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, strides, dilations and pads (begins, then ends) of a sliding window. `auto_pad`
    other than "" asks for ceil(input / stride) outputs, an odd pad more at that end."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape
    auto_pad: str = ""
    ceil_mode: bool = False

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def extent(self, i: int) -> int:
        size = self.kernel[i]
        return DYNAMIC if size == DYNAMIC else (size - 1) * self.dilations[i] + 1

    def resolved(self, spatial: Shape) -> "Window":
        """The window with the pads that `auto_pad` means for an input of this size; itself where
        they depend on a dimension that is not known."""
        if not self.auto_pad:
            return self
        totals: list[int] = []
        for i, (size, stride) in enumerate(zip(spatial, self.strides, strict=True)):
            if self.kernel[i] == DYNAMIC or (size == DYNAMIC and stride > 1):
                return self
            # elements at the end that windows of one element do not reach without padding
            rest = 0 if stride == 1 else size - 1 - (-(-size // stride) - 1) * stride
            totals.append(self.extent(i) - 1 - rest)
        return self.with_pads(totals)

    def with_pads(self, totals: Sequence[int]) -> "Window":
        """Divides the padding of each dimension between begin and end as `auto_pad` says."""
        totals = [max(t, 0) for t in totals]
        smaller = tuple(t // 2 for t in totals)
        larger = tuple(t - t // 2 for t in totals)
        pads = smaller + larger if self.auto_pad == "same_upper" else larger + smaller
        return replace(self, pads=pads, auto_pad="")

    def output(self, spatial: Shape) -> Shape:
        """Positions of the window along each dimension of an input of this size."""
        if self.auto_pad:
            sizes = zip(spatial, self.strides, strict=True)
            return tuple(DYNAMIC if d == DYNAMIC else -(-d // s) for d, s in sizes)
        return tuple(self._positions(i, size) for i, size in enumerate(spatial))

    def read(self, spans: Sequence[Span]) -> list[Span]:
        """The elements of the input, along each spatial dimension, under the windows of these
        positions; `auto_pad` is resolved."""
        return [
            window_span(span, self.strides[i], -self.pads[i], self.extent(i))
            for i, span in enumerate(spans)
        ]

    def meetings(self, spatial: Shape) -> int:
        """Number of pairs of a position and an element of the input under the window there:
        padding, and places beyond the last element, are none."""
        window = self.resolved(spatial)
        sizes = zip(spatial, window.output(spatial), strict=True)
        return prod(window._meetings(i, size, count) for i, (size, count) in enumerate(sizes))

    def _meetings(self, i: int, size: int, count: int) -> int:
        kernel, positions = (self.kernel[i], self.dilations[i]), (count, self.strides[i])
        (few, far), (many, near) = sorted((kernel, positions))
        begin = -self.pads[i]
        return sum(times_inside(begin + n * far, near, many, size) for n in range(few))

    def covers(self, spatial: Shape) -> bool:
        """True if there is one position, and every element of the input is under the window."""
        window = self.resolved(spatial)
        return all(n == 1 for n in window.output(spatial)) and all(
            window._meetings(i, size, 1) == size for i, size in enumerate(spatial)
        )

    def reaching(self, spans: Sequence[Span], counts: Shape) -> list[Span]:
        """The positions, so many along each dimension, whose windows reach elements of spans."""
        triples = enumerate(zip(spans, counts, strict=True))
        return [self._reaching(i, span, count) for i, (span, count) in triples]

    def _reaching(self, i: int, span: Span, count: int) -> Span:
        first, stride, extent = plus(span[0], self.pads[i]), self.strides[i], self.extent(i)
        over = first % stride if isinstance(first, DigitSum) else None
        if isinstance(over, int):  # as far from the last position on all devices
            low, high = -((extent - 1 - over) // stride), (over + span[1] - 1) // stride
            return first // stride + low, high - low + 1
        if not isinstance(first, int):
            return 0 - (extent - 1 - first) // stride, (span[1] + extent - 2) // stride + 1
        met = set[int]()
        for k in range(0, extent, self.dilations[i]):
            low, high = -((k - first) // stride), (first + span[1] - 1 - k) // stride
            met |= {*range(count)[max(low, 0) : max(high + 1, 0)]}
        return (min(met), max(met) - min(met) + 1) if met else (0, 0)

    def _positions(self, i: int, size: int) -> int:
        extent, stride = self.extent(i), self.strides[i]
        if DYNAMIC in (size, extent):
            return DYNAMIC
        begin, end = self.pads[i], self.pads[i + self.rank]
        room = size + begin + end - extent
        if self.ceil_mode:
            # the last window may hang over the end, but starts inside the input or its begin pad
            count = min(-(-room // stride), (size + begin - 1) // stride) + 1
        else:
            count = room // stride + 1
        if count < 1 or (room < 0 and not self.ceil_mode):
            raise VerifyException(
                f"a window over {extent} elements does not fit into spatial dimension {i}: "
                f"{size} elements, pads {begin} and {end}"
            )
        return count


def times_inside(start: int, step: int, count: int, size: int) -> int:
    """Number of those of `count` numbers, from `start` on a step apart, that are indices of `size`
    elements."""
    return max(min(count, (size - 1 - start) // step + 1) - max(0, -(start // step)), 0)


AutoPad = choice("graph.auto_pad", "same_upper", "same_lower")


class WindowedOp(GraphOp, ABC):
    """Base of the ops with a sliding window. Absent strides and dilations are ones, absent pads
    zeros; `auto_pad` stands for pads that depend on dimensions known only at run time."""

    strides = opt_prop_def(INTS)
    pads = opt_prop_def(INTS)
    dilations = opt_prop_def(INTS)
    auto_pad = opt_choice_def(AutoPad)

    def window_over(self, kernel: Shape, ceil_mode: bool = False) -> Window:
        """Raises VerifyException for properties that do not fit the kernel."""
        rank = len(kernel)
        if any(k != DYNAMIC and k < 1 for k in kernel):
            raise VerifyException(f"kernel dimensions are positive, got {shape_text(kernel)}")
        if self.auto_pad is not None and self.pads is not None:
            raise VerifyException("'pads' and 'auto_pad' exclude each other")
        return Window(
            kernel,
            self.window_ints("strides", rank, 1, least=1),
            self.window_ints("dilations", rank, 1, least=1),
            self.window_ints("pads", 2 * rank, 0, least=0),
            "" if self.auto_pad is None else self.auto_pad.data,
            ceil_mode,
        )

    def window_ints(self, name: str, count: int, default: int, least: int) -> Shape:
        values = self.ints(name)
        if values is None:
            return (default,) * count
        if len(values) != count:
            raise VerifyException(f"'{name}' has {len(values)} elements, expected {count}")
        if min(values, default=least) < least:
            raise VerifyException(f"'{name}' are at least {least}, got {list(values)}")
        return values


def spatial_dims(shape: Sequence[int]) -> Shape:
    """The dimensions after batch and channels; VerifyException when there are none."""
    if len(shape) < 3:
        raise VerifyException(
            f"input has batch, channel and spatial dimensions, not shape {shape_text(shape)}"
        )
    return tuple(shape[2:])


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
