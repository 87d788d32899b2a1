"""`ge-run --compare`: outputs and results of nodes beside those of another program."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ge.runtime.data.accuracy import TOLERANCES, Tolerance, cosine, decibels, measured, powers
from ge.runtime.device.session import Session
from ge.tools.commands import ge_compile, ge_run
from ge.tools.comparing import nodes, peers, versus
from ge.tools.comparing.peers import Onnxruntime

pytestmark = pytest.mark.usefixtures("without_programs")

RNG = np.random.default_rng(0)
WIDTH = 16


def network(path: Path, changed: str = "", named: str = "y", noisy: float = 0.0) -> str:
    """Three residual blocks, y = x + tanh(x w + b) v; the node called `changed` takes a weight
    that is 1.5 times as large. With `noisy`, a squared softmax of so large scores is added
    first, which makes much of the least change of x."""
    rng, nodes, weights, x = np.random.default_rng(1), [], [], "x"
    for block in range(3):

        def node(op: str, *inputs: str, block: int = block) -> str:
            name = f"/{block}/{op}{len(nodes)}"
            nodes.append(helper.make_node(op, inputs, [f"{name}:0"], name))
            return f"{name}:0"

        def weight(*shape: int, by: float = 1.0) -> str:
            array = (by * rng.standard_normal(shape) / np.sqrt(WIDTH)).astype(np.float32)
            if changed and changed == f"/{block}/MatMul{len(nodes)}":
                array = array * np.float32(1.5)
            weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
            return weights[-1].name

        if noisy:
            scores = node("Softmax", node("MatMul", x, weight(WIDTH, WIDTH, by=noisy)))
            squared = node("Mul", scores, scores)
            x = node("Add", x, node("MatMul", squared, weight(WIDTH, WIDTH)))
        hidden = node("MatMul", x, weight(WIDTH, 2 * WIDTH))
        hidden = node("Tanh", node("Add", hidden, weight(2 * WIDTH)))
        x = node("Add", x, node("MatMul", hidden, weight(2 * WIDTH, WIDTH)))
    nodes[-1].output[0] = named
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])
    y = helper.make_tensor_value_info(named, TensorProto.FLOAT, ["n", WIDTH])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return network(tmp_path / "m.onnx")


@pytest.fixture
def samples(tmp_path: Path) -> str:
    np.savez(tmp_path / "x.npz", x=RNG.standard_normal((64, WIDTH)).astype(np.float32))
    return str(tmp_path / "x.npz")


def report_of(arguments: list[str], tmp_path: Path) -> tuple[int, dict[str, Any]]:
    path = tmp_path / "report.json"
    status = ge_run([*arguments, "--report", str(path)])
    return status, json.loads(path.read_text())["compared"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert ge_run(arguments) == 1
    return capsys.readouterr().err


# ---- figures -----------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.sampled_from(["f4", "f8", "f2", "i4", "u1", "b"]),
       st.integers(0, 40), st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 1e30]))  # fmt: skip
def test_measured_is_what_plain_formulas_give(seed: int, dtype: str, size: int, noise: float):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(size)
    with np.errstate(all="ignore"):
        want, got = (
            x.astype(dtype) for x in (10 * a, 10 * (a + noise * rng.standard_normal(size)))
        )
    m = measured(want, got)
    wide = [x.astype(np.float64) for x in (want, got)]
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    wide = [np.where(finite, x, 0) for x in wide]
    assert m.error == pytest.approx(np.abs(wide[1] - wide[0]).max(initial=0), rel=1e-6)
    assert m.largest == pytest.approx(np.abs(wide[0]).max(initial=0), rel=1e-6)
    assert m.snr == pytest.approx(decibels(*powers(*wide)), abs=0.01)
    assert m.cos == pytest.approx(cosine(*wide), abs=1e-5)
    assert m.differ == (0 if dtype[0] == "f" else np.count_nonzero(want != got))


def test_nan_in_other_places_is_beyond_every_tolerance():
    want, got = np.array([1, np.nan, np.inf], "f4"), np.array([1, np.nan, 2], "f4")
    assert "nan or infinity" in measured(want, got).complaint(Tolerance(share=1e9))
    assert not measured(want, want).complaint(Tolerance(share=0.0))


def test_tolerances_grow_with_what_is_computed_in():
    shares = [TOLERANCES[name].share for name in ("f64", "f32", "f16", "bf16")]
    assert shares == sorted(shares, key=lambda share: share or 0.0)
    a = np.array([100, 3], "u1")
    assert not measured(a, a + np.uint8(1)).complaint(TOLERANCES["integers"])
    assert measured(a, a + np.uint8(1)).complaint(TOLERANCES["f32"])


# ---- outputs -----------------------------------------------------------------------------------


def test_outputs_agree_with_onnxruntime(model: str, capsys: pytest.CaptureFixture[str]):
    assert ge_run([model, "--compare", "onnxruntime", "--dim", "n=4"]) == 0
    shown = capsys.readouterr().out
    assert "compared with onnxruntime" in shown
    assert "agrees" in shown
    assert "dB" in shown


@pytest.mark.parametrize("level", ["graph", "fused", "tasks", "buffers", "program"])
@pytest.mark.parametrize("peer", ["onnxruntime", "graph", "program"])
def test_nodes_of_any_two(level: str, peer: str, model: str, tmp_path: Path):
    if peer == "program":
        peer = str(tmp_path / "p.mlir")
        flags = ["--dim", "n=4", "--mlir-print-debuginfo"]
        assert ge_compile([model, "-o", peer, *flags]) == 0
    flags = ["--dim", "n=4", "--compare", model if peer == "graph" else peer]
    status, found = report_of([model, "--level", level, "--compare-layers", *flags], tmp_path)
    assert status == 0
    assert found["layers"]["wrong"] == 0
    assert found["layers"]["compared"] >= (
        12 if level == "graph" and not peer.endswith(".mlir") else 5
    )


@pytest.mark.parametrize("name", ["gpt2_prefill.noopt", "bert_qdq", "vit_b16.op20"])
def test_no_node_of_a_right_program_is_wrong(name: str, tmp_path: Path):
    """Of exporters' models: with nodes of constants, in codes."""
    path = str(Path(__file__).parents[1] / "models" / f"{name}.tiny.onnx")
    status, found = report_of([path, "--compare", "onnxruntime", "--compare-layers"], tmp_path)
    assert status == 0
    assert found["layers"]["compared"] > 10
    assert found["layers"]["wrong"] == 0


def test_a_file_of_outputs(model: str, samples: str, tmp_path: Path):
    y = str(tmp_path / "y.npz")
    assert ge_run([model, "--inputs", samples, "--outputs", y]) == 0
    flags = [model, "--inputs", samples, "--compare"]
    assert report_of([*flags, y], tmp_path)[1]["outputs"]["y"]["share"] == 0
    array = np.load(y)["y"]
    np.savez(y, **{"out:y": array + 1})
    status, found = report_of([*flags, y], tmp_path)
    assert status == 1
    assert "of the largest" in found["outputs"]["y"]["verdict"]
    assert ge_run([*flags, y, "--tolerance", "1"]) == 0
    assert ge_run([*flags, y, "--tolerance", "snr>=60"]) == 1


# ---- nodes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["f32", "fp16", "int8", "tiles"])
@pytest.mark.parametrize(
    "wrong",
    ["/0/MatMul3", "/2/MatMul13", pytest.param("/1/MatMul5", marks=pytest.mark.soak)],
)
def test_the_wrong_node_is_named(
    mode: str,
    wrong: str,
    model: str,
    samples: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("GE_TILES", str(int(mode == "tiles")))
    bad = network(tmp_path / "bad.onnx", wrong)
    flags = {"fp16": ["--precision", "fp16"], "tiles": ["--tiles", "all"],
             "int8": ["--quantize", "int8", "--calibration", samples]}.get(mode, [])  # fmt: skip
    flags = ["--inputs", samples, *flags, "--compare", "onnxruntime", "--compare-layers"]
    status, found = report_of([model, *flags], tmp_path)
    assert (status, found["layers"]["wrong"]) == (0, 0)
    _, found = report_of([bad, *flags, "--model", model], tmp_path)
    top = found["layers"]["nodes"][0]
    assert wrong in top.get("sources", [top["name"]])
    assert found["layers"]["wrong"] == 1
    assert wrong in capsys.readouterr().out.partition("wrong alone: ")[2].splitlines()[0]
    if mode != "int8":
        _, found = report_of([bad, *flags, "--model", model, "--level", "fused"], tmp_path)
        assert mode == "tiles" or found["layers"]["nodes"][0]["name"] == wrong


@pytest.mark.parametrize("mode", ["f32", "fp16", "int8"])
@pytest.mark.parametrize("peer", ["onnxruntime", "graph"])
def test_a_node_that_makes_much_of_rounding_is_not_to_blame(mode: str, peer: str, tmp_path: Path):
    """Softmaxes of large scores before the wrong node, in each block. (One that flips for a few
    samples alone is blamed: of six seeds for int8 that is so with 0.)"""
    samples = str(tmp_path / "x.npz")
    x = np.random.default_rng(1).standard_normal((64, WIDTH))
    np.savez(samples, x=x.astype(np.float32))
    wrong, good, bad = "/2/MatMul25", tmp_path / "good.onnx", tmp_path / "bad.onnx"
    network(good, noisy=200.0)
    network(bad, wrong, noisy=200.0)
    flags = {"fp16": ["--precision", "fp16"],
             "int8": ["--quantize", "int8", "--calibration", samples, "--tolerance", "snr>=30"],
             }.get(mode, [])  # fmt: skip
    with_peer = ["--model", str(good)] if peer == "onnxruntime" else []
    flags += ["--compare", str(good) if peer == "graph" else peer, *with_peer]
    flags += ["--inputs", samples, "--compare-layers"]
    _, found = report_of([str(good), *flags], tmp_path)
    assert found["layers"]["wrong"] == 0
    if mode == "int8":
        assert any(n["verdict"] == "as rounding does" for n in found["layers"]["nodes"])
    _, found = report_of([str(bad), *flags], tmp_path)
    top = found["layers"]["nodes"][0]
    assert found["layers"]["wrong"] == 1
    assert wrong in top.get("sources", [top["name"]])


def test_channels_that_were_divided_are_compared_as_in_the_model(tmp_path: Path):
    """Two convolutions between which equalize-channels divides."""
    rng, names = np.random.default_rng(3), ("v", "w")
    arrays = [rng.standard_normal((8, 8, 1, 1)).astype(np.float32) for _ in names]
    arrays[0] *= np.geomspace(0.01, 100, 8, dtype=np.float32).reshape(8, 1, 1, 1)
    arrays[1] /= np.geomspace(0.01, 100, 8, dtype=np.float32).reshape(1, 8, 1, 1)
    weights = [numpy_helper.from_array(a, n) for a, n in zip(arrays, names, strict=True)]
    nodes = [helper.make_node("Conv", ["x", "v"], ["a"], "one"),
             helper.make_node("Relu", ["a"], ["b"], "two"),
             helper.make_node("Conv", ["b", "w"], ["y"], "three")]  # fmt: skip
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 8, 4, 4]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    path = str(tmp_path / "c.onnx")
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    data = str(tmp_path / "x.npz")
    np.savez(data, x=rng.standard_normal((32, 8, 4, 4)).astype(np.float32))
    program = str(tmp_path / "q.mlir")
    flags = ["--quantize", "int8", "--calibration", data, "--mlir-print-debuginfo"]
    assert ge_compile([path, "-o", program, "--dim", "n=32", *flags]) == 0
    assert "graph.divided" in Path(program).read_text()
    flags = ["--inputs", data, "--compare", path, "--compare-layers"]
    status, found = report_of([program, *flags], tmp_path)
    assert status == 0
    assert found["layers"]["compared"] == 2
    assert min(node["snr_db"] for node in found["layers"]["nodes"]) > 30


def test_the_program_runs_once_and_the_peer_once_more_for_what_nodes_do_alone(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where the results of all nodes are too large to be kept, both run for each part of them.
    Further runs of the peer ask what rounding does, where a node is beyond the tolerance alone."""
    runs = {"peer": 0, "program": 0}

    def counted(kind: type, key: str) -> None:
        plain = kind.run

        def run(*args: Any, **how: Any) -> Any:
            runs[key] += 1
            return plain(*args, **how)

        monkeypatch.setattr(kind, "run", run)

    counted(Onnxruntime, "peer")
    counted(Session, "program")
    flags = [model, "--dim", "n=4", "--compare", "onnxruntime", "--compare-layers"]
    _, whole = report_of(flags, tmp_path)
    assert runs == {"peer": 2, "program": 1}
    monkeypatch.setattr(versus, "CHUNK", 700)
    _, parts = report_of(flags, tmp_path)
    assert runs["peer"] == 2 * runs["program"] > 6
    assert parts["layers"]["nodes"] == whole["layers"]["nodes"]
    monkeypatch.undo()
    counted(Onnxruntime, "peer")
    runs["peer"] = 0
    bad = network(tmp_path / "bad.onnx", "/1/MatMul5")
    report_of([bad, *flags[1:], "--model", model], tmp_path)
    assert runs["peer"] == 2 + nodes.TRIALS


def test_nodes_are_on_the_page(model: str, tmp_path: Path):
    bad, page = network(tmp_path / "bad.onnx", "/1/MatMul5"), tmp_path / "page.html"
    flags = ["--dim", "n=4", "--compare", model, "--compare-layers", "--html", str(page)]
    assert ge_run([bad, *flags]) == 1
    text = page.read_text()
    assert '"compared"' in text
    assert '"broken"' in text


# ---- what cannot be compared -------------------------------------------------------------------


def test_bad_input(model: str, samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def told(*flags: str) -> str:
        return refused([model, "--dim", "n=64", *flags], capsys)

    np.savez(tmp_path / "z.npz", z=np.zeros(3))
    assert "did you mean 'onnxruntime'" in told("--compare", "onnxruntim")
    line = told("--compare", str(tmp_path / "z.npz"))
    assert "no output of the program is in the file" in line
    assert "y: float32[64, 16]; the file has 'z'" in line
    assert "a .npz file has outputs alone" in told(
        "--compare", str(np_file(tmp_path, (64, WIDTH))), "--compare-layers"
    )
    other = network(tmp_path / "other.onnx", named="z")
    assert "no output has the same name: the program has 'y'" in told("--compare", other)
    assert "it takes onnxruntime, torch" in told("--compare", "m.pt")
    assert "torch runs programs of torch.export alone" in told("--compare", "torch")
    assert "--compare-layers is of --compare" in told("--compare-layers")
    assert "--compare needs numbers" in told("--compare", "onnxruntime", "--timing-only")
    assert "snr>=25" in told("--compare", "onnxruntime", "--tolerance", "good")
    assert "cannot open" in told("--compare", "no.npz")
    program = str(tmp_path / "p.mlir")
    assert ge_compile([model, "-o", program, "--dim", "n=64"]) == 0
    capsys.readouterr()
    assert "--model M.onnx" in refused([program, "--compare", "onnxruntime"], capsys)
    line = refused([program, "--compare", model, "--compare-layers"], capsys)
    assert "--mlir-print-debuginfo" in line


def np_file(folder: Path, shape: tuple[int, ...]) -> Path:
    np.savez(folder / "shape.npz", y=np.zeros(shape, np.float32))
    return folder / "shape.npz"


def test_outputs_of_another_shape(model: str, tmp_path: Path):
    flags = [model, "--dim", "n=4", "--compare", str(np_file(tmp_path, (3, WIDTH)))]
    status, found = report_of(flags, tmp_path)
    assert status == 1
    assert found["outputs"]["y"]["verdict"] == "its shape is [4, 16], not [3, 16]"


@pytest.mark.parametrize("peer", ["onnxruntime", "torch"])
def test_a_peer_that_is_not_installed(
    peer: str, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, peer, None)
    flags = ["--model", "m.pt2"] if peer == "torch" else []
    line = refused([model, "--dim", "n=4", "--compare", peer, *flags], capsys)
    assert f"{peer} is not installed" in line
    assert f"[{peers.EXTRAS[peer]}]'" in line


def test_a_model_that_a_peer_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """onnxruntime has no sum of bf16 on processors."""
    ports = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, [4]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])], "g", ports[:1], ports[1:]
    )
    path = str(tmp_path / "b.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    line = refused([path, "--compare", "onnxruntime"], capsys)
    assert "onnxruntime refuses the model" in line
    assert "b.onnx" in line
