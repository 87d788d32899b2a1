"""Calls of numpy, prepared for arrays that stay where they are, and the memory that kernels compute
in, kept from call to call."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from threading import local
from typing import Any

import numpy as np

from ge.runtime.data.arrays import Array

PADDED_LAYOUTS = 32  # images of so many sizes keep the zeros around them


class Scratch:
    """Memory for blocks, one for each use: the system takes as long to map new memory as it takes
    to work on it. It is for one computation at a time."""

    def __init__(self) -> None:
        self.bytes: dict[str, Array] = {}
        self.padded: dict[Hashable, Array] = {}

    def __call__(self, use: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array with any elements, valid until the next one for this use."""
        size = prod(shape) * dtype.itemsize
        if use not in self.bytes or self.bytes[use].size < size:
            # Twice what there was: prepared calls keep what they were given
            least = 2 * self.bytes[use].size if use in self.bytes else 0
            self.bytes[use] = np.empty(max(size, least), np.uint8)
        return self.bytes[use][:size].view(dtype).reshape(shape)

    def with_zeros(self, layout: Hashable, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array that holds zeros where none of the users with this layout writes."""
        if (array := self.padded.get((layout, dtype))) is None or len(array) < shape[0]:
            if len(self.padded) >= PADDED_LAYOUTS:
                self.padded.clear()
            array = self.padded[layout, dtype] = np.zeros(shape, dtype)
        return array[: shape[0]]


class ThreadScratch(local, Scratch):
    """Memory of each thread."""


scratch = ThreadScratch()


Action = Callable[[], object]


class Plan:
    """Calls to be made one after the other, as often as one likes, and the memory that they compute
    in: views and everything else that follows from shapes is made once."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.calls: list[Action] = []

    def add(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        self.calls.append(partial(function, *arguments, **named))

    def run(self) -> None:
        for call in self.calls:
            call()
