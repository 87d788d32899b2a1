"""Time of a numeric run on the emulated NPU beside onnxruntime and onnx's ReferenceEvaluator.

    python test/bench/emulation.py MODEL.onnx [MODEL.onnx ...] [--runs N] [--reference] [--level L]
        [--tiles TARGET]

One thread each, in one process, one run of each in turn; the run of each that takes least time of
the CPU counts, so that what else the machine does matters little. With `--tiles`, programs also run
by the tile programs of their kernels. Weights that a model refers to and that are not there
(`*.structure.onnx`) are random, the same for all. Where OpenBLAS does not know the CPU, tell it the
kernels to use, e.g. OPENBLAS_CORETYPE=SKYLAKEX.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ge.lowering.driver.compiler import lower
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session


def with_weights(path: Path) -> onnx.ModelProto:
    """The model with random values for the weights whose file is missing."""
    model = onnx.load(path, load_external_data=False)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        shape = tuple(tensor.dims)
        fan_in = np.prod(shape[1:]) if len(shape) > 2 else max(shape)
        values = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(fan_in))
        tensor.CopyFrom(numpy_helper.from_array(values.astype(dtype), tensor.name))
    return model


def onnxruntime_runner(model: onnx.ModelProto, inputs: dict[str, Any]) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, inputs), strict=True))


def reference_runner(model: onnx.ModelProto, inputs: dict[str, Any]) -> Callable[[], Any]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    return lambda: evaluator.run(None, inputs)


def fastest(runners: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """The least CPU time of each in seconds, after one run to warm up."""
    best = dict.fromkeys(runners, float("inf"))
    for i in range(runs + 1):
        for name, run in runners.items():
            start = time.thread_time()
            run()
            if i:
                best[name] = min(best[name], time.thread_time() - start)
    return best


def measure(path: Path, args: argparse.Namespace) -> None:
    model = with_weights(path)
    imported = import_model(model)
    inputs = random_inputs(imported.module)
    runners: dict[str, Callable[[], Any]] = {"onnxruntime": onnxruntime_runner(model, inputs)}
    options = Options.from_environment()
    if args.tiles:
        options = replace(options, target=args.tiles, tiles=True)
    lower(imported.module, options, until=args.level)
    session = Session(imported.module, imported.payload)
    runners["ge"] = lambda: session.run(inputs)
    if args.tiles:
        tiled = Session(imported.module, imported.payload, tiles="all")
        runners["tiles"] = lambda: tiled.run(inputs)
    want, got = runners["onnxruntime"](), runners["ge"]()
    error = max(
        float(np.nanmax(np.abs(got[n] - want[n])) / max(np.nanmax(np.abs(want[n])), 1e-6))
        for n in want
    )
    best = fastest(runners, args.runs)
    if args.reference:
        best |= fastest({"reference": reference_runner(model, inputs)}, 1)
    ge, peer = best["ge"], best["onnxruntime"]
    parts = [f"ge {ge * 1e3:.1f} ms, onnxruntime {peer * 1e3:.1f} ms, ratio {ge / peer:.2f}"]
    if args.reference:
        slow = best["reference"]
        parts.append(f"ReferenceEvaluator {slow * 1e3:.0f} ms, {slow / ge:.1f} times ge's time")
    if args.tiles:
        parts.append(f"on tiles {best['tiles'] * 1e3:.1f} ms, {best['tiles'] / ge:.1f} times ge's")
    parts.append(f"largest difference {error:.1e}")
    print(f"{path.name}: {'; '.join(parts)}", flush=True)


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Read when numpy is imported, so they have to be there when Python starts."""


def main() -> int:
    if any(os.environ.get(k) != v for k, v in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--reference", action="store_true", help="run the ReferenceEvaluator too")
    parser.add_argument("--tiles", default="", metavar="TARGET", help="run on its cores too")
    parser.add_argument("--level", default="program")
    args = parser.parse_args()
    for path in args.models:
        measure(path, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
