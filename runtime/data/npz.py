"""Arrays by name in .npz files: those that users give are read with care, and not beyond what this
machine can hold."""

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from ge.dialects.support.errors import GeError
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array

PREFIX = "in:"  # before the names of inputs, in a file that may have other arrays too

WITHOUT_MEMORY = "--timing-only needs no memory"


def machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def require_memory(size: int, *what: object, hint: str = "") -> None:
    """Raises GeError where `size` bytes are more than this machine has; `what` needs them."""
    if size > machine_bytes():
        amount = f"{size / 2**30:.1f} GiB, more than this machine has"
        raise GeError(f"{' '.join(map(str, what))} needs {amount}", hint=hint)


T = TypeVar("T")


HEADER = 1 << 17  # bytes: more than the header of an array can have

SMALL = 1 << 20  # elements that are read at once: later checks say all that is wrong with them

MAPPED = 64 << 20  # bytes of an array: larger ones are mapped
LOCAL = 26  # bytes of an entry's own header, before the sizes of its name and of what follows

Fits = Callable[[str, Shape], None]
"""Raises GeError for the shape of an array, by name, that would not be taken."""


def read_npz(
    path: str | Path, names: Collection[str], fits: Fits = lambda name, shape: None
) -> dict[str, Array]:
    """The arrays of these names; other entries come without elements, so that errors can name them
    unread. A file of a megabyte may unpack to gigabytes: nothing is read before `fits` has seen
    the shape that each large array declares. Raises GeError if it is no such file, and for an
    array that has other elements than it declares, or more than this machine can hold."""
    shapes = read_shapes(path, names)
    for name, shape in shapes.items():
        if prod(shape) > SMALL:
            fits(name, shape)
    with _opened(path) as archive:
        return {
            name: _of_entry(_array, archive, name, path) if name in shapes else np.empty(0)
            for name in archive.files
        }


def read_shapes(path: str | Path, names: Collection[str]) -> dict[str, Shape]:
    """The shapes of the arrays of these names; raises as `read_npz` does."""
    with _opened(path) as archive:
        return {
            name: _of_entry(_shape, archive, name, path) for name in archive.files if name in names
        }


@contextmanager
def _opened(path: str | Path) -> Generator[Any]:
    if Path(path).exists() and not Path(path).is_file():
        raise GeError(f"'{path}' is no .npz file", hint="np.savez writes it")
    try:
        archive: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise GeError(_reason(e, path), hint="np.savez writes it") from None
    if not hasattr(archive, "files"):
        raise GeError(f"'{path}' holds one array without a name", hint="use np.savez, not np.save")
    with archive:
        yield archive


def _of_entry(read: Callable[[Any, str], T], archive: Any, name: str, path: str | Path) -> T:
    try:
        return read(archive, name)
    except MemoryError:
        raise GeError(f"array '{name}' is too large", str(path)) from None
    except _BROKEN as e:
        raise GeError(f"array '{name}' cannot be read: {_text(e)}", str(path)) from None


def _shape(archive: Any, name: str) -> Shape:
    """The shape in the header of an entry. Raises ValueError if there are not as many bytes."""
    members = [m for m in (f"{name}.npy", name) if m in archive.zip.namelist()]
    with archive.zip.open(members[0]) as member:
        head = BytesIO(_readable(member.read(HEADER)))
    shape, _, dtype = _header(head)
    held = archive.zip.getinfo(members[0]).file_size - head.tell()
    declared = prod(shape) * dtype.itemsize
    if declared != held and not dtype.hasobject:
        raise ValueError(f"{list(shape)} of {dtype} are {declared:,} bytes, and it has {held:,}")
    require_memory(declared, f"array '{name}' of {list(shape)}")
    return shape


def _header(file: BytesIO) -> tuple[Shape, bool, np.dtype[Any]]:
    is_first = np.lib.format.read_magic(file) == (1, 0)
    read = (np.lib.format.read_array_header_2_0, np.lib.format.read_array_header_1_0)[is_first]
    return read(file)


def write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write arrays without np.savez, which takes names as keyword arguments: `file` is its own."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            if array.dtype.isbuiltin != 1:  # numpy does not read float8_e5m2 back
                array = array.view((np.void, array.itemsize))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _array(archive: Any, name: str) -> Array:
    if (mapped := _mapped(archive, f"{name}.npy")) is not None:
        return mapped
    try:
        return np.asarray(archive[name])
    except ValueError:
        data: bytes = archive.zip.read(f"{name}.npy")
        if (readable := _readable(data)) is data:
            raise
        return np.lib.format.read_array(BytesIO(readable), allow_pickle=False)


def _mapped(archive: Any, member: str) -> Array | None:
    """A large array of a file that is not compressed, where it lies in the file: elements are read
    as they are used. None for others."""
    if member not in archive.zip.namelist():
        return None
    info = archive.zip.getinfo(member)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size < MAPPED:
        return None
    with archive.zip.open(info) as entry:
        head = entry.read(HEADER)
    read = BytesIO(head)
    shape, by_columns, dtype = _header(read)
    if dtype.hasobject or _readable(head) is not head:
        return None
    with open(archive.zip.filename, "rb") as file:
        file.seek(info.header_offset + LOCAL)
        name_size, extra_size = struct.unpack("<HH", file.read(4))
    offset = info.header_offset + LOCAL + 4 + name_size + extra_size + read.tell()
    order = "F" if by_columns else "C"
    return np.asarray(np.memmap(archive.zip.filename, dtype, "c", offset, shape, order))


def _readable(data: bytes) -> bytes:
    """Return an entry as numpy reads it: it writes float8_e5m2, reads it as bytes alone."""
    if b"'descr': '<f1'" not in data[:128]:
        return data
    return data.replace(b"'<f1'", b"'|V1'", 1)


# What numpy and zipfile raise for an entry that is damaged.
_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    SyntaxError,
    TypeError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def _reason(error: Exception, path: str | Path) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"cannot open '{path}': {error.strerror}"
    return f"'{path}' is no .npz file"


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
