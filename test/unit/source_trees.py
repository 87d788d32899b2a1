"""The project's files as syntax trees.

sys.path.insert(0, str(Path(__file__).parent))
from source_trees import ROOT, statements, tree
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
COMPOUND = tuple(
    kind
    for base in (ast.stmt, ast.excepthandler, ast.match_case)
    for kind in (base, *base.__subclasses__())
    if not {"body", "cases"}.isdisjoint(kind._fields)
)


def statements(body: Iterable[ast.AST], for_types: bool = True) -> Iterator[ast.stmt]:
    """Statements and those in them, with or without those that are for type checkers alone."""
    todo = [*body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, COMPOUND):
            for field in BLOCKS:
                if for_types or field != "body" or not is_for_types(node):
                    todo += getattr(node, field, ())


def is_for_types(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    names = (getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.test))
    return "TYPE_CHECKING" in names
