"""Small models with symbolic dimensions, beside the public ones: a convolution net of any batch and
image, a decoder with a past, an encoder with a mask, and boxes that data choose.

    python test/bench/dynamic_models.py FOLDER
    python test/bench/dynamic.py FOLDER/decoder.onnx batch=1,past=7 batch=2,past=128
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Dims = list[int | str]


class Model:
    """Nodes one after the other, with weights of seeded noise."""

    def __init__(self, name: str) -> None:
        self.name, self.nodes, self.weights = name, list[Any](), list[Any]()
        self.inputs, self.outputs = list[Any](), list[Any]()
        self.rng = np.random.default_rng(0)

    def input(self, name: str, dims: Dims, kind: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, value: str, name: str, dims: Dims, kind: int = FLOAT) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, dims))

    def weight(self, *shape: int) -> str:
        return self.constant((self.rng.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32))

    def constant(self, value: Any, kind: Any = None) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def write(self, folder: Path) -> None:
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        (folder / f"{self.name}.onnx").write_bytes(model.SerializeToString())

    # ---- parts

    def linear(self, x: str, size: int, to: int) -> str:
        return self("Add", self("MatMul", x, self.weight(size, to)), self.weight(to))

    def heads(self, x: str, size: int) -> str:
        """[batch, tokens, 4 * size] as [batch, 4, tokens, size]."""
        split = self("Reshape", x, self.ints(0, 0, 4, size))
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, q: str, k: str, v: str, size: int, mask: str | None = None) -> str:
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Mul", scores, self.constant(size**-0.5, np.float32))
        if mask is not None:
            scores = self("Add", scores, mask)
        mixed = self("MatMul", self("Softmax", scores, axis=-1), v)
        back = self("Transpose", mixed, perm=[0, 2, 1, 3])
        return self("Reshape", back, self.ints(0, 0, 4 * size))

    def norm(self, x: str, size: int) -> str:
        return self("LayerNormalization", x, self.weight(size), self.weight(size))


def convolutions() -> Model:
    m = Model("convolutions")
    x = m.input("image", ["batch", 3, "height", "width"])

    def conv(x: str, inputs: int, outputs: int, **more: Any) -> str:
        weight = m.weight(outputs, inputs, 3, 3)
        return m("Relu", m("Conv", x, weight, m.weight(outputs), pads=[1, 1, 1, 1], **more))

    x = m("MaxPool", conv(x, 3, 16, strides=[2, 2]), kernel_shape=[2, 2], strides=[2, 2])
    x = m("Add", x, conv(conv(x, 16, 16), 16, 16))
    x = m("Concat", conv(x, 16, 32), conv(x, 16, 32), axis=1)
    x = m("Flatten", m("GlobalAveragePool", x))
    m.output(m.linear(x, 64, 10), "classes", ["batch", 10])
    return m


def decoder() -> Model:
    m = Model("decoder")
    x = m.input("x", ["batch", 1, 64])
    for layer in range(2):
        y = m.norm(x, 64)
        q, k, v = (m.heads(m.linear(y, 64, 64), 16) for _ in range(3))
        past = [m.input(f"past.{layer}.{n}", ["batch", 4, "past", 16]) for n in ("key", "value")]
        k, v = m("Concat", past[0], k, axis=2), m("Concat", past[1], v, axis=2)
        for name, value in (("key", k), ("value", v)):
            m.output(value, f"present.{layer}.{name}", ["batch", 4, "past + 1", 16])
        x = m("Add", x, m.linear(m.attention(q, k, v, 16), 64, 64))
        x = m("Add", x, m.linear(m("Relu", m.linear(m.norm(x, 64), 64, 256)), 256, 64))
    m.output(x, "y", ["batch", 1, 64])
    return m


def encoder() -> Model:
    m = Model("encoder")
    ids = m.input("ids", ["batch", "sequence"], INT64)
    mask = m("Cast", m.input("mask", ["batch", "sequence"], INT64), to=FLOAT)
    positions = m("Gather", m("Shape", ids), m.constant(1, np.int64))
    ends = m("Unsqueeze", positions, m.ints(0))
    table = m("Slice", m.weight(512, 64), m.ints(0), ends, m.ints(0))
    x = m.norm(m("Add", m("Gather", m.weight(500, 64), ids), table), 64)
    off = m("Mul", m("Sub", m.constant(1.0, np.float32), mask), m.constant(-1e4, np.float32))
    off = m("Unsqueeze", off, m.ints(1, 2))
    for _ in range(2):
        q, k, v = (m.heads(m.linear(x, 64, 64), 16) for _ in range(3))
        x = m.norm(m("Add", x, m.linear(m.attention(q, k, v, 16, off), 64, 64)), 64)
        h = m.linear(x, 64, 256)
        h = m("Mul", h, m("Sigmoid", h))
        x = m.norm(m("Add", x, m.linear(h, 256, 64)), 64)
    m.output(x, "states", ["batch", "sequence", 64])
    m.output(m("ReduceMean", x, axes=[1], keepdims=0), "mean", ["batch", 64])
    return m


def boxes() -> Model:
    m = Model("boxes")
    x = m.input("features", [1, "boxes", 32])
    corners = m("Sigmoid", m.linear(x, 32, 4))
    scores = m("Transpose", m("Sigmoid", m.linear(x, 32, 3)), perm=[0, 2, 1])
    limits = m.ints(5), m.constant(0.5, np.float32), m.constant(0.4, np.float32)
    chosen = m("NonMaxSuppression", corners, scores, *limits)
    m.output(chosen, "chosen", ["kept", 3], INT64)
    rows = m("Slice", chosen, m.ints(2), m.ints(3), m.ints(1))
    rows = m("Reshape", rows, m.ints(-1))
    flat = m("Reshape", corners, m.ints(-1, 4))
    m.output(m("Gather", flat, rows, axis=0), "corners", ["kept", 4])
    high = m("NonZero", m("Greater", corners, m.constant(0.5, np.float32)))
    m.output(m("Transpose", high, perm=[1, 0]), "high", ["found", 3], INT64)
    return m


MODELS: tuple[Callable[[], Model], ...] = (convolutions, decoder, encoder, boxes)

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: dynamic_models.py FOLDER")
    for make in MODELS:
        make().write(Path(sys.argv[1]))
