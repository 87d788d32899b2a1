"""Short vectors that follow from weights stand in the text."""

import numpy as np
from xdsl.context import Context
from xdsl.parser import Parser

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.types import shape_of
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import Array, array_of
from ge.runtime.data.weights import weights_at_hand
from ge.transforms.graph.eliminate_dead_code import EliminateDeadCodePass
from ge.transforms.graph.inline_vectors import InlineVectorsPass

TEXT = """
func.func @main(%x: tensor<2x4xf32>, %l: tensor<2x300xf32>) -> (
    tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x300xf32>, tensor<2x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<4xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<300xf32>
  %short = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
  %table = graph.neg %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %long = graph.neg %v : (tensor<300xf32>) -> tensor<300xf32>
  %0 = graph.add %x, %short : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = graph.matmul %x, %table : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = graph.add %l, %long : (tensor<2x300xf32>, tensor<300xf32>) -> tensor<2x300xf32>
  %3 = graph.add %x, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %0, %1, %2, %3
    : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x300xf32>, tensor<2x4xf32>
}
"""
B = np.array([1, -2, 3, 4], np.float32)


def after(payload: dict[str, Array] | None) -> list[ConstantOp]:
    """The constants that the pass leaves."""
    module = Parser(context(), TEXT).parse_module()
    with weights_at_hand(payload):
        InlineVectorsPass().apply(Context(), module)
    EliminateDeadCodePass().apply(Context(), module)
    module.verify()
    return [op for op in module.walk() if isinstance(op, ConstantOp)]


def test_a_short_vector_is_computed_and_written_into_the_text():
    payload: dict[str, Array] = {"w": np.ones((4, 4), np.float32), "b": B}
    constants = after({**payload, "v": np.ones(300, np.float32)})
    (inline,) = (op for op in constants if op.key is None)
    assert shape_of(inline.result) == (4,)
    assert array_of(inline.value).tolist() == (-B).tolist()


def test_tables_long_vectors_and_weights_themselves_stay():
    payload: dict[str, Array] = {"w": np.ones((4, 4), np.float32), "b": B}
    constants = after({**payload, "v": np.ones(300, np.float32)})
    assert sorted(op.key for op in constants if op.key) == ["b", "v", "w"]


def test_without_the_weights_nothing_changes():
    for payload in (None, {"w": np.ones((4, 4), np.float32)}):
        assert all(op.key for op in after(payload))
