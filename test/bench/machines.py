"""The suite as it runs on other machines: with the kernels of OpenBLAS for other processors, each
with one thread and with two; with variables of a user set; where the environment is not activated.

    python test/bench/machines.py                                  # make soak runs this
    python test/bench/machines.py test/unit/test_split_sums.py     # these tests alone

A processor whose instructions this one lacks is skipped, with the reason.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

# by the name that OPENBLAS_CORETYPE has for it: what OpenBLAS's kernels for a processor need
NEEDS = {
    "NEHALEM": {"sse4_2"},
    "SANDYBRIDGE": {"avx"},
    "HASWELL": {"avx2", "fma"},
    "ZEN": {"avx2", "fma"},
    "SKYLAKEX": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
OF_A_USER = {"GE_GRAPH_FUSION": "off", "GE_TARGET": "310p3", "GE_PRECISION": "fp16"}


def instructions() -> set[str]:
    """The extensions of this processor, as Linux names them; none where that is not known."""
    file = Path("/proc/cpuinfo")
    text = file.read_text("utf-8") if file.exists() else ""
    match = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(match[1].split()) if match else set()


def lacking(name: str, have: set[str]) -> str:
    """The instructions that this processor lacks for those kernels; empty where it has all."""
    return ", ".join(sorted(NEEDS[name] - have))


def environments(have: set[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """What each run is called, and the variables that it sets."""
    for name in ("", *NEEDS):
        if name and (missing := lacking(name, have)):
            print(f"{name}: skipped, as this processor has no {missing}", flush=True)
            continue
        core = {"OPENBLAS_CORETYPE": name} if name else {}
        for count in ("1", "2"):
            threads = {"OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count}
            yield f"{name or 'this processor'}, threads: {count}", core | threads
    yield "with variables of a user", OF_A_USER
    folders = [p for p in os.environ["PATH"].split(os.pathsep) if not p or Path(p) != BIN]
    yield "where the environment is not activated", {"PATH": os.pathsep.join(folders)}


def passes(variables: Mapping[str, str], tests: list[str]) -> bool:
    """Whether these tests pass so: all of them, of pytest and of lit, if none is named."""
    python = [sys.executable, "-m"]
    commands = [[*python, "pytest", "-q", "-n", "auto", "--maxprocesses", "8", *tests]]
    if not tests:
        commands.append([str(BIN / "lit"), "-q", "test"])
    environment = {**os.environ, **variables}
    codes = [subprocess.run(c, cwd=ROOT, env=environment, check=False).returncode for c in commands]
    return not any(codes)


def main(tests: list[str]) -> int:
    """1 where some run fails; which ones is printed at the end."""
    failed: list[str] = []
    for name, variables in environments(instructions()):
        print(f"== {name}", flush=True)
        if not passes(variables, tests):
            failed.append(name)
    print("\n".join(f"fails: {name}" for name in failed) or "passes on all of them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
