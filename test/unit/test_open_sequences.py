"""Sequences of parts of a tensor along an axis whose size is known only at run time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import ge
from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.tools.commands import ge_run as main

node = helper.make_node
X = np.arange(24, dtype=np.float32).reshape(6, 4)
FORMS = [(size, axis, True) for size in (None, 1, 2, 4) for axis in (0, 1)]
FORMS += [(None, axis, False) for axis in (0, 1)]
Form = tuple[int | None, int, bool]


def model_of(nodes: Sequence[NodeProto], size: int | None, place: str = "INT64") -> ModelProto:
    """`nodes` on a sequence "s" of parts of an input "x", and a place "i"."""
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"]),
        helper.make_tensor_value_info("i", TensorProto.DataType.Value(place), []),
    ]
    sizes = [] if size is None else [numpy_helper.from_array(np.int64(size), "size")]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", infos, outputs, sizes)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def split(size: int | None, axis: int, keeps: bool = True) -> NodeProto:
    inputs = ["x"] if size is None else ["x", "size"]
    return node("SplitToSequence", inputs, ["s"], axis=axis, keepdims=int(keeps))


def run(form: Form, nodes: Sequence[NodeProto], place: int = 0, of: str = "int64") -> Array:
    imported = import_model(model_of([split(*form), *nodes], form[0], of.upper()))
    imported.module.verify()
    session = Session(imported.module, imported.payload)
    return session.run({"x": X, "i": np.array(place, of)})["y"]


def parts(form: Form) -> list[Array]:
    size, axis, keeps = form
    ends = range(size or 1, X.shape[axis], size or 1)
    found = np.split(X, list(ends), axis)
    return found if keeps else [p.squeeze(axis) for p in found]


@pytest.mark.parametrize("form", FORMS)
def test_members_and_their_number(form: Form):
    want, at = parts(form), [node("SequenceAt", ["s", "i"], ["y"])]
    assert run(form, [node("SequenceLength", ["s"], ["y"])]) == len(want)
    for place in (*range(len(want)), *range(-len(want), 0)):
        np.testing.assert_array_equal(run(form, at, place), want[place])
    for place in (len(want), -len(want) - 1):
        with pytest.raises(GeError, match=r"out of bounds|outside of the sequence"):
            run(form, at, place)


def test_places_may_be_of_32_bits():
    at = [node("SequenceAt", ["s", "i"], ["y"])]
    np.testing.assert_array_equal(run((2, 0, True), at, -2, "int32"), X[2:4])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fresh", [0, 1])
def test_members_put_together(form: Form, fresh: int):
    members = parts(form)
    rank = members[0].ndim + fresh
    for axis in range(-rank, rank):
        nodes = [node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=fresh)]
        put = np.stack if fresh else np.concatenate
        try:
            want = put(members, axis)
        except ValueError:
            with pytest.raises(GeError, match="does not divide into parts"):
                run(form, nodes)
            continue
        np.testing.assert_array_equal(run(form, nodes), want)


def tensor_type(*names: str) -> list[Any]:
    of = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    return [helper.make_value_info(name, of) for name in names]


@pytest.mark.parametrize("size", [None, 2])
def test_a_map_is_a_loop(size: int | None):
    body = helper.make_graph([node("Neg", ["v"], ["w"])], "b", tensor_type("v"), tensor_type("w"))
    nodes = [
        node("SequenceMap", ["s"], ["t"], body=body),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    np.testing.assert_array_equal(run((size, 0, True), nodes), -X)


def test_a_sequence_of_unknown_length_is_no_result_and_no_list(tmp_path: Path):
    model = model_of([split(None, 0)], None)
    model.graph.output[0].name = "s"
    with pytest.raises(GeError, match="output 's' is a sequence of a length known at run time"):
        import_model(model)
    model = model_of([split(None, 0), node("SequenceErase", ["s"], ["y"])], None)
    with pytest.raises(GeError, match="length of sequence 0 is known only at run time"):
        import_model(model)


def test_a_program_takes_any_size(tmp_path: Path):
    nodes = [split(2, 0), node("SequenceAt", ["s", "i"], ["y"])]
    onnx.save(model_of(nodes, 2), path := tmp_path / "m.onnx")
    program = ge.compile(str(path))
    session = Session(program.module, program.payload)
    for rows in (6, 3):
        y = session.run({"x": X[:rows], "i": np.array(-1)})["y"]
        np.testing.assert_array_equal(y, X[:rows][(rows - 1) // 2 * 2 :])


def test_ge_run_takes_some_sizes_of_a_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """The import takes them, the program has the others."""
    nodes = [split(2, 0), node("SequenceAt", ["s", "i"], ["y"])]
    onnx.save(model_of(nodes, 2), path := tmp_path / "m.onnx")
    assert main(["--dim", "n=4", str(path)]) == 0
    assert "y: float32[2, 1]" in capfd.readouterr().out
