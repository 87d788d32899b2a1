"""Precision by a bound: the least and cheapest that meets it, told by layer, and written down."""

import json
import math
import os
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.support.errors import GeError
from ge.lowering.driver.calibration import table_for
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import Options
from ge.runtime.data.accuracy import Arrays, cosine, decibels, powers, worst
from ge.runtime.data.arrays import Array
from ge.tools.commands import ge_calibrate, ge_compile
from ge.tools.views.plots import decibel_bar, range_bar, ranges
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.choose_precision import Promotion, steps_of
from ge.transforms.quantization.table import Table, read_table

pytestmark = pytest.mark.usefixtures("without_programs")


def normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def uniform(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, (count, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three layers, the last of which reads squares, and an index."""
    weights = {f"w{i}": normal(16, 16, seed=i) / 4 for i in range(3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("Tanh", ["a"], ["t"], "tanh"),
        helper.make_node("MatMul", ["t", "w1"], ["b"], "second"),
        helper.make_node("Mul", ["b", "b"], ["p"], "square"),
        helper.make_node("MatMul", ["p", "w2"], ["y"], "third"),
        helper.make_node("ArgMax", ["y"], ["i"], "index", axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16]),
         helper.make_tensor_value_info("i", TensorProto.INT64, ["N"])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def save(path: Path, x: Array, **more: Array) -> Path:
    arrays: dict[str, Any] = {"in:x": x, **more}
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    x = uniform(80, seed=9)
    return save(tmp_path_factory.mktemp("data") / "x.npz", x, label=outputs(plain(model), x)["i"])


@cache
def plain(model: Path) -> "ge.Program":
    return ge.compile(str(model))


@cache
def within_39_db(model: Path, data: Path) -> "ge.Program":
    return ge.quantize(str(model), data, accuracy="snr>=39")


def outputs(program: "ge.Program", x: Array) -> dict[str, Array]:
    return ge.Session(program.module, program.payload).run({"x": x})


def measured(program: "ge.Program", model: Path, x: Array) -> float:
    return worst("snr", outputs(plain(model), x), outputs(program, x))


@cache
def layers_for(model: Path, data: Path, accuracy: str) -> dict[str, str]:
    options = Options(quantize="int8", calibration=str(data), accuracy=accuracy)
    return table_for(ge.load(str(model)), options, context()).layers


# ---- bounds ----------------------------------------------------------------------------------


def test_bounds_are_read():
    assert Accuracy.parsed("snr>=25") == Accuracy("snr", 25.0)
    assert Accuracy.parsed(" COS >= 9.99e-1 ") == Accuracy("cos", 0.999)
    assert str(Accuracy.parsed("snr >= 30.5 dB")) == "snr >= 30.5"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rms>=3", "snr or cos is expected at character 1"),
        ("snr>25", ">= is expected at character 4"),
        ("snr>=", "a number is expected at character 6"),
        ("snr>=25 %", "nothing is expected at character 9"),
    ],
)
def test_bounds_that_cannot_be_read(
    text: str, place: str, model: Path, data: Path, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(ValueError, match=place):
        Accuracy.parsed(text)
    with pytest.raises(GeError, match=place):
        ge.quantize(str(model), data, accuracy=text)
    flags = ["--quantize", "int8", "--calibration", str(data), "--accuracy", text]
    assert ge_compile([str(model), *flags]) == 1
    assert place in capfd.readouterr().err


def test_metrics():
    x = np.array([3.0, 4.0], np.float32)
    assert decibels(*powers(x, x)) == math.inf
    assert decibels(*powers(x, x * np.float32(1.1))) == pytest.approx(20, abs=1e-4)
    assert cosine(x, 2 * x) == pytest.approx(1)
    assert cosine(x, np.array([-4.0, 3.0])) == pytest.approx(0)
    assert cosine(0 * x, 0 * x) == 1
    masked = np.array([3.0, -np.inf], np.float32)
    assert decibels(*powers(masked, masked)) == math.inf
    assert decibels(*powers(x, masked)) == -math.inf
    assert worst("snr", {"a": x, "b": x}, {"a": x, "b": 0 * x}) == pytest.approx(0)
    with pytest.raises(GeError, match="no outputs of floats"):
        worst("snr", {"i": np.arange(3)}, {"i": np.arange(3)})


# ---- the choice ------------------------------------------------------------------------------


@given(
    st.floats(0, 9),
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=4),
)
def test_steps_of_a_layer_lead_to_the_last_precision(
    noise: float, choices: list[tuple[float, float]]
):
    named = [(str(i), left, us) for i, (left, us) in enumerate([*choices, (0.0, 10.0)])]
    steps = steps_of("a", noise, named)
    assert all(a.worth >= b.worth and b.noise > 0 for a, b in pairwise(steps))
    assert sum(s.noise for s in steps) <= noise + 1e-9


def test_the_step_that_is_worth_more_comes_first():
    cheap, dear = ("int16", 1.0, 1.0), ("float", 0.0, 9.0)
    assert steps_of("a", 9.0, [cheap, dear]) == [
        Promotion("a", "int16", 8.0, 1.0), Promotion("a", "float", 1.0, 8.0),
    ]  # fmt: skip
    assert steps_of("a", 9.0, [("int16", 8.5, 1.0), dear]) == [Promotion("a", "float", 9.0, 9.0)]


def test_a_bound_is_met_by_the_noisiest_layers(model: Path, data: Path):
    assert layers_for(model, data, "snr>=10") == {}
    some = layers_for(model, data, "snr>=39")
    assert 0 < len(some) < 3
    assert set(some.values()) <= {"float", "int16"}
    program = within_39_db(model, data)
    assert measured(program, model, uniform(80, seed=9)) >= 39
    assert layers_for(model, data, "cos>=0.99995")


def test_the_order_of_samples_changes_nothing(model: Path, data: Path, tmp_path: Path):
    with np.load(data) as file:
        x = file["in:x"]
    shuffled = save(tmp_path / "y.npz", np.random.default_rng(1).permutation(x))
    assert layers_for(model, data, "snr>=39") == layers_for(model, shuffled, "snr>=39")


def test_a_table_has_the_choice(
    model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    table, report = tmp_path / "t.toml", tmp_path / "r.json"
    flags = ["--data", str(data), "-o", str(table), "--accuracy", "snr>=39", "--sensitivity"]
    assert ge_calibrate([str(model), *flags]) == 0
    header, *rows = capfd.readouterr().out.splitlines()
    assert header.split() == [
        *("layer", "op", "in", "alone", "accumulated", "range", "saturated", "extra", "us", "why"),
    ]
    assert len(rows) == 3
    kept = read_table(table).layers
    assert [row.split()[0] for row in rows if "snr >= 39 asks for it" in row] == list(kept)
    flags = ["--quantize", "int8", "--calibration", str(table), "--report", str(report)]
    flags += ["--target", "910_merged"]  # whose cores multiply 16 bits
    assert ge_compile([str(model), "--dim", "N=2", *flags]) == 0
    told = json.loads(report.read_text())["quantization"]
    assert told["integer"] + told["float"] == len(told["layers"]) == 3
    reasons = {e["name"]: e.get("reason") for e in told["layers"] if e["scheme"] != "int8"}
    assert list(reasons) == [name for name in ("first", "second", "third") if name in kept]
    assert "the accuracy" not in capfd.readouterr().err


def test_a_page_shows_noise_and_ranges(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Written where there is no display; it loads nothing."""
    monkeypatch.delenv("DISPLAY", raising=False)
    table, page = tmp_path / "t.toml", tmp_path / "p.html"
    flags = ["--data", str(data), "-o", str(table), "--plot", str(page)]
    assert ge_calibrate([str(model), *flags]) == 0
    text = page.read_text("utf-8")
    for name in ("first", "second", "third", *read_table(table).ranges):
        assert f"<td>{name}</td>" in text
    assert text.count("<svg") == 2 * 3 + len(read_table(table).ranges)
    assert re.search(
        r"int8: 3 of 3 layers are quantized; [\d.]+ dB of &#x27;y&#x27; are left", text
    )
    assert not re.search(r"<script|https?://|src=", text)


def test_bars_say_what_is_much_noise():
    kinds = [re.findall(r'class="(\w+)" width', bar)[1] for bar in map(decibel_bar, (20, 30, 50))]
    assert kinds == ["bad", "fair", "good"]
    assert decibel_bar(None) == ""
    assert decibel_bar(math.inf).endswith("no noise")
    assert 'width="1.0"' in range_bar(0.0, 0.0, 0.0)
    assert "No activation has a range" in ranges(Table())
    assert "&lt;b&gt;" in ranges(Table(ranges={"<b>": (-1.0, 2.0)}))


def test_the_report_has_what_was_measured(model: Path, data: Path):
    program = within_39_db(model, data)
    told = program.report()["quantization"]["layers"]
    assert all(entry["alone_db"] > 20 and "extra_us" in entry for entry in told)
    assert any(entry.get("reason") == "snr >= 39 asks for it" for entry in told)
    unbound = ge.quantize(str(model), data).report()["quantization"]
    assert unbound["layers"][0] == {"name": "first", "op": "graph.matmul", "scheme": "int8"}
    assert "quantization" not in plain(model).report()


# ---- scores of users -------------------------------------------------------------------------


def right(outputs: Arrays, labels: Arrays) -> float:
    return float((outputs["i"] == labels["label"]).mean())


def test_a_score_of_outputs_and_labels(model: Path, tmp_path: Path):
    x = uniform(240, seed=9)
    label = outputs(plain(model), x)["i"]
    data = save(tmp_path / "x.npz", x, label=label)
    lenient = ge.quantize(str(model), data, accuracy=(right, 1.0))
    strict = ge.quantize(str(model), data, accuracy=(right, 0.01))
    assert lenient.report()["quantization"]["integer"] == 3
    told = strict.report()["quantization"]["layers"]
    # fitted weights come first, then layers in floats
    assert any("fitted_db" in entry or entry["scheme"] == "float" for entry in told), told
    assert right(outputs(strict, x), {"label": label}) >= 0.99


def fails(outputs: Arrays, labels: Arrays) -> float:
    return float(labels["none"].mean())


BAD: list[tuple[Any, str]] = [
    (fails, "'fails' failed: KeyError: 'none'; it is called with outputs 'y', 'i' and labels "
     "'label', each a dict of arrays"),
    (lambda outputs, labels: math.nan, "gave nan"),  # pyright: ignore[reportUnknownLambdaType]
    ((right, -1), "right loss <= -1 cannot be met: outputs have"),
    (3, "accuracy is a bound, a function, or a function and a loss, not 3"),
    ((len,), "accuracy is a bound, a function, or a function and a loss, not (<built-in"),
    ((len, "x"), "accuracy is a bound, a function, or a function and a loss, not (<built-in"),
    (("x", 1.0), "accuracy is a bound, a function, or a function and a loss, not ('x', 1.0)"),
]  # fmt: skip


@pytest.mark.parametrize(("score", "message"), BAD)
def test_scores_that_do_not_work(model: Path, data: Path, score: Any, message: str):
    with pytest.raises(GeError) as error:
        ge.quantize(str(model), data, accuracy=score)
    assert message in str(error.value)


# ---- what is refused -------------------------------------------------------------------------


def test_an_accuracy_that_cannot_be_met(model: Path, data: Path, capfd: pytest.CaptureFixture[str]):
    flags = ["--quantize", "int8", "--calibration", str(data), "--accuracy", "snr>=300"]
    assert ge_compile([str(model), *flags]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "snr >= 300 cannot be met: outputs have" in line
    assert re.search(r"dB with all layers quantized, [\d.]+ dB with '\w+' alone; ask for", line)


Told = Callable[[list[str]], str]


@pytest.fixture
def told(model: Path, capfd: pytest.CaptureFixture[str]) -> Told:
    def told(flags: list[str]) -> str:
        ge_compile([str(model), "--dim", "N=2", *flags])
        return capfd.readouterr().err

    return told


def test_an_accuracy_needs_samples(told: Told, data: Path, tmp_path: Path):
    asked = ["--quantize", "w8a16", "--accuracy", "snr>=25"]
    assert "an accuracy is measured on samples; give --calibration X.npz" in told(asked)
    table = tmp_path / "t.toml"
    table.write_text("[ranges]\nx = [-1.0, 1.0]\n")
    asked[1] = "int8"
    assert "for an accuracy give samples" in told([*asked, "--calibration", str(table)])
    asked = ["--accuracy", "snr>=25"]
    assert "--accuracy has nothing to do without --quantize or --precision" in told(asked)
    asked += ["--precision", "fp16"]
    assert "an accuracy is measured on samples; give --calibration X.npz" in told(asked)
    assert "has nothing to do" not in told([*asked, "--calibration", str(data)])


def test_little_accuracy_is_told_with_its_layers(told: Told, model: Path, data: Path):
    text = told(["--quantize", "w4a16", "--calibration", str(data)])
    assert "warning: w4a16 leaves " in text
    assert "of 'y' on the samples; most cost '" in text
    assert "dB alone): --fit-weights rounds weights by the samples, --quantize-skip '" in text
    assert "--accuracy 'snr>=25' as many as that takes" in text
    found = ge.compile(str(model), quantize="w4a16", calibration=data)
    assert 0.5 < found.report()["quantization"]["unchanged"]["i"] < 1
    assert "% of 'i' unchanged" in found.summary("net")
    assert "leaves" not in told(["--quantize", "int8", "--calibration", str(data)])


def test_layers_are_floats_where_outputs_would_keep_little(
    monkeypatch: pytest.MonkeyPatch, model: Path, data: Path
):
    monkeypatch.setattr("ge.transforms.quantization.choose_precision.LITTLE", 40.0)
    found = ge.quantize(str(model), data, ranges="minmax", time_limit=900)
    told = found.report()["quantization"]
    floats = [entry["name"] for entry in told["layers"] if entry["scheme"] == "float"]
    assert told["left_db"]["y"] > 39
    assert len(floats) == told["mended"]["layers"] > 0
    assert 0 <= told["mended"]["time"] <= 0.1
    assert "layers in floats, 0." in found.summary("net")


def test_strange_samples_are_told(told: Told, tmp_path: Path):
    x, files = uniform(40, seed=3), [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file, scale in zip(files, (1, 255), strict=True):
        np.savez(file, x=x * np.float32(scale))
    both = os.pathsep.join(map(str, files))
    assert "b.npz: is one of them scaled?" in told(["--quantize", "int8", "--calibration", both])
    np.savez(files[0], x=np.zeros_like(x))
    text = told(["--quantize", "int8", "--calibration", str(files[0])])
    assert "input 'x' is 0 everywhere in the samples: no range to see" in text


def test_strange_batches_of_programs_are_told(model: Path):
    x = uniform(40, seed=3)
    for what, scales in (("0 everywhere", (0,)), ("batch 2 .*: is one of them scaled", (1, 255))):
        with pytest.warns(UserWarning, match=what):
            ge.quantize(str(model), ({"x": x * np.float32(scale)} for scale in scales))


def test_weights_alone_are_chosen_from_too(told: Told, data: Path):
    flags = ["--quantize", "w4a16", "--calibration", str(data), "--accuracy", "snr>=20"]
    assert "float: snr >= 20 asks for it" in told([*flags, "--remarks"])


def test_an_infinite_output_is_an_error_that_names_the_place(tmp_path: Path):
    """Logarithms of what floats leave just above zero."""
    x, weight = uniform(40, seed=3), normal(16, 16, seed=1)
    weights = {"w": weight, "v": weight.T, "c": (x @ weight).min(0) - 1e-3}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Sub", ["a", "c"], ["s"], "less"),
        helper.make_node("Log", ["s"], ["l"], "logarithm"),
        helper.make_node("MatMul", ["x", "v"], ["z"], "second"),
        helper.make_node("Add", ["l", "z"], ["y"], "sum"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 16]) for n in "xy"]
    arrays = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], arrays)
    opsets = [helper.make_opsetid("", 17)]
    path, data = tmp_path / "m.onnx", tmp_path / "x.npz"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.savez(data, x=x)
    what = r"int8 makes output 'y' infinite or nan .*first in 'logarithm' .*behind 'first'"
    with pytest.raises(GeError, match=f"{what}.*--quantize-skip 'first' leaves"):
        ge.compile(str(path), quantize="int8", calibration=data)
    ge.compile(str(path), quantize="int8", calibration=data, quantize_skip=("first",))
    found = ge.compile(str(path), quantize="int8", calibration=data, accuracy="snr>=20")
    assert found.report()["quantization"]["left_db"]["y"] >= 20
