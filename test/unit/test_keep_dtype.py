"""Nodes that keep their element type, by name and by type, under precision and quantization."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import f16, f32, i8

import ge
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.support.types import element_type
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options
from ge.tools.commands import ge_calibrate, ge_compile

pytestmark = pytest.mark.usefixtures("without_programs")

D = 8


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Two layers with weights, a function of scores between them."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["s"], "scores"),
        helper.make_node("Sqrt", ["s"], ["p"], "root"),
        helper.make_node("Gemm", ["p", "w"], ["y"], "second"),
    ]
    weight = np.random.default_rng(1).standard_normal((D, D)).astype(np.float32)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", D]) for n in "xy"]
    graph = helper.make_graph(
        nodes, "net", ports[:1], ports[1:], [numpy_helper.from_array(weight, "w")]
    )
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(2).uniform(-1, 1, (40, D)).astype("f4"))
    return str(path)


def types_of(program: "ge.Program") -> list[object]:
    ops = [op for op in program.module.walk() if isinstance(op, MatmulOp | SoftmaxOp)]
    return [element_type(op.operands[0]) for op in ops]


@pytest.mark.parametrize(
    ("keep", "want"),
    [
        ("second", [f16, f16, f32]),
        ("OpType::Softmax", [f16, f32, f16]),
        ("OpType::Gemm,scores", [f16, f32, f32]),
        ("OpType::MatMul", [f32, f32, f16]),
        ("OpType::Sqrt", [f16, f16, f16]),
    ],
)
def test_nodes_stay_f32(model: str, tmp_path: Path, keep: str, want: list[object]):
    file = tmp_path / "keep.cfg"
    file.write_text("\n".join(keep.split(",")) + "\n\n")
    for given in (keep, file):
        options = Options(precision="fp16", keep_dtype=given)  # pyright: ignore[reportArgumentType]
        program = compile_file(model, options, until="graph")
        assert types_of(program) == want
    kept = {k["name"]: k["why"] for k in program.report()["precision"]["kept"]}  # pyright: ignore[reportPossiblyUnbound]
    assert set(kept.values()) == {"keep_dtype names it"}


def test_layers_stay_float(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data, table = tmp_path / "x.npz", tmp_path / "t.toml"
    assert ge_calibrate([model, "--data", str(data), "-o", str(table)]) == 0
    for file in (data, table):
        options = Options(quantize="int8", calibration=str(file), keep_dtype=("OpType::Gemm",))
        assert types_of(compile_file(model, options, until="graph")) == [i8, f32, f32]
    flags = ["--quantize", "int8", "--calibration", str(data), "--keep-dtype", "second"]
    assert ge_compile([model, *flags, "--remarks", "--accuracy", "snr>=10"]) == 0
    assert "'second' stays float: keep_dtype names it" in capsys.readouterr().err


def test_types_of_a_module(tmp_path: Path):
    path = tmp_path / "m.mlir"
    path.write_text("""func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = graph.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = graph.softmax %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
      func.return %1 : tensor<4x4xf32>
    }""")
    options = Options(precision="fp16", keep_dtype=("OpType::MatMul",))
    assert types_of(compile_file(str(path), options, until="graph")) == [f32, f32]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ("secnd", "the model has no node 'secnd'"),
        ("secnd", "did you mean 'second'?"),
        ("OpType::SoftMaxx", "no nodes of type 'SoftMaxx'"),
        ("OpType::SoftMaxx", "did you mean 'softmax'?"),
        ("missing.cfg", "a file with one on each line"),
        ("x.npz", "keep_dtype is a file with a name on each line"),
    ],
)
def test_names_that_match_nothing(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str, message: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npz").write_bytes(b"\xff\xfe")
    with pytest.raises(ge.GeError) as error:
        ge.compile(model, precision="fp16", keep_dtype=keep)  # pyright: ignore[reportArgumentType]
    assert message in str(error.value)


def test_without_a_precision_there_is_nothing_to_keep(
    model: str, capsys: pytest.CaptureFixture[str]
):
    assert ge_compile([model, "--keep-dtype", "second"]) == 0
    assert (
        "--keep-dtype has nothing to do without --quantize or --precision"
        in capsys.readouterr().err
    )
