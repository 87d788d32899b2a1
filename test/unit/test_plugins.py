"""Plugins: ONNX ops and kernels of a file, and errors that are theirs or ours."""

from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ge
from ge.lowering.pipeline.options import Options
from ge.tools.commands import ge_compile, ge_opt, ge_run

PLUGIN = Path(__file__).resolve().parents[1] / "tools" / "Inputs" / "onnx_plugin.py"

CRASH = """
import ge

@ge.register_pass("crash-here", level="tasks")
def crash(graph):
    raise KeyError("an oversight")
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """y = (2 x) w w"""
    info = helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32) * 3, "w")
    graph = helper.make_graph(
        [
            helper.make_node("Twice", ["x"], ["d"], domain="acme"),
            helper.make_node("MatMul", ["d", "w"], ["p"]),
            helper.make_node("MatMul", ["p", "w"], ["y"]),
        ],
        "g",
        [info("x", TensorProto.FLOAT, [4, 4])],
        [info("y", TensorProto.FLOAT, [4, 4])],
        [weights],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_onnx_ops_and_lambdas_of_a_plugin(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = str(tmp_path / "p.mlir")
    assert ge_compile([model, "-o", program, "--load-plugin", str(PLUGIN)]) == 0
    assert Path(program).read_text().count('fused_op.custom "AcmeMatmul"') >= 1
    assert ge_run([model, "--load-plugin", str(PLUGIN)]) == 0
    monkeypatch.setenv("GE_CUSTOM_PASS", str(PLUGIN))
    compiled = ge.compile(model)
    outputs = ge.Session(compiled.module, compiled.payload).run({"x": np.ones((4, 4), np.float32)})
    np.testing.assert_array_equal(outputs["y"], np.full((4, 4), 18, np.float32))


def test_explicit_options_do_not_ask_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GE_CUSTOM_PASS", "missing.py")
    text = tmp_path / "m.mlir"
    text.write_text("func.func @main() {\n  func.return\n}\n")
    program = ge.load(str(text))
    ge.lower(program.module, Options())


@pytest.mark.parametrize(
    ("tool", "flags", "op"),
    [
        (ge_compile, [], "npu_task.launch"),
        (ge_run, ["--level", "program"], "npu_task.launch"),
        (ge_opt, ["--cse", "--crash-here"], "graph.relu"),
    ],
)
def test_a_crash_is_ours_and_names_what_repeats_it(
    tool: ModuleType,
    flags: list[str],
    op: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    plugin, text = tmp_path / "crashing.py", tmp_path / "m.mlir"
    plugin.write_text(CRASH)
    text.write_text(
        'func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> tensor<4xf32> {\n'
        "  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %0 : tensor<4xf32>\n}\n"
    )
    assert tool([str(text), "--load-plugin", str(plugin), *flags]) == 1
    error = capsys.readouterr().err
    assert "internal error: KeyError: 'an oversight' (in pass 'crash-here')" in error
    assert "not in the model" in error
    assert f"{plugin}:6: note: raised by this line of a plugin" in error
    (saved,) = tmp_path.glob("ge-crash-*.mlir")
    assert str(saved) in error
    assert "crash-here" in saved.read_text().partition("\n")[0]
    assert op in saved.read_text()
