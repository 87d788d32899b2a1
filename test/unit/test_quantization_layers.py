"""Linear layers of integers against int64 arithmetic and against their float form, from the graph
to the program."""

import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from xdsl.dialects.builtin import i32

from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp, RequantizeOp
from ge.dialects.support.types import element_type
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.grids import computed_scale

sys.path.insert(0, str(Path(__file__).parent))
from qdq_models import OFF, TYPES, Qdq, is_integer_form, layers


def zero_points(kind: Any) -> Any:
    return st.sampled_from([-128, 0, 127, 3] if kind is np.int8 else [0, 128, 255, 7])


def snr(got: Array, want: Array) -> float:
    noise = float(((got.astype(np.float64) - want) ** 2).sum())
    return 10 * np.log10(float((want.astype(np.float64) ** 2).sum()) / max(noise, 1e-30))


@st.composite
def convolutions(draw: Any) -> tuple[Qdq, str, dict[str, Array], Array]:
    """A model with one convolution, inputs, and its outputs by int64 arithmetic."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([np.int8, np.uint8]))
    zero = draw(zero_points(kind))
    group = draw(st.sampled_from([1, 2, 4]))
    channels, outputs = draw(st.sampled_from([(4, 4), (4, 8), (8, 4)]))
    if draw(st.booleans()):
        group = channels  # depthwise
        outputs = channels * draw(st.sampled_from([1, 2]))
    kernel = [draw(st.sampled_from([1, 2, 3])) for _ in range(2)]
    strides = [draw(st.sampled_from([1, 2])) for _ in range(2)]
    dilations = [draw(st.sampled_from([1, 2])) for _ in range(2)]
    pads = [draw(st.sampled_from([0, 1, 2])) for _ in range(4)]
    size = [draw(st.integers(5, 9)) for _ in range(2)]
    unsigned, by_channel = draw(st.booleans()), draw(st.booleans())
    weight = rng.integers(-128, 128, (outputs, channels // group, *kernel)).astype(np.int8)
    extremes = rng.random(weight.shape)
    weight[extremes < 0.1], weight[extremes > 0.9] = -128, 127
    scale_w = rng.uniform(0.001, 0.02, outputs).astype(np.float32)
    if not by_channel:
        scale_w = scale_w[0]
    scale_x, scale_y = np.float32(0.03), np.float32(0.9)
    model = Qdq()
    x = model.input([2, channels, *size])
    xd = model.pair(x, scale_x, kind(zero))
    stored, zero_w = weight, np.zeros(np.shape(scale_w), np.int8)
    if unsigned:
        stored = (weight.astype(np.int64) + 128).astype(np.uint8)
        zero_w = np.full(np.shape(scale_w), 128, np.uint8)
    inputs = [xd, model.weight(stored, scale_w, zero_w)]
    bias = np.zeros(outputs, np.int64)
    if draw(st.booleans()):
        bias = rng.integers(-(10**6), 10**6, outputs)
        scale_b = np.asarray(scale_x * scale_w)
        inputs.append(
            model.weight(bias.astype(np.int32), scale_b, np.zeros(scale_b.shape, np.int32))
        )
    y = model.add("Conv", *inputs, group=group, strides=strides, dilations=dilations, pads=pads)
    relu = draw(st.booleans())
    if relu:
        y = model.add("Relu", y)
    y = model.pair(y, scale_y, np.int8(5))

    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    array = rng.uniform((low - zero) * 0.04, (high - zero) * 0.04, (2, channels, *size))
    array = array.astype(np.float32)
    quantized = np.clip(np.rint(array / scale_x) + zero, low, high).astype(np.int64) - zero
    sums = convolved(quantized, weight.astype(np.int64), group, strides, dilations, pads)
    sums += bias.reshape(-1, 1, 1)
    scale = (np.broadcast_to(scale_x * scale_w, (outputs,)) / scale_y).reshape(-1, 1, 1)
    result = np.rint((sums.astype(np.float32) * scale).astype(np.float32)) + 5
    result = np.clip(result, 5 if relu else -128, 127)
    return model, y, {x: array}, (result - 5).astype(np.float32) * scale_y


def convolved(
    x: Array, w: Array, group: int, strides: list[int], dilations: list[int], pads: list[int]
) -> Array:
    """By the definition, in the integers given."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    places = [(n - e) // s + 1 for n, e, s in zip(x.shape[2:], extents, strides, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *places), np.int64)
    per, outputs = w.shape[1], w.shape[0] // group
    for m in range(w.shape[0]):
        part = x[:, m // outputs * per :][:, :per]
        for i, j in np.ndindex(*w.shape[2:]):
            rows = slice(
                i * dilations[0], i * dilations[0] + (places[0] - 1) * strides[0] + 1, strides[0]
            )
            columns = slice(
                j * dilations[1], j * dilations[1] + (places[1] - 1) * strides[1] + 1, strides[1]
            )
            result[:, m] += (part[:, :, rows, columns] * w[m, :, i, j].reshape(-1, 1, 1)).sum(1)
    return result


@settings(max_examples=settings().max_examples // 5)
@given(convolutions())
def test_convolutions_are_exact(case: tuple[Qdq, str, dict[str, Array], Array]) -> None:
    """Borders too: what is padded is the zero point."""
    model, y, inputs, want = case
    module, session = model.lowered([y], Options())
    assert is_integer_form(module)
    got = session.run(inputs)[y]
    np.testing.assert_array_equal(got, want)
    floats = model.lowered([y], OFF)[1].run(inputs)[y]
    step = np.abs(got - floats) / np.float32(0.9)
    assert step.max(initial=0) < 1.01
    assert (step > 0.5).mean() <= 0.01


@st.composite
def matmuls(draw: Any) -> tuple[Qdq, str, dict[str, Array], Array]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([np.int8, np.uint8]))
    zero, by_channel = draw(zero_points(kind)), draw(st.booleans())
    m, n = draw(st.integers(1, 5)), draw(st.sampled_from([1, 3, 300]))
    k = draw(st.sampled_from([1, 7, 64, 2000]))
    transposed, biased, left = (draw(st.booleans()) for _ in range(3))
    weight = rng.choice(np.array([-128, 127, 5, -3, 0], np.int8), (k, n))
    scale_w = rng.uniform(0.001, 0.02, n).astype(np.float32)
    if not by_channel:
        scale_w = scale_w[0]
    scale_x = np.float32(0.03)
    model = Qdq()
    shape = [2, k, m] if left else [2, m, k]
    x = model.input(shape)
    xd = model.pair(x, scale_x, kind(zero))
    stored, axis = (weight.T, 0) if transposed else (weight, 1)
    w = model.weight(
        np.ascontiguousarray(stored), scale_w, np.zeros(np.shape(scale_w), np.int8), axis
    )
    if transposed != left:
        w = model.add("Transpose", w, perm=[1, 0])
    y = model.add("MatMul", w, xd) if left else model.add("MatMul", xd, w)
    bias = np.zeros(n, np.float32)
    if biased and not left:
        bias = rng.uniform(-50, 50, n).astype(np.float32)
        y = model.add("Add", y, model.constant(bias))
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    array = rng.uniform((low - zero) * 0.04, (high - zero) * 0.04, shape).astype(np.float32)
    quantized = np.clip(np.rint(array / scale_x) + zero, low, high).astype(np.int64) - zero
    wide = weight.astype(np.int64)
    scale = np.broadcast_to(scale_x * scale_w, (n,))
    if left:
        sums = wide.T @ quantized
        return model, y, {x: array}, sums.astype(np.float32) * scale.reshape(-1, 1)
    sums = quantized @ wide + np.rint(bias / scale.astype(np.float64)).astype(np.int64)
    return model, y, {x: array}, sums.astype(np.float32) * scale


@settings(max_examples=settings().max_examples // 5)
@given(matmuls())
def test_matmuls_are_exact(case: tuple[Qdq, str, dict[str, Array], Array]) -> None:
    model, y, inputs, want = case
    module, session = model.lowered([y], Options())
    assert is_integer_form(module)
    np.testing.assert_array_equal(session.run(inputs)[y], want)


@pytest.mark.parametrize("k", [1 << 14, 1 << 16])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_long_sums(k: int, kind: Any) -> None:
    """Up to 2^16 terms of the largest magnitude (unsigned ones fill 31 bits with 2^15)."""
    k = k if kind is np.int8 else k // 2
    x = np.full((2, k), np.iinfo(kind).max, kind)
    x[1] = np.iinfo(kind).min
    w = np.full((k, 3), -128, np.int8)
    w[:, 1] = 127
    model = Qdq()
    a, b = model.input([2, k], TYPES[kind]), model.constant(w)
    y = model.add("Cast", model.add("MatMulInteger", a, b), to=TensorProto.DOUBLE)
    got = model.lowered([y], Options())[1].run({a: x})[y]
    np.testing.assert_array_equal(got, x.astype(np.int64) @ w.astype(np.int64))


def test_zero_points_of_many_channels() -> None:
    """Exporters write a zero point for each channel, though all are 0."""
    rng = np.random.default_rng(6)
    model = Qdq()
    x = model.input([4, 16])
    weight = rng.integers(-127, 128, (16, 2000)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, 2000)
    w = model.weight(weight, scale, np.zeros(2000, np.int8), 1)
    y = model.add("MatMul", model.pair(x, 0.02, np.int8(4)), w)
    module, session = model.lowered([y], Options())
    assert is_integer_form(module)
    inputs = {x: rng.uniform(-2, 2, (4, 16)).astype(np.float32)}
    got, want = session.run(inputs)[y], model.lowered([y], OFF)[1].run(inputs)[y]
    assert snr(got, want) > 100


@pytest.mark.parametrize("channels", [4, 300])
def test_trained_for_quantization(channels: int) -> None:
    """As trainers export it: weights quantized in the graph, a batch norm behind the convolution
    that turns signs, relu before the quantize, nothing but scales."""
    rng = np.random.default_rng(8)
    model = Qdq()
    x = model.input([2, 4, 6, 6])

    def vector(low: float, high: float) -> str:
        return model.constant(rng.uniform(low, high, channels).astype(np.float32))

    weight = model.constant(rng.normal(0, 0.1, (channels, 4, 3, 3)).astype(np.float32))
    scale = model.constant(rng.uniform(0.002, 0.003, channels).astype(np.float32))
    zero = model.constant(np.zeros(channels, np.int8))
    w = model.add("QuantizeLinear", weight, scale, zero, axis=0)
    w = model.add("DequantizeLinear", w, scale, zero, axis=0)
    y = model.add("Conv", model.pair(x, 0.03, np.int8(0)), w, vector(-1, 1), pads=[1, 1, 1, 1])
    factors = (vector(-2, 2), vector(-1, 1), vector(-1, 1), vector(0.5, 2))
    y = model.add("BatchNormalization", y, *factors)
    y = model.pair(model.add("Relu", y), 0.02, np.int8(0))
    module, session = model.lowered([y], Options())
    assert is_integer_form(module)
    inputs = {x: rng.uniform(-4, 4, (2, 4, 6, 6)).astype(np.float32)}
    got, want = session.run(inputs)[y], model.lowered([y], OFF)[1].run(inputs)[y]
    assert np.abs(got - want).max() < 0.0201
    assert (got != want).mean() < 1e-3


def chain(rng: Any) -> tuple[Qdq, str, dict[str, Array]]:
    """Convolutions with relu, residual, pool, reshape and a matmul, all on grids."""
    model = Qdq()
    x = model.input([2, 4, 8, 8])
    value = first = model.pair(x, 0.03, np.int8(-3))
    for i in range(3):
        weight = rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8)
        w = model.weight(weight, rng.uniform(0.001, 0.01, 4), np.zeros(4, np.int8))
        bias = model.constant(rng.uniform(-1, 1, 4).astype(np.float32))
        value = model.add("Conv", value, w, bias, pads=[1, 1, 1, 1])
        if i == 1:
            value = model.add("Add", model.pair(value, 0.04, np.int8(1)), first)
        value = model.pair(model.add("Relu", value), 0.05, np.int8(-128))
    value = model.add("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    value = model.pair(value, 0.05, np.int8(-128))
    value = model.add("Reshape", value, model.constant(np.array([2, -1], np.int64)))
    w = model.weight(rng.integers(-127, 128, (64, 5)).astype(np.int8), 0.01, np.int8(0))
    value = model.add("MatMul", model.pair(value, 0.05, np.int8(-128)), w)
    value = model.add("Add", value, model.constant(rng.uniform(-1, 1, 5).astype(np.float32)))
    return model, value, {x: rng.uniform(-4, 4, (2, 4, 8, 8)).astype(np.float32)}


CHOICES = [Options(memory=0), Options(fusion="aggressive"), Options(pieces=True)]


@pytest.mark.parametrize(
    "others",
    [
        [Options(memory=3), Options(target="310p3")],
        pytest.param(CHOICES, marks=pytest.mark.soak),
    ],
    ids=len,
)
def test_chains_stay_integers_at_all_levels(others: list[Options]) -> None:
    model, y, inputs = chain(np.random.default_rng(3))
    want = None
    for options in (Options(), *others):
        module, session = model.lowered([y], options)
        assert is_integer_form(module)
        got = session.run(inputs)[y]
        if want is None:
            want = got
            steps = [op for op in module.walk() if isinstance(op, DequantizeOp | QuantizeOp)]
            # the input, both sides and the sum of the residual, the output
            assert len(steps) == 5
            assert any(isinstance(op, RequantizeOp) for op in module.walk())
        np.testing.assert_array_equal(got, want)
        session.fuzz_schedule(inputs, runs=4)
    assert want is not None
    assert snr(want, model.lowered([y], OFF)[1].run(inputs)[y]) > 45


def test_the_target_says_how_sums_are_rounded(tmp_path: Path) -> None:
    text = (files("ge.dialects.targets") / "910_merged.toml").read_text("utf-8")
    target = tmp_path / "other.toml"
    target.write_text(text.replace('requantize = "float32"', 'requantize = "tflite"'))
    model, y, inputs = chain(np.random.default_rng(3))
    module, session = model.lowered([y], Options(target=str(target)))
    assert {op.rounding.data for op in module.walk() if isinstance(op, RequantizeOp)} == {"tflite"}
    assert snr(session.run(inputs)[y], model.lowered([y], OFF)[1].run(inputs)[y]) > 45


def test_conservative_fusion_keeps_floats() -> None:
    model, y, inputs = chain(np.random.default_rng(4))
    off = model.lowered([y], Options(fusion="off"))[1].run(inputs)[y]
    module, session = model.lowered([y], Options(fusion="conservative"))
    assert not any(element_type(op.result) == i32 for op in layers(module))
    np.testing.assert_array_equal(session.run(inputs)[y], off)


@pytest.mark.parametrize("same", [True, False])
def test_one_scale_of_a_bias_beside_several_of_weights(same: bool) -> None:
    """It is in units of the sums where all channels have that scale."""
    rng, model = np.random.default_rng(6), Qdq()
    x = model.input([2, 3, 6, 6])
    xd, zeros = model.pair(x, 0.02, np.int8(0)), np.zeros(4, np.int8)
    scale = np.full(4, 0.01) if same else np.linspace(0.005, 0.02, 4)
    weight = model.weight(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), scale, zeros)
    bias = rng.integers(-99, 99, 4).astype(np.int32)
    bias = model.add("DequantizeLinear", model.constant(bias), *model.grid(2e-4, np.int32(0)))
    y = model.add("Conv", xd, weight, bias, kernel_shape=[3, 3])
    inputs = {x: rng.uniform(-2, 2, (2, 3, 6, 6)).astype(np.float32)}
    got, want = (model.lowered([y], o)[1].run(inputs)[y] for o in (Options(), OFF))
    assert snr(got, want) >= 40


@pytest.mark.parametrize("width", [3, 400])
def test_bias_beyond_32_bits(width: int) -> None:
    """Known at compile time, or when weights are loaded: the scale of the weight is raised."""
    rng = np.random.default_rng(5)
    model = Qdq()
    x = model.input([4, 16])
    xd = model.pair(x, 0.02, np.int8(4))
    weight = rng.integers(-127, 128, (16, width)).astype(np.int8)
    scale = np.where(np.arange(width) % 3 == 0, 1e-11, 0.01)
    y = model.add("MatMul", xd, model.weight(weight, scale, np.zeros(width, np.int8), 1))
    y = model.add("Add", y, model.constant(np.full(width, 5.0, np.float32)))
    inputs = {x: rng.uniform(-2, 2, (4, 16)).astype(np.float32)}
    module, session = model.lowered([y], Options())
    assert is_integer_form(module)
    got, want = session.run(inputs)[y], model.lowered([y], OFF)[1].run(inputs)[y]
    assert snr(got, want) >= 40
    assert np.abs(got - want).max() < 0.01


@settings(max_examples=settings().max_examples // 10)
@given(
    st.integers(0, 2**32), st.booleans(), st.sampled_from([None, "one", "each"]),
    st.sampled_from([None, "one", "each"]), st.booleans(),
)  # fmt: skip
def test_matmul_integer(
    seed: int, constant: bool, of_rows: str | None, of_columns: str | None, known: bool
) -> None:
    """Zero points of both sides, constant or computed, for one or each row and column."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (2, 3, 7)).astype(np.uint8)
    b = rng.integers(-128, 128, (7, 5)).astype(np.int8)
    za = np.zeros((), np.uint8) if of_rows is None else np.uint8(rng.integers(256))
    if of_rows == "each":
        za = rng.integers(0, 256, 3).astype(np.uint8)
    zb = np.zeros((), np.int8) if of_columns is None else np.int8(rng.integers(-128, 128))
    if of_columns == "each":
        zb = rng.integers(-128, 128, 5).astype(np.int8)
    model = Qdq()
    x = model.input(a.shape, TensorProto.UINT8)
    inputs = {x: a}
    w = model.constant(b) if constant else model.input(b.shape, TensorProto.INT8)
    if not constant:
        inputs[w] = b
    zeros = [model.constant(za), model.constant(zb)]
    if not known:
        zeros = [
            model.input(np.shape(z), TYPES[kind]) for z, kind in ((za, np.uint8), (zb, np.int8))
        ]
        inputs.update(zip(zeros, (np.asarray(za), np.asarray(zb)), strict=True))
    y = model.add("MatMulInteger", x, w, *zeros)
    y = model.add("Cast", y, to=TensorProto.FLOAT)
    module, session = model.lowered([y], Options())
    assert is_integer_form(module)
    rows = np.asarray(za, np.int64).reshape(-1, 1)
    want = (a.astype(np.int64) - rows) @ (b.astype(np.int64) - zb.astype(np.int64))
    np.testing.assert_array_equal(session.run(inputs)[y], want.astype(np.float32))


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 0, 1]])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("zero_w", [0, 3])
def test_conv_integer(pads: list[int], known: bool, zero_w: int) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(0, 256, (2, 4, 6, 6)).astype(np.uint8)
    b = rng.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8)
    model = Qdq()
    x = model.input(a.shape, TensorProto.UINT8)
    zero = model.constant(np.uint8(9)) if known else model.input([], TensorProto.UINT8)
    inputs = {x: a} | ({} if known else {zero: np.array(9, np.uint8)})
    w = model.constant(b)
    y = model.add("ConvInteger", x, w, zero, model.constant(np.int8(zero_w)), group=2, pads=pads)
    y = model.add("Cast", y, to=TensorProto.FLOAT)
    session = model.lowered([y], Options())[1]
    want = convolved(a.astype(np.int64) - 9, b.astype(np.int64) - zero_w, 2, [1, 1], [1, 1], pads)
    np.testing.assert_array_equal(session.run(inputs)[y], want.astype(np.float32))


@pytest.mark.parametrize(
    ("scale", "attributes", "is_taken"),
    [
        ("tensor<f32>", "", True),
        ("tensor<4xf32>", "axis 0", True),
        ("tensor<8xf32>", "axis 1", False),
        ("tensor<4x1xf32>", "axis 1 block_size 8", True),
        ("tensor<4x2xf32>", "axis 1 block_size 4", False),
        ("tensor<1x8xf32>", "axis 0 block_size 4", False),
    ],
)
def test_scales_that_a_run_computes_are_of_rows(
    scale: str, attributes: str, is_taken: bool
) -> None:
    """Of the tensor, or of each row: not of columns, nor of parts of rows."""
    text = f"""func.func @main(%x: tensor<4x8xi8>, %s: {scale}) -> tensor<4x8xf32> {{
      %0 = graph.dequantize %x, %s {attributes} : (tensor<4x8xi8>, {scale}) -> tensor<4x8xf32>
      func.return %0 : tensor<4x8xf32>
    }}"""
    module = parse_module(context(), SourceText("m.mlir", text))
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, DequantizeOp))
    assert computed_scale(op) is (op.scale if is_taken else None)
