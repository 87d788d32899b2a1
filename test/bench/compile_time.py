"""Compile time, ONNX to program, one process each: given models, and a generated transformer of
10,000 and 50,000 nodes whose ratio shows whether the compiler is linear.

    python test/bench/compile_time.py [MODEL.onnx ...] [--sizes 10000,50000]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parent))
from generate import transformer

CODE = """
import sys, time, json
start = time.perf_counter()
from ge.lowering.driver.compiler import compile_file
program = compile_file(sys.argv[1])
seconds = time.perf_counter() - start
passes = {p.name: round(p.seconds, 3) for p in program.compilation.passes}
print(json.dumps({"seconds": seconds, "launches": program.compilation.ops["launches"],
                  "passes": passes}))
"""


def measure(path: str) -> dict[str, object]:
    run = subprocess.run([sys.executable, "-c", CODE, path], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{path}: {run.stderr.strip().splitlines()[-1]}")
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--sizes", default="10000,50000")
    parser.add_argument("--passes", action="store_true", help="show the time of each pass")
    args = parser.parse_args()
    for path in args.models:
        show(Path(path).stem, measure(path), args.passes)
    times: list[float] = []
    for size in (int(s) for s in args.sizes.split(",") if s):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/generated.onnx"
            onnx.save(transformer(size), path)
            result = measure(path)
        times.append(float(str(result["seconds"])))
        show(f"transformer, {size} nodes", result, args.passes)
    if len(times) == 2:
        print(f"ratio of the two: {times[1] / times[0]:.2f}")


def show(name: str, result: dict[str, object], passes: bool) -> None:
    print(f"{name}: {result['seconds']:.2f} s, {result['launches']} launches", flush=True)
    if passes:
        print(f"    {result['passes']}")


if __name__ == "__main__":
    main()
