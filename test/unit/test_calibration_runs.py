"""How often calibration runs a model on its samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.transforms.quantization.observe import Observer

MOST_RUNS = 5


def chain(path: str, layers: int) -> None:
    """Convolutions with relus between them."""
    random, info = np.random.default_rng(0), helper.make_tensor_value_info
    nodes, weights = list[onnx.NodeProto](), list[TensorProto]()
    for i in range(layers):
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"]))
        weight = random.standard_normal((16, 16, 3, 3)) / 8
        weights.append(numpy_helper.from_array(weight.astype("f4"), f"w{i}"))
    ends = (info(f"x{i}", TensorProto.FLOAT, ["n", 16, 8, 8]) for i in (0, layers))
    graph = helper.make_graph(nodes, "g", [next(ends)], [next(ends)], weights)
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


@pytest.mark.parametrize("layers", [3, 12])
def test_runs_do_not_grow_with_layers(layers: int, tmp_path: Any, monkeypatch: Any) -> None:
    runs, run = list[int](), Observer.run

    def counted(self: Observer, samples: Any, watchers: Mapping[Any, Any]) -> None:
        runs.append(len(watchers))
        run(self, samples, watchers)

    monkeypatch.setattr(Observer, "run", counted)
    chain(str(tmp_path / "m.onnx"), layers)
    data = np.random.default_rng(1).standard_normal((16, 16, 8, 8)).astype("f4")
    ge.quantize(str(tmp_path / "m.onnx"), {"x0": data})
    assert len(runs) <= MOST_RUNS
