"""Tile programs of depthwise convolutions and pools, against the bodies of their kernels."""

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_convolution import Shape, conv, tensor
from tile_lowering import compare, lowered

from ge.dialects.targets.target import Target
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.windows import pooling
from ge.runtime.library.windows.pooling import Pool, Turned

FLOATS = ["f16", "f32", "bf16"]


def pool(kind: str, x: Shape, out: Shape, flags: str, element: str = "f32") -> str:
    types = tensor(x, element), tensor(out, element)
    return (
        f"func.func @main(%x: {types[0]}) -> {types[1]} {{\n"
        f"  %0 = graph.pool {kind} %x {flags} : ({types[0]}) -> {types[1]}\n"
        f"  func.return %0 : {types[1]}\n}}"
    )


@settings(max_examples=settings().max_examples // 5)
@given(st.data())
def test_numbers(data: st.DataObject) -> None:
    """Any kernel, stride, dilation and pads, with ragged ends."""
    rank = data.draw(st.sampled_from([2, 2, 3]))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, strides, dilations = numbers(1, 4 if rank == 2 else 3), numbers(1, 3), numbers(1, 2)
    image = numbers(5, 40 if rank == 2 else 8)
    channels, batch = (
        data.draw(st.integers(2, 40 if rank == 2 else 9)),
        data.draw(st.integers(1, 2)),
    )
    kind = data.draw(st.sampled_from(["conv", "max", "average"]))
    begin, end = (numbers(0, 1), numbers(0, 1)) if kind != "average" else ([0] * rank, [0] * rank)
    both = zip(image, begin, end, kernel, dilations, strides, strict=True)
    result = tuple((d + a + b - (k - 1) * n - 1) // s + 1 for d, a, b, k, n, s in both)
    assume(min(result) >= 1)
    assume(all(p < k for p, k in zip((*begin, *end), (*kernel, *kernel), strict=True)))
    window = f"strides {strides} pads {begin + end} dilations {dilations}"
    x, out = (batch, channels, *image), (batch, channels, *result)
    element = data.draw(st.sampled_from(["f16", "f32"]))
    if kind == "conv":
        flags = f"{window} group {channels}"
        text = conv(x, (channels, 1, *kernel), out, flags, element, data.draw(st.booleans()))
    else:
        text = pool(kind, x, out, f"kernel {kernel} {window}", element)
    target = data.draw(st.sampled_from(["910b2", "310p3"]))
    compare(text, target, all_lowered=True, exact=kind == "max")


def test_ops_on_the_result() -> None:
    after = "%2 = graph.add %0, %r : (T, T) -> T\n%1 = graph.mul %2, %s : (T, S) -> T"
    flags = "pads [1, 1, 1, 1] group 20"
    text = conv((1, 20, 5, 9), (20, 1, 3, 3), (1, 20, 5, 9), flags, after=after)
    compare(text, all_lowered=True, orders=1)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("max", "910b2"),
        ("average", "310p3"),
        pytest.param("max", "310p3", marks=pytest.mark.soak),
        pytest.param("average", "910b2", marks=pytest.mark.soak),
    ],
)
def test_pools_of_three_dimensions(kind: str, target: str) -> None:
    """Lines of each plane of the kernel come for themselves."""
    flags = "kernel [3, 2, 2] strides [1, 2, 2]"
    text = pool(kind, (2, 9, 4, 6, 12), (2, 9, 2, 3, 6), flags, "f16")
    compare(text, target, all_lowered=True, exact=kind == "max", orders=1)


def test_the_largest_of_integers() -> None:
    text = pool("max", (1, 40, 14, 30), (1, 40, 14, 30), "kernel [3, 3] pads [1, 1, 1, 1]", "i8")
    compare(text, all_lowered=True, exact=True)


@settings(max_examples=settings().max_examples // 5)
@given(st.data())
def test_elements_of_windows_that_pass_the_image(data: st.DataObject) -> None:
    """An average is over those that count; the last window may hang over the end."""
    rank = data.draw(st.sampled_from([1, 2, 2, 3]))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, strides, dilations = numbers(1, 4), numbers(1, 3), numbers(1, 2)
    image = numbers(4, 20 if rank < 3 else 6)
    begin, end = ([n % k for n, k in zip(numbers(0, 3), kernel, strict=True)] for _ in "be")
    kind, hangs = data.draw(st.sampled_from(["average", "average", "lp"])), data.draw(st.booleans())
    both = zip(image, begin, end, kernel, dilations, strict=True)
    room = [d + a + b - (k - 1) * n - 1 for d, a, b, k, n in both]
    assume(min(room) >= 0)
    result = [n // step + 1 for n, step in zip(room, strides, strict=True)]
    if hangs:
        ends = zip(room, strides, image, begin, strict=True)
        result = [min(-(-n // step), (d + a - 1) // step) + 1 for n, step, d, a in ends]
    known = (
        f"p {data.draw(st.integers(1, 3))}"
        if kind == "lp"
        else f"count_include_pad {str(data.draw(st.booleans())).lower()}"
    )
    flags = (
        f"kernel {kernel} strides {strides} pads {begin + end} dilations {dilations} "
        f"{known} ceil_mode {str(hangs).lower()}"
    )
    element = data.draw(st.sampled_from(["f16", "f32"]))
    text = pool(kind, (2, 7, *image), (2, 7, *result), flags, element)
    compare(text, data.draw(st.sampled_from(["910b2", "310p3"])), all_lowered=True)


@settings(max_examples=settings().max_examples // 5)
@given(st.data())
def test_images_are_turned(data: st.DataObject) -> None:
    """Whole or some lines; what windows have from the other side of an image does not count."""

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=2, max_size=2))

    kernel, strides, dilations, image = numbers(1, 4), numbers(1, 3), numbers(1, 2), numbers(4, 18)
    begin, end = ([n % k for n, k in zip(numbers(0, 3), kernel, strict=True)] for _ in "be")
    both = zip(image, begin, end, kernel, dilations, strict=True)
    room = [d + a + b - (k - 1) * n - 1 for d, a, b, k, n in both]
    assume(min(room) >= 0)
    result = [n // step + 1 for n, step in zip(room, strides, strict=True)]
    kind, counts = data.draw(st.sampled_from(["max", "average", "lp"])), data.draw(st.booleans())
    flags = (
        f"kernel {kernel} strides {strides} pads {begin + end} dilations {dilations} "
        f"count_include_pad {str(counts).lower()}"
    )
    text = pool(kind, (2, 21, *image), (2, 21, *result), flags, data.draw(st.sampled_from(FLOATS)))
    lines = data.draw(st.integers(1, result[0]))

    def fastest(p: Pool, target: Target) -> Turned | None:
        block = Turned(p, 16, lines)
        return block if block.applies() and block.bytes() <= target.ub_bytes else None

    target = data.draw(st.sampled_from(["910b2", "310p3"]))
    with (
        patch.object(pooling, "fastest_turned", fastest),
        patch.object(Turned, "cycles", lambda *_: 0.0),  # pyright: ignore
    ):
        compare(text, target, all_lowered=True, exact=kind == "max", orders=1)


def test_short_lines_are_turned() -> None:
    """Loads of images of 8 x 8 are some long pieces, not a piece for each line."""
    text = same("average", 3, (2048, 8, 8))
    piece = 8.5
    assert busy(text, "mte2", "310p3") < 2048 / 8 * piece * 2
    assert busy(text, "v", "310p3") < 2048 / 8 * 8 * 3 * piece


@pytest.mark.parametrize("image", [(9,), (4, 5), (4, 4, 4)])
def test_windows_that_are_elements(image: tuple[int, ...]) -> None:
    shape, ones = (2, 7, *image), [1] * len(image)
    compare(pool("average", shape, shape, f"kernel {ones} strides {ones}"), all_lowered=True)


def busy(text: str, pipe: str, target: str = "910b2") -> float:
    """Cycles of a pipe of the busiest core."""
    found = lowered(text, target)
    ((_, program),) = found.pairs
    pipes = {p.pipe: p.busy_us for p in TileKernel(program, found.target).time().pipes}
    return pipes[f"vector {pipe}"] * found.target.cycles_per_us


def same(kind: str, size: int, image: tuple[int, int, int], strides: str = "[1, 1]") -> str:
    flags = f"kernel [{size}, {size}] strides {strides} pads {[size // 2] * 4}"
    step = int(strides[1])
    out = image[0], *((n + 2 * (size // 2) - size) // step + 1 for n in image[1:])
    return pool(kind, (1, *image), (1, *out), flags, "f16")


@pytest.mark.parametrize("kind", ["max", "average"])
def test_lines_of_a_kernel_share_what_its_columns_give(kind: str) -> None:
    """A kernel of n x n combines 2 (n - 1) tiles, not n n; twice the channels are twice the work;
    what hangs over the image costs nothing."""
    image = (960, 24, 32)
    three, seven = (busy(same(kind, n, image), "v") for n in (3, 7))
    assert 1.5 * three < seven < 3.2 * three
    assert busy(same(kind, 3, (1920, 24, 32)), "v") < 2.2 * three
    assert busy(same(kind, 1279, (96, 7, 7)), "v") < 1.2 * busy(same(kind, 13, (96, 7, 7)), "v")


def test_columns_are_taken_once_for_each_column_of_the_kernel() -> None:
    three, five = (busy(same("max", n, (960, 32, 64), "[2, 2]"), "v") for n in (3, 5))
    assert five < 5 / 3 * 1.15 * three


def test_what_has_no_program() -> None:
    found = lowered(pool("max", (1, 2, *[3] * 4), (1, 2, *[2] * 4), "kernel [2, 2, 2, 2]"))
    assert not found.pairs
    assert any("4 spatial dimensions" in r for r in found.reasons), found.reasons


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_columns_with_a_stride_come_together(target: str) -> None:
    """Each element that does not lie beside the one before is a piece of its own: lines come whole
    (301 us, not 5,889, for 8 such images of 144 channels on 310p3)."""
    x, w, y = "tensor<1x144x56x56xf32>", "tensor<144x1x3x3xf32>", "tensor<1x144x28x28xf32>"
    text = f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %0 = graph.conv %x, %w group 144 strides [2, 2] pads [1, 1, 1, 1]
          : ({x}, {w}) -> {y}
      func.return %0 : {y} }}"""
    ((_, program),) = lowered(text, target).pairs
    assert any(op.name == "tile.move" for op in program.walk())
