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


def statements(body: Iterable[ast.AST], for_types: bool = True) -> Iterator[ast.stmt]:
    """Statements and those in them, with or without those that are for type checkers alone."""
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            if for_types or not (is_for_types and field == "body"):
                yield from statements(getattr(node, field, ()), for_types)
