"""Where samples come from: files, or what a program gives.

`Files` are .npz files with an array for each input, under its name or `in:` and its name. `Given`
is a dict of arrays, or what gives batches one after the other: a list, a generator, a DataLoader.
A batch is a dict by the names of inputs, a tuple of arrays in their order, or an array for the
first of them; tensors of PyTorch are arrays. An array that lacks the batch of the model is one
sample. Of both each batch is read, checked and stored before the next: `samples_of`.
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.stated import argument_attributes, dims_of, is_seed
from ge.dialects.support.effort import effort_at_hand
from ge.dialects.support.element_types import type_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    Shape,
    shape_text,
    tensor,
    tensor_type,
)
from ge.runtime.data.arrays import Array, array_on, dtype_of, is_tensor, kind_of
from ge.runtime.data.npz import PREFIX, read_npz, read_shapes
from ge.transforms.quantization.data import CHUNK, Samples
from ge.transforms.quantization.layers import argument_name

READING = 0.5  # of the time limit, at most


@dataclass(frozen=True)
class Input:
    """An input of the model. `batch`: its dimension that counts samples."""

    name: str
    type: AnyTensor
    batch: int | None

    def __str__(self) -> str:
        dims = ["?" if d == DYNAMIC else str(d) for d in self.type.get_shape()]
        if self.batch is not None:
            dims[self.batch] = "samples"
        return f"{self.name}: {type_name(self.type.element_type)}[{', '.join(dims)}]"


def inputs_of(main: FuncOp) -> tuple[list[Input], int | None]:
    """The inputs of a model that its caller gives, and its batch where that is fixed. The batch is
    the first symbolic dimension that is the first of an input; without one, the first dimension of
    all inputs if they agree; else there is none."""
    args = [arg for arg in main.args if not is_seed(arg)]
    types, dims = [tensor_type(arg) for arg in args], input_dims(main)
    symbol = next((d[0] for d in dims if d and d[0]), "")
    if symbol:
        batches = [d.index(symbol) if symbol in d else None for d in dims]
    elif len({t.get_shape()[:1] for t in types}) == 1 and types[0].get_shape():
        batches = [0 for _ in types]
    else:
        batches = [None for _ in types]
    sizes = {t.get_shape()[b] for t, b in zip(types, batches, strict=True) if b is not None}
    names = map(argument_name, args)
    fixed = sizes.pop() if len(sizes) == 1 else None
    return list(map(Input, names, types, batches)), None if fixed == DYNAMIC else fixed


def input_dims(main: FuncOp) -> list[tuple[str, ...]]:
    """The names of the dimensions of each input that the caller gives."""
    return [
        dims_of(argument_attributes(main, arg.index), len(tensor_type(arg).get_shape()))
        for arg in main.args
        if not is_seed(arg)
    ]


def has_unrelated_batches(main: FuncOp) -> bool:
    """Return whether the first dimension of each input has a name that is nowhere else: some
    exporters name each dimension that they do not know, so that names say nothing of the batch."""
    dims = input_dims(main)
    names = [n for d in dims for n in d]
    return len(dims) > 1 and all(d and d[0] and names.count(d[0]) == 1 for d in dims)


def whole_inputs(inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> list[Input] | None:
    """The inputs as samples of them, where all sizes of the model are known and the arrays of a
    batch have the whole shapes of inputs behind an axis that counts samples. None otherwise: then
    samples lie along a dimension of the model."""
    if any(DYNAMIC in i.type.get_shape() for i in inputs):
        return None
    if any(not shapes.get(i.name) or shapes[i.name][1:] != i.type.get_shape() for i in inputs):
        return None
    if len({shapes[i.name][0] for i in inputs}) > 1:
        return None
    return [
        Input(i.name, tensor((DYNAMIC, *i.type.get_shape()), i.type.element_type), 0)
        for i in inputs
    ]


# ---- sources ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Arrays by name, inputs of the model and others, as they were given at a place; the names of
    those that were left out."""

    arrays: Mapping[str, Array]
    where: str
    others: Sequence[str] = ()


class Source(ABC):
    """Gives samples. `count`: of its batches, 0 where it is not known."""

    count: int = 0

    @abstractmethod
    def shapes(self, names: Collection[str]) -> dict[str, Shape]:
        """The shapes of these arrays in the first batch."""

    @abstractmethod
    def batches(self, inputs: Sequence[Input], labels: bool) -> Generator[Batch]:
        """The batches, one after the other; with `labels` other arrays too."""


@dataclass
class Files(Source):
    """Samples in .npz files."""

    paths: Sequence[str | Path]

    def __post_init__(self) -> None:
        self.count = len(self.paths)

    def shapes(self, names: Collection[str]) -> dict[str, Shape]:
        found = read_shapes(self.paths[0], [p + n for n in names for p in ("", PREFIX)])
        return {n: found[k] for n in names for k in (n, PREFIX + n) if k in found}

    def batches(self, inputs: Sequence[Input], labels: bool) -> Generator[Batch]:
        by_name = {prefix + i.name: i for i in inputs for prefix in ("", PREFIX)}
        for path in map(str, self.paths):

            def fits(name: str, shape: Shape, where: str = path) -> None:
                if name in by_name:
                    check_shape(by_name[name], shape, where)

            wanted = [*by_name, *(read_npz(path, ()) if labels else ())]
            arrays = read_npz(path, wanted, fits)
            for i in inputs:
                if PREFIX + i.name in arrays:
                    arrays[i.name] = arrays.pop(PREFIX + i.name)
            yield Batch(arrays, path)


@dataclass
class Given(Source):
    """Samples that a program gives. `names`: of the inputs, in their order."""

    data: Any
    names: Sequence[str] = ()
    _ahead: list[Batch] = field(default_factory=list[Batch])
    _copies: bool = True  # generators may use the memory of a batch again

    def __post_init__(self) -> None:
        data: Any = self.data
        if hasattr(data, "get_next"):  # a CalibrationDataReader of onnxruntime
            data = iter(data.get_next, None)
        elif isinstance(data, Mapping) or is_array(data):
            data, self._copies = [self.data], False
        elif isinstance(data, str | bytes) or not hasattr(data, "__iter__"):
            kind = type(self.data).__name__
            hint = "dicts of arrays by input, one or a list, a generator or a DataLoader of them"
            raise GeError(f"the samples are of type {kind}", hint=f"give files or {hint}")
        self.count = len(data) if hasattr(data, "__len__") else 0
        self._rest = self._read(data)

    def _read(self, data: Any) -> Generator[Batch]:
        seen = 0
        try:
            for item in data:
                seen += 1
                yield self._batch(item, f"batch {seen} of the samples")
                del item  # the next is made while this one is not kept
        except GeError:
            raise
        except Exception as e:
            what = f"the samples ended with {type(e).__name__} at batch {seen + 1}: {e}"
            raise GeError(what, hint=f"{seen} batches came before it") from e

    def _batch(self, item: Any, where: str) -> Batch:
        if isinstance(item, Mapping):
            named = {str(k): v for k, v in cast(Mapping[Any, Any], item).items()}
        else:
            parts = [item] if is_array(item) else item
            if not isinstance(parts, list | tuple):
                hint = "a batch is a dict of arrays by input, or a tuple of arrays in their order"
                raise GeError(f"{where} is of type {type(item).__name__}", hint=hint)
            parts = cast(Sequence[Any], parts)
            others = len(parts) - len(self.names)
            labels = ["label"] if others == 1 else [f"label{i}" for i in range(others)]
            named = dict(zip([*self.names, *labels], parts, strict=False))
        arrays: dict[str, Array] = {}
        for name, value in named.items():
            try:
                arrays[name] = as_array(value, self._copies)
            except (TypeError, ValueError, RuntimeError) as e:
                if name in self.names:
                    raise GeError(f"{where}: '{name}' is no array: {e}") from e
        return Batch(arrays, where)

    def shapes(self, names: Collection[str]) -> dict[str, Shape]:
        if not self._ahead:
            self.names = list(names)
            if (first := next(self._rest, None)) is None:
                hint = "a generator is gone through once: give a new one to each call"
                raise GeError("there are no samples: the data ended at once", hint=hint)
            self._ahead.append(first)
        return {n: a.shape for n, a in self._ahead[0].arrays.items() if n in names}

    def batches(self, inputs: Sequence[Input], labels: bool) -> Generator[Batch]:
        kept = {i.name for i in inputs}
        with closing(self._rest):
            while self._ahead:
                yield self._fitted(self._ahead.pop(), inputs, kept, labels)
            for batch in self._rest:
                yield self._fitted(batch, inputs, kept, labels)
                del batch

    def _fitted(
        self, batch: Batch, inputs: Sequence[Input], kept: Collection[str], labels: bool
    ) -> Batch:
        """The batch with an axis of samples in all that lacks one."""
        arrays = {n: a for n, a in batch.arrays.items() if labels or n in kept}
        ranks = {i.name: len(i.type.get_shape()) - 1 for i in inputs if i.batch is not None}
        if single := [i for i in inputs if i.name in arrays
                      and ranks.get(i.name) == arrays[i.name].ndim]:  # fmt: skip
            arrays |= {i.name: np.expand_dims(arrays[i.name], i.batch or 0) for i in single}
            arrays |= {n: a[None] for n, a in arrays.items() if n not in kept}
        return Batch(arrays, batch.where, [n for n in batch.arrays if n not in arrays])


def is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def as_array(value: Any, copies: bool) -> Array:
    """The elements of an array, a tensor or numbers in lists. Raises TypeError, ValueError or
    RuntimeError for what has none."""
    value = array_on(value.cpu()) if is_tensor(value) else value
    array = np.array(value) if copies else np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"its elements are of type {type(array.flat[0]).__name__}")
    return array


# ---- storing ---------------------------------------------------------------------------------


@dataclass
class Joined:
    """Arrays, one behind the other along an axis (None: they are equal, one stands for all): the
    first in memory, several in a file without a name. `name`: for errors."""

    name: str
    axis: int | None
    first: Array | None = None
    count: int = 0
    file: IO[bytes] | None = None

    def add(self, array: Array) -> None:
        if self.first is None:
            self.first = array
        elif self.axis is None:
            if array.shape != self.first.shape or (array != self.first).any():
                hint = "it has no batch, so it is one for all samples"
                raise GeError(f"there are several values of input '{self.name}'", hint=hint)
        elif array.dtype != self.first.dtype or self._others(array) != self._others(self.first):
            texts = " and ".join(sorted(map(shape_text, map(self._others, (self.first, array)))))
            raise GeError(f"there are samples of '{self.name}' of several shapes: {texts}")
        else:
            try:
                self._write(array)
            except OSError as e:
                what = f"samples cannot be kept in {tempfile.gettempdir()}: {e.strerror}"
                raise GeError(what, hint="set TMPDIR to a folder with more room") from None
        if self.axis is not None:
            self.count += array.shape[self.axis]

    def _others(self, array: Array) -> Shape:
        return tuple(d for a, d in enumerate(array.shape) if a != self.axis)

    def _write(self, array: Array) -> None:
        assert self.first is not None
        assert self.axis is not None
        if self.file is None:
            self.file = tempfile.TemporaryFile()
            self._append(self.file, self.first)
            self.first = self.first.take([0], self.axis)
        self._append(self.file, array)

    def _append(self, file: IO[bytes], array: Array) -> None:
        assert self.axis is not None
        for sample in np.moveaxis(array, self.axis, 0):  # which may be mapped from a large file
            file.write(sample.tobytes())

    def array(self) -> Array:
        """All of them, in the file if they are there."""
        assert self.first is not None
        if self.file is None or self.axis is None:
            return self.first
        shape = (self.count, *self._others(self.first))
        if not prod(shape):
            return np.empty(shape, self.first.dtype)
        self.file.flush()
        mapped = np.memmap(cast(Any, self.file), self.first.dtype, "r", shape=shape)
        self.file.close()  # the map holds it
        return np.moveaxis(np.asarray(mapped), 0, self.axis)


def samples_of(
    source: Source, main: FuncOp, fixed: FuncOp | None = None, labels: bool = False
) -> Samples:
    """The samples that a source gives for a model, with `labels` what else it has an element of for
    each of them; `fixed` is the model at the sizes that are asked for, where some are. Samples that
    come after a part of the time limit do not count. Raises GeError for data that is missing, does
    not fit or is not finite."""
    inputs, batch = inputs_of(main)
    if not inputs:
        raise GeError("the model has no inputs, so there is nothing to calibrate with")
    shapes = source.shapes([i.name for i in inputs])
    whole = whole_inputs(inputs_of(fixed or main)[0], shapes)
    if whole is not None:
        inputs = whole
    elif has_unrelated_batches(main) and len({shapes.get(i.name, ())[:1] for i in inputs}) == 1:
        inputs = [replace(i, batch=0) for i in inputs]
    is_single = all(i.batch is None for i in inputs)  # a batch is one sample
    joined = {i.name: Joined(i.name, 0 if is_single else i.batch) for i in inputs}
    others: dict[str, Joined] | None = None
    tops: dict[str, dict[str, float]] = {i.name: {} for i in inputs}
    known, count = effort_at_hand(), 0
    with closing(source.batches(inputs, labels)) as batches:
        for done, given in enumerate(batches, 1):
            size = checked(given, inputs)
            for i in inputs:
                if kind_of(given.arrays[i.name].dtype) == "f":
                    tops[i.name][given.where] = magnitude(given.arrays[i.name])
            for name, kept in joined.items():
                kept.add(given.arrays[name][None] if is_single else given.arrays[name])
            count += size
            others = added(others, given, joined, is_single, size)
            known.tell("samples", done, source.count)
            if known.is_over(READING):
                if done != source.count:
                    known.undone.append(f"samples after the first {count}")
                break
    arrays = {name: j.array() for name, j in joined.items()}
    axes = {name: j.axis for name, j in joined.items()}
    apart = is_single or whole is not None
    chunk = 1 if apart else max(min(CHUNK, count), 2) if batch is None else batch
    found = {name: j.array() for name, j in (others or {}).items()}
    is_free = batch is None and not apart
    return Samples(arrays, axes, count, chunk, is_free, apart, found, tops=tops)


def checked(given: Batch, inputs: Sequence[Input]) -> int:
    """The number of samples in a batch. Raises GeError where it does not fit the inputs."""
    counts: dict[int, str] = {}
    for i in inputs:
        if (array := given.arrays.get(i.name)) is None:
            expected = ", ".join(map(str, inputs))
            present = ", ".join(map(repr, (*given.arrays, *given.others))) or "nothing"
            hint = f"expected {expected}; there is {present}"
            raise GeError(f"input '{i.name}' is missing", given.where, hint)
        check_array(i, array, given.where)
        if i.batch is not None:
            counts.setdefault(array.shape[i.batch], i.name)
    if len(counts) > 1:
        (a, first), (b, second) = list(counts.items())[:2]
        raise GeError(f"{a} samples of input '{first}', but {b} of '{second}'", given.where)
    if 0 in counts:
        raise GeError("there are no samples", given.where)
    return next(iter(counts), 1)


def added(
    others: dict[str, Joined] | None,
    given: Batch,
    inputs: Collection[str],
    is_single: bool,
    size: int,
) -> dict[str, Joined]:
    """The arrays that all batches so far have beside the inputs, with an element, of one shape, for
    each sample."""
    found = {n: a[None] if is_single else a for n, a in given.arrays.items() if n not in inputs}
    if others is None:
        others = {name: Joined(name, 0) for name in found}
    kept: dict[str, Joined] = {}
    for name, label in others.items():
        if (array := found.get(name)) is not None and array.ndim and len(array) == size:
            try:
                label.add(array)
            except GeError:  # of several shapes
                continue
            kept[name] = label
    return kept


def check_shape(i: Input, given: Shape, path: str) -> None:
    shape = i.type.get_shape()
    sizes = [
        d for axis, d in enumerate(given)
        if axis < len(shape) and axis != i.batch and shape[axis] not in (DYNAMIC, d)
    ]  # fmt: skip
    if len(given) != len(shape) or sizes:
        hint = ""
        if i.batch is not None and DYNAMIC not in shape:
            whole = ", ".join(map(str, shape))
            hint = f"or, where no dimension counts samples, arrays of [samples, {whole}]"
        what = f"input '{i.name}' has shape {shape_text(given)}, not {i}"
        raise GeError(what, path, hint)


def magnitude(array: Array) -> float:
    """The largest magnitude of an array of floats, without a copy of it; nan where it has one."""
    return float(np.maximum(array.max(), -array.min())) if array.size else 0.0


def check_array(i: Input, array: Array, path: str) -> None:
    if array.dtype != (dtype := dtype_of(i.type.element_type)):
        raise GeError(f"input '{i.name}' is {array.dtype}, not {dtype}", path)
    check_shape(i, array.shape, path)
    if kind_of(array.dtype) == "f" and not np.isfinite(magnitude(array)):
        where = np.argwhere(~np.isfinite(array))[0]
        sample = "" if i.batch is None else f"sample {where[i.batch]} of "
        value = array[tuple(where)]
        raise GeError(f"{sample}input '{i.name}' has {value} at {where.tolist()}", path)
