"""Graphs built in Python: types, names, constants, errors at the caller's line."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import ge
from ge.dialects.support.diagnostics import location_of
from ge.lowering.building.graph import Graph, Value
from ge.lowering.driver.compiler import load


def run(g: Graph, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    g.module.verify()
    return ge.Session(g.module, g.payload).run(inputs)


@pytest.fixture
def g() -> Graph:
    return Graph()


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_operators_are_those_of_arrays(g: Graph):
    x = g.input("x", X.shape)
    w = np.ones((4, 5), np.float32)
    cases = {
        "sum": (x + 1, X + 1),
        "left": (1 - x, 1 - X),
        "product": (2.0 * x * x, 2 * X * X),
        "quotient": (1 / (x + 1), 1 / (X + 1)),
        "power": (x**2, X**2),
        "remainder": (x % 5, X % 5),
        "matmul": (x @ w, X @ w),
        "array on the left": (
            np.ones((3, 2), np.float32) @ x[:, :2, :],
            np.ones((3, 2)) @ X[:, :2],
        ),
        "signs": (abs(-x), X),
        "less": (x < 3, X < 3),
        "at least": (x >= 3, X >= 3),
        "box": (x[1, ::2, 1:-1], X[1, ::2, 1:-1]),
        "last": (x[-1, :, -1], X[-1, :, -1]),
        "backwards": (x[:, ::-1], X[:, ::-1]),
        "turned": (x.T, X.T),
        "method": (x.reduce(kind="sum", axes=(1, 2), keep_dims=False), X.sum((1, 2))),
    }
    for name, (value, _) in cases.items():
        g.output(name, value)
    outputs = run(g, x=X)
    for name, (value, expected) in cases.items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-6, err_msg=name)
        assert value.shape == expected.shape, name


def test_all_outputs_of_an_op(g: Graph):
    x = g.input("x", (4,))
    values, places = g.top_k(x, k=2)
    assert (values.dtype, places.dtype) == ("f32", "i64")
    outputs = run(g, x=np.array([3, 1, 4, 1], np.float32))
    assert [o.tolist() for o in outputs.values()] == [[4, 3], [2, 0]]


def test_names_are_kept(g: Graph):
    x = g.input("my input", ("batch", 4))
    w = g.weight("encoder.w", np.ones((4, 2), np.float32))
    y = g.matmul(x, w, name="encoder/product")
    g.output("scores", y)
    text = str(g)
    assert (
        '%my_input: tensor<?x4xf32> {graph.name = "my input", graph.dims = ["batch", ""]}' in text
    )
    assert '%encoder.w = graph.constant #graph.weight<"encoder.w">' in text
    assert '{graph.name = "scores"}' in text
    assert location_of(y.ssa.owner).name == "encoder/product"
    assert y.shape == (None, 2)


def test_large_constants_are_weights(g: Graph, tmp_path: Path):
    x = g.input("x", (300,))
    big = np.linspace(0, 1, 300, dtype=np.float32)
    g.output("y", x + big)
    assert "graph.weight" in str(g)
    g.save(tmp_path / "m.mlir")
    program = load(str(tmp_path / "m.mlir"))
    x = np.ones(300, np.float32)
    outputs = ge.Session(program.module, program.payload).run({"x": x})
    np.testing.assert_array_equal(outputs["y"], x + big)


def test_weights_without_values(g: Graph):
    x = g.input("x", (2, 4))
    g.output("y", x @ g.weight("w", (4, 3), "f32"))
    assert ge.compile(g).report()["memory"]["weight_bytes"] == 512


def test_it_may_be_extended_after_it_was_printed(g: Graph):
    y = g.exp(g.input("x", (2,)))
    assert "graph.exp" in str(g)
    g.output("z", y + y)
    text = str(g)
    assert text.count("func.return") == 1
    assert text.index("graph.add") < text.index("func.return")
    ge.compile(g)
    assert str(g) == text


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda g, x: x @ x, "graph.matmul: cannot multiply"),
        (lambda g, x: g.softmax(x, axxis=1), "no 'axxis'; did you mean 'axis'"),
        (lambda g, x: g.gelu(x, approximate="no"), "approximate is one of none, tanh"),
        (lambda g, x: g.reshape(x, shape=(3, 3)), "cannot reshape"),
        (lambda g, x: g.gelu(), "needs its operand 'input'"),
        (lambda g, x: g.cast(x, to="f99"), "no element type 'f99'"),
        (lambda g, x: g.input("x", (1,)), "there is an input 'x' already"),
        (lambda g, x: g.input("y", (1,), "f99"), "no element type 'f99'"),
        (lambda g, x: g.weight("w", (1, 2)), "has a shape, but no type"),
        (lambda g, x: x + Graph().input("y", (1,)), "a value of another graph"),
        (lambda g, x: g.loop(x), "graph.loop has regions"),
        (lambda g, x: g.output(x, "y"), "a name and a value, in this order"),
        (lambda g, x: g.constant("w", [1.0]), "an element type is asked for, not an array"),
        (lambda g, x: x[None], "a box is of numbers and slices"),
    ],
)
def test_errors_name_the_line(g: Graph, wrong, says: str):
    x = g.input("x", (1, 64))
    line = inspect.getsourcelines(wrong)[1]
    with pytest.raises(ge.GeError, match=says) as error:
        wrong(g, x)
    if "box" not in says:
        assert error.value.where == f"test_building.py:{line}"


def test_an_unknown_op_has_a_nearest_name(g: Graph):
    with pytest.raises(AttributeError, match="did you mean 'layer_norm'"):
        g.layer_nrom


def test_a_pass_builds_what_it_puts_in_place():
    from ge.lowering.plugins.extensions import new_registry

    with new_registry():

        @ge.register_pass("exp-of-sum")
        def rewrite(graph: Graph) -> None:
            def replace(nodes):
                x, y = nodes[0].operands
                return graph.mul(graph.exp(x), Value(graph, graph.exp(y).ssa))

            graph.apply_pattern(ge.Pattern([ge.OpType("add"), ge.OpType("exp")]), replace)

        g = Graph()
        x, y = g.input("x", (4,)), g.input("y", (4,))
        g.output("z", g.exp(x + y))
        program = ge.compile(g, tiles=False)
    text = str(program.module)
    assert text.count("graph.exp") == 2
    assert "graph.add" not in text
