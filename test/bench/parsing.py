"""Time to read, verify and print a text, and that of ge-opt and of mlir-opt as a whole.

    python test/bench/parsing.py FILE.mlir [FILE.mlir ...] [--runs 5] [--peer mlir-opt-19]

CPU time, the least of the runs. mlir-opt, where it is installed, reads the generic form, of whose
dialects it knows little: it does less. The spellings of lines are counted too, names of values and
texts left out, since lines that are spelled alike are parsed once (`dialects/text/reading.py`).
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ge.dialects.support.operation import count_ops
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import Line, parse_module, read_source
from ge.lowering.driver.context import context
from ge.lowering.levels.dominance import verify
from ge.lowering.pipeline.pass_manager import paused_collector


def least(runs: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time of `work`, in seconds, and what it gave."""
    best, result = float("inf"), None
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def process(runs: int, command: Sequence[str]) -> float | None:
    """The least CPU time of a process, in seconds; None if it fails."""
    best = float("inf")
    for _ in range(runs):
        pid = os.posix_spawnp(command[0], command, os.environ)
        _, status, usage = os.wait4(pid, 0)
        if status:
            return None
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best


def told(seconds: float | None) -> str:
    return "does not read it" if seconds is None else f"{seconds:.2f} s"


def spellings(text: str) -> int:
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
    lines = (Line.at(text, start) for start in starts)
    return len({line.key for line in lines if line is not None})


def measure(path: Path, runs: int, peer: str) -> None:
    source = read_source(str(path))
    with paused_collector():
        reading, module = least(runs, lambda: parse_module(context(), source))
        verifying, _ = least(runs, lambda: verify(module))
        printing, _ = least(runs, lambda: op_text(module))
    whole = process(runs, ["ge-opt", str(path), "-o", os.devnull])
    print(
        f"{path.name}: {count_ops([*module.body.blocks])} ops, {spellings(source.text)} spellings "
        f"of {source.text.count(chr(10))} lines: read {reading:.2f} s, verified {verifying:.2f}, "
        f"printed {printing:.2f}; ge-opt as a whole {told(whole)}",
        end="",
    )
    if shutil.which(peer):
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(op_text(module, generic=True))
            file.flush()
            flags = ["--allow-unregistered-dialect", "-o", os.devnull]
            print(f", {peer} {told(process(runs, [peer, file.name, *flags]))}", end="")
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer", default="mlir-opt-19")
    args = parser.parse_args()
    for path in args.files:
        measure(path, args.runs, args.peer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
