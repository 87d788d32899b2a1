"""Single-line mutations of the heart of the compiler: which of them does no test notice?

    python test/bench/mutations.py --seed 34 --draw 40
    python test/bench/mutations.py --list | wc -l

A mutation flips a comparison, `and` and `or`, `+` and `-`, `min` and `max` or a truth value, drops
a `not`, moves a whole number by one, or leaves out a statement. Of each that is drawn the narrow
tests run first, unit tests near to the module and lit tests of its folder, then all of `make
check`. The tree is changed in place, one mutation at a time, and must be as it was committed.
"""

import argparse
import ast
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEART = {
    "fusion": ["transforms/fusion/*.py"],
    "liveness": ["transforms/analysis/live*.py", "transforms/analysis/dependencies.py"],
    "packing": ["transforms/memory/packing*.py", "transforms/memory/assign_offsets.py"],
    "schedule": ["transforms/schedule/*.py"],
    "clock": ["runtime/clock/*.py"],
    "checker": ["runtime/check/*.py", "dialects/npu_task/rules.py"],
    "grids": ["transforms/quantization/grids.py"],
    "importer": ["lowering/onnx/*.py", "lowering/onnx/ops/*.py"],
}
FLIPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutation:
    path: str
    line: int  # from 1
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing changed, in each way that there is."""
    copy = deepcopy(node)
    match copy:
        case ast.Compare():
            for i, op in enumerate(copy.ops):
                copy.ops[i] = FLIPPED[type(op)]()
                yield copy
                copy.ops[i] = op
        case ast.BoolOp() | ast.BinOp(op=ast.Add() | ast.Sub()):
            copy.op = FLIPPED[type(copy.op)]()
            yield copy
        case ast.UnaryOp(op=ast.Not()):
            yield copy.operand
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            copy.func = ast.Name(SWAPPED[name])
            yield copy
        case ast.Constant(value=bool(truth)):
            yield ast.Constant(not truth)
        case ast.Constant(value=int(number)):
            yield ast.Constant(number + 1)
        case (
            ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom())
            | ast.AugAssign()
            | ast.Continue()
            | ast.Break()
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
        ):
            yield ast.Pass()
        case _:
            pass


def mutated_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that say what happens: no types, decorators, texts, raised errors, or checks of zip."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from mutated_nodes(child)


def mutations(path: Path) -> Iterator[Mutation]:
    text = path.read_text("utf-8")
    lines = text.splitlines()
    for node in mutated_nodes(ast.parse(text)):
        if isinstance(node, ast.expr | ast.stmt) and node.lineno == node.end_lineno:
            before = lines[node.lineno - 1].encode()
            for new in changed(node):
                own = ast.unparse(new)
                own = f"({own})" if isinstance(node, ast.expr) else own
                after = before[: node.col_offset] + own.encode() + before[node.end_col_offset :]
                name = str(path.relative_to(ROOT))
                yield Mutation(name, node.lineno, before.decode(), after.decode())


def all_mutations(pattern: str) -> list[Mutation]:
    """Of the files of the heart whose names fit the pattern."""
    paths = {p for globs in HEART.values() for glob in globs for p in ROOT.glob(glob)}
    files = sorted(p for p in paths if fnmatch(str(p.relative_to(ROOT)), pattern))
    return list(dict.fromkeys(m for path in files for m in mutations(path)))


def users(path: str, files: Iterable[Path]) -> list[Path]:
    """The files that import a module, by any of the ways to write that."""
    name = f"ge.{path.removesuffix('.py').replace('/', '.')}"
    package, _, module = name.rpartition(".")
    pattern = rf"(from|import) {name}\b|from {package} import .*\b{module}\b"
    return [file for file in files if re.search(pattern, file.read_text("utf-8"))]


def narrow_tests(path: str) -> list[list[str]]:
    """The unit tests that import a module, or name an op of ONNX that it imports, and those of
    ONNX; the lit tests of its folder's subject; the unit tests that import what imports it."""
    tests = sorted((ROOT / "test/unit").glob("test_*.py"))
    rooms = ("dialects", "lowering", "runtime", "transforms", "tools")
    modules = users(path, (file for room in rooms for file in (ROOT / room).rglob("*.py")))
    own = dict.fromkeys(users(path, tests))
    text = (ROOT / path).read_text("utf-8")
    if ops := re.findall(r'^@\w+_op\("(\w+)"', text, re.MULTILINE):
        named = re.compile(rf"\b({'|'.join(ops)})\b")
        own |= dict.fromkeys(t for t in tests if named.search(t.read_text("utf-8")))
        own[ROOT / "test/onnx_backend/test_onnx_backend.py"] = None
    near = {t: None for m in modules for t in users(str(m.relative_to(ROOT)), tests)}
    folders = [f"test/{folder}" for folder in Path(path).parents if str(folder).count("/")]
    lit = [folder for folder in folders if (ROOT / folder).is_dir()][:1]
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider"]
    commands = [[*pytest, *map(str, own)]] if own else []
    if lit:
        commands.append([str(Path(sys.executable).parent / "lit"), "-q", *lit])
    rest = [str(test) for test in near if test not in own]
    return [*commands, [*pytest, *rest]] if rest else commands


def passes(command: list[str], seconds: float) -> bool:
    """Whether it ends well; what hangs does not."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        ["nice", *command], cwd=ROOT, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def survives(mutation: Mutation, whole: list[str]) -> str:
    """The last stage that did not notice a mutation: "" if the first one did."""
    path = ROOT / mutation.path
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.after + "\n"
    try:
        path.write_text("".join(lines), "utf-8")
        if not all(passes(command, 600) for command in narrow_tests(mutation.path)):
            return ""
        return "all" if whole and passes(whole, 7200) else "narrow"
    finally:
        path.write_text(text, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--draw", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="leave out so many of those drawn")
    parser.add_argument("--only", default="*", help="a pattern of paths of files")
    parser.add_argument("--whole", default="make check", help="what those run that are left")
    parser.add_argument("--list", action="store_true", help="print them all, and run nothing")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the file is put back
    found = all_mutations(args.only)
    if args.list:
        print(*found, sep="\n")
        return 0
    if subprocess.run(
        ["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True
    ).stdout:
        parser.error("the tree has changes")
    drawn = random.Random(args.seed).sample(found, min(args.draw, len(found)))
    print(f"{len(found)} mutations, {len(drawn)} drawn with seed {args.seed}", flush=True)
    left: list[Mutation] = []
    for number, mutation in enumerate(drawn):
        if number < args.first:
            continue
        start = time.monotonic()
        stage = survives(mutation, args.whole.split())
        verdict = {"": "noticed by narrow tests", "narrow": "noticed", "all": "SURVIVED"}[stage]
        if not args.whole and stage:
            verdict = "LEFT"
        left += [mutation] * (stage == "all" or verdict == "LEFT")
        print(f"{number} {verdict} ({time.monotonic() - start:.0f} s) {mutation}", flush=True)
    print(f"{len(left)} of {len(drawn) - args.first} left", *left, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
