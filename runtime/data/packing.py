"""Elements of less than a byte: several in a byte in files and in the memory of the device, the
first in the low bits; one in a byte in arrays. Of the last byte, bits that are no element are 0."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ge.dialects.support.element_types import ELEMENT_TYPES
from ge.runtime.data.arrays import Array, dtype_of

Bytes = NDArray[np.uint8]

_BITS = {dtype_of(row.type): row.bits for row in ELEMENT_TYPES if row.is_packed}


def is_packed(dtype: np.dtype[Any]) -> bool:
    return dtype in _BITS


def packed_size(array: Array) -> int:
    """Bytes of an array where its elements are packed."""
    bits = _BITS.get(array.dtype)
    return array.nbytes if bits is None else -(-array.size * bits // 8)


def packed(array: Array) -> Bytes:
    """The elements of each row (along the last axis), several in a byte."""
    bits, (*rows, length) = _BITS[array.dtype], array.shape
    many = 8 // bits
    codes = np.zeros((*rows, -(-length // many) * many), np.uint8)
    codes[..., :length] = np.ascontiguousarray(array).view(np.uint8)
    codes &= (1 << bits) - 1
    codes = codes.reshape(*rows, -1, many)
    codes <<= np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes, axis=-1)


def unpacked(data: Bytes, dtype: np.dtype[Any], length: int) -> Array:
    """The first `length` elements in each row of bytes."""
    bits = _BITS[dtype]
    codes: Bytes = data[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)
    codes &= (1 << bits) - 1
    rows = codes.reshape(*data.shape[:-1], -1)[..., :length]
    return np.ascontiguousarray(rows).view(dtype)
