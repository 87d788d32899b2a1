"""Typical mistakes, and what mlir-opt and ge-opt say of them: docs/mlir_messages.md is made of this
(`python test/unit/mlir_messages.py`, where mlir-opt 19 is installed)."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mlir_flags import MLIR_OPT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mlir_messages.md"

INTRODUCTION = """\
# Messages beside mlir-opt's

What mlir-opt 19 and ge-opt say of the same mistake, in a file `in.mlir` or on the command line.
Notes of mlir-opt that print the op, or list all dialects, are left out here. One test runs ge-opt
on each, another one, which needs it, mlir-opt."""


@dataclass(frozen=True)
class Mistake:
    """What is wrong, the text (empty: a good one) and the arguments."""

    title: str
    text: str = ""
    arguments: tuple[str, ...] = ()
    file: str = "in.mlir"


GOOD = "func.func private @f() -> ()\n"


def body(lines: str, head: str = "func.func @f(%x: i32) -> i32 {") -> str:
    inner = "".join(f"  {line.strip()}\n" for line in lines.strip().split("\n"))
    return f"{head}\n{inner}}}\n"


MISTAKES = [
    Mistake("Undefined value", body("%0 = arith.addi %x, %y : i32\nfunc.return %0 : i32")),
    Mistake("A value of another type", body("%0 = arith.addi %x, %x : i64\nfunc.return %x : i32")),
    Mistake(
        "Value defined twice",
        body("%0 = arith.addi %x, %x : i32\n%0 = arith.muli %x, %x : i32\nfunc.return %0 : i32"),
    ),
    Mistake("Symbol defined twice", GOOD + GOOD),
    Mistake("Block defined twice", body("cf.br ^a\n^a:\ncf.br ^a\n^a:\nfunc.return %x : i32")),
    Mistake("No terminator", body("%0 = arith.addi %x, %x : i32")),
    Mistake("Unknown op", body("%0 = arith.adi %x, %x : i32\nfunc.return %0 : i32")),
    Mistake("Unknown dialect", body("%0 = arit.addi %x, %x : i32\nfunc.return %0 : i32")),
    Mistake(
        "Unknown attribute",
        body("%0 = arith.constant #arith.fastmth<fast>\nfunc.return %x : i32"),
    ),
    Mistake("Unknown type", "func.func private @f(tensor<4xf33>) -> ()\n"),
    Mistake(
        "Brace that is not closed",
        "func.func @f() -> () {\n  func.return\n\nfunc.func @g() -> () {\n  func.return\n}\n",
    ),
    Mistake(
        "Number of operands", body('%0 = "arith.addi"(%x) : (i32) -> i32\nfunc.return %0 : i32')
    ),
    Mistake(
        "Number of types", body('%0 = "arith.addi"(%x, %x) : (i32) -> i32\nfunc.return %0 : i32')
    ),
    Mistake("Number of results", body("%0, %1 = arith.addi %x, %x : i32\nfunc.return %0 : i32")),
    Mistake(
        "Use before definition",
        body("%1 = arith.muli %0, %x : i32\n%0 = arith.addi %x, %x : i32\nfunc.return %1 : i32"),
    ),
    Mistake(
        "Shape of a literal",
        body("%0 = arith.constant dense<[1.0, 2.0]> : tensor<3xf32>\nfunc.return %x : i32"),
    ),
    Mistake(
        "Element of a literal",
        body("%0 = arith.constant dense<[1.5, 2]> : tensor<2xi32>\nfunc.return %x : i32"),
    ),
    Mistake(
        "Types that do not fit",
        body(
            '%y = arith.constant 1 : i64\n%0 = "arith.addi"(%x, %y) : (i32, i64) -> i32\n'
            "func.return %0 : i32"
        ),
    ),
    Mistake(
        "Type of a result of the function",
        body("%y = arith.constant 1 : i64\nfunc.return %y : i64"),
    ),
    Mistake("Function that is not there", body("func.call @g() : () -> ()\nfunc.return %x : i32")),
    Mistake("Text behind an op", body("func.return %x : i32 extra")),
    Mistake("Missing type", body("%0 = arith.addi %x, %x :\nfunc.return %0 : i32")),
    Mistake("Undefined block", body("cf.br ^nowhere")),
    Mistake("Attribute given twice", body("func.return {a = 1, a = 2} %x : i32").replace(
        "func.return {a = 1, a = 2} %x", '"func.return"(%x) {a = 1, a = 2}').replace(
        "} : i32", "} : (i32) -> ()")),
    Mistake("Location", body('"func.return"(%x) : (i32) -> () loc(nowhere)')),
    Mistake("Unknown pass", arguments=("--pass-pipeline=builtin.module(cse,canonicalise)",)),
    Mistake("Unknown option of a pass", arguments=("--pass-pipeline=builtin.module(cse{x=1})",)),
    Mistake("Parenthesis of a pipeline", arguments=("--pass-pipeline=builtin.module(cse",)),
    Mistake("Unknown flag", arguments=("--canonicalise",)),
    Mistake("No such file", file="none.mlir"),
]  # fmt: skip

Run = Callable[[list[str]], str]  # the arguments -> what is said on standard error


def said(mistake: Mistake, run: Run, folder: Path) -> str:
    """What a tool says, in a folder that is the current one."""
    (folder / "in.mlir").write_text(mistake.text or GOOD)
    return run([mistake.file, *mistake.arguments]).replace("mlir-opt-19", "mlir-opt").rstrip()


def without_notes(text: str) -> str:
    """The text of mlir-opt without the ops that it prints in notes, and what stands below them."""
    blocks: list[list[str]] = []
    for line in text.split("\n"):
        starts = ": error:" in line or ": note:" in line
        if starts or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    kept = (b for b in blocks if "note: see current operation" not in b[0])
    lines = [line for block in kept for line in block if "note: Registered dialects" not in line]
    return "\n".join(lines).rstrip()


def section(mistake: Mistake, theirs: str, ours: str) -> str:
    command = " ".join([*mistake.arguments, mistake.file])
    what = f"```mlir\n{mistake.text}```" if mistake.text else f"`{command}`"
    return (
        f"## {mistake.title}\n\n{what}\n\nmlir-opt 19:\n\n```text\n{theirs}\n```\n\n"
        f"ge-opt:\n\n```text\n{ours}\n```"
    )


def of_process(command: str, folder: Path) -> Run:
    def run(arguments: list[str]) -> str:
        return subprocess.run(
            [command, *arguments], cwd=folder, capture_output=True, text=True
        ).stderr

    return run


def page(theirs: Run, ours: Run, folder: Path) -> str:
    parts = [
        section(m, without_notes(said(m, theirs, folder)), said(m, ours, folder)) for m in MISTAKES
    ]
    return "\n\n".join([INTRODUCTION, *parts]) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ge_opt = str(Path(sys.executable).parent / "ge-opt")
        PAGE.write_text(page(of_process(str(MLIR_OPT), folder), of_process(ge_opt, folder), folder))
