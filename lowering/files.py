"""Output files appear complete or not at all: written beside, then renamed, all together."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from ge.dialects.errors import GeError


class Outputs:
    """The files that one run writes. Leaving the `with` block without an exception puts all of
    them in place; with an exception, none, and what was there before is untouched.

    Raises GeError for a file that cannot be written."""

    def __init__(self) -> None:
        self._staged: list[tuple[Path, Path]] = []

    def stage(self, path: Path | str) -> Path:
        """The file to write instead of `path`, in the same folder."""
        path = Path(path)
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe: nothing to rename
            if path.is_dir():
                raise GeError(f"cannot write '{path}': it is a folder")
            return path
        target = path.resolve()  # a link stays a link
        try:
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        except OSError as e:
            raise _cannot_write(path, e) from None
        os.close(handle)
        self._staged.append((Path(name), target))
        return Path(name)

    def bytes(self, path: Path | str, data: bytes) -> None:
        try:
            self.stage(path).write_bytes(data)
        except OSError as e:
            raise _cannot_write(path, e) from None

    def text(self, path: Path | str, text: str | Callable[[TextIO], object]) -> None:
        """Write a text, or what a function writes to the open file."""
        try:
            with open(self.stage(path), "w", encoding="utf-8") as file:
                if isinstance(text, str):
                    file.write(text)
                else:
                    text(file)
        except OSError as e:
            raise _cannot_write(path, e) from None

    def json(self, path: Path | str, value: Any) -> None:
        self.text(path, json.dumps(value, indent=2) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            while self._staged and error is None:
                staged, target = self._staged[0]
                os.chmod(staged, _mode(target))
                os.replace(staged, target)
                self._staged.pop(0)
        except OSError as e:
            raise _cannot_write(self._staged[0][1], e) from None
        finally:
            for staged, _ in self._staged:
                staged.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Replace a file's contents in one step. Raises GeError, and then the old file is intact."""
    with Outputs() as out:
        out.text(path, text)


def _cannot_write(path: Path | str, error: OSError) -> GeError:
    return GeError(f"cannot write '{path}': {error.strerror or error}")


def _mode(target: Path) -> int:
    """The permissions that a file has, or that a new one would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
