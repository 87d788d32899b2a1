"""Largest magnitudes of the float32 values of `@main`: of constants by their elements, of values
that depend on inputs by the calibration table, by samples or by random inputs."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from ge.dialects.graph.attention import AttentionLike
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, element_type, is_ranked
from ge.runtime.data.arrays import Array, dtype_of, float_limits, kind_of
from ge.transforms.precision.modes import Mode
from ge.transforms.quantization.data import Calibration, Samples
from ge.transforms.quantization.layers import ConstantValues, base_name, numbered, value_name
from ge.transforms.quantization.observe import ObservedOp, Observer
from ge.transforms.quantization.sources import inputs_of

FORMATS = {"f16": f16, "bf16": bf16}

DECISION = "refine-precision"
SCORES = "refine-precision-scores"

# How many times as large as on samples, and as on random inputs, values may get
MARGIN, RANDOM_MARGIN = 4.0, 16.0

LOUD = 256.0  # times as large as normally distributed inputs pixels of 8 bits may be
GROWTH = 8.0  # times as large is then what is not bounded


def is_f32(value: SSAValue) -> bool:
    return is_ranked(value) and element_type(value) == f32


def magnitude(array: Array) -> float:
    """The largest magnitude of the finite elements."""
    if not array.size:
        return 0.0
    largest = max(float(array.max()), -float(array.min()))
    if np.isfinite(largest):
        return largest
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def largest_score(op: AttentionLike, query: Array, key: Array) -> float:
    """A bound on the scores of attention: the product of the longest query and key."""
    longest = [
        float(np.sqrt(np.square(a, dtype=np.float64).sum(axis=-1).max(initial=0.0)))
        for a in (query, key)
    ]
    size = max(query.shape[-1], 1)
    return longest[0] * longest[1] * (size**-0.5 if op.scale is None else op.scale.value.data)


@dataclass
class Magnitudes:
    """Facts of the values of a function, before it is rewritten. `known`: largest magnitudes;
    `loud`: those with inputs that are `LOUD` times as large, where inputs are at random."""

    main: FuncOp
    calibration: Calibration
    mode: Mode
    constants: ConstantValues = field(init=False)
    known: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    fixed: dict[SSAValue, float | None] = field(default_factory=dict[SSAValue, float | None])
    scores: dict[AttentionLike, float] = field(default_factory=dict[AttentionLike, float])
    loud: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])

    def __post_init__(self) -> None:
        self.constants = ConstantValues(self.main.body.block)
        self.observer = Observer(self.main)
        self.element = FORMATS[self.mode.format]
        limits = float_limits(dtype_of(self.element))
        self.largest = float(limits.max)
        self.least = float(limits.smallest_normal)
        values = list(self._values())
        self._read(dict(zip(values, numbered(map(value_name, values)), strict=True)))

    @property
    def source(self) -> str:
        """Return where the magnitudes of values that depend on inputs come from."""
        if not self.known:
            return "none"
        return "random inputs" if self.calibration.estimated else "calibration"

    # ---- what depends on inputs

    def _values(self) -> Iterator[SSAValue]:
        block = self.main.body.block
        for value in (*block.args, *(r for op in block.ops for r in op.results)):
            if is_f32(value) and value not in self.constants:
                yield value

    def _read(self, names: dict[SSAValue, str]) -> None:
        table, samples = self.calibration.table, self.calibration.samples
        attentions = [op for op in self.main.body.block.ops if isinstance(op, AttentionLike)]
        titles = dict(zip(attentions, numbered(map(base_name, attentions)), strict=True))
        missing = [v for v, n in names.items() if table.vector(DECISION, n) is None]
        if missing and (samples := samples or self.calibration.random) is not None:
            self._observe(samples, missing, attentions, self.known)
            if self.calibration.samples is None and self.mode.has_less_range:
                with suppress(GeError):  # indices that are made of them may be out of bounds
                    self._observe(times(samples, LOUD), missing, (), self.loud)
            for value, number in self.known.items():
                loud = [self.loud[value]] if value in self.loud else []
                table.set_vector(DECISION, names[value], [number, *loud])
            for op, number in self.scores.items():
                table.set_vector(SCORES, titles[op], [number])
        for value, name in names.items():
            if (vector := table.vector(DECISION, name)) is not None:
                self.known[value] = vector[0]
                self.loud.update((value, number) for number in vector[1:2])
        for op, name in titles.items():
            if (vector := table.vector(SCORES, name)) is not None:
                self.scores[op] = vector[0]

    def _observe(
        self,
        samples: Samples,
        values: Collection[SSAValue],
        attentions: Collection[Operation],
        known: dict[SSAValue, float],
    ) -> None:
        wanted: dict[Operation, list[int]] = {}
        for value in values:
            if isinstance(value, OpResult):
                wanted.setdefault(value.op, []).append(value.index)
            else:
                arrays = samples.arrays.get(value_name(value))
                known[value] = 0.0 if arrays is None else magnitude(arrays)

        def watch(step: ObservedOp) -> None:
            for i in wanted.get(step.op, ()):
                value = step.op.results[i]
                known[value] = max(known.get(value, 0.0), magnitude(step.results[i]))
            if step.op in attentions and isinstance(step.op, AttentionLike):
                score = largest_score(step.op, *step.operands[:2])
                self.scores[step.op] = max(self.scores.get(step.op, 0.0), score)

        watchers: dict[Operation, Callable[[ObservedOp], object]] = dict.fromkeys(
            (*wanted, *attentions), watch
        )
        self.observer.run(samples, watchers)

    # ---- what is asked

    def constant(self, value: SSAValue) -> float | None:
        """The magnitude of a value that depends on constants only; None without the weights."""
        if value not in self.fixed:
            try:
                self.fixed[value] = magnitude(self.observer.constant(value))
            except GeError:
                self.fixed[value] = None
        return self.fixed[value]

    def loses_digits(self, value: SSAValue) -> bool:
        """Return whether rounding changes an element of a constant by more than codes of 8 bits
        differ; False without the weights."""
        try:
            wide = self.observer.constant(value).astype(np.float64)
        except GeError:
            return False
        narrow = wide.astype(dtype_of(self.element)).astype(np.float64)
        return bool((np.abs(narrow - wide) > np.abs(wide) * 2.0**-8).any())

    def misfit(self, value: SSAValue) -> str:
        """Return why a value does not fit the narrow format; empty if it does, or if that is not
        known."""
        if not self.mode.has_less_range:
            return ""
        fixed = value in self.constants
        largest = self.constant(value) if fixed else self.known.get(value)
        if largest is None:
            return ""
        margin = 1.0 if fixed else RANDOM_MARGIN if self.calibration.estimated else MARGIN
        what = f"'{name_of(value)}' reaches {largest:.4g}"
        what += " on random inputs" if self.calibration.estimated and not fixed else ""
        if largest * margin > self.largest:
            return f"{what}, {self.mode.format} {self.largest:.6g}"
        if (loud := self.loud.get(value, 0.0)) > self.largest:
            what = (
                f"'{name_of(value)}' reaches {loud:.4g} on inputs of {LOUD:g} times the deviation"
            )
            return f"{what} of random ones, {self.mode.format} {self.largest:.6g}"
        if 0.0 < largest < self.least:
            return f"{what} at most, and {self.mode.format} loses digits below {self.least:.2g}"
        return ""

    def grows(self, value: SSAValue) -> bool:
        """Return whether a value grows with inputs of which nothing is known."""
        loud = self.loud.get(value, 0.0)
        return self.calibration.estimated and loud > GROWTH * self.known.get(value, 0.0)


def times(samples: Samples, factor: float) -> Samples:
    """The samples, with floats so many times as large."""
    arrays = samples.arrays.items()
    larger = {n: a * a.dtype.type(factor) if kind_of(a.dtype) == "f" else a for n, a in arrays}
    return replace(samples, arrays=larger)


def name_of(value: SSAValue) -> str:
    """Return the name that people know: the key of a weight, else the name of what computes it."""
    op = value.owner
    if isinstance(op, ConstantOp) and op.key is not None:
        return op.key
    return value_name(value)


def random_samples(main: FuncOp, size: int = 1) -> Samples:
    """One sample of inputs: normally distributed floats, integers that are 0 or 1. Unknown
    dimensions except the batch have this size."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for i in inputs_of(main)[0]:
        sizes = enumerate(i.type.get_shape())
        shape = [d if d != DYNAMIC else 1 if axis == i.batch else size for axis, d in sizes]
        dtype = dtype_of(i.type.element_type)
        is_real = is_float(i.type.element_type)
        array = rng.standard_normal(shape) if is_real else rng.integers(0, 2, shape)
        arrays[i.name] = np.asarray(array).astype(dtype)
    return Samples(arrays, dict.fromkeys(arrays, None), 1, 1)
