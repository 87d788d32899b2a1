"""What a reader may count on: docstrings, and functions of a size that one can take in."""

import ast
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from source_trees import ROOT, statements, tree

FOLDERS = ("dialects", "lowering", "transforms", "runtime")

FUNCTION_LINES = 60
STATEMENTS = 3
"""A shorter function needs no docstring: its signature and body say what it does."""


@cache
def sources() -> list[Path]:
    files = [p for folder in (*FOLDERS, "tools", "ge") for p in (ROOT / folder).rglob("*.py")]
    return sorted(p for p in files if p.read_text("utf-8").strip())


def imported_names() -> set[tuple[str, str]]:
    """(module, name) of all that one file imports from another, or names by a dialect that has all
    of its files: `g.MatmulOp`."""
    found = {
        (node.module, alias.name)
        for path in sources()
        for node in statements(tree(path).body)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    named = {
        node.attr
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in ("g", "graph")
    }
    return found | {(module, name) for module, star in found if star == "*" for name in named}


def test_what_other_files_import_has_a_docstring():
    public = imported_names()
    missing: list[str] = []
    for path in sources():
        place = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(place if place[0] == "ge" else ("ge", *place)).removesuffix(".__init__")
        for node in tree(path).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            short = isinstance(node, ast.FunctionDef)
            short = short and len(list(statements(node.body))) <= STATEMENTS
            if (module, node.name) in public and not short and ast.get_docstring(node) is None:
                missing.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not missing, "\n".join(missing)


def test_modules_say_what_they_are():
    missing = [p for p in sources() if ast.get_docstring(tree(p)) is None]
    assert not missing


def test_functions_are_short():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources()
        for node in statements(tree(path).body)
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
        if node.end_lineno - node.lineno >= FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_soak_runs_tests_that_there_are():
    text = (ROOT / "Makefile").read_text("utf-8")
    names = text.partition("RANDOM :=")[2].partition("SEED")[0].replace("\\", "").split()
    assert names
    assert [n for n in names if not (ROOT / f"test/unit/test_{n}.py").exists()] == []


def test_docstrings_of_functions_begin_with_what_they_do():
    """A question word at the front describes a value; a verb says what the function does."""
    questions = {"What", "Which", "Where", "How", "Whether", "When", "Who", "Why"}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {words[0]} ..."
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef)
        if (words := (ast.get_docstring(node) or "").split()) and words[0].strip(",") in questions
    ]
    assert not wrong, "\n".join(wrong)
