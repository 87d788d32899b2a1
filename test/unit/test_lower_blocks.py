"""Tile programs that move blocks of pixels, windows of images on their way to rows, and operands
of one element, against the bodies of their kernels."""

import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

TARGETS = ("910b2", "310p3")


def tensor(*shape: int, element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


@given(
    st.integers(1, 2), st.integers(1, 9), st.integers(1, 20), st.integers(1, 40),
    st.integers(1, 4), st.sampled_from(["dcr", "crd"]), st.sampled_from(["f32", "f16", "i8"]),
    st.sampled_from(TARGETS), st.booleans(),
)  # fmt: skip
@example(1, 1, 1, 2, 2, "dcr", "f32", "910b2", False)  # rows of two elements, on both sides
def test_blocks_of_pixels(
    n: int, c: int, h: int, w: int, b: int, mode: str, element: str, target: str, depth: bool
) -> None:
    """Between channels and blocks of pixels, both ways."""
    small = tensor(n, c * b * b, h, w, element=element)
    large = tensor(n, c, h * b, w * b, element=element)
    kind, x, y = ("depth_to_space", small, large) if depth else ("space_to_depth", large, small)
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %0 = graph.{kind} %x block {b} mode {mode} : ({x}) -> {y}
      func.return %0 : {y} }}"""
    compare(text, target, all_lowered=True, exact=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [48, 768, 60000])  # rows that fit several times, once, in parts
def test_rows_of_windows_and_a_norm_over_an_operand(width: int, target: str) -> None:
    """Windows become rows, are added to a residual, and normalized: either result may be over the
    residual, since both are of the same rows."""
    side, rows = {48: (7, 784), 768: (7, 196), 60000: (2, 16)}[width]
    across = int(rows**0.5) // side
    windows = tensor(across * across, side * side, width)
    split, moved = (across, across, side, side), (across, side, across, side)
    x, y, g = tensor(1, *split, width), tensor(1, rows, width), tensor(width)
    text = f"""func.func @main(%w: {windows}, %y: {y}, %g: {g}, %b: {g}) -> ({y}, {y}) {{
      %0 = graph.reshape %w shape [1, {", ".join(map(str, split))}, {width}] : ({windows}) -> {x}
      %1 = graph.transpose %0 permutation [0, 1, 3, 2, 4, 5] : ({x}) -> {tensor(1, *moved, width)}
      %2 = graph.reshape %1 shape [1, {rows}, {width}] : ({tensor(1, *moved, width)}) -> {y}
      %3 = graph.add %y, %2 : ({y}, {y}) -> {y}
      %4 = graph.layer_norm %3, %g, %b : ({y}, {g}, {g}) -> {y}
      func.return %3, %4 : {y}, {y} }}"""
    lowered = compare(text, target, all_lowered=True, tiles=True)
    assert lowered.pairs[-1][0].in_place_pairs()  # of the one that normalizes


@pytest.mark.parametrize(
    ("element", "target"),
    [
        ("f32", "910b2"),
        ("f16", "310p3"),
        pytest.param("f16", "910b2", marks=pytest.mark.soak),
        pytest.param("f32", "310p3", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(("ins", "kernel"), [(32, 3), (1, 1), (2, 7), (1, 3)])
def test_one_channel_has_numbers(ins: int, kernel: int, element: str, target: str) -> None:
    """A bias, or a weight, of one element is a number of the program, not in memory."""
    x, y = (tensor(2, n, 9, 17, element=element) for n in (ins, 1))
    w, b = tensor(1, ins, kernel, kernel, element=element), tensor(1, element=element)
    given, argument = ("%k", "") if ins == kernel == 1 else ("%w", f", %w: {w}")
    pad = kernel // 2
    text = f"""func.func @main(%x: {x}{argument}) -> {y} {{
      %k = graph.constant dense<-1.75> : {tensor(1, 1, 1, 1, element=element)}
      %b = graph.constant dense<0.625> : {b}
      %0 = graph.conv %x, {given} bias %b pads [{pad}, {pad}, {pad}, {pad}]
          : ({x}, {w}, {b}) -> {y}
      %1 = graph.sigmoid %0 : ({y}) -> {y}
      func.return %1 : {y} }}"""
    compare(text, target, all_lowered=True)
