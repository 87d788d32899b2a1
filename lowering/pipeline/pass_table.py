"""Every pass of ge by name, found in the source files: nothing is listed, nothing is imported
until it is used. A class `FuseLinearPass` with `name = "fuse-linear"` in a file below `transforms/`
or `lowering/` is a pass."""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ge import lowering, transforms

PASS_CLASS = re.compile(
    r"""^class\ (\w+Pass)\(.*\n   # the class line
        (?:(?:[ \t].*)?\n)*?      # docstring and the like: indented or blank lines
        \ {4}name(?::\ [^=\n]*)?\ =\ "([a-z0-9-]+)"$""",
    re.MULTILINE | re.VERBOSE,
)


def lazy(module: str, attribute: str) -> Callable[[], Any]:
    """A getter that imports `module` when it is called."""
    return lambda: getattr(import_module(module), attribute)


def find_passes(package: str, folders: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(pass name, module, class) of each pass class in the source files below `folders`."""
    for folder in folders:
        for file in sorted(Path(folder).rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            text = file.read_text(encoding="utf-8")
            if "Pass):" in text:
                for match in PASS_CLASS.finditer(text):
                    yield match[2], ".".join((package, *parts)), match[1]


def ge_passes() -> dict[str, Callable[[], Any]]:
    """Pass name -> function that imports and returns its class.
    Raises ValueError when a name is given twice."""
    passes: dict[str, Callable[[], Any]] = {}
    for package in (transforms, lowering):
        for name, module, cls in find_passes(package.__name__, package.__path__):
            if name in passes:
                raise ValueError(f"{module}.{cls}: a pass named '{name}' exists already")
            passes[name] = lazy(module, cls)
    return passes


def rules() -> dict[str, str]:
    """Name -> what it does, of the rules that passes are made of. Imports all passes."""
    from ge.transforms.graph.canonical.local import LocalRule
    from ge.transforms.rewriting.counts import declared
    from ge.transforms.rewriting.rules import Search

    for load in ge_passes().values():
        load()
    found = declared()
    todo: list[type[Search | LocalRule]] = [Search, LocalRule]
    while todo:
        rule = todo.pop()
        todo += rule.__subclasses__()
        what = (rule.__doc__ or "").strip().partition("\n")[0]
        found.update((n, what) for n in getattr(rule, "names", (getattr(rule, "name", ""),)) if n)
    return dict(sorted(found.items()))
