"""Files that a cache keeps: whose they are, and which version of ge wrote them."""

import os
import stat
import sys
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from ge.dialects.support.packages import installed

TEXT_LIMIT = 1 << 30
PYTHON = os.path.dirname(os.__file__) + os.sep  # where its own modules are
INSTALLED = {"site-packages", "dist-packages"}  # folders of distributions


class Unsound(Exception):
    """An entry that does not hold together."""


# What reading a damaged entry raises
WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError)


def is_ours(info: os.stat_result) -> bool:
    """Whether only the user or root can write to what `info` is about."""
    return info.st_uid in (0, os.geteuid()) and not info.st_mode & 0o022


def own_files() -> Iterator[tuple[str, int, int]]:
    """ge's own files, those of targets too: whoever works on the compiler gets no results of an
    older one."""
    from ge import dialects, lowering, runtime, transforms

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
    """The hash of a file's contents, None for what is no file (the name of a preset)."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def imported_files() -> Iterator[str]:
    """The files of the modules of this process that are neither Python's, nor ge's, nor of an
    installed distribution: what a plugin imports from beside it, and editable packages."""
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


def open_ours(path: Path) -> BinaryIO:
    """A regular file of ours. Raises OSError and Unsound, and never waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode) or not is_ours(info):
        os.close(descriptor)
        raise Unsound
    return os.fdopen(descriptor, "rb")


def text_of(path: Path) -> str:
    """The text of a file of ours. Raises as `open_ours` does, and ValueError."""
    with open_ours(path) as file:
        if os.fstat(file.fileno()).st_size > TEXT_LIMIT:
            raise Unsound
        return file.read(TEXT_LIMIT).decode("utf-8")
