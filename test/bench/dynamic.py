"""What it costs that a program learns its sizes late: a dynamic model bound to sizes, against the
model compiled for these. Arena, emulated latency (nan where data decide what there is to do), and
seconds to bind against seconds to compile. No payload is needed; the bound program is proved.

    python test/bench/dynamic.py MODEL.onnx batch=1,sequence=8 batch=2,sequence=128
        [--target 910b2]

The last line has the worst ratios; those over the bars (arena 1.00, latency 1.02) fail.
"""

import argparse
import math
import sys
from collections.abc import Mapping

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.lowering.driver.binding import Binder
from ge.lowering.driver.compiler import compile_file
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.clock.clock import UnknownShapes, simulate

MOST_ARENA, MOST_LATENCY = 1.0, 1.02

Row = tuple[int, float, float]
"""Bytes of the arena, microseconds, seconds until the program was there."""


def sizes_in(text: str) -> dict[str, int]:
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    if not all(name and size.isdecimal() for name, _, size in pairs):
        raise argparse.ArgumentTypeError(f"'{text}' is not written as batch=1,sequence=8")
    return {name: int(size) for name, _, size in pairs}


def measure(program: Program, target: Target) -> Row:
    compilation = program.compilation
    places = compilation.unknown.get("placed_bytes", 0)  # of what data decide, at the most
    try:
        latency = simulate(program.module, target).latency_us
    except UnknownShapes:
        latency = math.nan
    return compilation.memory["peak_bytes"] + places, latency, compilation.seconds


def show(path: str, binder: Binder, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Print a line for one row of sizes; the ratios of arena and latency. Raises GeError for a
    program that cannot be proved."""
    target = Target.load(binder.options.target)
    bound = binder.at(sizes)
    if problems := check_program(bound.module).problems:
        raise GeError(f"the program is not proved: {problems[0].message}")
    late = measure(bound, target)
    early = measure(compile_file(path, binder.options, dims=sizes), target)
    arena, latency = (ratio(*pair) for pair in zip(late[:2], early[:2], strict=True))
    print(
        f"{','.join(f'{n}={size}' for n, size in sizes.items()):32}"
        f" arena {late[0]:10} of {early[0]:10} B ({arena:5.3f})"
        f" latency {late[1]:9.2f} of {early[1]:9.2f} us ({latency:5.3f})"
        f" bound in {late[2]:5.2f} s, compiled in {early[2]:5.2f} s ({late[2] / early[2]:4.2f})",
        flush=True,
    )
    return arena, latency


def ratio(late: float, early: float) -> float:
    return late / early if early else 1.0 + late


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model", help="an .onnx model with symbolic dimensions")
    parser.add_argument("sizes", nargs="+", type=sizes_in, help="batch=1,sequence=8")
    parser.add_argument("--target", default="910b2")
    args = parser.parse_args()
    try:
        options = Options.from_environment(target=args.target)
        binder = Binder(compile_file(args.model, options), options)
        rows = [show(args.model, binder, sizes) for sizes in args.sizes]
    except GeError as e:
        sys.exit(f"{args.model}: {e}")
    arena = max(row[0] for row in rows)
    latency = max((row[1] for row in rows if not math.isnan(row[1])), default=1.0)
    print(f"worst of {len(rows)}: arena {arena:5.3f}, latency {latency:5.3f}")
    sys.exit(arena > MOST_ARENA or latency > MOST_LATENCY)


if __name__ == "__main__":
    main()
