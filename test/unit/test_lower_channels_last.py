"""Tile programs of depthwise convolutions whose channels are last, against kernels' bodies."""

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_convolution import conv
from tile_lowering import compare, lowered

from ge.runtime.library.convolution import convolution

TARGETS = ("910b2", "310p3")
AS_IT_IS = ("move-transposes", "absorb-transposes", "simplify-movement")


def depthwise(
    image: list[int],
    channels: int,
    window: dict[str, list[int]],
    element: str = "f32",
    turned: bool = True,
    after: str = "",
) -> str:
    """Of two images. `turned`: channels of the result are last, too; `after`: ops on it, %1, of
    type T, with %r of that type and %s for each channel; the last one is %2. Empty where no
    window fits."""
    rank, pads = len(image), window["pads"]
    dims = zip(image, pads, window["kernel"], window["strides"], window["dilations"], strict=True)
    sizes = [(n + 2 * p - (k - 1) * d - 1) // s + 1 for n, p, k, s, d in dims]
    if min(sizes) < 1:
        return ""

    made = "i32" if element == "i8" else element

    def tensor(*shape: int, element: str = made) -> str:
        return f"tensor<{'x'.join(map(str, shape))}x{element}>"

    x, b = tensor(2, *image, channels, element=element), tensor(channels)
    w = tensor(channels, 1, *window["kernel"], element=element)
    first, last = tensor(2, channels, *sizes), tensor(2, *sizes, channels)
    order = [0, *range(2, rank + 2), 1]
    turn = f"%1 = graph.transpose %0 permutation {order} : ({first}) -> {last}" if turned else ""
    result, name = (last, "%2" if after else "%1") if turned else (first, "%0")
    more = f", %r: {last}, %s: {b}" if after else ""
    flags = f"strides {window['strides']} pads {pads * 2} dilations {window['dilations']}"
    return f"""func.func @main(%x: {x}, %w: {w}, %b: {b}{more}) -> {result} {{
      %0 = graph.conv %x, %w bias %b {flags}
          group {channels} input_channels_last true : ({x}, {w}, {b}) -> {first}
      {turn}
      {after.replace("T", last).replace("S", b)}
      func.return {name} : {result} }}"""


@given(st.data())
def test_numbers(data: st.DataObject) -> None:
    """Any kernel, stride, dilation and pads of lines and images, with ragged ends of each."""
    rank = data.draw(st.integers(1, 2))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    window = {
        "kernel": numbers(1, 5),
        "strides": numbers(1, 3),
        "dilations": numbers(1, 2),
        "pads": numbers(0, 3),
    }
    elements = st.sampled_from(["f32", "f16", "i8"])
    channels, element = data.draw(st.integers(2, 70)), data.draw(elements)
    text = depthwise(numbers(3, 30), channels, window, element, data.draw(st.booleans()))
    target = data.draw(st.sampled_from(TARGETS))
    assume(text)
    exact = element == "i8"
    compare(text, target, all_lowered=True, exact=exact, fusion_disable=AS_IT_IS)


SQUARE = {"kernel": [3, 3], "strides": [1, 1], "dilations": [1, 1], "pads": [1, 1]}


@pytest.mark.parametrize("target", TARGETS)
def test_ops_on_the_result(target: str) -> None:
    """A number for each channel, a residual and a function join the launch."""
    after = """%a = graph.mul %1, %s : (T, S) -> T
      %c = graph.relu %a : (T) -> T
      %2 = graph.add %c, %r : (T, T) -> T"""
    text = depthwise([20, 22], 48, SQUARE, after=after)
    found = compare(text, target, all_lowered=True, orders=3, tiles=True, fusion_disable=AS_IT_IS)
    assert len(found.pairs) == 1


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_pixels_of_short_lines_are_turned(data: st.DataObject) -> None:
    """Channels that are not last, with ops on the result, by rows of channels all the same."""
    kernel, element = data.draw(st.integers(1, 5)), data.draw(st.sampled_from(["f32", "f16"]))
    step, apart, pad = (data.draw(st.integers(low, 2)) for low in (1, 1, 0))
    high, wide, channels = (data.draw(st.integers(5, n)) for n in (20, 30, 70))
    sizes = [high + 2 * pad - (kernel - 1) * apart - 1, wide + 2 * pad - (kernel - 1) * apart]
    assume(sizes[0] >= 1 and sizes[1] >= 2)  # lines of one pixel go by rows of pixels
    image, result = (2, channels, high, wide), (2, channels, sizes[0] // step + 1, sizes[1])
    flags = f"strides [{step}, 1] pads [{pad}, {pad}, {pad}, {pad}] dilations [{apart}, {apart}]"
    flags += f" group {channels}"
    after = "%c = graph.mul %0, %s : (T, S) -> T\n %1 = graph.add %c, %r : (T, T) -> T"
    weight = channels, 1, kernel, kernel
    text = conv(
        image, weight, result, flags, element, after=data.draw(st.sampled_from(["", after]))
    )
    with patch.object(convolution, "DEPTHWISE", (convolution.lower_channels_last,)):
        compare(text, data.draw(st.sampled_from(TARGETS)), all_lowered=True)


@pytest.mark.parametrize("target", TARGETS)
def test_the_faster_program_of_a_depthwise_convolution_is_taken(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those for vector cores, by rows of pixels where these are long, by rows of channels where
    lines are short."""
    ways = convolution.lower_sliding, convolution.lower_channels_last
    monkeypatch.setattr(convolution, "DEPTHWISE", ways)
    for size, channels, is_turned in ((56, 48, False), (7, 960, True)):
        x, w = (2, channels, size, size), (channels, 1, 3, 3)
        text = conv(x, w, x, f"pads [1, 1, 1, 1] group {channels}", bias=False)
        ((_, program),) = lowered(text, target).pairs
        assert any(op.name == "tile.move" for op in program.walk()) == is_turned


def test_volumes_have_no_program() -> None:
    window = {"kernel": [3] * 3, "strides": [1] * 3, "dilations": [1] * 3, "pads": [1] * 3}
    found = lowered(depthwise([8, 8, 8], 8, window, turned=False))
    assert "no convolution of images" in found.reasons[0]
