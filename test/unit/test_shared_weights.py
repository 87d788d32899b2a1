"""Layers that share a weight share its codes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ge


def test_layers_with_other_ranges_share_codes(tmp_path: Path) -> None:
    """Sums of one layer have other units than those of the next, but their biases fit all the same:
    no weight gets another grid for that."""
    random, names = np.random.default_rng(0), [f"x{i}" for i in range(13)]
    weight = random.standard_normal((32, 32, 3, 3)).astype("f4")
    bias = random.standard_normal(32).astype("f4")
    nodes = [
        helper.make_node("Conv", [a, "w", "b"], [b], name=b, pads=[1] * 4)
        for a, b in pairwise(names)
    ]
    info = helper.make_tensor_value_info
    ends = (info(name, TensorProto.FLOAT, ["n", 32, 8, 8]) for name in (names[0], names[-1]))
    made = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "g", [next(ends)], [next(ends)], made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    data = {"x0": random.standard_normal((8, 32, 8, 8)).astype("f4")}
    program = ge.quantize(str(tmp_path / "m.onnx"), data, ranges="minmax")
    schemes = [layer["scheme"] for layer in program.report()["quantization"]["layers"]]
    assert schemes.count("int8") >= 10
    # one copy in 8 bits, one in floats for layers that stay so, and what is of each channel
    assert program.report()["memory"]["weight_bytes"] < weight.size * (1 + 4) + 12 * 32 * 3 * 4
