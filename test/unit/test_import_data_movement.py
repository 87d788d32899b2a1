"""ONNX's ops that move data, in the forms of all opsets, with parameters known at import and at
run time, static and dynamic, against onnx's reference evaluator; and sequences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DUPLICATES = np.array([[3, 1, 3], [2, 2, 5]], np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    outputs: Sequence[str],
    opset: int,
    dynamic: bool = False,
) -> ModelProto:
    def port(name: str, a: Array) -> Any:
        shape = [f"{name}{i}" for i in range(a.ndim)] if dynamic else a.shape
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), shape)

    graph = helper.make_graph(
        nodes,
        "g",
        [port(n, a) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def check(model: ModelProto, inputs: Mapping[str, Array]) -> None:
    wanted = ReferenceEvaluator(model).run(None, dict(inputs))
    imported = import_model(model)
    imported.module.verify()
    got = Session(imported.module, imported.payload).run(dict(inputs))
    for name, w in zip([o.name for o in model.graph.output], wanted, strict=True):
        assert got[name].dtype == w.dtype
        assert got[name].shape == w.shape
        np.testing.assert_array_equal(got[name], w)


CASES: list[tuple[str, int, Sequence[Array], dict[str, Any]]] = [
    ("Reshape", 13, [X, ints(0, -1)], {}),
    ("Flatten", 13, [X], {"axis": 2}),
    ("Flatten", 13, [X], {"axis": -2}),
    ("Flatten", 9, [X], {"axis": 3}),
    ("Transpose", 13, [X], {}),
    ("Squeeze", 11, [X[:1, :, :1]], {"axes": [0, 2]}),
    ("Squeeze", 13, [X[:1, :, :1], ints(-1)], {}),
    ("Unsqueeze", 11, [X], {"axes": [0, 4]}),
    ("Unsqueeze", 13, [X, ints(-1, 0)], {}),
    ("Expand", 13, [X[:, :1], ints(3, 1)], {}),
    ("Tile", 13, [X, ints(2, 1, 3)], {}),
    ("Shape", 13, [X], {}),
    ("Shape", 15, [X], {"start": 1, "end": -1}),
    ("Size", 13, [X], {}),
    ("Slice", 9, [X], {"starts": [0, -3], "ends": [1, 99], "axes": [0, 2]}),
    ("Slice", 9, [X], {"starts": [1], "ends": [2]}),
    ("Slice", 13, [X, ints(3), ints(-9), ints(2), ints(-2)], {}),
    ("Pad", 10, [X], {"pads": [0, 1, 0, 2, 0, 0], "value": 1.5}),
    ("Pad", 13, [X, ints(0, 1, 0, 2, 0, 0), np.array(1.5, np.float32)], {}),
    ("Pad", 18, [X, ints(1, 2), np.array(0, np.float32), ints(-1)], {"mode": "reflect"}),
    ("Concat", 13, [X, X[:, :1]], {"axis": 1}),
    ("DepthToSpace", 13, [X.reshape(1, 4, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 13, [X.reshape(1, 1, 4, 6)], {"blocksize": 2}),
    ("ConstantOfShape", 9, [ints(2, 3)], {}),
    ("Range", 11, [np.array(v, np.int64) for v in (1, 9, 3)], {}),
    ("EyeLike", 9, [X[0]], {"k": 1}),
    ("Trilu", 14, [X, np.array(-1, np.int64)], {"upper": 0}),
    ("Gather", 13, [X, np.array([[0, -1]], np.int32)], {"axis": 1}),
    ("GatherElements", 13, [X, np.full((2, 3, 1), -2, np.int64)], {"axis": 2}),
    ("GatherND", 13, [X, np.array([[[1]], [[-1]]])], {"batch_dims": 1}),
    (
        "ScatterElements",
        18,
        [X, np.full((1, 1, 2), 2), X[1:, :1, :2]],
        {"reduction": "add", "axis": 2},
    ),
    ("ScatterND", 16, [X, np.array([[1, 2], [1, 2]]), X[0, :2]], {"reduction": "add"}),
    ("OneHot", 11, [ints(1, -1, 5), np.array(3.0, np.float32), X[0, 0, :2]], {"axis": 0}),
    ("NonZero", 13, [X], {}),
    ("Compress", 11, [X, np.array([True, False, True])], {"axis": 1}),
    ("CenterCropPad", 18, [X, ints(5, 1)], {"axes": [0, 2]}),
    ("ReverseSequence", 10, [X, ints(1, 3)], {"batch_axis": 0, "time_axis": 1}),
]


@pytest.mark.parametrize("form", ["constant", "operand", "dynamic"])
@pytest.mark.parametrize(("op", "opset", "arrays", "attributes"), CASES, ids=lambda v: str(v)[:14])
def test_one_node(
    op: str, opset: int, arrays: Sequence[Array], attributes: dict[str, Any], form: str
) -> None:
    names = [f"i{k}" for k in range(len(arrays))]
    named = dict(zip(names, arrays, strict=True))
    first = 0 if op in ("ConstantOfShape", "Range") else 1
    constants = dict(list(named.items())[first:]) if form != "operand" else {}
    inputs = {n: a for n, a in named.items() if n not in constants}
    node = helper.make_node(op, names, ["y"], **attributes)
    check(model_of([node], inputs, constants, ["y"], opset, form == "dynamic"), inputs)


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "outputs", "attributes"),
    [
        ("Split", 11, [X], 2, {"axis": 2}),
        ("Split", 11, [X], 2, {"axis": 2, "split": [1, 3]}),
        ("Split", 13, [X, ints(1, 3)], 2, {"axis": -1}),
        ("Split", 18, [X], 3, {"axis": 2, "num_outputs": 3}),
        ("TopK", 9, [DUPLICATES], 2, {"k": 2}),
        ("TopK", 10, [DUPLICATES, ints(2)], 2, {"axis": 0}),
        ("TopK", 11, [DUPLICATES, ints(2)], 2, {"largest": 0}),
        ("Unique", 11, [DUPLICATES], 4, {}),
        ("Unique", 11, [DUPLICATES], 4, {"axis": 1}),
    ],
)
@pytest.mark.parametrize("form", ["constant", "operand", "dynamic"])
def test_one_node_of_several_outputs(
    op: str,
    opset: int,
    arrays: Sequence[Array],
    outputs: int,
    attributes: dict[str, Any],
    form: str,
) -> None:
    named = {f"i{k}": a for k, a in enumerate(arrays)}
    constants = dict(list(named.items())[1:]) if form != "operand" else {}
    inputs = {n: a for n, a in named.items() if n not in constants}
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, [*named], results, **attributes)
    check(model_of([node], inputs, constants, results, opset, form == "dynamic"), inputs)


# ---- sequences -------------------------------------------------------------------------------


def sequence_model(*lines: str, **constants: Array) -> ModelProto:
    """A model of `out, ... = Op(in, ...) attribute=value` lines on input x, with outputs y, z."""
    nodes: list[NodeProto] = []
    for line in lines:
        head, _, attributes = line.partition(")")
        results, _, call = head.partition(" = ")
        op, _, arguments = call.partition("(")
        pairs = (a.split("=") for a in attributes.split())
        named = {k: int(v) for k, v in pairs}
        inputs = [a for a in arguments.split(", ") if a]
        nodes.append(helper.make_node(op, inputs, results.split(", "), **named))
    outputs = [n for node in nodes for n in node.output if n in ("y", "z")]
    return model_of(nodes, {"x": X}, constants, outputs, 17)


@pytest.mark.parametrize(
    "model",
    [
        sequence_model("s = SequenceConstruct(x, x)", "y = ConcatFromSequence(s) axis=1"),
        sequence_model("s = SequenceConstruct(x)", "y = ConcatFromSequence(s) axis=0 new_axis=1"),
        sequence_model("s = SplitToSequence(x) axis=1", "y = SequenceAt(s, i)", i=np.array(-1)),
        sequence_model(
            "s = SplitToSequence(x) axis=2 keepdims=0", "y = SequenceAt(s, i)", i=np.array(1)
        ),
        sequence_model("s = SplitToSequence(x, n) axis=2", "y = SequenceLength(s)", n=np.array(3)),
        sequence_model(
            "s = SplitToSequence(x, n) axis=2", "y = SequenceAt(s, i)", n=ints(1, 3), i=np.array(1)
        ),
        sequence_model(
            "s = SequenceEmpty()",
            "t = SequenceInsert(s, x)",
            "y = SequenceLength(t)",
            "z = ConcatFromSequence(t) axis=0",
        ),
        sequence_model(
            "s = SplitToSequence(x) axis=1",
            "t = SequenceErase(s)",
            "u = SequenceErase(t, i)",
            "v = SequenceInsert(u, x, i)",
            "y = ConcatFromSequence(v) axis=1",
            i=np.array(0),
        ),
    ],
)
def test_sequences_known_at_import(model: ModelProto) -> None:
    check(model, {"x": X})


def test_a_place_known_at_run_time_needs_tensors_of_one_type() -> None:
    equal = ["s = SplitToSequence(x) axis=1", "y = SequenceAt(s, i)"]
    for place in (0, 2, -1):
        model = sequence_model(*equal)
        model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
        check(model, {"x": X, "i": np.array(place)})
    model = sequence_model("s = SplitToSequence(x, n) axis=2", "y = SequenceAt(s, i)", n=ints(1, 3))
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
    with pytest.raises(GeError, match="the tensors differ in type"):
        import_model(model)


def test_what_sequences_cannot_do_is_said() -> None:
    outside = sequence_model("s = SequenceConstruct(x)", "y = SequenceAt(s, i)", i=np.array(1))
    with pytest.raises(GeError, match="position 1 is outside a sequence of 1"):
        import_model(outside)
    nothing = sequence_model("s = SequenceEmpty()", "y = ConcatFromSequence(s) axis=0")
    with pytest.raises(GeError, match="the sequence is empty"):
        import_model(nothing)


# ---- what becomes of a node ------------------------------------------------------------------


def text_of(op: str, *shapes: Sequence[int | str], opset: int = 17, **attributes: Any) -> str:
    inputs = [
        helper.make_tensor_value_info(f"i{k}", TensorProto.FLOAT, s) for k, s in enumerate(shapes)
    ]
    node = helper.make_node(op, [i.name for i in inputs], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", opset)]
    return str(import_model(helper.make_model(graph, opset_imports=opsets)).module)


def test_flatten_asks_for_the_shape_only_where_both_sides_are_unknown() -> None:
    assert "shape [6, -1]" in text_of("Flatten", (2, 3, "a", "b"), axis=2)
    assert "shape [-1, 12]" in text_of("Flatten", ("a", "b", 3, 4), axis=2)
    assert "shape [0, -1]" in text_of("Flatten", ("a", "b", 3), axis=1)
    assert "graph.shape_of" in text_of("Flatten", ("a", "b", "c", "d"), axis=2)


def test_squeeze_names_its_axes() -> None:
    assert "axes [0, 2]" in text_of("Squeeze", (1, 3, 1))
    with pytest.raises(GeError, match="which dimensions are 1 is known only at run time"):
        text_of("Squeeze", (1, "a"))
