"""Weights of the same bytes get one key."""

import numpy as np
from xdsl.parser import Parser

from ge.lowering.driver.compiler import context
from ge.runtime.data.weights import weights_of
from ge.transforms.graph.share_equal_weights import share_equal_weights

TEXT = """
func.func @main() {
  %a = graph.constant #graph.weight<"a"> : tensor<300x2xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<300x2xf32>
  %c = graph.constant #graph.weight<"c"> : tensor<300x2xf32>
  %d = graph.constant #graph.weight<"d"> : tensor<600xf32>
  %e = graph.constant #graph.weight<"e"> : tensor<300x2xi32>
  %f = graph.constant #graph.weight<"missing"> : tensor<300x2xf32>
  func.return
}
"""


def test_equal_bytes_of_one_type_share_a_key():
    module = Parser(context(), TEXT).parse_module()
    ones = np.ones((300, 2), np.float32)
    other = ones.copy()
    other[150, 0] = 2  # the same at both ends
    payload = {
        "a": ones,
        "b": ones.copy(),
        "c": other,
        "d": ones.reshape(-1),
        "e": ones.view(np.int32),
    }
    assert share_equal_weights(module, payload) == 1
    assert sorted(weights_of(module)) == ["a", "c", "d", "e", "missing"]
    assert share_equal_weights(module, payload) == 0


def test_nan_and_zero_are_compared_by_bits():
    text = TEXT.replace("300x2", "2x2")
    module = Parser(context(), text).parse_module()
    nan = np.full((2, 2), np.nan, np.float32)
    payload = {"a": nan, "b": nan.copy(), "c": np.zeros((2, 2), np.float32)}
    assert share_equal_weights(module, payload) == 1
    payload = {"a": -np.zeros((2, 2), np.float32), "c": np.zeros((2, 2), np.float32)}
    assert share_equal_weights(module, payload) == 0
