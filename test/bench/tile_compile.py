"""What tile programs add to compile time: processor time and wall clock of `ge-compile MODEL -o
FILE` without `--tiles`, with it and an empty folder of kept programs, and with a folder that has
them all. The three take turns; the least of each counts.

    python test/bench/tile_compile.py MODEL.onnx ... [--rounds 3] [--target 910b2]

Bytecode of modules is kept between processes, as it is for users.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree


def seconds(arguments: Sequence[str], bytecode: str) -> tuple[float, float]:
    """Processor time of a process, and wall clock. Exits where it fails."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    begin = time.perf_counter()
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(arguments)}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - begin


Least = tuple[float, float, float]  # seconds without tile programs, cold and warm


def measure(path: str, target: str, rounds: int, folder: Path) -> tuple[Least, Least, int]:
    """Of processor time, of wall clock, and how many programs are kept."""
    kept, bytecode = folder / "kept", str(folder / "bytecode")
    plain = ["ge-compile", path, "-o", str(folder / "out.mlir")]
    plain += ["--target", target] if target else []
    tiles, plain = [*plain, "--tile-cache", str(kept)], [*plain, "--no-tiles"]
    seconds(tiles, bytecode)
    times: list[list[tuple[float, float]]] = [[], [], []]
    for _ in range(rounds):
        times[0].append(seconds(plain, bytecode))
        rmtree(kept)
        times[1].append(seconds(tiles, bytecode))
        times[2].append(seconds(tiles, bytecode))
    work, waited = (least([[t[i] for t in column] for column in times]) for i in range(2))
    return work, waited, len(list(kept.iterdir()))


def least(times: Sequence[Sequence[float]]) -> Least:
    plain, cold, warm = map(min, times)
    return plain, cold, warm


def ratios(plain: float, cold: float, warm: float) -> str:
    return f"{plain:.2f} s, cold {cold / plain:.2f}x, warm {warm / plain:.2f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", default="")
    args = parser.parse_args()
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder:
            work, waited, count = measure(path, args.target, args.rounds, Path(folder))
        text = f"{Path(path).stem}: {ratios(*work)}; wall clock {ratios(*waited)}"
        print(f"{text}; {count} programs", flush=True)


if __name__ == "__main__":
    main()
