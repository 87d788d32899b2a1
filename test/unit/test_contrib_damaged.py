"""Nodes of onnxruntime's ops that lack inputs or have them in other shapes: told as the model's
fault, never as ge's; and sizes that are known only at run time."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import agree, model_of, normal

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model

Node = tuple[str, dict[str, Any], dict[str, Any]]  # op type, inputs, attributes

IDS = np.zeros((2, 5), np.int32)
TABLE = normal(9, 4)
CACHE = normal(2, 2, 3, 8, seed=4)
SCALE, ZERO = np.float32(0.02), np.uint8(3)
CODES = np.zeros((2, 5), np.uint8)

ATTENTION: Node = (
    "Attention",
    {"x": normal(2, 5, 6), "w": normal(6, 48), "b": normal(48), "mask": IDS[:, :1] + 5,
     "past": normal(2, 2, 2, 3, 8)},
    {"num_heads": 2, "unidirectional": 1},
)  # fmt: skip
MULTI_HEAD: Node = (
    "MultiHeadAttention",
    {"q": normal(2, 5, 16), "k": normal(2, 5, 16), "v": normal(2, 5, 16), "b": normal(48),
     "mask": np.ones((2, 8), np.int32), "bias": normal(1, 2, 5, 8), "pk": CACHE, "pv": CACHE},
    {"num_heads": 2},
)  # fmt: skip
GROUPED: Node = (
    "GroupQueryAttention",
    {"q": normal(2, 1, 32), "k": normal(2, 1, 16), "v": normal(2, 1, 16), "pk": CACHE,
     "pv": CACHE, "ends": np.int32([3, 1]), "total": np.int32([4]), "cos": TABLE, "sin": TABLE},
    {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
)  # fmt: skip
ROTARY: Node = (
    "RotaryEmbedding",
    {"x": normal(2, 5, 16), "ids": IDS.astype(np.int64), "cos": TABLE, "sin": TABLE},
    {},
)
EMBEDDING: Node = (
    "EmbedLayerNormalization",
    {"ids": IDS, "parts": IDS, "words": TABLE, "places": TABLE, "segments": TABLE,
     "gamma": normal(4), "beta": normal(4), "mask": IDS},
    {},
)  # fmt: skip
NBITS: Node = (
    "MatMulNBits",
    {"a": normal(2, 32), "b": np.zeros((8, 2, 8), np.uint8), "s": normal(8, 2),
     "z": np.zeros((8, 1), np.uint8)},
    {"N": 8, "K": 32, "block_size": 16},
)  # fmt: skip
GEMM: Node = (
    "QGemm",
    {"a": CODES, "as": SCALE, "az": ZERO, "b": CODES.T.copy(), "bs": SCALE, "bz": ZERO},
    {},
)
POOL: Node = ("NhwcMaxPool", {"x": np.zeros((1, 4, 4, 3), np.uint8)}, {"kernel_shape": [2, 2]})
OUTPUTS = {
    "Attention": ("y", "present"),
    "MultiHeadAttention": ("y", "pk2", "pv2"),
    "EmbedLayerNormalization": ("y", "index"),
}
NODES = (ATTENTION, MULTI_HEAD, GROUPED, ROTARY, EMBEDDING, NBITS, GEMM, POOL)


def damaged(inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One input less, or one in another shape."""
    for name, array in inputs.items():
        yield inputs | {name: None}
        yield inputs | {name: np.resize(array, ())}
        yield inputs | {name: np.asarray(array).reshape(-1)}
        yield inputs | {name: np.asarray(array)[None]}


def refusal(model: ModelProto) -> str:
    """Why a model is refused; "" for one that is not."""
    try:
        import_model(model)
    except GeError as error:
        return error.message
    return ""


@pytest.mark.parametrize("node", NODES, ids=lambda node: node[0])
@pytest.mark.parametrize("constants", ["", "bsz"])
def test_damaged_nodes_are_the_models_fault(node: Node, constants: str) -> None:
    op, inputs, attributes = node
    messages: list[str] = []
    for changed in damaged(inputs):
        known = [name for name in constants if changed.get(name) is not None]
        model = model_of(op, changed, ["y"], known, **attributes)
        messages.append(refusal(model))
    assert any(messages)
    assert not [m for m in messages if "bug in ge" in m]


@pytest.mark.parametrize("node", [*NODES[:2], *NODES[3:6]], ids=lambda node: node[0])
def test_half_precision(node: Node) -> None:
    """Computed in f32 and rounded, as scores and sums are."""
    op, inputs, attributes = node
    half = {
        name: array.astype(np.float16) if array.dtype == np.float32 else array
        for name, array in inputs.items()
    }
    agree(op, half, OUTPUTS.get(op, ("y",)), tolerance=3e-3, **attributes)


@pytest.mark.parametrize("node", [ATTENTION, MULTI_HEAD, ROTARY, EMBEDDING], ids=lambda n: n[0])
def test_sizes_that_are_known_only_at_run_time(node: Node) -> None:
    """Batch and tokens, and the rows of what comes from before."""
    op, inputs, attributes = node
    if op == "Attention":
        inputs = inputs | {"mask": np.int32([8, 4])}
    axes = {"past": {1: "b", 3: "p"}, "pk": {0: "b", 2: "p"}, "pv": {0: "b", 2: "p"}}
    axes |= {"mask": {0: "b"}, "bias": {2: "s", 3: "t"}}
    fixed = ("w", "b", "cos", "sin", "words", "places", "segments", "gamma", "beta")
    dynamic: dict[str, Any] = {}
    for name, array in inputs.items():
        symbols = axes.get(name, {0: "b", 1: "s"})
        if name not in fixed:
            dynamic[name] = [symbols.get(i, d) for i, d in enumerate(array.shape)]
    agree(op, inputs, OUTPUTS.get(op, ("y",)), dynamic=dynamic, **attributes)
