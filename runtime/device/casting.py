"""Inputs of other element types than the model's: floats become its floats (f64 and f32 become f16,
rounded once), integers its integers (i32 becomes i64). What would lose its range is refused."""

from typing import Any

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array, integer_limits, kind_of


def converted(array: Array, dtype: np.dtype[Any], name: str) -> Array:
    """The input as an array of a type, itself where it has that already, or where the type is none
    that it could be converted to. Raises GeError for an element that the type does not hold."""
    kinds = kind_of(array.dtype), kind_of(dtype)
    if array.dtype == dtype or not array.size:
        return array if array.dtype == dtype or not _convertible(*kinds) else array.astype(dtype)
    if not _convertible(*kinds):
        return array
    if kinds[1] in "iu":
        limits = integer_limits(dtype)
        outside = _first(array, (array < int(limits.min)) | (array > int(limits.max)))
        new = array
    else:
        with np.errstate(all="ignore"):
            new = array.astype(dtype)
        rounded = np.isfinite(new)
        outside = None if rounded.all() else _first(array, np.isfinite(array) & ~rounded)
    if outside is not None:
        hint = f"scale the input, or compile the model for {array.dtype}"
        raise GeError(f"input '{name}' has {outside}, which {dtype} does not hold", hint=hint)
    return new.astype(dtype, copy=False)


def _convertible(kind: str, other: str) -> bool:
    return (kind == "f" and other == "f") or (kind in "iu" and other in "iu")


def _first(array: Array, chosen: Array) -> Any:
    where = np.flatnonzero(chosen)
    return array.reshape(-1)[where[0]].item() if where.size else None
