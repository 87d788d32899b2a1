"""Output files appear complete or not at all: written beside, then renamed, all together."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TextIO
from zipfile import ZipFile

from ge.dialects.support.errors import GeError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.runtime.data.arrays import Array
    from ge.runtime.data.weights import Payload


class Outputs:
    """The files that one run writes. Leaving the `with` block without an exception puts all of
    them in place; with an exception, none, and what was there before is untouched.

    Raises GeError for a file that cannot be written."""

    def __init__(self) -> None:
        self._staged: list[tuple[Path, Path]] = []

    def stage(self, path: Path | str) -> Path:
        """The file to write instead of `path`, in the same folder."""
        path = Path(path)
        if is_device(path):
            if path.is_dir():
                raise GeError(f"cannot write '{path}': it is a folder")
            return path
        target = path.resolve()  # a link stays a link
        if any(target == other for _, other in self._staged):
            raise GeError(f"two outputs go to '{path}'", hint="give each a name of its own")
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

    def binary(self, path: Path | str, write: Callable[[BinaryIO], object]) -> None:
        """Write what a function writes to the open file."""
        try:
            with open(self.stage(path), "wb") as file:
                write(file)
        except OSError as e:
            raise _cannot_write(path, e) from None

    def link(self, path: Path | str, source: Path) -> None:
        """Make a file with the contents of `source`, without a copy where that can be."""
        try:
            link_or_copy(source, self.stage(path))
        except OSError as e:
            raise _cannot_write(path, e) from None

    def npz(self, path: Path | str, arrays: Mapping[str, "Array"]) -> None:
        """Write arrays by name."""
        import numpy as np

        def write(file: BinaryIO) -> None:
            # not np.savez: it takes names as keyword arguments, of which `file` is its own
            with ZipFile(file, "w", allowZip64=True) as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)

        self.binary(path, write)

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
                staged.unlink(missing_ok=True)  # it stays if both were links to the same file
                self._staged.pop(0)
        except OSError as e:
            raise _cannot_write(self._staged[0][1], e) from None
        finally:
            for staged, _ in self._staged:
                staged.unlink(missing_ok=True)


def is_device(path: Path) -> bool:
    """Whether a path is written to directly, with nothing beside it and nothing to rename: a
    pipe, a device, /dev/stdout even where that is a file."""
    return path.parts[:2] == ("/", "dev") or (path.exists() and not path.is_file())


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target`, which may exist, the same file as `source`; a copy of it (with its time)
    where the file system has no links. Raises OSError."""
    if is_device(target):
        shutil.copyfile(source, target)
        return
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def write_text(path: Path | str, text: str) -> None:
    """Replace a file's contents in one step. Raises GeError, and then the old file is intact."""
    with Outputs() as out:
        out.text(path, text)


def write_module(
    out: Outputs,
    path: Path | str,
    module: "ModuleOp",
    payload: "Payload",
    locations: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
) -> None:
    """Write a module, and beside it the weights that it refers to as NAME.safetensors. Standard
    output ("-") and devices have no place for weights beside them: they are left out."""
    from xdsl.dialects.builtin import StringAttr
    from xdsl.printer import Printer

    from ge.runtime.data.weights import PAYLOAD, weights_of, write_safetensors

    path = Path(path)
    before = module.attributes.pop(PAYLOAD, None)
    if str(path) != "-" and not is_device(path):
        keys = weights_of(module)
        weights = {k: array for k in keys if (array := payload.get(k)) is not None}
        if weights:
            file = path.with_suffix(".safetensors")

            def report(done: int, total: int) -> None:
                if progress is not None:
                    progress("writing weights", done, total)

            out.binary(file, lambda f: write_safetensors(f, weights, report))
            module.attributes[PAYLOAD] = StringAttr(file.name)

    def write(file: TextIO) -> None:
        Printer(file, print_debuginfo=locations).print_op(module)
        file.write("\n")

    if str(path) == "-":
        write(sys.stdout)
    else:
        out.text(path, write)
    module.attributes.pop(PAYLOAD, None)
    if before is not None:  # the module in memory has the weights that it had
        module.attributes[PAYLOAD] = before


def _cannot_write(path: Path | str, error: OSError) -> GeError:
    return GeError(f"cannot write '{path}': {error.strerror or error}")


def _mode(target: Path) -> int:
    """The permissions that a file has, or that a new one would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
