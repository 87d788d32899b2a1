"""Weights of the same bytes get one key."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from xdsl.parser import Parser

from ge.lowering.driver.cache import compile_model
from ge.lowering.driver.compiler import context
from ge.runtime.data.weights import weights_of
from ge.runtime.device.session import Session
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
    assert share_equal_weights(module, payload) == 2
    assert sorted(weights_of(module)) == ["a", "c", "e", "missing"]
    assert share_equal_weights(module, payload) == 0


def test_nan_and_zero_are_compared_by_bits():
    text = TEXT.replace("300x2", "2x2")
    module = Parser(context(), text).parse_module()
    nan = np.full((2, 2), np.nan, np.float32)
    payload = {"a": nan, "b": nan.copy(), "c": np.zeros((2, 2), np.float32)}
    assert share_equal_weights(module, payload) == 1
    payload = {"a": -np.zeros((2, 2), np.float32), "c": np.zeros((2, 2), np.float32)}
    assert share_equal_weights(module, payload) == 0


def test_equal_bytes_of_other_shapes_are_views_of_one_weight(tmp_path: Path):
    rng = np.random.default_rng(0)
    matrix, vector = rng.standard_normal((64, 64), np.float32), np.ones(4096, np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4096])
    flat = numpy_helper.from_array(np.array([-1]), "flat")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Reshape", ["a", "flat"], ["b"]),
        helper.make_node("Mul", ["b", "v"], ["c"]),
        helper.make_node("Add", ["c", "u"], ["y"]),
    ]
    weights = {"w": matrix, "v": matrix.reshape(-1).copy(), "u": vector}
    constants = [flat, *(numpy_helper.from_array(a, name) for name, a in weights.items())]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], constants)), path)

    program = compile_model(str(path))
    assert program.report()["memory"]["weight_bytes"] == matrix.nbytes + vector.nbytes
    values = rng.standard_normal((64, 64), np.float32)
    result = Session(program.module, program.payload).run({"x": values})["y"]
    wanted = (values @ matrix).reshape(-1) * matrix.reshape(-1) + 1
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
