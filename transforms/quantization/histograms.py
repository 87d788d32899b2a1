"""How the elements of activations lie between their least and their largest, over all samples, and
the ranges that follow: percentiles, the least divergence, the mean of the ranges of samples.

Counts of elements in fixed bins do not depend on how samples are put into batches, or on their
order, and take the same memory for any number of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.transforms.quantization.data import Samples
from ge.transforms.quantization.layer_samples import LayerSamples
from ge.transforms.quantization.observe import ObservedOp, Observer, Watcher, exact_sum
from ge.transforms.quantization.schemes import RangeMethod, Scheme
from ge.transforms.quantization.table import Range

BINS = 2048
PARTS = [1 - i / 50 for i in range(36)]  # of the range, that a divergence is computed for


@dataclass
class Histogram:
    low: float
    high: float
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def watch(self, step: ObservedOp) -> None:
        x = step.chunk.rows(step.operands[0])
        if x is not None:
            bins = (x.astype(np.float64) - self.low) * (BINS / (self.high - self.low))
            bins = np.clip(bins, 0, BINS - 1).astype(np.int64)
            self.counts += np.bincount(bins.ravel(), minlength=BINS)

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


def candidates(
    main: FuncOp,
    samples: Samples,
    layers: Mapping[Operation, LayerSamples],
    method: RangeMethod,
    scheme: Scheme,
) -> dict[Operation, Range]:
    """The ranges by a method of what layers read."""
    if method.name == "average":
        return {op: mean_range(layer) for op, layer in layers.items()}
    found = {
        op: Histogram(float(layer.bounds[0].min()), float(layer.bounds[1].max()))
        for op, layer in layers.items()
    }
    found = {op: h for op, h in found.items() if h.low < h.high}
    watchers: dict[Operation, Watcher] = {op: h.watch for op, h in found.items()}
    if watchers:
        Observer(main).run(samples, watchers)
    if method.name == "kl":
        return {op: h.least_divergence(2**scheme.activation_bits) for op, h in found.items()}
    return {op: h.percentiles(method.percent) for op, h in found.items()}
