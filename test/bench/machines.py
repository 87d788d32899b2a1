"""The suite as it runs on other machines: with the kernels of OpenBLAS for other processors, with
two threads, with variables of a user set, and where the environment is not activated.

    python test/bench/machines.py                                  # make soak runs this
    python test/bench/machines.py test/unit/test_split_sums.py     # these tests alone

The whole suite runs once as on a user's machine, with two threads; then its unit tests, once for
each processor whose products have bits of their own. Each run takes as long as `make unit`, 10 to
15 minutes on two cores, and there are three on a processor with AVX2. Named tests run with one
thread, too. What is skipped is printed with the reason: a processor whose instructions this one
lacks, or products of the same bits.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

Variables: TypeAlias = dict[str, str]

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


def environments(have: set[str], counts: Sequence[str] = ("2",)) -> Iterator[tuple[str, Variables]]:
    """What each run is called, and the variables that it sets: that of a user, then one for each
    processor and count of threads. `have`: the instructions of this processor."""
    folders = [p for p in os.environ["PATH"].split(os.pathsep) if not p or Path(p) != BIN]
    user = OF_A_USER | {"PATH": os.pathsep.join(folders)} | threads("2")
    yield "variables of a user, not activated, threads: 2", user
    for name in ("", *NEEDS):
        if name and (missing := lacking(name, have)):
            print(f"{name}: skipped, as this processor has no {missing}", flush=True)
            continue
        core = {"OPENBLAS_CORETYPE": name} if name else {}
        for count in counts:
            yield f"{name or 'this processor'}, threads: {count}", core | threads(count)


def threads(count: str) -> Variables:
    return {"OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count}


def distinct(runs: Iterable[tuple[str, Variables]]) -> Iterator[tuple[str, Variables]]:
    """The first run, and those of the others whose products have bits that none before has, nor
    one thread of this processor, which `make unit` has."""
    known = {products(threads("1")): "make unit"}
    for number, (name, variables) in enumerate(runs):
        same = known.setdefault(bits := products(variables), name)
        if not number or known[bits] == name:
            yield name, variables
        else:
            print(f"{name}: skipped, as its products have the bits of {same}", flush=True)


def products(variables: Variables) -> str:
    """A number for the bits of products of many sizes in an environment."""
    command = [sys.executable, "-c", PRODUCTS]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode()


PRODUCTS = """
from hashlib import sha256
from itertools import product

import numpy as np

rng, bits = np.random.default_rng(0), sha256()
sizes = product((1, 2, 5, 16, 33, 100, 257), (3, 8, 31, 64, 200, 768), (1, 5, 16, 33, 300))
for (m, k, n), dtype in product(sizes, (np.float32, np.float64)):
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    bits.update((a @ b).tobytes() + (b.T @ a.T).tobytes())
print(bits.hexdigest())
"""


def passes(variables: Variables, tests: Sequence[str], with_lit: bool) -> bool:
    """Whether these tests pass so: those of pytest if none is named, and of lit where asked for."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "8"]
    commands = [[*pytest, "--dist", "worksteal", *tests]]
    if with_lit:
        commands.append([str(BIN / "lit"), "-q", "test"])
    environment = {**os.environ, **variables}
    codes = [subprocess.run(c, cwd=ROOT, env=environment, check=False).returncode for c in commands]
    return not any(codes)


def main(tests: Sequence[str]) -> int:
    """1 where some run fails; which ones is printed at the end."""
    failed = list[str]()
    runs = list(distinct(environments(instructions(), ("1", "2") if tests else ("2",))))
    for number, (name, variables) in enumerate(runs, 1):
        print(f"== {number} of {len(runs)}: {name}", flush=True)
        begin = time.monotonic()
        good = passes(variables, tests, with_lit=number == 1 and not tests)
        minutes = (time.monotonic() - begin) / 60
        print(f"{'passes' if good else 'fails'} in {minutes:.1f} minutes", flush=True)
        failed += [] if good else [name]
    print("\n".join(f"fails: {name}" for name in failed) or "passes on all of them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
