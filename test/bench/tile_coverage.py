"""Tile programs of whole models: which launches have one, which share of the launches' time these
are, and why the others have none.

    python test/bench/tile_coverage.py MODEL.onnx ... [--target 910b2] [--dim NAME=SIZE]
        [--quantize SCHEME] [--quantize-cache TYPE] [--run] [--reasons N]

Models are quantized with the samples beside them, MODEL.calib.npz, where the scheme asks for any.

The time of a launch is that of the model of time, alone and with its operands in HBM. With `--run`
models run both ways on random inputs (weights that are missing are random): how much longer
emulated cores take than kernels on whole tensors, when programs are prepared, and which outputs
differ by more than sums in another order do (1e-4 of the largest element in f32, 2e-2 in narrower
floats).
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import compile_file, load
from ge.lowering.driver.program import Program
from ge.lowering.driver.tiles import Coverage
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import kind_of
from ge.runtime.data.weights import Fallback, RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.transforms.shapes.sizes import named_dims

RUNS = 3
CALIBRATED = "int8", "int16", "fp8"


def seconds(session: Session, given: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """The shortest of some runs, after one that prepares, and the outputs."""
    outputs, times = session.run(given), list[float]()
    for _ in range(RUNS):
        start = time.perf_counter()
        outputs = session.run(given)
        times.append(time.perf_counter() - start)
    return min(times), outputs


def run_both_ways(program: Program) -> tuple[str, bool]:
    """What is told of the runs, and whether the outputs agree."""
    program.payload = Fallback(program.payload, RandomPayload(program.module))
    given = random_inputs(program.module)
    fast, wanted = seconds(program.session(), given)
    slow, outputs = seconds(program.session(tiles="all"), given)
    differing = [n for n in wanted if not agree(outputs[n], wanted[n])]
    text = f"{1e3 * fast:.1f} ms, {1e3 * slow:.1f} ms on tiles ({slow / fast:.0f}x)"
    return f"{text}, {', '.join(differing)} DIFFER" if differing else text, not differing


def agree(got: Any, want: Any) -> bool:
    if kind_of(want.dtype) != "f":
        return np.array_equal(got, want)
    tolerance = 1e-4 if want.dtype.itemsize > 2 else 2e-2
    wide = want.astype(np.float64)
    most = float(np.abs(np.nan_to_num(wide, posinf=0, neginf=0)).max(initial=0))
    return np.allclose(got.astype(np.float64), wide, tolerance, tolerance * most, equal_nan=True)


def open_dims(path: Path) -> set[str]:
    """The names of the sizes that a model leaves open."""
    main = main_function(load(str(path)).module)
    return set() if main is None else {*named_dims(main)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--target", default="910b2")
    what = "a size that a model leaves open (of the models that name it)"
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help=what)
    parser.add_argument("--quantize", default="", metavar="SCHEME")
    parser.add_argument("--quantize-cache", default="", metavar="TYPE")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--reasons", type=int, default=20, metavar="N")
    args = parser.parse_args()
    target = Target.load(args.target)
    whole, agreed = Coverage(target), True
    for path in args.models:
        dims = tuple(dim for dim in args.dim if dim.partition("=")[0] in open_dims(path))
        samples = path.with_name(f"{path.stem}.calib.npz")
        given = str(samples) if args.quantize in CALIBRATED and samples.exists() else ""
        quantized = {"quantize": args.quantize, "quantize_cache": args.quantize_cache}
        options = Options(target=args.target, tiles=True, dim=dims, calibration=given, **quantized)
        program = compile_file(str(path), options)
        coverage = Coverage.of(program.module, target)
        whole.launches += coverage.launches
        for reason, us in coverage.us.items():
            whole.us[reason] += us
        passes = program.compilation.passes
        took = sum(p.seconds for p in passes if p.name == "lower-kernels")
        share = took / program.compilation.seconds
        line = f"{path.stem}: {coverage} (written in {took:.1f} s, {share:.0%} of compiling)"
        if args.run:
            text, same = run_both_ways(program)
            agreed, line = agreed and same, f"{line}; {text}"
        print(line, flush=True)
    print(f"all {len(args.models)}: {whole}")
    for entry in whole.report()["others"][: args.reasons]:
        percent = 100 * entry["us"] / whole.total_us if whole.total_us else 0.0
        print(f"{entry['launches']:6} launches {percent:6.2f} % of the time: {entry['reason']}")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
