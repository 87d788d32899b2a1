"""Tile programs of resized images, against the bodies of their kernels."""

import sys
from math import floor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ge.dialects.graph.support.window import coordinates
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.windows import resize as kernels

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_convolution import Shape, tensor
from tile_lowering import compare, lowered

LINES = ["half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "pytorch_half_pixel"]


NOISE = "its places are no line of fractions"


def is_beside_one(kind: str, count: int, size: int, scale: float) -> bool:
    """Whether rounding puts a place beside an element, or beside the middle of two."""
    places = 2 * coordinates(kind, np.arange(count, dtype=float), count, size, scale, (0.0, 1.0))
    off = np.abs(places - np.rint(places))
    return bool(((off > 0) & (off < 1e-9)).any())


def resize(x: Shape, out: Shape, target: str, flags: str, element: str = "f32") -> str:
    types = tensor(x, element), tensor(out, element)
    return (
        f"func.func @main(%x: {types[0]}) -> {types[1]} {{\n"
        f"  %0 = graph.resize %x {target} {flags} : ({types[0]}) -> {types[1]}\n"
        f"  func.return %0 : {types[1]}\n}}"
    )


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_numbers(data: st.DataObject) -> None:
    """Any axes, coordinates and way of rounding, by sizes or by scales."""
    shape = data.draw(st.lists(st.integers(1, 10), min_size=2, max_size=4))
    dims = st.integers(0, len(shape) - 1)
    axes = sorted(data.draw(st.sets(dims, min_size=1, max_size=2)))
    mode = data.draw(st.sampled_from(["linear", "nearest"]))
    element = data.draw(st.sampled_from(["f16", "f32", *(["i8", "i32"] * (mode == "nearest"))]))
    out = list(shape)
    scales: list[float] = []
    if data.draw(st.booleans()):
        sizes = [data.draw(st.integers(1, 20)) for _ in axes]
        target = f"sizes {sizes}"
        for axis, size in zip(axes, sizes, strict=True):
            out[axis] = size
    else:
        scales = [data.draw(st.sampled_from([0.5, 0.6, 1.5, 2.0, 2.5])) for _ in axes]
        target = f"scales [{', '.join(f'{s:.6e}' for s in scales)}]"
        for axis, scale in zip(axes, scales, strict=True):
            out[axis] = floor(shape[axis] * scale)
    assume(min(out) >= 1 and out != shape)
    kinds = [*LINES, *(["tf_half_pixel_for_nn"] * (mode == "nearest"))]
    rounding = data.draw(
        st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    )
    kind = data.draw(st.sampled_from(kinds))
    flags = (
        f"axes [{', '.join(map(str, axes))}] mode {mode} coordinates {kind} nearest_mode {rounding}"
    )
    text = resize(tuple(shape), tuple(out), target, flags, element)
    target_name = data.draw(st.sampled_from(["910b2", "310p3"]))
    result = lowered(text, target_name)
    if any(NOISE in reason for reason in result.reasons):
        given_scales = scales or [out[a] / shape[a] for a in axes]
        pairs = zip(axes, given_scales, strict=True)
        assert any(is_beside_one(kind, out[a], shape[a], scale) for a, scale in pairs)
    else:
        compare(result, all_lowered=True, exact=mode == "nearest")


def test_places_that_rounding_puts_beside_an_element_have_no_program() -> None:
    """The first place is 1.1e-16, of which the next element is element 1; others are exact."""
    flags = "axes [0, 1] mode nearest nearest_mode ceil coordinates half_pixel_symmetric"
    text = resize((2, 7), (1, 10), "scales [5.000000e-01, 1.500000e+00]", flags)
    (reason,) = lowered(text).reasons
    assert NOISE in reason
    assert is_beside_one("half_pixel_symmetric", 10, 7, 1.5)
    assert not is_beside_one("half_pixel", 14, 7, 2.0)


def test_blocks_of_columns() -> None:
    """A line that does not fit comes in parts, each with the columns around it."""
    flags = "axes [1, 2] mode linear coordinates align_corners"
    text = resize((2, 3, 30), (2, 4, 70), "sizes [4, 70]", flags)
    with patch.object(kernels, "cuts", lambda *_: [kernels.ResizeCut(3, 16)]):  # pyright: ignore
        compare(text, all_lowered=True)


def total_us(size: int, element: str = "f16") -> float:
    flags = "axes [2, 3] mode linear coordinates half_pixel"
    shape, out = (1, 64, size, size), (1, 64, 2 * size, 2 * size)
    text = resize(shape, out, f"sizes [{2 * size}, {2 * size}]", flags, element)
    ((_, program),) = (found := lowered(text)).pairs
    return TileKernel(program, found.target).time().total_us


def test_an_instruction_has_all_lines_or_columns_of_a_block() -> None:
    """Elements that are gathered, 5 a cycle, take the most; four times the pixels are four times
    the work, not more."""
    gathered = 2 * 64 * 256 * 256 / (5 * 48 * 1800)
    assert total_us(128) < 3 * gathered
    assert total_us(256) < 4.4 * total_us(128)


REASONS = {
    "cubic interpolation": "mode cubic",
    "antialias": "mode linear antialias true",
    "exclude_outside": "mode linear exclude_outside true",
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_has_no_program(reason: str) -> None:
    found = lowered(resize((4, 8), (4, 5), "sizes [4, 5]", REASONS[reason]))
    assert not found.pairs
    assert any(reason in r for r in found.reasons), found.reasons


def test_integers_are_not_resized_linearly() -> None:
    found = lowered(resize((4, 8), (4, 5), "sizes [4, 5]", "mode linear", "i8"))
    assert any("images of i8 are not resized by mode linear" in r for r in found.reasons)
