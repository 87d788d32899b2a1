"""Tile programs of kernels for the vector cores, run both ways and proved."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

from ge.dialects.graph.elementwise import AddOp, SubOp
from ge.dialects.tile.buffers import AllocOp
from ge.runtime.check.tile_device import Use
from ge.runtime.check.tiles import check_kernel
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

DIMS = st.sampled_from((1, 2, 3, 7, 16, 33, 70))


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


@given(st.data(), st.sampled_from(("f32", "f16", "bf16", "i8")))
@settings(max_examples=settings().max_examples // 8)
def test_broadcasts(data: st.DataObject, element: str):
    shape = (*data.draw(st.lists(DIMS, max_size=2)), 66, *data.draw(st.lists(DIMS, max_size=1)))
    rank = data.draw(st.integers(0, len(shape)))
    part = tuple(data.draw(st.sampled_from((1, d))) for d in shape[len(shape) - rank :])
    whole, small, bits = (tensor(shape, element), tensor(part, element), tensor(shape, "i1"))
    compare(
        f"""
func.func @main(%x: {whole}, %y: {small}) -> ({whole}, {whole}) {{
  %0 = graph.add %x, %y : ({whole}, {small}) -> {whole}
  %1 = graph.compare lt %x, %0 : ({whole}, {whole}) -> {bits}
  %2 = graph.select %1, %y, %x : ({bits}, {small}, {whole}) -> {whole}
  func.return %0, %2 : {whole}, {whole}
}}""",
        all_lowered=True,
        exact=True,
        orders=1,
    )


def test_sums_that_a_norm_is_of_are_computed_once():
    """They are in a tile for the mean already; boxes have nine rows, as eleven do not fit."""
    x, w = "tensor<2048x1024xf16>", "tensor<1024xf32>"
    found = lowered(
        f"""
func.func @main(%x: {x}, %y: {x}, %w: {w}, %b: {w}) -> {x} {{
  %r = fused_op.norm(%x, %y, %w, %b) : ({x}, {x}, {w}, {w}) -> {x} {{
  ^bb0(%0: {x}, %1: {x}, %2: {w}, %3: {w}):
    %4 = graph.add %0, %1 : ({x}, {x}) -> {x}
    %5 = graph.layer_norm %4, %2, %3 axis 1 : ({x}, {w}, {w}) -> {x}
    fused_op.yield %5 : {x}
  }}
  func.return %r : {x}
}}"""
    )
    ((_, tiles),) = found.pairs
    types = [str(op.result.type) for op in tiles.walk() if isinstance(op, AddOp)]
    assert [t for t in types if "f16" in t] == ["tensor<9x1024xf16>"]


def test_rows_less_their_means_are_computed_once_where_the_rows_were():
    """A mean meets each row by an instruction: what is left stays in a tile, and squares lie over
    the rows that are needed no more."""
    x = "tensor<2048x768xf32>"
    found = compare(
        f"""
func.func @main(%x: {x}, %w: tensor<768xf32>) -> {x} {{
  %0 = graph.layer_norm %x, %w, %w axis 1 : ({x}, tensor<768xf32>, tensor<768xf32>) -> {x}
  func.return %0 : {x}
}}""",
        all_lowered=True,
        orders=1,
    )
    ((_, tiles),) = found.pairs
    assert sum(isinstance(op, SubOp) for op in tiles.walk()) == 1
    allocs = [op for op in tiles.walk() if isinstance(op, AllocOp)]
    assert sum(op.copies == 1 and op.tile.rows.data > 1 < op.tile.cols.data for op in allocs) == 2


def test_costly_values_of_several_users_are_computed_once():
    x = "tensor<40x100xf32>"
    lowered = compare(
        f"""
func.func @main(%x: {x}) -> ({x}, {x}) {{
  %0 = graph.tanh %x : ({x}) -> {x}
  %1 = graph.add %0, %x : ({x}, {x}) -> {x}
  %2 = graph.mul %0, %x : ({x}, {x}) -> {x}
  func.return %1, %2 : {x}, {x}
}}""",
        exact=True,
    )
    assert str(lowered.pairs[0][1]).count("graph.tanh") == 1


def run(operands: list[str], result: str, text: str):
    """An op on %0, %1, ..."""
    names = ", ".join(f"%{i}: {t}" for i, t in enumerate(operands))
    used = ", ".join(operands[int(i)] for i in re.findall(r"%(\d)", text))
    types = f"({used})"
    compare(
        f"func.func @main({names}) -> {result} {{\n"
        f"  %r = {text} : {types} -> {result}\n  func.return %r : {result}\n}}",
        all_lowered=True,
        orders=1,
    )


@pytest.mark.parametrize(
    ("shape", "element", "text"),
    [
        ((7, 33), "f16", "graph.softmax %0"),
        ((33, 40), "f32", "graph.softmax %0 axis 0"),
        ((3, 20, 7, 5), "bf16", "graph.softmax %0 axis 1"),
        ((2, 5, 4, 3), "f32", "graph.log_softmax %0 axis 1 flatten true"),
        ((2, 30001), "f16", "graph.softmax %0"),  # in parts
        ((50, 11000), "f32", "graph.softmax %0"),  # one row at a time
    ],
)
def test_softmax(shape: tuple[int, ...], element: str, text: str):
    x = tensor(shape, element)
    run([x], x, text)


@given(st.data(), st.sampled_from(("sum", "mean", "max", "min", "l1", "l2", "log_sum_exp")))
@settings(max_examples=settings().max_examples // 8)
def test_reductions_along_any_axes(data: st.DataObject, kind: str):
    shape = tuple(data.draw(st.lists(st.sampled_from((2, 3, 9, 40)), min_size=2, max_size=4)))
    axes = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    rest = tuple(d for i, d in enumerate(shape) if i not in axes)
    text = f"graph.reduce {kind} %0 axes {axes} keep_dims false"
    run([tensor(shape, "f32")], tensor(rest, "f32"), text)


@pytest.mark.parametrize(
    ("shape", "parameters", "element", "text"),
    [
        ((2, 33, 70), (70,), "f16", "graph.layer_norm %0, %1, %2"),
        ((3, 5, 6, 7), (6, 7), "f32", "graph.layer_norm %0, %1, %2 axis 2"),
        ((2, 40, 64), (64,), "bf16", "graph.rms_norm %0, %1"),
        ((2, 12, 5, 7), (12,), "f32", "graph.group_norm %0, %1, %2 groups 4"),
        ((2, 12, 5, 7), (12,), "f16", "graph.group_norm %0, %1, %2 groups 12"),
        ((1, 4, 128, 200), (4,), "f32", "graph.group_norm %0, %1, %2 groups 1"),  # in parts
        ((2, 6, 5, 7), (6,), "f16", "graph.batch_norm %0, %1, %2, %1, %3"),
    ],
)
def test_norms(shape: tuple[int, ...], parameters: tuple[int, ...], element: str, text: str):
    x = tensor(shape, element)
    run([x, *[tensor(parameters, element)] * 3], x, text)


def test_a_norm_of_rows_at_indices():
    rows, ids = "tensor<100x64xf32>", "tensor<2x33xi64>"
    out, w = "tensor<2x33x64xf32>", "tensor<64xf32>"

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if str(element) == "i64":
            return rng.integers(-100, 100, shape)
        return random_array(rng, element, shape)

    text = f"""
func.func @main(%t: {rows}, %i: {ids}, %p: {out}, %w: {w}) -> {out} {{
  %0 = graph.gather %t, %i : ({rows}, {ids}) -> {out}
  %1 = graph.add %0, %p : ({out}, {out}) -> {out}
  %2 = graph.layer_norm %1, %w, %w : ({out}, {w}, {w}) -> {out}
  func.return %2 : {out}
}}"""
    compare(text, all_lowered=True, make=make, orders=1)


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_a_norm_of_a_concatenation(groups: int):
    """Groups of channels of one operand, or of both."""
    a, b, out = (tensor((2, channels, 5, 7), "f32") for channels in (8, 4, 12))
    w = "tensor<12xf32>"
    text = f"""
func.func @main(%a: {a}, %b: {b}, %w: {w}) -> ({out}, {out}) {{
  %0 = graph.concat %a, %b axis 1 : ({a}, {b}) -> {out}
  %1 = graph.group_norm %0, %w, %w groups {groups} : ({out}, {w}, {w}) -> {out}
  func.return %0, %1 : {out}, {out}
}}"""
    compare(text, all_lowered=True, orders=1)


@pytest.mark.parametrize(
    ("x", "table", "full"),
    [
        ("tensor<2x7x4x64xf16>", "tensor<1x7x1x32xf16>", False),
        ("tensor<1x4x70x80xf32>", "tensor<70x64xf32>", True),  # the last 16 stay
    ],
)
def test_rotary_embedding(x: str, table: str, full: bool):
    run(
        [x, table, table],
        x,
        f"graph.rotary_embedding %0, %1, %2 full_tables {str(full).lower()}",
    )


def test_a_norm_of_transposed_rows_behind_others():
    x, first, out, w = (
        "tensor<48x33xf32>",
        "tensor<1x48xf32>",
        "tensor<34x48xf32>",
        "tensor<48xf32>",
    )
    text = f"""
func.func @main(%x: {x}, %f: {first}, %w: {w}) -> {out} {{
  %0 = graph.transpose %x permutation [1, 0] : ({x}) -> tensor<33x48xf32>
  %1 = graph.concat %f, %0 axis 0 : ({first}, tensor<33x48xf32>) -> {out}
  %2 = graph.layer_norm %1, %w, %w : ({out}, {w}, {w}) -> {out}
  func.return %2 : {out}
}}"""
    compare(text, all_lowered=True, orders=1)


def test_what_is_loaded_before_a_loop_has_a_buffer_of_its_own():
    x, half = "tensor<5x2x4xf32>", "tensor<5x2x2xf32>"
    text = f"""
func.func @main(%x: {x}, %w: tensor<2x4xf32>) -> ({x}, {half}, {x}) {{
  %0 = graph.exp %x : ({x}) -> {x}
  %1 = graph.ceil %0 : ({x}) -> {x}
  %2, %3 = graph.split %1 axis -1 : ({x}) -> ({half}, {half})
  %4 = graph.mul %1, %w : ({x}, tensor<2x4xf32>) -> {x}
  func.return %0, %3, %4 : {x}, {half}, {x}
}}"""
    compare(text, all_lowered=True, orders=1)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_one_number_in_memory_beside_a_matmul(target: str):
    x, out = "tensor<20x3xf32>", "tensor<20x4xf32>"
    text = f"""
func.func @main(%x: {x}, %w: tensor<3x4xf32>, %b: tensor<f32>) -> {out} {{
  %0 = graph.matmul %x, %w : ({x}, tensor<3x4xf32>) -> {out}
  %1 = graph.add %0, %b : ({out}, tensor<f32>) -> {out}
  func.return %1 : {out}
}}"""
    compare(text, target, all_lowered=True, orders=1)


def test_scales_of_channels() -> None:
    """Sums of integers for two results; the channels are rows, and no other dimension."""
    x, y = "tensor<2x20x6x7xi32>", "tensor<2x20x6x7xf32>"
    q = "tensor<2x20x6x7xi8>"
    compare(
        f"""
func.func @main(%x: {x}, %s: tensor<20xf32>) -> ({y}, {q}) {{
  %k = graph.constant dense<0.05> : tensor<f32>
  %z = graph.constant dense<-3> : tensor<i8>
  %0 = graph.dequantize %x, %s axis 1 : ({x}, tensor<20xf32>) -> {y}
  %1 = graph.relu %0 : ({y}) -> {y}
  %2 = graph.quantize %1, %k, %z to i8 : ({y}, tensor<f32>, tensor<i8>) -> {q}
  func.return %1, %2 : {y}, {q}
}}
""",
        all_lowered=True,
        exact=True,
    )


@pytest.mark.parametrize(
    ("text", "result", "ahead"),
    [
        ("graph.softmax %x : (tensor<96x11000xf32>)", "tensor<96x11000xf32>", False),
        ("graph.reduce sum %x axes [1] : (tensor<96x32768xf32>)", "tensor<96x1xf32>", True),
    ],
)
def test_rows_are_loaded_once(text: str, result: str, ahead: bool) -> None:
    """Rows for which there is room if nothing is loaded ahead are not cut into parts, which would
    come for each of two reductions. For one reduction parts come once as well, and ahead."""
    x = text[text.index("tensor") :].rstrip(")")
    body = f"%r = {text} -> {result}\nreturn %r : {result}"
    found = lowered(f"func.func @main(%x: {x}) -> {result} {{\n{body}\n}}")
    ((_, program),) = found.pairs
    assert str(program).count("tile.load") == 1
    assert ("ring<2" in str(program)) == ahead


def test_results_of_rows_in_parts_may_lie_over_what_is_reduced():
    x, w = "tensor<1x4x64x512xf32>", "tensor<4xf32>"
    text = f"""
func.func @main(%x: {x}, %y: {x}, %w: {w}) -> ({x}, {x}) {{
  %0 = graph.add %x, %y : ({x}, {x}) -> {x}
  %1 = graph.group_norm %0, %w, %w groups 2 : ({x}, {w}, {w}) -> {x}
  func.return %0, %1 : {x}, {x}
}}"""
    result = lowered(text)
    ((_, program),) = result.pairs
    args = program.body.block.args
    x, y, *_, first, second = range(len(args))
    proof = check_kernel(
        program, result.target, Use(frozenset([frozenset({(first, x), (second, y)})]))
    )
    assert not proof.problems
