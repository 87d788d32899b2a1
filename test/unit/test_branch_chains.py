"""Chains of ONNX's If, the choice of one of several as exporters write it, are one case."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.npu_task.control import CaseOp, IfOp
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

KINDS = ("Exp", "Tanh", "Neg", "Sigmoid")
X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)


def chain(number: int, tested: str) -> list[onnx.NodeProto]:
    """If `tested` is `number`: the op of this number, else the rest of the chain."""
    key = numpy_helper.from_array(np.array(number, np.int64))
    last = number == len(KINDS) - 2
    then, other = side(number), side(number + 1)
    if not last:
        shape = [None, 8]
        value = helper.make_tensor_value_info(f"r{number + 1}", TensorProto.FLOAT, shape)
        other = helper.make_graph(chain(number + 1, tested), f"else{number}", [], [value])
    return [
        helper.make_node("Constant", [], [f"k{number}"], value=key),
        helper.make_node("Equal", [tested, f"k{number}"], [f"c{number}"]),
        helper.make_node("If", [f"c{number}"], [f"r{number}"], then_branch=then, else_branch=other),
    ]


def side(number: int) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(f"o{number}", TensorProto.FLOAT, [None, 8])
    node = helper.make_node(KINDS[number], ["x"], [f"o{number}"])
    return helper.make_graph([node], f"side{number}", [], [value])


def save(path: Path, nodes: list[onnx.NodeProto], rows: int | str, with_index: bool) -> str:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 8])]
    if with_index:
        inputs.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
    outputs = [helper.make_tensor_value_info("r0", TensorProto.FLOAT, [rows, 8])]
    graph = helper.make_graph(nodes, "chain", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, path)
    return str(path)


def expected(number: int, x: Array) -> Array:
    functions = (np.exp, np.tanh, np.negative, lambda a: 1 / (1 + np.exp(-a)))
    return functions[number if 0 <= number < 3 else 3](x)


@pytest.mark.parametrize("fusion", ["off", "conservative", "default"])
def test_a_chain_on_an_input(tmp_path: Path, fusion: str):
    """All indices, those that no link has included; without fusion the chain stays."""
    program = ge.compile(save(tmp_path / "m.onnx", chain(0, "i"), 4, True), fusion=fusion)
    ops = list(program.module.walk())
    cases, branches = (sum(isinstance(op, kind) for op in ops) for kind in (CaseOp, IfOp))
    assert (cases, branches) == ((0, 3) if fusion == "off" else (1, 0))
    assert not check_program(program.module).problems
    session = Session(program.module, program.payload, sanitize=True)
    for i in (-1, 0, 1, 2, 3, 9):
        (got,) = session.run({"x": X, "i": np.array(i)}).values()
        np.testing.assert_allclose(got, expected(i, X), rtol=1e-6)


def test_a_chain_on_a_size(tmp_path: Path):
    """The index follows from a size: a program of unknown shapes has the case, one that is bound to
    a size has the branch that it takes."""
    sized = [helper.make_node("Shape", ["x"], ["s"], start=0, end=1)]
    axes = numpy_helper.from_array(np.array([0], np.int64))
    sized.append(helper.make_node("Constant", [], ["axes"], value=axes))
    sized.append(helper.make_node("Squeeze", ["s", "axes"], ["i"]))
    path = save(tmp_path / "m.onnx", [*sized, *chain(0, "i")], "rows", False)
    program = ge.compile(path)
    assert sum(isinstance(op, CaseOp) for op in program.module.walk()) == 1
    session = Session(program.module, program.payload)
    for rows in (1, 2, 3):
        (got,) = session.run({"x": X[:rows]}).values()
        np.testing.assert_allclose(got, expected(rows, X[:rows]), rtol=1e-6)
        static = ge.compile(path, dim=f"rows={rows}")
        assert not any(isinstance(op, CaseOp | IfOp) for op in static.module.walk())
        (own,) = Session(static.module, static.payload).run({"x": X[:rows]}).values()
        assert own.tobytes() == got.tobytes()
