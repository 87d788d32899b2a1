"""`--validate` over the whole pipeline: each pass keeps the numbers of every model of a folder, in
every fusion mode, within what the pass declares.

    python test/bench/validate.py FOLDER [--only TEXT] [--modes off,default] [--output FOLDER]

A line for each model and mode: how many passes were held to their relation, on how many sets of
inputs of each kind, and which share of the outputs was finite there (nan hides much). The first
pass that breaks its relation is named, and the ops that matter go to a test in `--output`. Models
without weights of their own (`*.structure.onnx`) are left out.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import FUSION_MODES, Options
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.runtime.device.trials import KINDS, Trials
from ge.tools.debugging.validation import Validation


def validate(path: Path, mode: str, output: Path) -> Validation:
    """Lower one model to a program. Raises GeError for the first pass that breaks its relation."""
    options = Options.from_environment(fusion=mode)
    made: list[Validation] = []

    def watch(loaded: Program) -> list[Instrumentation]:
        file = str(output / f"{path.stem}.{mode}.mlir")
        made.append(Validation(Trials, context(), loaded.payload, file))
        return list(made)

    compile_file(str(path), options, watch=watch)
    return made[0]


def describe(trials: Trials) -> str:
    """The number of sets of each kind, and the share of finite outputs."""
    texts: list[str] = []
    for kind in KINDS:
        pairs = zip(trials.trials, trials.first, strict=True)
        found = [o for t, o in pairs if t.kind == kind and not isinstance(o, GeError)]
        arrays = [a.astype(np.float64) for o in found for a in o.values() if a.size]
        share = np.mean([np.isfinite(a).mean() for a in arrays]) if arrays else 1.0
        texts.append(f"{len(found)} {kind} ({share:.0%})")
    return ", ".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the file's name")
    parser.add_argument("--modes", default=",".join(FUSION_MODES))
    parser.add_argument("--output", type=Path, default=Path(), help="where the tests go")
    args = parser.parse_args()
    clean = total = 0
    for path in sorted(args.folder.glob("*.onnx"), key=lambda p: p.stat().st_size):
        if args.only not in path.name or ".structure" in path.name:
            continue
        for mode in args.modes.split(","):
            total += 1
            start = time.process_time()
            try:
                done = validate(path, mode, args.output)
            except GeError as e:
                print(f"{path.stem:30} {mode:12} {e}", flush=True)
                continue
            clean += 1
            assert isinstance(done.runner, Trials)
            text = f"{done.passes} passes on {describe(done.runner)}"
            seconds = time.process_time() - start
            print(f"{path.stem:30} {mode:12} clean, {seconds:5.1f} s, {text}", flush=True)
    print(f"{clean} of {total} models and modes are clean")
    sys.exit(clean != total)


if __name__ == "__main__":
    main()
