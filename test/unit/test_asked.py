"""What was asked for and has nothing to do says so; what can be quantized is."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper

from ge.lowering.driver.compiler import without_effect
from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.tools.commands import ge_compile, ge_run

WIDTH = 16
RNG = np.random.default_rng(0)


def weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array((RNG.standard_normal(shape) / 4).astype(np.float32), name)


def tensor(name: str, *shape: "int | str") -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def saved(path: Path, graph: GraphProto) -> str:
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return str(path)


def branch(name: str) -> GraphProto:
    nodes = [helper.make_node("MatMul", ["x", f"{name}w"], [f"{name}y"], f"{name}/MatMul")]
    return helper.make_graph(
        nodes, name, [], [tensor(f"{name}y", "n", WIDTH)], [weight(f"{name}w", WIDTH, WIDTH)]
    )


def of_branches(path: Path, condition: str) -> str:
    """A matmul in each of two branches. The condition is a constant, or is computed of constants,
    of weights, of a size, or of the input."""
    numbers = {"c": np.array(True), "k": np.ones((64, 64), np.float32), "z": np.array(0),
               "few": np.array(1000), "least": np.array(-1e9, np.float32)}  # fmt: skip
    small = numpy_helper.from_array(np.ones(2, np.float32), "k")
    made = [numpy_helper.from_array(a, n) for n, a in numbers.items()]
    total = helper.make_node("ReduceSum", ["x" if condition == "input" else "k"], ["s"], keepdims=0)
    greater = helper.make_node("Greater", ["s", "least"], ["c"])
    size = [helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "z"], ["d"]),
            helper.make_node("Less", ["d", "few"], ["c"])]  # fmt: skip
    nodes = {"constant": [], "size": size}.get(condition, [total, greater])
    made = [small if w.name == "k" and condition == "constants" else w for w in made]
    used = {name for node in nodes for name in node.input} | ({"c"} if not nodes else set())
    choice = helper.make_node(
        "If", ["c"], ["y"], "if", then_branch=branch("then"), else_branch=branch("else")
    )
    weights = [w for w in made if w.name in used]
    ports = tensor("x", "n", WIDTH), tensor("y", "n", WIDTH)
    return saved(path, helper.make_graph([*nodes, choice], "g", [ports[0]], [ports[1]], weights))


@pytest.fixture
def samples(tmp_path: Path) -> str:
    np.savez(tmp_path / "x.npz", x=RNG.standard_normal((64, WIDTH)).astype(np.float32))
    return str(tmp_path / "x.npz")


def compiled(arguments: list[str], tmp_path: Path) -> dict[str, Any]:
    report = tmp_path / "report.json"
    assert ge_compile([*arguments, "--report", str(report)]) == 0
    return json.loads(report.read_text())


# ---- parts of other options ----------------------------------------------------------------------

PARTS = [f for f in fields(Options) if facts_of(f).of]
VALUES = {"calibration": "x.npz", "ranges": "kl", "accuracy": "snr>=20", "tile_tunings": "t.toml",
          "quantize_skip": ("a",), "keep_dtype": ("a",), "precision_clip": True, "dump_path": "d",
          "dump_graph_format": "onnx", "tile_cache": "off", "fit_weights": True,
          "time_limit": 60, "microbatches": 2, "pad": True,
          "collective": ("all_reduce=ring",)}  # fmt: skip
OWNERS = {"quantize": "int8", "precision": "fp16", "tiles": True, "dump_graph": 1,
          "pipeline": "2", "mesh": "tp=2", "shard": "auto"}  # fmt: skip


@pytest.mark.parametrize("field", PARTS, ids=lambda f: f.name)
def test_a_part_of_an_option_that_is_not_given_says_so(field: Any):
    given = {field.name: VALUES[field.name]}
    off = {owner: False for owner in facts_of(field).of if getattr(Options(), owner) is True}
    (line,) = without_effect(Options(**given, **off))
    assert line.startswith(f"{flags_of(field)[0]} has nothing to do without --")
    for owner in facts_of(field).of:
        assert not [*without_effect(Options(**given, **{owner: OWNERS[owner]}))]


@pytest.mark.parametrize("tool", [ge_compile, ge_run])
def test_both_tools_print_it(tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = of_branches(tmp_path / "m.onnx", "constant")
    assert tool([model, "--dim", "n=4", "--precision-clip"]) == 0
    assert (
        "warning: --precision-clip has nothing to do without --precision" in capsys.readouterr().err
    )


def test_what_the_environment_says_is_for_all_commands(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GE_DUMP_PATH", "d")
    assert not [*without_effect(Options.from_environment())]


# ---- nothing that could be changed ------------------------------------------------------------


@pytest.mark.parametrize("condition", ["constant", "constants", "weights", "size"])
def test_branches_that_constants_decide_are_quantized(
    condition: str, samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = of_branches(tmp_path / "m.onnx", condition)
    flags = ["--quantize", "int8", "--calibration", samples, "--dim", "n=4"]
    found = compiled([model, *flags], tmp_path)["quantization"]
    assert (found["integer"], found["float"]) == (1, 0)
    assert found["left_db"]["y"] > 30
    assert (
        f"int8: {found['left_db']['y']:.1f} dB of 'y' (on the samples)" in capsys.readouterr().err
    )


def test_zero_of_n_layers(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def told(model: str, *flags: str) -> str:
        compiled([model, "--dim", "n=4", "--calibration", samples, *flags], tmp_path)
        return capsys.readouterr().err

    flags = ["--quantize", "int8"]
    line = told(of_branches(tmp_path / "b.onnx", "input"), *flags)
    assert "--quantize int8: 0 of 2 layers are quantized: what is in a branch or loop" in line
    assert "dB of" not in line
    constant = of_branches(tmp_path / "c.onnx", "constant")
    line = told(constant, *flags, "--fusion", "off")
    assert (
        "0 of 1 layers are quantized: --fusion off computes what is quantized in floats (1)" in line
    )
    line = told(constant, *flags, "--quantize-skip", "then")
    assert "0 of 1 layers are quantized: it is left out by 'then' (1)" in line
    assert "layers are quantized" not in told(constant, *flags)


def test_integers_and_no_layers_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    codes = numpy_helper.from_array(np.ones((WIDTH, WIDTH), np.int8), "w")
    ports = [helper.make_tensor_value_info("x", TensorProto.INT8, [4, WIDTH]),
             helper.make_tensor_value_info("y", TensorProto.INT32, [4, WIDTH])]  # fmt: skip
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    integers = saved(
        tmp_path / "i.onnx", helper.make_graph([node], "g", ports[:1], ports[1:], [codes])
    )
    compiled([integers, "--quantize", "w8a16"], tmp_path)
    line = capsys.readouterr().err
    assert "0 of 1 layers are quantized: it multiplies integers already (1)" in line
    compiled([integers, "--precision", "fp16", "--no-reuse", "Conv"], tmp_path)
    line = capsys.readouterr().err
    assert "--precision fp16 changes nothing: the model computes nothing in f32" in line
    assert "no launch has an op 'Conv'" in line
    node = helper.make_node("Relu", ["x"], ["y"])
    relu = saved(
        tmp_path / "r.onnx",
        helper.make_graph([node], "g", [tensor("x", 4, WIDTH)], [tensor("y", 4, WIDTH)]),
    )
    compiled([relu, "--quantize", "dynamic"], tmp_path)
    assert "0 of 0 layers are quantized: the model has no matmul" in capsys.readouterr().err


def add(path: Path, *inputs: str, rows: int = 4) -> str:
    """y is the sum of the inputs called a and b; others are not used."""
    node = helper.make_node("Add", ["a", "b" if "b" in inputs else "a"], ["y"])
    ports = [tensor(name, rows, WIDTH) for name in inputs]
    return saved(path, helper.make_graph([node], "g", ports, [tensor("y", rows, WIDTH)], []))


@pytest.mark.parametrize(
    ("flag", "some", "none"),
    [("--merge-io", ("a", "b"), ("a",)), ("--drop-unused-inputs", ("a", "c"), ("a", "b"))],
)
def test_a_pass_that_changes_nothing_says_so(
    flag: str, some: Any, none: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    compiled([add(tmp_path / "some.onnx", *some), flag], tmp_path)
    assert "changes nothing" not in capsys.readouterr().err
    compiled([add(tmp_path / "none.onnx", *none), flag], tmp_path)
    assert f"{flag} changes nothing: " in capsys.readouterr().err


def test_launches_that_are_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    compiled([add(tmp_path / "a.onnx", "a", "b"), "--pieces"], tmp_path)
    assert "--pieces changes nothing: the clock finds no cut" in capsys.readouterr().err


# ---- the axis of samples -----------------------------------------------------------------------


def of_rows(path: Path, *shape: "int | str") -> str:
    """Rows that are mixed: [rows, width], softmax(x x^T) x w, for 24 rows."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]),
             helper.make_node("MatMul", ["m", "r"], ["a"], "mix"),
             helper.make_node("MatMul", ["a", "w"], ["y"], "linear")]  # fmt: skip
    shapes = numpy_helper.from_array(np.array([24, WIDTH]), "shape")
    weights = [weight("m", 24, 24), weight("w", WIDTH, WIDTH), shapes]
    graph = helper.make_graph(nodes, "g", [tensor("x", *shape)], [tensor("y", 24, WIDTH)], weights)
    return saved(path, graph)


@pytest.mark.parametrize("shape", [("rows", "width"), (24, WIDTH)])
@pytest.mark.parametrize("given", [(24, WIDTH), (3, 24, WIDTH)])
def test_samples_lie_along_an_axis_of_the_model_only_where_it_is_one(
    shape: Any, given: tuple[int, ...], tmp_path: Path
):
    model, data = of_rows(tmp_path / "m.onnx", *shape), tmp_path / "x.npz"
    np.savez(data, x=RNG.standard_normal(given).astype(np.float32))
    flags = ["--quantize", "int8", "--calibration", str(data)]
    sizes = ["--shape", f"x=24x{WIDTH}"] if shape[0] == "rows" else []
    found = compiled([model, *flags, *sizes], tmp_path)["quantization"]
    assert found["integer"] == 2


def test_what_was_taken_for_an_axis_of_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, data = of_rows(tmp_path / "m.onnx", "rows", "width"), tmp_path / "x.npz"
    flags = ["--quantize", "int8", "--calibration", str(data)]
    np.savez(data, x=np.ones((20, WIDTH), np.float32))
    assert ge_compile([model, *flags]) == 1
    line = capsys.readouterr().err
    assert "samples were taken to lie along axis 0 of 'x'" in line
    assert "an axis of samples before the whole shape" in line
    np.savez(data, x=np.ones((20, WIDTH, 2), np.float32))
    assert ge_compile([of_rows(tmp_path / "s.onnx", 24, WIDTH), *flags]) == 1
    assert f"arrays of [samples, 24, {WIDTH}]" in capsys.readouterr().err
