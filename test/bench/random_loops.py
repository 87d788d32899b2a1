"""Random ONNX models with Loop and Scan, sizes that are symbols, and ranks that nobody knows, at
every fusion mode and memory level, against numpy.

    python test/bench/random_loops.py --cases 1000 [--seed N]

A program of a value without a known rank must be refused with the value's place; every other one
must give numpy's numbers, within and without shapes known at compile time.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ge.dialects.support.errors import GeError
from ge.lowering.driver.cache import compile_model
from ge.lowering.pipeline.options import FUSION_MODES
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

UNARY: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": np.negative,
    "Tanh": np.tanh,
    "Identity": lambda x: x,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
}
SIZES = {"a": 2, "b": 3, "c": 4}
"""What the symbols stand for when a model runs."""


@dataclass
class Case:
    """A model, its inputs, and what it must give."""

    model: ModelProto
    inputs: dict[str, Array]
    outputs: list[Array]
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return f"{self.options}\n{onnx.printer.to_text(self.model)}"


class Maker:
    """Makes a case of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng, self.arrays = random.Random(seed), np.random.default_rng(seed)
        self.ports: list[Any] = []
        self.inputs: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}

    def dims(self, rank: int) -> list[str | int]:
        return [self.rng.choice(("a", "b", "c", 2)) for _ in range(rank)]

    def numbers(self, shape: Any) -> Array:
        return self.arrays.standard_normal(tuple(shape)).astype(np.float32)

    def input(self, name: str, dims: list[str | int], values: Array | None = None) -> Array:
        if values is None:
            values = self.numbers(SIZES.get(str(d), d) for d in dims)
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        self.ports.append(helper.make_tensor_value_info(name, kind, dims))
        self.inputs[name] = values
        return values

    def either(self, name: str, dims: list[str | int], values: Array) -> Array:
        """An input, or a constant, with these values."""
        if self.rng.random() < 0.5:
            return self.input(name, dims, values)
        self.constants[name] = values
        return values

    def body(self, names: Mapping[str, Array]) -> tuple[list[NodeProto], "Run"]:
        """The steps from a carried value `s` to the next one, which use other values too."""
        steps: list[tuple[str, list[str], str]] = []
        last = "s"
        for i in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.4:
                steps.append((self.rng.choice(sorted(UNARY)), [last], f"t{i}"))
            else:
                pair = [last, self.rng.choice(sorted(names))]
                self.rng.shuffle(pair)
                steps.append((self.rng.choice(sorted(BINARY)), pair, f"t{i}"))
            last = f"t{i}"
        steps.append(("Identity", [last], "next"))
        nodes = [helper.make_node(kind, operands, [result]) for kind, operands, result in steps]

        def run(values: Mapping[str, Array]) -> Array:
            known = dict(values)
            for kind, operands, result in steps:
                function: Callable[..., Array] = {**UNARY, **BINARY}[kind]
                known[result] = function(*(known[o] for o in operands))
            return known["next"]

        return nodes, run

    def case(self) -> Case:
        rank = self.rng.randint(1, 3)
        dims = self.dims(rank)
        x = self.input("x", dims)
        scan = self.rng.random() < 0.5
        axis = self.rng.randrange(rank) if scan else 0
        shape = [d for i, d in enumerate(dims) if i != axis] if scan else dims
        seen = {"k": self.either("k", [], self.numbers(()))}
        if self.rng.random() < 0.5:
            ones: list[str | int] = [1] * self.rng.randint(1, max(len(shape), 1))
            seen["v"] = self.either("v", ones, self.numbers(ones))
        start: list[str | int] = list(shape)
        if self.rng.random() < 0.4:  # grows in the first round, perhaps in rank too
            start = [1] * (len(shape) if self.rng.random() < 0.7 else 0)
        s = self.either("s0", start, self.numbers(SIZES.get(str(d), d) for d in start))
        node, outputs = self.scan(x, axis, s, seen) if scan else self.loop(x, s, seen, len(shape))
        results = [helper.make_empty_tensor_value_info(n) for n in node.output]
        held = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph([node], "g", self.ports, results, held)
        opsets = [helper.make_opsetid("", 17)]
        options = {
            "fusion": self.rng.choice(FUSION_MODES),
            "memory": self.rng.randrange(4),
        }
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return Case(model, self.inputs, outputs, options)

    def scan(
        self, x: Array, axis: int, s: Array, seen: Mapping[str, Array]
    ) -> tuple[NodeProto, list[Array]]:
        nodes, run = self.body({**seen, "xi": s})
        backward = self.rng.randrange(2)
        rows: list[Array] = []
        slices = np.moveaxis(x, axis, 0)
        for xi in slices[::-1] if backward else slices:
            s = run({**seen, "s": s, "xi": xi})
            rows.append(s)
        body = graph_of([*nodes, same("next", "y")], ["s", "xi"], ["next", "y"])
        attributes = {"num_scan_inputs": 1, "scan_input_axes": [axis]}
        attributes["scan_input_directions"] = [backward]
        node = helper.make_node("Scan", ["s0", "x"], ["last", "rows"], body=body, **attributes)
        return node, [s, *stacked(rows)]

    def loop(
        self, x: Array, s: Array, seen: Mapping[str, Array], rank: int
    ) -> tuple[NodeProto, list[Array]]:
        trips = self.rng.randint(1, 3)
        self.either("n", [], np.array(trips, np.int64))
        seen = {**seen, "x": x}
        nodes, run = self.body(seen)
        rows: list[Array] = []
        for _ in range(trips):
            s = run({**seen, "s": s})
            rows.append(s)
        ends = ["go2", "next"]
        extra = [same("go", "go2")]
        if len({r.shape for r in rows}) == 1 and self.rng.random() < 0.5:
            extra.append(same("next", "y"))
            ends.append("y")
        body = graph_of([*nodes, *extra], ["i", "go", "s"], ends)
        names = ["last", "rows"][: len(ends) - 1]
        node = helper.make_node("Loop", ["n", "", "s0"], names, body=body)
        return node, [s, *stacked(rows)][: len(names)]


Run = Callable[[Mapping[str, Array]], Array]


def same(source: str, target: str) -> NodeProto:
    return helper.make_node("Identity", [source], [target])


def stacked(rows: list[Array]) -> list[Array]:
    """The rows along a new axis, if they have one shape."""
    return [np.stack(rows)] if len({r.shape for r in rows}) == 1 else []


def graph_of(nodes: list[NodeProto], inputs: list[str], outputs: list[str]) -> onnx.GraphProto:
    kinds = {"i": TensorProto.INT64, "go": TensorProto.BOOL, "go2": TensorProto.BOOL}

    def port(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None)

    return helper.make_graph(nodes, "body", [port(n) for n in inputs], [port(n) for n in outputs])


REFUSALS = ("the number of dimensions of", "expected a ranked tensor")
"""What is said of values whose rank is not known."""


def check(seed: int) -> tuple[bool, str | None]:
    """Whether a case ran, and what is wrong with it."""
    case = Maker(seed).case()
    if len(case.outputs) < len(case.model.graph.output):  # rows of different shapes
        return False, None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(case.model, path)
        try:
            program = compile_model(str(path), **case.options)
            results = list(Session(program.module, program.payload).run(case.inputs).values())
        except GeError as e:
            known = any(text in e.message for text in REFUSALS)
            return False, None if known else f"{e}\n{case}"
        except Exception as e:
            return False, f"{type(e).__name__}: {e}\n{case}"
    for got, wanted in zip(results, case.outputs, strict=True):
        if got.shape != wanted.shape or not np.allclose(got, wanted, 1e-4, 1e-5, equal_nan=True):
            return True, f"{got} where numpy has {wanted}\n{case}"
    return True, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    ran = wrong = 0
    for seed in range(args.seed, args.seed + args.cases):
        ok, error = check(seed)
        ran += ok
        if error is not None:
            wrong += 1
            print(f"// seed {seed}: {error}\n", flush=True)
    print(f"{args.cases} cases, {ran} ran, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
