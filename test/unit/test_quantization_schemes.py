"""Schemes other than int8, and networks of several: from a float model to programs."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array
from xdsl.dialects.builtin import f8E4M3FN, f32, i8, i32

import ge
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import element_type
from ge.lowering.driver.calibration import table_for
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array

sys.path.insert(0, str(Path(__file__).parent))
from qdq_models import layers
from test_quantize import decibels, normal, outputs, save_model, save_samples

pytestmark = pytest.mark.usefixtures("without_programs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three layers, samples, and a table of its ranges."""
    folder = tmp_path_factory.mktemp("net")
    save_model(folder / "net.onnx")
    save_samples(folder / "x.npz", normal(40, 3, 8, 8, seed=9))
    options = Options(quantize="int8", calibration=str(folder / "x.npz"))
    table = table_for(ge.load(str(folder / "net.onnx")), options, context())
    (folder / "table.toml").write_text(table.text())
    return folder


def compiled(folder: Path, until: str, calibration: str = "x.npz", **options: Any) -> Any:
    options = {"quantize": "int8", "target": "910_merged", "tiles": False} | options
    all_options = Options(calibration=str(folder / calibration), **options)
    return compile_file(str(folder / "net.onnx"), all_options, dims={"N": 6}, until=until)


@cache
def of_samples(folder: Path) -> Any:
    """The program in int8."""
    return compiled(folder, "program")


@cache
def floats(folder: Path) -> Array:
    """The outputs of the float model for the inputs of the tests."""
    return outputs(ge.compile(str(folder / "net.onnx")), x_of_test())


def x_of_test() -> Array:
    return normal(6, 3, 8, 8, seed=11)


def test_layers_of_int16(folder: Path):
    program = compiled(folder, "graph", quantize="int16")
    ops = layers(program.module)
    assert len(ops) == 6  # of the high and the low bytes
    for op in ops:
        assert [element_type(v) for v in op.operands[:2]] == [i8, i8]
        assert element_type(op.results[0]) == i32


@pytest.mark.parametrize(
    ("scheme", "own"),
    [("int16", [[i8, i8, i32]] * 2), ("w8a16", [[f32, f32, f32]])],
)
def test_a_layer_with_a_scheme_of_its_own(folder: Path, scheme: str, own: list[Any]):
    table = (folder / "table.toml").read_text()
    (folder / "t.toml").write_text(f'{table}\n[layers]\nhidden = "{scheme}"\n')
    program = compiled(folder, "graph", "t.toml")
    found = [
        [*(element_type(v) for v in op.operands[:2]), element_type(op.results[0])]
        for op in layers(program.module)
    ]
    assert found == [[i8, i8, i32], *own, [i8, i8, i32]]
    mixed, plain = compiled(folder, "program", "t.toml"), of_samples(folder)
    launches = [sum(isinstance(op, KernelOp) for op in p.module.walk()) for p in (mixed, plain)]
    assert launches[0] == launches[1] + len(own) - 1
    assert check_program(mixed.module).problems == []
    want = floats(folder)
    errors = [-decibels(want, outputs(p, x_of_test())) for p in (mixed, plain)]
    assert errors[0] < errors[1] + 1
    assert errors[0] < -30


def test_plans_of_wide_sums_are_proved(folder: Path):
    program = compiled(folder, "program", quantize="int16", target="310p3")
    assert check_program(program.module).problems == []
    want = outputs(ge.compile(str(folder / "net.onnx")), x_of_test())
    assert decibels(want, outputs(program, x_of_test())) > 40


@pytest.mark.parametrize("value", [0.0, 1e-42])
def test_int16_of_zeros_and_denormals(tmp_path: Path, value: float):
    """Inputs that are zero in all samples stay float."""
    w, x = normal(16, 4, seed=1), np.full((6, 16), value, np.float32)
    model = save_linear(tmp_path / "linear.onnx", w)
    np.savez(tmp_path / "x.npz", x=x)
    program = ge.compile(model, quantize="int16", calibration=str(tmp_path / "x.npz"))
    kinds = {element_type(op.operands[0]) for op in layers(program.module)}
    assert kinds == ({i8} if value else {f32})
    np.testing.assert_allclose(outputs(program, x), x @ w, rtol=0, atol=1e-40)


def test_a_model_that_takes_one_sample_at_a_time(tmp_path: Path):
    """Its batch is open, and then its nodes ask for 1."""
    x, w = normal(40, 16, seed=3), normal(16, 4, seed=1)
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["N", 16]), ("y", [1, 4]))
    ]
    constants = [from_array(w, "w"), from_array(np.array([1, 16]), "shape")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (tmp_path / "one.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=x)
    data = str(tmp_path / "x.npz")
    program = ge.compile(str(tmp_path / "one.onnx"), quantize="int8", calibration=data)
    assert decibels(x[:1] @ w, outputs(program, x[:1])) > 30


def by_definition(x: Array, w: Array) -> Array:
    """Rows of x, and columns of w, in 8 bits."""
    sx = np.maximum(np.abs(x).max(-1, keepdims=True) / np.float32(127), np.float32(2.0**-126))
    sw = np.abs(w).max(0) / np.float32(127)
    sums = np.rint(x / sx).astype(np.int64) @ np.rint(w / sw).astype(np.int64)
    return (sums.astype(np.float32) * sw * sx).astype(np.float64)


def test_rows_are_quantized_as_the_program_runs(tmp_path: Path):
    """By the definition: rows of zeros, of one value, and of denormals too; with any batch."""
    w = normal(600, 7, seed=1)
    x = normal(9, 600, seed=2)
    x[0], x[1], x[2], x[3] = 0, 2.5, 1e-42, x[3] * 1e6
    path = save_linear(tmp_path / "linear.onnx", w)
    for dims in ({}, {"N": 9}):
        got = outputs(ge.compile(path, quantize="dynamic", dims=dims), x)
        np.testing.assert_array_equal(got, by_definition(x, w))


def save_linear(path: Path, w: Array) -> str:
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("x", len(w)), ("y", w.shape[1]))
    ]
    node, weight = helper.make_node("MatMul", ["x", "w"], ["y"], "linear"), from_array(w, "w")
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], [weight])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_samples_are_quantized_each_for_itself(folder: Path):
    """What a batch holds beside a sample does not change it; with samples it becomes better."""
    x = x_of_test()
    large = np.concatenate([x[:1], 100 * x[1:]])
    alone = ge.compile(str(folder / "net.onnx"), quantize="dynamic", dims={"N": 6})
    np.testing.assert_array_equal(outputs(alone, x)[0], outputs(alone, large)[0])
    assert all(element_type(op.result) == i32 for op in layers(alone.module))
    want = floats(folder)
    assert decibels(want, outputs(alone, x)) > 35
    assert decibels(want, outputs(compiled(folder, "program", quantize="dynamic"), x)) > 35


def test_fp8_needs_a_target_that_multiplies_it(folder: Path):
    with pytest.raises(
        GeError, match="target 910_merged has no rate for matmuls of f8E4M3FN; 950pr"
    ):
        compiled(folder, "graph", quantize="fp8")
    program = compiled(folder, "program", quantize="fp8", target="950pr")
    ops = layers(program.module)
    assert len(ops) == 3
    assert all(element_type(v) == f8E4M3FN for op in ops for v in op.operands[:2])
    assert check_program(program.module).problems == []
    want = outputs(ge.compile(str(folder / "net.onnx")), x_of_test())
    assert decibels(want, outputs(program, x_of_test())) > 25


def test_fp8_of_zeros_and_denormals(tmp_path: Path):
    """Channels of zeros and of denormals, and inputs that are denormal."""
    w = normal(16, 4, seed=1)
    w[:, 0], w[:, 1] = 0, 1e-41
    model = save_linear(tmp_path / "linear.onnx", w)
    x = normal(8, 16, seed=2)
    x[0] = 1e-42
    np.savez(tmp_path / "x.npz", x=x)
    data = str(tmp_path / "x.npz")
    got = outputs(ge.compile(model, quantize="fp8", target="950pr", calibration=data), x)
    assert not got[:, :2].any()
    np.testing.assert_allclose(got[:, 2:], x @ w[:, 2:], rtol=0, atol=0.06 * abs(x @ w).max())


def cache_text(past: int | str) -> str:
    """@main: attention over a cache and the token's own key and value, which are appended."""
    q, k = "tensor<2x3x1x16xf32>", f"tensor<2x3x{past}x16xf32>"
    return f"""
func.func @main(%q: {q} {{graph.name = "q"}}, %k: {q} {{graph.name = "k"}}, %past: {k}
                {{graph.name = "past"}}) -> ({q} {{graph.name = "y"}}, tensor<2x3x?x16xf32>
                {{graph.name = "present"}}) {{
  %0 = graph.concat %past, %k axis 2 : ({k}, {q}) -> tensor<2x3x?x16xf32>
  %1 = graph.attention %q, %0, %0 : ({q}, tensor<2x3x?x16xf32>, tensor<2x3x?x16xf32>) -> {q}
  func.return %1, %0 : {q}, tensor<2x3x?x16xf32>
}}"""


@pytest.mark.parametrize(("kind", "least"), [("int8", 45), ("fp8", 30)])
def test_a_cache_of_8_bits(tmp_path: Path, kind: str, least: float):
    """Tokens are quantized once; those of zeros and of denormals too."""
    path = tmp_path / "step.mlir"
    path.write_text(cache_text("?"))
    program = ge.compile(str(path), quantize_cache=kind)
    session = ge.Session(program.module, program.payload)
    dtype = np.int8 if kind == "int8" else np.dtype("float8_e4m3fn")
    past, scale = np.zeros((2, 3, 0, 16), dtype), np.zeros((2, 3, 0, 1), np.float32)
    tokens = normal(6, 2, 3, 1, 16, seed=3)
    tokens[0], tokens[1] = 0, 1e-42
    for i, k in enumerate(tokens):
        got = session.run({"q": tokens[5], "k": k, "past": past, "past.scale": scale})
        keys = np.concatenate(tokens[: i + 1], 2)
        weights = np.exp(tokens[5] @ keys.swapaxes(2, 3) / 4)
        want = weights / weights.sum(-1, keepdims=True) @ keys
        assert i < 2 or decibels(want, got["y"]) > least
        np.testing.assert_array_equal(got["present"][:, :, :i], past)
        np.testing.assert_array_equal(got["present.scale"][:, :, :i], scale)
        past, scale = got["present"], got["present.scale"]
        most = np.abs(k).max(-1, keepdims=True) / (127 if kind == "int8" else 448)
        least_normal = np.finfo(np.float32).tiny
        np.testing.assert_array_equal(scale[:, :, i:], np.maximum(most, least_normal))


def test_plans_of_a_quantized_cache_are_proved(tmp_path: Path):
    path = tmp_path / "step.mlir"
    path.write_text(cache_text(40).replace("2x3x?x16", "2x3x41x16"))
    program = ge.compile(str(path), quantize_cache="int8")
    assert check_program(program.module).problems == []


def test_a_model_without_a_cache(folder: Path):
    with pytest.raises(GeError, match="the model has no cache to quantize; no input comes back"):
        ge.compile(str(folder / "net.onnx"), quantize_cache="int8")
