"""Between xDSL attributes, tensors of PyTorch and numpy arrays: element types, dense constants,
packing.

Elements of less than a byte: several in a byte in files and in the memory of the device, the
first in the low bits; one in a byte in arrays. Of the last byte, bits that are no element are 0.

PyTorch is not imported here: a caller with a tensor has imported it."""

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, bf16
from xdsl.ir import Attribute

from ge.dialects.support.element_types import ELEMENT_TYPES, ElementType, i2, i4
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import AnyTensor, Dense, tensor

Array = NDArray[Any]

SHORT = 1024  # bytes of constants of which equal ones are one attribute


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


_DTYPES = {row.type: _dtype(row.numpy) for row in ELEMENT_TYPES}

_ROWS = {_dtype(row.numpy): row for row in ELEMENT_TYPES}

# whose bytes in xDSL's constants are those of the same number in i8, unlike ml_dtypes'
_SIGN_EXTENDED = {_DTYPES[i2], _DTYPES[i4]}

BFLOAT16 = _DTYPES[bf16]

# Floats of at most 16 bits: they are computed in float32 and rounded once.
NARROW_FLOATS = frozenset(
    _DTYPES[row.type] for row in ELEMENT_TYPES if row.is_float and row.bits <= 16
)


def kind_of(dtype: np.dtype[Any]) -> str:
    """b, i, u or f as numpy's `dtype.kind`, which is V for all types of ml_dtypes."""
    if dtype.kind != "V" or (row := _ROWS.get(dtype)) is None:
        return dtype.kind
    return "f" if row.is_float else "i" if row.is_signed else "u"


def compute_dtype(x: Array) -> np.dtype[Any]:
    """The type in which an array is computed with."""
    return np.dtype(np.float32) if x.dtype in NARROW_FLOATS else x.dtype


def widen(x: Array) -> Array:
    return x.astype(compute_dtype(x), copy=False)


def rounded(x: Array, dtype: np.dtype[Any], out: Array | None = None) -> Array:
    """x converted to `dtype`, in `out`, which may be x, if given."""
    if out is None:
        return x.astype(dtype, copy=False)
    if out is not x:
        out[...] = x
    return out


def float_limits(dtype: np.dtype[Any]) -> Any:
    return cast(Any, ml_dtypes).finfo(dtype)


def integer_limits(dtype: np.dtype[Any]) -> Any:
    return cast(Any, ml_dtypes).iinfo(dtype)


def contiguous(x: Array) -> Array:
    return x if x.flags.c_contiguous else x.copy()


def native(value: Any, dtype: np.dtype[Any]) -> Array:
    """A contiguous array of a value in this machine's byte order; of `dtype` what numpy.load makes
    of the types of ml_dtypes."""
    array = np.asarray(value, order="C")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if dtype.isbuiltin != 1 and array.dtype == np.dtype((np.void, dtype.itemsize)):
        array = array.view(dtype)
    return array


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """Raises GeError for a type ge does not compute with."""
    try:
        return _DTYPES[element]
    except KeyError:
        raise GeError(f"element type {element} cannot be computed with") from None


def row_of_dtype(dtype: np.dtype[Any]) -> ElementType:
    """Raises GeError for a dtype that ge does not have."""
    try:
        return _ROWS[dtype]
    except KeyError:
        known = ", ".join(row.numpy for row in ELEMENT_TYPES)
        raise GeError(f"dtype {dtype.name} is not supported", hint=f"use one of {known}") from None


def element_of(dtype: np.dtype[Any]) -> Attribute:
    return row_of_dtype(dtype).type


def type_of(array: Array) -> AnyTensor:
    return tensor(array.shape, element_of(array.dtype))


def dense(array: Array) -> Dense:
    """The array as an attribute; a splat when all elements have the same bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size > 1:
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        if (raw == raw[0]).all():
            flat = flat[:1]
    if flat.dtype in _SIGN_EXTENDED:
        flat = flat.astype(np.int8)
    make = _dense if flat.nbytes <= SHORT else _dense.__wrapped__
    return make(type_of(array), flat.tobytes())


@lru_cache(maxsize=4096)
def _dense(t: AnyTensor, data: bytes) -> Dense:
    """The attribute of these elements; equal ones, as far as they are kept, are one attribute."""
    return DenseIntOrFPElementsAttr(cast(Any, t), BytesAttr(data))


def array_of(attr: Dense) -> Array:
    """The elements of a dense constant, read-only."""
    t = cast(AnyTensor, attr.type)
    dtype = dtype_of(t.element_type)
    if dtype.kind == "b":  # true is any byte but 0: xDSL's parser writes 0xff
        flat = np.frombuffer(attr.data.data, np.uint8) != 0
    elif dtype in _SIGN_EXTENDED:
        flat = np.frombuffer(attr.data.data, np.int8).astype(dtype)
    else:
        flat = np.frombuffer(attr.data.data, dtype)
    shape: Sequence[int] = t.get_shape()
    return np.broadcast_to(flat.reshape(()), shape) if flat.size == 1 else flat.reshape(shape)


def statistics(array: Array) -> dict[str, Any]:
    """Figures of an array for reports: dtype, shape, smallest, largest and mean finite element,
    and how many are nan or infinite, if any."""
    figures: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if (kind := kind_of(array.dtype)) in "biu":
        values = array if array.dtype.isbuiltin == 1 else array.astype(np.int64)
    else:
        values = array.astype(np.float64)
        if strange := int(values.size - np.isfinite(values).sum()):
            figures["not_finite"] = strange
            values = values[np.isfinite(values)]
    if values.size:
        number: Any = int if kind in "biu" else float
        figures |= {"min": number(values.min()), "max": number(values.max())}
        figures["mean"] = float(values.mean())
    return figures


Bytes = NDArray[np.uint8]

_BITS = {dtype_of(known.type): known.bits for known in ELEMENT_TYPES if known.is_packed}


def is_packed(dtype: np.dtype[Any]) -> bool:
    return dtype in _BITS


def packed_size(array: Array) -> int:
    """Bytes of an array where its elements are packed."""
    bits = _BITS.get(array.dtype)
    return array.nbytes if bits is None else -(-array.size * bits // 8)


def packed(array: Array) -> Bytes:
    """The elements of each known (along the last axis), several in a byte."""
    bits, (*rows, length) = _BITS[array.dtype], array.shape
    many = 8 // bits
    codes = np.zeros((*rows, -(-length // many) * many), np.uint8)
    codes[..., :length] = np.ascontiguousarray(array).view(np.uint8)
    codes &= (1 << bits) - 1
    codes = codes.reshape(*rows, -1, many)
    codes <<= np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes, axis=-1)


def unpacked(data: Bytes, dtype: np.dtype[Any], length: int) -> Array:
    """The first `length` elements in each known of bytes."""
    bits = _BITS[dtype]
    codes: Bytes = data[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)
    codes &= (1 << bits) - 1
    rows = codes.reshape(*data.shape[:-1], -1)[..., :length]
    return np.ascontiguousarray(rows).view(dtype)


# What has the bits of element types that numpy has not, by their bytes: PyTorch's name and numpy's
CARRIERS: dict[int, tuple[str, Any]] = {1: ("uint8", np.uint8), 2: ("uint16", np.uint16)}


def is_tensor(value: object) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_on(tensor: Any) -> Array:
    """The elements of a dense tensor in the memory of this machine, of the same strides. Raises
    TypeError for element types that no array has."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:
        name = str(tensor.dtype).removeprefix("torch.")
        dtype = getattr(ml_dtypes, name, None)
        if dtype is None or tensor.element_size() not in CARRIERS:
            raise TypeError(f"no array has elements of type {name}") from None
    carrier = getattr(sys.modules["torch"], CARRIERS[tensor.element_size()][0])
    return tensor.view(carrier).numpy().view(dtype)
