"""What the clock costs: CPU time of a simulation beside that of a numeric run of the same program.

    python test/bench/clock.py MODEL.onnx [MODEL.onnx ...] [--runs N]

Three figures a model: a numeric run of a loaded program; one simulation of it (as a session does
when it is asked for times, once, however often it runs); and `ge-run` on the compiled program,
without times and with (`--report`), which is what a user waits for. The least of N counts.
A model whose weights are not there (`*.structure.onnx`) is simulated only.
"""

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.tools.commands import ge_compile, ge_run


def least(run: Callable[[], Any], runs: int) -> float:
    """CPU milliseconds of the fastest of some runs."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best * 1e3


def command(main: Callable[[list[str]], int], *args: str) -> None:
    """Run a command line tool in this process, silently. Raises SystemExit when it fails."""
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        status = main(list(args))
    if status:
        raise SystemExit(quiet.getvalue())


def measure(path: Path, runs: int) -> str:
    loaded = load(str(path))
    lower(loaded.module, Options.from_environment())
    target = Target.load()
    tasks = len(simulate(loaded.module, target).tasks)
    clock = least(lambda: simulate(loaded.module, target), runs)
    parts = [f"{path.name}: {tasks} tasks, simulation {clock:.1f} ms"]
    if ".structure." not in path.name:
        session = Session(loaded.module, loaded.payload)
        inputs = random_inputs(loaded.module)
        parts.append(f"numeric run {least(lambda: session.run(inputs), runs):.1f} ms")
        with TemporaryDirectory() as folder:
            program, report = f"{folder}/p.mlir", f"{folder}/r.json"
            command(ge_compile, str(path), "-o", program)
            off = least(lambda: command(ge_run, program), runs)
            on = least(lambda: command(ge_run, program, "--report", report), runs)
        parts.append(f"ge-run {off:.0f} ms, with times {on:.0f} ms ({on / off - 1:+.0%})")
    return ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    for path in args.models:
        print(measure(path, args.runs), flush=True)


if __name__ == "__main__":
    sys.exit(main())
