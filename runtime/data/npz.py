"""Arrays by name in .npz files: those that users give are read with care."""

import zipfile
import zlib
from collections.abc import Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array


def read_npz(path: str | Path, names: Collection[str]) -> dict[str, Array]:
    """The arrays of these names; other entries come without elements, so that errors can name them
    unread. Raises GeError for what is no such file."""
    archive: Any
    if Path(path).exists() and not Path(path).is_file():
        raise GeError(f"'{path}' is no .npz file", hint="np.savez writes it")
    try:
        archive = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise GeError(_reason(e, path), hint="np.savez writes it") from None
    if not hasattr(archive, "files"):
        raise GeError(f"'{path}' holds one array without a name", hint="use np.savez, not np.save")
    arrays: dict[str, Array] = {}
    with archive:
        for name in archive.files:
            if name not in names:
                arrays[name] = np.empty(0)
                continue
            try:
                arrays[name] = _array(archive, name)
            except MemoryError:
                raise GeError(f"array '{name}' is too large", str(path)) from None
            except _BROKEN as e:
                raise GeError(f"array '{name}' cannot be read: {_text(e)}", str(path)) from None
    return arrays


def write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Not by np.savez, which takes names as keyword arguments: `file` is its own."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            if array.dtype.isbuiltin != 1:  # numpy does not read float8_e5m2 back
                array = array.view((np.void, array.itemsize))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _array(archive: Any, name: str) -> Array:
    try:
        return np.asarray(archive[name])
    except ValueError:
        data: bytes = archive.zip.read(f"{name}.npy")
        # what numpy writes for float8_e5m2 but does not read; it reads other floats of 8 bits so
        if b"'descr': '<f1'" not in data[:128]:
            raise
        file = BytesIO(data.replace(b"'<f1'", b"'|V1'", 1))
        return np.lib.format.read_array(file, allow_pickle=False)


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
