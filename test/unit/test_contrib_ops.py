"""onnxruntime's activations, normalizations, matmuls and convolutions beside onnxruntime."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import F16, agree, model_of, normal, run_in_ge, spread

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model

SHAPES = [(2, 3, 8), (1, 5, 16), (3, 8)]


def vector(size: int, seed: int = 5, dtype: Any = np.float32) -> Any:
    return normal(size, seed=seed, dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("op", "bias"), [("Gelu", 0), ("FastGelu", 0), ("FastGelu", 1), ("BiasGelu", 1)]
)
def test_gelu(op: str, bias: int, shape: tuple[int, ...]) -> None:
    inputs = {"x": 3 * normal(*shape)} | ({"b": vector(shape[-1])} if bias else {})
    agree(op, inputs)


@pytest.mark.parametrize(("alpha", "shape"), list(zip([None, 1.0, 0.5], SHAPES, strict=True)))
def test_quick_gelu(alpha: float | None, shape: tuple[int, ...]) -> None:
    agree("QuickGelu", {"x": 3 * normal(*shape)}, **({} if alpha is None else {"alpha": alpha}))


@pytest.mark.parametrize(
    ("shape", "rest", "skip"),
    spread(SHAPES[:2], [(), ("beta",), ("beta", "bias")], ["full", "row", "flat"], count=6),
)
def test_skip_layer_norm(shape: tuple[int, ...], rest: tuple[str, ...], skip: str) -> None:
    size = shape[-1]
    of_skip = {"full": shape, "row": (1, *shape[1:]), "flat": shape[1:]}[skip]
    inputs: dict[str, Any] = {"x": normal(*shape), "skip": normal(*of_skip, seed=1)}
    inputs |= {"gamma": vector(size), "beta": None, "bias": None}
    inputs |= {name: vector(size, i) for i, name in enumerate(rest, 6)}
    agree("SkipLayerNormalization", inputs, ("y", "", "", "sum"), epsilon=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [False, True])
def test_skip_simplified_layer_norm(shape: tuple[int, ...], bias: bool) -> None:
    inputs: dict[str, Any] = {"x": normal(*shape), "skip": normal(*shape, seed=1)}
    inputs |= {"gamma": vector(shape[-1]), "bias": vector(shape[-1], 6) if bias else None}
    agree("SkipSimplifiedLayerNormalization", inputs, ("y", "", "", "sum"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("outputs", [("y",), ("y", "deviation")])
def test_simplified_layer_norm(shape: tuple[int, ...], outputs: tuple[str, ...]) -> None:
    inputs = {"x": normal(*shape), "scale": vector(shape[-1])}
    agree("SimplifiedLayerNormalization", inputs, outputs, domain="", epsilon=1e-6, axis=-1)


def test_simplified_layer_norm_has_the_type_of_its_scale() -> None:
    inputs = {"x": normal(2, 8, dtype=F16), "scale": vector(8, dtype=np.float32)}
    agree("SimplifiedLayerNormalization", inputs, domain="", tolerance=1e-3)


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_layer_norm_in_the_default_domain_of_old_exports(opset: int) -> None:
    inputs = {"x": normal(2, 3, 8), "scale": vector(8), "bias": vector(8, 6)}
    agree("LayerNormalization", inputs, ("y", "mean", "d"), domain="", version=opset, axis=-1)


@pytest.mark.parametrize(
    ("shape", "segments", "mask", "positions"),
    spread([(2, 5), (1, 3), (3, 8)], [False, True], [False, True], [None, 1, "batch"], count=7),
)
def test_embed_layer_norm(
    shape: tuple[int, int], segments: bool, mask: bool, positions: Any
) -> None:
    rng = np.random.default_rng(0)
    batch, length = shape

    def ids(rows: int, limit: int) -> Any:
        return rng.integers(0, limit, (rows, length)).astype(np.int32)

    inputs: dict[str, Any] = {
        "ids": ids(batch, 20),
        "segments": ids(batch, 2) if segments else None,
    }
    inputs |= {"words": normal(20, 8), "places": normal(9, 8, seed=1)}
    inputs |= {"parts": normal(2, 8, seed=2) if segments else None}
    inputs |= {"gamma": vector(8), "beta": vector(8, 6), "mask": ids(batch, 2) if mask else None}
    if positions is not None:
        inputs["positions"] = ids(batch if positions == "batch" else 1, 9)
    agree("EmbedLayerNormalization", inputs, ("y", "index", "sum"))


# ---- matmuls -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "flags"),
    [
        ((3, 4), (4, 5), {}),
        ((2, 3, 4), (2, 5, 4), {"transB": 1, "alpha": 0.5}),
        ((2, 4, 3), (4, 5), {"transA": 1}),
        ((3, 2, 6, 4), (2, 6, 4, 5), {"transBatchA": 1}),
        ((2, 3, 4), (5, 2, 4), {"transBatchB": 1, "transB": 1}),
        ((3, 2, 4), (3, 2, 5), {"transBatchA": 1, "transBatchB": 1, "transA": 1, "alpha": 2.0}),
        ((4,), (4, 5), {"transA": 1}),
        ((4,), (5, 4), {"transB": 1}),
    ],
)
def test_fused_matmul(a: Any, b: Any, flags: dict[str, Any]) -> None:
    agree("FusedMatMul", {"a": normal(*a), "b": normal(*b, seed=1)}, **flags)


ACTIVATIONS: list[tuple[str, list[float]]] = [
    ("", []), ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]),
    ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4]),
]  # fmt: skip


@pytest.mark.parametrize(("activation", "params"), ACTIVATIONS)
def test_fused_conv(activation: str, params: list[float]) -> None:
    inputs = {"x": normal(1, 4, 6, 5), "w": normal(6, 2, 3, 3, seed=1) / 4, "b": vector(6)}
    attributes: dict[str, Any] = {"activation": activation} if activation else {}
    attributes |= {"activation_params": params} if params else {}
    agree("FusedConv", inputs, group=2, pads=[1, 1, 1, 1], strides=[2, 1], **attributes)


@pytest.mark.parametrize("shape", [(1, 4, 5, 5), (2, 4, 3, 6), (1, 4, 1, 1)])
def test_fused_conv_adds_before_it_activates(shape: tuple[int, ...]) -> None:
    inputs = {"x": normal(*shape), "w": normal(3, 4, 1, 1, seed=1), "b": vector(3)}
    inputs |= {"z": normal(shape[0], 3, *shape[2:], seed=2)}
    agree("FusedConv", inputs, activation="Relu")


@pytest.mark.parametrize(("activation", "params"), ACTIVATIONS[1:5])
def test_fused_gemm(activation: str, params: list[float]) -> None:
    inputs = {"a": normal(4, 3), "b": normal(5, 4, seed=1), "c": vector(5)}
    names = ("activation_alpha", "activation_beta")
    attributes: dict[str, Any] = dict(zip(names, params, strict=False))
    flags = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
    agree("FusedGemm", inputs, activation=activation, **flags, **attributes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"kernel_shape": [2, 2], "dilations": [2, 1], "ceil_mode": 1},
    ],
)
def test_nhwc_max_pool(window: dict[str, Any], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(-100, 100, (2, 6, 5, 3)).astype(dtype)
    agree("NhwcMaxPool", {"x": x}, **window)


# ---- ops that onnxruntime has on GPUs only, by their definitions ---------------------------------


def computed(
    op: str, inputs: dict[str, Any], outputs: tuple[str, ...] = ("y",), **flags: Any
) -> Any:
    return run_in_ge(model_of(op, inputs, outputs, **flags), inputs)


def last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


def test_bias_add() -> None:
    x, b, skip = normal(2, 6, 8), vector(8), normal(2, 6, 8, seed=1)
    got = computed("BiasAdd", {"x": x, "b": b, "skip": skip})[0]
    np.testing.assert_allclose(got, x + b + skip, rtol=1e-6)


def test_bias_split_gelu() -> None:
    x, b = normal(2, 6, 8), vector(8)
    got = computed("BiasSplitGelu", {"x": x, "b": b})[0]
    gelu = computed("Gelu", {"x": (x + b)[..., 4:]})[0]
    np.testing.assert_allclose(got, (x + b)[..., :4] * gelu, rtol=1e-5)


@pytest.mark.parametrize(
    ("channels_last", "activation", "skip"), spread([0, 1], [0, 1], ["", "full", "row"], count=5)
)
def test_group_norm(channels_last: int, activation: int, skip: str) -> None:
    x, gamma, beta, bias = normal(2, 6, 4, 3), vector(6), vector(6, 6), vector(6, 7)
    more = normal(2, 6, *((4, 3) if skip == "full" else (1, 1)), seed=1)
    total = x + more + bias[:, None, None] if skip else x
    rows = total.reshape(2, 3, -1)
    normed = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    want = normed.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    want = want / (1 + np.exp(-want)) if activation else want
    of = last if channels_last else np.asarray
    inputs = {"x": of(x), "gamma": gamma, "beta": beta}
    flags = {"groups": 3, "activation": activation, "channels_last": channels_last}
    if not skip:
        got = computed("GroupNorm", inputs, **flags)
    else:
        inputs |= {"skip": of(more) if skip == "full" else more[:, :, 0, 0], "b": bias}
        got = computed("SkipGroupNorm", inputs, ("y", "sum"), **flags)
        np.testing.assert_allclose(got[1], of(total), rtol=1e-5)
    np.testing.assert_allclose(got[0], of(want), rtol=1e-4, atol=1e-5)


def test_convolutions_with_channels_last() -> None:
    x, w, b = normal(1, 4, 6, 5), normal(6, 2, 3, 3, seed=1), vector(6)
    window = {"group": 2, "pads": [1, 1, 1, 1], "strides": [2, 1]}
    want = last(computed("FusedConv", {"x": x, "w": w, "b": b}, **window)[0])
    got = computed("NhwcConv", {"x": last(x), "w": last(w), "b": b}, **window)[0]
    np.testing.assert_allclose(got, want, rtol=1e-6)
    inputs = {"x": last(x), "w": w, "b": b, "z": want}
    got = computed("NhwcFusedConv", inputs, activation="Relu", **window)[0]
    np.testing.assert_allclose(got, np.maximum(2 * want, 0), rtol=1e-5)


# ---- what is refused ---------------------------------------------------------------------------


def test_all_that_is_not_supported_is_listed_at_once() -> None:
    x = normal(2, 3, 8)
    model = model_of("QuickGelu", {"x": x}, ["y"], alfa=2.0, speed="high")
    other = model_of("FusedConv", {"u": normal(1, 4, 3, 3), "w": normal(4, 4, 1, 1)}, ["z"])
    other.graph.node[0].name = "conv"
    other.graph.node[0].attribute.extend(
        model_of("X", {}, [], activation="Softplus").graph.node[0].attribute
    )
    for field in ("node", "input", "output"):
        getattr(model.graph, field).extend(getattr(other.graph, field))
    with pytest.raises(GeError) as caught:
        import_model(model)
    text = caught.value.message
    assert text.startswith("2 nodes cannot be imported:")
    assert (
        "QuickGelu: attribute 'alfa' is not known; attribute 'speed' is not known: 'node'" in text
    )
    assert "FusedConv: attribute 'activation' is 'Softplus', supported are Relu, Tanh" in text


def test_layouts_of_a_cpu_are_refused_with_advice() -> None:
    domain = "com.microsoft.nchwc"
    model = model_of("ReorderInput", {"x": normal(1, 8, 2, 2)}, ["y"], domain=domain)
    with pytest.raises(GeError, match="save the optimized model with graph optimization level ORT"):
        import_model(model)
