"""Arrays that stay in the memory of the emulated NPU."""

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np

from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_text
from ge.runtime.data.arrays import Array
from ge.runtime.data.npz import require_memory


class DeviceArray:
    """Made once, bound to inputs and outputs of sessions (`Session.bind`), and read as numpy's
    where that is asked for.

    cache = ge.DeviceArray.of(np.zeros((1, 8, 64), np.float16))
    cache.numpy()          # a copy
    cache.write(array)     # of the same type and shape
    """

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        """New memory, with arbitrary contents. Raises GeError for sizes below 0, an unknown type,
        and sizes that this machine has no memory for."""
        try:
            self.dtype = np.dtype(dtype)
        except TypeError:
            raise GeError(f"{dtype!r} is no type of elements") from None
        try:
            self.shape = tuple(map(index, shape))
        except TypeError:
            raise GeError(f"the shape of a device array is a tuple of sizes, not {shape}") from None
        if any(d < 0 for d in self.shape):
            raise GeError(f"a device array of shape {list(self.shape)}: sizes are at least 0")
        if self.dtype.hasobject:
            raise GeError(f"the device has no elements of type {self.dtype}")
        require_memory(prod(self.shape) * self.dtype.itemsize, "the device array")
        self.memory = np.empty(self.shape, self.dtype)

    @classmethod
    def of(cls, array: Any) -> "DeviceArray":
        """A copy of an array on the device."""
        values = _elements(array)
        new = cls(values.shape, values.dtype)
        new.write(values)
        return new

    def write(self, array: Any) -> None:
        """Copy an array to the device. Raises GeError for another type or shape."""
        values = _elements(array)
        if (values.dtype, values.shape) != (self.dtype, self.shape):
            given = f"{values.dtype}{shape_text(values.shape)}"
            raise GeError(f"{given} is written to the device array {self}")
        np.copyto(self.memory, values)

    def numpy(self) -> Array:
        """A copy of the elements."""
        return self.memory.copy()

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.memory.astype(self.dtype if dtype is None else dtype, copy=True)

    def __str__(self) -> str:
        return f"{self.dtype}{shape_text(self.shape)}"

    def __repr__(self) -> str:
        return f"DeviceArray({self})"


def _elements(array: Any) -> Array:
    try:
        return np.asarray(array)
    except ValueError as e:
        raise GeError(f"a device array cannot hold this: {e}") from None
