"""The environment, read here and nowhere else: the variables that begin with `GE_`, those that ask
for profiles, what a terminal shows; and the user's caches, whose files ge keeps for itself."""

import json
import os
import stat
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from ge.dialects.support.errors import GeError

PREFIX = "GE_"


def variables() -> dict[str, str]:
    """An empty variable counts as not set."""
    return {name: text for name, text in os.environ.items() if name.startswith(PREFIX) and text}


def cache_folder() -> str:
    """The user's folder for files that may be lost."""
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def truth(text: str) -> bool:
    """Parse a truth value. Raises ValueError that names what is expected."""
    try:
        return {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}[
            text.lower()
        ]
    except KeyError:
        raise ValueError("0 or 1") from None


def switch(name: str) -> bool:
    """Raises GeError for a variable that is no truth value."""
    try:
        return truth(os.environ.get(name) or "0")
    except ValueError as e:
        raise GeError(f"{name} is {e}, not '{os.environ[name]}'") from None


def debugging() -> bool:
    """True if tracebacks are wanted. The command line reports a value that cannot be read."""
    try:
        return switch("GE_DEBUG")
    except GeError:
        return False


def may_colour() -> bool:
    """True if a terminal may get colours. NO_COLOR counts if it is not empty
    (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def packages_off() -> tuple[str, ...]:
    """The installed packages that take no part (`GE_PACKAGES_OFF`), by name; `all` is all."""
    text = os.environ.get("GE_PACKAGES_OFF") or ""
    return tuple(name for part in text.split(",") if (name := part.strip()))


RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def own_rank() -> str | None:
    """The number of this process, if an `mpiexec` started it as one of several."""
    return next((os.environ[name] for name in RANKS if name in os.environ), None)


def has_ranks() -> bool:
    return own_rank() is not None


def is_first_rank() -> bool:
    """True but for all processes but the first of those that an `mpiexec` started: what is the same
    in all is told once."""
    return own_rank() in (None, "0")


def ranks_here() -> int:
    """Return how many ranks there are, where `mpiexec` has all on this machine; else 0."""
    here, size = (os.environ.get(name, "") for name in ("MPI_LOCALNRANKS", "PMI_SIZE"))
    return int(size) if size.isdigit() and size == here else 0


PROFILING = "ASCEND_PROFILING_ENABLE"


def profiling() -> str | None:
    """The profiles asked for, from `ASCEND_PROFILING_OPTIONS`; None if `ASCEND_PROFILING_ENABLE`
    does not ask for any. Raises GeError if the latter is no truth value."""
    return os.environ.get("ASCEND_PROFILING_OPTIONS", "") if switch(PROFILING) else None


TEXT_LIMIT = 1 << 30


class Unsound(Exception):
    """An entry that does not hold together."""


# What reading a damaged entry raises
WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError)


def is_ours(info: os.stat_result) -> bool:
    """True if only the user or root can write to the file that `info` describes."""
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
    """Contents of a file of ours: JSON, behind a line with the hash of it and the file's name.
    Raises FileNotFoundError, and Unsound or one of `WRONG` for a file that is damaged, or is
    another one's under this name."""
    digest, _, rest = text_of(path).partition("\n")
    if digest != digest_of(path, rest):
        raise Unsound
    return json.loads(rest)


def digest_of(path: Path, rest: str) -> str:
    return sha256(f"{path.name}\n{rest}".encode()).hexdigest()


def write_entry(path: Path, held: Any) -> None:
    """Write a value as JSON to a file. The file appears whole (it is written beside and renamed),
    so any number of processes may share its folder, which is made. Raises OSError."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if not is_ours(path.parent.stat()):
        raise PermissionError("others may write to it")
    rest = json.dumps(held)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(f"{digest_of(path, rest)}\n{rest}")
    os.replace(file.name, path)


def read_lines(path: Path, start: int) -> tuple[list[Any], int]:
    """Read the lines of a file of ours from a position on, each JSON behind its hash. Returns their
    values and the position of their end. Damaged lines are left out. Raises as `open_ours` does."""
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
