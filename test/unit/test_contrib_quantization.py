"""onnxruntime's quantized ops beside onnxruntime: integers within one step, floats by a bound."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import agree, feeds, model_of, normal, run_in_ge, spread
from sums import assert_near

from ge.runtime.data.arrays import Array

BOTH = [np.uint8, np.int8]


def codes(*dims: int, dtype: Any = np.uint8, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, dims, dtype, endpoint=True)


def grid(name: str, scale: Any, zero: int | None, dtype: Any) -> dict[str, Any]:
    """Scale and zero point; a zero point of ui8 is moved by 128."""
    moved = None if zero is None else dtype(zero + (128 if dtype == np.uint8 else 0))
    return {f"{name}_scale": np.float32(scale), f"{name}_zero": moved}


SHAPES = [((2, 3, 5), (2, 3, 5)), ((4, 6), (6,)), ((1,), (3, 4))]


@pytest.mark.parametrize(
    ("op", "shapes", "dtype"), spread(["QLinearAdd", "QLinearMul"], SHAPES, BOTH, count=8)
)
def test_binary(op: str, shapes: tuple[Any, Any], dtype: Any) -> None:
    inputs = {"a": codes(*shapes[0], dtype=dtype), **grid("a", 0.021, 3, dtype)}
    inputs |= {"b": codes(*shapes[1], dtype=dtype, seed=1), **grid("b", 0.034, -7, dtype)}
    agree(op, inputs | grid("c", 0.05, 5, dtype))


@pytest.mark.parametrize(
    ("op", "zero", "shape", "dtype"),
    spread(
        ["QLinearSigmoid", "QLinearLeakyRelu"], [None, 4], [(2, 3, 5), (7,), (2, 1, 3, 4)], BOTH,
        count=9,
    ),
)  # fmt: skip
def test_unary(op: str, zero: int | None, shape: tuple[int, ...], dtype: Any) -> None:
    flags: dict[str, Any] = {"alpha": 0.3} if op == "QLinearLeakyRelu" else {}
    scale, offset = (1 / 256, -128) if op == "QLinearSigmoid" else (0.03, 0)
    inputs = {"x": codes(*shape, dtype=dtype), **grid("x", 0.04, zero, dtype)}
    agree(op, inputs | grid("y", scale, offset, dtype), constants=("x_scale", "y_scale"), **flags)


@pytest.mark.parametrize(
    ("of", "opset", "dtype"),
    spread([((2, 3, 5), -1), ((4, 6), 0), ((2, 3, 4, 2), 1)], [12, 13], BOTH, count=6),
)
def test_softmax(of: tuple[tuple[int, ...], int], opset: int, dtype: Any) -> None:
    shape, axis = of
    inputs = {"x": codes(*shape, dtype=dtype), **grid("x", 0.02, 4, dtype)}
    inputs |= grid("y", 1 / 256, -128, dtype)
    scales = ("x_scale", "x_zero", "y_scale", "y_zero")
    agree("QLinearSoftmax", inputs, constants=scales, axis=axis, opset=opset)


@pytest.mark.parametrize(
    ("axis", "shape", "dtype"),
    [(0, (2, 3), np.uint8), (1, (2, 3), np.int8), (-1, (2, 2, 4), np.uint8)],
)
def test_concat(axis: int, shape: tuple[int, ...], dtype: Any) -> None:
    inputs: dict[str, Any] = grid("y", 0.04, 2, dtype)
    for i, scale in enumerate((0.04, 0.02, 0.05)):
        inputs |= {f"x{i}": codes(*shape, dtype=dtype, seed=i), **grid(f"x{i}", scale, i, dtype)}
    constants = [name for name in inputs if "_" in name]
    agree("QLinearConcat", inputs, constants=constants, axis=axis)


@pytest.mark.parametrize(
    ("shape", "last", "dtype"),
    spread([(2, 3, 4, 5), (1, 6, 7), (1, 2, 3, 3)], [0, 1], BOTH, count=5),
)
def test_global_average_pool(shape: tuple[int, ...], last: int, dtype: Any) -> None:
    inputs = {"x": codes(*shape, dtype=dtype), **grid("x", 0.04, 3, dtype)}
    inputs |= grid("y", 0.02, -5, dtype)
    agree("QLinearGlobalAveragePool", inputs, channels_last=last)


WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
]


@pytest.mark.parametrize(("window", "last", "dtype"), spread(WINDOWS, [0, 1], BOTH, count=8))
def test_average_pool(window: dict[str, Any], last: int, dtype: Any) -> None:
    inputs = {"x": codes(2, 6, 5, 3, dtype=dtype), **grid("x", 0.04, 3, dtype)}
    inputs |= grid("y", 0.03, -5, dtype)
    agree("QLinearAveragePool", inputs, channels_last=last, **window)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((2, 3, 5), np.uint8), ((4,), np.int8), ((1, 6), np.uint8)]
)
def test_where(shape: tuple[int, ...], dtype: Any) -> None:
    inputs: dict[str, Any] = {"c": normal(*shape) > 0}
    for name, zero in (("a", 3), ("b", -4)):
        inputs |= {name: codes(*shape, dtype=dtype), **grid(name, 0.03, zero, dtype)}
    constants = [name for name in (inputs | grid("z", 0, 0, dtype)) if "_" in name]
    agree("QLinearWhere", inputs | grid("z", 0.04, 1, dtype), constants=constants)


# ---- products ----------------------------------------------------------------------------------


def weights(*dims: int) -> Array:
    """Of 7 bits: onnxruntime adds products in pairs of 16 bits on some CPUs."""
    return codes(*dims, dtype=np.int8) // 2


def columns(name: str, each: int) -> dict[str, Any]:
    """A scale and a zero point of 0 for each of so many columns, or for all."""
    scale = np.float32(0.02) if not each else np.abs(normal(each, seed=9)) / 50 + np.float32(0.01)
    return {f"{name}_scale": scale, f"{name}_zero": np.zeros_like(scale, np.int8)}


@pytest.mark.parametrize(
    ("window", "last", "each"),
    spread([{}, {"strides": [2, 2], "pads": [1, 1, 0, 0]}], [0, 1], [0, 4], count=5),
)
def test_conv(window: dict[str, Any], last: int, each: int) -> None:
    x = codes(1, 6, 6, 6)
    inputs = {"x": x, **grid("x", 0.02, 3, np.uint8)}
    inputs |= {"w": weights(4, 6, 2, 2), **columns("w", each)}
    inputs |= grid("y", 0.1, 5, np.uint8) | {"b": np.arange(4, dtype=np.int32) * 50}
    constants = ("w", "w_scale", "w_zero", "b", "x_zero", "y_zero", "x_scale", "y_scale")
    agree("QLinearConv", inputs, constants=constants, channels_last=last, **window)


@pytest.mark.parametrize(
    ("each", "transposed", "rest"), spread([0, 5], [0, 1], ["", "bias", "result"], count=7)
)
def test_gemm(each: int, transposed: int, rest: str) -> None:
    inputs: dict[str, Any] = {"a": codes(3, 4), **grid("a", 0.02, 3, np.uint8)}
    shape = (5, 4) if transposed else (4, 5)
    inputs |= {"b": weights(*shape), **columns("b", each)}
    inputs["c"] = np.arange(5, dtype=np.int32) * 40 if rest else None
    inputs |= grid("y", 0.05, 3, np.uint8) if rest == "result" else {}
    agree("QGemm", inputs, transB=transposed, alpha=1.0)


@pytest.mark.parametrize(
    ("shape", "each", "bias"), spread([(3, 4), (2, 3, 4), (1, 4)], [0, 5], [False, True], count=5)
)
def test_matmuls_of_dynamic_quantization(shape: tuple[int, ...], each: int, bias: bool) -> None:
    weight = {"b": weights(4, 5)}
    scales = columns("b", each)
    added = {"bias": normal(5) if bias else None}
    agree("DynamicQuantizeMatMul", {"x": normal(*shape), **weight, **scales, **added})
    inputs = {"a": codes(*shape), **weight, "a_scale": np.float32(0.02)}
    inputs |= {"b_scale": scales["b_scale"], "a_zero": np.uint8(120), "b_zero": scales["b_zero"]}
    agree("MatMulIntegerToFloat", inputs | added)


@pytest.mark.parametrize(
    ("directions", "each", "zero", "peepholes"),
    spread([1, 2], [False, True], [0, 100], [False, True], count=6),
)
def test_lstm(directions: int, each: bool, zero: int, peepholes: bool) -> None:
    """Of one sequence: onnxruntime rounds states of as many sequences by one range as it has for a
    thread, ge those of each by its own."""
    steps, size, hidden = 5, 4, 3
    inputs: dict[str, Any] = {"x": normal(steps, 1, size)}
    for name, rows in (("w", size), ("r", hidden)):
        shape = directions, rows, 4 * hidden
        weights = codes(*shape, dtype=np.int8 if zero == 0 else np.uint8)
        # sums of two products fit 16 bits, in which onnxruntime adds them on CPUs without VNNI
        inputs[name] = weights // 2 if zero == 0 else weights
    inputs["b"], inputs["lengths"] = normal(directions, 8 * hidden), None
    inputs |= {name: normal(directions, 1, hidden, seed=7) for name in ("h", "c")}
    inputs["p"] = normal(directions, 3 * hidden) if peepholes else None
    scale = np.abs(normal(directions, 4 * hidden)) / 200 + np.float32(0.002)
    for name in ("w", "r"):
        inputs[f"{name}_scale"] = scale if each else scale[:, 0]
        kind = np.int8 if zero == 0 else np.uint8
        inputs[f"{name}_zero"] = np.full_like(inputs[f"{name}_scale"], zero, kind)
    agree(
        "DynamicQuantizeLSTM", inputs, ("y", "last_h", "last_c"),
        constants=[n for n in inputs if n not in "xhc" and inputs[n] is not None],
        hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward",
    )  # fmt: skip


def test_lstm_rounds_each_row_of_the_state() -> None:
    """The results of a sequence do not depend on those beside it."""
    x, w = normal(5, 3, 4), codes(1, 4, 8, dtype=np.int8)
    x[:2, 2, 0] = 4, -4  # one sequence has the range of the input
    inputs: dict[str, Any] = {"x": x, "w": w, "r": w[:, :2], **dict.fromkeys("blhcp")}
    for name in ("w", "r"):
        inputs |= {f"{name}_scale": np.float32([0.01]), f"{name}_zero": np.int8([0])}
    every, part = (
        run_in_ge(model_of("DynamicQuantizeLSTM", i, ["y"], hidden_size=2), feeds(i, ()))[0]
        for i in (inputs, inputs | {"x": x[:, 1:]})
    )
    assert_near(part, every[:, :, 1:], 1e-5)


@pytest.mark.parametrize(("past", "each", "causal"), spread([None, 3], [0, 24], [0, 1], count=5))
def test_attention(past: int | None, each: int, causal: int) -> None:
    batch, length, heads, size = 2, 5, 2, 4
    scales = columns("w", each)
    inputs: dict[str, Any] = {"x": codes(batch, length, 6), "w": weights(6, 24), "b": normal(24)}
    inputs |= {"x_scale": np.float32(0.02), "w_scale": scales["w_scale"]}
    keys = length + (past or 0)
    inputs["mask"] = np.random.default_rng(1).integers(0, 2, (batch, keys)).astype(np.int32)
    inputs |= {"x_zero": np.uint8(120), "w_zero": scales["w_zero"]}
    inputs["past"] = None if past is None else normal(2, batch, heads, past, size)
    outputs = ("y", "present")
    agree("QAttention", inputs, outputs, num_heads=heads, unidirectional=causal)


@pytest.mark.parametrize(
    ("axis", "dtype"), spread([None, 0, 1], [*BOTH, np.uint16, np.int16], count=5)
)
def test_quantize_and_dequantize(axis: int | None, dtype: Any) -> None:
    dims = () if axis is None else (3 + axis,)
    scale = np.abs(normal(*dims, seed=1)) / 20 + np.float32(0.01)
    zero = np.full(dims, 3, dtype)
    flags = {} if axis is None else {"axis": axis}
    agree("QuantizeLinear", {"x": 3 * normal(3, 4), "s": scale, "z": zero}, **flags)
    agree("DequantizeLinear", {"x": codes(3, 4, dtype=dtype), "s": scale, "z": zero}, **flags)
