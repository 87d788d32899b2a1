"""Damaged text: ge-opt ends with a clear message and status 1, or takes it; never a traceback, a
hang, or a half-written output.

The mutations are seeded; `FUZZ=2000 pytest test/unit/test_fuzz_mlir.py` runs more of them.
"""

import io
import os
import random
import re
import signal
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from ge.tools.commands import ge_opt

COUNT = int(os.environ.get("FUZZ", "150"))
SECONDS = 20
ROOT = Path(__file__).resolve().parents[1]
TOKEN = re.compile(r"[%@#!^]?[\w.$]+|\s+|.", re.DOTALL)
PIPELINES = ("", "infer-shapes,fold-constants", "fuse-linear,fuse-region,lower-to-tasks",
             "lower-to-tasks,bufferize-tasks,assign-streams,plan-memory")  # fmt: skip
NUMBERS = ("-1", "0", "1", "65", "99999999999", "9223372036854775807", "1.5", "?")


@cache
def texts() -> list[str]:
    """The parts of all FileCheck tests that are valid text, without their comments."""
    found: list[str] = []
    for path in sorted(ROOT.rglob("*.mlir")):
        if "Inputs" not in path.parts:
            for part in re.split(r"^// -----.*$", path.read_text("utf-8"), flags=re.MULTILINE):
                text = re.sub(r"^\s*//.*$\n?", "", part, flags=re.MULTILINE)
                if text.strip():
                    found.append(text)
    return found


def mutate(text: str, rng: random.Random) -> str:
    """One to three damages to the tokens of a text."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not tokens:
            return ""
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(8):
            case 0:
                del tokens[i]
            case 1:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 2:
                tokens[i] = tokens[j]
            case 3:
                tokens.insert(i, tokens[j])
            case 4:
                numbers = [k for k, t in enumerate(tokens) if t.isdigit()]
                tokens[rng.choice(numbers or [i])] = rng.choice(NUMBERS)
            case 5:
                del tokens[i:]
            case 6:
                names = [k for k, t in enumerate(tokens) if t.startswith("%")]
                tokens[rng.choice(names or [i])] = rng.choice(("%x", "%undefined", tokens[j]))
            case _:
                tokens.insert(i, chr(rng.choice((0, 7, 34, 92, 123, 955, 0x1F600))))
    return "".join(tokens)


def late(*_: object) -> None:
    raise TimeoutError(f"no answer in {SECONDS} s")


@pytest.mark.parametrize("block", range(4))
def test_damaged_text(block: int, tmp_path: Path):
    sources = texts()
    output = tmp_path / "out.mlir"
    signal.signal(signal.SIGALRM, late)
    for number in range(block, COUNT, 4):
        rng = random.Random(number)
        case = tmp_path / "case.mlir"
        case.write_text(mutate(rng.choice(sources), rng), "utf-8")
        output.write_text("earlier")
        args = [str(case), "-o", str(output), "-p", rng.choice(PIPELINES)]
        stdout, stderr = io.StringIO(), io.StringIO()
        signal.alarm(SECONDS)
        with redirect_stdout(stdout), redirect_stderr(stderr):
            status = ge_opt(args if args[-1] else args[:-2])
        signal.alarm(0)
        context = f"seed {number}: {' '.join(args)}\n{case.read_text('utf-8')}\n{stderr.getvalue()}"
        assert status in (0, 1), context
        assert "Traceback" not in stderr.getvalue(), context
        assert "internal error" not in stderr.getvalue(), context
        if status:
            assert "error" in stderr.getvalue(), context
            assert output.read_text() == "earlier", context
        assert [p.name for p in tmp_path.iterdir() if p.suffix == ".tmp"] == [], context
