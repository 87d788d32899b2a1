"""The main job, shown: a model goes down every level, runs on the emulated NPU, and its numbers are
compared with the reference outputs beside it (`MODEL.npz`):

python -m ge.tools.demo MODEL.onnx
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import Program, count_work
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.data.accuracy import TOLERANCES
from ge.runtime.device.session import Session
from ge.runtime.profile.tables import summary_table
from ge.tools.cli.command_line import ArgumentParser, guarded

MARKS = ("npu_task.wait", "npu_task.launch", "fused_op.", "graph.matmul", "graph.conv")
WIDTH = 110


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("demo", argv, run)


def run(arguments: Sequence[str]) -> int:
    """0 if the numbers agree. Raises GeError for a model without reference outputs."""
    parser = ArgumentParser("demo", __doc__, "")
    parser.add_argument("model", help="a .onnx model with reference data beside it")
    parser.add_argument("--lines", type=int, default=7, help="lines of IR shown of each level")
    args = parser.parse_args(arguments)

    reference = Path(args.model).with_suffix(".npz")
    if not reference.exists():
        raise GeError("there is no reference data", str(reference), "give a model of test/models")
    options = Options.from_environment()
    start = time.perf_counter()
    program = load(args.model)
    print(f"{args.model}: imported in {time.perf_counter() - start:.2f} s")
    show_levels(program, options, args.lines)
    agrees = worst_error(program, options, reference) <= (TOLERANCES["f32"].share or 0.0)
    print("agrees" if agrees else "DIFFERS")
    return int(not agrees)


def show_levels(program: Program, options: Options, lines: int) -> None:
    """Lower the program level by level, and print an excerpt of each."""
    for level in Level:
        result = lower(program.module, options, until=level)
        counted = level in (Level.GRAPH, Level.FUSED)
        ops = f", {count_work(program.module)} ops" if counted else ""
        print(f"\n--- {level}: {level.summary} ({result.seconds:.2f} s{ops})")
        print(excerpt(str(program.module), lines))


def excerpt(text: str, lines: int) -> str:
    """A few lines of a module's main function, from the first that holds one of MARKS."""
    main = text[text.find("func.func @main") :].splitlines()
    start = next((i for mark in MARKS for i, line in enumerate(main) if mark in line), 1)
    shown = main[start : start + lines]
    return "\n".join(s if len(s) <= WIDTH else f"{s[: WIDTH - 3]}..." for s in shown)


def worst_error(program: Program, options: Options, reference: Path) -> float:
    """Run the program, print its time and errors; the largest error, relative to the output."""
    session = Session(program.module, program.payload, target=options.target)
    data = np.load(reference)
    inputs = {k[3:]: data[k] for k in data.files if k.startswith("in:")}
    start = time.perf_counter()
    outputs = session.run(inputs)
    took = (time.perf_counter() - start) * 1e3
    print(f"\n--- run on the emulated NPU: numbers in {took:.0f} ms of numpy, and modelled times")
    print(summary_table(simulate(program.module, session.target), slowest=5))
    print("\n--- numbers against the reference")
    worst = 0.0
    for name in session.output_names:
        expected = data[f"out:{name}"].astype(np.float64)
        difference = float(np.max(np.abs(outputs[name] - expected), initial=0.0))
        error = difference / max(float(np.max(np.abs(expected), initial=0.0)), 1e-6)
        worst = max(worst, error)
        print(f"{name:24} {expected.shape!s:18} error {error:.1e} of the largest value")
    return worst


if __name__ == "__main__":
    sys.exit(main())
