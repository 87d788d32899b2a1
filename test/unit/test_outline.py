"""Outlines of ops are equal for equal ops, and for no others."""

import pytest

from ge.dialects.text.printing import Outline
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context

TEXT = """
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fused_op.region(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%1: tensor<4x8xf32>, %2: tensor<4x8xf32>):
    %3 = graph.sub %1, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = graph.leaky_relu %3 alpha 0.5 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fused_op.yield %4 : tensor<4x8xf32>
  }
  func.return %0 : tensor<4x8xf32>
}
"""


def outline(text: str, without: tuple[str, ...] = ()) -> str:
    (op,) = parse_module(context(), SourceText("test", text)).ops
    return Outline({}).of(op, without)


def test_names_of_values_are_no_part_of_it() -> None:
    named = TEXT.replace("%3", "%difference").replace("%x", "%first")
    assert named != TEXT
    assert outline(named) == outline(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("graph.sub %1, %2", "graph.sub %2, %1"),
        ("graph.sub", "graph.add"),
        ("alpha 0.5", "alpha 0.25"),
        ("fused_op.yield %4", "fused_op.yield %3"),
        ("4x8", "8x4"),
        ("f32", "f16"),
        ("@main", "@other"),
        (") -> tensor<4x8xf32> {\n  %0", ') -> tensor<4x8xf32> attributes {a = "b"} {\n  %0'),
    ],
)
def test_all_else_is(old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    assert outline(changed) != outline(TEXT)


def test_properties_that_are_left_out() -> None:
    other = TEXT.replace("@main", "@other")
    assert outline(other, ("sym_name",)) == outline(TEXT, ("sym_name",))
