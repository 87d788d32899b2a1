"""A wrong layer planted in a model of 300 nodes, which `ge-run --compare-layers` has to name: the
model with one node changed is run by ge, the one without by onnxruntime.

    python test/bench/planted_layers.py [--cases N] [--seed N] [--modes fp32,fp16,int8]

Prints for each mode how many planted nodes were named (alone, or with those that share their
launch), and the processor time of a comparison over that of a plain run and of onnxruntime's.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ge.tools import commands

WIDTH, ROWS, BLOCKS = 64, 32, 15
LAYERS = {"MatMul", "Gemm", "Conv"}
MODES = ("fp32", "fp16", "int8")


class Builder:
    """A residual network of matmuls, convolutions, norms, gates and softmax, of 20 nodes a
    block."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"/{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}:0"], name, **attributes))
        return f"{name}:0"

    def weight(self, *shape: int, around: float = 0.0) -> str:
        fan = shape[-2] if len(shape) == 2 else int(np.prod(shape[1:])) or 1
        scale = 1 / np.sqrt(fan) if len(shape) > 1 else 0.1
        array = (around + scale * self.rng.standard_normal(shape)).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def norm(self, x: str) -> str:
        scale, bias = self.weight(WIDTH, around=1.0), self.weight(WIDTH)
        return self.node("LayerNormalization", x, scale, bias, axis=-1)

    def linear(self, x: str, rows: int = WIDTH, columns: int = WIDTH) -> str:
        return self.node("Add", self.node("MatMul", x, self.weight(rows, columns)),
                         self.weight(columns))  # fmt: skip

    def block(self, x: str) -> str:
        y = self.norm(x)
        gate = self.node("Sigmoid", self.linear(y))
        y = self.node("Add", x, self.node("Mul", gate, self.node("Tanh", self.linear(y))))
        scores = self.node("Softmax", self.node("MatMul", self.norm(y), self.weight(WIDTH, ROWS)))
        y = self.node("Add", y, self.node("MatMul", scores, self.linear(y)))
        hidden = self.node("Relu", self.linear(y, WIDTH, 2 * WIDTH))
        return self.node("Add", y, self.linear(hidden, 2 * WIDTH, WIDTH))

    def model(self) -> ModelProto:
        x = "x"
        for _ in range(BLOCKS):
            x = self.block(x)
        x = self.node("Gemm", self.node("ReduceMean", x, axes=[1], keepdims=0),
                      self.weight(WIDTH, 10), self.weight(10))  # fmt: skip
        self.nodes[-1].output[0] = "y"
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", ROWS, WIDTH]),
                 helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])]  # fmt: skip
        graph = helper.make_graph(self.nodes, "planted", ports[:1], ports[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def plant(model: ModelProto, rng: np.random.Generator) -> tuple[ModelProto, str]:
    """The model with one node that computes something else, and the name of that node."""
    changed = ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    weights = {w.name: w for w in graph.initializer}
    swaps = {"Relu": "Abs", "Tanh": "Sigmoid", "Sigmoid": "Tanh"}
    kinds = {*LAYERS, *swaps, "LayerNormalization", "Softmax"}
    nodes = [n for n in graph.node if n.op_type in kinds and (
        n.op_type not in LAYERS or n.input[1] in weights)]  # fmt: skip
    node = nodes[int(rng.integers(len(nodes)))]
    if node.op_type in swaps:
        node.op_type = swaps[node.op_type]
    elif node.op_type == "Softmax":
        node.attribute.append(helper.make_attribute("axis", 1))
    else:
        weight = weights[node.input[1]]
        array = numpy_helper.to_array(weight)
        ways: list[Callable[[Any], Any]] = [
            lambda a: 1.5 * a, lambda a: -a, lambda a: np.roll(a, 1, 0), lambda a: np.clip(a, 0, 9)
        ]  # fmt: skip
        way = ways[int(rng.integers(len(ways)))]
        if node.op_type == "LayerNormalization":
            way = ways[0]
        weight.CopyFrom(numpy_helper.from_array(way(array).astype(np.float32), weight.name))
    return changed, node.name


def ge_run(*arguments: str) -> float:
    """The processor seconds of a run of ge-run, in this process."""
    start = time.process_time()
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        commands.ge_run.run(list(arguments))
    return time.process_time() - start


def of_mode(mode: str, data: Path) -> list[str]:
    if mode == "int8":
        return ["--quantize", "int8", "--calibration", str(data)]
    return ["--precision", "fp16"] if mode == "fp16" else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modes", default=",".join(MODES))
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    model = Builder(args.seed).model()
    print(f"{len(model.graph.node)} nodes")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        good, bad, data, inputs, report = (
            Path(folder, n) for n in ("good.onnx", "bad.onnx", "data.npz", "x.npz", "report.json")
        )
        onnx.save(model, good)
        np.savez(data, x=rng.standard_normal((16, ROWS, WIDTH)).astype(np.float32))
        np.savez(inputs, x=rng.standard_normal((8, ROWS, WIDTH)).astype(np.float32))
        for mode in args.modes.split(","):
            flags = ["--inputs", str(inputs), *of_mode(mode, data)]
            compare = ["--compare", "onnxruntime", "--model", str(good), "--compare-layers"]
            alone = shared = 0
            for _ in range(args.cases):
                changed, name = plant(model, rng)
                onnx.save(changed, bad)
                ge_run(str(bad), *flags, *compare, "--report", str(report))
                layers = json.loads(report.read_text())["compared"]["layers"]
                top = layers["nodes"][0]
                alone += top.get("name") == name
                shared += name in top.get("sources", ())
                if name not in (top.get("name"), *top.get("sources", ())):
                    print(f"{mode}: {name} was planted, {top.get('name')} is named")
                    missed += 1
            plain = [ge_run(str(bad), *flags) for _ in range(3)]
            both = [ge_run(str(bad), *flags, *compare) for _ in range(3)]
            print(f"{mode}: {alone} of {args.cases} alone, {shared} with those of their launch; "
                  f"{min(both):.2f} s, {min(plain):.2f} s plain: {min(both) / min(plain):.2f}",
                  flush=True)  # fmt: skip
    sys.exit(missed != 0)


if __name__ == "__main__":
    main()
