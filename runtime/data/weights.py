"""Weights: arrays by key, from where a module's `#graph.weight<"key">` constants take their values.

A payload is anything with `get(key)`, so a plain dict is one. The module attribute
`graph.payload = "NAME.safetensors"` names the file that stands beside the text.
"""

import json
import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Protocol, cast
from zlib import crc32

import numpy as np
from safetensors import SafetensorError, safe_open  # pyright: ignore[reportUnknownVariableType]
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.sharding import mesh_of, parts_of
from ge.dialects.graph.stated import HASH, PAYLOAD
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import ConstantOp as TaskConstantOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.element_types import ELEMENT_TYPES, is_unsigned, storage_bytes, ui8
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import walk
from ge.dialects.support.types import AnyTensor, tensor
from ge.runtime.data.arrays import (
    Array,
    dtype_of,
    integer_limits,
    is_packed,
    kind_of,
    packed,
    packed_size,
    unpacked,
)

# Before the key of a tensor, the key of its hash in the metadata of a safetensors file.
SHA256 = "sha256 "

CHUNK = 1 << 26  # bytes that are written at a time

# safetensors' names of dtypes. Elements of less than a byte are packed.
_CODES = {dtype_of(row.type): row.safetensors for row in ELEMENT_TYPES}

_DTYPES = {
    row.safetensors: dtype_of(row.type)
    for row in ELEMENT_TYPES
    if row.safetensors != "U8" or row.type == ui8
}


def restored(array: Array, t: Attribute) -> Array:
    """A weight of tensor type `t` as the payload has it, in its own type if the file has no name
    for that."""
    element, shape = data_type(t)
    dtype = dtype_of(element)
    if _CODES[dtype] != "U8" or array.dtype != np.uint8 or dtype == np.uint8:
        return array
    if not is_packed(dtype):
        return array.view(dtype)
    count = math.prod(shape)
    fits = array.shape == (storage_bytes(count, element),)
    return unpacked(array, dtype, count).reshape(shape) if fits else array


class Payload(Protocol):
    """The arrays are read-only."""

    def get(self, key: str, /) -> Array | None: ...


def part_of(payload: Payload, key: str) -> Array | None:
    """A weight of which a part is to be read: of a file that is mapped nothing is read yet."""
    if isinstance(payload, Fallback):
        found = part_of(payload.first, key)
        return part_of(payload.second, key) if found is None else found
    if isinstance(payload, SafetensorsPayload):
        return payload.mapped(key) if key in payload else None
    return payload.get(key)


def weights_at_hand(payload: Payload | None) -> AbstractContextManager[Payload | None]:
    """Let passes see these weights."""
    return having(payload, Payload)


def payload_at_hand() -> Payload | None:
    return at_hand(Payload)


class SafetensorsPayload(Mapping[str, Array]):
    """The tensors of a safetensors file, memory-mapped: a tensor that is not used is not read.

    `header_hash` is what a program says of the header, which has the hash of each tensor: the
    header is compared at once, a tensor at its first use; "" compares nothing. Raises GeError for
    what cannot be read, and for other weights."""

    def __init__(self, path: str | Path, header_hash: str = "") -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise GeError("cannot read the weights: it is no regular file", where=str(path))
        try:
            # the library checks the header and that the tensors fill the file; its own arrays
            # would be copies, so the mapping is ours
            with safe_open(self.path, framework="numpy"):
                pass
            with open(self.path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (SafetensorError, OSError, ValueError) as e:
            raise GeError(f"cannot read the weights: {e}", where=str(path)) from e
        size = int.from_bytes(self._bytes[:8], "little")
        header = self._bytes[8 : 8 + size]
        if header_hash and sha256(header).hexdigest() != header_hash:
            hint = f"compile anew, or remove {HASH} from the text to take these"
            raise GeError("these weights are not the program's", str(path), hint)
        self._header: dict[str, dict[str, Any]] = json.loads(header)
        hashes = self._header.pop("__metadata__", {})
        self._unchecked = {k.removeprefix(SHA256): h for k, h in hashes.items() if header_hash}
        self._start = 8 + size

    def __getitem__(self, key: str) -> Array:
        array = self.mapped(key)
        expected = self._unchecked.pop(key, None)
        if expected and sha256(array.reshape(-1).view(np.uint8).data).hexdigest() != expected:
            raise GeError(f"weight '{key}' is not what the program was made with", str(self.path))
        return array

    def mapped(self, key: str) -> Array:
        """The array, of which nothing is read yet: its hash is not compared."""
        entry = self._header[key]
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise GeError(f"weight '{key}' has dtype {entry['dtype']}", where=str(self.path))
        shape = cast(list[int], entry["shape"])
        offset = self._start + cast(int, entry["data_offsets"][0])
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.frombuffer(self._bytes, dtype, math.prod(shape), offset).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)


def write_safetensors(
    file: BinaryIO,
    tensors: Mapping[str, Array],
    progress: Callable[[int, int], object] = lambda written, total: None,
) -> str:
    """Write tensors chunk by chunk, so that memory-mapped ones are never in memory as a whole, as
    with the library's writer. The header has their hashes and is written again at the end.
    `progress` gets the bytes written and their total. Returns the hash of the header."""
    # wide elements first, so that each tensor is aligned to its element
    order = sorted(tensors, key=lambda k: (-tensors[k].itemsize, k))
    header: dict[str, Any] = {}
    offset = 0
    for key in order:
        array = tensors[key]
        size = packed_size(array)
        end = offset + size
        header[key] = {
            "dtype": _CODES[array.dtype],
            "shape": [size] if is_packed(array.dtype) else list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    hashes = {f"{SHA256}{key}": sha256().hexdigest() for key in order}

    def header_text() -> bytes:
        whole = {"__metadata__": hashes, **header}
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        return text + b" " * (-len(text) % 8)

    from concurrent.futures import ThreadPoolExecutor  # with logging, for those who write weights

    file.write(len(header_text()).to_bytes(8, "little") + header_text())
    written = 0
    with ThreadPoolExecutor(1) as hasher:
        for key in order:
            array = tensors[key]
            array = packed(array.reshape(-1)) if is_packed(array.dtype) else array
            flat, digest = np.ascontiguousarray(array).reshape(-1).view(np.uint8), sha256()
            for start in range(0, flat.size, CHUNK):
                chunk = flat[start : start + CHUNK].data
                hashed = hasher.submit(digest.update, chunk)
                written += file.write(chunk)
                hashed.result()
                progress(written, offset)
            hashes[f"{SHA256}{key}"] = digest.hexdigest()
    file.seek(8)
    file.write(header_text())
    return sha256(header_text()).hexdigest()


class RandomPayload:
    """Seeded random weights, for a model whose weights are not there.

    Matrices and filters are normal with standard deviation 1/sqrt(fan-in), so that activations keep
    their size through many layers; vectors are uniform in [0.5, 1.5), integers other than 8-bit
    ones zero (an index that is valid everywhere). A weight depends on its key and the seed
    alone."""

    def __init__(self, module: ModuleOp, seed: int = 0) -> None:
        self.seed = seed
        self.types = weights_of(module)
        self._made: dict[str, Array] = {}

    def get(self, key: str, /) -> Array | None:
        if key not in self._made and key in self.types:
            self._made[key] = np.asarray(self._make(key, self.types[key]))  # also of rank 0
        return self._made.get(key)

    def _make(self, key: str, t: AnyTensor) -> Array:
        rng = np.random.default_rng((self.seed, crc32(key.encode())))
        shape, dtype = t.get_shape(), dtype_of(t.element_type)
        if (kind := kind_of(dtype)) in "iu":
            if dtype.itemsize > 1:
                return np.zeros(shape, dtype)
            limits, byte = integer_limits(dtype), np.int8 if kind == "i" else np.uint8
            values = rng.integers(limits.min, limits.max, shape, byte, endpoint=True)
            return values.astype(dtype, copy=False)
        if kind == "b":
            return np.ones(shape, dtype)
        if len(shape) < 2:
            return (rng.random(shape, np.float32) + np.float32(0.5)).astype(dtype, copy=False)
        # a filter is [out, in, ...]; of a matrix either side may be the input
        fan_in = math.prod(shape[1:]) if len(shape) > 2 else max(shape)
        normal = rng.standard_normal(shape, np.float32)
        normal *= np.float32(1 / math.sqrt(max(fan_in, 1)))
        if is_unsigned(t.element_type):
            np.abs(normal, out=normal)
        return normal.astype(dtype, copy=False)


def weights_of(module: ModuleOp) -> dict[str, AnyTensor]:
    """The keys of weights that a module of any level refers to, with their types."""
    types: dict[str, AnyTensor] = {}
    for op in walk(module):
        if isinstance(op, ConstantOp | TaskConstantOp) and isinstance(op.value, WeightAttr):
            element, shape = data_type(op.result.type)
            types[op.value.data] = tensor(shape, element)
    for stage in module.ops:
        if isinstance(stage, ModuleOp):
            types |= whole_weights(stage, types)
    return types | whole_weights(module, types)


def whole_weights(module: ModuleOp, types: Mapping[str, AnyTensor]) -> dict[str, AnyTensor]:
    """The weights of which the module of one device has parts, at the sizes that all parts have."""
    mesh, whole = mesh_of(module), dict[str, AnyTensor]()
    for key, part in parts_of(module).items() if mesh is not None else ():
        if mesh is not None and key in types:
            sizes = zip(types[key].get_shape(), part.sharding.dims, strict=True)
            shape = [size * mesh.parts(axes) for size, axes in sizes]
            if part.spans:  # as far as its parts reach
                least = whole[part.of].get_shape() if part.of in whole else (0,) * len(shape)
                shape = [max(n, sum(s)) for n, s in zip(least, part.spans, strict=True)]
            whole[part.of] = tensor(shape, types[key].element_type)
    return whole


def payload_path(module: ModuleOp, folder: str | Path) -> Path | None:
    """The payload file in `folder` that a module names, None if it names none. Raises GeError for a
    name that is not one of a file in that folder."""
    attr = module.attributes.get(PAYLOAD)
    if attr is None:
        return None
    name = attr.data if isinstance(attr, StringAttr) else ""
    if not name or name in (".", "..") or PurePath(name).name != name or "\0" in name:
        raise GeError(
            f"{PAYLOAD} = {attr} does not name a file in the folder of the module",
            hint="put the weights beside the text and give their file name alone",
        )
    return Path(folder) / name


def open_payload(module: ModuleOp, folder: str | Path) -> Payload:
    """The payload that a module names; an empty one if there is none: a model compiles and is timed
    without its weights."""
    path = payload_path(module, folder)
    if path is None or not path.exists():
        return cast(dict[str, Array], {})
    header_hash = module.attributes.get(HASH, StringAttr(""))
    if not isinstance(header_hash, StringAttr):
        raise GeError(f"{HASH} = {header_hash} is no text", hint="remove it, or compile anew")
    return SafetensorsPayload(path, header_hash.data)


def files_of(payload: Payload) -> list[Path]:
    """The files that a payload reads."""
    if isinstance(payload, Fallback):
        return files_of(payload.first)
    if isinstance(payload, SafetensorsPayload):
        return [payload.path]
    return payload.files if isinstance(payload, ImportedWeights) else []


class ImportedWeights(dict[str, Array]):
    """Weights of a model, and the files beside it that they come from."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[Path] = []


class Fallback:
    """Weights of one payload, or of another where the first has none."""

    def __init__(self, first: Payload, second: Payload) -> None:
        self.first, self.second = first, second

    def get(self, key: str, /) -> Array | None:
        array = self.first.get(key)
        return self.second.get(key) if array is None else array
