"""Quantized models that are exported give in onnxruntime, at its default optimizations, what they
give in ge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import ge
from ge.lowering.driver.compiler import load
from ge.lowering.onnx.export.exporter import model_and_weights
from ge.runtime.data.accuracy import decibels, powers
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.transforms.quantization.schemes import SCHEMES

from .test_quantize import normal

ort = pytest.importorskip("onnxruntime", reason="it computes the exports")

pytestmark = pytest.mark.usefixtures("without_programs")

CLOSE = 1.0  # dB that an export may lose
# ONNX has floats of 4 bits in a newer opset
EXPORTED = [name for name, s in SCHEMES.items() if not (s.is_float and s.weight_bits < 8)]
Arrays = Mapping[str, Array]


@dataclass
class Net:
    """A model of nodes that are added to it; `N` is free."""

    inputs: Mapping[str, Sequence[Any]]
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])

    def add(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}.{i}" for i in range(1, results))]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name, **attributes))
        return name

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def saved(self, path: Path, *outputs: str) -> Path:
        number, info = TensorProto.FLOAT, helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "net",
            [info(n, number, ["N", *dims]) for n, dims in self.inputs.items()],
            [info(n, number, None) for n in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path

    def samples(self, count: int, seed: int) -> dict[str, Array]:
        return {
            name: normal(count, *dims, seed=seed + i)
            for i, (name, dims) in enumerate(self.inputs.items())
        }


def target_of(scheme: str) -> str:
    return "950pr" if SCHEMES[scheme].is_float else "910b2"


def computed(path: Path, x: Arrays) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(x)))


def left(want: Sequence[Array], got: Sequence[Array]) -> float:
    return min(decibels(*powers(w, g)) for w, g in zip(want, got, strict=True))


def check(net: Net, path: Path, scheme: str, *outputs: str) -> onnx.ModelProto:
    """Export a model, and return what is written, of which the numbers are ge's."""
    net.saved(path, *outputs)
    np.savez(path.with_suffix(".npz"), **net.samples(16, 1))
    export, x = path.with_name("q.onnx"), net.samples(9, 50)
    program = ge.compile(
        str(path), quantize=scheme, calibration=str(path.with_suffix(".npz")),
        export_qdq=str(export), target=target_of(scheme), ranges="minmax",
    )  # fmt: skip
    ours = list(ge.Session(program.module, program.payload).run(x).values())
    floats, theirs = computed(path, x), computed(export, x)
    assert left(floats, theirs) > left(floats, ours) - CLOSE
    written = onnx.load(export)
    for port in written.graph.input:
        assert port.type.tensor_type.shape.dim[0].dim_param == "N"
    return written


# ---- kinds of networks ---------------------------------------------------------------------------


def attention(net: Net, x: str, size: int = 16, heads: int = 2) -> str:
    """Heads that are laid apart by reshapes and transposes, with a residual."""

    def head(order: Sequence[int]) -> str:
        y = net.add("MatMul", x, net.weight(normal(size, size, seed=len(net.weights)) / 4))
        y = net.add("Reshape", y, net.weight(np.array([0, 0, heads, size // heads])))
        return net.add("Transpose", y, perm=order)

    q, k, v = (head(order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
    scores = net.add("Mul", net.add("MatMul", q, k), net.weight(np.float32(0.35)))
    y = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    y = net.add("Reshape", net.add("Transpose", y, perm=(0, 2, 1, 3)), net.weight([0, 0, size]))
    y = net.add("MatMul", y, net.weight(normal(size, size, seed=len(net.weights)) / 4))
    return net.add("Add", x, y)


def transformer() -> tuple[Net, list[str]]:
    net = Net({"x": (6, 16)})
    x = attention(net, "x")
    scale = net.weight(1 + normal(16, seed=8) / 4)
    y = net.add("LayerNormalization", x, scale, net.weight(normal(16, seed=9)))
    y = net.add("MatMul", y, net.weight(normal(16, 24, seed=10) / 4))
    y = net.add("Relu", net.add("Add", y, net.weight(normal(24, seed=11))))
    y = net.add("MatMul", y, net.weight(normal(24, 16, seed=12) / 4))
    return net, [net.add("Add", x, y)]


def convolutions() -> tuple[Net, list[str]]:
    """Inputs that meet, limits, pools, a residual, channels last, and an output with one column."""
    net = Net({"x": (3, 8, 8), "z": (3, 8, 8)})
    sides = [
        net.add("Conv", name, net.weight(normal(8, 3, 3, 3, seed=i) / 5), pads=[1, 1, 1, 1])
        for i, name in enumerate("xz")
    ]
    sides = [net.add("Relu", sides[0]), net.add("Clip", sides[1], *map(net.weight, LIMITS))]
    y = net.add("MaxPool", net.add("Add", *sides), kernel_shape=[2, 2], strides=[2, 2])
    z = net.add("Conv", y, net.weight(normal(8, 8, 1, 1, seed=4) / 3), net.weight(normal(8)))
    y = net.add("Relu", net.add("Add", y, z))
    y = net.add("Transpose", y, perm=(0, 2, 3, 1))
    y = net.add("MatMul", y, net.weight(normal(8, 12, seed=5) / 3))
    first = net.add("ReduceMean", y, axes=[1, 2], keepdims=0)
    y = net.add("Gemm", first, net.weight(normal(1, 12, seed=6)), net.weight(normal(1)), transB=1)
    return net, [first, y]


LIMITS = np.float32(0), np.float32(6)


def recurrent() -> tuple[Net, list[str]]:
    net = Net({"x": (5, 8)})
    y = net.add("Transpose", "x", perm=(1, 0, 2))
    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        dims = ((1, gates * 8, 8), (1, gates * 8, 8), (1, gates * 16))
        weights = [net.weight(normal(*d, seed=i + gates) / 3) for i, d in enumerate(dims)]
        y = net.add("Squeeze", net.add(kind, y, *weights, hidden_size=8), net.weight([1]))
    y = net.add("Transpose", y, perm=(1, 0, 2))
    return net, [net.add("MatMul", y, net.weight(normal(8, 4, seed=7)))]


@pytest.mark.parametrize("scheme", EXPORTED)
@pytest.mark.parametrize("kind", [transformer, convolutions, recurrent])
def test_networks(kind: Any, scheme: str, tmp_path: Path):
    net, outputs = kind()
    check(net, tmp_path / "net.onnx", scheme, *outputs)


# ---- what the optimizer does -----------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["int8", "int16", "dynamic", "w8a16"])
def test_codes_state_their_type(scheme: str, tmp_path: Path):
    """It assumes ui8 where a transpose of what is dequantized has no zero point."""
    net, outputs = transformer()
    written = check(net, tmp_path / "net.onnx", scheme, *outputs)
    types = {i.name: i.data_type for i in written.graph.initializer}
    for node in written.graph.node:
        blocks = any(a.name == "block_size" for a in node.attribute)
        bias = types.get(node.input[0]) == TensorProto.INT32
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and not (blocks or bias):
            assert len(node.input) == 3


@pytest.mark.parametrize("kind", ["Relu", "Clip"])
def test_limits_before_codes_that_are_floats(kind: str, tmp_path: Path):
    net = Net({"x": (16,)})
    y = net.add("Gemm", "x", net.weight(normal(16, 16) / 4), net.weight(normal(16, seed=2)))
    y = net.add(kind, y, *(map(net.weight, LIMITS) if kind == "Clip" else ()))
    y = net.add("MatMul", y, net.weight(normal(16, 8, seed=1)))
    check(net, tmp_path / "net.onnx", "fp8", y)


@pytest.mark.parametrize("scheme", ["int8", "int16", "fp8"])
@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
def test_biases_beyond_32_bits(kind: str, scheme: str, tmp_path: Path):
    """It may make integers of biases, which must hold them."""
    dims = (8, 8, 1, 1) if kind == "Conv" else (8, 8)
    weight = normal(*dims, seed=1)
    weight[3] *= 1e-9
    net = Net({"x": dims[1:2] + ((4, 4) if kind == "Conv" else ())})
    flags = {} if kind == "Conv" else {"transB": 1}
    y = net.add(kind, "x", net.weight(weight), net.weight(normal(8, seed=3)), **flags)
    y = net.add(kind, y, net.weight(normal(*dims, seed=2)), **flags)
    check(net, tmp_path / "net.onnx", scheme, y)


@pytest.mark.parametrize("columns", [1, 16])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("scheme", ["w8a16", "int16"])
def test_activations_are_not_rounded_to_8_bits(
    scheme: str, turned: bool, columns: int, tmp_path: Path
):
    net = Net({"x": (64,)})
    weight = normal(64, columns, seed=1)
    weight = net.weight(np.ascontiguousarray(weight.T) if turned else weight)
    bias = net.weight(normal(columns, seed=3))
    y = net.add("Gemm", net.add("Tanh", "x"), weight, bias, transB=int(turned))
    written = check(net, tmp_path / "net.onnx", scheme, y)
    assert "Transpose" not in {n.op_type for n in written.graph.node}


@pytest.mark.parametrize("kind", ["MatMul", "Conv"])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_large_codes(kind: str, turned: bool, tmp_path: Path):
    """Processors without an instruction for it add two products of an unsigned and a signed code in
    16 bits, which cut off what is larger; weights are unsigned therefore."""
    net = Net({"x": (16, 16)})
    weights = 1 - np.abs(normal(16, 16)) / 64
    weights[::4] *= -1
    if kind == "Conv":
        y = net.add("Conv", "x", net.weight(weights[:, :, None]))
    elif turned:
        y = net.add("MatMul", "x", net.add("Transpose", net.weight(weights), perm=[1, 0]))
    else:
        y = net.add("MatMul", "x", net.weight(weights))
    net.saved(tmp_path / "net.onnx", y)
    x = {"x": 4 - np.abs(normal(16, 16, 16)) / 8}
    np.savez(tmp_path / "x.npz", **x)
    export = tmp_path / "q.onnx"
    program = ge.compile(
        str(tmp_path / "net.onnx"), quantize="int8", calibration=str(tmp_path / "x.npz"),
        export_qdq=str(export), ranges="minmax", tiles=False,
    )  # fmt: skip
    ours = list(ge.Session(program.module, program.payload).run(x).values())
    assert left(ours, computed(export, x)) > 45
    kinds = [t.data_type for t in onnx.load(export).graph.initializer if len(t.dims) > 1]
    assert kinds == [TensorProto.UINT8]


MOVED = {
    "transpose": "graph.transpose %d permutation [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>",
    "reshape": "graph.reshape %d shape [4, 12] : (tensor<6x8xf32>) -> tensor<4x12xf32>",
    "slice": "graph.slice %d starts [1] ends [4] axes [0] : (tensor<6x8xf32>) -> tensor<3x8xf32>",
}


@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("kind", MOVED)
def test_moved_codes_where_others_have_16_bits(kind: str, zero: int, tmp_path: Path):
    """Codes of 16 bits need opset 21, in which onnxruntime cannot quantize behind a move."""
    moved = MOVED[kind]
    result = moved.rpartition("-> ")[2]
    floats, codes, scalar = "tensor<6x8xf32>", "tensor<6x8xi8>", "tensor<f32>"
    text = f"""
func.func @main(%x: {floats} {{graph.name = "x"}}) -> ({result}, {floats}) {{
  %s = graph.constant dense<0.05> : {scalar}
  %z = graph.constant dense<{zero}> : tensor<i8>
  %q = graph.quantize %x, %s, %z to i8 : ({floats}, {scalar}, tensor<i8>) -> {codes}
  %d = graph.dequantize %q, %s, %z : ({codes}, {scalar}, tensor<i8>) -> {floats}
  %m = {moved}
  %e = graph.exp %m : ({result}) -> {result}
  %w = graph.quantize %x, %s to i16 : ({floats}, {scalar}) -> tensor<6x8xi16>
  %v = graph.dequantize %w, %s : (tensor<6x8xi16>, {scalar}) -> {floats}
  func.return %e, %v : {result}, {floats}
}}"""
    (tmp_path / "m.mlir").write_text(text)
    program = load(str(tmp_path / "m.mlir"))
    model = model_and_weights(program.module, program.payload, "main")[0]
    assert model.opset_import[0].version == 21
    onnx.save(model, tmp_path / "q.onnx")
    x = {"x": normal(6, 8)}
    ours = list(Session(program.module, program.payload).run(x).values())
    assert left(ours, computed(tmp_path / "q.onnx", x)) > 60


def test_the_batch_stays_open(tmp_path: Path):
    """Though the program has another; the other sizes are the program's."""
    net, samples = Net({"x": ("S", 16)}), Net({"x": (6, 16)}).samples(9, 3)
    y = net.add("Relu", net.add("MatMul", "x", net.weight(normal(16, 8))))
    path = net.saved(tmp_path / "net.onnx", y)
    np.savez(tmp_path / "x.npz", **samples)
    export = tmp_path / "q.onnx"
    dims = {"N": 4, "S": 6}
    program = ge.quantize(str(path), tmp_path / "x.npz", dims=dims, export_qdq=export)
    (port,) = onnx.load(export).graph.input
    assert [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim] == ["N", 6, 16]
    four = {"x": samples["x"][:4]}
    ours = list(ge.Session(program.module, program.payload).run(four).values())
    assert left(ours, [y[:4] for y in computed(export, samples)]) > 50


# ---- random networks -----------------------------------------------------------------------------


def random_network(seed: int) -> tuple[Net, list[str]]:
    """Layers of values [N, a, b], with what moves and limits elements between them."""
    rng = np.random.default_rng(seed)
    net = Net({"x": (6, 16), "z": (6, 16)})
    a, b = 6, 16
    value, earlier = "x", [("z", 6, 16)]

    def scaled(*dims: int) -> str:
        fan = np.float32(np.sqrt(dims[0] if len(dims) == 2 else dims[1] * 3))
        return net.weight(normal(*dims, seed=int(rng.integers(99))) / fan)

    for step in rng.permutation(14):
        same = [v for v, *dims in earlier if dims == [a, b]]
        if step < 3:
            columns = int(rng.choice([8, 16]))
            value, b = net.add("MatMul", value, scaled(b, columns)), columns
        elif step == 3:
            value = net.add("Conv", value, scaled(a, a, 3), net.weight(normal(a)), pads=[1, 1])
        elif step in (4, 5):
            value = net.add("Relu" if step == 4 else "Tanh", value)
        elif step == 6:
            value = net.add("Clip", value, *map(net.weight, LIMITS))
        elif step in (7, 8):
            value, a, b = net.add("Transpose", value, perm=(0, 2, 1)), b, a
        elif step == 9:
            value, a, b = net.add("Reshape", value, net.weight([0, 2 * a, b // 2])), 2 * a, b // 2
        elif step == 10:
            value = net.add("Add", value, net.weight(normal(b, seed=step)))
        elif step == 11:
            value = net.add("MaxPool", value, kernel_shape=[3], pads=[1, 1], strides=[1])
        elif same:
            value = net.add("Add", value, same[-1])
        earlier.append((value, a, b))
    return net, [
        net.add("MatMul", value, scaled(b, 4)),
        net.add("Neg", earlier[len(earlier) // 2][0]),
    ]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.soak) for s in range(1, 20))]
)
@pytest.mark.parametrize("scheme", EXPORTED)
def test_random_networks(scheme: str, seed: int, tmp_path: Path):
    net, outputs = random_network(seed)
    check(net, tmp_path / "net.onnx", scheme, *outputs)
