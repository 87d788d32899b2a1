"""Models of a folder in floats of 16 bits, beside onnxruntime in 32: what is left of the outputs,
how many ops stay in f32, and the emulated time over that of the f32 program.

    python test/bench/half_precision.py FOLDER [--only TEXT] [--modes fp16,bf16,mixed]
        [--target 910b2]

A model is NAME.onnx with one sample of its inputs in NAME.npz (arrays INPUT or `in:INPUT`). Each
mode compiles without samples and (`+`) with them. It fails where less than 40 dB are left (bf16:
30), or an output is nan that is a number in f32, and no warning says so.
"""

import argparse
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import ge
from ge.dialects.targets.target import Target
from ge.runtime.clock.clock import simulate
from ge.runtime.data.accuracy import decibels_of

LEAST = {"bf16": 30.0}
USUAL = 40.0  # dB

Arrays = Mapping[str, np.ndarray[Any, Any]]


def left(path: Path, inputs: Arrays, program: Any) -> float:
    """The signal-to-noise of the worst output, in dB; nan where one is nan in the program alone."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    wanted: dict[str, Any] = dict(zip(names, session.run(names, dict(inputs)), strict=True))
    got = ge.Session(program.module, program.payload).run(inputs)
    lost = any((np.isfinite(w) & ~np.isfinite(got[k])).any() for k, w in wanted.items())
    return float("nan") if lost else min(decibels_of(wanted, got).values())


def measure(path: Path, mode: str, target: str, is_calibrated: bool, us: float) -> bool:
    """Print what a mode leaves; true where that is wrong, and nothing said so."""
    arrays = {k.removeprefix("in:"): v for k, v in np.load(path.with_suffix(".npz")).items()}
    options: dict[str, Any] = {"calibration": str(path.with_suffix(".npz"))}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        program = ge.compile(
            str(path), precision=mode, target=target, **(options if is_calibrated else {})
        )
    kept = len(program.report().get("precision", {}).get("kept", []))
    decibels = left(path, arrays, program)
    time = simulate(program.module, Target.load(target)).latency_us / us
    warned = any("dB" in str(w.message) for w in told)
    text = f"{mode}{'+' if is_calibrated else ''} {decibels:.0f} dB{'!' if warned else ''}"
    print(f"  {text}, {kept} kept, {time:.2f}x", end="", flush=True)
    return not decibels >= LEAST.get(mode, USUAL) and not warned


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the file's name")
    parser.add_argument("--modes", default="fp16,bf16,mixed")
    parser.add_argument("--target", default="910b2")
    args = parser.parse_args()
    wrong = count = 0
    for path in sorted(args.folder.glob("*.onnx")):
        if args.only not in path.name or not path.with_suffix(".npz").exists():
            continue
        plain = ge.compile(str(path), target=args.target)
        us = simulate(plain.module, Target.load(args.target)).latency_us
        print(f"{path.stem:24}", end="")
        for mode in args.modes.split(","):
            for is_calibrated in (False, True):
                wrong += measure(path, mode, args.target, is_calibrated, us)
                count += 1
        print()
    print(f"{count - wrong} of {count} hold")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
