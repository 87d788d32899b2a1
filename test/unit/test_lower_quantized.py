"""Tile programs of quantized layers, by hypothesis, on both kinds of cores."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

TARGETS = "910b2", "310p3"


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from([0, 3, 128, 255]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([(3, 16), (16, 32), (32, 24)]),
    st.integers(5, 20),
)
def test_unsigned_codes_of_convolutions(
    target: str, zero: int, pad: int, channels: tuple[int, int], size: int
) -> None:
    """Padding holds the zero point, whatever it is."""
    given, made = channels
    out = size + 2 * pad - 2
    x, w, y = f"1x{given}x{size}x{size}x", f"{made}x{given}x3x3x", f"1x{made}x{out}x{out}x"
    f, u = "tensor<f32>", "tensor<ui8>"
    compare(
        f"""
func.func @main(%x: tensor<{x}f32>, %w: tensor<{w}i8>) -> tensor<{y}ui8> {{
  %s = graph.constant dense<0.05> : {f}
  %z = graph.constant dense<{zero}> : {u}
  %v = graph.constant dense<3> : tensor<{w}i8>
  %t = graph.constant dense<0.25> : {f}
  %q = graph.quantize %x, %s, %z to ui8 : (tensor<{x}f32>, {f}, {u}) -> tensor<{x}ui8>
  %0 = graph.dequantize %q, %s, %z : (tensor<{x}ui8>, {f}, {u}) -> tensor<{x}f32>
  %1 = graph.dequantize %v, %t : (tensor<{w}i8>, {f}) -> tensor<{w}f32>
  %2 = graph.conv %0, %1 pads [{pad}, {pad}, {pad}, {pad}]
    : (tensor<{x}f32>, tensor<{w}f32>) -> tensor<{y}f32>
  %3 = graph.quantize %2, %t, %z to ui8 : (tensor<{y}f32>, {f}, {u}) -> tensor<{y}ui8>
  func.return %3 : tensor<{y}ui8>
}}""",
        target,
        exact=True,
        all_lowered=True,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_unsigned_codes_of_rows_whose_scales_are_computed(target: str) -> None:
    x, f = "tensor<40x64x", "tensor<40x1xf32>"
    compare(
        f"""
func.func @main(%q: {x}ui8>, %r: {f}) -> tensor<40x48xf32> {{
  %w = graph.constant dense<2> : tensor<64x48xi8>
  %sw = graph.constant dense<0.5> : tensor<f32>
  %rows = graph.sigmoid %r : ({f}) -> {f}
  %0 = graph.dequantize %q, %rows {{axis = 1 : i64, block_size = 64 : i64}}
    : ({x}ui8>, {f}) -> {x}f32>
  %1 = graph.dequantize %w, %sw : (tensor<64x48xi8>, tensor<f32>) -> tensor<64x48xf32>
  %2 = graph.matmul %0, %1 : ({x}f32>, tensor<64x48xf32>) -> tensor<40x48xf32>
  func.return %2 : tensor<40x48xf32>
}}""",
        target,
        all_lowered=True,
    )
