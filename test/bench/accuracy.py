"""Numbers of every model of a folder against the outputs stored beside it (`NAME.npz`): at the
graph level and as a program, all input sets, with symbolic dimensions kept and fixed.

    python test/bench/accuracy.py FOLDER [--only TEXT] [--levels graph,program]
        [--modes off,conservative,default,aggressive] [--timings N]

Tolerance: fp32 1e-4 of the output's largest magnitude, fp16 2e-2 of its fp32 twin, quantized
models 40 dB signal-to-noise, integers exact. Conservative fusion gives the bits of the unfused
program. With `--timings`, N random legal timings of each program give the same bits.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.data.accuracy import INTEGERS, TOLERANCES, measured
from ge.runtime.device.session import Session
from ge.transforms.rewriting.passes import BitExact

Arrays = Mapping[str, Any]
Case = dict[str, dict[str, Any]]


def cases(path: Path) -> dict[str, Case]:
    """Case name -> {"in": arrays, "out": arrays}; the unnamed case's inputs are the defaults."""
    data = np.load(path)
    found: dict[str, Case] = {}
    for key in data.files:
        match = re.match(r"(?:(.*)/)?(in|out):(.*)$", key, re.S)
        if match:
            found.setdefault(match[1] or "", {}).setdefault(match[2], {})[match[3]] = data[key]
    base = found.get("", {}).get("in", {})
    return {
        name: {"in": {**base, **case.get("in", {})}, "out": case["out"]}
        for name, case in found.items()
        if "out" in case
    }


def difference(model: str, got: Any, want: Any) -> str | None:
    """What is wrong with an output, None when it agrees within the model's tolerance."""
    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    name = INTEGERS if "qdq" in model else "f16" if ".fp16" in model else "f32"
    return measured(want, got).complaint(replace(TOLERANCES[name], step=0)) or None


@lru_cache(8)
def run(path: Path, level: str, fusion: str | None = None, timings: int = 0) -> dict[str, Arrays]:
    """The outputs of one model at one level by case and name; the plan is proved, unused
    memory poisoned. Raises GeError where a random timing of the program gives other bits."""
    options = Options.from_environment(fusion=fusion)
    loaded = load(str(path))
    lower(loaded.module, options, until=level)
    session = Session(loaded.module, loaded.payload, target=options.target, sanitize=True)
    given = cases(path.with_suffix(".npz"))
    if level == "program" and timings:
        for case in given.values():
            session.fuzz_schedule(case["in"], timings)
    return {name: session.run(case["in"]) for name, case in given.items()}


def disagreements(path: Path, outputs: Mapping[str, Arrays]) -> list[str]:
    """What is wrong with the outputs, a line each."""
    return [
        f"{name or '-'} {output}: {why}"
        for name, case in cases(path.with_suffix(".npz")).items()
        for output, want in case["out"].items()
        if (why := difference(path.name, outputs[name][output], want))
    ]


def changed_bits(before: Mapping[str, Arrays], after: Mapping[str, Arrays]) -> list[str]:
    """The outputs that are not the same bits, a line each."""
    return [
        f"{name or '-'} {output}: not the bits of the unfused program: {why}"
        for name, arrays in before.items()
        for output, array in arrays.items()
        if (why := BitExact().difference(array, after[name][output]))
    ]


def check(path: Path, level: str, fusion: str | None = None, timings: int = 0) -> list[str]:
    """The disagreements of one model at one level, a line each. What conservative fusion gives is
    held to the bits of the unfused program, too."""
    outputs = run(path, level, fusion, timings)
    problems = disagreements(path, outputs)
    if fusion == "conservative":
        problems += changed_bits(run(path, level, "off"), outputs)
    return [f"{path.name} {fusion} {level}: {line}" for line in problems]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--levels", default="graph,program")
    parser.add_argument("--modes", default="default", help="of fusion, separated by commas")
    parser.add_argument("--timings", type=int, default=0, help="random timings of each program")
    args = parser.parse_args()
    good = total = 0
    for path in sorted(args.folder.glob("*.onnx")):
        if args.only not in path.name or not path.with_suffix(".npz").exists():
            continue
        for mode, level in product(args.modes.split(","), args.levels.split(",")):
            total += 1
            try:
                problems = check(path, level, mode, args.timings)
            except Exception as e:
                problems = [f"{path.name} {mode} {level}: {type(e).__name__}: {str(e)[:300]}"]
            good += not problems
            for line in problems:
                print(line, flush=True)
    print(f"{good} of {total} models, modes and levels agree")
    sys.exit(good != total)


if __name__ == "__main__":
    main()
