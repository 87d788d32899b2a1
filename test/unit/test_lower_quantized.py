"""Tile programs of quantized layers, by hypothesis, on both kinds of cores."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

from ge.dialects.graph.elementwise import DivOp
from ge.dialects.tile.transfers import PushOp
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.device.random_inputs import random_array

TARGETS = "910b2", "310p3"


@settings(max_examples=settings().max_examples // 2, deadline=None)
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
  %0 = graph.dequantize %q, %rows axis 1 block_size 64
    : ({x}ui8>, {f}) -> {x}f32>
  %1 = graph.dequantize %w, %sw : (tensor<64x48xi8>, tensor<f32>) -> tensor<64x48xf32>
  %2 = graph.matmul %0, %1 : ({x}f32>, tensor<64x48xf32>) -> tensor<40x48xf32>
  func.return %2 : tensor<40x48xf32>
}}""",
        target,
        all_lowered=True,
    )


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from([("i16", 0), ("i16", -32768), ("i16", 300), ("ui16", 0), ("ui16", 40000)]),
    st.integers(1, 40),
    st.sampled_from([16, 40]),
)
def test_codes_of_16_bits(target: str, grid: tuple[str, int], rows: int, depth: int) -> None:
    (kind, zero), x = grid, f"tensor<{rows}x{depth}x"
    compare(
        f"""
func.func @main(%q: {x}{kind}>) -> tensor<{rows}x48xf32> {{
  %z = graph.constant dense<{zero}> : tensor<{kind}>
  %s = graph.constant dense<0.001> : tensor<f32>
  %w = graph.constant dense<3> : tensor<{depth}x48xi8>
  %0 = graph.dequantize %q, %s, %z : ({x}{kind}>, tensor<f32>, tensor<{kind}>) -> {x}f32>
  %1 = graph.dequantize %w, %s : (tensor<{depth}x48xi8>, tensor<f32>) -> tensor<{depth}x48xf32>
  %2 = graph.matmul %0, %1 : ({x}f32>, tensor<{depth}x48xf32>) -> tensor<{rows}x48xf32>
  func.return %2 : tensor<{rows}x48xf32>
}}""",
        target,
        all_lowered=True,
    )


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from(["i8", "ui8"]),
    st.sampled_from(["i8", "ui8", "f32", "f16"]),
    st.lists(st.integers(9, 70), min_size=2, max_size=3),  # fewer elements are for the host
)
def test_tables(target: str, codes: str, made: str, shape: list[int]) -> None:
    x = "tensor<" + "".join(f"{d}x" for d in shape)
    compare(
        f"""
func.func @main(%x: {x}{codes}>, %t: tensor<256x{made}>) -> {x}{made}> {{
  %0 = graph.lookup %x, %t : ({x}{codes}>, tensor<256x{made}>) -> {x}{made}>
  %1 = graph.abs %0 : ({x}{made}>) -> {x}{made}>
  func.return %1 : {x}{made}>
}}""",
        target,
        exact=True,
        all_lowered=True,
        orders=2,
    )


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from([(2, 40, 64, 64), (3, 5, 64, 16), (1, 33, 128, 32), (4, 1, 48, 48)]),
    st.booleans(),
)
def test_blocks_along_rows(target: str, sizes: tuple[int, int, int, int], up: bool) -> None:
    """Each row has scales of its own, of all of it or of blocks."""
    batch, rows, cols, block = sizes
    x, scale = f"tensor<{batch}x{rows}x{cols}x", f"tensor<{batch}x{rows}x{cols // block}xf32>"
    name, given, made = ("dequantize", "i8", "f32") if up else ("quantize", "f32", "i8")
    to = "" if up else " to i8"
    compare(
        f"""
func.func @main(%x: {x}{given}>, %r: {scale}) -> {x}{made}> {{
  %s = graph.sigmoid %r : ({scale}) -> {scale}
  %0 = graph.{name} %x, %s{to} axis 2 block_size {block}
    : ({x}{given}>, {scale}) -> {x}{made}>
  func.return %0 : {x}{made}>
}}""",
        target,
        exact=True,
        all_lowered=True,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pair", [("ui8", "i8"), ("ui8", "ui8"), ("i8", "ui8")])
def test_products_of_unsigned_integers(target: str, pair: tuple[str, str]) -> None:
    """As exporters of dynamic quantization write them."""
    x, w, y = f"tensor<40x64x{pair[0]}>", f"tensor<64x48x{pair[1]}>", "tensor<40x48xi32>"
    compare(
        f"""
func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %0 = graph.matmul %x, %w : ({x}, {w}) -> {y}
  func.return %0 : {y}
}}""",
        target,
        exact=True,
        all_lowered=True,
        tiles=True,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions_of_unsigned_integers(target: str) -> None:
    x, w, y = "tensor<1x16x9x9xui8>", "tensor<24x16x3x3xi8>", "tensor<1x24x9x9xi32>"
    compare(
        f"""
func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %0 = graph.conv %x, %w pad_value 3 pads [1, 1, 1, 1] : ({x}, {w}) -> {y}
  func.return %0 : {y}
}}""",
        target,
        exact=True,
        all_lowered=True,
        tiles=True,
    )


def large(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Numbers of which many are beyond what floats of 8 bits hold."""
    return (random_array(rng, element, shape).astype(np.float32) * 1e4).astype(dtype_of(element))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("up", [True, False])
def test_floats_of_8_bits(target: str, kind: str, up: bool) -> None:
    given, made = (kind, "f32") if up else ("f32", kind)
    name, to = ("dequantize", "") if up else ("quantize", f" to {kind}")
    compare(
        f"""
func.func @main(%x: tensor<9x70x{given}>, %r: tensor<9xf32>) -> tensor<9x70x{made}> {{
  %s = graph.sigmoid %r : (tensor<9xf32>) -> tensor<9xf32>
  %0 = graph.{name} %x, %s{to} axis 0
    : (tensor<9x70x{given}>, tensor<9xf32>) -> tensor<9x70x{made}>
  func.return %0 : tensor<9x70x{made}>
}}""",
        target,
        exact=True,
        all_lowered=True,
        make=random_array if up else large,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kind", "to"), [("ui8", "i8"), ("i16", "ui8"), ("i8", "i8")])
@pytest.mark.parametrize("is_known", [True, False])
def test_codes_become_those_of_another_zero_point(
    target: str, kind: str, to: str, is_known: bool
) -> None:
    """Differences of codes of 16 bits are exact in f32."""
    x, y, offset = f"tensor<8x40x{kind}>", f"tensor<8x40x{to}>", f"tensor<{kind}>"
    given = "" if is_known else f", %o: {offset}"
    constant = f"%o = graph.constant dense<9> : {offset}" if is_known else ""
    compare(
        f"""
func.func @main(%x: {x}, %s: tensor<40xf32>, %z: tensor<{to}>{given}) -> {y} {{
  {constant}
  %0 = graph.requantize %x, %s offset %o zero_point %z
    to {to} rounding float32 axis 1 : ({x}, tensor<40xf32>, {offset}, tensor<{to}>) -> {y}
  func.return %0 : {y}
}}""",
        target,
        exact=True,
        all_lowered=True,
    )


def test_scales_of_an_axis_of_one_element() -> None:
    x, y = "tensor<1x1xf32>", "tensor<1x1xui8>"
    compare(
        f"""
func.func @main(%x: {x}, %z: tensor<1xui8>) -> {y} {{
  %s = graph.constant dense<1.91> : tensor<1xf32>
  %0 = graph.quantize %x, %s, %z to ui8 axis 1
    : ({x}, tensor<1xf32>, tensor<1xui8>) -> {y}
  func.return %0 : {y}
}}""",
        exact=True,
        all_lowered=True,
    )


WAYS = {
    "f16": "graph.dequantize %s, %t to f16 axis {axis} : ({y}i32>, {t}) -> {y}f16>",
    "i8": "graph.requantize %s, %t zero_point %z to i8 axis {axis} rounding float32"
    " : ({y}i32>, {t}, tensor<i8>) -> {y}i8>",
    "relu": "graph.requantize %s, %t to i8 axis {axis} rounding float32 low 0"
    " : ({y}i32>, {t}) -> {y}i8>",
}


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.sampled_from(sorted(WAYS)),
    st.sampled_from([(), (2,), (3,)]),
    st.integers(1, 200),
    st.sampled_from([16, 96, 300, 700]),
    st.sampled_from([32, 70, 640]),
    st.booleans(),
)
def test_sums_leave_the_cube_by_scales(
    way: str, batch: tuple[int, ...], rows: int, columns: int, depth: int, has_bias: bool
) -> None:
    """No bit differs from what vector cores make of them."""
    lead = "".join(f"{d}x" for d in (*batch, rows))
    x, w, y = f"tensor<{lead}{depth}x", f"tensor<{depth}x{columns}x", f"tensor<{lead}{columns}x"
    t, b = f"tensor<{columns}xf32>", f"tensor<{columns}xi32>"
    line = f"%s = graph.add %0, %b : ({y}i32>, {b}) -> {y}i32>" if has_bias else ""
    last = WAYS[way].format(axis=len(batch) + 1, y=y, t=t)
    last = last if has_bias else last.replace("%s,", "%0,")
    out = f"{y}{'f16' if way == 'f16' else 'i8'}>"
    compare(
        f"""
func.func @main(%x: {x}i8>, %w: {w}i8>, %b: {b}, %v: {t}) -> {out} {{
  %z = graph.constant dense<-5> : tensor<i8>
  %c = graph.constant dense<0.002> : tensor<f32>
  %t = graph.mul %v, %c : ({t}, tensor<f32>) -> {t}
  %0 = graph.matmul %x, %w : ({x}i8>, {w}i8>) -> {y}i32>
  {line}
  %1 = {last}
  func.return %1 : {out}
}}""",
        "910b2",
        exact=True,
        all_lowered=True,
    )


@pytest.mark.parametrize("scale", ["dense<0.004>", "dense<[0.004, 0.03, 0.0, -0.02]>"])
def test_tables_of_sums_that_are_constants(scale: str) -> None:
    """One number of all columns, and a short row that is part of the kernel."""
    t, axis = "tensor<f32>", ""
    if "[" in scale:
        t, axis = "tensor<16xf32>", " axis 1"
        scale = scale.replace("]", ", 0.01" * 12 + "]")
    compare(
        f"""
func.func @main(%x: tensor<70x64xi8>, %w: tensor<64x16xi8>) -> tensor<70x16xi8> {{
  %t = graph.constant {scale} : {t}
  %b = graph.constant dense<[{", ".join(str(100 * i - 700) for i in range(16))}]> : tensor<16xi32>
  %0 = graph.matmul %x, %w : (tensor<70x64xi8>, tensor<64x16xi8>) -> tensor<70x16xi32>
  %1 = graph.add %0, %b : (tensor<70x16xi32>, tensor<16xi32>) -> tensor<70x16xi32>
  %2 = graph.requantize %1, %t to i8{axis} rounding float32
    : (tensor<70x16xi32>, {t}) -> tensor<70x16xi8>
  func.return %2 : tensor<70x16xi8>
}}""",
        "910b2",
        exact=True,
        all_lowered=True,
    )


BEHIND = {
    "codes of an activation": (
        "%3 = graph.gelu %2 : ({y}f16>) -> {y}f16>",
        "%4 = graph.cast %3 to f32 : ({y}f16>) -> {y}f32>",
        "%5 = graph.quantize %4, %x4, %x5 to i8 : ({y}f32>, tensor<f32>, tensor<i8>) -> {y}i8>",
    ),
    "one that is added to": (
        "%3 = graph.silu %2 : ({y}f16>) -> {y}f16>",
        "%5 = graph.mul %2, %3 : ({y}f16>, {y}f16>) -> {y}f16>",
    ),
    "sums that are taken too": (
        "%3 = graph.cast %1 to f16 : ({y}i32>) -> {y}f16>",
        "%5 = graph.mul %2, %3 : ({y}f16>, {y}f16>) -> {y}f16>",
    ),
}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("sizes", [(300, 64, 96), (16, 70, 640), (37, 160, 100), (1, 32, 32)])
def test_sums_pass_to_vector_cores_by_scales(behind: str, sizes: tuple[int, int, int]) -> None:
    """Vector cores take f16, unless they need the sums themselves; no bit differs."""
    rows, depth, columns = sizes
    y, lines = f"tensor<{rows}x{columns}x", BEHIND[behind]
    made = lines[-1].rpartition(" -> ")[-1].format(y=y)
    types = (
        *(f"tensor<{rows}x{depth}xi8>", f"tensor<{depth}x{columns}xi8>"),
        *(f"tensor<{columns}xi32>", f"tensor<{columns}xf32>", "tensor<f32>", "tensor<i8>"),
    )
    body = (
        f"%0 = graph.matmul %x0, %x1 : ({types[0]}, {types[1]}) -> {y}i32>",
        f"%1 = graph.add %0, %x2 : ({y}i32>, {types[2]}) -> {y}i32>",
        f"%2 = graph.dequantize %1, %x3 to f16 axis 1 : ({y}i32>, {types[3]}) -> {y}f16>",
        *(line.format(y=y) for line in lines),
    )
    found = compare(
        f"""
func.func @main({", ".join(f"%a{i}: {t}" for i, t in enumerate(types[:3]))}) -> {made} {{
  %a3 = graph.constant dense<0.001> : {types[3]}
  %a4 = graph.constant dense<0.03> : tensor<f32>
  %a5 = graph.constant dense<-100> : tensor<i8>
  %r = fused_op.linear({", ".join(f"%a{i}" for i in range(6))}) : ({", ".join(types)}) -> {made} {{
  ^bb0({", ".join(f"%x{i}: {t}" for i, t in enumerate(types))}):
    {chr(10).join(body)}
    fused_op.yield %5 : {made}
  }}
  func.return %r : {made}
}}""",
        "910b2",
        exact=True,
        all_lowered=True,
        orders=2,
    )
    ((_, tiles),) = found.pairs
    by_scales = [op.scale is not None for op in tiles.walk() if isinstance(op, PushOp)]
    assert by_scales
    assert set(by_scales) == {behind != "sums that are taken too"}


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.sampled_from([("f16",), ("i8",), ("relu",), ("f16", "i8"), ("i32", "i8"), ("i32",)]),
    st.sampled_from([(16, 48), (40, 20), (3, 300)]),
    st.sampled_from([(1, 1), (1, 2), (3, 1), (3, 2)]),
    st.integers(5, 20),
    st.booleans(),
    st.booleans(),
)
def test_sums_of_convolutions_leave_the_cube_by_scales(
    ways: tuple[str, ...],
    channels: tuple[int, int],
    window: tuple[int, int],
    size: int,
    has_bias: bool,
    is_last: bool,
) -> None:
    """Where channels of results are last, of one image or two; no bit differs."""
    (ins, outs), (kernel, stride), pad = channels, window, window[0] // 2
    made, images = (size + 2 * pad - kernel) // stride + 1, 1 + size % 2
    image = f"{size}x{size}x{ins}" if is_last else f"{ins}x{size}x{size}"
    x, w = f"tensor<{images}x{image}xi8>", f"tensor<{outs}x{ins}x{kernel}x{kernel}xi8>"
    y, last = (f"tensor<{images}x{n}x" for n in (f"{outs}x{made}x{made}", f"{made}x{made}x{outs}"))
    t, b = f"tensor<{outs}xf32>", f"tensor<{outs}xi32>"
    lines, types = list[str](), list[str]()
    for i, way in enumerate(ways):
        element = "i8" if way == "relu" else way
        shown = "%s" if way == "i32" else f"%w{i}"
        if way != "i32":
            lines.append(f"{shown} = {WAYS[way].format(axis=1, y=y, t=t)}")
        types.append(f"{last}{element}>")
        turn = f"graph.transpose {shown} permutation [0, 2, 3, 1]"
        lines.append(f"%y{i} = {turn} : ({y}{element}>) -> {types[-1]}")
    bias = (" bias %b", f", {b}") if has_bias else ("", "")
    flags = f"input_channels_last {str(is_last).lower()} pad_value -7"
    flags += f" strides {[stride] * 2} pads {[pad] * 4}"
    found = compare(
        f"""
func.func @main(%x: {x}, %w: {w}, %b: {b}, %v: {t}) -> ({", ".join(types)}) {{
  %z = graph.constant dense<-5> : tensor<i8>
  %c = graph.constant dense<0.002> : tensor<f32>
  %t = graph.mul %v, %c : ({t}, tensor<f32>) -> {t}
  %s = graph.conv %x, %w{bias[0]} {flags} : ({x}, {w}{bias[1]}) -> {y}i32>
  {chr(10).join(lines)}
  func.return {", ".join(f"%y{i}" for i in range(len(ways)))} : {", ".join(types)}
}}""",
        "910b2",
        exact=True,
        all_lowered=True,
        fusion_disable=("keep-channels-last", "move-transposes"),
    )
    ((_, program),) = [pair for pair in found.pairs if "conv" in pair[0].sym_name.data]
    assert not is_last or not any(op.name == "tile.vector" for op in program.walk())


def all_halves(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """All floats of 16 bits, infinities and nan among them, in some order."""
    return rng.permutation(1 << 16).astype(np.uint16).view(dtype_of(element)).reshape(shape)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("scale", ["0.0261830762", "0.5", "3.0e-5", "1.0e-39"])
@pytest.mark.parametrize(("to", "zero"), [("i8", -122), ("i8", 0), ("ui8", 7), ("i16", 7)])
def test_codes_of_all_floats_of_16_bits(element: str, scale: str, zero: int, to: str) -> None:
    """No code differs, divided or not."""
    x = "tensor<64x1024x"
    found = compare(
        f"""
func.func @main(%x: {x}{element}>) -> {x}{to}> {{
  %s = graph.constant dense<{scale}> : tensor<f32>
  %z = graph.constant dense<{zero}> : tensor<{to}>
  %0 = graph.cast %x to f32 : ({x}{element}>) -> {x}f32>
  %1 = graph.quantize %0, %s, %z to {to} : ({x}f32>, tensor<f32>, tensor<{to}>) -> {x}{to}>
  func.return %1 : {x}{to}>
}}""",
        "910b2",
        exact=True,
        all_lowered=True,
        make=all_halves,
    )
    ((_, tiles),) = found.pairs
    divides = any(isinstance(op, DivOp) for op in tiles.walk())
    assert divides or scale != "1.0e-39"  # whose inverse is infinite
    assert not divides or scale != "0.0261830762" or to == "i16"
