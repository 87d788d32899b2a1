"""Tile programs of ops that become simpler ones first: of random ops, and of usual sizes."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
from op_programs import modules
from random_graphs import op_classes
from tile_lowering import compare, lowered

TARGETS = "910b2", "310p3"
OPS = {op.name.removeprefix("graph."): op for op in op_classes()}


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from(["tri", "one_hot", "pad", "hardmax", "dynamic_quantize", "arg_reduce"]),
    st.integers(0, 10**6),
)
def test_random_ops(target: str, name: str, seed: int) -> None:
    """Alone, or with an absolute value behind."""
    for _, module in modules(OPS[name], [seed]):
        found = lowered(module, target)
        assert all("engine host" in r or "no elements" in r for r in found.reasons), found.reasons
        if found.pairs:
            compare(found, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flag", ["true", "false"])
def test_triangles(target: str, flag: str) -> None:
    kind = "tensor<3x40x70xf16>"
    compare(
        f"""
func.func @main(%x: {kind}) -> {kind} {{
  %0 = graph.tri %x k 1 upper {flag} : ({kind}) -> {kind}
  func.return %0 : {kind}
}}""",
        target,
        exact=True,
        all_lowered=True,
        orders=2,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pads", ["3, 2, 1, 4", "0, -2, 3, 40", "-1, -1, -1, 1"])
def test_padding_with_a_number_that_is_an_input(target: str, pads: str) -> None:
    top, left, bottom, right = map(int, pads.split(", "))
    x, y = "tensor<2x5x30x33xf32>", f"tensor<2x5x{30 + top + bottom}x{33 + left + right}xf32>"
    compare(
        f"""
func.func @main(%x: {x}, %v: tensor<f32>) -> {y} {{
  %0 = graph.pad %x pads [{pads}] axes [2, 3] value %v : ({x}, tensor<f32>) -> {y}
  func.return %0 : {y}
}}""",
        target,
        exact=True,
        all_lowered=True,
        orders=1,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_with_elements(target: str, mode: str) -> None:
    x, y = "tensor<2x5x30x33xf32>", "tensor<2x5x34x39xf32>"
    compare(
        f"""
func.func @main(%x: {x}) -> {y} {{
  %0 = graph.pad %x pads [3, 2, 1, 4] axes [2, 3] mode {mode} : ({x}) -> {y}
  func.return %0 : {y}
}}""",
        target,
        exact=True,
        all_lowered=True,
        orders=2,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
def test_one_hot(target: str, axis: int) -> None:
    result = "tensor<300x50xf32>" if axis == 0 else "tensor<50x300xf32>"
    compare(
        f"""
func.func @main(%i: tensor<50xi64>) -> {result} {{
  %v = graph.constant dense<[-1.0, 2.0]> : tensor<2xf32>
  %0 = graph.one_hot %i, %v depth 300 axis {axis}
    : (tensor<50xi64>, tensor<2xf32>) -> {result}
  func.return %0 : {result}
}}""",
        target,
        exact=True,
        all_lowered=True,
    )


ONE = """
func.func @main({args}) -> {y} {{
  %c = graph.constant dense<{number}> : {c}
  %0 = graph.{call} -> {y}
  func.return %0 : {y}
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("args", "number", "c", "call", "y"),
    [
        ("%v: tensor<2xf32>", "1", "tensor<i64>",
         "one_hot %c, %v depth 2 : (tensor<i64>, tensor<2xf32>)", "tensor<2xf32>"),
        ("%x: tensor<4x1xf32>", "2", "tensor<1x1xi64>",
         "gather_elements %x, %c axis 0 : (tensor<4x1xf32>, tensor<1x1xi64>)", "tensor<1x1xf32>"),
        ("%x: tensor<4x5xf32>, %u: tensor<1x5xf32>", "2", "tensor<1x1xi64>",
         "scatter_nd %x, %c, %u : (tensor<4x5xf32>, tensor<1x1xi64>, tensor<1x5xf32>)",
         "tensor<4x5xf32>"),
        ("%x: tensor<4x1xf32>, %i: tensor<1x1xi64>", "2.0", "tensor<1x1xf32>",
         "scatter_elements %x, %i, %c axis 0 : (tensor<4x1xf32>, tensor<1x1xi64>, tensor<1x1xf32>)",
         "tensor<4x1xf32>"),
        ("%x: tensor<4x1xf16>", "2.0", "tensor<1x1xf16>",
         "matmul %x, %c : (tensor<4x1xf16>, tensor<1x1xf16>)", "tensor<4x1xf16>"),
    ],
)  # fmt: skip
def test_operands_that_are_constants_of_one_element(
    target: str, args: str, number: str, c: str, call: str, y: str
) -> None:
    """They are not in memory: wherever a program loads or reads one, it has the number."""
    text = ONE.format(args=args, number=number, c=c, call=call, y=y)
    compare(text, target, exact=True, all_lowered=True)
