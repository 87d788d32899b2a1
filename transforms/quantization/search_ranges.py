"""Make ranges of activations wider or narrower, where the outputs of layers are more exact then.

    %0 = graph.gelu %x {graph.range = [-0.17, 3.0]}
becomes, where samples that had no part in a range are often cut off by it,
    %0 = graph.gelu %x {graph.range = [-0.19, 3.36]}

The range of some of the calibration samples, times a factor, is judged on the others by the error
of the outputs of all layers that read the value; min-max is one of the choices, and stays where
none is clearly better. A range never leaves what an op can return at all (relu, clamp, softmax).
Other methods (see schemes.py) give one range for a value; it is taken where layers are more exact
with it than with min-max. In the end the model is quantized with the ranges of the method and with
those of min-max, and beside the search with those of percentiles too: where its outputs have less
noise with others, all ranges are those.

Percentiles, and the range of the least divergence, follow from how elements lie between their least
and their largest, over all samples. Counts of elements in fixed bins do not depend on how samples
are put into batches, or on their order, and take the same memory for any number of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.support.effort import TimeIsUp
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array
from ge.runtime.numbers.elementwise import BLOCK
from ge.transforms.quantization.calibrate import range_of, set_range
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.data import Calibration
from ge.transforms.quantization.insert_quantization import ANY, Limits
from ge.transforms.quantization.layers import activations, layers
from ge.transforms.quantization.observe import (
    LayerSamples,
    ObservedOp,
    Observer,
    Watcher,
    exact_sum,
    layer_samples,
)
from ge.transforms.quantization.schemes import (
    INT8,
    MINMAX,
    SEARCH,
    RangeMethod,
    Scheme,
    range_method_of,
    scheme_of,
)
from ge.transforms.quantization.table import Range, shortened
from ge.transforms.quantization.trials import (
    LEAST_GAIN,
    Attempt,
    Decision,
    Trials,
    decide,
    fold_errors,
    trials_of,
    tried,
)
from ge.transforms.rewriting import remarks

BINS = 2048

PARTS = [1 - i / 50 for i in range(36)]  # of the range, that a divergence is computed for


@dataclass
class Histogram:
    low: float
    high: float
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def watch(self, step: ObservedOp) -> None:
        x = step.chunk.rows(step.operands[0])
        if x is None:
            return
        elements, wide = x.reshape(-1), np.float64 if x.dtype == np.float64 else np.float32
        for i in range(0, elements.size, BLOCK):
            block = elements[i : i + BLOCK]
            places = np.subtract(block, self.low, dtype=wide, casting="unsafe")
            places *= BINS / (self.high - self.low)
            np.clip(places, 0, BINS - 1, out=places)
            self.counts += np.bincount(places.astype(np.intp), minlength=BINS)

    def percentiles(self, percent: float) -> Range:
        """The range that so much of all elements is in, as many below it as above."""
        total = [*accumulate(cast("list[int]", self.counts.tolist()))]
        outside = total[-1] * (100 - percent) / 200
        first = bisect_right(total, outside)
        last = bisect_left(total, total[-1] - outside)
        size = (self.high - self.low) / BINS
        return self.low + first * size, self.low + (last + 1) * size

    def least_divergence(self, levels: int) -> Range:
        """The part of the range whose steps tell most about how the elements lie (Kullback and
        Leibler): fewer steps for rare large elements, more for the others."""
        ranges = [(self.low * part, self.high * part) for part in PARTS]
        return min(ranges, key=lambda r: self._divergence(r, levels))

    def _divergence(self, bounds: Range, levels: int) -> float:
        size = (self.high - self.low) / BINS
        centers = self.low + (np.arange(BINS) + 0.5) * size
        inside = np.flatnonzero((centers >= bounds[0]) & (centers <= bounds[1]))
        if len(inside) == 0:
            return np.inf
        kept = self.counts[inside].astype(np.float64)
        level = ((centers[inside] - bounds[0]) / (bounds[1] - bounds[0]) * levels).astype(np.int64)
        used = kept > 0
        masses, bins = np.bincount(level, kept), np.bincount(level, used)
        spread = np.where(used, masses[level] / np.maximum(bins[level], 1), 0.0)
        kept[0] += self.counts[: inside[0]].sum()  # what is cut off comes back at the ends
        kept[-1] += self.counts[inside[-1] + 1 :].sum()
        spread = np.maximum(spread / max(spread.sum(), 1.0), 1e-12)
        share = kept / kept.sum()
        some = share > 0
        return float((share[some] * np.log(share[some] / spread[some])).sum())


def mean_range(layer: LayerSamples) -> Range:
    """The mean of the least, and that of the largest elements of samples."""
    low, high = (float(exact_sum(x)) / len(x) for x in (layer.low.min(1), layer.high.max(1)))
    return low, high


Histograms = dict[Operation, Histogram]


def histograms(trials: Trials, layers: Mapping[Operation, LayerSamples]) -> Histograms:
    """Return how the elements lie that layers read, over all samples."""
    found = {
        op: Histogram(float(layer.bounds[0].min()), float(layer.bounds[1].max()))
        for op, layer in layers.items()
    }
    found = {op: h for op, h in found.items() if h.low < h.high}
    watchers: dict[Operation, Watcher] = {op: h.watch for op, h in found.items()}
    if watchers:
        trials.watch_all(watchers)
    return found


def candidates(
    found: Histograms,
    layers: Mapping[Operation, LayerSamples],
    method: RangeMethod,
    scheme: Scheme,
) -> dict[Operation, Range]:
    """The ranges by a method of what layers read."""
    if method.name == "average":
        return {op: mean_range(layer) for op, layer in layers.items()}
    if method.name == "kl":
        return {op: h.least_divergence(2**scheme.activation_bits) for op, h in found.items()}
    return {op: h.percentiles(method.percent) for op, h in found.items()}


FACTORS = (1.0, 0.8, 0.9, 1.06, 1.12, 1.25)  # of the range of the samples

NAME = "search-ranges"


def widened(low: Array, high: Array, factor: float, limits: Range) -> Range:
    """The range of all channels with zero, times a factor, within limits."""
    least, most = min(float(low.min()), 0.0), max(float(high.max()), 0.0)
    return max(least * factor, limits[0]), min(most * factor, limits[1])


def searched(readers: Sequence[LayerSamples], limits: Range, scheme: Scheme) -> Decision[Range]:
    """The best factor, judged by the layers that read a value."""
    first = readers[0]

    def attempts(others: NDArray[np.bool_]) -> list[Attempt]:
        some = first.ranges(others)
        return [([widened(*some, f, limits) for f in FACTORS], None)] * len(readers)

    ranges = [widened(*first.bounds, f, limits) for f in FACTORS]
    return decide(ranges, fold_errors(readers, scheme, attempts).sum(0).tolist(), LEAST_GAIN)


def guarded(
    readers: Sequence[LayerSamples], low: float, high: float, scheme: Scheme
) -> Decision[Range]:
    """A range, or min-max where layers are not more exact with it."""
    whole = min_max(readers[0])
    ranges = [whole, (max(low, whole[0]), min(high, whole[1]))]
    every = np.ones(len(readers[0].low), np.bool_)
    errors = np.sum([user.errors(every, ranges, scheme) for user in readers], 0)
    return decide(ranges, errors.tolist(), LEAST_GAIN)


def min_max(reader: LayerSamples) -> Range:
    return widened(*reader.bounds, 1.0, ANY)


Choices = dict[SSAValue, tuple[LayerSamples, Decision[Range]]]


@dataclass
class MethodRanges:
    """What methods choose for the activations of the layers of a function."""

    main: FuncOp
    calibration: Calibration
    trials: Trials

    @cached_property
    def users(self) -> dict[SSAValue, list[LayerSamples]]:
        users: dict[SSAValue, list[LayerSamples]] = {}
        for op, samples in layer_samples(self.main, self.calibration).items():
            users.setdefault(op.operands[0], []).append(samples)
        return users

    @cached_property
    def readers(self) -> dict[Operation, LayerSamples]:
        """The first layer that reads each activation."""
        return {readers[0].layer.op: readers[0] for readers in self.users.values()}

    @cached_property
    def histograms(self) -> Histograms:
        return histograms(self.trials, self.readers)

    def by(self, method: RangeMethod) -> Choices:
        """Return what a method chooses, with one of the layers."""
        scheme, users = self.trials.scheme, self.users
        if method.name == SEARCH:
            limits = Limits(Observer(self.main))
            return {v: (rs[0], searched(rs, limits.of(v), scheme)) for v, rs in users.items()}
        histograms = {} if method.name == "average" else self.histograms
        found = candidates(histograms, self.readers, method, scheme)
        return {
            value: (readers[0], guarded(readers, *found[readers[0].layer.op], scheme))
            for value, readers in users.items()
            if readers[0].layer.op in found
        }


Ranges = dict[SSAValue, Range]

# Each cuts off more than the one before: it is tried where that one has less noise than min-max
RIVALS = (RangeMethod("percentile", 99.99), RangeMethod("percentile", 99.9))

CLEARLY = 10**-0.03  # of the noise of outputs, 0.3 dB less: else a method is not left


def promises(chosen: Choices) -> bool:
    """Return whether the layers together gain as much by a method as outputs have to."""
    decisions = [decision for _, decision in chosen.values()]
    return sum(d.after for d in decisions) < CLEARLY * sum(d.before for d in decisions)


def written(ranges: Mapping[SSAValue, Range | None]) -> None:
    for value, range in ranges.items():
        set_range(value, range and (shortened(range[0]), shortened(range[1])))


def best_for_outputs(
    methods: MethodRanges, method: RangeMethod, chosen: Choices
) -> tuple[str, Decision[Ranges]]:
    """Return the ranges that leave outputs with least noise, and the name of their method: those
    of `method`, those of min-max, and beside the search those of percentiles. Methods judge each
    layer by itself, which says little where errors cancel, or add up, further on. The search and
    percentiles that promise layers little are not tried."""
    is_search, rivals = method.name == SEARCH, dict[str, Ranges]()
    whole: Ranges = {value: min_max(reader) for value, (reader, _) in chosen.items()}
    if not is_search or promises(chosen):
        rivals[str(method)] = {value: decision.chosen for value, (_, decision) in chosen.items()}
    rivals[MINMAX] = whole
    for other in RIVALS if is_search else ():
        if promises(found := methods.by(other)):
            rivals[str(other)] = whole | {value: d.chosen for value, (_, d) in found.items()}
    names = [n for i, n in enumerate(rivals) if rivals[n] not in [*rivals.values()][:i]]
    if len(names) == 1:
        return names[0], Decision(whole, 0.0, 0.0)
    trials, noises = methods.trials, list[float]()

    def measured() -> float:
        noises.append(trials.noise({}))
        return noises[-1]

    def in_turn() -> Iterator[Ranges]:
        for i, name in enumerate(names):
            yield rivals[name]
            if i > (least := names.index(MINMAX)) and noises[-1] >= noises[least]:
                return

    share = CLEARLY if is_search else 1.0
    decision = tried(in_turn(), written, measured, share)
    if decision.chosen != whole and trials.few.count < trials.samples.count:
        # samples that a range cuts off are rare, and have most of the noise
        again = tried([decision.chosen, whole], written, partial(trials.noise, {}, few=False))
        decision = again if again.chosen is whole else decision
    return next(n for n in names if rivals[n] is decision.chosen), decision


def search_ranges(
    main: FuncOp, calibration: Calibration, trials: Trials, method: RangeMethod
) -> None:
    """Write the best ranges to the activations of layers and to the table: those of a method,
    unless the outputs have less noise with others."""
    methods = MethodRanges(main, calibration, trials)
    chosen = methods.by(method)
    name, best = best_for_outputs(methods, method, chosen)
    for value, (reader, decision) in chosen.items():
        low, high = calibration.table.set_range(reader.input, *best.chosen[value])
        set_range(value, (low, high))
        if decision.after < decision.before and name == str(method):
            what = f"range of '{reader.input}' is [{low:.4g}, {high:.4g}], {decision.gain:.1f} dB"
            remarks.applied(NAME, reader.layer.op, what)
    if name != str(method):
        little = "layers gain little by others"
        why = f"outputs gain {best.gain:.1f} dB" if best.before else little
        remarks.missed(NAME, main, f"ranges are those of {name}: {why}")


@dataclass(frozen=True)
class SearchRangesPass(CalibratedPass):
    """Choose the ranges of activations by the errors of layers, where there are samples.
    `scheme`: of activations and weights, int8 or int16; `method`: search, minmax, average, kl or
    percentile:99.99; `target`: what multiplies; `skip`: layers that stay float, as
    insert-quantization has it; `data`: a file with samples (.npz), else what is at hand."""

    name = NAME

    scheme: str = INT8
    method: str = SEARCH
    target: str = DEFAULT_TARGET
    skip: tuple[str, ...] = ()

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        method = range_method_of(self.method)
        if calibration.samples is not None and method.name != MINMAX:
            scheme, target = scheme_of(self.scheme), Target.load(self.target)
            trials = trials_of(main, calibration, scheme, target, self.skip, False)
            before = {value: range_of(value) for value in activations(layers(main))}
            try:
                search_ranges(main, calibration, trials, method)
            except TimeIsUp:  # the ranges of a candidate are there
                written(before)
                raise
