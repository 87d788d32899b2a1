"""Parameters in forms that ONNX's text does not have, but its runtimes take: a scalar where a
vector of one element is asked for, a matrix of one row, integers as a mask of attention. The forms
are the same whether values are known at import or not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ge.lowering.driver.compiler import lower
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session


def one_node(
    op: str, opset: int, inputs: Sequence[Any], constant: bool, outputs: int, **attributes: Any
) -> tuple[ModelProto, dict[str, Array]]:
    """A model of one node, whose inputs after the first one are constants or inputs."""
    arrays = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None}
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    fixed = {n: a for n, a in arrays.items() if constant and n != "x0"}
    given = {n: a for n, a in arrays.items() if n not in fixed}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)], "g", infos,
        [helper.make_empty_tensor_value_info(n) for n in results],
        [numpy_helper.from_array(a, n) for n, a in fixed.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), given


def run(proto: ModelProto, inputs: dict[str, Array], level: str = "graph") -> list[Array]:
    imported = import_model(proto)
    if level == "program":
        lower(imported.module, Options())
    results = Session(imported.module, imported.payload).run(inputs)
    return [results[o.name] for o in proto.graph.output]


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(5, dtype=np.float32)
FORMS: list[tuple[str, int, list[Any], Array]] = [
    ("Slice", 13, [V, np.int64(1), np.int64(3)], V[1:3]),
    ("Slice", 13, [X, np.int64(0), np.int64(3), np.int64(2), np.int64(2)], X[:, :, 0:3:2]),
    ("Slice", 10, [X, [1], [3], np.int32(1)], X[:, 1:3]),
    ("Squeeze", 13, [X[:1], np.int64(0)], X[0]),
    ("Unsqueeze", 13, [X, np.int64(-1)], X[..., None]),
    ("ReduceSum", 13, [X, np.int64(1)], X.sum(1, keepdims=True)),
    ("ReduceMax", 18, [X, np.int64(-1)], X.max(-1, keepdims=True)),
    ("Tile", 13, [V, np.int64(2)], np.tile(V, 2)),
    ("Expand", 13, [V[:1], np.int64(4)], np.repeat(V[:1], 4)),
    ("Reshape", 14, [X, np.int64(-1)], X.reshape(-1)),
    ("Pad", 18, [X, [1, 2], None, np.int64(1)], np.pad(X, ((0, 0), (1, 2), (0, 0)))),
    ("Pad", 13, [V, [[1, 2]]], np.pad(V, (1, 2))),
    ("TopK", 11, [V, np.int64(2)], V[:-3:-1]),
    ("CumSum", 14, [V, [0]], np.cumsum(V)),
]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("op", "opset", "inputs", "expected"), FORMS)
def test_scalars_for_vectors(
    op: str, opset: int, inputs: list[Any], expected: Array, constant: bool
) -> None:
    proto, given = one_node(op, opset, inputs, constant, 2 if op == "TopK" else 1)
    for level in ("graph", "program"):
        np.testing.assert_array_equal(run(proto, given, level)[0], expected)


def test_split_of_one_part() -> None:
    for constant in (True, False):
        proto, given = one_node("Split", 18, [X, np.int64(2)], constant, 1)
        np.testing.assert_array_equal(run(proto, given)[0], X)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.bool_, np.float32])
def test_masks_of_attention_of_any_type(dtype: type[np.generic]) -> None:
    """Integers are added to scores, as floats are; they are no truth values."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for _ in range(3))
    mask = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 0]]).astype(dtype)
    for constant in (True, False):
        proto, given = one_node("Attention", 23, [q, k, v, mask], constant, 1)
        (want,) = ReferenceEvaluator(proto).run(None, given)  # pyright: ignore
        for level in ("graph", "program"):
            np.testing.assert_allclose(run(proto, given, level)[0], want, rtol=1e-4, atol=1e-5)
