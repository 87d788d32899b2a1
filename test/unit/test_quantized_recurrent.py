"""Recurrent layers with weights in 8 bits, and, where that takes less time, steps in integers."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import ge
from ge.dialects.graph.control import LoopOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.recurrent import Recurrent
from ge.dialects.support.types import element_type
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.transforms.graph.expand_layers import ExpandLayersPass

sys.path.insert(0, str(Path(__file__).parent))
from test_quantize import decibels, normal
from tile_lowering import compare
from writing import agree, op_names, run

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH = 12, 4
Arrays = dict[str, Array]

# kind, direction, lengths of sequences, sizes of input and state, attributes
LAYERS: dict[str, tuple[str, str, bool, int, int, dict[str, Any]]] = {
    "lstm": ("LSTM", "forward", False, 64, 512, {}),
    "peepholes": ("LSTM", "bidirectional", True, 64, 512, {}),
    "gru": ("GRU", "bidirectional", False, 64, 640, {}),
    "reset after": ("GRU", "reverse", True, 64, 640, {"linear_before_reset": 1}),
    "rnn": ("RNN", "reverse", False, 64, 1024, {}),
    "small": ("LSTM", "forward", False, 32, 64, {}),
}


def saved(folder: Path, name: str) -> tuple[str, Path, Arrays]:
    """A layer of a size that integers pay for (but "small"), samples, and inputs. Peepholes come
    with states to start from."""
    kind, direction, has_lengths, size, hidden, attributes = LAYERS[name]
    d, rows = 1 + (direction == "bidirectional"), GATES[kind] * hidden
    weights = {
        "w": 2 * normal(d, rows, size, seed=1) / size**0.5,
        "r": normal(d, rows, hidden, seed=2) / hidden**0.5,
        "b": normal(d, 2 * rows, seed=3) / 4,
    }
    shapes = {"x": [STEPS, BATCH, size]} | ({"n": [BATCH]} if has_lengths else {})
    inputs = ["x", "w", "r", "b", "n" if has_lengths else ""]
    if name == "peepholes":
        weights["p"] = normal(d, 3 * hidden, seed=4) / 4
        shapes |= {n: [d, BATCH, hidden] for n in ("h0", "c0")}
        inputs += ["h0", "c0", "p"]
    node = helper.make_node(
        kind, inputs, ["y", "h"], "layer", hidden_size=hidden, direction=direction, **attributes
    )
    given = [
        helper.make_tensor_value_info(n, TensorProto.INT32 if n == "n" else TensorProto.FLOAT, s)
        for n, s in shapes.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "h")]
    initializers = [from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph([node], "net", given, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path := folder / "layer.onnx")

    def some(seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        return {
            n: rng.integers(1, STEPS + 1, s, np.int32) if n == "n" else normal(*s, seed=seed) / 2
            for n, s in shapes.items()
        }

    samples = [some(seed) for seed in range(10, 18)]
    data = folder / "x.npz"
    np.savez(data, **{n: np.stack([s[n] for s in samples]) for n in shapes})
    return str(path), data, some(5)


def results(program: Any, x: Arrays) -> Arrays:
    return ge.Session(program.module, program.payload).run(x)


def weight_bytes(program: Any) -> int:
    return program.report()["memory"]["weight_bytes"]


def compiled(model: str, data: Path, until: str = "program", **more: Any) -> Any:
    options = {"target": "910b2", "tiles": False, "quantize": "int8", "calibration": str(data)}
    return compile_file(model, Options(**(options | more)), until=until)


def in_loops(module: Any, kind: type) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kind) and in_loop(op)]


def in_loop(op: Any) -> bool:
    return isinstance(op.parent_op(), LoopOp)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("scheme", ["int8", "w8a16", "w4a16"])
def test_weights_take_a_quarter(tmp_path: Path, name: str, scheme: str) -> None:
    model, data, x = saved(tmp_path, name)
    plain = ge.compile(model, target="910b2", tiles=False)
    want, path = results(plain, x), tmp_path / "q.onnx"
    program = ge.quantize(model, data, scheme, target="910b2", tiles=False, export_qdq=path)
    assert weight_bytes(program) <= 0.3 * weight_bytes(plain)
    got = results(program, x)
    least = min(decibels(want[n], got[n]) for n in want)
    assert least > 28
    again = results(ge.compile(str(path), target="910b2", tiles=False), x)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert min(decibels(want[n], again[n]) for n in want) > least - 1
    runtime = pytest.importorskip("onnxruntime").InferenceSession(path)
    for n, array in zip(want, runtime.run(list(want), x), strict=True):
        assert decibels(again[n], array) > 60


@pytest.mark.parametrize("name", LAYERS)
def test_steps_are_integers_where_that_pays(tmp_path: Path, name: str) -> None:
    """They are what the layer states, rounding at the same places."""
    model, data, x = saved(tmp_path, name)
    program = compiled(model, data, until="graph")
    kinds = {str(element_type(op.rhs)) for op in in_loops(program.module, MatmulOp)}
    assert kinds == {"f32" if name == "small" else "i8"}
    whole = compiled(model, data, fusion="off", until="graph").module
    layers = [op for op in whole.walk() if isinstance(op, Recurrent)]
    assert [op.state_scale is None for op in layers] == [name == "small"]
    want = results(compiled(model, data, fusion="off"), x)
    got = results(compiled(model, data), x)
    assert min(decibels(want[n], got[n]) for n in want) > 45


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_launches_of_integers_have_programs(tmp_path: Path, name: str, target: str) -> None:
    model, data, _ = saved(tmp_path, name)
    program = compiled(model, data, target=target, until="tasks")
    compare(program.module, target, all_lowered=True, proved=False)


def test_ranges_of_states_are_in_the_table(tmp_path: Path) -> None:
    model, _, _ = saved(tmp_path, "lstm")
    table = tmp_path / "t.toml"
    table.write_text('[ranges]\nx = [-2.0, 2.0]\n"layer:0" = [-0.5, 0.635]\n')
    module = compiled(model, table, fusion="off", until="graph").module
    (layer,) = [op for op in module.walk() if isinstance(op, Recurrent)]
    assert layer.state_scale.value.data == pytest.approx(0.005)
    table.write_text("[ranges]\nx = [-2.0, 2.0]\n")
    with pytest.warns(UserWarning, match="the range of its state 'layer:0' is not known"):
        ge.quantize(model, table, target="910b2", tiles=False)


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_scales_along_any_axis(kind: str, axis: int | None) -> None:
    """Of weights that come quantized, parts are those of the integers."""
    rows, along = 4 * GATES[kind], "" if axis is None else f" axis {axis}"
    text, types = "", {"w": f"2x{rows}x3", "r": f"2x{rows}x4"}
    for n, shape in types.items():
        count = 1 if axis is None else int(shape.split("x")[axis])
        text += f"""
  %{n}s = graph.constant dense<{[0.01 * (k + 1) for k in range(count)]}> : tensor<{count}xf32>
  %{n}z = graph.constant dense<{list(range(count))}> : tensor<{count}xi8>
  %{n} = graph.dequantize %{n}q, %{n}s, %{n}z{along}
    : (tensor<{shape}xi8>, tensor<{count}xf32>, tensor<{count}xi8>) -> tensor<{shape}xf32>"""
    y = "(tensor<5x2x2x4xf32>, tensor<2x2x4xf32>)"
    text = f"""
func.func @main(%x: tensor<5x2x3xf32> {{graph.name = "in0"}}, {
        ", ".join(
            f'%{n}q: tensor<{s}xi8> {{graph.name = "in{i}"}}'
            for i, (n, s) in enumerate(types.items(), 1)
        )
    }) -> (tensor<5x2x2x4xf32> {{graph.name = "out0"}}) {{{text}
  %y, %h = graph.{kind.lower()} %x, %w, %r direction bidirectional state_scale 0.01
    : (tensor<5x2x3xf32>, {", ".join(f"tensor<{s}xf32>" for s in types.values())}) -> {y}
  func.return %y : tensor<5x2x2x4xf32>
}}"""
    module = parse_module(context(), SourceText("test", text))
    rng = np.random.default_rng(0)
    codes = [rng.integers(-90, 90, tuple(map(int, s.split("x"))), np.int8) for s in types.values()]
    before = run(module, normal(5, 2, 3), *codes)
    ExpandLayersPass(quantized=True).apply(context(), module)
    module.verify()
    assert kind.lower() not in op_names(module)
    agree(before, run(module, normal(5, 2, 3), *codes), 0.02)
