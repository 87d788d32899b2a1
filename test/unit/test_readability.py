"""What a reader may count on: docstrings, files and functions of a size that one can take in."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("dialects", "lowering", "transforms", "runtime")

LINES = 530
"""Of a file."""
FUNCTION_LINES = 60
STATEMENTS = 3
"""A function of more statements says what it does."""

NO_REGISTRATION = {
    "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "lru_cache",
    "overload", "property", "staticmethod",
}  # fmt: skip
"""Decorators that leave a function what it is. Any other one registers it (a kernel, the importer
of an ONNX op, the translation of an op): what it does is said where that op is defined."""

CONTRACTS = {
    "apply", "canonicalize", "match_and_rewrite", "parse", "parse_parameter", "parse_parameters",
    "print", "print_parameter", "print_parameters", "verify", "verify_",
}  # fmt: skip
"""Methods that xDSL calls, each with one meaning."""


def sources() -> list[Path]:
    files = [p for folder in (*FOLDERS, "tools", "ge") for p in (ROOT / folder).rglob("*.py")]
    return sorted(p for p in files if p.read_text("utf-8").strip())


def name_of(decorator: ast.expr) -> str:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def statements(function: ast.FunctionDef) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1


def undocumented(node: ast.Module | ast.ClassDef, scope: Any, prefix: str) -> Iterator[str]:
    """The public classes and longer functions without a docstring, inherited ones counted."""
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef) or child.name.startswith("_"):
            continue
        where = f"{prefix}:{child.lineno} {child.name}"
        if isinstance(child, ast.ClassDef):
            if ast.get_docstring(child) is None:
                yield where
            yield from undocumented(child, getattr(scope, child.name), prefix)
        elif (
            statements(child) > STATEMENTS
            and child.name not in CONTRACTS
            and {name_of(d) for d in child.decorator_list} <= NO_REGISTRATION
            and not inspect.getdoc(getattr(scope, child.name))
        ):
            yield where


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings(folder: str):
    missing: list[str] = []
    for path in sources():
        place = path.relative_to(ROOT)
        if place.parts[0] == folder:
            parts = ("ge", *place.with_suffix("").parts)
            module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
            missing += undocumented(ast.parse(path.read_text("utf-8")), module, str(place))
    assert not missing, "\n".join(missing)


def test_modules_say_what_they_are():
    missing = [p for p in sources() if ast.get_docstring(ast.parse(p.read_text("utf-8"))) is None]
    assert not missing


def test_files_are_short():
    long = [p for p in sources() if p.read_text("utf-8").count("\n") > LINES]
    assert not long


def test_functions_are_short():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
        if node.end_lineno - node.lineno >= FUNCTION_LINES
    ]
    assert not long, "\n".join(long)
