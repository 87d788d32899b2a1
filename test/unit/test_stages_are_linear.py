"""Three times the model takes each function of each stage three times the steps: from the import to
the program, its text, its proof and its time. Steps are counted (`counting_steps.py`), not seconds,
so that what goes through the rest of the model for each op shows on every machine."""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import counting_steps

MOST = 1.6  # times as many steps as the sizes say: a logarithm, tables that fill up
LEAST = 100  # steps a layer: of fewer, growth is not looked at

Steps = dict[tuple[str, str], int]
"""Stage and function -> steps."""


class Nodes:
    """The nodes of a model one after the other, and its weights."""

    def __init__(self) -> None:
        self.nodes, self.weights, self.rng = list[Any](), list[Any](), np.random.default_rng(0)

    def weight(self, value: Any, kind: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def __call__(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> Any:
        from onnx import helper

        names = [f"v{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if results == 1 else names

    def branch(self, kind: str, value: str) -> Any:
        from onnx import TensorProto, helper

        name = f"b{len(self.nodes)}_{kind}"
        node = helper.make_node(kind, [value], [name])
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [result])

    def layer(self, x: str, image: str, number: int) -> tuple[str, str]:
        """A layer of what models are made of, and a value of an input that all layers read."""
        h = self("MatMul", x, self.weight(self.rng.normal(size=(8, 8))))
        h = self("Relu", self("Add", h, self.weight(self.rng.normal(size=8))))
        a, b = self("Split", h, self.weight([4, 4], np.int64), results=2, axis=1)
        h = self("Concat", a, self("Tanh", b), axis=1)
        t = self("Reshape", h, self.weight([2, 4, 8], np.int64))
        t = self("Exp", self("Transpose", t, perm=[0, 2, 1]))
        t = self("Reshape", self("Transpose", t, perm=[0, 2, 1]), self.weight([8, 8], np.int64))
        x = self("LayerNormalization", self("Add", x, t), self.weight(np.full(8, 1.5)), axis=-1)
        if number % 4 == 0:
            largest = self("ReduceMax", x, keepdims=0)
            bodies = {"then_branch": self.branch("Neg", x), "else_branch": self.branch("Abs", x)}
            x = self("If", self("Greater", largest, self.weight(0.0)), **bodies)
        ends = [self.weight([n], np.int64) for n in (number % 8, number % 8 + 1, 0)]
        row = self("Slice", image, *ends)
        return x, self("Sin", self("Mul", row, self.weight(number % 4 + 0.5)))


def model(layers: int) -> Any:
    from onnx import TensorProto, helper

    m, x, total = Nodes(), "x", "image"
    for i in range(layers):
        x, part = m.layer(x, "image", i)
        total = m("Add", total, part)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (8, 8)) for n in ("x", "image")]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (x, total)]
    graph = helper.make_graph(m.nodes, "layers", ports, results, m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def target_file(folder: str) -> str:
    """A target on which programs of any size have as many streams."""
    from ge.dialects.targets import target

    preset = Path(target.__file__).with_name("910_merged.toml").read_text()
    path = Path(folder, "few_streams.toml")
    path.write_text(re.sub(r"max_streams = \d+", "max_streams = 4", preset))
    return str(path)


def stages(proto: Any, target: str) -> Iterator[tuple[str, dict[str, int]]]:
    """The steps of each function in each stage on the way of a model. Stages of a pass that runs
    twice come twice."""
    from ge.dialects.targets.target import Target
    from ge.dialects.text.printing import text_printer
    from ge.dialects.text.reading import SourceText, parse_module
    from ge.lowering.driver.compiler import context, lower
    from ge.lowering.onnx.importer import import_model
    from ge.lowering.pipeline.options import Options
    from ge.lowering.pipeline.pass_manager import Instrumentation
    from ge.runtime.check.proof import check_program
    from ge.runtime.clock.clock import simulate

    passes = list[tuple[str, dict[str, int]]]()

    class Watch(Instrumentation):
        def before(self, p: Any, module: Any) -> None:
            passes.append(("driver", dict(counting_steps.taken())))

        def after(self, p: Any, module: Any) -> None:
            passes.append((p.name, dict(counting_steps.taken())))

    dict(counting_steps.taken())
    imported = import_model(proto)
    yield "import", dict(counting_steps.taken())
    module = imported.module
    options = Options(target=target, tile_cache="off")
    lower(module, options, instrumentations=[Watch()], payload=imported.payload)
    yield from passes
    dict(counting_steps.taken())
    text_printer(out := StringIO()).print_whole(module)
    yield "print", dict(counting_steps.taken())
    parse_module(context(), SourceText("layers", out.getvalue()))
    yield "parse", dict(counting_steps.taken())
    assert not check_program(module).problems
    yield "check", dict(counting_steps.taken())
    simulate(module, Target.load(target))
    yield "time", dict(counting_steps.taken())


def measure(layers: int) -> Steps:
    found: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for stage, functions in stages(model(layers), target_file(folder)):
            for function, count in functions.items():
                found[stage, function] += count
    return found


def faster_than_linear(few: Steps, many: Steps, small: int, large: int) -> dict[str, str]:
    """The functions that take more steps than the larger model explains."""
    least = LEAST * small
    return {
        f"{stage}: {function}": f"{few.get((stage, function), 0)} steps become {count}"
        for (stage, function), count in many.items()
        if count > LEAST * large
        and count > MOST * large / small * max(few.get((stage, function), 0), least)
    }


def main(small: int, large: int) -> None:
    """By the numbers of layers of two models."""
    counting_steps.count_in("ge.", "xdsl.ir", "xdsl.rewriter", "xdsl.pattern_rewriter")
    measure(2)  # what is done once
    few, many = measure(small), measure(large)
    found = {
        "stages": sorted({s for s, _ in many}),
        "found": faster_than_linear(few, many, small, large),
    }
    json.dump(found, sys.stdout, indent=1)


@pytest.mark.parametrize(
    "layers", [("12", "36"), pytest.param(("18", "54"), marks=pytest.mark.soak)]
)
def test_steps_grow_with_the_model(layers: tuple[str, str]) -> None:
    command = [sys.executable, __file__, *layers]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert {"import", "bufferize-tasks", "assign-streams", "assign-offsets"} <= {*result["stages"]}
    assert {"print", "parse", "check", "time"} <= {*result["stages"]}
    assert result["found"] == {}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
