"""Tile programs of kernels for the vector cores, run both ways and proved."""

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

DIMS = st.sampled_from((1, 2, 3, 7, 16, 33, 70))


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


@given(st.data(), st.sampled_from(("f32", "f16", "bf16", "i8")))
@settings(max_examples=12, deadline=None)
def test_broadcasts(data: st.DataObject, element: str):
    shape = (*data.draw(st.lists(DIMS, max_size=2)), 66, *data.draw(st.lists(DIMS, max_size=1)))
    rank = data.draw(st.integers(0, len(shape)))
    part = tuple(data.draw(st.sampled_from((1, d))) for d in shape[len(shape) - rank :])
    whole, small, bits = (tensor(shape, element), tensor(part, element), tensor(shape, "i1"))
    compare(
        f"""
func.func @main(%x: {whole}, %y: {small}) -> ({whole}, {whole}) {{
  %0 = graph.add %x, %y : ({whole}, {small}) -> {whole}
  %1 = graph.compare "lt" %x, %0 : ({whole}, {whole}) -> {bits}
  %2 = graph.select %1, %y, %x : ({bits}, {small}, {whole}) -> {whole}
  func.return %0, %2 : {whole}, {whole}
}}""",
        all_lowered=True,
        exact=True,
        orders=1,
    )


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
