"""Generated models for the benchmarks: as many transformer blocks as it takes for N nodes."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def transformer(nodes: int, width: int = 64, heads: int = 4, tokens: int = 16) -> onnx.ModelProto:
    """A pre-norm transformer encoder of about `nodes` ONNX nodes, with small random weights."""
    rng = np.random.default_rng(0)
    graph_nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int) -> str:
        array = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        initializers.append(numpy_helper.from_array(array, name))
        return name

    def ints(name: str, *values: int) -> str:
        initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(op: str, *inputs: str, **attributes: object) -> str:
        name = f"n{len(graph_nodes)}"
        graph_nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    split = ints("split", 1, tokens, heads, width // heads)
    join = ints("join", 1, tokens, width)
    scale = "scale"
    root = np.array((width // heads) ** -0.5, np.float32)
    initializers.append(numpy_helper.from_array(root, scale))
    x, block = "x", 0
    while len(graph_nodes) < nodes - 28:
        p = f"b{block}."
        gamma, beta = weight(f"{p}g", width), weight(f"{p}be", width)
        y = node("LayerNormalization", x, gamma, beta, axis=-1)
        parts: list[str] = []
        for part, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
            z = node("MatMul", y, weight(f"{p}w{part}", width, width))
            z = node("Add", z, weight(f"{p}b{part}", width))
            parts.append(node("Transpose", node("Reshape", z, split), perm=list(order)))
        scores = node("Mul", node("MatMul", parts[0], parts[1]), scale)
        z = node("MatMul", node("Softmax", scores, axis=-1), parts[2])
        z = node("Reshape", node("Transpose", z, perm=[0, 2, 1, 3]), join)
        z = node("Add", node("MatMul", z, weight(f"{p}wo", width, width)), weight(f"{p}bo", width))
        x = node("Add", x, z)
        z = node("MatMul", x, weight(f"{p}w1", width, width))
        z = node("Relu", node("Add", z, weight(f"{p}b1", width)))
        z = node("MatMul", z, weight(f"{p}w2", width, width))
        x = node("Add", x, z)
        block += 1
    graph = helper.make_graph(
        graph_nodes,
        "transformer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, tokens, width])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, tokens, width])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
