"""Merged weights whose products are taken apart: each device has its part of each piece."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import ge
from ge.dialects.graph.sharding import parts_of
from ge.runtime.check.devices import check_devices

RULES = {"x": [], "w": [[], ["tp"]], "o": [["tp"]], "y": []}
HEADS, SIZE = 4, 8
WIDTH = HEADS * SIZE
node = helper.make_node


def heads() -> list[NodeProto]:
    """Of [2, 6, 32] q, k, v: [2, 4, 6, 8] qt, kt, vt."""
    return [
        made
        for name in "qkv"
        for made in (
            node("Reshape", [name, "heads"], [f"{name}s"]),
            node("Transpose", [f"{name}s"], [f"{name}t"], perm=[0, 2, 1, 3]),
        )
    ]


def sliced() -> list[NodeProto]:
    bounds = [("q", ["at0", "at1"]), ("k", ["at1", "at2"]), ("v", ["at2", "at3"])]
    return [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "bias"], ["xw"]),
        *(node("Slice", ["xw", *at, "at_axis"], [name]) for name, at in bounds),
        *heads(),
    ]


def split() -> list[NodeProto]:
    return [
        node("MatMul", ["x", "w"], ["xw"]),
        node("Split", ["xw"], ["q", "k", "v"], axis=2, num_outputs=3),
        *heads(),
    ]


def taken() -> list[NodeProto]:
    """[2, 6, 3, 4, 8] -> [3, 2, 4, 6, 8], by an index of the first dimension."""
    return [
        node("MatMul", ["x", "w"], ["xw"]),
        node("Reshape", ["xw", "all"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[2, 0, 3, 1, 4]),
        *(node("Gather", ["t", f"i{i}"], [f"{n}t"], axis=0) for i, n in enumerate("qkv")),
    ]


LAST = (
    node("Transpose", ["kt"], ["keys"], perm=[0, 1, 3, 2]),
    node("MatMul", ["qt", "keys"], ["scores"]),
    node("Softmax", ["scores"], ["p"], axis=-1),
    node("MatMul", ["p", "vt"], ["a"]),
    node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
    node("Reshape", ["b", "flat"], ["c"]),
    node("MatMul", ["c", "o"], ["y"]),
)


GATED = [
    node("MatMul", ["x", "w"], ["m"]),
    node("Split", ["m"], ["gate", "up"], axis=2, num_outputs=2),
    node("Sigmoid", ["gate"], ["s"]),
    node("Mul", ["s", "up"], ["a"]),
    node("MatMul", ["a", "o"], ["y"]),
]


def write(nodes: Sequence[NodeProto], path: Path, pieces: int = 3) -> dict[str, Any]:
    """Write a model of these nodes, and return its inputs. `pieces`: those of its first weight."""
    rng, shape = np.random.default_rng(0), [2, 6, WIDTH]
    weights: dict[str, Any] = {
        "w": rng.standard_normal((WIDTH, pieces * WIDTH)).astype(np.float32) / 6,
        "bias": rng.standard_normal(pieces * WIDTH).astype(np.float32),
        "o": rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 6,
        "flat": np.array(shape),
        "heads": np.array([2, 6, HEADS, SIZE]),
        "all": np.array([2, 6, 3, HEADS, SIZE]),
        "at_axis": np.array([2]),
        **{f"at{i}": np.array([i * WIDTH]) for i in range(4)},
        **{f"i{i}": np.array(i) for i in range(3)},
    }
    used = {name for n in nodes for name in n.input}
    tensors = [numpy_helper.from_array(a, name) for name, a in weights.items() if name in used]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy"]
    graph = helper.make_graph(list(nodes), "g", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return {"x": rng.standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("first", [sliced, split, taken])
@pytest.mark.parametrize("shard", [RULES, "auto"], ids=["stated", "auto"])
def test_pieces_of_a_merged_weight_stay_where_they_are_used(
    first: Callable[[], list[NodeProto]], shard: Any, tmp_path: Path
) -> None:
    x = write([*first(), *LAST], tmp_path / "m.onnx")
    check(tmp_path / "m.onnx", x, shard, 4)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_halves_that_end_where_the_parts_of_devices_do_are_taken_apart_too(
    count: int, tmp_path: Path
) -> None:
    check(tmp_path / "m.onnx", write(GATED, tmp_path / "m.onnx", 2), RULES, count)


def check(model: Path, x: dict[str, Any], shard: Any, count: int) -> None:
    """Ask of a model over devices one all-reduce, a proof, and the numbers of one device."""
    program = ge.compile(model, mesh={"tp": count}, shard=shard)
    if shard != "auto":
        assert [c["op"] for c in program.report()["devices"]["collectives"]] == ["all_reduce"]
        assert {p.of for p in parts_of(program.module).values() if p.spans} >= {"w"}
    assert check_devices(program.module) == []
    found = program.session().run(x)["y"]
    whole = ge.compile(model).session().run(x)["y"]
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)
