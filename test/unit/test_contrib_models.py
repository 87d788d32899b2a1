"""Whole blocks in onnxruntime's ops beside the same written in ONNX's: the numbers of onnxruntime,
and as few launches."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import normal, run_in_onnxruntime

from ge.lowering.driver.compiler import lower
from ge.lowering.driver.program import count_launches
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

WIDTH, HEADS, GROUPS, SIZE, INNER = 64, 4, 2, 16, 128
MS = "com.microsoft"


class Writer:
    """A model that is written op by op."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}

    def op(self, kind: str, *inputs: str, outputs: Any = 1, domain: str = "", **flags: Any) -> Any:
        """The name of the result, or those of several; outputs named "" are not asked for."""
        name = f"{kind}{len(self.nodes)}"
        if isinstance(outputs, int):
            outputs = [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name, domain=domain, **flags))
        return outputs[0] if len(outputs) == 1 else outputs

    def ms(self, kind: str, *inputs: str, outputs: Any = 1, **flags: Any) -> Any:
        return self.op(kind, *inputs, outputs=outputs, domain=MS, **flags)

    def weight(self, *dims: int) -> str:
        name = f"w{len(self.weights)}"
        array = normal(*dims, seed=len(self.weights)) / np.float32(np.sqrt(dims[0]))
        self.weights[name] = array + 1 if len(dims) == 1 else array
        return name

    def const(self, value: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def model(self, inputs: dict[str, Array], outputs: Sequence[str]) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [
                helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for k, a in inputs.items()
            ],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
            [numpy_helper.from_array(a, k) for k, a in self.weights.items()],
        )
        for info in graph.output:
            info.type.tensor_type.ClearField("shape")
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def launched(model: ModelProto, inputs: dict[str, Array]) -> tuple[int, list[Array]]:
    """The launches of a model's program, and its outputs."""
    imported = import_model(model)
    lower(imported.module, Options(), until="program")
    session = Session(imported.module, imported.payload, sanitize=True)
    outputs = session.run(inputs)
    return count_launches(imported.module), [outputs[o.name] for o in model.graph.output]


def check(model: ModelProto, inputs: dict[str, Array]) -> int:
    """The launches of a model whose numbers are onnxruntime's."""
    launches, got = launched(model, inputs)
    for g, w in zip(got, run_in_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4 * np.abs(w).max())
    return launches


# ---- a decoder -----------------------------------------------------------------------------------


def feed_forward(w: Writer, x: str) -> str:
    gate, up = (w.op("MatMul", x, w.weight(WIDTH, INNER)) for _ in range(2))
    silu = w.op("Mul", gate, w.op("Sigmoid", gate))
    return w.op("MatMul", w.op("Mul", silu, up), w.weight(INNER, WIDTH))


def decoder_inputs(batch: int, past: int) -> dict[str, Array]:
    inputs = {"x": normal(batch, 1, WIDTH), "mask": np.ones((batch, past + 1), np.int64)}
    cache = {n: normal(batch, GROUPS, past, SIZE, seed=i) for i, n in enumerate(("pk", "pv"), 1)}
    return inputs | cache


def tables(w: Writer) -> tuple[str, str]:
    angles = normal(16, SIZE // 2, seed=9)
    return w.const(np.cos(angles)), w.const(np.sin(angles))


def in_its_own_ops(inputs: dict[str, Array]) -> ModelProto:
    """A layer of a decoder as exporters for onnxruntime write it."""
    w = Writer()
    shape = w.op("Shape", "mask")
    total = w.op("Cast", w.op("Gather", shape, w.const(np.int64(1))), to=TensorProto.INT32)
    counts = w.op("ReduceSum", "mask", w.const(np.int64([1])), keepdims=0)
    ends = w.op("Cast", w.op("Sub", counts, w.const(np.int64(1))), to=TensorProto.INT32)
    h = w.op("SimplifiedLayerNormalization", "x", w.weight(WIDTH), axis=-1, epsilon=1e-5)
    q, k, v = (w.op("MatMul", h, w.weight(WIDTH, n * SIZE)) for n in (HEADS, GROUPS, GROUPS))
    cos, sin = tables(w)
    y, *presents = w.ms(
        "GroupQueryAttention", q, k, v, "pk", "pv", ends, total, cos, sin, outputs=3,
        num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1,
    )  # fmt: skip
    o = w.op("MatMul", y, w.weight(WIDTH, WIDTH))
    normed, _, _, total_ = w.ms(
        "SkipSimplifiedLayerNormalization", "x", o, w.weight(WIDTH), epsilon=1e-5,
        outputs=["normed", "", "", "total"],
    )  # fmt: skip
    out, *_ = w.ms(
        "SkipSimplifiedLayerNormalization", total_, feed_forward(w, normed), w.weight(WIDTH),
        epsilon=1e-5, outputs=["out"],
    ), None  # fmt: skip
    return w.model(inputs, [out, *presents])


def rms_norm(w: Writer, x: str) -> str:
    square = w.op("Mul", x, x)
    mean = w.op("ReduceMean", square, w.const(np.int64([-1])))
    root = w.op("Sqrt", w.op("Add", mean, w.const(np.float32(1e-5))))
    return w.op("Mul", w.op("Div", x, root), w.weight(WIDTH))


def rotated(w: Writer, x: str, cos: str, sin: str) -> str:
    """Halves turned by the angles of one position."""
    a, b = w.op("Split", x, outputs=2, axis=-1, num_outputs=2)
    first = w.op("Sub", w.op("Mul", a, cos), w.op("Mul", b, sin))
    second = w.op("Add", w.op("Mul", b, cos), w.op("Mul", a, sin))
    return w.op("Concat", first, second, axis=-1)


def heads(w: Writer, x: str, count: int) -> str:
    split = w.op("Reshape", x, w.const(np.int64([0, 0, count, SIZE])))
    return w.op("Transpose", split, perm=[0, 2, 1, 3])


def in_ops_of_onnx(inputs: dict[str, Array]) -> ModelProto:
    """The same for one step after `past` tokens."""
    w, past = Writer(), inputs["pk"].shape[2]
    h = rms_norm(w, "x")
    q, k, v = (w.op("MatMul", h, w.weight(WIDTH, n * SIZE)) for n in (HEADS, GROUPS, GROUPS))
    angles = normal(16, SIZE // 2, seed=9)[past : past + 1]
    cos, sin = w.const(np.cos(angles)), w.const(np.sin(angles))
    q, k = (rotated(w, heads(w, x, n), cos, sin) for x, n in ((q, HEADS), (k, GROUPS)))
    keys = w.op("Concat", "pk", k, axis=2)
    values = w.op("Concat", "pv", heads(w, v, GROUPS), axis=2)
    group = w.const(np.int64([len(inputs["x"]), GROUPS, HEADS // GROUPS, past + 1, SIZE]))
    flat = w.const(np.int64([0, HEADS, past + 1, SIZE]))

    def repeated(x: str) -> str:
        wide = w.op("Expand", w.op("Unsqueeze", x, w.const(np.int64([2]))), group)
        return w.op("Reshape", wide, flat)

    scores = w.op("MatMul", q, w.op("Transpose", repeated(keys), perm=[0, 1, 3, 2]))
    scaled = w.op("Mul", scores, w.const(np.float32(SIZE**-0.5)))
    y = w.op("MatMul", w.op("Softmax", scaled, axis=-1), repeated(values))
    y = w.op("Reshape", w.op("Transpose", y, perm=[0, 2, 1, 3]), w.const(np.int64([0, 0, WIDTH])))
    total = w.op("Add", "x", w.op("MatMul", y, w.weight(WIDTH, WIDTH)))
    out = rms_norm(w, w.op("Add", total, feed_forward(w, rms_norm(w, total))))
    return w.model(inputs, [out, keys, values])


@pytest.mark.parametrize(("batch", "more"), [(1, 0), (2, 7)])
def test_a_decoder_of_its_ops_has_the_launches_of_one_of_onnx(batch: int, more: int) -> None:
    """But for several sequences, whose lengths may differ: three launches count tokens and pick the
    angles, for all layers, and two more for each cache give each sequence its own row."""
    inputs = decoder_inputs(batch, 5)
    plain = check(in_ops_of_onnx(inputs), inputs)
    assert check(in_its_own_ops(inputs), inputs) == plain + more


# ---- an encoder, fused by onnxruntime's optimizer ------------------------------------------------


def projected(w: Writer, x: str, order: list[int]) -> str:
    y = w.op("Add", w.op("MatMul", x, w.weight(WIDTH, WIDTH)), w.weight(WIDTH))
    split = w.op("Reshape", y, w.const(np.int64([0, 0, HEADS, SIZE])))
    return w.op("Transpose", split, perm=order)


def encoder(inputs: dict[str, Array]) -> ModelProto:
    """A layer with attention, its mask and gelu as exporters wrote them before there were ops."""
    w = Writer()
    row = w.op("Unsqueeze", w.op("Unsqueeze", "mask", w.const(np.int64([1]))),
               w.const(np.int64([2])))  # fmt: skip
    kept = w.op("Cast", row, to=TensorProto.FLOAT)
    left_out = w.op("Sub", w.const(np.float32(1)), kept)
    added = w.op("Mul", left_out, w.const(np.float32(-10000)))
    x = w.op("LayerNormalization", "x", w.weight(WIDTH), w.weight(WIDTH), axis=-1)
    q, v = (projected(w, x, [0, 2, 1, 3]) for _ in range(2))
    scores = w.op("MatMul", q, projected(w, x, [0, 2, 3, 1]))
    scores = w.op("Add", w.op("Div", scores, w.const(np.float32(SIZE**0.5))), added)
    y = w.op("MatMul", w.op("Softmax", scores, axis=-1), v)
    y = w.op("Transpose", y, perm=[0, 2, 1, 3])
    y = w.op("Reshape", y, w.const(np.int64([0, 0, WIDTH])))
    y = w.op("Add", w.op("MatMul", y, w.weight(WIDTH, WIDTH)), w.weight(WIDTH))
    x = w.op("LayerNormalization", w.op("Add", y, x), w.weight(WIDTH), w.weight(WIDTH), axis=-1)
    inner = w.op("Add", w.op("MatMul", x, w.weight(WIDTH, INNER)), w.weight(INNER))
    erf = w.op("Erf", w.op("Div", inner, w.const(np.float32(2**0.5))))
    half = w.op("Mul", inner, w.op("Add", erf, w.const(np.float32(1))))
    gelu = w.op("Mul", half, w.const(np.float32(0.5)))
    y = w.op("Add", w.op("MatMul", gelu, w.weight(INNER, WIDTH)), w.weight(WIDTH))
    out = w.op("LayerNormalization", w.op("Add", y, x), w.weight(WIDTH), w.weight(WIDTH), axis=-1)
    return w.model(inputs, [out])


@pytest.mark.parametrize("use_multi_head_attention", [False, True])
def test_an_encoder_that_onnxruntime_fused(use_multi_head_attention: bool) -> None:
    pytest.importorskip("onnxruntime", reason="its optimizer writes the model")
    from onnxruntime.transformers import fusion_options, optimizer

    mask = np.int64([[1] * 8, [1] * 5 + [0] * 3])
    inputs = {"x": normal(2, 8, WIDTH), "mask": mask}
    model = encoder(inputs)
    plain = check(model, inputs)
    options = fusion_options.FusionOptions("bert")
    options.use_multi_head_attention = use_multi_head_attention
    fused = optimizer.optimize_by_fusion(model, "bert", HEADS, WIDTH, options).model
    kinds = {node.op_type for node in fused.graph.node}
    attention = "MultiHeadAttention" if use_multi_head_attention else "Attention"
    assert {attention, "SkipLayerNormalization", "BiasGelu"} <= kinds
    assert check(fused, inputs) == plain
