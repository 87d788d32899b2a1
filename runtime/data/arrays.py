"""Between xDSL attributes and numpy arrays: element types, dense constants."""

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr
from xdsl.ir import Attribute

from ge.dialects.support.errors import GeError
from ge.dialects.support.types import ELEMENT_TYPES, NUMPY_NAMES, AnyTensor, Dense, tensor

Array = NDArray[Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_DTYPES: dict[Attribute, np.dtype[Any]] = {
    t: BFLOAT16 if name == "bfloat16" else np.dtype(name) for name, t in ELEMENT_TYPES.items()
}


def contiguous(x: Array) -> Array:
    """The array itself if its elements lie in order, else a copy."""
    return x if x.flags.c_contiguous else x.copy()


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """The numpy dtype of an element type. Raises GeError for a type ge does not compute with."""
    try:
        return _DTYPES[element]
    except KeyError:
        raise GeError(f"element type {element} cannot be computed with") from None


def element_of(dtype: np.dtype[Any]) -> Attribute:
    """The element type of a numpy dtype. Raises GeError for a dtype ge does not compute with."""
    try:
        return ELEMENT_TYPES[dtype.name]
    except KeyError:
        known = ", ".join(NUMPY_NAMES.values())
        raise GeError(f"dtype {dtype.name} is not supported", hint=f"use one of {known}") from None


def type_of(array: Array) -> AnyTensor:
    """The tensor type of an array."""
    return tensor(array.shape, element_of(array.dtype))


def dense(array: Array) -> Dense:
    """The array as an attribute; a splat when all elements have the same bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size > 1:
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        if (raw == raw[0]).all():
            flat = flat[:1]
    return DenseIntOrFPElementsAttr(cast(Any, type_of(array)), BytesAttr(flat.tobytes()))


def array_of(attr: Dense) -> Array:
    """The elements of a dense constant, read-only."""
    t = cast(AnyTensor, attr.type)
    dtype = dtype_of(t.element_type)
    if dtype.kind == "b":  # true is any byte but 0: xDSL's parser writes 0xff
        flat = np.frombuffer(attr.data.data, np.uint8) != 0
    else:
        flat = np.frombuffer(attr.data.data, dtype)
    shape: Sequence[int] = t.get_shape()
    return np.broadcast_to(flat.reshape(()), shape) if flat.size == 1 else flat.reshape(shape)
