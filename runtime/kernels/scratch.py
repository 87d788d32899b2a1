"""Memory that kernels compute in, kept from call to call."""

from collections.abc import Hashable, Sequence
from math import prod
from threading import local
from typing import Any

import numpy as np

from ge.runtime.data.arrays import Array

PADDED_LAYOUTS = 32  # images of so many sizes keep the zeros around them


class Scratch(local):
    """Memory for blocks, one for each use and thread: the system takes as long to map new memory
    as it takes to work on it."""

    def __init__(self) -> None:
        self.bytes: dict[str, Array] = {}
        self.padded: dict[Hashable, Array] = {}

    def __call__(self, use: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array with any elements, valid until the next one for this use."""
        size = prod(shape) * dtype.itemsize
        if use not in self.bytes or self.bytes[use].size < size:
            self.bytes[use] = np.empty(size, np.uint8)
        return self.bytes[use][:size].view(dtype).reshape(shape)

    def with_zeros(self, layout: Hashable, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array that holds zeros where none of the users with this layout writes."""
        if (array := self.padded.get((layout, dtype))) is None or len(array) < shape[0]:
            if len(self.padded) >= PADDED_LAYOUTS:
                self.padded.clear()
            array = self.padded[layout, dtype] = np.zeros(shape, dtype)
        return array[: shape[0]]


scratch = Scratch()
