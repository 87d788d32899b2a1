"""From a float model and samples of its inputs to integers: the whole way, on small models."""

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation

import ge
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.diagnostics import Diagnostic, Severity, diagnostic_handler
from ge.dialects.support.types import element_type
from ge.dialects.text.printing import op_text
from ge.lowering.driver.cache import Request
from ge.lowering.driver.calibration import table_for
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.tools.commands import ge_calibrate, ge_compile, ge_import
from ge.transforms.quantization.data import Samples
from ge.transforms.quantization.observe import Observer, Watcher
from ge.transforms.quantization.table import read_table

pytestmark = pytest.mark.usefixtures("without_programs")


def normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def save_model(path: Path, batch: Any = "N") -> Path:
    """A convolution, a function that has no sign, and a layer with an odd number of inputs."""
    weights = {
        "w1": normal(8, 3, 3, 3, seed=1) / 5,
        "b1": normal(8, seed=2),
        "w2": normal(8, 33, seed=3) / 3,
        "w3": normal(33, 5, seed=4) / 6,
        "b3": normal(5, seed=5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "w2"], ["m"], "hidden"),
        helper.make_node("Tanh", ["m"], ["t"], "tanh"),
        helper.make_node("Gemm", ["t", "w3", "b3"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(tmp_path / "net.onnx")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return save_samples(tmp_path / "x.npz", normal(40, 3, 8, 8, seed=9))


def save_samples(path: Path, x: Array) -> Path:
    np.savez(path, **{"in:x": x})
    return path


def outputs(program: "ge.Program", x: Array) -> Array:
    return ge.Session(program.module, program.payload).run({"x": x})["y"].astype(np.float64)


@cache
def floats(batch: int) -> tuple[Array, Array]:
    """Inputs, and the outputs of the float model for them."""
    with TemporaryDirectory() as folder:
        program = ge.compile(str(save_model(Path(folder) / "net.onnx")))
    x = normal(batch, 3, 8, 8, seed=11)
    return x, outputs(program, x)


def decibels(want: Array, got: Array) -> float:
    return float(10 * np.log10((want**2).sum() / max(((want - got) ** 2).sum(), 1e-30)))


def graph_text(model: Path, **options: Any) -> str:
    return op_text(compile_file(str(model), Options(**options), until="graph").module)


@pytest.mark.parametrize(("scheme", "least"), [("int8", 33), ("w8a16", 40), ("w4a16", 18)])
def test_the_numbers_stay_close(model: Path, data: Path, scheme: str, least: float):
    x, want = floats(6)
    program = ge.quantize(str(model), data, scheme)
    assert decibels(want, outputs(program, x)) > least


def test_layers_are_of_integers(model: Path, data: Path):
    options = Options(quantize="int8", calibration=str(data))
    program = compile_file(str(model), options, dims={"N": 4}, until="graph")
    main = next(iter(program.module.ops))
    layers = [op for op in main.walk() if isinstance(op, ConvOp | MatmulOp)]
    assert len(layers) == 3
    for op in layers:
        assert [element_type(v) for v in op.operands[:2]] == [i8, i8]
        assert element_type(op.results[0]) == i32


def test_any_batch_and_order_of_samples_gives_the_same_program(model: Path, tmp_path: Path):
    x = normal(75, 3, 8, 8, seed=9)
    shuffled = np.random.default_rng(1).permutation(x)
    files = [
        save_samples(tmp_path / "a.npz", x),
        save_samples(tmp_path / "b.npz", shuffled),
        save_samples(tmp_path / "c.npz", x[:11]),
        save_samples(tmp_path / "d.npz", x[11:]),
    ]
    tables: set[str] = set()
    for data in ([files[0]], [files[1]], files[2:]):
        out = tmp_path / "t.toml"
        flags = [flag for f in data for flag in ("--data", str(f))]
        assert ge_calibrate([str(model), *flags, "-o", str(out)]) == 0
        tables.add(out.read_text())
    assert len(tables) == 1


def test_a_table_gives_the_program_of_its_samples(model: Path, data: Path, tmp_path: Path):
    table = tmp_path / "t.toml"
    assert ge_calibrate([str(model), "--data", str(data), "-o", str(table)]) == 0
    assert list(read_table(table).ranges) == ["x", "flatten", "tanh"]
    texts = {graph_text(model, quantize="int8", calibration=str(f)) for f in (data, table)}
    assert len(texts) == 1


def test_an_edited_table_is_obeyed(model: Path, data: Path, tmp_path: Path):
    table = tmp_path / "t.toml"
    assert ge_calibrate([str(model), "--data", str(data), "-o", str(table)]) == 0
    text = table.read_text().replace("[ranges]", '[layers]\n"head" = "float"\n\n[ranges]')
    table.write_text(text)
    program = compile_file(
        str(model), Options(quantize="int8", calibration=str(table)), until="graph"
    )
    main = next(iter(program.module.ops))
    kinds = [element_type(op.lhs) == i8 for op in main.walk() if isinstance(op, MatmulOp)]
    assert kinds == [True, False]


def test_a_table_without_the_ranges_of_most_layers(
    model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    table = tmp_path / "t.toml"
    flags = ["--quantize", "int8", "--calibration", str(table), "--until", "graph"]
    flags += ["--export-qdq", str(tmp_path / "q.mlir")]
    table.write_text("[ranges]\nx = [-1.0, 1.0]\nflatten = [0.0, 1.0]\n")
    assert ge_compile([str(model), *flags]) == 0
    assert "no ranges" not in capfd.readouterr().err
    table.write_text("[ranges]\nx = [-1.0, 1.0]\n")
    assert ge_compile([str(model), *flags]) == 0
    what = (
        "t.toml has no ranges for 2 of 3 layers, which stay float: 'hidden', 'head'; make it anew"
    )
    assert capfd.readouterr().err.count(what) == 1
    table.write_text('[layers]\nhidden = "float"\n' + table.read_text())
    assert ge_compile([str(model), *flags]) == 0
    assert "no ranges" not in capfd.readouterr().err


def test_a_fixed_batch(tmp_path: Path, data: Path):
    model = save_model(tmp_path / "fixed.onnx", batch=1)
    x, want = floats(1)
    assert decibels(want, outputs(ge.quantize(str(model), data), x)) > 30


def test_a_module_in_memory(model: Path, data: Path):
    program = ge.load(str(model))
    ge.lower(
        program.module, Options(quantize="int8", calibration=str(data)), payload=program.payload
    )
    x, want = floats(6)
    assert decibels(want, outputs(program, x)) > 33


def test_layers_are_left_out(model: Path, data: Path, capfd: pytest.CaptureFixture[str]):
    flags = ["--quantize", "int8", "--calibration", str(data), "--remarks"]
    skip = ["--quantize-skip", "^head$,conv,nothing"]
    assert ge_compile([str(model), "--until", "graph", *flags, *skip]) == 0
    errors = capfd.readouterr().err
    assert "'head' stays float: it is left out by '^head$'" in errors
    assert "'conv' stays float: it is left out by 'conv'" in errors
    assert "'hidden' in int8" in errors
    assert errors.count("there is no layer 'nothing' to leave out") == 1
    assert errors.count("'hidden' in int8") == 1


def test_a_whole_name_is_that_layer_alone(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    text, type = (
        "func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {\n",
        "tensor<64x64xf32>",
    )
    for i, (x, name) in enumerate((("x", "/a/Conv"), ("0", "/a/Conv_2"), ("1", "/b/Conv"))):
        text += f"  %w{i} = graph.constant dense<0.5> : {type}\n  %{i} = graph.matmul %{x}, %w{i} "
        text += f': ({type}, {type}) -> {type} loc("{name}")\n'
    (tmp_path / "m.mlir").write_text(text + "  return %2 : tensor<64x64xf32>\n}\n")
    flags = [str(tmp_path / "m.mlir"), "--until", "graph", "--quantize", "w8a16", "--remarks"]
    for skip, left in (("/a/Conv", 1), ("/b/", 1), ("/Conv_", 2)):
        assert ge_compile([*flags, "--quantize-skip", skip, "-o", str(tmp_path / "o.mlir")]) == 0
        assert capfd.readouterr().err.count("it is left out by") == left


def test_the_cache_looks_at_the_samples(model: Path, data: Path, tmp_path: Path):
    def compiled(calibration: Path) -> str:
        options = Options(
            quantize="int8", calibration=str(calibration), cache_dir=str(tmp_path / "cache")
        )
        request = Request(str(model), options, str(tmp_path / "p.mlir"), dims={"N": 2})
        return request.run()

    other = tmp_path / "other.npz"
    shutil.copy(data, other)
    assert "from the cache" not in compiled(data)
    assert "from the cache" in compiled(other)
    save_samples(other, 2 * normal(40, 3, 8, 8, seed=9))
    assert "from the cache" not in compiled(other)


def test_one_sample_is_warned_about(model: Path, tmp_path: Path):
    told: list[Diagnostic] = []
    data = save_samples(tmp_path / "one.npz", normal(1, 3, 8, 8))
    with diagnostic_handler(told.append):
        graph_text(model, quantize="int8", calibration=str(data))
    warnings = [d.message for d in told if d.severity is Severity.WARNING]
    assert warnings == ["one sample alone says little about ranges; take a hundred"]


def test_samples_without_a_scheme_are_warned_about(
    model: Path, data: Path, capfd: pytest.CaptureFixture[str]
):
    assert ge_compile([str(model), "--dim", "N=2", "--calibration", str(data)]) == 0
    assert (
        "--calibration has nothing to do without --quantize or --precision"
        in capfd.readouterr().err
    )


def test_a_model_without_weights_can_be_timed(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    text = tmp_path / "net.mlir"
    assert ge_import([str(model), "-o", str(text), "--dim", "N=2"]) == 0
    text.with_suffix(".safetensors").unlink()
    capfd.readouterr()
    out = tmp_path / "p.mlir"
    assert ge_compile([str(text), "-o", str(out), "--quantize", "int8"]) == 0
    assert "the weights are not there" in capfd.readouterr().err
    assert out.read_text().count("xi8") > 3


# ---- what is refused -------------------------------------------------------------------------


def refused(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert ge_compile(arguments) == 1
    errors = capfd.readouterr().err
    assert len(errors.strip().splitlines()) == 1
    return errors


def test_int8_without_samples(model: Path, capfd: pytest.CaptureFixture[str]):
    errors = refused([str(model), "--quantize", "int8"], capfd)
    assert "int8 needs calibration; give --calibration X.npz" in errors


def test_an_unknown_scheme(model: Path, capfd: pytest.CaptureFixture[str]):
    errors = refused([str(model), "--quantize", "int3"], capfd)
    assert "one of int8, int16, " in errors
    assert "not 'int3'" in errors


Write = Callable[[Path], object]

BAD: list[tuple[str, Write, str]] = [
    ("x.npz", lambda p: save_samples(p, np.full((3, 3, 8, 8), np.nan, np.float32)),
     "sample 0 of input 'x' has nan"),
    ("x.npz", lambda p: np.savez(p, z=np.zeros(3)), "input 'x' is missing"),
    ("x.npz", lambda p: save_samples(p, normal(3, 3, 9, 8)), "has shape [3, 3, 9, 8], not x"),
    ("x.npz", lambda p: save_samples(p, normal(0, 3, 8, 8)), "there are no samples"),
    ("x.npz", lambda p: p.write_text("no"), "is no .npz file"),
    ("none.npz", lambda p: None, "cannot open"),
    ("t.toml", lambda p: p.write_text("[ranges"), "this is no calibration table"),
    ("t.toml", lambda p: p.write_text('model = "00"'), "the table is that of another model"),
    ("t.toml", lambda p: p.write_text("[ranges]\nrely = [0.0, 1.0]"),
     "the model has nothing named 'rely'; did you mean 'relu'?"),
    ("none.toml", lambda p: None, "cannot read the table"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "write", "message"), BAD)
def test_bad_calibration(
    model: Path, tmp_path: Path, name: str, write: Write, message: str,
    capfd: pytest.CaptureFixture[str],
):  # fmt: skip
    write(tmp_path / name)
    flags = ["--quantize", "int8", "--calibration", str(tmp_path / name)]
    assert message in refused([str(model), *flags], capfd)


def test_a_target_without_a_rate(
    model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    text = (Path(ge.__file__).parents[1] / "dialects/targets/910_merged.toml").read_text()
    target = tmp_path / "slow.toml"
    target.write_text("".join(line for line in text.splitlines(True) if line[:5] != "i8 = "))
    flags = ["--quantize", "int8", "--calibration", str(data), "--target", str(target)]
    assert "has no rate for matmuls of i8" in refused([str(model), *flags], capfd)


def test_large_values_are_seen_in_smaller_chunks(
    model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
):
    options = Options(quantize="int8", calibration=str(data))
    want = table_for(ge.load(str(model)), options, context()).ranges
    sizes: list[int] = []
    run = Observer.run

    def watched(self: Observer, samples: Samples, watchers: Mapping[Operation, Watcher]) -> None:
        sizes.append(samples.chunk)
        run(self, samples, watchers)

    monkeypatch.setattr(Observer, "run", watched)
    monkeypatch.setattr("ge.lowering.driver.calibration.MOST_BYTES", 5 * 8 * 8 * 8 * 4)
    got = table_for(ge.load(str(model)), options, context()).ranges
    assert set(sizes) == {5}
    for name, bounds in want.items():
        assert got[name] == pytest.approx(bounds, rel=1e-5)


def test_validation_of_a_quantized_program(
    model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    flags = ["--quantize", "int8", "--calibration", str(data), "--dim", "N=2", "--validate"]
    assert ge_compile([str(model), "-o", str(tmp_path / "p.mlir"), *flags]) == 0


def test_a_pattern_that_is_none(model: Path, data: Path, capfd: pytest.CaptureFixture[str]):
    flags = ["--quantize", "int8", "--calibration", str(data), "--quantize-skip", "(a"]
    assert "'(a' is no regular expression" in refused([str(model), *flags], capfd)


def test_a_program_is_not_quantized(
    model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    program = tmp_path / "p.mlir"
    assert ge_compile([str(model), "-o", str(program), "--dim", "N=2"]) == 0
    capfd.readouterr()
    flags = ["--quantize", "int8", "--calibration", str(data)]
    assert ge_compile([str(program), *flags]) == 1
    assert "a model is quantized at the graph level" in capfd.readouterr().err


def test_a_model_that_is_quantized_already(
    model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    path = tmp_path / "qdq.mlir"
    off = Options(quantize="int8", calibration=str(data), fusion="off")
    program = compile_file(str(model), off, dims={"N": 2}, until="graph")
    program.save(str(path), None)
    flags = ["--quantize", "int8", "--calibration", str(data)]
    assert "the model is quantized already" in refused([str(path), *flags], capfd)


def test_a_table_is_no_data(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert ge_calibrate([str(model), "--data", str(tmp_path / "t.toml")]) == 1
    assert "this is a table, no samples" in capfd.readouterr().err


def test_weights_that_are_zero_or_tiny(tmp_path: Path):
    """A channel of zeros, one of denormals, one beside which the bias is huge."""
    w = normal(6, 4, seed=1)
    w[:, 0], w[:, 1], w[:, 2] = 0, 1e-41, 1e-9
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], "layer"),
            helper.make_node("Add", ["m", "b"], ["y"], "bias"),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.full(4, 5, np.float32), "b")],
    )
    model = tmp_path / "tiny.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model
    )
    x = normal(50, 6, seed=2)
    np.savez(tmp_path / "x.npz", x=x)
    want = outputs(ge.compile(str(model)), x[:8])
    got = outputs(ge.quantize(str(model), tmp_path / "x.npz"), x[:8])
    assert decibels(want, got) > 40
    np.testing.assert_allclose(got[:, :3], 5, rtol=1e-3)


def test_sensitivity_needs_a_scheme(model: Path, data: Path, capfd: pytest.CaptureFixture[str]):
    flags = ["--data", str(data), "--precision", "fp16", "--sensitivity"]
    assert ge_calibrate([str(model), *flags]) == 1
    assert "sensitivity is that to quantization; give --quantize int8" in capfd.readouterr().err


def test_a_model_is_exported_to_a_file(model: Path, capfd: pytest.CaptureFixture[str]):
    flags = ["--quantize", "w8a16", "--export-qdq", "-"]
    assert "exported to a file, not to standard output" in refused([str(model), *flags], capfd)
