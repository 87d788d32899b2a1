"""Files that ge keeps for itself: whose they are, and how they are read and written."""

import json
import os
import stat
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

TEXT_LIMIT = 1 << 30


class Unsound(Exception):
    """An entry that does not hold together."""


# What reading a damaged entry raises
WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError)


def is_ours(info: os.stat_result) -> bool:
    """Whether only the user or root can write to what `info` is about."""
    return info.st_uid in (0, os.geteuid()) and not info.st_mode & 0o022


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


def read_entry(path: Path) -> Any:
    """What a file of ours holds: JSON, behind a line with the hash of it and the file's name.
    Raises FileNotFoundError, and Unsound or one of `WRONG` for a file that does not hold together,
    or is another one's under this name."""
    digest, _, rest = text_of(path).partition("\n")
    if digest != digest_of(path, rest):
        raise Unsound
    return json.loads(rest)


def digest_of(path: Path, rest: str) -> str:
    return sha256(f"{path.name}\n{rest}".encode()).hexdigest()


def write_entry(path: Path, held: Any) -> None:
    """Have a file hold what is JSON. It appears whole (it is written beside and renamed), so any
    number of processes may share its folder, which is made. Raises OSError."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if not is_ours(path.parent.stat()):
        raise PermissionError("others may write to it")
    rest = json.dumps(held)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(f"{digest_of(path, rest)}\n{rest}")
    os.replace(file.name, path)


def read_lines(path: Path, start: int) -> tuple[list[Any], int]:
    """What the lines of a file of ours hold from a place on, each JSON behind its hash, and where
    they end. Those that do not hold together are left out. Raises as `open_ours` does."""
    with open_ours(path) as file:
        if os.fstat(file.fileno()).st_size > TEXT_LIMIT:
            raise Unsound
        file.seek(start)
        whole = file.read(TEXT_LIMIT).rpartition(b"\n")[0]
    found: list[Any] = []
    for line in whole.splitlines():
        digest, _, rest = line.partition(b" ")
        if digest.decode("ascii", "replace") == sha256(rest).hexdigest():
            found.append(json.loads(rest))
    return found, start + len(whole) + bool(whole)


def add_line(path: Path, held: Any) -> tuple[int, int]:
    """Add a line to a file of ours, which any number of processes may do at once: where it begins
    and ends. A file that others may write to goes. Raises OSError."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if not is_ours(path.parent.stat()):
        raise PermissionError("others may write to it")
    with suppress(FileNotFoundError):
        info = path.lstat()
        if not stat.S_ISREG(info.st_mode) or not is_ours(info):
            path.unlink()
    rest = json.dumps(held).encode()
    line = sha256(rest).hexdigest().encode() + b" " + rest + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        file.write(line)
        end = file.tell()
    return end - len(line), end
