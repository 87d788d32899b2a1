"""Trials: what passes of quantization decide from samples, they decide here.

A *candidate* is a change to the function or to the table: a factor of a range, powers of channels,
the precision of a layer. A *measure* is the error that it leaves: `fold_errors`, at the outputs of
the layers that read a value, on samples that had no part in the candidate; `Trials`, at the outputs
of the model, in simulated integers (`noise`) or in those that will run (`value`, `left`). A
*decision* keeps the first candidate, which is what there is without a trial, unless another has
clearly less error. What a new choice needs is its list of candidates and one of these measures.
"""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support import diagnostics
from ge.dialects.support.effort import TimeIsUp, effort_at_hand
from ge.dialects.support.types import byte_size, has_size, numel, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.runtime.data.accuracy import (
    Arrays,
    are_finite,
    decibels,
    decibels_of,
    powers,
    total_noise,
)
from ge.runtime.data.arrays import Array, kind_of
from ge.runtime.library.asking import launch_us
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.calibrate import range_of
from ge.transforms.quantization.correct_bias import NAME as CORRECT_BIAS
from ge.transforms.quantization.correct_bias import SAMPLES as CORRECTED
from ge.transforms.quantization.correct_bias import Targets, correct_bias
from ge.transforms.quantization.data import (
    Calibration,
    Samples,
    calibrating,
    calibration_at_hand,
)
from ge.transforms.quantization.insert_quantization import insert_quantization
from ge.transforms.quantization.layers import (
    Embedding,
    Layer,
    LayerOp,
    activations,
    base_name,
    computed_outputs,
    embeddings,
    layers,
)
from ge.transforms.quantization.linear_layers import BITS, integers_us
from ge.transforms.quantization.lower_quantization import LowerQuantizationPass
from ge.transforms.quantization.observe import (
    LayerSamples,
    ObservedOp,
    Observer,
    Watcher,
    both,
    folds,
)
from ge.transforms.quantization.schemes import FLOAT, Scheme
from ge.transforms.quantization.table import LayerFacts, Range, Table
from ge.transforms.rewriting import remarks

SAMPLES = 256  # that outputs are judged on, at most
BYTES = 64 << 20  # that their outputs take, at most, where that is more than one chunk
ALONE = 32  # samples for the noise of each layer alone, at least
MOST_ALONE = 8  # layers that are tried alone to say which cost most

LEAST_GAIN = 0.98  # of the error of layers without a change: more is not worth one

Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Decision(Generic[Candidate]):
    """The candidate that was chosen. `before`: the error of the first one; `after`: its own."""

    chosen: Candidate
    before: float
    after: float

    @property
    def gain(self) -> float:
        """Return by how many dB the error is less than with the first candidate."""
        return decibels(self.before, self.after)


def decide(
    candidates: Sequence[Candidate], errors: Sequence[float], share: float = 1.0
) -> Decision[Candidate]:
    """Choose the first candidate, or the best other one that has less than a share of its error."""
    best = min(range(1, len(errors)), key=errors.__getitem__)
    best = best if errors[best] < errors[0] * share else 0
    return Decision(candidates[best], errors[0], errors[best])


def tried(
    candidates: Iterable[Candidate],
    change: Callable[[Candidate], object],
    measure: Callable[[], float],
    share: float = 1.0,
) -> Decision[Candidate]:
    """Make the change of each candidate in turn, measure it, and decide. A candidate is asked for
    when those before it were measured. Where time is up, those stand for all; raises TimeIsUp where
    they are less than two."""
    seen, errors = list[Candidate](), list[float]()
    for candidate in candidates:
        change(candidate)
        try:
            errors.append(measure())
        except TimeIsUp:
            if len(errors) < 2:
                raise
            effort_at_hand().undone.append(f"candidates for ranges after the first {len(errors)}")
            break
        seen.append(candidate)
    return decide(seen, errors, share)


Attempt = tuple[Sequence[Range], Array | None]  # ranges of a layer's input, divided by factors


def fold_errors(
    users: Sequence[LayerSamples],
    scheme: Scheme,
    attempts: Callable[[NDArray[np.bool_]], Iterable[Attempt]],
) -> NDArray[np.float64]:
    """The errors [layer, range] of the outputs of layers that read one value, each judged on
    samples that had no part in what is attempted for the layers."""
    return np.sum(
        [
            [
                user.errors(judged, ranges, scheme, factors)
                for user, (ranges, factors) in zip(users, attempts(others), strict=True)
            ]
            for others, judged in folds(len(users[0].low))
        ],
        0,
    )


@dataclass
class Trials:
    """A function of floats, with what its layers are quantized by."""

    main: FuncOp
    given: Samples
    scheme: Scheme
    target: Target
    skip: Sequence[str] = ()
    symmetric: bool = True
    corrections: dict[object, dict[str, list[float]]] = field(
        default_factory=dict[object, dict[str, list[float]]], init=False, compare=False
    )  # of biases, by what they were made from
    noises: dict[object, float] = field(
        default_factory=dict[object, float], init=False, compare=False
    )  # of outputs, by the same

    @cached_property
    def samples(self) -> Samples:
        """The samples that outputs are judged on."""
        size = sum(byte_size(v.type) for v in computed_outputs(self.main).values() if has_size(v))
        chunks = max(min(SAMPLES // self.given.chunk, BYTES // max(size, 1)), 1)
        return self.given.canonical.part(0, chunks * self.given.chunk)

    @cached_property
    def few(self) -> Samples:
        return self.samples.first(ALONE)

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
    def floats(self) -> tuple[Arrays, Targets]:
        """The outputs of the float model for a few of the samples, and what biases are corrected
        by."""
        return self.with_floats({})

    def with_floats(self, watchers: Mapping[Operation, Watcher]) -> tuple[Arrays, Targets]:
        """The same; others watch the run too."""
        targets = Targets()
        own = both(targets.watchers(self.main), watchers)
        return outputs(self.main, self.few, own), targets

    def watch_all(self, watchers: Mapping[Operation, Watcher]) -> None:
        """Show all samples to watchers of the float model."""
        if self.few.count == self.given.count and "floats" not in vars(self):
            self.floats = self.with_floats(watchers)
        else:
            Observer(self.main).run(self.given.canonical, watchers)

    @property
    def wanted_of_few(self) -> Arrays:
        return self.floats[0]

    def outputs_of_integers(
        self, precisions: Mapping[str, str], samples: Samples | None = None
    ) -> Arrays:
        """Return the outputs of the quantized function in integers."""
        return outputs(self.integers(precisions, samples), samples or self.samples)

    def integers(self, precisions: Mapping[str, str], samples: Samples | None = None) -> FuncOp:
        """Return the quantized function in integers: their rounding differs from that of its
        simulation by half a decibel and more."""
        copy, _ = self.quantized(precisions, samples)
        module = ModuleOp([copy])
        with diagnostics.without_remarks(), remarks.collecting():
            LowerQuantizationPass(rounding=self.target.requantize).apply(Context(), module)
        return copy

    def quantized(
        self,
        precisions: Mapping[str, str],
        samples: Samples | None = None,
        see: "Gathered | None" = None,
    ) -> tuple[FuncOp, dict[str, LayerFacts]]:
        """Return a copy, quantized except layers that have another precision, with biases corrected
        by these or all samples; and the precision of each layer. If biases are made for that, `see`
        gathers the outputs of the last chunk as it is corrected."""
        before, copy = calibration_at_hand(), self.main.clone()
        samples, key = samples or self.samples, self.key(precisions)
        table = Table(layers={**before.table.layers, **precisions}, fitted=before.table.fitted)
        table.vectors = {CORRECT_BIAS: dict(self.corrections.get((samples.count, key), {}))}
        facts = {name: replace(f) for name, f in before.layers.items()}
        kept, weights = before.kept, before.weights
        calibration = Calibration(table, samples, kept=kept, layers=facts, weights=weights)
        targets = self.floats[1] if samples is self.few else None
        with diagnostics.without_remarks(), remarks.collecting(), calibrating(calibration):
            insert_quantization(copy, self.scheme, self.target, self.skip, self.symmetric)
            others = {} if see is None else see.watchers(copy)
            correct_bias(copy, calibration, targets, others)
        self.corrections[samples.count, key] = table.vectors[CORRECT_BIAS]
        return copy, calibration.layers

    def key(self, precisions: Mapping[str, str]) -> object:
        """Return what decides of how a copy is quantized."""
        table = calibration_at_hand().table
        ranges = tuple(range_of(value) for value in activations([*self.layers.values()]))
        layers = sorted({**table.layers, **precisions}.items())
        return ranges, tuple(layers), tuple(sorted(table.fitted.items()))

    def simulated(self, precisions: Mapping[str, str]) -> Arrays:
        """The outputs of the quantized function for a few of the samples, rounded but computed in
        floats. One chunk runs once for them and for the corrections of biases."""
        see = Gathered() if self.few.count <= self.few.chunk else None
        copy, _ = self.quantized(precisions, self.few, see)
        return see.arrays() if see is not None and see.has_seen else outputs(copy, self.few)

    def keep_corrections(self, precisions: Mapping[str, str], table: Table) -> None:
        """Add the corrections of biases to a table, if they are known, and by as many samples as
        they are made from."""
        count = min(self.given.count, CORRECTED)
        known = self.corrections.get((self.few.count, self.key(precisions)))
        if known and self.few.count >= count:
            table.vectors[CORRECT_BIAS] = dict(known)

    def value(self, accuracy: Accuracy, precisions: Mapping[str, str]) -> float:
        """Return the value of a metric of the outputs."""
        got = self.outputs_of_integers(precisions)
        return accuracy.value(self.wanted, got, self.samples.labels)

    def noise(self, precisions: Mapping[str, str], few: bool = True) -> float:
        """The noise of the outputs as part of their power, from a few of the samples or all that
        outputs are judged on."""
        if (key := (few, self.key(precisions))) in self.noises:
            return self.noises[key]
        if few:
            found = total_noise(self.wanted_of_few, self.simulated(precisions))
        else:
            copy, _ = self.quantized(precisions)
            found = total_noise(self.wanted, outputs(copy, self.samples))
        self.noises[key] = found
        return found

    def worst(self, precisions: Mapping[str, str]) -> float:
        """The dB of the output that keeps least, on a few of the samples."""
        wanted = self.wanted_of_few
        return min(decibels_of(wanted, self.simulated(precisions)).values(), default=math.inf)

    def left(self, precisions: Mapping[str, str]) -> tuple[dict[str, float], dict[str, float]]:
        """The dB that outputs of floats have with these precisions, and the share of elements of
        others (decisions) that stay as they are, on a few of the samples."""
        got, wanted = self.outputs_of_integers(precisions, self.few), self.wanted_of_few
        floats = {name for name, want in wanted.items() if kind_of(want.dtype) == "f"}
        others = {name for name in wanted if name not in floats and wanted[name].size}
        return (
            {name: decibels(*powers(wanted[name], got[name])) for name in sorted(floats)},
            {n: np.count_nonzero(wanted[n] == got[n]) / wanted[n].size for n in sorted(others)},
        )

    def first_strange(
        self, precisions: Mapping[str, str], output: str
    ) -> tuple[Operation, list[str]] | None:
        """Return the first op on the way to an output whose results are infinite or nan where its
        operands are not, and no op of its name is so in floats; and the quantized layers that it
        reads there."""
        usual = {base_name(op) for op in strange_ops(self.main, self.few, output)}
        facts = self.quantized(precisions, self.few)[1]
        integer = {name for name, f in facts.items() if f.scheme != FLOAT}
        names: dict[Operation, str] = {self.layers[n].op: n for n in integer & self.layers.keys()}
        for op in strange_ops(self.integers(precisions, self.few), self.few, output):
            if (name := base_name(op)) not in usual:
                same = [o for o in self.main.body.block.ops if base_name(o) == name]
                return op, [names[layer] for o in same[:1] for layer in nearest(o, names)]
        return None

    def costliest(self, facts: Mapping[str, LayerFacts], count: int) -> list[tuple[str, float]]:
        """The quantized layers that alone put most noise on the outputs, with the dB that each
        leaves. Of many, those are tried that add most noise where all are quantized."""
        names = [name for name, f in facts.items() if f.scheme != FLOAT and name in self.layers]
        if len(names) > MOST_ALONE:
            self.accumulated({}, facts)
            noises: dict[Operation, float] = {
                self.layers[n].op: 10 ** (-f.accumulated_db / 10)
                for n, f in facts.items()
                if f.accumulated_db is not None and n in self.layers
            }
            added = {n: self._added(self.layers[n].op, noises) for n in names}
            names = sorted(names, key=added.__getitem__)[-MOST_ALONE:]
        floats = dict.fromkeys((n for n, f in facts.items() if f.scheme != FLOAT), FLOAT)
        found = [
            (name, decibels(1.0, self.noise({n: f for n, f in floats.items() if n != name})))
            for name in names
        ]
        return sorted(found, key=lambda entry: entry[1])[:count]

    def _added(self, op: Operation, noises: Mapping[Operation, float]) -> float:
        """The noise of a layer's results less the most that results of layers before it have."""
        owners = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
        before = (noises[o] for owner in owners for o in nearest(owner, noises))
        return noises.get(op, 0.0) - max(before, default=0.0)

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
            x = step.chunk.rows_or_all(step.operands[self.layers[name].activations[0]])
            seen[name] = step.chunk.rows_or_all(step.results[0])
            if bounds is not None:
                outside = np.count_nonzero((x < bounds[0]) | (x > bounds[1]))
                sums[name][2:] += np.array([outside, x.size])

        def compare(name: str, step: ObservedOp) -> None:
            sums[name][:2] += powers(seen.pop(name), step.chunk.rows_or_all(step.results[0]))

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


class Gathered:
    """The outputs of a function, chunk by chunk as it runs."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Array]] = {}
        self.watched: dict[Operation, dict[str, SSAValue]] = {}

    def watchers(self, main: FuncOp) -> dict[Operation, Watcher]:
        for name, value in computed_outputs(main).items():
            assert isinstance(value.owner, Operation)
            self.watched.setdefault(value.owner, {})[name] = value
            self.parts[name] = []
        return dict.fromkeys(self.watched, self._watch)

    def _watch(self, step: ObservedOp) -> None:
        for name, value in self.watched[step.op].items():
            array = step.results[list(step.op.results).index(cast(Any, value))]
            rows = step.chunk.rows(array)
            self.parts[name].append(array if rows is None else np.concatenate(rows))

    @property
    def has_seen(self) -> bool:
        return any(self.parts.values())

    def arrays(self) -> dict[str, Array]:
        """The outputs, joined along the first dimension."""
        parts = self.parts.items()
        return {name: np.concatenate([np.atleast_1d(a) for a in p]) for name, p in parts}


def outputs(
    main: FuncOp, samples: Samples, others: Mapping[Operation, Watcher] | None = None
) -> dict[str, Array]:
    """Return a function's outputs for samples, joined along the first dimension; others watch."""
    gathered = Gathered()
    Observer(main).run(samples, both(others or {}, gathered.watchers(main)))
    return gathered.arrays()


def trials_of(main: FuncOp, calibration: Calibration, *how: Any) -> Trials:
    """The trials of a function as it is (`how`: the scheme and what follows it), which passes that
    do not rewrite it share."""
    assert calibration.samples is not None
    if calibration.trials is None or calibration.trials[0] != (main, *how):
        calibration.trials = (main, *how), Trials(main, calibration.samples, *how)
    return cast(Trials, calibration.trials[1])


def strange_ops(main: FuncOp, samples: Samples, output: str) -> list[Operation]:
    """The ops before an output, in order, whose results are infinite or nan where their operands
    are not."""
    found = set[Operation]()

    def watch(step: ObservedOp) -> None:
        if not are_finite(step.results) and are_finite(step.operands):
            found.add(step.op)

    seen, stack = set[Operation](), [computed_outputs(main)[output].owner]
    while stack:
        op = stack.pop()
        if isinstance(op, Operation) and op not in seen:
            seen.add(op)
            stack += [v.owner for v in op.operands]
    Observer(main).run(samples, dict.fromkeys(seen, watch))
    return [op for op in main.body.block.ops if op in found]


def nearest(op: Operation, some: Container[Operation]) -> list[Operation]:
    """Those of some ops that an op depends on without another of them in between."""
    found, seen, stack = dict[Operation, None](), set[Operation](), [op]
    while stack:
        op = stack.pop()
        if op in some:
            found[op] = None
            continue
        new = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
        stack += [o for o in new if o not in seen]
        seen.update(new)
    return list(found)


def layer_us(
    layer: Layer, scheme: Scheme | None, target: Target, floats: Attribute | None = None
) -> float:
    """Time of the launch of a layer alone, in floats without a scheme (of a type, or its own).
    Integer weights of a layer of floats save the time of their bytes."""
    if isinstance(layer.op, AttentionOp):
        is_integer = scheme is not None and scheme.activation_bits == BITS
        us = integers_us(layer.op, target) if is_integer else launch_us(layer.op, target)
        return us or 0.0
    op, operands, saved = layer.op, list(layer.op.operands), 0.0
    if isinstance(op, LayerOp):
        operands = operands[:2]
    if scheme is not None and scheme.activation_bits and isinstance(op, LayerOp):
        bits = [scheme.weight_bits if i == layer.weight else scheme.activation_bits for i in (0, 1)]
        types = [tensor(shape_of(v), IntegerType(b)) for v, b in zip(operands, bits, strict=True)]
        operands = list(Block(arg_types=types).args)
    elif floats is not None and isinstance(op, LayerOp):
        operands = list(Block(arg_types=[tensor(shape_of(v), floats) for v in operands]).args)
    elif scheme is not None:
        for weight in (operands[i] for i in layer.weights):
            left = numel(shape_of(weight)) * scheme.weight_bits / 8
            saved += (byte_size(weight.type) - left) / hbm_bytes_per_us(target.cube_cores, target)
    properties: dict[str, Any] = {**op.properties}
    alone = type(op).of(*operands, **properties)
    us = launch_us(alone, target) or 0.0
    alone.erase()  # or it would stay a user of the layer's operands
    return max(us - saved, target.launch_us)
