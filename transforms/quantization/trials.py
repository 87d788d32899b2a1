"""Trials of a function's layers in several precisions on samples: the noise that each puts on the
outputs, and the time that it saves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support import diagnostics
from ge.dialects.support.types import byte_size, has_size, numel, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.runtime.data.accuracy import decibels, powers
from ge.runtime.data.arrays import Array, kind_of
from ge.runtime.library.asking import launch_us
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.calibrate import range_of
from ge.transforms.quantization.correct_bias import correct_bias
from ge.transforms.quantization.data import (
    Calibration,
    Samples,
    calibrating,
    calibration_at_hand,
)
from ge.transforms.quantization.layers import (
    Embedding,
    Layer,
    computed_outputs,
    embeddings,
    layers,
)
from ge.transforms.quantization.linear_layers import BITS, integers_us
from ge.transforms.quantization.lower_quantization import LowerQuantizationPass
from ge.transforms.quantization.noise import Arrays, total_noise
from ge.transforms.quantization.observe import ObservedOp, Observer, Watcher, canonical
from ge.transforms.quantization.schemes import Scheme
from ge.transforms.quantization.table import LayerFacts, Table
from ge.transforms.rewriting import remarks

SAMPLES = 256  # that outputs are judged on, at most
BYTES = 64 << 20  # that their outputs take, at most, where that is more than one chunk
ALONE = 32  # samples for the noise of each layer alone, at least

Insert = Callable[[FuncOp], object]  # brings a function into QDQ form


@dataclass
class Trials:
    """A function of floats, with what its layers are quantized by."""

    main: FuncOp
    given: Samples
    insert: Insert
    rounding: str = ""  # of sums to codes; that of the default target, where empty

    @cached_property
    def samples(self) -> Samples:
        """The samples that outputs are judged on."""
        size = sum(byte_size(v.type) for v in computed_outputs(self.main).values() if has_size(v))
        chunks = max(min(SAMPLES // self.given.chunk, BYTES // max(size, 1)), 1)
        return canonical(self.given).part(0, chunks * self.given.chunk)

    @cached_property
    def few(self) -> Samples:
        chunk = self.samples.chunk
        return self.samples.part(0, -(-ALONE // chunk) * chunk)

    @cached_property
    def layers(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in layers(self.main)}

    @cached_property
    def embeddings(self) -> dict[str, Embedding]:
        return {e.name: e for e in embeddings(self.main, list(self.layers.values()))}

    def op_of(self, name: str) -> Operation:
        """The op of a layer, or of an embedding."""
        return (self.layers.get(name) or self.embeddings[name]).op

    @cached_property
    def wanted(self) -> Arrays:
        """The outputs of the float model."""
        return outputs(self.main, self.samples)

    @cached_property
    def wanted_of_few(self) -> Arrays:
        return outputs(self.main, self.few)

    def whole_noise(self) -> float:
        """The noise of the outputs as part of their power, with all layers quantized."""
        return total_noise(self.wanted, self.outputs_of_integers({}))

    def outputs_of_integers(
        self, precisions: Mapping[str, str], samples: Samples | None = None
    ) -> Arrays:
        """Return the outputs of the quantized function in integers: their rounding differs from
        that of its simulation by half a decibel and more."""
        copy, _ = self.quantized(precisions, samples)
        module = ModuleOp([copy])
        with diagnostics.without_remarks(), remarks.collecting():
            LowerQuantizationPass(rounding=self.rounding).apply(Context(), module)
        return outputs(copy, samples or self.samples)

    def quantized(
        self, precisions: Mapping[str, str], samples: Samples | None = None
    ) -> tuple[FuncOp, dict[str, LayerFacts]]:
        """Return a copy, quantized except layers that have another precision, with biases corrected
        by these or all samples; and the precision of each layer."""
        before, copy = calibration_at_hand(), self.main.clone()
        table = Table(layers={**before.table.layers, **precisions})
        facts = {name: replace(f) for name, f in before.layers.items()}
        calibration = Calibration(table, samples or self.samples, kept=before.kept, layers=facts)
        with diagnostics.without_remarks(), remarks.collecting(), calibrating(calibration):
            self.insert(copy)
            correct_bias(copy, calibration)
        return copy, calibration.layers

    def value(self, accuracy: Accuracy, precisions: Mapping[str, str]) -> float:
        """Return the value of a metric of the outputs."""
        got = self.outputs_of_integers(precisions)
        return accuracy.value(self.wanted, got, self.samples.labels)

    def noise(self, precisions: Mapping[str, str]) -> float:
        """The noise of the outputs as part of their power, from a few of the samples."""
        copy, _ = self.quantized(precisions, self.few)
        return total_noise(self.wanted_of_few, outputs(copy, self.few))

    def left(self, precisions: Mapping[str, str]) -> dict[str, float]:
        """The dB that outputs of floats have with these precisions, on a few of the samples."""
        got = self.outputs_of_integers(precisions, self.few)
        floats = {n: a for n, a in self.wanted_of_few.items() if kind_of(a.dtype) == "f"}
        return {name: decibels(*powers(want, got[name])) for name, want in floats.items()}

    # ---- what the layers are like

    def accumulated(self, precisions: Mapping[str, str], facts: Mapping[str, LayerFacts]) -> None:
        """Add the noise of the results of layers where all that precede are quantized too, and the
        share of their inputs that ranges cut off."""
        copy, _ = self.quantized(precisions)
        twins = {layer.name: layer.op for layer in layers(copy)}
        both, total = Observer(self.main), Observer(copy)
        sums = {name: np.zeros(4) for name in facts if name in twins and name in self.layers}
        seen: dict[str, Array] = {}

        def watch(name: str, step: ObservedOp) -> None:
            bounds = range_of(self.layers[name].input)
            x, y = (
                array if (rows := step.chunk.rows(array)) is None else rows
                for array in (step.operands[self.layers[name].activations[0]], step.results[0])
            )
            seen[name] = y
            if bounds is not None:
                outside = np.count_nonzero((x < bounds[0]) | (x > bounds[1]))
                sums[name][2:] += np.array([outside, x.size])

        def compare(name: str, step: ObservedOp) -> None:
            rows = step.chunk.rows(step.results[0])
            got = step.results[0] if rows is None else rows
            sums[name][:2] += powers(seen.pop(name), got)

        samples = self.samples
        for first in range(0, samples.count, samples.chunk):
            part = samples.part(first, samples.chunk)
            both.run(part, {self.layers[n].op: cast(Watcher, partial(watch, n)) for n in sums})
            total.run(part, {twins[n]: cast(Watcher, partial(compare, n)) for n in sums})
        for name, (signal, noise, outside, count) in sums.items():
            facts[name].accumulated_db = decibels(signal, noise)
            if count:
                facts[name].saturated = outside / count
                facts[name].range = range_of(self.layers[name].input)


def outputs(main: FuncOp, samples: Samples) -> dict[str, Array]:
    """Return a function's outputs for samples, joined along the first dimension."""
    parts: dict[str, list[Array]] = {}
    watched: dict[Operation, dict[str, SSAValue]] = {}
    for name, value in computed_outputs(main).items():
        assert isinstance(value.owner, Operation)
        watched.setdefault(value.owner, {})[name] = value
        parts[name] = []

    def watch(step: ObservedOp) -> None:
        for name, value in watched[step.op].items():
            array = step.results[list(step.op.results).index(cast(Any, value))]
            rows = step.chunk.rows(array)
            parts[name].append(array if rows is None else np.concatenate(rows))

    Observer(main).run(samples, dict.fromkeys(watched, watch))
    return {name: np.concatenate([np.atleast_1d(a) for a in p]) for name, p in parts.items()}


def layer_us(layer: Layer, scheme: Scheme | None, target: Target) -> float:
    """Time of the launch of a layer alone, in floats without a scheme. Integer weights of a layer
    of floats save the time of their bytes."""
    if isinstance(layer.op, AttentionOp):
        is_integer = scheme is not None and scheme.activation_bits == BITS
        us = integers_us(layer.op, target) if is_integer else launch_us(layer.op, target)
        return us or 0.0
    op, operands, saved = layer.op, list(layer.op.operands[:2]), 0.0
    if scheme is not None and scheme.activation_bits:
        bits = [scheme.weight_bits if i == layer.weight else scheme.activation_bits for i in (0, 1)]
        types = [tensor(shape_of(v), IntegerType(b)) for v, b in zip(operands, bits, strict=True)]
        operands = list(Block(arg_types=types).args)
    elif scheme is not None and layer.weight is not None:
        weight = operands[layer.weight]
        left = numel(shape_of(weight)) * scheme.weight_bits / 8
        saved = (byte_size(weight.type) - left) / hbm_bytes_per_us(target.cube_cores, target)
    properties: dict[str, Any] = {**op.properties}
    us = launch_us(type(op).of(*operands, **properties), target) or 0.0
    return max(us - saved, target.launch_us)
