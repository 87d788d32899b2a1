"""Quantized models as ONNX: what other tools compute from them, what they are called, what they
become when they are read again."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import i8, i32

import ge
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.types import element_type
from ge.lowering.driver.calibration import run_quietly
from ge.lowering.driver.compiler import context, load
from ge.lowering.onnx.export import exporter
from ge.lowering.onnx.export.exporter import model_and_weights, write_model
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import to_quantized
from ge.runtime.data.arrays import Array
from ge.runtime.data.files import Outputs
from ge.tools.commands import ge_compile
from ge.transforms.quantization.data import Calibration

from .test_quantize import decibels, normal, outputs, save_model, save_samples

pytestmark = pytest.mark.usefixtures("without_programs")

MODELS = Path(__file__).parents[1] / "models"
NAMES = {p.stem for p in MODELS.glob("*.npz")}
LARGER = NAMES - {"if_cond.tiny", "loop_rnn.tiny"}


def exported(path: Path | str) -> ModelProto:
    """The graph level of a model, as ONNX."""
    program = load(str(path))
    options = Options()
    run_quietly(to_quantized(options), program.module, program, options, context(), Calibration())
    return model_and_weights(program.module, program.payload, "main")[0]


def module_of(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text(text)
    return path


def compared(text: str, tmp_path: Path, **arrays: Array) -> None:
    """ONNX's reference computes what ge does, of inputs named a, b, ..."""
    path = module_of(text, tmp_path)
    names = dict(zip("abcdefgh", arrays, strict=False))
    program = ge.compile(str(path), fusion="off")
    feeds = {n: arrays[k] for n, k in names.items()}
    want = ge.Session(program.module, program.payload).run(feeds)
    got = ReferenceEvaluator(exported(path)).run(None, feeds)
    for w, g in zip(want.values(), got, strict=True):
        assert w.shape == g.shape
        assert w.dtype == g.dtype
        np.testing.assert_allclose(w.astype(float), g.astype(float), rtol=2e-3, atol=2e-5)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(tmp_path / "net.onnx")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return save_samples(tmp_path / "x.npz", normal(16, 3, 8, 8, seed=9))


def reference(path: Path, x: Array) -> Array:
    return np.asarray(ReferenceEvaluator(str(path)).run(None, {"x": x})[0], np.float64)


# ---- quantized models ----------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "opset"), [("int8", 20), ("w4a16", 21)])
def test_others_compute_the_same(model: Path, data: Path, tmp_path: Path, scheme: str, opset: int):
    path, x = tmp_path / "q.onnx", normal(4, 3, 8, 8, seed=11)
    dims = {"N": 4}
    program = ge.quantize(str(model), data, scheme, dims=dims, export_qdq=path)
    written = onnx.load(path)
    onnx.checker.check_model(written, full_check=True)
    assert written.opset_import[0].version == opset
    ours = outputs(program, x)
    assert decibels(ours, reference(path, x)) > 60
    again = ge.compile(str(path))
    assert np.array_equal(outputs(again, x), ours)
    kinds = [element_type(op.results[0]) for op in layers_of(path)]
    assert kinds == [i32] * 3 if scheme == "int8" else i8 not in kinds


def layers_of(path: Path) -> list[Any]:
    program = load(str(path))
    from ge.lowering.driver.compiler import lower_program

    lower_program(program, Options(), until="graph")
    main = next(iter(program.module.ops))
    return [op for op in main.walk() if isinstance(op, MatmulOp | ConvOp)]


def test_weights_beyond_one_file_are_beside_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program, path = load(str(model)), tmp_path / "q.onnx"
    whole = model_and_weights(program.module, program.payload, "main")[0]
    monkeypatch.setattr(exporter, "SMALL", 64)
    monkeypatch.setattr(exporter, "MOST_BYTES", 500)
    with Outputs() as out:
        write_model(out, str(path), *model_and_weights(program.module, program.payload, "main"))
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    beside = [t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL]
    locations = {e.value for t in beside for e in t.external_data if e.key == "location"}
    assert locations == {"q.onnx.data"}
    assert [t.name for t in beside] == [t.name for t in tensors if len(t.raw_data) == 0]
    onnx.checker.check_model(str(path), full_check=True)
    for got, want in zip(onnx.load(path).graph.initializer, whole.graph.initializer, strict=True):
        assert (got.name, got.raw_data) == (want.name, want.raw_data)
    for name in ("q.onnx", "q.onnx.data"):
        with pytest.raises(ge.GeError, match="it is an input"), Outputs([tmp_path / name]) as out:
            write_model(out, str(path), *model_and_weights(program.module, program.payload, "main"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "q.onnx", "q.onnx.data"]


def test_recurrent_layers(tmp_path: Path):
    def layer(kind: str, gates: int, directions: int, **more: Any) -> onnx.NodeProto:
        for i, shape in enumerate(((gates * 3, 4), (gates * 3, 3), (2 * gates * 3,))):
            weights[f"{kind}{i}"] = normal(directions, *shape, seed=gates + i)
        inputs = ["x", *(f"{kind}{i}" for i in range(3))]
        results = [f"y{kind}{i}" for i in range(3 if kind == "LSTM" else 2)]
        names.extend(results)
        return onnx.helper.make_node(kind, inputs, results, hidden_size=3, **more)

    names: list[str] = []
    weights: dict[str, Array] = {}
    both = {"direction": "bidirectional", "activation_alpha": [0.3], "activation_beta": [0.4, 0.1]}
    functions = ["HardSigmoid", "Tanh", "Sigmoid", "Affine"]
    nodes = [
        layer("LSTM", 4, 1, direction="reverse", clip=0.5, input_forget=1),
        layer("GRU", 3, 2, linear_before_reset=1, activations=functions, **both),
        layer("RNN", 1, 1, activations=["LeakyRelu"]),
    ]
    info, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "net", [info("x", number, (5, 2, 4))], [info(n, number, None) for n in names],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), first)
    onnx.save(exported(first), second)
    x = normal(5, 2, 4, seed=9)
    want, got = (
        ge.Session(p.module, p.payload).run({"x": x})
        for p in (ge.compile(str(path), fusion="off") for path in (first, second))
    )
    assert all(np.array_equal(want[n], got[n]) for n in names)


def test_codes_with_a_sign_whose_scales_are_computed(tmp_path: Path):
    """For any number of rows: no zero point states the type."""
    text = """func.func @main(%x: tensor<?x8xf32> {graph.name = "x"}) -> tensor<?x8xf32> {
      %w = graph.constant dense<[[1.0, -0.5, 0.25, 3.0, 1.5, -1.0, 2.0, 0.5]]> : tensor<1x8xf32>
      %e = graph.constant dense<1.0> : tensor<8x1xf32>
      %v = graph.mul %e, %w : (tensor<8x1xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
      %0 = graph.matmul %x, %v : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
      func.return %0 : tensor<?x8xf32>
    }"""
    path, x = tmp_path / "q.onnx", normal(5, 8, seed=1)
    program = ge.compile(str(module_of(text, tmp_path)), quantize="dynamic", export_qdq=path)
    session = ge.Session(program.module, program.payload)
    (ours,) = session.run({"x": x}).values()
    onnx.checker.check_model(str(path), full_check=True)
    assert decibels(ours.astype(np.float64), reference(path, x)) > 60


def test_names_and_shapes_are_kept(model: Path, data: Path, tmp_path: Path):
    path = tmp_path / "q.onnx"
    ge.quantize(str(model), data, export_qdq=path)
    graph = onnx.load(path).graph
    (x,), (y,) = graph.input, graph.output
    assert (x.name, y.name) == ("x", "y")
    assert [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim] == ["N", 3, 8, 8]
    assert [d.dim_value for d in y.type.tensor_type.shape.dim] == [0, 5]
    assert {"conv", "relu", "hidden", "tanh"} <= {n.name for n in graph.node}
    weights = {i.name: i.data_type for i in graph.initializer}
    assert onnx.TensorProto.INT8 in weights.values()
    biases = [i for i in graph.initializer if i.data_type == onnx.TensorProto.INT32]
    assert len(biases) == 3  # one is what the correction of bias adds


def test_a_bias_beyond_32_bits_stays_float(tmp_path: Path, data: Path):
    path, out = save_model(tmp_path / "net.onnx"), tmp_path / "q.onnx"
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name == "b1":
            big = onnx.numpy_helper.to_array(tensor) + np.float32(3e7)
            tensor.CopyFrom(onnx.numpy_helper.from_array(big, "b1"))
    onnx.save(model, path)
    ge.quantize(str(path), data, export_qdq=out)
    graph = onnx.load(out).graph
    (conv,) = (n for n in graph.node if n.op_type == "Conv")
    (bias,) = (i for i in graph.initializer if i.name == conv.input[2])
    assert bias.data_type == onnx.TensorProto.FLOAT


def test_biases_of_layers_of_floats_of_8_bits_stay_float(model: Path, data: Path, tmp_path: Path):
    path, x = tmp_path / "q.onnx", normal(4, 3, 8, 8, seed=11)
    program = ge.quantize(str(model), data, "fp8", target="950pr", export_qdq=path)
    kinds = {i.data_type for i in onnx.load(path).graph.initializer}
    assert onnx.TensorProto.FLOAT8E4M3FN in kinds
    assert onnx.TensorProto.INT32 not in kinds
    assert decibels(outputs(program, x), reference(path, x)) > 60


def test_as_text_that_becomes_the_same_program(model: Path, data: Path, tmp_path: Path):
    text, x = tmp_path / "q.mlir", normal(4, 3, 8, 8, seed=11)
    program = ge.quantize(str(model), data, export_qdq=text)
    assert "graph.quantize" in text.read_text()
    assert np.array_equal(outputs(ge.compile(str(text)), x), outputs(program, x))


def test_a_quantized_model_takes_the_form(model: Path, data: Path, tmp_path: Path):
    first, second = tmp_path / "q.onnx", tmp_path / "r.onnx"
    ge.quantize(str(model), data, export_qdq=first)
    ge.compile(str(first), export_qdq=second)
    x = normal(4, 3, 8, 8, seed=11)
    assert decibels(reference(first, x), reference(second, x)) > 60


# ---- single ops, against ONNX's reference ------------------------------------------------------

HEAD = 'func.func @main(%q: tensor<2x4x3x8x{t}> {{graph.name = "a"}}, %k: tensor<2x{h}x5x8x{t}> \
{{graph.name = "b"}}, %v: tensor<2x{h}x5x6x{t}> {{graph.name = "c"}}'
SOURCES = "tensor<2x4x3x8x{t}>, tensor<2x{h}x5x8x{t}>, tensor<2x{h}x5x6x{t}>"
TYPES = f"({SOURCES}) -> tensor<2x4x3x6x{{t}}>"


@pytest.mark.parametrize(
    ("options", "heads", "element"),
    [
        ("undefined nan", 4, "f32"),
        ("causal true", 4, "f32"),
        ("causal true left_window 1", 2, "f32"),
        ("offset 2 causal true softcap 2.0", 1, "f32"),
        ("right_window 1 scale 0.5", 2, "f16"),
        ("undefined guard left_window 0 right_window 0", 4, "f32"),
    ],
)
def test_attention(options: str, heads: int, element: str, tmp_path: Path):
    text = (HEAD + ") -> tensor<2x4x3x6x{t}> {{\n %0 = graph.attention %q, %k, %v ").format(
        t=element, h=heads
    )
    types = TYPES.format(t=element, h=heads)
    text += f"{options} : {types}\n func.return %0 : tensor<2x4x3x6x{element}>\n}}"
    dtype = {"f32": np.float32, "f16": np.float16}[element]
    q, k, v = (
        normal(*dims, seed=s).astype(dtype)
        for s, dims in enumerate(((2, 4, 3, 8), (2, heads, 5, 8), (2, heads, 5, 6)))
    )
    compared(text, tmp_path, q=q, k=k, v=v)


@pytest.mark.parametrize("undefined", ["zero", "nan", "guard"])
def test_attention_with_masks_and_lengths(undefined: str, tmp_path: Path):
    text = (
        HEAD.format(t="f32", h=4)
        + ', %m: tensor<3x5xi1> {graph.name = "d"}, %n: tensor<2xi64> {graph.name = "e"})'
        + " -> tensor<2x4x3x6xf32> {\n %0 = graph.attention %q, %k, %v mask %m "
        + f"key_lengths %n causal true undefined {undefined} : "
        + f"{TYPES.format(t='f32', h=4).replace(') ->', ', tensor<3x5xi1>, tensor<2xi64>) ->')}\n"
        + " func.return %0 : tensor<2x4x3x6xf32>\n}"
    )
    q, k, v = normal(2, 4, 3, 8), normal(2, 4, 5, 8, seed=1), normal(2, 4, 5, 6, seed=2)
    mask = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 1, 1, 1]], bool)
    compared(text, tmp_path, q=q, k=k, v=v, m=mask, n=np.array([5, 4]))


def test_sums_that_are_not_rounded(tmp_path: Path):
    """ONNX has no product of f16 that is f32: its operands are cast."""
    text = """func.func @main(%x: tensor<4x6xf16> {graph.name = "a"},
        %y: tensor<6x5xf16> {graph.name = "b"}) -> tensor<4x5xf32> {
      %0 = graph.matmul %x, %y to f32 : (tensor<4x6xf16>, tensor<6x5xf16>) -> tensor<4x5xf32>
      func.return %0 : tensor<4x5xf32>
    }"""
    x, y = (normal(*s, seed=s[0]).astype(np.float16) for s in ((4, 6), (6, 5)))
    compared(text, tmp_path, a=x, b=y)


@pytest.mark.parametrize("turned", [False, True])
def test_groups(turned: bool, tmp_path: Path):
    w, flag = ("tensor<4x5x3xf32>", " transpose_rhs true") if turned else ("tensor<4x3x5xf32>", "")
    text = f"""func.func @main(%x: tensor<6x2x3xf32> {{graph.name = "a"}},
        %w: {w} {{graph.name = "b"}}, %g: tensor<6xi64> {{graph.name = "c"}})
        -> tensor<6x2x5xf32> {{
      %0 = graph.grouped_matmul %x, %w groups %g{flag}
        : (tensor<6x2x3xf32>, {w}, tensor<6xi64>) -> tensor<6x2x5xf32>
      func.return %0 : tensor<6x2x5xf32>
    }}"""
    shape = (4, 5, 3) if turned else (4, 3, 5)
    groups = np.array([0, 3, 1, 3, -1, 2])
    compared(text, tmp_path, a=normal(6, 2, 3), b=normal(*shape, seed=1), c=groups)


@pytest.mark.parametrize(
    "options",
    [
        "",
        "interleaved true",
        "full_tables true",
        "interleaved true full_tables true",
    ],
)
def test_rotary(options: str, tmp_path: Path):
    size = 4 if "full" in options else 2
    table = f"tensor<3x{size}xf32>"
    text = f"""func.func @main(%x: tensor<2x3x6xf32> {{graph.name = "a"}},
        %c: {table} {{graph.name = "b"}}, %s: {table} {{graph.name = "c"}}) -> tensor<2x3x6xf32> {{
      %0 = graph.rotary_embedding %x, %c, %s {options}
        : (tensor<2x3x6xf32>, {table}, {table}) -> tensor<2x3x6xf32>
      func.return %0 : tensor<2x3x6xf32>
    }}"""
    x, c, s = normal(2, 3, 6), normal(3, size, seed=1), normal(3, size, seed=2)
    compared(text, tmp_path, x=x, c=c, s=s)


@pytest.mark.parametrize(
    ("op", "scale"),
    [
        ("layer_norm %x, %s, %b axis 1", "tensor<4x6xf32>"),
        ("layer_norm %x, %s, %b axis 1", "tensor<4x1xf32>"),
        ("layer_norm %x, %s, %b", "tensor<6xf32>"),
        ("group_norm %x, %s, %b groups 2", "tensor<4xf32>"),
    ],
)
def test_norms(op: str, scale: str, tmp_path: Path):
    text = f"""func.func @main(%x: tensor<2x4x6xf32> {{graph.name = "a"}},
        %s: {scale} {{graph.name = "b"}}, %b: {scale} {{graph.name = "c"}}) -> tensor<2x4x6xf32> {{
      %0 = graph.{op} : (tensor<2x4x6xf32>, {scale}, {scale}) -> tensor<2x4x6xf32>
      func.return %0 : tensor<2x4x6xf32>
    }}"""
    dims = tuple(int(d) for d in scale[7:-5].split("x"))
    compared(text, tmp_path, x=normal(2, 4, 6), s=normal(*dims, seed=1), b=normal(*dims, seed=2))


@pytest.mark.parametrize(
    "op",
    [
        "gelu %x", 'gelu %x approximate tanh', 'gelu %x approximate sigmoid',
        "silu %x", "silu %x alpha 0.5", "elu %x alpha 0.7",
    ],
)  # fmt: skip
def test_activations(op: str, tmp_path: Path):
    text = f"""func.func @main(%x: tensor<3x4xf32> {{graph.name = "a"}}) -> tensor<3x4xf32> {{
      %0 = graph.{op} : (tensor<3x4xf32>) -> tensor<3x4xf32>
      func.return %0 : tensor<3x4xf32>
    }}"""
    compared(text, tmp_path, x=normal(3, 4))


def test_outputs_that_are_inputs_constants_or_twice_there(tmp_path: Path):
    text = """func.func @main(%x: tensor<2xf32> {graph.name = "a"}) -> (
        tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>) {
      %0 = graph.relu %x : (tensor<2xf32>) -> tensor<2xf32>
      %1 = graph.constant dense<3.0> : tensor<f32>
      func.return %0, %0, %x, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>
    }"""
    compared(text, tmp_path, x=normal(2))


# ---- float models, by way of our own importer --------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "if_cond.tiny",
        "loop_rnn.tiny",
        *(pytest.param(n, marks=pytest.mark.soak) for n in sorted(LARGER)),
    ],
)
def test_there_and_back(name: str, tmp_path: Path):
    path, npz = tmp_path / "again.onnx", np.load(MODELS / f"{name}.npz")
    onnx.save(exported(MODELS / f"{name}.onnx"), path)
    feeds = {k[3:]: npz[k] for k in npz.files if k.startswith("in:")}
    shapes = {k: v.shape for k, v in feeds.items()}
    program = ge.compile(str(path), shapes=shapes)
    got = ge.Session(program.module, program.payload).run(feeds)
    for name_out, y in got.items():
        want = npz[f"out:{name_out}"]
        assert y.shape == want.shape
        assert decibels(want.astype(np.float64), y.astype(np.float64) + 1e-30) > 50


# ---- what is refused ---------------------------------------------------------------------------


def refused(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert ge_compile([str(a) for a in arguments]) == 1
    return capfd.readouterr().err


def test_a_float_model(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    out = tmp_path / "q.onnx"
    error = refused(capfd, model, "--export-qdq", out)
    assert "net.onnx: error: the model is not quantized" in error
    assert "give --quantize int8" in error
    assert not out.exists()


def test_files_that_are_in_use(model: Path, data: Path, capfd: pytest.CaptureFixture[str]):
    quantized = (model, "--quantize", "w8a16")
    assert "it is an input" in refused(capfd, *quantized, "--export-qdq", model)
    both = ("-o", data.with_name("o.mlir"), "--export-qdq", data.with_name("o.mlir"))
    assert "two outputs go to" in refused(capfd, *quantized, *both)


def test_a_program(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    ge_compile([str(model), "-o", str(tmp_path / "p.mlir")])
    error = refused(capfd, tmp_path / "p.mlir", "--export-qdq", tmp_path / "q.onnx")
    assert "is exported from the graph level; this is at the program level" in error


@pytest.mark.parametrize(
    ("op", "types", "reason"),
    [
        ("graph.cumulative prod %x axis 0", "(tensor<4xf32>) -> tensor<4xf32>", "newer opset"),
        ("graph.bitcast %x to i32", "(tensor<4xf32>) -> tensor<4xi32>", "ONNX has no form of it"),
    ],
)
def test_an_op_without_a_form(op: str, types: str, reason: str, tmp_path: Path):
    result = types.rpartition("-> ")[2]
    text = f"""func.func @main(%x: tensor<4xf32>) -> {result} {{
      %0 = {op} : {types}
      func.return %0 : {result}
    }}"""
    with pytest.raises(ge.GeError, match=reason) as raised:
        exported(module_of(text, tmp_path))
    message = str(raised.value)
    assert op.split()[0] in message
    assert "m.mlir:2" in message
    assert "--export-qdq M.mlir" in message


def test_attention_that_rounds_in_between(tmp_path: Path):
    t = "tensor<1x2x4x8xf32>"
    grid = "score_scale 0.5 score_zero_point 0 : i8"
    text = f"""func.func @main(%x: {t}) -> {t} {{
      %0 = graph.attention %x, %x, %x {grid} : ({t}, {t}, {t}) -> {t}
      func.return %0 : {t}
    }}"""
    with pytest.raises(ge.GeError, match="its scores or weights are quantized"):
        exported(module_of(text, tmp_path))


@pytest.mark.parametrize(
    ("types", "result"),
    [("i16 i8", "i64"), ("f8E4M3FN f8E4M3FN", "f32"), ("i16 i16", "i64")],
)
def test_products_that_onnx_does_not_have(types: str, result: str, tmp_path: Path):
    a, b = (f"tensor<4x4x{t}>" for t in types.split())
    text = f"""func.func @main(%x: {a}, %w: {b}) -> tensor<4x4x{result}> {{
      %0 = graph.matmul %x, %w : ({a}, {b}) -> tensor<4x4x{result}> loc("fc")
      func.return %0 : tensor<4x4x{result}>
    }}"""
    with pytest.raises(ge.GeError, match=r"a product of .* no quantize around it") as raised:
        exported(module_of(text, tmp_path))
    assert "fc" in str(raised.value)


def test_weights_that_are_not_there(model: Path, tmp_path: Path):
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = graph.constant #graph.weight<"w"> : tensor<2xf32>
      %1 = graph.add %x, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      func.return %1 : tensor<2xf32>
    }"""
    with pytest.raises(ge.GeError, match="weight 'w' is not in the payload"):
        exported(module_of(text, tmp_path))
