"""Quantized programs of several devices have the numbers of one: what is rounded is decided on
whole values, before these are cut."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Mesh
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.data.weights import SafetensorsPayload, write_safetensors
from ge.runtime.device.devices import WeightParts


def save(path: Path, up: Any, down: Any) -> str:
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "down"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 32]) for n in "xy")
    weights = [numpy_helper.from_array(up, "up"), numpy_helper.from_array(down, "down")]
    graph = helper.make_graph(nodes, "mlp", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return str(path)


RULES = {"x": [["dp"]], "up": [[], ["tp"]], "down": [["tp"]], "y": [["dp"]]}


@pytest.mark.parametrize(
    ("options", "parameters"),
    [({"quantize": "w8a16"}, 2496), ({"quantize": "int8"}, 2600), ({"quantize": "dynamic"}, 2432),
     ({"precision": "fp16"}, 4096), ({"quantize": "w4a16"}, 1440)],
)  # fmt: skip
def test_numbers_are_those_of_one_device(tmp_path: Path, options: Any, parameters: int) -> None:
    rng = np.random.default_rng(3)
    up, down = (rng.standard_normal(s, np.float32) / 8 for s in ((32, 64), (64, 32)))
    x = rng.standard_normal((8, 32), np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    model, own = save(tmp_path / "m.onnx", up, down), {"calibration": str(tmp_path / "x.npz")}
    one = ge.compile(model, **options, **own)
    cut = ge.compile(model, **options, **own, mesh={"dp": 2, "tp": 2}, shard=RULES)
    devices = cut.report()["devices"]  # weights are 4,096 elements on a device
    assert devices["parameter_bytes"] <= parameters
    assert {c["op"] for c in devices["collectives"]} == {"all_reduce"}
    wanted = one.session().run({"x": x})["y"]
    np.testing.assert_allclose(
        cut.session().run({"x": x})["y"], wanted, atol=0.01 * np.abs(wanted).max()
    )


def test_batches_follow_each_other_on_several_devices(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("ge.runtime.device.streaming.PAYS", 1e-9)  # threads would always pay
    up, down = np.ones((32, 64), np.float32), np.ones((64, 32), np.float32)
    model = save(tmp_path / "m.onnx", up, down)
    session = ge.compile(model, mesh={"dp": 2, "tp": 2}, shard=RULES).session()
    x = np.ones((8, 32), np.float32)
    found = [y["y"][0, 0] for y in session.run_many([{"x": x * i} for i in range(12)])]
    assert found == [32 * 64 * i for i in range(12)]
    with pytest.raises(GeError, match=r"device arrays are of one device.*--state"):
        session.bind({"x": ge.DeviceArray.of(x)})


@pytest.mark.parametrize("cut", ["[{'tp'}, {}]", "[{}, {'tp'}]", "[{}, {'tp':(1)3}]"])
def test_parts_of_weights_of_four_bits_are_read_from_the_file(tmp_path: Path, cut: str) -> None:
    cut, own = cut.replace("'", '"'), {"[{'tp'}, {}]": (1, 6), "[{}, {'tp'}]": (6, 1)}.get(cut)
    rows, columns = own or (6, 2)
    whole = np.arange(-8, 28).reshape(6, 6).astype(ml_dtypes.int4)
    with open(tmp_path / "w.safetensors", "wb") as file:
        write_safetensors(file, {"w": whole})
    parts = f'{{p = ["w", #graph.sharding<@mesh, {cut}>]}}'
    text = f"""builtin.module attributes {{graph.parts = {parts}}} {{
      graph.mesh @mesh ["tp"=6]
      func.func @main() -> tensor<{rows}x{columns}xi4> {{
        %0 = graph.constant #graph.weight<"p"> : tensor<{rows}x{columns}xi4>
        return %0 : tensor<{rows}x{columns}xi4>
      }}
    }}"""
    module = parse_module(context(), SourceText("test.mlir", text))
    mesh, payload = Mesh((("tp", 6),)), SafetensorsPayload(tmp_path / "w.safetensors")
    for device in range(6):
        found = WeightParts(payload, module, mesh, device).get("p")
        first = device // (2 if columns == 2 else 1)
        part = whole[first : first + 1] if rows == 1 else whole[:, first * columns :][:, :columns]
        np.testing.assert_array_equal(found, part)
