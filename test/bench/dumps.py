"""Dumps in ONNX form of each model of a folder: checked as ONNX, and, of models with weights and
reference outputs (NAME.npz with in:INPUT and out:OUTPUT), run in onnxruntime.

    python test/bench/dumps.py FOLDER [NAME...]

One line for each model and stage: the first pass, the end of the graph level, the fused level; how
many functions (fused ops), nodes of other domains (which onnxruntime does not run) and inputs for
weights it has, and the largest error relative to the largest value of an output, of the dump in
onnxruntime against the references. Exit status 1 if a dump fails, or is further off than 1e-3
(1e-2 in 16 bits)."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.instrumentation import Dumps
from ge.lowering.pipeline.options import Options

STAGES = ("verify-level",)


class Stages(Dumps):
    """Dumps of the first pass and of the ends of levels alone."""

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if self.number == 0 or p.name in STAGES:
            super().after(p, module)


def error_of(path: Path, arrays: dict[str, np.ndarray]) -> float | None:
    """The largest relative error of an output in onnxruntime; None where it cannot run."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # it joins quantize and dequantize with layers, which rounds elsewhere
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: arrays[f"in:{i.name}"] for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    worst = 0.0
    for name, value in zip(names, session.run(None, feeds), strict=True):
        want = arrays[f"out:{name}"].astype(np.float64)
        assert value.shape == want.shape, (name, value.shape, want.shape)
        scale = max(float(np.abs(want).max(initial=0.0)), 1e-30)
        error = float(np.abs(value.astype(np.float64) - want).max(initial=0.0)) / scale
        worst = max(worst, error)
    return worst


def check(path: Path, folder: Path) -> list[str]:
    """What is wrong with the dumps of a model; prints a line for each."""
    reference = path.with_suffix(".npz")
    arrays = dict(np.load(reference)) if reference.exists() else {}
    watching = Stages(folder, 1 if arrays else 2, "onnx")
    compile_file(str(path), Options(), until="fused", watch=lambda _: [watching])
    wrong: list[str] = []
    for file in sorted(folder.glob("*.onnx")):
        model = onnx.load(file, load_external_data=False)
        onnx.checker.check_model(model)
        own = {i.domain for i in model.opset_import} - {"", "fused_op"}
        inside = [n for f in model.functions for n in f.node]
        others = sum(n.domain in own for n in (*nodes(model.graph), *inside))
        text = f"{len(model.functions)} functions, {others} others, {len(model.graph.input)} inputs"
        start = time.process_time()
        try:
            error = error_of(file, arrays) if arrays and not others else None
            text += "" if error is None else f", error {error:.1e}"
            limit = 1e-2 if "fp16" in path.name else 1e-3
            if error is not None and not error <= limit:
                wrong.append(f"{path.name} {file.name}: error {error}")
        except Exception as e:
            wrong.append(f"{path.name} {file.name}: {str(e).splitlines()[0]}")
        seconds = time.process_time() - start
        print(f"{path.name:36} {file.name:28} {text} ({seconds:.1f} s)", flush=True)
    return wrong


def nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    inner = [n for node in graph.node for a in node.attribute for n in nodes(a.g)]
    return [*graph.node, *inner]


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    chosen = [p for p in sorted(Path(arguments[0]).glob("*.onnx"))]
    wrong: list[str] = []
    for path in chosen:
        if arguments[1:] and not any(name in path.name for name in arguments[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong += check(path, Path(folder))
            except Exception as e:
                wrong.append(f"{path.name}: {type(e).__name__}: {e}")
    print("\n".join([*wrong, f"{len(wrong)} failures"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
