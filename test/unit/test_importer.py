"""The ONNX importer: structure of models, control flow, functions, and what it refuses."""

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.ir import Operation

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_near

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import AssertOp, IfOp, LoopOp
from ge.dialects.support.diagnostics import Diagnostic, warning_handler
from ge.dialects.support.dims import Range
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.lowering.onnx.importer import Imported, import_model
from ge.lowering.onnx.model import check_header
from ge.runtime.device.session import Session

F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Nodes = Sequence[onnx.NodeProto]
node = helper.make_node


def value(name: str, kind: int = F, shape: Sequence[int | str | None] | None = ()) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: Nodes, inputs: Sequence[Any], outputs: Sequence[Any], **constants: Any) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    return helper.make_graph(nodes, "g", inputs, outputs, tensors)


def model(g: onnx.GraphProto, opset: int = 18, **more: Any) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", ())]
    return helper.make_model(g, opset_imports=opsets, ir_version=10, **more)


def ops(imported: Imported, kind: type[Operation] = Operation) -> list[Any]:
    return [op for op in imported.module.walk() if isinstance(op, kind)]


def run(imported: Imported, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    imported.module.verify()
    return Session(imported.module, imported.payload).run(inputs)


def check(
    proto: onnx.ModelProto, inputs: Mapping[str, Any], expected: Sequence[Any] | None = None
) -> Imported:
    """Import, run, and compare: with ONNX's reference implementation, unless the outputs are
    given (it stops loops that have no condition, and stacks scalars to columns)."""
    imported = import_model(proto)
    got = run(imported, inputs)
    if expected is None:
        expected = ReferenceEvaluator(proto).run(None, dict(inputs))
    for info, array in zip(proto.graph.output, expected, strict=True):
        assert got[info.name].dtype == array.dtype
        assert got[info.name].shape == array.shape
        assert_near(got[info.name], array, 1e-5)
    return imported


X = np.arange(6, dtype=np.float32).reshape(2, 3)


# ---- structure ---------------------------------------------------------------------------------


def test_initializer_that_is_an_input_is_a_constant() -> None:
    proto = model(graph([node("Add", ["x", "w"], ["y"])], [value("x", shape=[2, 3]),
                  value("w", shape=[3])], [value("y")], w=np.ones(3, np.float32)))  # fmt: skip
    imported = import_model(proto)
    assert len(ops(imported, ConstantOp)) == 1
    np.testing.assert_array_equal(run(imported, {"x": X})["y"], X + 1)


def test_nodes_in_any_order() -> None:
    nodes = [node("Neg", ["b"], ["y"]), node("Exp", ["a"], ["b"]), node("Sin", ["x"], ["a"])]
    imported = import_model(model(graph(nodes, [value("x", shape=[2, 3])], [value("y")])))
    np.testing.assert_allclose(run(imported, {"x": X})["y"], -np.exp(np.sin(X)), rtol=1e-6)


def test_cycle_is_named() -> None:
    nodes = [
        node("Add", ["x", "c"], ["a"], "first"),
        node("Relu", ["a"], ["b"], "second"),
        node("Neg", ["b"], ["c"], "third"),
    ]
    with pytest.raises(GeError, match=r"cycle: Add 'first', Neg 'third', Relu 'second'"):
        import_model(model(graph(nodes, [value("x", shape=[2])], [value("c")])))


def test_cycle_through_a_subgraph() -> None:
    branch = graph([node("Neg", ["y"], ["t"])], [], [value("t")])
    nodes = [node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch)]
    with pytest.raises(GeError, match="cycle: If 'if'"):
        import_model(model(graph(nodes, [value("c", B)], [value("y")])))


def test_all_problems_are_listed_by_op() -> None:
    nodes = [
        node("Foo", ["x"], ["a"], "first", domain="com.acme"),
        node("Relu", ["x"], ["b"]),
        node("Foo", ["b"], ["c"], "second", domain="com.acme"),
        node("Reshape", ["x", "shape"], ["d"], "flatten"),
        node("Add", ["a", "d"], ["y"], "never reached"),
    ]
    g = graph(nodes, [value("x", shape=[2, 3])], [value("y")], shape=np.array([7]))
    with pytest.raises(GeError) as e:
        import_model(model(g, opsets=[helper.make_opsetid("com.acme", 1)]))
    assert e.value.message.splitlines() == [
        "3 nodes cannot be imported:",
        "  Foo: there is no such op of domain 'com.acme' in ge: 'first', 'second'",
        "  Reshape: cannot reshape [2, 3] to [7]: 'flatten'",
    ]


def test_problems_in_both_branches_are_listed() -> None:
    branches = [
        graph([node("Foo", ["x"], [name], name, domain="com.acme")], [], [value(name)])
        for name in ("t", "e")
    ]
    nodes = [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    g = graph(nodes, [value("c", B), value("x")], [value("y")])
    with pytest.raises(GeError, match="'t', 'e'"):
        import_model(model(g, opsets=[helper.make_opsetid("com.acme", 1)]))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Relu", ["z"], ["y"])], "Relu 'y': 'z' is not defined by any input"),
        ([node("Relu", ["x"], ["y"], "a"), node("Neg", ["x"], ["y"], "b")],
         "'y' is the output of both Relu 'a' and Neg 'b'"),
        ([node("Neg", ["s"], ["x"]), node("Relu", ["x"], ["y"])], "'x' is defined twice"),
        ([node("Relu", ["x"], ["a"])], "'y' is not defined"),
        ([node("Softmax", ["x"], ["y"], axis="last")],
         "Softmax 'y': attribute 'axis' is 'last', expected int"),
        ([node("Transpose", ["x"], ["y"], perm=[0.5])],
         r"Transpose 'y': attribute 'perm' is \[0.5\], expected integers"),
        ([node("Gather", ["x"], ["y"])], "Gather 'y': input 1 is missing"),
        ([node("Expand", ["x", "s"], ["y"])], "is too large"),
    ],
)  # fmt: skip
def test_damaged_graph(nodes: Nodes, message: str) -> None:
    g = graph(nodes, [value("x", shape=[1])], [value("y")], s=np.array([2**31, 2**31]))
    with pytest.raises(GeError, match=message):
        import_model(model(g))


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (value("x", TensorProto.STRING, [2]), "input 'x': element type string is not supported"),
        (value("x", F, None), "the shape of input 'x' is not known; give --shape x="),
        (value("x", F, [2**40, 2**40]), "input 'x': shape .* is absurd"),
        (helper.make_tensor_sequence_value_info("x", F, [2]), "'x' is a sequence whose length"),
        (helper.make_value_info("x", helper.make_map_type_proto(INT, helper.make_tensor_type_proto(
            F, [2]))), "input 'x' is a map, not a tensor"),
    ],
)  # fmt: skip
def test_input_that_cannot_be_an_argument(info: Any, message: str) -> None:
    with pytest.raises(GeError) as e:
        import_model(model(graph([node("Relu", ["x"], ["y"])], [info], [value("y")])))
    assert re.search(message, str(e.value))


def test_opset_that_is_not_known() -> None:
    proto = model(graph([node("Relu", ["x"], ["y"])], [value("x")], [value("y")]), opset=999)
    with pytest.raises(GeError, match="opset 999 is not known"):
        check_header(proto, "m.onnx")


def test_old_operands_broadcast_by_attribute() -> None:
    g = graph([node("Add", ["x", "w"], ["y"], broadcast=1)], [value("x", shape=[2, 3]),
              value("w", shape=[3])], [value("y", shape=[2, 3])])  # fmt: skip
    imported = import_model(model(g, opset=6))
    w = np.ones(3, np.float32)
    np.testing.assert_array_equal(run(imported, {"x": X, "w": w})["y"], X + 1)


def test_weights_of_one_name_keep_apart() -> None:
    """The branches of an If may both call a weight `w`."""
    big = np.ones((2, 500), np.float32)
    branches = [
        graph([node("Mul", ["x", "w"], ["t"])], [], [value("t")], w=big * factor)
        for factor in (2, 3)
    ]
    nodes = [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    proto = model(graph(nodes, [value("c", B), value("x", shape=[2, 500])], [value("y")]))
    imported = check(proto, {"c": np.array(False), "x": big})
    assert list(imported.payload) == ["w", "w.1"]


def test_sequence_inputs_and_outputs_are_numbered() -> None:
    info = helper.make_tensor_sequence_value_info
    nodes = [node("SequenceInsert", ["s", "x"], ["y"])]
    g = graph(nodes, [info("s", F, [2]), value("x", shape=[2])], [info("y", F, [2])])
    imported = import_model(model(g), lengths={"s": 2})
    a = np.ones(2, np.float32)
    got = run(imported, {"s.0": a, "s.1": a * 2, "x": a * 3})
    assert [got[f"y.{i}"][0] for i in range(3)] == [1, 2, 3]


def test_dimensions_named_by_a_question_mark_have_their_own_sizes() -> None:
    g = graph([node("Relu", ["x"], ["y"])], [value("x", shape=["?", "?"])], [value("y")])
    check(model(g), {"x": X})
    typed = import_model(model(g), shapes={"x": (2, Range())})
    assert "tensor<2x?xf32>" in str(typed.module)


def test_dimensions_of_minus_one_are_not_known() -> None:
    g = graph([node("Relu", ["x"], ["y"])], [value("x", shape=[-1, 3])], [value("y")])
    check(model(g), {"x": X}, [X])
    assert "tensor<?x3xf32>" in str(import_model(model(g)).module)
    assert "tensor<2x3xf32>" in str(import_model(model(g), shapes={"x": (2, 3)}).module)


def test_real_signal_without_its_last_dimension() -> None:
    """Runtimes take it, though the standard has a last dimension of 1."""
    signal = np.random.default_rng(0).standard_normal((2, 12)).astype(np.float32)
    results: list[np.ndarray] = []
    for x in (signal, signal[..., None]):
        g = graph([node("STFT", ["x", "step", "", "length"], ["y"])],
                  [value("x", shape=x.shape)], [value("y", shape=None)],
                  step=np.int64(3), length=np.int64(6))  # fmt: skip
        results.append(run(import_model(model(g)), {"x": x})["y"])
    np.testing.assert_array_equal(*results)


# ---- control flow ------------------------------------------------------------------------------


def test_if_sees_outer_values() -> None:
    then = graph([node("Add", ["x", "two"], ["t"])], [], [value("t", shape=[2, 3])])
    other = graph([node("Mul", ["x", "k"], ["e"])], [], [value("e", shape=[2, 3])],
                  k=np.float32(5))  # fmt: skip
    nodes = [
        node("If", ["c"], ["z"], then_branch=then, else_branch=other),
        node("Neg", ["z"], ["y"]),
    ]
    g = graph(nodes, [value("c", B), value("x", shape=[2, 3])], [value("y", shape=[2, 3])],
              two=np.float32(2))  # fmt: skip
    for c in (True, False):
        imported = check(model(g), {"c": np.array(c), "x": X})
        assert len(ops(imported, IfOp)) == 1


def test_if_with_branches_of_different_shape() -> None:
    then = graph([node("Concat", ["x", "x"], ["t"], axis=0)], [], [value("t")])
    other = graph([node("Identity", ["x"], ["e"])], [], [value("e")])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    g = graph(nodes, [value("c", B), value("x", shape=[2, 3])], [value("y", shape=["n", 3])])
    imported = check(model(g), {"c": np.array(True), "x": X})
    assert str(ops(imported, IfOp)[0].outputs[0].type) == "tensor<?x3xf32>"


SIZE = node("Shape", ["x"], ["size"], start=1, end=2)
SIZE_IS_ONE = (SIZE, node("Equal", ["size", "one"], ["c"]))


def squeezed(
    *after: onnx.NodeProto, condition: Sequence[onnx.NodeProto] = SIZE_IS_ONE
) -> onnx.ModelProto:
    """A squeeze of axis 1 as exporters write it, for a size that is known at run time only."""
    then = graph([node("Squeeze", ["x", "one"], ["t"])], [], [value("t", shape=None)])
    other = graph([node("Identity", ["x"], ["e"])], [], [value("e", shape=None)])
    nodes = [
        *condition,
        node("If", ["c"], ["z"], "squeeze", then_branch=then, else_branch=other),
        *after,
    ]
    g = graph(nodes, [value("x", shape=["n", "m"])], [value("y", shape=None)],
              one=np.array([1]), w=np.ones((1, 3), np.float32))  # fmt: skip
    return model(g)


def test_if_whose_other_branch_what_follows_cannot_take() -> None:
    proto = squeezed(node("Transpose", ["z"], ["v"], perm=[0]), node("Neg", ["v"], ["y"]))
    column = X.reshape(6, 1)
    imported = check(proto, {"x": column}, [-column[:, 0]])
    assert not ops(imported, IfOp)
    assert len(ops(imported, AssertOp)) == 1
    with pytest.raises(GeError, match="squeeze"):
        run(imported, {"x": X})


def test_if_whose_first_branch_what_follows_cannot_take() -> None:
    proto = squeezed(node("Transpose", ["z"], ["v"], perm=[1, 0]), node("Neg", ["v"], ["y"]))
    imported = check(proto, {"x": X}, [-X.T])
    with pytest.raises(GeError, match="If 'squeeze' takes its then branch, with which Transpose"):
        run(imported, {"x": X.reshape(6, 1)})


def test_what_trials_import_is_gone() -> None:
    """The weights and ops of what is imported for a trial only."""
    add = node("Add", ["v", "w2"], ["y"])
    w2 = node("Constant", [], ["w2"], value=numpy_helper.from_array(np.ones((600, 3), np.float32)))
    nodes = [node("Unsqueeze", ["r", "one"], ["u"]), node("MatMul", ["u", "w"], ["v"]), w2, add]
    proto = squeezed(node("Transpose", ["z"], ["r"], perm=[0]), *nodes)
    x = np.ones((600, 1), np.float32)
    imported = check(proto, {"x": x}, [np.full((600, 3), 2, np.float32)])
    assert list(imported.payload) == ["w2"]
    inside = set(imported.module.walk())
    assert all(u.operation in inside for op in inside for r in op.results for u in r.uses)


def test_rank_that_follows_from_a_condition_is_named() -> None:
    after = node("Softmax", ["z"], ["s"], "s"), node("Neg", ["s"], ["y"])
    by_value = (
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["c"], to=TensorProto.BOOL),
    )
    with pytest.raises(GeError, match=r"Softmax 's'.*; how many dimensions 'squeeze' has"):
        import_model(squeezed(*after, condition=by_value))


USUALLY_FALSE = {
    "equal": SIZE_IS_ONE,
    "less": (SIZE, node("LessOrEqual", ["size", "one"], ["c"])),
    "not greater": (SIZE, node("Less", ["one", "size"], ["g"]), node("Not", ["g"], ["c"])),
    "and": (SIZE, node("Equal", ["size", "one"], ["a"]), node("And", ["a", "a"], ["c"])),
}


@pytest.mark.parametrize("condition", USUALLY_FALSE.values(), ids=list(USUALLY_FALSE))
@pytest.mark.parametrize("followed", [False, True])
def test_a_condition_on_sizes_is_taken_for_most_of_them(
    condition: Sequence[onnx.NodeProto], followed: bool
) -> None:
    """Both branches fit what follows, and differ in rank: a program has one of them."""
    after = [node("Softmax", ["z"], ["s"])] if followed else []
    proto = squeezed(*after, node("Neg", ["s" if followed else "z"], ["y"]), condition=condition)
    exps = np.exp(X - X.max(1, keepdims=True))
    want = -exps / exps.sum(1, keepdims=True) if followed else -X
    imported = check(proto, {"x": X}, [want])
    assert not ops(imported, IfOp)
    with pytest.raises(GeError, match="takes its then branch, whose result has another number"):
        run(imported, {"x": X.reshape(6, 1)})
    fixed = import_model(proto, dims={"n": 6, "m": 1})
    assert run(fixed, {"x": X.reshape(6, 1)})["y"].shape == (6,)


def test_a_condition_that_splits_ordinary_sizes_is_not_guessed() -> None:
    condition = (SIZE, node("Less", ["size", "many"], ["c"]))
    proto = squeezed(node("Softmax", ["z"], ["y"]), condition=condition)
    proto.graph.initializer.append(numpy_helper.from_array(np.array([512]), "many"))
    with pytest.raises(GeError, match="how many dimensions 'squeeze' has"):
        import_model(proto)


def test_branch_that_cannot_run_is_an_error_of_the_run() -> None:
    then = graph([node("Reshape", ["x", "k"], ["t"], "wrong")], [], [value("t")],
                 k=np.array([7]))  # fmt: skip
    other = graph([node("Neg", ["x"], ["e"])], [], [value("e")])
    nodes = [node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)]
    g = graph(nodes, [value("c", B), value("x", shape=[2, 3])], [value("y", shape=None)])
    warnings: list[Diagnostic] = []
    with warning_handler(warnings.append):
        imported = check(model(g), {"c": np.array(False), "x": X}, [-X])
    why = "If 'choice' takes its then branch, with which Reshape 'wrong' fails: cannot reshape"
    assert [w.message.startswith(f"a run ends in an error if {why}") for w in warnings] == [True]
    with pytest.raises(GeError, match=why):
        run(imported, {"c": np.array(True), "x": X})


def test_constant_condition_leaves_one_branch() -> None:
    """The condition follows from shapes, as in what exporters make of `squeeze`."""
    then = graph([node("Relu", ["x"], ["t"])], [], [value("t")])
    other = graph([node("Foo", ["x"], ["e"], domain="com.acme")], [], [value("e")])
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["d"], axis=0),
        node("Equal", ["d", "three"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    g = graph(nodes, [value("x", shape=["n", 3])], [value("y", shape=["n", 3])],
              one=np.array(1), three=np.array(3))  # fmt: skip
    imported = import_model(model(g, opsets=[helper.make_opsetid("com.acme", 1)]))
    assert not ops(imported, IfOp)
    np.testing.assert_array_equal(run(imported, {"x": -X})["y"], 0 * X)


def loop(nodes: Nodes, carried: Sequence[Any], scans: Sequence[Any] = (), **constants: Any) -> Any:
    """A body with the outputs `c_out`, then the first output of each value named `NAME_out`."""
    inputs = [value("i", INT), value("c", B), *carried]
    outputs = [value("c_out", B), *(value(f"{v.name}_out", F, None) for v in carried), *scans]
    return graph(nodes, inputs, outputs, **constants)


KEEP = node("Identity", ["c"], ["c_out"])


def test_loop_with_scan_output_of_known_length() -> None:
    body = loop([KEEP, node("Add", ["a", "x"], ["a_out"]), node("Neg", ["a"], ["s"])],
                [value("a", shape=[2, 3])], [value("s", shape=[2, 3])])  # fmt: skip
    g = graph([node("Loop", ["n", "", "x"], ["y", "ys"], body=body)], [value("x", shape=[2, 3])],
              [value("y", shape=[2, 3]), value("ys", shape=[4, 2, 3])], n=np.array(4))  # fmt: skip
    imported = check(model(g), {"x": X}, [X * 5, np.stack([X * -k for k in (1, 2, 3, 4)])])
    assert str(ops(imported, LoopOp)[0].outputs[1].type) == "tensor<4x2x3xf32>"


def test_loop_ends_by_its_condition() -> None:
    body = loop([node("Add", ["a", "a"], ["a_out"]), node("Less", ["a_out", "limit"], ["c_out"]),
                 node("Identity", ["a_out"], ["s"])], [value("a")], [value("s")])  # fmt: skip
    g = graph([node("Loop", ["", "yes", "x"], ["y", "ys"], body=body)],
              [value("x"), value("limit")], [value("y"), value("ys", shape=["n"])],
              yes=np.array(True))  # fmt: skip
    powers = np.float32([2, 4, 8, 16, 32, 64, 128])
    check(model(g), {"x": np.float32(1), "limit": np.float32(100)}, [powers[-1], powers])


def test_loop_whose_carried_shapes_change() -> None:
    """`a` grows, so that `b`, which takes its place a round later, grows too."""
    nodes = [KEEP, node("Concat", ["a", "x"], ["a_out"], axis=0), node("Neg", ["a"], ["b_out"])]
    body = loop(nodes, [value("a", shape=["m", 3]), value("b", shape=["k", 3])])
    g = graph([node("Loop", ["n", "", "x", "x"], ["y", "z"], body=body)],
              [value("x", shape=[2, 3]), value("n", INT)],
              [value("y", shape=["m", 3]), value("z", shape=["k", 3])])  # fmt: skip
    expected = [np.tile(X, (4, 1)), -np.tile(X, (3, 1))]
    imported = check(model(g), {"x": X, "n": np.array(3)}, expected)
    assert [str(o.type) for o in ops(imported, LoopOp)[0].outputs] == ["tensor<?x3xf32>"] * 2


def test_weights_in_a_loop_are_kept_once() -> None:
    """The body is imported twice, because a shape changes."""
    body = loop([KEEP, node("Concat", ["a", "w"], ["a_out"], axis=0)], [value("a", shape=["m"])],
                w=np.ones(1000, np.float32))  # fmt: skip
    g = graph([node("Loop", ["n", "", "x"], ["y"], body=body)], [value("x", shape=[2])],
              [value("y", shape=["m"])], n=np.array(2))  # fmt: skip
    zeros, ones = np.zeros(2, np.float32), np.ones(2000, np.float32)
    imported = check(model(g), {"x": zeros}, [np.concatenate([zeros, ones])])
    assert list(imported.payload) == ["w"]


def test_loop_over_a_rank_that_changes_is_refused_by_ops_that_need_it() -> None:
    body = loop([KEEP, node("Unsqueeze", ["a", "zero"], ["a_out"])], [value("a", shape=[2])],
                zero=np.array([0]))  # fmt: skip
    g = graph([node("Loop", ["n", "", "x"], ["y"], "grow", body=body)],
              [value("x", shape=[2]), value("n", INT)], [value("y")])  # fmt: skip
    with pytest.raises(
        GeError, match="Unsqueeze 'a_out': operand 'input': expected a ranked tensor"
    ):
        import_model(model(g))


def test_loop_that_builds_a_sequence_is_unrolled() -> None:
    info = helper.make_tensor_sequence_value_info
    body = graph([KEEP, node("SequenceInsert", ["s", "x"], ["s_out"])],
                 [value("i", INT), value("c", B), info("s", F, None)],
                 [value("c_out", B), info("s_out", F, None)])  # fmt: skip
    nodes = [
        node("SequenceEmpty", [], ["e"]),
        node("Loop", ["n", "", "e"], ["all"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    g = graph(nodes, [value("x", shape=[2, 3])], [value("y", shape=[6, 3])], n=np.array(3))
    assert not ops(check(model(g), {"x": X}, [np.tile(X, (3, 1))]), LoopOp)


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(backward: int, axis: int) -> None:
    body = graph([node("Add", ["a", "e"], ["a_out"]), node("Mul", ["a_out", "e"], ["s"])],
                 [value("a", shape=["k"]), value("e", shape=["k"])],
                 [value("a_out", shape=["k"]), value("s", shape=["k"])])  # fmt: skip
    g = graph(
        [node("Scan", ["h", "x"], ["y", "ys"], body=body, num_scan_inputs=1,
              scan_input_axes=[axis - 2], scan_input_directions=[backward],
              scan_output_axes=[1 - axis], scan_output_directions=[backward])],
        [value("h", shape=["k"]), value("x", shape=[2, 3])],
        [value("y", shape=["k"]), value("ys", shape=["p", "q"])],
    )  # fmt: skip
    steps = np.moveaxis(X, axis, 0)[:: -1 if backward else 1]
    sums = np.cumsum(steps, 0)
    got = run(import_model(model(g), shapes={"h": steps[0].shape}),
              {"h": np.zeros_like(steps[0]), "x": X})  # fmt: skip
    np.testing.assert_array_equal(got["y"], sums[-1])
    expected = (sums * steps)[:: -1 if backward else 1]
    np.testing.assert_array_equal(got["ys"], np.moveaxis(expected, 0, 1 - axis))


def test_scan_of_unknown_length() -> None:
    body = graph([node("Add", ["a", "e"], ["a_out"])], [value("a"), value("e")], [value("a_out")])
    g = graph([node("Scan", ["h", "x"], ["y"], body=body, num_scan_inputs=1)],
              [value("h"), value("x", shape=["n"])], [value("y")])  # fmt: skip
    got = run(import_model(model(g)), {"h": np.float32(1), "x": np.ones(5, np.float32)})
    assert got["y"] == 6


def test_sequence_map() -> None:
    body = graph([node("Add", ["p", "q"], ["r"])], [value("p", shape=[1, 3]), value("q", shape=[])],
                 [value("r", shape=[1, 3])])  # fmt: skip
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("SequenceMap", ["s", "one"], ["m"], body=body),
        node("ConcatFromSequence", ["m"], ["y"], axis=0),
    ]
    g = graph(nodes, [value("x", shape=[2, 3])], [value("y", shape=[2, 3])], one=np.float32(1))
    np.testing.assert_array_equal(run(import_model(model(g)), {"x": X})["y"], X + 1)


def test_optionals_are_resolved() -> None:
    nodes = [
        node("Optional", ["x"], ["o"]),
        node("OptionalHasElement", ["o"], ["has"]),
        node("OptionalGetElement", ["o"], ["y"]),
        node("OptionalHasElement", [], ["none"]),
    ]
    g = graph(nodes, [value("x", shape=[2])], [value("y"), value("has", B), value("none", B)])
    got = run(import_model(model(g)), {"x": np.ones(2, np.float32)})
    assert (got["has"], got["none"]) == (True, False)


# ---- functions ---------------------------------------------------------------------------------


def scaled_add() -> onnx.FunctionProto:
    """a * factor + b, or a * factor without b; in an opset of its own."""
    factor = helper.make_node("Constant", [], ["k"])
    factor.attribute.append(
        onnx.AttributeProto(
            name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name="factor"
        )
    )
    nodes = [factor, node("Mul", ["a", "k"], ["m"], "times"), node("Sum", ["m", "b"], ["r"])]
    return helper.make_function(
        "com.acme", "ScaledAdd", ["a", "b"], ["r"], nodes, [helper.make_opsetid("", 13)],
        attribute_protos=[helper.make_attribute("factor", 2.0)],
    )  # fmt: skip


ACME = [helper.make_opsetid("com.acme", 1)]


def test_local_function() -> None:
    nodes = [
        node("ScaledAdd", ["x", "x"], ["a"], "one", domain="com.acme"),
        node("ScaledAdd", ["a", "x"], ["y"], "two", domain="com.acme", factor=10.0),
    ]
    proto = model(graph(nodes, [value("x", shape=[2, 3])], [value("y", shape=[2, 3])]),
                  opsets=ACME, functions=[scaled_add()])  # fmt: skip
    imported = check(proto, {"x": X}, [(X * 2 + X) * 10 + X])
    places = [str(op.location) for op in ops(imported) if op.name == "graph.mul"]
    assert ['"one/times"' in places[0], '"two/times"' in places[1]] == [True, True]


def test_function_that_calls_itself() -> None:
    body = [node("Again", ["a"], ["r"], domain="com.acme")]
    function = helper.make_function("com.acme", "Again", ["a"], ["r"], body, ACME)
    nodes = [node("Again", ["x"], ["y"], domain="com.acme")]
    proto = model(graph(nodes, [value("x")], [value("y")]), opsets=ACME, functions=[function])
    with pytest.raises(GeError, match="function 'Again' calls itself"):
        import_model(proto)


def test_functions_that_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten levels of ten calls each are ten thousand million nodes."""
    monkeypatch.setattr("ge.lowering.onnx.importer.MAX_NODES", 1_000)
    functions = [helper.make_function("com.acme", "F0", ["a"], ["r"], [node("Neg", ["a"], ["r"])],
                                      [helper.make_opsetid("", 18)])]  # fmt: skip
    for level in range(1, 11):
        names = ["a", *(f"t{i}" for i in range(9)), "r"]
        calls = [node(f"F{level - 1}", [p], [q], domain="com.acme")
                 for p, q in pairwise(names)]  # fmt: skip
        functions.append(helper.make_function("com.acme", f"F{level}", ["a"], ["r"], calls, ACME))
    nodes = [node("F10", ["x"], ["y"], domain="com.acme")]
    proto = model(graph(nodes, [value("x")], [value("y")]), opsets=ACME, functions=functions)
    with pytest.raises(GeError, match="more than 1,000 nodes"):
        import_model(proto)


def test_function_body_of_onnx() -> None:
    """Ops without a handler of their own, with a plain and a type-dependent body."""
    g = graph([node("HannWindow", ["n"], ["y"])], [], [value("y", shape=[8])], n=np.array(8))
    check(model(g), {})
    g = graph([node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], "loss")],
              [value("x", shape=[2, 3]), value("t", INT, [2])], [value("y")])  # fmt: skip
    imported = check(model(g), {"x": X, "t": np.array([1, 2])})
    places = {str(op.location) for op in ops(imported, TensorOp)}
    assert len(places) == 1
    assert "loss" in places.pop()


def test_local_function_takes_precedence() -> None:
    function = helper.make_function("", "Relu", ["a"], ["r"], [node("Neg", ["a"], ["r"])],
                                    [helper.make_opsetid("", 18)])  # fmt: skip
    proto = model(graph([node("Relu", ["x"], ["y"])], [value("x", shape=[2, 3])], [value("y")]),
                  functions=[function])  # fmt: skip
    np.testing.assert_array_equal(run(import_model(proto), {"x": X})["y"], -X)
