"""Runs the block of `@main` on samples, op by op with the kernels of the runtime, and shows what
ops compute from what. A value is freed after its last use; what depends on constants only is
computed once; what nothing that is watched depends on is not computed.

Decisions about layers are judged by the error of their outputs. For that `LayerSamples` keeps of
their inputs, for each sample, the range of each channel, and a few rows of the matrix that the
layer multiplies:

    conv: patches [groups, samples, rows, channels * taps] times [groups, outputs, channels * taps]

A decision (factors for channels, a wider range) is made from some of the samples and judged on the
others: by the samples that it was made from alone, channels that are all as large as their largest
sample look best, and each new sample is cut off.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import Branching, LoopOp, branch_of
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.stated import is_seed
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.effort import effort_at_hand
from ge.dialects.support.element_types import element_named
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import element_type, numel, shape_of
from ge.runtime.data.arrays import Array, dense, type_of
from ge.runtime.data.weights import Payload, payload_at_hand
from ge.runtime.numbers.constants import Constants
from ge.transforms.graph.control_flow import end_of
from ge.transforms.graph.share_common_subexpressions import signature
from ge.transforms.quantization.channel_groups import input_axis, takes_factors
from ge.transforms.quantization.data import Calibration, Chunk, Samples, calibration_at_hand
from ge.transforms.quantization.emitting import by_float_group
from ge.transforms.quantization.layers import (
    ConstantValues,
    Layer,
    LayerOp,
    activations,
    argument_name,
    layers,
)
from ge.transforms.quantization.schemes import Scheme
from ge.transforms.rewriting.building import Make

Environment = dict[SSAValue, Array]

SHARED = 1 << 30  # bytes of computed weights that observers share, at most


@dataclass(frozen=True)
class ObservedOp:
    """Results of an op of `@main` for a chunk of samples."""

    op: Operation
    operands: Sequence[Array]
    results: Sequence[Array]
    chunk: Chunk


Watcher = Callable[[ObservedOp], object]


def both(
    first: Mapping[Operation, Watcher], then: Mapping[Operation, Watcher]
) -> dict[Operation, Watcher]:
    """Two sets of watchers as one; what the first changes of a result, the second see."""

    def joined(one: Watcher, other: Watcher) -> Watcher:
        def watch(step: ObservedOp) -> None:
            one(step)
            other(step)

        return watch

    shared = {op: joined(first[op], then[op]) for op in first if op in then}
    return {**first, **then, **shared}


def number_of(value: SSAValue) -> Hashable:
    """Equal for values that are computed from constants in the same way."""
    assert isinstance(value, OpResult)
    return signature(value.op, number_of), value.index


class Observer:
    """Evaluates the block of a function. Good for one state of its ops: make a new one after
    rewriting them."""

    def __init__(self, main: FuncOp, payload: Payload | None = None) -> None:
        self.main, self.block = main, main.body.block
        self.constants = ConstantValues(self.block)
        self._evaluated = Constants(payload_at_hand() if payload is None else payload)
        self._shared = calibration_at_hand().weights if payload is None else {}

    def constant(self, value: SSAValue) -> Array:
        """The elements of a value that depends on constants only, read-only. Raises GeError for a
        weight that the payload does not have. What is computed from weights is kept for other
        observers, as most of it is the same in all copies of a function that are tried."""
        if not isinstance(op := value.owner, Operation) or not op.operands:
            return self._evaluated.value(value)
        key = number_of(value)
        if (array := self._shared.get(key)) is None:
            array = self._evaluated.value(value)
            if sum(a.nbytes for a in self._shared.values()) + array.nbytes <= SHARED:
                self._shared[key] = array
        return array

    def compute(self, op: Operation, operands: Sequence[Array]) -> list[Array]:
        """The results of an op without regions for other operands. Raises GeError where it cannot
        be computed."""
        return self._evaluated.compute(op, operands)

    def run(self, samples: Samples, watchers: Mapping[Operation, Watcher]) -> None:
        """Show each watcher its op, once for each chunk of samples. Raises GeError where an op
        cannot be computed, TimeIsUp as `Effort.check` does."""
        ops, known = self._needed(watchers), effort_at_hand()
        uses = Counter(v for op in ops for v in _read(op))
        for chunk in samples.chunks():
            values: Environment = {
                arg: chunk.inputs[argument_name(arg)]
                for arg in self.block.args
                if argument_name(arg) in chunk.inputs
            }
            values |= {arg: np.array([0, chunk.first]) for arg in self.block.args if is_seed(arg)}
            left = uses.copy()
            for op in ops:
                known.check()
                operands = [self._value(o, values) for o in op.operands]
                watch = watchers.get(op)
                last = [] if watch else [i for i, o in enumerate(op.operands) if left[o] == 1]
                results = self._run(op, operands, values, last)
                if watch is not None:
                    watch(ObservedOp(op, operands, results, chunk))
                values.update(zip(op.results, results, strict=True))
                for value in _read(op):
                    left[value] -= 1
                    if not left[value]:
                        values.pop(value, None)
                for result in op.results:
                    if not left[result]:
                        del values[result]
                del results  # the next op may compute in them

    def _needed(self, watchers: Iterable[Operation]) -> list[Operation]:
        needed, stack = set[Operation](), list(watchers)
        while stack:
            op = stack.pop()
            if op not in needed:
                needed.add(op)
                owners = (v.owner for v in _read(op) if v not in self.constants)
                stack += [o for o in owners if isinstance(o, Operation) and o.parent is self.block]
        return [op for op in self.block.ops if op in needed]

    def _value(self, value: SSAValue, values: Environment) -> Array:
        return values[value] if value in values else self.constant(value)

    def _run(
        self,
        op: Operation,
        operands: Sequence[Array],
        values: Environment,
        last: Sequence[int] = (),
    ) -> list[Array]:
        """The results of an op, which is the last that reads these of its operands."""
        if isinstance(op, ConstantOp):
            return [self._evaluated.constant(op)]
        if isinstance(op, Branching):
            return self._branch(op, values)
        if isinstance(op, LoopOp):
            return self._loop(op, values)
        spare = next((i for i in last if is_spare(op, i, operands)), -1)
        return self._evaluated.compute(op, operands, spare)

    # ---- branches and loops

    def _inside(self, block: Block, values: Environment) -> list[Array]:
        """The values that a block yields; `values` has its arguments and all around it."""
        inner = dict(values)
        for op in block.ops:
            if op is not block.last_op:
                operands = [self._around(o, inner) for o in op.operands]
                inner.update(zip(op.results, self._run(op, operands, inner), strict=True))
        return [self._around(v, inner) for v in end_of(block).operands]

    def _around(self, value: SSAValue, values: Environment) -> Array:
        if value in values or value in self.constants:
            return self._value(value, values)
        op = value.owner  # a constant in a branch or loop
        assert isinstance(op, ConstantOp)
        return self._evaluated.constant(op)

    def _branch(self, op: Branching, values: Environment) -> list[Array]:
        taken = int(self._around(op.operands[0], values).item())
        if (region := branch_of(op, taken)) is None:
            raise GeError(f"there is no branch {taken}", str(location_of(op)))
        return self._inside(region.block, values)

    def _loop(self, op: LoopOp, values: Environment) -> list[Array]:
        def known(value: SSAValue | None) -> Any:
            return None if value is None else self._around(value, values).item()

        limit, holds = known(op.trip_count), known(op.condition)
        going = np.array(holds is None or bool(holds))
        state = [self._around(v, values) for v in op.carried]
        scans: list[list[Array]] = [[] for _ in op.results[len(state) :]]
        for i in count() if limit is None else range(limit):
            if not going.item():
                break
            state = [np.array(i, np.int64), going, *state]
            arguments = dict(zip(op.body.block.args, state, strict=True))
            yielded = self._inside(op.body.block, values | arguments)
            going, state = yielded[0], yielded[1 : len(op.carried) + 1]
            for scan, array in zip(scans, yielded[len(op.carried) + 1 :], strict=True):
                scan.append(array)
        if any(not scan for scan in scans):
            raise GeError("a loop without rounds has no slices", str(location_of(op)))
        return [*state, *(np.stack(scan) for scan in scans)]


HELD = 3  # references to an array: of the values, of an op's operands, and of who asks


def is_spare(op: Operation, index: int, operands: Sequence[Array]) -> bool:
    """Return whether the result of an op has the shape and type of this operand, whose array nobody
    holds but the observer. New memory takes longer than what is computed there."""
    array = operands[index]
    shapes = {a.shape for a in operands} - {()}
    types = {element_type(v) for v in (op.operands[index], *op.results)}
    own = array.base is None and array.flags.writeable and array.flags.c_contiguous
    return own and len(shapes) == len(types) == 1 and sys.getrefcount(array) == HELD + 1


def _read(op: Operation) -> list[SSAValue]:
    """The values that an op reads, those in its regions included."""
    if not op.regions:
        return list(op.operands)
    return [v for inner in op.walk() for v in inner.operands]


# ---- figures that do not depend on the order of samples ----------------------------------------


def exact_sum(parts: Iterable[Array]) -> Array:
    """The sum of arrays of one shape in float64, rounded once: the same in any order."""
    stacked = np.stack([np.asarray(p, np.float64) for p in parts])
    columns = stacked.reshape(len(stacked), -1).T
    return np.array([math.fsum(c) for c in columns]).reshape(stacked.shape[1:])


FOLDS = 4  # parts of the samples; each is judged by what the others decide

SAMPLES = 256  # that decisions are judged on, at most

ROWS = 512  # of a layer over these samples, at most (one for each sample at least)

OUTPUTS = 128  # channels of a layer's output that are judged, at most

BYTES = 64 << 20  # that the rows of all layers take, at most


# ---- quantized and back ------------------------------------------------------------------------


def rounded_activation(x: Array, low: float, high: float, bits: int) -> Array:
    """Elements as they come back from integers over a range."""
    low, high = min(low, 0.0), max(high, 0.0)
    levels = 2**bits - 1
    scale = np.float32((high - low) / levels) or np.float32(1)
    zero = np.float32(np.rint(-low / scale))
    y = np.rint(x / scale)
    y += zero
    np.clip(y, 0, levels, out=y)
    y -= zero
    y *= scale
    return y


def rounded_weight(matrix: Array, scheme: Scheme, tied: int = 1) -> Array:
    """A weight [groups, outputs, inputs] as it comes back from integers; `tied` outputs share a
    scale."""
    if scheme.block and scheme.is_float:
        return _rounded_floats(matrix, scheme)
    if scheme.block:
        return _rounded_blocks(matrix, scheme.block, 2**scheme.weight_bits - 1)
    most = np.float32(2 ** (scheme.weight_bits - 1) - 1)
    parts = matrix.reshape(len(matrix), -1, tied * matrix.shape[2])
    scale = np.abs(parts).max(-1, keepdims=True) / most
    scale[scale == 0] = 1
    return (np.rint(parts / scale) * scale).reshape(matrix.shape)


def _rounded_blocks(matrix: Array, block: int, levels: int) -> Array:
    count = matrix.shape[-1]
    padded = np.pad(matrix, ((0, 0), (0, 0), (0, -count % block)))
    parts = padded.reshape(*matrix.shape[:2], -1, block)
    low = np.minimum(parts.min(-1, keepdims=True), 0)
    scale = (np.maximum(parts.max(-1, keepdims=True), 0) - low) / np.float32(levels)
    scale[scale == 0] = 1
    zero = np.rint(-low / scale)
    back = (np.clip(np.rint(parts / scale) + zero, 0, levels) - zero) * scale
    return back.reshape(padded.shape)[..., :count]


def _rounded_floats(matrix: Array, scheme: Scheme) -> Array:
    """Compute what the ops do that insert-quantization emits."""
    weight = ConstantOp.make(dense(matrix), type_of(matrix))
    end = weight.clone()
    block = Block([weight, end])
    emit, scale = Make(end), element_named(scheme.scale)
    axis = matrix.ndim - 1
    back = by_float_group(emit, weight.result, axis, scheme.block, scale, lambda _: False)
    rounded = Constants(None).value(back)
    block.erase()
    return rounded


# ---- one layer ---------------------------------------------------------------------------------


@dataclass
class LayerSamples:
    """Samples kept of one layer.

    `input`: name of its input; `bounds`: the least and largest element of each channel over all
    samples; `low`, `high`: the same for some samples, [samples, channels]; `rows`: [groups,
    samples, rows, channels of a group * taps], channels first; `weight`: [groups, outputs, the
    same]; `tied` outputs share a scale."""

    layer: Layer
    input: str
    bounds: tuple[Array, Array]
    low: Array
    high: Array
    rows: Array
    weight: Array
    tied: int = 1
    step: int = 1  # each how many outputs of a group are judged
    outputs: Array = field(init=False)
    power: float = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = np.matmul(self.flat(self.rows), self.weight.swapaxes(1, 2))
        self.power = _power(self.outputs)

    def flat(self, rows: Array) -> Array:
        return rows.reshape(len(rows), -1, rows.shape[-1])

    def spread(self, factors: Array) -> Array:
        """Factors for each channel as [groups, 1, inputs]."""
        by_group = factors.reshape(len(self.rows), 1, -1)
        return np.repeat(by_group, self.rows.shape[-1] // by_group.shape[-1], -1)

    def divide(self, factors: Array) -> None:
        """The same layer, with its input divided and its weight multiplied by factors."""
        self.low, self.high = self.low / factors, self.high / factors
        self.bounds = self.bounds[0] / factors, self.bounds[1] / factors
        self.rows = self.rows / self.spread(factors)[:, None]
        self.weight = self.weight * self.spread(factors)

    def divide_outputs(self, factors: Array) -> None:
        """The same layer, with its weight divided by factors for its outputs."""
        groups = len(self.weight)
        picked = np.repeat(factors.reshape(groups, 1, -1)[..., :: self.step], self.tied, -1)
        self.weight = self.weight / picked.swapaxes(1, 2)
        self.outputs = self.outputs / picked
        self.power = _power(self.outputs)

    def ranges(self, chosen: NDArray[np.bool_]) -> tuple[Array, Array]:
        return self.low[chosen].min(0), self.high[chosen].max(0)

    def errors(
        self,
        judged: NDArray[np.bool_],
        ranges: Sequence[tuple[float, float]],
        scheme: Scheme,
        factors: Array | None = None,
    ) -> list[float]:
        """The power of the error of the outputs on the judged samples, as part of the power of all
        outputs, for each of these ranges of the (divided) input."""
        rows, weight = self.flat(self.rows[:, judged]), self.weight
        if factors is not None:
            spread = self.spread(factors)
            rows, weight = rows / spread, weight * spread
        if scheme.block and not isinstance(self.layer.op, MatmulOp):
            scheme = replace(scheme, weight_bits=8, block=0, is_float=False)
        weight = rounded_weight(weight, scheme, self.tied).swapaxes(1, 2)
        shape = (len(rows), *self.rows.shape[1:3], -1)
        outputs = self.outputs.reshape(shape)[:, judged].reshape(*rows.shape[:2], -1)
        errors: list[float] = []
        for low, high in ranges:
            x = rows
            if scheme.activation_bits:
                x = rounded_activation(rows, low, high, scheme.activation_bits)
            difference = np.matmul(x, weight) - outputs
            errors.append(float(np.square(difference).sum(dtype=np.float64)) / self.power)
        return errors


def _power(outputs: Array) -> float:
    return float(np.square(outputs).sum(dtype=np.float64)) or 1.0


# ---- collecting --------------------------------------------------------------------------------


def folds(count: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield which samples decide, and which are judged; a single sample is both."""
    parts = min(FOLDS, count)
    part = np.arange(count) % parts
    for i in range(parts):
        yield (part != i if parts > 1 else part == 0), part == i


def whole_matrix(op: LayerOp, weight: Array) -> tuple[Array, int]:
    """A weight as [groups, outputs, inputs], and how many outputs in a row share a scale."""
    if isinstance(op, MatmulOp):
        return (weight if op.transpose_rhs.value.data else weight.T)[None], 1
    if isinstance(op, ConvOp):
        return weight.reshape(op.groups, weight.shape[0] // op.groups, -1), 1
    matrix = weight.reshape(op.groups, -1, weight[0].size).swapaxes(1, 2)
    return matrix, weight[0, 0].size


def matrix_of(op: LayerOp, weight: Array) -> tuple[Array, int, int]:
    """A weight as above with some of its outputs, each how many it has, and how many in a row share
    a scale."""
    matrix, taps = whole_matrix(op, weight)
    groups, outputs, inputs = matrix.shape
    outputs //= taps
    step = min(-(-groups * outputs // OUTPUTS), outputs)
    picked = matrix.reshape(groups, outputs, taps, inputs)[:, ::step]
    return np.ascontiguousarray(picked).reshape(groups, -1, inputs), step, taps


def row_count(op: LayerOp) -> int:
    """Return how many numbers a row of the matrix has that a layer multiplies, over all groups."""
    if isinstance(op, ConvOp):
        return op.groups * numel(shape_of(op.weight)[1:])
    return shape_of(op.operands[0])[input_axis(op)] if isinstance(op, MatmulOp) else 0


def rows_of(op: LayerOp, x: Array, count: int) -> Array:
    """Some rows of each sample, evenly spread: [groups, samples, rows, inputs] of [samples, parts,
    ...]."""
    if isinstance(op, ConvOp):
        return _patches(op, x, count)
    axis = -1 if isinstance(op, MatmulOp) else input_axis(op) + 1
    points = np.moveaxis(x, axis, -1)
    points = points.reshape(len(x), -1, points.shape[-1])
    groups = 1 if isinstance(op, MatmulOp) else op.groups
    picked = points[:, evenly(points.shape[1], count)]
    return np.moveaxis(picked.reshape(*picked.shape[:2], groups, -1), 2, 0)


def _patches(op: ConvOp, x: Array, count: int) -> Array:
    x = np.moveaxis(x, op.channel_axis + 1, 2)
    window = op.window().resolved(x.shape[3:])
    places = window.output(x.shape[3:])
    begins, ends = window.pads[: window.rank], window.pads[window.rank :]
    x = np.pad(x, ((0, 0), (0, 0), (0, 0), *zip(begins, ends, strict=True)))
    patches: list[Array] = []
    chosen = evenly(x.shape[1] * prod(places), count)
    for part, *position in np.stack(np.unravel_index(chosen, (x.shape[1], *places)), 1).tolist():
        taps = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, s, k, d in zip(
                position, window.strides, window.kernel, window.dilations, strict=True
            )
        )
        patches.append(x[(slice(None), part, slice(None), *taps)].reshape(len(x), op.groups, -1))
    return np.stack(patches, 1).transpose(2, 0, 1, 3)


def evenly(total: int, count: int) -> NDArray[np.int64]:
    count = min(total, count)
    return (np.arange(count) * 2 + 1) * total // (2 * count)


class _Collector:
    """Sees the input of a layer chunk by chunk."""

    def __init__(self, layer: Layer, name: str, rows: int) -> None:
        self.layer, self.name, self.count = layer, name, rows
        self.low: list[Array] = []
        self.high: list[Array] = []
        self.rows: list[Array] = []
        self.bounds: list[tuple[Array, Array]] = []  # of each chunk
        self.seen = 0

    def watch(self, step: ObservedOp) -> None:
        x, first = step.chunk.rows(step.operands[0]), self.seen
        self.seen += step.chunk.count
        axis = input_axis(self.layer.linear) + 1
        if x is None or axis == 1 or not x.size:  # 1: the batch is not the first dimension
            return
        others = tuple(i for i in range(1, x.ndim) if i != axis)
        low, high = x.min(others), x.max(others)
        if first < SAMPLES:
            self.low.append(low)
            self.high.append(high)
            self.rows.append(rows_of(self.layer.linear, x, self.count))
        self.bounds.append((low.min(0), high.max(0)))

    def samples(self, weight: Array) -> LayerSamples | None:
        if not self.rows:
            return None
        least, most = (np.stack(b) for b in zip(*self.bounds, strict=True))
        bounds = least.min(0), most.max(0)
        if not all(np.isfinite(b).all() for b in bounds):
            return None
        low, high = np.concatenate(self.low), np.concatenate(self.high)
        matrix, step, tied = matrix_of(self.layer.linear, weight)
        rows = np.concatenate(self.rows, 1)
        return LayerSamples(self.layer, self.name, bounds, low, high, rows, matrix, tied, step)


class Collecting:
    """Collects samples of each layer that has a weight, and an input with the batch first, while
    `count` samples run in canonical order, at once or in parts."""

    def __init__(self, observer: Observer, count: int) -> None:
        self.observer, found = observer, layers(observer.main)
        names = activations(found)
        found = [layer for layer in found if takes_factors(layer.op, observer.constants)]
        count = min(count, SAMPLES)
        size = 4 * count * sum(max(row_count(layer.linear), 1) for layer in found)
        rows = max(min(ROWS // count, BYTES // max(size, 1)), 1)
        self._of = {layer.linear: _Collector(layer, names[layer.input], rows) for layer in found}

    @property
    def watchers(self) -> dict[Operation, Watcher]:
        return {op: collector.watch for op, collector in self._of.items()}

    def layers(self) -> dict[LayerOp, LayerSamples]:
        constant = self.observer.constant
        results = {op: c.samples(constant(op.operands[1])) for op, c in self._of.items()}
        return {op: r for op, r in results.items() if r is not None}

    def keep(self, calibration: Calibration) -> None:
        """Keep the samples of layers for the passes that follow."""
        calibration.observed = Observed({*self._of}, self.layers())


def collect(main: FuncOp, samples: Samples) -> dict[LayerOp, LayerSamples]:
    """Samples of layers, from a run of their own."""
    collecting = Collecting(observer := Observer(main), samples.count)
    observer.run(samples.canonical, collecting.watchers)
    return collecting.layers()


def layer_samples(main: FuncOp, calibration: Calibration) -> dict[LayerOp, LayerSamples]:
    """The samples of the layers of `main` in its present form: passes that rewrite layers keep
    those at hand up to date, so that the model runs once for all of them, and for ranges too."""
    assert calibration.samples is not None
    constants = ConstantValues(main.body.block)
    ops = {layer.linear for layer in layers(main) if takes_factors(layer.op, constants)}
    if not isinstance(calibration.observed, Observed) or calibration.observed.ops != ops:
        calibration.observed = Observed(ops, collect(main, calibration.samples))
    return calibration.observed.layers


@dataclass(frozen=True)
class Observed:
    ops: set[LayerOp]
    layers: dict[LayerOp, LayerSamples]
