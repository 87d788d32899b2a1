"""Samples of the inputs of a model, as a user gives them, and what passes see of them.

A file has an array for each input, under its name or `in:` and its name; the samples lie along the
dimension that is the batch of the model. They are seen in chunks of one size, whatever there are,
the last filled up by repeating them: a matmul of other sizes may round differently, so results
would depend on how samples were put into batches.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.stated import argument_attributes, dims_of, is_seed
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.element_types import type_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    Shape,
    shape_text,
    tensor,
    tensor_type,
)
from ge.runtime.data.arrays import Array, dtype_of, kind_of
from ge.runtime.data.npz import read_npz, read_shapes
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.layers import all_names, argument_name
from ge.transforms.quantization.table import LayerFacts, Table, read_table

CHUNK = 32  # samples that are seen at a time where the batch of the model is free

PREFIX = "in:"


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
    batch at all, so that samples lie along a dimension that it does not have."""

    arrays: Mapping[str, Array]
    axes: Mapping[str, int | None]
    count: int
    chunk: int
    is_free: bool = False
    apart: bool = False
    labels: Mapping[str, Array] = field(default_factory=dict[str, Array])  # [samples, ...]

    def chunks(self) -> Iterator[Chunk]:
        for first in range(0, self.count, self.chunk):
            indices = np.arange(first, first + self.chunk) % self.count
            inputs = {
                name: array if (axis := self.axes[name]) is None else array.take(indices, axis)
                for name, array in self.arrays.items()
            }
            if self.apart:
                inputs = {name: array[0] for name, array in inputs.items()}
            yield Chunk(inputs, first, min(self.chunk, self.count - first), self.chunk)

    def picked(self, indices: Sequence[int]) -> "Samples":
        """Some of the samples, in this order."""
        arrays = {
            name: array if (axis := self.axes[name]) is None else array.take(indices, axis)
            for name, array in self.arrays.items()
        }
        labels = {name: array.take(indices, 0) for name, array in self.labels.items()}
        return replace(self, arrays=arrays, count=len(indices), labels=labels)

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
    accuracy: Accuracy | None = None  # what is asked of the outputs
    sensitivity: bool = False  # whether the noise of all layers is to be measured
    layers: dict[str, LayerFacts] = field(default_factory=dict[str, LayerFacts])
    left: dict[str, float] = field(default_factory=dict[str, float])  # dB of outputs on the samples
    unchanged: dict[str, float] = field(default_factory=dict[str, float])  # share of other outputs
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


@dataclass(frozen=True)
class CalibratedPass(ModulePass, ABC):
    """A pass over @main that decides from data."""

    data: str = ""

    @abstractmethod
    def run(self, main: FuncOp, calibration: Calibration) -> None: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        calibration = calibration_at_hand()
        if self.data.endswith(".toml"):
            calibration = Calibration(read_table(self.data))
        elif self.data:
            calibration = Calibration(samples=read_samples([self.data], main))
        with calibrating(calibration):
            self.run(main, calibration)


# ---- reading ---------------------------------------------------------------------------------


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


def have_one_count(path: str | Path, inputs: Sequence[Input]) -> bool:
    """Return whether the arrays of a file for all inputs are of one size along their first
    dimension."""
    names = [i.name for i in inputs]
    shapes = read_shapes(path, [*names, *(PREFIX + n for n in names)])
    return len({shape[:1] for shape in shapes.values()}) == 1


def read_labelled(
    paths: Sequence[str | Path], main: FuncOp, fixed: FuncOp | None = None
) -> Samples:
    """The samples, with the other arrays of the files that have an element for each of them."""
    samples = read_samples(paths, main, fixed)
    inputs = {PREFIX + n for n in samples.arrays} | set(samples.arrays)
    names = [name for name in read_npz(paths[0], ()) if name not in inputs]
    files = [read_npz(path, names) for path in paths]
    join = np.stack if samples.apart else np.concatenate
    parts = {name: [file[name] for file in files if name in file] for name in names}
    shapes = {name: {p.shape[not samples.apart :] for p in ps} for name, ps in parts.items()}
    labels = {n: join(ps) for n, ps in parts.items() if len(shapes[n]) == 1 and ps[0].ndim}
    count = samples.count
    return replace(samples, labels={n: a for n, a in labels.items() if len(a) == count})


def read_samples(paths: Sequence[str | Path], main: FuncOp, fixed: FuncOp | None = None) -> Samples:
    """The samples in .npz files for a model; `fixed` is the model at the sizes that are asked for,
    where some are. Raises GeError for data that is missing, does not fit or is not finite."""
    inputs, batch = inputs_of(main)
    if not inputs:
        raise GeError("the model has no inputs, so there is nothing to calibrate with")
    if (whole := whole_samples(paths, main if fixed is None else fixed)) is not None:
        return whole
    if has_unrelated_batches(main) and have_one_count(paths[0], inputs):
        inputs = [replace(i, batch=0) for i in inputs]
    files = [read_inputs(path, inputs) for path in paths]
    arrays = {i.name: _joined(i, [file[i.name] for file in files]) for i in inputs}
    if all(i.batch is None for i in inputs):
        stacked = {name: np.stack([f[name] for f in files]) for name in arrays}
        return Samples(stacked, dict.fromkeys(arrays, 0), len(files), 1, apart=True)
    for i in inputs:
        if i.batch is None and any((f[i.name] != arrays[i.name]).any() for f in files):
            hint = "it has no batch, so it is one for all samples"
            raise GeError(f"the files have several values of input '{i.name}'", hint=hint)
    axes = {i.name: i.batch for i in inputs}
    count = next(arrays[n].shape[axis] for n, axis in axes.items() if axis is not None)
    return Samples(arrays, axes, count, CHUNK if batch is None else batch, batch is None)


def whole_samples(paths: Sequence[str | Path], main: FuncOp) -> Samples | None:
    """The samples where all sizes of the model are known and each array has the whole shape of its
    input behind an axis that counts samples. None otherwise: then samples lie along a dimension of
    the model."""
    inputs, _ = inputs_of(main)
    shapes = {i.name: i.type.get_shape() for i in inputs}
    if any(DYNAMIC in shape for shape in shapes.values()):
        return None
    names = [*shapes, *(PREFIX + n for n in shapes)]
    stated = [read_shapes(path, names) for path in paths]
    keys = {n: PREFIX + n if PREFIX + n in stated[0] else n for n in shapes}
    if any(file.get(keys[n], ())[1:] != shape for file in stated for n, shape in shapes.items()):
        return None
    if any(not file.get(key) for file in stated for key in keys.values()):
        return None
    files = [read_npz(path, [*keys.values()]) for path in paths]
    joined = {n: np.concatenate([file[key] for file in files]) for n, key in keys.items()}
    counts = {len(a) for a in joined.values()}
    if len(counts) > 1 or 0 in counts:
        return None
    for i in inputs:
        shape = (DYNAMIC, *shapes[i.name])
        samples = Input(i.name, tensor(shape, i.type.element_type), 0)
        check_array(samples, joined[i.name], str(paths[0]))
    return Samples(joined, dict.fromkeys(joined, 0), counts.pop(), 1, apart=True)


def _joined(i: Input, parts: Sequence[Array]) -> Array:
    """The samples of all files. Raises GeError where shapes differ."""
    shapes = {tuple(d for a, d in enumerate(p.shape) if a != i.batch) for p in parts}
    if len(shapes) > 1:
        texts = " and ".join(sorted(map(shape_text, shapes)))
        raise GeError(f"the files have samples of input '{i.name}' of several shapes: {texts}")
    return parts[0] if i.batch is None else np.concatenate(parts, i.batch)


def read_inputs(path: str | Path, inputs: Sequence[Input]) -> dict[str, Array]:
    by_name = {prefix + i.name: i for i in inputs for prefix in ("", PREFIX)}
    arrays = read_npz(
        path, by_name, lambda name, shape: check_shape(by_name[name], shape, str(path))
    )
    counts: dict[int, str] = {}
    result: dict[str, Array] = {}
    for i in inputs:
        key = next((k for k in (PREFIX + i.name, i.name) if k in arrays), None)
        if key is None:
            expected = ", ".join(map(str, inputs))
            present = ", ".join(f"'{n}'" for n in arrays) or "no arrays"
            hint = f"expected {expected}; the file has {present}"
            raise GeError(f"input '{i.name}' is missing", str(path), hint)
        result[i.name] = array = arrays[key]
        check_array(i, array, str(path))
        if i.batch is not None:
            counts.setdefault(array.shape[i.batch], i.name)
    if len(counts) > 1:
        (a, first), (b, second) = list(counts.items())[:2]
        raise GeError(f"{a} samples of input '{first}', but {b} of '{second}'", str(path))
    if 0 in counts:
        raise GeError("there are no samples", str(path))
    return result


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


def check_array(i: Input, array: Array, path: str) -> None:
    if array.dtype != (dtype := dtype_of(i.type.element_type)):
        raise GeError(f"input '{i.name}' is {array.dtype}, not {dtype}", path)
    check_shape(i, array.shape, path)
    if kind_of(array.dtype) == "f" and array.size and not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        sample = "" if i.batch is None else f"sample {where[i.batch]} of "
        value = array[tuple(where)]
        raise GeError(f"{sample}input '{i.name}' has {value} at {where.tolist()}", path)
