"""Samples of the inputs of a model, as passes see them (`sources.py` has what users give).

The samples of a batch lie along the dimension that is the batch of the model. They are seen in
chunks of one size, which their number alone decides, the last filled up by repeating them: a matmul
of other sizes may round differently, so results would depend on how samples were put into batches.
Batches are put one behind the other in files without a name, unless there is one alone: passes go
through the samples several times, and in an order of their own, and no more of them than a chunk is
in memory at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.support.context import at_hand, having
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.layers import all_names
from ge.transforms.quantization.table import LayerFacts, Table

# Samples that are seen at a time where the batch of the model is free, and all where they are less,
# but two at least: what has a batch of one may be another graph
CHUNK = 32


@dataclass(frozen=True)
class Chunk:
    """Some samples: `inputs` has `size` of them, the first `count` of which are new."""

    inputs: Mapping[str, Array]
    first: int
    count: int
    size: int

    def rows(self, array: Array) -> Array | None:
        """The elements of the new samples, [samples, ...], of an array whose first dimension is the
        batch times something; None if it is not."""
        if not array.ndim or array.shape[0] % self.size:
            return None
        count = array.shape[0] // self.size
        return array.reshape(self.size, count, *array.shape[1:])[: self.count]

    def rows_or_all(self, array: Array) -> Array:
        return array if (rows := self.rows(array)) is None else rows


@dataclass(frozen=True)
class Samples:
    """All samples: `arrays` by input, and in `axes` which dimension counts them (None: the array is
    the same for all samples). `is_free`: the model takes chunks of any size. `apart`: it has no
    batch at all, so that samples lie along a dimension that it does not have. `order`: which of the
    samples these are; None: all."""

    arrays: Mapping[str, Array]
    axes: Mapping[str, int | None]
    count: int
    chunk: int
    is_free: bool = False
    apart: bool = False
    all_labels: Mapping[str, Array] = field(default_factory=dict[str, Array])  # [samples, ...]
    order: NDArray[np.int64] | None = None
    # The largest magnitude of each input of floats, by where it was given: a file, or a batch
    tops: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    def chunks(self) -> Iterator[Chunk]:
        for first in range(0, self.count, self.chunk):
            inputs = self.taken(np.arange(first, first + self.chunk) % self.count)
            if self.apart:
                inputs = {name: array[0] for name, array in inputs.items()}
            yield Chunk(inputs, first, min(self.chunk, self.count - first), self.chunk)

    def taken(self, indices: NDArray[np.int64]) -> dict[str, Array]:
        """Some of the samples, in memory."""
        indices = indices if self.order is None else self.order[indices]
        return {
            name: array if (axis := self.axes[name]) is None else array.take(indices, axis)
            for name, array in self.arrays.items()
        }

    @property
    def labels(self) -> dict[str, Array]:
        if self.order is None:
            return dict(self.all_labels)
        return {name: array.take(self.order, 0) for name, array in self.all_labels.items()}

    def picked(self, indices: Sequence[int] | NDArray[np.int64]) -> "Samples":
        """Some of the samples, in this order."""
        order = np.asarray(indices, np.int64)
        order = order if self.order is None else self.order[order]
        return replace(self, count=len(order), order=order)

    @cached_property
    def canonical(self) -> "Samples":
        """The samples in an order that does not depend on theirs."""
        names = sorted(name for name, axis in self.axes.items() if axis is not None)
        if not names:
            return self

        def digest(i: int) -> bytes:
            one = self.taken(np.array([i]))
            return sha256(b"".join(one[name].tobytes() for name in names)).digest()

        digests = [digest(i) for i in range(self.count)]
        return self.picked(sorted(range(self.count), key=digests.__getitem__))

    def part(self, first: int, count: int) -> "Samples":
        return self.picked(range(first, min(first + count, self.count)))

    def first(self, count: int) -> "Samples":
        """Whole chunks with at least so many samples, or all."""
        return self.part(0, -(-count // self.chunk) * self.chunk)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs in a chunk."""
        return {
            name: a.shape[1:] if self.apart else self._shape(a, self.axes[name])
            for name, a in self.arrays.items()
        }

    def _shape(self, array: Array, axis: int | None) -> tuple[int, ...]:
        return tuple(self.chunk if i == axis else d for i, d in enumerate(array.shape))


@dataclass
class Calibration:
    """The data that passes decide from: samples, if there are any, and the table of earlier
    decisions, to which they add. `random`: inputs at random, which say how large values get if
    there are no samples; `estimated`: whether the table has it from these. `kept`: names of nodes
    of the model whose elements keep their type."""

    table: Table = field(default_factory=Table)
    samples: Samples | None = None
    random: Samples | None = None
    estimated: bool = False
    kept: frozenset[str] = frozenset()
    observed: Any = None  # what passes keep for the next, see observe.py
    floats: FuncOp | None = None  # the model before it was brought into QDQ form
    trials: Any = None  # the same, see trials.py
    weights: dict[Any, Array] = field(default_factory=dict[Any, Array])  # see observe.py
    accuracy: Accuracy | None = None  # what is asked of the outputs
    source: Any = None  # of samples that a program gives, see sources.py
    sensitivity: bool = False  # whether the noise of all layers is to be measured
    layers: dict[str, LayerFacts] = field(default_factory=dict[str, LayerFacts])
    left: dict[str, float] = field(default_factory=dict[str, float])  # dB of outputs on the samples
    unchanged: dict[str, float] = field(default_factory=dict[str, float])  # share of other outputs
    # Layers that are floats so that outputs keep more, and the share of time that they take longer
    mended: dict[str, float] = field(default_factory=dict[str, float])
    left_of_floats: dict[str, float] = field(default_factory=dict[str, float])  # of 16 bits

    def keeps(self, op: Operation) -> bool:
        return bool(self.kept) and not self.kept.isdisjoint(all_names(op))

    def facts(self, name: str, op: Operation) -> LayerFacts:
        return self.layers.setdefault(name, LayerFacts(name, op.name))

    def decide(self, name: str, op: Operation, precision: str, reason: str) -> None:
        """Compute a layer in a precision, which insert-quantization obeys, and report why."""
        self.facts(name, op).reason = reason
        self.table.layers[name] = precision


def calibrating(calibration: Calibration) -> AbstractContextManager[Calibration]:
    """Let passes see this calibration."""
    return having(calibration)


def calibration_at_hand() -> Calibration:
    return at_hand(Calibration) or Calibration()
