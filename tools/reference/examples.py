"""Examples of ops: the texts of `docs/examples`, which are parsed, verified and, where they take no
input, run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.functions import functions
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.context import context
from ge.runtime.data.arrays import Array
from ge.runtime.device.function import Function

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"

SEPARATOR = "// -----\n"
OP_NAME = re.compile(r"\b(?:graph|fused_op|npu_task|tile)\.\w+")

context_of_examples = cache(context)


@dataclass(frozen=True)
class Example:
    """A text, where it begins in its file, and the op that it is about (empty: all in it)."""

    text: str
    line: int
    op: str
    place: str

    def module(self) -> ModuleOp:
        """The text as a module that was verified. Raises ParseError or VerifyException."""
        return parsed(self)

    def results(self) -> Sequence[Array]:
        """What its function returns, none where it takes inputs or there is no function."""
        module = self.module()
        for func in functions(module).values():
            if not func.body.block.args:
                return Function(module, func, {}).run([])
        return ()


@cache
def parsed(example: Example) -> ModuleOp:
    """See `Example.module`."""
    source = SourceText(example.place, example.text, example.line - 1)
    module = parse_module(context_of_examples(), source)
    module.verify()
    return module


@cache
def examples(dialect: str) -> Sequence[Example]:
    """The examples of a dialect, in the order of its file. Lines `// -----` are between them, else
    empty lines. None are there for dialects of others, and where the sources are not."""
    path = FOLDER / f"{dialect}.mlir"
    if not path.is_file():
        return ()
    head, _, rest = path.read_text("utf-8").partition("\n\n")  # what the file says of itself
    between = SEPARATOR if SEPARATOR in rest else "\n\n"
    found: list[Example] = []
    line = head.count("\n") + 3
    for part in rest.split(between):
        name = re.search(r"^func\.func @(\w+)", part, re.MULTILINE)
        about = f"{dialect}.{name[1]}" if name and name[1] != "main" else ""
        blank = len(part) - len(part.lstrip("\n"))
        place = f"docs/examples/{path.name}"
        found.append(Example(part.strip() + "\n", line + blank, about, place))
        line += (part + between).count("\n")
    return found


def example_of(op: str) -> Example | None:
    """The example that is named like the op, else the first one that has it."""
    of_dialect = examples(op.partition(".")[0])
    named = (e for e in of_dialect if e.op == op)
    having = (e for e in of_dialect if not e.op and op in OP_NAME.findall(e.text))
    return next(named, None) or next(having, None)
