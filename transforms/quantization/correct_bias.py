"""Take the mean error of each output channel of a quantized layer from its bias.

    %0 = graph.conv %d, %wd bias %b        ->     %0 = graph.conv %d, %wd bias (%b + c)
    %1 = graph.matmul %d, %wd              ->     %2 = graph.matmul %d, %wd
                                                  %1 = graph.add %2, c

Rounding of weights shifts the mean of what a layer returns (Nagel et al., arXiv 1906.04721). c is
the mean over calibration data of the float layer's output less that of the quantized one. Inputs of
the quantized layer come from the layers before it, quantized and corrected as well, so errors do
not add up. The pass runs on QDQ form, whose float model is what is left without its pairs of
quantize and dequantize. A mean that may be chance, by how samples differ, counts in part or not.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BoolAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.support.effort import effort_at_hand, unlimited
from ge.dialects.support.types import element_type, shape_of
from ge.runtime.data.arrays import Array, dtype_of
from ge.transforms.graph.control_flow import constant_before, insert_before, replace_op
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.data import Calibration, Chunk, Samples
from ge.transforms.quantization.layers import ConstantValues, Layer, LayerOp, layers, output_axis
from ge.transforms.quantization.observe import ObservedOp, Observer, Watcher, both
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.passes import Relation, Unbounded

NAME = "correct-bias"
SAMPLES = 64  # that means are taken over, at least if there are so many

Means = NDArray[np.float64]


def is_quantized(layer: Layer) -> bool:
    return isinstance(layer.op, LayerOp) and any(
        isinstance(v.owner, g.DequantizeOp) for v in layer.op.operands[:2]
    )


# ---- measuring ---------------------------------------------------------------------------------


def float_model(main: FuncOp) -> FuncOp:
    """The function without its pairs of quantize and dequantize."""
    clone = main.clone()
    for op in list(clone.body.block.ops):
        if isinstance(op, g.DequantizeOp) and isinstance(pair := op.input.owner, g.QuantizeOp):
            op.result.replace_all_uses_with(pair.input)
        elif isinstance(op, g.AttentionOp):
            op.rounded_weights = BoolAttr.from_bool(False)
        elif isinstance(op, g.Recurrent):
            op.state_scale = None
    return clone


def channel_means(op: Operation, chunk: Chunk, result: Array) -> Means | None:
    """The mean of each output channel for each sample of a chunk: [samples, channels]."""
    rows = chunk.rows(result)
    if rows is None or not rows.size:
        return None
    axis = output_axis(op) + 1
    return rows.mean(tuple(i for i in range(1, rows.ndim) if i != axis), dtype=np.float64)


@dataclass
class Estimate:
    """The mean of vectors, and the squares of their distances from it."""

    count: int = 0
    mean: Means | float = 0.0
    squares: Means | float = 0.0

    def add(self, vectors: Means) -> None:
        count, mean = len(vectors), vectors.mean(0)
        total = self.count + count
        distance = mean - self.mean
        within = np.square(vectors - mean).sum(0)
        self.squares += within + np.square(distance) * (self.count * count / total)
        self.mean += distance * (count / total)
        self.count = total

    def shrunk(self) -> Means:
        """The mean, less what may be chance: its variance as part of its square. One vector says
        nothing."""
        mean = np.asarray(self.mean)
        if self.count < 2:
            return 0 * mean
        variance = self.squares / (self.count * (self.count - 1))
        power = np.square(mean)
        return mean * np.maximum(1 - np.divide(variance, power, where=power > 0, out=0 * mean), 0)


class Targets(dict[tuple[str, int], Means]):
    """The means of the results of layers of floats, by layer and first sample of a chunk."""

    def watchers(self, main: FuncOp) -> dict[Operation, Watcher]:
        found = (layer for layer in layers(main) if isinstance(layer.op, LayerOp))
        return {layer.op: partial(self._watch, layer.name) for layer in found}

    def _watch(self, name: str, step: ObservedOp) -> None:
        means = channel_means(step.op, step.chunk, step.results[0])
        if means is not None and np.isfinite(means).all():
            self[name, step.chunk.first] = means


class _Corrections:
    """The correction of each quantized layer: the mean over samples. Each chunk is run with the
    corrections as they are after those before it (and after this one, for layers before)."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self.estimates: dict[str, Estimate] = {}

    def watch_quantized(self, name: str, step: ObservedOp) -> None:
        means = channel_means(step.op, step.chunk, step.results[0])
        target = self.targets.get((name, step.chunk.first))
        if means is None or target is None:
            return
        estimate = self.estimates.setdefault(name, Estimate())
        estimate.add(target - means)
        result = step.results[0]  # fresh: the layers behind see it corrected
        shape = [-1, *[1] * (result.ndim - 1 - output_axis(step.op))]
        result += estimate.shrunk().reshape(shape).astype(result.dtype)


def corrections(
    main: FuncOp,
    samples: Samples,
    targets: Targets | None = None,
    others: Mapping[Operation, Watcher] | None = None,
    floats: FuncOp | None = None,
) -> dict[str, Means]:
    """The correction of each quantized layer that has weights, by its name. `targets`: of the
    float model, where they are known; `others` see the corrected run too. `floats`: the model of
    floats, where `main` may not have its weights."""
    samples = samples.canonical.first(SAMPLES)
    quantized = {layer.op: layer.name for layer in layers(main) if is_quantized(layer)}
    if targets is None and quantized:
        reference, targets = floats or float_model(main), Targets()
        Observer(reference).run(samples, targets.watchers(reference))
    result = _Corrections(targets or Targets())
    watchers: dict[Operation, Watcher] = {
        op: partial(result.watch_quantized, name) for op, name in quantized.items()
    }
    if watchers := both(watchers, others or {}):
        Observer(main).run(samples, watchers)
    return {name: estimate.shrunk() for name, estimate in result.estimates.items()}


# ---- the rewrite -------------------------------------------------------------------------------


def add_to_output(op: LayerOp, vector: Array, constants: Container[SSAValue]) -> None:
    """Add a number to each output channel of a layer: to its bias, if it has one."""
    vector = vector.astype(dtype_of(element_type(op.result)))
    if isinstance(op, g.MatmulOp):
        user = next(iter(op.result.uses)).operation if op.result.has_one_use() else None
        if isinstance(user, g.AddOp) and (i := _bias_index(user, len(vector), constants)) >= 0:
            add_constant(user, i, vector)
            return
        total = g.AddOp.of(op.result, op.result, location=op.location)
        assert op.parent is not None
        op.parent.insert_op_after(total, op)
        op.result.replace_uses_with_if(total.result, lambda use: use.operation is not total)
        total.operands[1] = constant_before(total, vector)
    elif op.bias is not None:
        add_constant(op, 2, vector)
    else:
        bias = constant_before(op, vector)
        properties: dict[str, Any] = {**op.properties}
        new = insert_before(op, type(op).of(op.input, op.weight, bias, **properties))
        replace_op(op, [new.result])


def _bias_index(op: g.AddOp, count: int, constants: Container[SSAValue]) -> int:
    """Return which operand of a sum is a constant vector along its last axis; -1 if none is."""
    fits = (v in constants and shape_of(v) == (count,) for v in op.operands)
    return next((i for i, is_bias in enumerate(fits) if is_bias), -1)


def add_constant(op: Operation, index: int, vector: Array) -> None:
    value = op.operands[index]
    op.operands[index] = insert_before(op, g.AddOp.of(value, constant_before(op, vector))).result


def correct_bias(
    main: FuncOp,
    calibration: Calibration,
    targets: Targets | None = None,
    others: Mapping[Operation, Watcher] | None = None,
) -> None:
    """Apply the corrections that the table has; with samples, those that are missing are made, as
    `corrections` does, and added to it."""
    table = calibration.table
    quantized = [layer for layer in layers(main) if is_quantized(layer)]
    vectors = {layer.name: table.vector(NAME, layer.name) for layer in quantized}
    if calibration.samples is not None and None in vectors.values():
        floats = calibration.floats if table.fitted else None  # weights are other ones
        found = corrections(main, calibration.samples, targets, others, floats)
        for name, means in found.items():
            vectors[name] = table.set_vector(NAME, name, means)
    constants = ConstantValues(main.body.block)
    for layer in quantized:
        vector = vectors[layer.name]
        op = layer.linear
        if vector is not None and len(vector) == shape_of(op.result)[output_axis(op)]:
            add_to_output(op, np.array(vector), constants)
            remarks.applied(NAME, layer.op, f"'{layer.name}', {len(vector)} channels")


class CorrectBiasPass(CalibratedPass):
    """Correct the biases of quantized layers.
    `data`: a file with samples (.npz) or a table (.toml), else what is at hand."""

    name = NAME
    RELATION: ClassVar[Relation] = Unbounded()

    def run_within(self, main: FuncOp, calibration: Calibration) -> None:
        """Correct biases in any case: where time is up, by one chunk of samples."""
        some, known = calibration.samples, effort_at_hand()
        if some is not None and known.is_over():
            known.undone.append(self.name)
            some = some.canonical.first(1)
        with unlimited():
            self.run(main, replace(calibration, samples=some))

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        correct_bias(main, calibration)
