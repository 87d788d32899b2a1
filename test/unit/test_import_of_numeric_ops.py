"""ONNX's elementwise ops, reductions, signal and table ops: forms of all opsets, parameters known
at import and at run time, static and dynamic shapes, against onnx's reference evaluator.
(The node tests of ONNX cover the newest opset.)"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

X = (np.random.default_rng(0).standard_normal((2, 3, 4)) * 3).astype(np.float32)
SIGNAL = np.random.default_rng(1).standard_normal((2, 12, 1)).astype(np.float32)
ML = "ai.onnx.ml"


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def scalar(value: float, dtype: Any = np.int64) -> Array:
    return np.array(value, dtype)


def model_of(
    op: str,
    opset: int,
    arrays: Sequence[Array],
    constants: int,
    dynamic: bool,
    **attributes: Any,
) -> ModelProto:
    """One node; its last `constants` inputs are initializers."""
    domain = ML if op in ("LabelEncoder", "Binarizer", "ArrayFeatureExtractor") else ""
    names = [f"x{i}" for i in range(len(arrays))]
    ports = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(a.dtype),
            [f"{name}_{i}" for i in range(a.ndim)] if dynamic else a.shape,
        )
        for name, a in list(zip(names, arrays, strict=True))[: len(arrays) - constants]
    ]
    held = list(zip(names, arrays, strict=True))[len(arrays) - constants :]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], domain=domain, **attributes)],
        "g",
        ports,
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, name) for name, a in held],
    )
    opsets = [helper.make_opsetid("", opset if not domain else 18)]
    opsets += [helper.make_opsetid(ML, opset)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(model: ModelProto, arrays: Sequence[Array]) -> Array:
    imported = import_model(model)
    imported.module.verify()
    inputs = {i.name: a for i, a in zip(model.graph.input, arrays, strict=False)}
    return Session(imported.module, imported.payload).run(inputs)["y"]


def check(
    op: str,
    opset: int,
    arrays: Sequence[Array],
    constants: int = 0,
    dynamic: bool = False,
    **attributes: Any,
) -> None:
    model = model_of(op, opset, arrays, constants, dynamic, **attributes)
    inputs = {i.name: a for i, a in zip(model.graph.input, arrays, strict=False)}
    (wanted,) = ReferenceEvaluator(model).run(None, inputs)
    got = run(model, arrays)
    assert got.dtype == wanted.dtype
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


ALL_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip


@pytest.mark.parametrize("op", ALL_REDUCTIONS)
def test_axes_as_attribute_or_input(op: str):
    x = np.abs(X) if op == "ReduceLogSum" else X
    old = 11 if op == "ReduceSum" else 13
    check(op, old, [x], axes=[0, -1])
    check(op, old, [x], axes=[1], keepdims=0, dynamic=True)
    check(op, old, [x], keepdims=0)
    check(op, 18, [x, ints(0, -1)], constants=1)
    check(op, 18, [x, ints(0, -1)], keepdims=0)
    check(op, 18, [x, ints(1)], dynamic=True)
    check(op, 18, [x, ints()], constants=1)


@pytest.mark.parametrize("op", ALL_REDUCTIONS)
def test_no_axes_can_mean_no_reduction(op: str):
    x = np.abs(X) if op == "ReduceLogSum" else X
    expected = {
        "ReduceL1": np.abs(x),
        "ReduceL2": np.abs(x),
        "ReduceLogSum": np.log(np.abs(x)),
        "ReduceSumSquare": x * x,
    }.get(op, x)
    model = model_of(op, 18, [x, ints()], 1, False, noop_with_empty_axes=1)
    np.testing.assert_allclose(run(model, [x]), expected, rtol=1e-6)
    model = model_of(op, 18, [x, ints()], 0, True, noop_with_empty_axes=1)
    with pytest.raises(GeError, match="number of axes known only at run time"):
        import_model(model)


CASES: list[tuple[str, int, Sequence[Array], dict[str, Any]]] = [
    ("CumSum", 14, [X, scalar(1)], {}),
    ("CumSum", 14, [X, scalar(-1)], {"exclusive": 1, "reverse": 1}),
    ("ArgMax", 13, [X], {"axis": -1, "keepdims": 0}),
    ("ArgMin", 13, [np.round(X)], {"axis": 1, "select_last_index": 1}),
    ("Clip", 13, [X, scalar(-1, np.float32), scalar(2, np.float32)], {}),
    ("Clip", 6, [X], {"min": -1.0, "max": 2.0}),
    ("Clip", 6, [X], {"max": 2.0}),
    ("Clip", 13, [X], {}),
    ("Pow", 13, [X, scalar(2)], {}),
    ("Pow", 13, [X, scalar(3, np.float32)], {}),
    ("Pow", 13, [np.abs(X), scalar(0.5, np.float64)], {}),
    ("Mod", 13, [X, X[:1] + 10], {"fmod": 1}),
    ("DFT", 17, [SIGNAL], {"axis": 1}),
    ("DFT", 17, [SIGNAL, scalar(8)], {"axis": 1, "onesided": 1}),
    ("DFT", 20, [SIGNAL], {}),
    ("DFT", 20, [SIGNAL, scalar(16), scalar(1)], {"onesided": 1}),
    ("STFT", 17, [SIGNAL, scalar(3), np.hanning(6).astype(np.float32)], {}),
    ("STFT", 17, [SIGNAL, scalar(3), np.ones(6, np.float32), scalar(6)], {"onesided": 0}),
    ("HannWindow", 17, [scalar(9)], {"periodic": 0}),
    ("HammingWindow", 17, [scalar(9)], {}),
    ("BlackmanWindow", 17, [scalar(8)], {"output_datatype": 11}),
    ("Binarizer", 1, [X], {"threshold": 0.5}),
    ("ArrayFeatureExtractor", 1, [X, ints(3, 0)], {}),
    ("LabelEncoder", 2, [ints(3, 1, 7)], {"keys_int64s": [1, 3], "values_floats": [0.5, 2.0]}),
    (
        "LabelEncoder",
        2,
        [np.array([[0.5], [9]], np.float32)],
        {"keys_floats": [0.5], "values_int64s": [4], "default_int64": 6},
    ),
]


@pytest.mark.parametrize(("op", "opset", "arrays", "attributes"), CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_parameters_at_import_and_at_run_time(
    op: str, opset: int, arrays: Sequence[Array], attributes: dict[str, Any], dynamic: bool
):
    check(op, opset, arrays, 0, dynamic, **attributes)
    check(op, opset, arrays, len(arrays) - 1, dynamic, **attributes)


def test_tables_of_text_are_refused():
    attributes = {"keys_int64s": [1], "values_strings": ["a"]}
    with pytest.raises(GeError, match="the table is not one of numbers"):
        import_model(model_of("LabelEncoder", 2, [ints(1)], 0, False, **attributes))


@pytest.mark.parametrize("width", [4, 3])
def test_prelu_before_opset_7_has_a_slope_for_each_channel(width: int):
    x = -np.arange(1, 6 * width + 1, dtype=np.float32).reshape(1, 3, 2, width)
    slopes = np.array([1, 2, 3], np.float32)
    got = run(model_of("PRelu", 6, [x, slopes], 1, False), [x])
    np.testing.assert_array_equal(got, x * slopes[:, None, None])


@pytest.mark.parametrize("shape", [(3,), (2, 2, 3, 4), (1, 1, 2, 3, 4)])
def test_prelu_slope_that_does_not_broadcast_to_the_input_is_refused(shape: tuple[int, ...]):
    arrays = [X[None], np.ones(shape, np.float32)]
    with pytest.raises(GeError, match=r"PRelu 'y': .* not broadcast"):
        import_model(model_of("PRelu", 16, arrays, 0, False))


@pytest.mark.parametrize("scale", [0.4, 0.8, 1.5, 2.6])
@pytest.mark.parametrize("kind", ["align_corners", "half_pixel", "asymmetric"])
def test_resize_by_scales_that_give_fractional_sizes(kind: str, scale: float):
    x = X[None, ..., :4] * np.float32(0.5)
    scales = np.array([1, 1, 1, scale], np.float32)
    attributes = {"mode": "linear", "coordinate_transformation_mode": kind}
    check("Resize", 19, [x, np.ones(0, np.float32), scales], 2, **attributes)
