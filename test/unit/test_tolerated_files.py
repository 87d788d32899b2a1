"""ONNX files that say something twice, or leave it out: read with a warning where there is one
meaning, and refused where there are two."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ge.dialects.support.diagnostics import Diagnostic, warning_handler
from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.lowering.onnx.model import check_header
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

X = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32)
C = np.float32([1, -2, 3, 4])
node = helper.make_node


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def constant(name: str, array: Array) -> NodeProto:
    return node("Constant", [], [name], value=numpy_helper.from_array(array, f"{array[0]}"))


def model(
    nodes: Sequence[NodeProto],
    constants: Sequence[tuple[str, Array]] = (),
    outputs: Sequence[str] = ("y",),
    inputs: Sequence[str] = ("x",),
    opset: int | None = 17,
) -> ModelProto:
    infos = [helper.make_tensor_value_info(i, TensorProto.FLOAT, X.shape) for i in inputs]
    graph = helper.make_graph(
        nodes,
        "g",
        infos,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(a, name) for name, a in constants],
    )
    proto = helper.make_model(graph, ir_version=9)
    del proto.opset_import[:]
    if opset is not None:
        proto.opset_import.append(helper.make_opsetid("", opset))
    check_header(proto, "m.onnx")
    return proto


def run(proto: ModelProto) -> tuple[list[Array], list[str]]:
    """The outputs, and the warnings of the import."""
    warned: list[Diagnostic] = []
    with warning_handler(warned.append):
        imported = import_model(proto)
    found = Session(imported.module, imported.payload).run({"x": X})
    return list(found.values()), [w.message for w in warned]


ADD = node("Add", ["x", "c"], ["y"])
RELU = node("Relu", ["x"], ["y"])
TWICE = "the name 'c' is defined twice, by equal constants"
MEAN = X.mean(1, keepdims=True)
UNSTATED = "the model states no opset; its nodes are read as those of opset"
READ: dict[str, tuple[ModelProto, Array, str]] = {
    "mean": (model([node("ReduceMean", ["x"], ["y"], axes=[1, 1])]), MEAN, "ReduceMean 'y' names"),
    "max": (
        model([node("ReduceMax", ["x"], ["y"], axes=[-2, 1], keepdims=0)]),
        X.max(1), "ReduceMax 'y' names an axis twice",
    ),
    "sum": (
        model([node("ReduceSum", ["x", "a"], ["y"])], [("a", ints(1, 2, -2))]),
        X.sum((1, 2), keepdims=True), "ReduceSum 'y' names an axis twice",
    ),
    "squeeze": (
        model([node("Squeeze", ["x", "a"], ["y"])], [("a", ints(0, -3))]),
        X[0], "Squeeze 'y' names an axis twice",
    ),
    "variance": (
        model([node("MeanVarianceNormalization", ["x"], ["y"], axes=[1, 1])]),
        (X - MEAN) / X.std(1, keepdims=True), "MeanVarianceNormalization 'y' names an axis twice",
    ),
    "initializers": (model([ADD], [("c", C), ("c", C)]), X + C, TWICE),
    "constants": (model([constant("c", C), constant("c", C), ADD]), X + C, TWICE),
    "both": (model([constant("c", C), ADD], [("c", C)]), X + C, TWICE),
    "outputs": (model([RELU], outputs=("y", "y")), X.clip(0), "an output is named twice"),
    "inputs": (model([RELU], inputs=("x", "x")), X.clip(0), "input 'x' is named twice"),
    "opset 0": (model([RELU], opset=0), X.clip(0), UNSTATED),
    "no opset": (model([RELU], opset=None), X.clip(0), UNSTATED),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_one_meaning_is_read_with_a_warning(name: str):
    proto, want, warned = READ[name]
    outputs, messages = run(proto)
    (got,) = outputs
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    (message,) = messages
    assert message.startswith(warned)


def softmax(*axes: int) -> NodeProto:
    proto = node("Softmax", ["x"], ["y"])
    proto.attribute.extend(helper.make_attribute("axis", a) for a in axes)
    return proto


def test_what_is_said_twice_alike_is_no_matter():
    one, other = (run(model([softmax(*axes)])) for axes in ((1,), (1, 1)))
    np.testing.assert_array_equal(one[0][0], other[0][0])
    assert one[1] == other[1] == []


def of_two_meanings() -> list[tuple[Any, str]]:
    slices = [("s", ints(0, 1)), ("e", ints(2, 2)), ("a", ints(1, 1))]
    return [
        (model([ADD], [("c", C), ("c", 2 * C)]), "the name 'c' is defined twice"),
        (model([constant("c", C), constant("c", 2 * C), ADD]), "the name 'c' is defined twice"),
        (model([constant("c", C), ADD], [("c", C[:1])]), "the name 'c' is defined twice"),
        (model([softmax(1, 2)]), "attribute 'axis' is given twice, and differs"),
        (model([node("Slice", ["x", "s", "e", "a"], ["y"])], slices), "name an axis twice"),
        (model([node("Unsqueeze", ["x", "a"], ["y"])], [("a", ints(0, 0))]), "name an axis twice"),
        (model([RELU, node("Neg", ["x"], ["y"])]), "is the output of both Relu 'y' and Neg 'y'"),
    ]


@pytest.mark.parametrize(("proto", "message"), of_two_meanings())
def test_two_meanings_are_refused(proto: ModelProto, message: str):
    with pytest.raises(GeError, match=message):
        import_model(proto)
