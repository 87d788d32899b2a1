"""What fusion gains, model by model and mode by mode: kernel launches, HBM traffic against the
compulsory traffic (inputs, weights and outputs once each), emulated latency. No payload is needed.

    python test/bench/launches.py FOLDER [--only TEXT] [--modes off,default] [--target 910b2]
    python test/bench/launches.py --attention 2048

`--attention N` does the same for one attention of 32 heads of 128 elements on N tokens, written
out as two products and a softmax with a mask.
"""

import argparse
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import FUSION_MODES, Options
from ge.runtime.clock.clock import UnknownShapes, simulate
from ge.runtime.clock.timeline import DMA_IN, DMA_OUT

Row = tuple[int, float, float, float]
"""Launches, megabytes across HBM, compulsory megabytes, microseconds."""


def measure(path: Path, mode: str, target: str) -> Row:
    """Compile one model in one mode and run it without numbers."""
    loaded = load(str(path))
    options = Options.from_environment(fusion=mode, target=target)
    compilation = lower(loaded.module, options)
    timeline = simulate(loaded.module, Target.load(target))
    links = sum(t.time.bytes for t in timeline.tasks if t.engine in (DMA_IN, DMA_OUT))
    memory = compilation.memory
    least = memory["weight_bytes"] + memory["io_bytes"]
    moved = timeline.bytes - links
    return compilation.ops["launches"], moved / 1e6, least / 1e6, timeline.latency_us


def attention(tokens: int, heads: int = 32, size: int = 128) -> ModelProto:
    """softmax(Q K^T / sqrt(size) + mask) V in fp16, as exporters write it out."""
    shape = [1, heads, tokens, size]
    half = TensorProto.FLOAT16
    scale = numpy_helper.from_array(np.array(size**-0.5, np.float16), "scale")
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["raw"]),
        helper.make_node("Mul", ["raw", "scale"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(n, half, shape) for n in ("q", "k", "v")]
    inputs.append(helper.make_tensor_value_info("mask", half, [1, 1, tokens, tokens]))
    outputs = [helper.make_tensor_value_info("y", half, shape)]
    graph = helper.make_graph(nodes, f"attention_{tokens}", inputs, outputs, [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def show(name: str, path: Path, modes: list[str], target: str) -> bool:
    """Print a line for each mode; False when one fails."""
    first: Row | None = None
    for mode in modes:
        try:
            row = measure(path, mode, target)
        except UnknownShapes:
            print(f"{name:34} {mode:12} shapes are known only at run time")
            return True
        except GeError as e:
            print(f"{name:34} {mode:12} {e}")
            return False
        first = first or row
        launches, moved, least, us = row
        print(
            f"{name:34} {mode:12} {launches:5} launches {moved:10.1f} MB"
            f" ({moved / max(least, 1e-9):5.2f} of {least:9.1f}) {us:10.0f} us"
            f"   traffic {moved / first[1] - 1:+5.0%} latency {us / first[3] - 1:+5.0%}",
            flush=True,
        )
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default=r"\.structure\.onnx$", help="pattern of file names")
    parser.add_argument("--modes", default=",".join(FUSION_MODES))
    parser.add_argument("--target", default="910b2")
    parser.add_argument("--attention", type=int, help="number of tokens")
    args = parser.parse_args()
    modes = args.modes.split(",")
    good = True
    if args.attention:
        with TemporaryDirectory() as folder:
            path = Path(folder, "attention.onnx")
            path.write_bytes(attention(args.attention).SerializeToString())
            good &= show(f"attention, {args.attention} tokens", path, modes, args.target)
    if args.folder:
        for path in sorted(args.folder.glob("*.onnx")):
            if re.search(args.only, path.name):
                good &= show(path.stem, path, modes, args.target)
    sys.exit(not good)


if __name__ == "__main__":
    main()
