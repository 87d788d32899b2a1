"""Output files appear complete or not at all: written beside, then renamed, all together."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TextIO

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ge.dialects.support.errors import GeError
from ge.dialects.text.look import Look
from ge.dialects.text.printing import text_printer

if TYPE_CHECKING:
    from ge.runtime.data.arrays import Array
    from ge.runtime.data.weights import Payload


@dataclass
class _Staged:
    path: Path
    target: Path
    descriptor: int = -1  # of a file that has no name yet; whoever is killed leaves none behind

    def place(self) -> None:
        if self.descriptor >= 0:
            os.fchmod(self.descriptor, _mode(self.target))
            name = self.target.with_name(f".ge-{os.urandom(8).hex()}")
            folder = os.open(self.target.parent, os.O_RDONLY)
            try:  # with a descriptor of a folder, for only then the link is followed to the file
                os.link(self.path, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
            self.path = name
        else:
            os.chmod(self.path, _mode(self.target))
        try:
            os.replace(self.path, self.target)
        except OSError:
            self.path.unlink(missing_ok=True)
            raise

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        else:
            self.path.unlink(missing_ok=True)


class Outputs:
    """The files that one run writes. Leaving the `with` block without an exception puts all of
    them in place; with an exception, none, and what was there before is untouched. None of them
    takes the place of one of `inputs`, the files that the run reads.

    Raises GeError for a file that cannot be written."""

    def __init__(self, inputs: Iterable[Path | str] = ()) -> None:
        self._inputs = tuple(inputs)
        self._staged: list[_Staged] = []

    def stage(self, path: Path | str) -> Path:
        if not str(path) or str(path).endswith("/"):
            raise GeError(f"cannot write '{path}': it is no name of a file")
        path = Path(path)
        if is_device(path):
            if path.is_dir():
                raise GeError(f"cannot write '{path}': it is a folder")
            return path
        target = path.resolve()  # a link stays a link
        if any(target == other.target for other in self._staged):
            raise GeError(f"two outputs go to '{path}'", hint="give each a name of its own")
        if any(same_file(target, other) for other in self._inputs):
            raise GeError(f"cannot write '{path}': it is an input", hint="give another name")
        try:
            self._staged.append(_unnamed(target) or _named(target))
        except OSError as e:
            raise _cannot_write(path, e) from None
        return self._staged[-1].path

    def bytes(self, path: Path | str, data: bytes) -> None:
        try:
            self.stage(path).write_bytes(data)
        except OSError as e:
            raise _cannot_write(path, e) from None

    def text(self, path: Path | str, text: str | Callable[[TextIO], object]) -> None:
        try:
            with open(self.stage(path), "w", encoding="utf-8") as file:
                if isinstance(text, str):
                    file.write(text)
                else:
                    text(file)
        except OSError as e:
            raise _cannot_write(path, e) from None

    def binary(self, path: Path | str, write: Callable[[BinaryIO], object]) -> None:
        try:
            with open(self.stage(path), "wb") as file:
                write(file)
        except OSError as e:
            raise _cannot_write(path, e) from None

    def npz(self, path: Path | str, arrays: Mapping[str, "Array"]) -> None:
        from ge.runtime.data.npz import write_npz

        self.binary(path, lambda file: write_npz(file, arrays))

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
                self._staged[0].place()
                self._staged.pop(0).close()
        except OSError as e:
            raise _cannot_write(self._staged[0].target, e) from None
        finally:
            for staged in self._staged:
                staged.close()


def _unnamed(target: Path) -> _Staged | None:
    """A file without a name on the file system of `target`, None where there is no such thing."""
    flags = getattr(os, "O_TMPFILE", None)
    if flags is None:
        return None
    try:
        descriptor = os.open(target.parent, flags | os.O_RDWR, 0o600)
    except OSError:
        return None
    path = Path(f"/proc/self/fd/{descriptor}")
    if path.exists():
        return _Staged(path, target, descriptor)
    os.close(descriptor)
    return None


def _named(target: Path) -> _Staged:
    handle, name = tempfile.mkstemp(prefix=".ge-", dir=target.parent)
    os.close(handle)
    return _Staged(Path(name), target)


def same_file(one: Path | str, other: Path | str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_device(path: Path) -> bool:
    """True if a path is written to directly, with nothing beside it and nothing to rename: a pipe,
    a device, /dev/stdout even where that is a file."""
    in_dev = path.parts[:2] == ("/", "dev") and path.parts[2:3] != ("shm",)
    return in_dev or (path.exists() and not path.is_file())


def weights_path(path: Path | str) -> Path:
    """The path for the weights of a module that is written to `path`: beside the file, not beside a
    link to it."""
    path = Path(path)
    path = path.resolve() if path.is_symlink() else path
    return path.with_name(path.name.removesuffix(".mlir") + ".safetensors")


def check_writable(paths: Iterable[str], inputs: Iterable[str]) -> None:
    """Raise GeError for a file that cannot be written, before work is done for it."""
    try:
        with Outputs(inputs) as out:
            for path in paths:
                out.stage(path)
            raise InterruptedError  # nothing is to be put in place yet
    except InterruptedError:
        pass


def write_text(path: Path | str, text: str, inputs: Iterable[Path | str] = ()) -> None:
    """Replace a file's contents in one step. Raises GeError, and then the old file is intact."""
    with Outputs(inputs) as out:
        out.text(path, text)


def write_module(
    out: Outputs,
    path: Path | str,
    module: ModuleOp,
    payload: "Payload",
    look: Look | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> None:
    """Write a module, and beside it the weights that it refers to as NAME.safetensors. Standard
    output ("-") and devices have no place for weights beside them: they are left out."""
    from ge.dialects.graph.stated import HASH, PAYLOAD
    from ge.runtime.data.weights import weights_of, write_safetensors

    path = Path(path)
    before = {key: module.attributes.pop(key, None) for key in (PAYLOAD, HASH)}
    if str(path) != "-" and not is_device(path):
        keys = weights_of(module)
        weights = {k: array for k in keys if (array := payload.get(k)) is not None}
        if weights:
            file = weights_path(path)

            def report(done: int, total: int) -> None:
                if progress is not None:
                    progress("writing weights", done, total)

            def write_weights(f: BinaryIO) -> None:
                module.attributes[PAYLOAD] = StringAttr(_utf8(file.name))
                module.attributes[HASH] = StringAttr(write_safetensors(f, weights, report))

            out.binary(file, write_weights)

    def write(file: TextIO) -> None:
        text_printer(file, look or Look()).print_whole(module)
        file.write("\n")

    if str(path) == "-":
        write(sys.stdout)
    else:
        out.text(path, write)
    for key, value in before.items():  # the module in memory has the weights that it had
        module.attributes.pop(key, None)
        if value is not None:
            module.attributes[key] = value


def _utf8(name: str) -> str:
    """A name that a text can hold. Raises GeError for another one."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise GeError(f"the name {name!r} is not UTF-8", hint="choose another one") from None
    return name


def _cannot_write(path: Path | str, error: OSError) -> GeError:
    return GeError(f"cannot write '{path}': {error.strerror or error}")


def _mode(target: Path) -> int:
    """The permissions that a file has, or that a new one would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
