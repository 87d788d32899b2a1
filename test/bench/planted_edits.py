"""Edits planted in the text of programs: does ge-check refuse each one that does harm?

    python test/bench/planted_edits.py [--cases 5000] [--seed N] [--only TEXT] [--show]

Each case changes the text of one of the programs of `programs.py` (see `program_edits.py`).
ge-check reads it as any file; `program_judge.py` finds out by brute force what it does. Wrong is
- a hole: ge-check proves a program that does harm;
- an end that names no rule: an internal error, a traceback, or an exit without an error.
Harmless programs that are refused are counted by the rule that the error names.
"""

import argparse
import io
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from program_edits import edit
from program_judge import Judge, Verdict
from programs import NAMES, program

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.tools.commands import ge_check


@dataclass
class Tally:
    """What came out, by the kind of edit."""

    edits: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    """Of those that do harm."""
    holes: Counter[str] = field(default_factory=Counter[str])
    another: Counter[str] = field(default_factory=Counter[str])
    """Proved, harmless, with other results than before: another program."""
    harmless: Counter[str] = field(default_factory=Counter[str])
    """Proved, and the same results."""
    strict: Counter[str] = field(default_factory=Counter[str])
    """Refused though harmless."""
    rules: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    """Rule that the error names -> kinds of harmless edits that it refuses."""
    wrong: list[str] = field(default_factory=list[str])


def ge_check_says(text: str, path: Path) -> tuple[bool, str]:
    """Whether ge-check proves a text, and what it says about it."""
    path.write_text(text, "utf-8")
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = ge_check([str(path)])
    return status == 0, err.getvalue() or out.getvalue()


def rule_of(message: str) -> str:
    """The rule that an error names: its text without what it says of this program."""
    line = next((x for x in message.splitlines() if "error: " in x), "")
    text = line.partition("error: ")[2]
    text = re.sub(r"'[^']*'|\"[^\"]*\"|@\w+|%\w+|\(?[^ ]*\.mlir:\d+:\d+\)?", "_", text)
    text = re.sub(r"memref<[^>]*(<[^>]*>)?[^>]*>|tensor<[^>]*>", "T", text)
    return re.sub(r"-?\d+(\.\d+)?", "N", text)[:100]


def judge_text(text: str, judge: Judge, seed: int) -> Verdict:
    try:
        module = parse_module(context(), SourceText("edited.mlir", text))
        module.verify()
    except Exception as e:  # what is no program does harm to nobody, if it is refused
        return Verdict(f"no program: {type(e).__name__}")
    return judge.verdict(module, seed)


@cache
def judge_of(name: str) -> tuple[Judge, str]:
    """The judge of a program, and the text of that."""
    judge = Judge(program(name))
    return judge, str(judge.program.module)


def check_case(number: int, names: list[str], path: Path, tally: Tally) -> str:
    """One edit of one of the programs; returns what is wrong with how it ended, if anything is."""
    rng = random.Random(number)
    judge, before = judge_of(names[rng.randrange(len(names))])
    name, text = edit(judge.program.module, before, rng)
    tally.edits[name] += 1
    proved, said = ge_check_says(text, path)
    where = f"case {number}: {judge.program.name}: {name}"
    if "internal error" in said or "Traceback" in said:
        return f"{where}: {said.splitlines()[0]}"
    if not proved and not rule_of(said):
        return f"{where}: no rule is named: {said[:100]}"
    verdict = judge_text(text, judge, number)
    if verdict.harm:
        if proved:
            tally.holes[name] += 1
            return f"{where}: proved, but {verdict.harm}"
        tally.refused[name] += 1
    elif proved:
        (tally.another if verdict.another else tally.harmless)[name] += 1
    else:
        tally.strict[name] += 1
        tally.rules[rule_of(said)][name] += 1
    return ""


def change(number: int, names: list[str]) -> str:
    """The lines that a case changes."""
    rng = random.Random(number)
    judge, before = judge_of(names[rng.randrange(len(names))])
    _, text = edit(judge.program.module, before, rng)
    lines = unified_diff(before.splitlines(), text.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def run_cases(numbers: Iterable[int], only: str = "", show: bool = False) -> Tally:
    """Plant the edits with these numbers; prints what is wrong."""
    names = [name for name in NAMES if only in name]
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edited.mlir"
        for number in numbers:
            wrong = check_case(number, names, path, tally)
            if wrong:
                tally.wrong.append(wrong)
                print(wrong, flush=True)
                if show:
                    print(change(number, names), flush=True)
            if tally.edits.total() % 500 == 0:
                print(f"{tally.edits.total()} cases", file=sys.stderr, flush=True)
    return tally


def report(tally: Tally) -> None:
    columns = {"edits": tally.edits, "harm, refused": tally.refused, "harm, PROVED": tally.holes,
               "harmless, proved": tally.harmless, "another program, proved": tally.another,
               "harmless, refused": tally.strict}  # fmt: skip
    print(f"{'':24}" + "".join(f"{c:>25}" for c in columns))
    for name in sorted(tally.edits):
        print(f"{name:24}" + "".join(f"{c[name]:25}" for c in columns.values()))
    print(f"{'all':24}" + "".join(f"{c.total():25}" for c in columns.values()))
    print("\nharmless, refused, by rule:")
    for rule, kinds in sorted(tally.rules.items(), key=lambda r: -r[1].total()):
        print(
            f"{kinds.total():6} {rule}  ({', '.join(f'{k} {n}' for k, n in kinds.most_common(3))})"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", default="", help="part of the names of programs")
    parser.add_argument(
        "--show", action="store_true", help="print what is changed where that is wrong"
    )
    args = parser.parse_args()
    start = time.process_time()
    tally = run_cases(range(args.seed, args.seed + args.cases), args.only, args.show)
    report(tally)
    print(f"{len(tally.wrong)} wrong, {time.process_time() - start:.0f} s of CPU time")
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
