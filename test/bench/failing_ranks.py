"""Runs under MPI in which a rank fails at a random task: does each end in time, with the number of
the rank and the reason, and leave no process behind?

    python test/bench/failing_ranks.py --cases 100 [--seed N]

A rank is killed, stopped, crashes, raises an exception, exits, or skips an exchange with others."""

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ge.lowering.driver.compiler import load
from ge.runtime.device.random_inputs import random_inputs

MODEL = Path(__file__).parents[1] / "models/llama_7b_prefill.op23.tiny.onnx"
COLUMNS = {f"val_{n}": [[], ["tp"]] for n in (39, 46, 53, 122, 124, 130, 137, 144, 210, 212, 218)}
RULES = {**COLUMNS, **{f"val_{n}": [["tp"]] for n in (117, 125, 205, 213)}}
MESHES = ("tp=2", "dp=2,tp=2", "tp=4")
LIMIT_S = 10.0  # from the fault to the end of all
MPIEXEC = Path(sys.executable).parent / "mpiexec"

CHILD = """
import contextlib, json, os, signal, sys, time
import numpy as np
import ge_npu
from ge.runtime.device import ranks
from ge.runtime.numbers.collectives import Member

how, victim, last, stamp = json.loads(sys.argv.pop(1))
run, swap, met = ranks.Rank.run, Member.swap, []

def is_now(rank):
    met.append(rank)
    if rank != victim or len(met) != last:
        return False
    with open(stamp, "w") as out:
        json.dump([os.getpid(), time.time()], out)
    return True

def after(rank):
    if how != "skips" and is_now(rank):
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif how == "is stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "exits":
            sys.exit(3)
        raise ValueError("it fails here")

def watched(self, arguments, outputs=None, driver=None, watch=None):
    return run(self, arguments, outputs, driver, lambda *_: after(self.rank))

def skipping(self, what, group, sends, wants, like):
    if how == "skips" and is_now(self.device):
        found = {d: np.zeros(shape, like.dtype) for d, shape in wants.items()}
        return contextlib.nullcontext(found)
    return swap(self, what, group, sends, wants, like)

ranks.Rank.run, Member.swap = watched, skipping
sys.exit(ge_npu.ge_run())
"""

WAYS = "is killed", "crashes", "is stopped", "raises", "exits", "skips"


@dataclass
class Tally:
    ways: Counter[str] = field(default_factory=Counter[str])
    slowest: dict[str, float] = field(default_factory=dict[str, float])
    wrong: list[str] = field(default_factory=list[str])


def compiled(folder: Path) -> dict[str, tuple[Path, int, int]]:
    """Programs by mesh: the file, and how many tasks and exchanges each rank has."""
    found: dict[str, tuple[Path, int, int]] = {}
    for mesh in MESHES:
        path, rules = folder / f"{mesh}.mlir", dict(RULES)
        if "dp" in mesh:
            rules["input_ids"] = [["dp"]]
        own = [sys.executable, "-c", "import sys, ge_npu; sys.exit(ge_npu.ge_compile())"]
        flags = ["--mesh", mesh, "--shard", json.dumps(rules), "-o", str(path)]
        subprocess.run([*own, str(MODEL), *flags], check=True, capture_output=True)
        text = path.read_text("utf-8")
        tasks = text.count("npu_task.launch")
        found[mesh] = path, tasks, text.count("launch @all_")
    return found


def check(
    seed: int, programs: dict[str, tuple[Path, int, int]], folder: Path, tally: Tally
) -> None:
    rng = random.Random(seed)
    how, mesh = WAYS[seed % len(WAYS)], rng.choice(MESHES)
    path, tasks, exchanges = programs[mesh]
    count = 2 if mesh == "tp=2" else 4
    victim, stamp = rng.randrange(count), folder / f"{seed}.json"
    last = rng.randint(1, exchanges if how == "skips" else tasks)
    fault = json.dumps([how, victim, last, str(stamp)])
    own = [sys.executable, str(folder / "child.py"), fault, str(path), "--inputs"]
    command = [str(MPIEXEC), "-n", str(count), *own, str(folder / "in.npz")]
    what = f"seed {seed}: rank {victim} of {mesh} {how} at {last}"
    tally.ways[how] += 1
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        tally.wrong.append(f"{what}: it hangs")
        return
    if not stamp.exists():
        tally.wrong.append(f"{what}: no fault, {done.stderr[-300:]}")
        return
    pid, begin = json.loads(stamp.read_text("utf-8"))
    seconds = time.time() - begin
    tally.slowest[how] = max(tally.slowest.get(how, 0.0), seconds)
    if seconds > LIMIT_S:
        tally.wrong.append(f"{what}: it takes {seconds:.1f} s")
    if not done.returncode:
        tally.wrong.append(f"{what}: it ends well")
    if f"rank {victim}" not in done.stderr:
        tally.wrong.append(f"{what}: the rank is not named: {done.stderr[-600:]}")
    if how == "raises" and "it fails here" not in done.stderr:
        tally.wrong.append(f"{what}: no reason: {done.stderr[-600:]}")
    if runs(pid):
        tally.wrong.append(f"{what}: process {pid} is left")


def runs(pid: int) -> bool:
    """Tell whether a process has not ended a second later."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return False
        if state in "ZX":  # it has, and nobody has asked how
            return False
        time.sleep(0.05)
    return True


def run_cases(cases: int, seed: int = 0) -> Tally:
    """Run so many cases from a seed on; prints what is wrong."""
    tally = Tally()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "child.py").write_text(CHILD, "utf-8")
        np.savez(folder / "in.npz", allow_pickle=False, **random_inputs(load(str(MODEL)).module))
        programs = compiled(folder)
        for number in range(seed, seed + cases):
            known = len(tally.wrong)
            check(number, programs, folder, tally)
            for line in tally.wrong[known:]:
                print(line, flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tally = run_cases(args.cases, args.seed)
    for how, count in tally.ways.items():
        print(f"a rank {how}: {count} runs, ended {tally.slowest.get(how, 0):.1f} s after at most")
    print(f"{len(tally.wrong)} of {args.cases} wrong")
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
