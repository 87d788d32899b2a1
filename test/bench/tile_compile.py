"""What tile programs add to compile time: processor time of `ge-compile MODEL -o FILE` without
`--tiles`, with it and an empty folder of kept programs, and with a folder that has them all. The
three take turns, one process each; the least of each counts.

    python test/bench/tile_compile.py MODEL.onnx ... [--rounds 3] [--target 910b2]

Bytecode of modules is kept between processes, as it is for users.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree


def seconds(arguments: Sequence[str], bytecode: str) -> float:
    """Processor time of a process. Exits where it fails."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(arguments)}")
    return usage.ru_utime + usage.ru_stime


def measure(path: str, target: str, rounds: int, folder: Path) -> tuple[list[float], int]:
    """Least seconds without tile programs, cold and warm; how many programs are kept."""
    kept, bytecode = folder / "kept", str(folder / "bytecode")
    plain = ["ge-compile", path, "-o", str(folder / "out.mlir")]
    plain += ["--target", target] if target else []
    tiles = [*plain, "--tiles", "--tile-cache", str(kept)]
    seconds(tiles, bytecode)
    times: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        times[0].append(seconds(plain, bytecode))
        rmtree(kept)
        times[1].append(seconds(tiles, bytecode))
        times[2].append(seconds(tiles, bytecode))
    return [min(column) for column in times], len(list(kept.iterdir()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", default="")
    args = parser.parse_args()
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder:
            (plain, cold, warm), count = measure(path, args.target, args.rounds, Path(folder))
        print(f"{Path(path).stem}: {plain:.2f} s, cold {cold / plain:.2f}x, "
              f"warm {warm / plain:.2f}x, {count} programs", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
