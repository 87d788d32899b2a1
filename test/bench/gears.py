"""What four gears take to compile, as a multiple of the static program of the largest one. Both are
timed by turns in one process after a first round; the least CPU time of each counts. Function calls
are counted too: they are the same each time, where time varies with what else runs.

    python test/bench/gears.py MODEL.onnx 'batch=1,sequence=16;batch=2,sequence=32' [--rounds 9]
"""

import argparse
import cProfile
import pstats
import time

from ge.lowering.driver.compiler import compile_file
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options


def timed(path: str, options: Options, sizes: dict[str, int]) -> tuple[float, Program]:
    start = time.process_time()
    program = compile_file(path, options, dims=sizes)
    return time.process_time() - start, program


def calls(path: str, options: Options, sizes: dict[str, int]) -> int:
    """How many functions are called to compile a model."""
    with cProfile.Profile() as profile:
        compile_file(path, options, dims=sizes)
    return pstats.Stats(profile).total_calls  # pyright: ignore[reportAttributeAccessIssue]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("gears", help="the sizes of each gear, by name, the largest last")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", action="store_true", help="show the time of each pass")
    args = parser.parse_args()
    rows: list[dict[str, int]] = []
    for gear in args.gears.split(";"):
        pairs = (entry.split("=") for entry in gear.split(","))
        rows.append({name.strip(): int(size) for name, size in pairs})
    gears = Options(dynamic_dims=";".join(",".join(map(str, r.values())) for r in rows))
    timed(args.model, gears, {})
    timed(args.model, Options(), rows[-1])
    runs = [
        (timed(args.model, gears, {}), timed(args.model, Options(), rows[-1]))
        for _ in range(args.rounds)
    ]
    (all_, program), (one, largest) = (
        min(column, key=lambda run: run[0]) for column in zip(*runs, strict=True)
    )
    arenas = [p.compilation.memory["peak_bytes"] for p in (program, largest)]
    print(f"{len(rows)} gears {all_ * 1e3:.0f} ms, the largest {one * 1e3:.0f} ms: "
          f"{all_ / one:.2f} times; arena {arenas[0]} of {arenas[1]} bytes")  # fmt: skip
    counts = calls(args.model, gears, {}), calls(args.model, Options(), rows[-1])
    print(f"{counts[0]} and {counts[1]} function calls: {counts[0] / counts[1]:.2f} times")
    if args.passes:
        for (name, a), b in zip(by_pass(program).items(), by_pass(program), strict=True):
            print(f"{name:32} {a * 1e3:6.1f} {by_pass(largest).get(b, 0) * 1e3:6.1f}")


def by_pass(program: Program) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for record in program.compilation.passes:
        seconds[record.name] = seconds.get(record.name, 0.0) + record.seconds
    return seconds


if __name__ == "__main__":
    main()
