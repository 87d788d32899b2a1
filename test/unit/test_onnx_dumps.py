"""Dumps in ONNX form: numbered by pass, fused ops are functions, and others compute the same."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import ge
from ge.lowering.driver.compiler import load
from ge.lowering.onnx.export.dump import dump_model
from ge.tools.commands import ge_calibrate, ge_compile, ge_opt, ge_run

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
W = np.linspace(-0.5, 0.7, 64, dtype=np.float32).reshape(8, 8)
Y = np.maximum(np.maximum(X @ W + 0.5, 0) @ W + 0.5, 0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    g = ge.Graph()
    x, w = g.input("x", X.shape), g.weight("w", W)
    y = g.relu(g.matmul(x, w, name="first") + np.full(8, 0.5, np.float32))
    g.output("y", g.relu(g.matmul(y, w, name="second") + np.full(8, 0.5, np.float32)))
    g.save(tmp_path / "m.mlir")
    return tmp_path / "m.mlir"


def dumps(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, detail: str) -> list[Path]:
    monkeypatch.setenv("GE_DUMP_GRAPH", detail)
    monkeypatch.setenv("GE_DUMP_PATH", str(folder))
    monkeypatch.setenv("GE_DUMP_GRAPH_FORMAT", "onnx")
    flags = ["--target", "910_merged", "-o", str(folder.with_suffix(".mlir"))]
    assert ge_compile([str(model), *flags]) == 0
    return sorted(folder.iterdir())


def test_each_pass_has_a_model_that_computes_the_same(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = dumps(model, tmp_path / "d", monkeypatch, "1")
    assert [int(f.name[:2]) for f in files] == list(range(len(files)))
    forms = [f.suffix for f in files]
    assert forms == sorted(forms, reverse=True)  # .onnx up to the fused level, then .mlir
    assert files[forms.index(".mlir")].stem.endswith("lower-to-tasks")
    models = {f.stem[3:]: onnx.load(f) for f in files if f.suffix == ".onnx"}
    for name in ("infer-shapes", "fuse-linear"):
        onnx.checker.check_model(models[name], full_check=True)
        (y,) = ReferenceEvaluator(models[name]).run(None, {"x": X})
        np.testing.assert_allclose(y, Y, rtol=1e-5, atol=1e-6)
    assert not models["infer-shapes"].functions
    (function,) = models["fuse-linear"].functions  # equal bodies are one function
    assert (function.domain, function.name) == ("fused_op", "linear_0")
    inside = [n.op_type for n in function.node if n.op_type != "Constant"]
    assert inside == ["MatMul", "Add", "Relu"]
    calls = [(n.domain, n.op_type, n.name) for n in models["fuse-linear"].graph.node]
    assert calls == [("fused_op", "linear_0", name) for name in ("first", "second")]


def test_weights_are_inputs_where_their_values_are_not_wanted(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, *_ = dumps(model, tmp_path / "d", monkeypatch, "2")
    graph = onnx.load(first).graph
    assert [i.name for i in graph.input] == ["x", "w"]
    assert all(len(t.raw_data) <= 32 for t in graph.initializer)


def test_ops_without_a_form_are_ops_of_the_dialect():
    g = ge.Graph()
    x, scale = g.input("x", (4, 8), "i8"), g.input("scale", ())
    y = g.requantize(g.matmul(x, x, transpose_rhs=True), scale, to="i8")
    g.output("y", g.concat(y, y, axis=1))
    model, _ = dump_model(g.module, g.payload)
    kinds = [(n.domain, n.op_type) for n in model.graph.node]
    assert kinds == [
        ("", "Transpose"), ("", "MatMulInteger"), ("graph", "requantize"), ("", "Concat"),
    ]  # fmt: skip
    (node,) = (n for n in model.graph.node if n.domain)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["to"] == b"i8"


def test_computed_weights_are_there(tmp_path: Path):
    """What @prepare computes is stored where it can be computed, and else an input."""
    (tmp_path / "m.mlir").write_text("""
func.func @prepare() -> (tensor<4xf32> {graph.name = "w.neg"}) {
  %0 = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.constant #graph.weight<"w.neg"> : tensor<4xf32>
  %1 = graph.constant #graph.weight<"other"> : tensor<4xf32>
  %2 = graph.add %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.add %2, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}
""")
    program = load(str(tmp_path / "m.mlir"))
    model, _ = dump_model(program.module, program.payload)
    assert [i.name for i in model.graph.input] == ["x", "other"]
    (stored,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored), [-1, -2, -3, -4])


def test_tools_that_run_passes_dump(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    dumps(model, tmp_path / "compiled", monkeypatch, "1")
    np.savez(tmp_path / "x.npz", x=X)
    for name, run, files in (
        ("opt", lambda: ge_opt([str(model), "-p", "fuse-linear"]), ["00-fuse-linear.onnx"]),
        ("run", lambda: ge_run([str(model), "--precision", "fp16", "--timing-only"]), []),
        (
            "calibrate",
            lambda: ge_calibrate([str(model), "--data", str(tmp_path / "x.npz")]),
            ["calibration/00-share-equal-weights.onnx"],
        ),
    ):
        monkeypatch.setenv("GE_DUMP_PATH", str(tmp_path / name))
        assert run() == 0
        for file in files:
            assert (tmp_path / name / file).exists(), (name, list((tmp_path / name).rglob("*")))
    assert "[ranges]" in capsys.readouterr().out
    assert not (tmp_path / "-").exists()  # standard output is no file
