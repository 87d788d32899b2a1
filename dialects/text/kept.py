"""Files that a cache keeps: which version of ge wrote them."""

import os
import sys
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path

from ge import dialects, lowering, runtime, transforms
from ge.dialects.support.packages import installed

PYTHON = os.path.dirname(os.__file__) + os.sep  # where its own modules are
INSTALLED = {"site-packages", "dist-packages"}  # folders of distributions


def own_files() -> Iterator[tuple[str, int, int]]:
    """ge's own files, those of targets too: developers of the compiler get no results of an
    older one."""
    for package in (dialects, lowering, runtime, transforms):
        for root in package.__path__:
            yield from _files_below(root)


def package_files() -> list[object]:
    """Name, version and files of the installed packages that take part: one that is worked on has
    the same version as before."""
    return [
        (p.name, p.version, list(_files_below(str(p.folder)) if p.folder else ()))
        for p in installed()
    ]


def hash_of(path: str) -> str | None:
    """The hash of a file's contents; None if the path is no file (the name of a preset)."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def imported_files() -> Iterator[str]:
    """The files of the modules of this process that are neither Python's, nor ge's, nor of an
    installed distribution: modules that a plugin imports from beside it, and editable packages."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in ("ge", "__main__"):
            continue
        if not file.startswith(PYTHON) and not INSTALLED.intersection(Path(file).parts):
            yield os.path.abspath(file)


def _files_below(folder: str) -> Iterator[tuple[str, int, int]]:
    """Sources and tables, sorted by name. (`Path.rglob` takes three times as long.)"""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda e: e.name)
    for entry in entries:
        if entry.is_dir():
            yield from _files_below(entry.path)
        elif entry.name.endswith((".py", ".toml")):
            info = entry.stat()
            yield entry.name, info.st_size, info.st_mtime_ns
