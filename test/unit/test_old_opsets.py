"""ONNX's ops as opsets 1 to 6 have them, against what their documentation says, in numpy."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, defs, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import run_in_onnxruntime

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.lowering.onnx.model import check_header
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def one_node(
    op: str, opset: int, inputs: Sequence[Array], constants: Sequence[Array] = (), outputs: int = 1,
    **attributes: Any,
) -> ModelProto:  # fmt: skip
    names = [f"x{i}" for i in range(len(inputs))]
    weights = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [*names, *(w.name for w in weights)], results, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(n) for n in results]
    graph = helper.make_graph([node], "g", infos, made, weights)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=3)


def run(proto: ModelProto, inputs: Sequence[Array], seed: int = 0) -> list[Array]:
    imported = import_model(proto)
    session = Session(imported.module, imported.payload, seed=seed)
    results = session.run({f"x{i}": x for i, x in enumerate(inputs)})
    return [results[o.name] for o in proto.graph.output]


def result(op: str, opset: int, *inputs: Array, **more: Any) -> Array:
    return run(one_node(op, opset, inputs, **more), inputs)[0]


# ---- operands that broadcast where attributes say so

ARITHMETIC: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Less": np.less,
    "Greater": np.greater, "Pow": lambda x, y: np.abs(x) ** y,
}  # fmt: skip
X = floats(2, 3, 4, 5)
PLACES: list[tuple[tuple[int, ...], dict[str, int], tuple[int, ...]]] = [
    ((), {}, ()),
    ((1,), {}, (1,)),
    ((4, 5), {}, (4, 5)),
    ((3, 4), {"axis": 1}, (3, 4, 1)),
    ((3,), {"axis": 1}, (3, 1, 1)),
    ((3,), {"axis": -3}, (3, 1, 1)),
    ((2,), {"axis": 0}, (2, 1, 1, 1)),
    ((3, 1), {"axis": 1}, (3, 1, 1)),
]


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize(("shape", "axis", "as_now"), PLACES)
def test_an_operand_is_placed_by_its_axis(
    op: str, shape: tuple[int, ...], axis: dict[str, int], as_now: tuple[int, ...]
) -> None:
    x, y = (np.abs(X), floats(*shape)) if op == "Pow" else (X, floats(*shape))
    got = result(op, 6 if op in ("Add", "Sub", "Mul", "Div") else 1, x, y, broadcast=1, **axis)
    np.testing.assert_allclose(got, ARITHMETIC[op](x, y.reshape(as_now)), rtol=1e-5)


@pytest.mark.parametrize(("op", "opset"), [("And", 1), ("Or", 6), ("Xor", 3), ("Equal", 6)])
def test_logic_and_equality(op: str, opset: int) -> None:
    x, y = RNG.integers(0, 2, (2, 3, 4)) > 0, RNG.integers(0, 2, 3) > 0
    expected = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
                "Equal": np.equal}[op](x, y[:, None])  # fmt: skip
    assert np.array_equal(result(op, opset, x, y, broadcast=1, axis=1), expected)


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((5,), {}, "before opset 7 shapes [2, 3, 4, 5] and [5] need broadcast=1"),
        ((3,), {"broadcast": 1}, "[3] is no part of [2, 3, 4, 5]"),
        ((4, 5), {"broadcast": 1, "axis": 1}, "[4, 5] is no part of [2, 3, 4, 5] from axis 1 on"),
        ((4, 5), {"broadcast": 1, "axis": 3}, "[4, 5] is no part of [2, 3, 4, 5] from axis 3 on"),
        ((7, 2, 3, 4, 5), {"broadcast": 1}, "[7, 2, 3, 4, 5] is no part of [2, 3, 4, 5]"),
    ],
)
def test_operands_that_do_not_fit(
    shape: tuple[int, ...], attributes: dict[str, int], message: str
) -> None:
    with pytest.raises(GeError, match=re.escape(message)):
        import_model(one_node("Add", 6, [X, floats(*shape)], **attributes))


@pytest.mark.parametrize("slopes", [1, 3])
def test_prelu_has_a_slope_for_each_channel(slopes: int) -> None:
    slope = floats(slopes)
    shaped = slope if slopes == 1 else slope[:, None, None]
    for opset, more in ((1, {"consumed_inputs": [0, 0]}), (6, {})):
        got = result("PRelu", opset, X, slope, **more)
        np.testing.assert_allclose(got, np.where(X < 0, X * shaped, X), rtol=1e-6)


def test_gemm_adds_what_broadcasts() -> None:
    a, b, c = floats(3, 4), floats(5, 4), floats(5)
    for opset in (1, 6):
        got = result("Gemm", opset, a, b, c, alpha=0.5, beta=2.0, broadcast=1, transB=1)
        np.testing.assert_allclose(got, 0.5 * a @ b.T + 2 * c, rtol=1e-4, atol=1e-5)


# ---- parameters of other names and forms


def test_unary_ops_may_name_what_they_consume() -> None:
    x = np.abs(X) + 0.1
    expected = {
        "Abs": np.abs, "Ceil": np.ceil, "Exp": np.exp, "Floor": np.floor, "Log": np.log,
        "Neg": np.negative, "Reciprocal": np.reciprocal, "Sqrt": np.sqrt, "Tanh": np.tanh,
        "Relu": lambda v: np.maximum(v, 0), "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "Elu": lambda v: np.where(v < 0, np.expm1(v), v), "Clip": lambda v: v,
        "LeakyRelu": lambda v: np.where(v < 0, 0.01 * v, v),
        "HardSigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
        "Selu": lambda v: 1.0507 * np.where(v < 0, 1.6732 * np.expm1(v), v),
    }  # fmt: skip
    for op, function in expected.items():
        got = result(op, 1, x, consumed_inputs=[0])
        np.testing.assert_allclose(got, function(x), rtol=1e-4, err_msg=op)


@pytest.mark.parametrize(
    ("opset", "to"),
    [(1, "FLOAT16"), (1, "int32"), (5, "BOOL"), (6, TensorProto.DOUBLE), (1, TensorProto.INT8)],
)
def test_cast_to_a_name(opset: int, to: str | int) -> None:
    number = TensorProto.DataType.Value(to.upper()) if isinstance(to, str) else to
    dtype = helper.tensor_dtype_to_np_dtype(number)
    assert np.array_equal(result("Cast", opset, X, to=to), X.astype(dtype))


def test_cast_to_no_type() -> None:
    with pytest.raises(GeError, match="there is no element type 'FLOAT17'"):
        result("Cast", 1, X, to="FLOAT17")


def test_shapes_as_attributes() -> None:
    assert np.array_equal(result("Reshape", 1, X, shape=[0, -1]), X.reshape(2, -1))
    got = result("Slice", 1, X, starts=[1, -2], ends=[3, 2**31 - 1], axes=[1, 3])
    assert np.array_equal(got, X[:, 1:3, :, -2:])
    assert np.array_equal(result("Squeeze", 1, X[:, :1], axes=[1]), X[:, 0])
    assert np.array_equal(result("Unsqueeze", 1, X, axes=[0, 5]), X[None, ..., None])


def test_concat_joins_channels_by_default() -> None:
    assert np.array_equal(result("Concat", 1, X, X), np.concatenate([X, X], 1))
    assert np.array_equal(result("Concat", 4, X, X, axis=3), np.concatenate([X, X], 3))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad(mode: str) -> None:
    pads, value = [0, 0, 1, 2, 0, 0, 2, 1], {"value": 1.5} if mode == "constant" else {}
    widths = list(zip(pads[:4], pads[4:], strict=True))
    numpy_value = {"constant_values": 1.5} if mode == "constant" else {}
    expected = np.pad(X, widths, mode, **numpy_value)  # pyright: ignore
    assert np.array_equal(result("Pad", 1, X, paddings=pads, mode=mode, **value), expected)
    assert np.array_equal(result("Pad", 2, X, pads=pads, mode=mode, **value), expected)


def test_split_by_attribute_or_by_floats() -> None:
    for more in ({"split": [1, 3]}, {"constants": [np.array([1, 3], np.float32)]}):
        first, second = run(one_node("Split", 1, [X], outputs=2, axis=2, **more), [X])
        assert np.array_equal(first, X[:, :, :1])
        assert np.array_equal(second, X[:, :, 1:])
    halves = run(one_node("Split", 2, [X], outputs=2), [X])
    assert np.array_equal(np.concatenate(halves), X)


def test_tile_copies_along_one_axis() -> None:
    counts = [np.array(3, np.float32), np.array(1, np.float32)]
    assert np.array_equal(result("Tile", 1, X, constants=counts), np.tile(X, (1, 3, 1, 1)))
    repeats = [np.array([1, 2, 1, 3], np.int64)]
    assert np.array_equal(result("Tile", 6, X, constants=repeats), np.tile(X, repeats[0]))
    with pytest.raises(GeError, match="tiles and axis are known only at run time"):
        import_model(one_node("Tile", 1, [X, *counts]))


def test_top_k_by_attribute() -> None:
    values, indices = run(one_node("TopK", 1, [X], outputs=2, k=2, axis=1), [X])
    order = np.argsort(-X, 1)[:, :2]
    assert np.array_equal(indices, order)
    assert np.array_equal(values, np.take_along_axis(X, order, 1))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsample_by_two_factors(mode: str) -> None:
    got = result("Upsample", 1, X, mode=mode, height_scale=2.0, width_scale=3.0)
    scales = np.array([1, 1, 2, 3], np.float32)
    as_now = {"nearest": "nearest", "bilinear": "linear"}[mode]
    assert np.array_equal(got, result("Upsample", 9, X, constants=[scales], mode=as_now))
    if mode == "nearest":
        assert np.array_equal(got, X.repeat(2, 2).repeat(3, 3))
    with pytest.raises(GeError, match="height_scale and width_scale are needed"):
        result("Upsample", 1, X, mode=mode)


def test_norms_of_an_order_that_is_a_float() -> None:
    want = np.sqrt((X**2).sum((2, 3), keepdims=True))
    np.testing.assert_allclose(result("GlobalLpPool", 1, X, p=2.0), want, rtol=1e-5)
    windows = np.lib.stride_tricks.sliding_window_view(X, (2, 2), (2, 3))
    got = result("LpPool", 1, X, p=3.0, kernel_shape=[2, 2])
    np.testing.assert_allclose(got, (np.abs(windows) ** 3).sum((4, 5)) ** (1 / 3), rtol=1e-4)
    with pytest.raises(GeError, match=r"attribute 'p' is 2.5, expected int"):
        result("LpPool", 1, X, p=2.5, kernel_shape=[2, 2])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_is_of_a_matrix(op: str) -> None:
    rows = X.reshape(2, -1)
    weights = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    expected = {"Softmax": weights, "LogSoftmax": np.log(weights),
                "Hardmax": (rows == rows.max(1, keepdims=True)) * 1.0}[op]  # fmt: skip
    np.testing.assert_allclose(result(op, 1, X), expected.reshape(X.shape), rtol=1e-4, atol=1e-7)


# ---- inference is asked for


def test_batch_norm() -> None:
    scale, bias, mean, variance = floats(3), floats(3), floats(3), np.abs(floats(3))
    inputs = [X, scale, bias, mean, variance]

    def normed(mean: Array, variance: Array) -> Array:
        s, b, m, v = (a[:, None, None] for a in (scale, bias, mean, variance))
        return (X - m) / np.sqrt(v + 1e-3) * s + b

    for opset, more in ((1, {"consumed_inputs": [0, 0, 0, 1, 1]}), (6, {})):
        (y,) = run(one_node("BatchNormalization", opset, inputs, epsilon=1e-3, is_test=1, **more),
                   inputs)  # fmt: skip
        np.testing.assert_allclose(y, normed(mean, variance), rtol=1e-4, atol=1e-5)
        proto = one_node("BatchNormalization", opset, inputs, outputs=5, epsilon=1e-3, **more)
        own = [X.mean((0, 2, 3)), X.var((0, 2, 3))]
        kept = [0.9 * a + 0.1 * b for a, b in zip((mean, variance), own, strict=True)]
        for got, want in zip(run(proto, inputs), [normed(*own), *kept, *own], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(GeError, match="spatial=0"):
        import_model(one_node("BatchNormalization", 6, inputs, is_test=1, spatial=0))


@pytest.mark.parametrize("opset", [7, 8, 9, 13])
def test_batch_norm_trains_where_it_has_five_outputs(opset: int) -> None:
    """Of opset 7 to 13, against onnxruntime, but for what it saves for gradients."""
    inputs = [X, *(np.abs(floats(3)) for _ in range(4))]
    proto = one_node("BatchNormalization", opset, inputs, outputs=5)
    want = onnxruntime(proto, inputs)
    for got, expected in zip(run(proto, inputs)[:4], want[:4], strict=True):
        if expected is not want[2]:
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    (alone,) = run(one_node("BatchNormalization", opset, inputs), inputs)
    _, scale, bias, mean, variance = inputs
    by_channel = [a[:, None, None] for a in (scale, bias, mean, variance)]
    s, b, m, v = by_channel
    np.testing.assert_allclose(alone, (X - m) / np.sqrt(v + 1e-5) * s + b, rtol=1e-4, atol=1e-5)


UNCHANGED: Mapping[str, tuple[list[Array], dict[str, Any]]] = {
    **{op: ([X], {}) for op in (
        "Exp", "Relu", "Selu", "Softmax", "Hardmax", "GlobalMaxPool", "Shape", "Transpose",
        "Flatten", "ArgMax", "ReduceL2", "ReduceLogSumExp", "LpNormalization", "Identity", "Size",
    )},
    **{op: ([X, X + 1], {}) for op in ("Max", "Min", "Mean", "Sum", "Add", "Mul")},
    "Conv": ([X, floats(6, 3, 2, 2)], {"pads": [1, 0, 1, 0]}),
    "ConvTranspose": ([X, floats(3, 2, 2, 2)], {"strides": [2, 2]}),
    "AveragePool": ([X], {"kernel_shape": [2, 2], "pads": [1, 0, 1, 0]}),
    "MaxPool": ([X], {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    "LRN": ([X], {"size": 3}),
    "Gather": ([X, np.array([1, 0])], {"axis": 1}),
    "InstanceNormalization": ([X, floats(3), floats(3)], {}),
    "SpaceToDepth": ([X[:, :, :, :4]], {"blocksize": 2}),
    "MaxRoiPool": ([X, np.array([[0, 0, 0, 3, 2]], np.float32)], {"pooled_shape": [2, 2]}),
    "RNN": ([X[0], floats(1, 7, 5), floats(1, 7, 7)], {"hidden_size": 7}),
    "GRU": ([X[0], floats(1, 21, 5), floats(1, 21, 7)], {"hidden_size": 7}),
    "LSTM": ([X[0], floats(1, 28, 5), floats(1, 28, 7)], {"hidden_size": 7}),
}  # fmt: skip
"""Op -> inputs and attributes; what it means has not changed up to opset 7."""


@pytest.mark.parametrize("op", UNCHANGED)
def test_what_has_not_changed_is_imported_alike(op: str) -> None:
    """In all opsets, and as onnxruntime has it in opset 7, the first one that it knows."""
    inputs, attributes = UNCHANGED[op]
    first = min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == op)
    protos = {v: one_node(op, v, inputs, **attributes) for v in range(first, 8)}
    texts = {str(import_model(proto).module) for proto in protos.values()}
    assert len(texts) == 1
    (want, *_) = onnxruntime(protos[7], inputs)
    np.testing.assert_allclose(run(protos[7], inputs)[0], want, rtol=1e-3, atol=1e-4)


def onnxruntime(proto: ModelProto, inputs: Sequence[Array]) -> list[Array]:
    return run_in_onnxruntime(proto, {f"x{i}": x for i, x in enumerate(inputs)})


EXPERIMENTAL: list[tuple[str, dict[str, Any]]] = [
    ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
    ("Affine", {"alpha": 2.0, "beta": 1.0}),
    ("Affine", {}),
    ("ParametricSoftplus", {"alpha": 2.0, "beta": 1.5}),
    ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
    ("Scale", {"scale": 3.0}),
    ("Crop", {"border": [1, 2, 1, 0]}),
    ("Crop", {"border": [1, 2, 1, 0], "scale": [2, 3]}),
    *(
        ("MeanVarianceNormalization", {"across_channels": c, "normalize_variance": v})
        for c in (0, 1)
        for v in (0, 1)
    ),
]


@pytest.mark.parametrize(("op", "attributes"), EXPERIMENTAL)
def test_experimental_ops(op: str, attributes: dict[str, Any]) -> None:
    proto = one_node(op, 7, [X], **attributes)
    (want,) = onnxruntime(proto, [X])
    np.testing.assert_allclose(run(proto, [X])[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("constant", [True, False])
def test_dynamic_slice(constant: bool) -> None:
    limits = [np.array([1, -2]), np.array([3, 9]), np.array([2, 3])]
    inputs, constants = ([X], limits) if constant else ([X, *limits], [])
    proto = one_node("DynamicSlice", 9, inputs, constants)
    assert np.array_equal(run(proto, inputs)[0], X[:, :, 1:3, -2:])


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "message"),
    [
        ("Affine", 10, {}, "there is no such op"),
        ("Crop", 6, {"border": [1, 2]}, "a border 4 numbers"),
        ("ImageScaler", 6, {}, "a bias for each channel"),
    ],
)
def test_experimental_ops_that_are_refused(
    op: str, opset: int, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(GeError, match=message):
        import_model(one_node(op, opset, [X], **attributes))


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout(opset: int) -> None:
    y, mask = run(one_node("Dropout", opset, [X], outputs=2, is_test=1), [X])
    assert np.array_equal(y, X)
    assert mask.dtype == np.float32
    assert mask.all()
    y, mask = run(one_node("Dropout", opset, [X], outputs=2, ratio=0.25), [X])
    assert 0.6 < mask.mean() < 0.9
    np.testing.assert_allclose(y, X * mask / 0.75, rtol=1e-6)


# ---- models


def test_a_model_of_the_first_format_states_no_opset() -> None:
    proto = one_node("Add", 1, [X, floats(5)], broadcast=1)
    del proto.opset_import[:]
    proto.ir_version = 2
    check_header(proto, "m.onnx")
    y = floats(5)
    assert np.array_equal(run(proto, [X, y])[0], X + y)
    del proto.graph.output[:]
    with pytest.raises(GeError, match="no graph with outputs"):
        check_header(proto, "m.onnx")


def test_a_body_that_states_no_opset_has_that_of_the_model() -> None:
    """It is not taken for one of opset 1, in which products did not broadcast."""
    q, k, v = (floats(1, 2, 4, 8) for _ in range(3))
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview")
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, q.shape) for n in "qkv"]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.preview", 1)])
    imported = import_model(proto)
    (y,) = Session(imported.module, imported.payload).run({"q": q, "k": k, "v": v}).values()
    scores = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(8))
    want = scores / scores.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_all_that_is_not_supported_is_told() -> None:
    proto = one_node("Add", 6, [X, floats(5)])
    nodes = [
        helper.make_node("Cast", ["x0"], ["z"], to=77),
        helper.make_node("Pow", ["x0", "x1"], ["w"], axis=1, broadcast=1),
    ]
    proto.graph.node.extend(nodes)
    with pytest.raises(GeError) as caught:
        import_model(proto)
    assert caught.value.message.splitlines() == [
        "3 nodes cannot be imported:",
        "  Add: before opset 7 shapes [2, 3, 4, 5] and [5] need broadcast=1: 'y0'",
        "  Cast: element type number 77 is not supported: 'z'",
        "  Pow: [5] is no part of [2, 3, 4, 5] from axis 1 on: 'w'",
    ]
