"""Make the channels between two layers equally large, where that makes the second more exact.

    %0 = graph.conv %x, %w bias %b                %0 = graph.conv %x, (%w / s) bias (%b / s)
    %1 = graph.relu %0                     ->     %1 = graph.relu %0
    %2 = graph.conv %1, %v                        %2 = graph.conv %1, (%v * s)

One scale for a whole tensor is too coarse for channels that are much smaller than the largest.
Cross-layer equalization (Nagel et al., arXiv 1906.04721), with factors that are chosen by the error
of the second layer's output on calibration data; through a clamp, whose limits become vectors.

Factors are chosen as for smooth-activations. A group's values are divided by s[c] = range[c]^alpha
/ weight[c]^(1 - alpha), where range is the largest magnitude of channel c and weight that of its
weights in the layers that use it, each row of which counts relative to its largest element (it has
a scale of its own). alpha = 1 makes all channels equally large, 0 all weights (SmoothQuant, arXiv
2211.10438, and, for weights alone, AWQ, arXiv 2306.00978). alpha is that with the least error of
the outputs of these layers, or none.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.graph.normalization import GroupNormOp, TrailingNorm
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrate import set_range
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.channel_groups import (
    Blocked,
    ChannelGroup,
    divide,
    group_of,
    input_axis,
    takes_factors,
)
from ge.transforms.quantization.data import Calibration
from ge.transforms.quantization.layers import ConstantValues, Layer, LayerOp, layers
from ge.transforms.quantization.observe import LayerSamples, layer_samples
from ge.transforms.quantization.schemes import INT8, Scheme, scheme_of
from ge.transforms.quantization.trials import LEAST_GAIN, Attempt, decide, fold_errors
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.passes import Relation, Ulps

ALPHAS = (0.4, 0.55, 0.7, 0.85, 1.0)

BLOCK_ALPHAS = (0.25, 0.4, 0.55, 0.7)  # for weights alone

MARGINS = (1.0, 1.12)  # of the range: equal channels are cut off more often by new samples

SPAN = 1e-4  # the least range and weight of a channel, of the largest


@dataclass(frozen=True)
class ScalingPass(CalibratedPass):
    """Divide groups of channels by the factors that the table has, or, with samples, by those with
    the least error, which are added to the table."""

    RELATION: ClassVar[Relation] = Ulps(1024, half=64, overflow=True)

    scheme: str = INT8

    @abstractmethod
    def belongs(self, group: ChannelGroup) -> bool:
        """Return whether this pass divides a group."""

    @abstractmethod
    def tells(self, op: LayerOp) -> bool:
        """Return whether a layer is remarked if it is in no group."""

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        table, scaled, scheme = calibration.table, False, scheme_of(self.scheme)
        samples = {} if calibration.samples is None else layer_samples(main, calibration)
        for first, group in find_groups(main, self.name, self.tells):
            if not self.belongs(group):
                continue
            vector = table.vector(self.name, first.name)
            if vector is None and calibration.samples is not None:
                factors = choose(group, samples, scheme, self.name)
                if factors is None:
                    continue
                vector = table.set_vector(self.name, first.name, map(float, factors))
            if vector is None or len(vector) != group.channels:
                continue
            apply(group, np.array(vector, np.float32), samples)
            scaled = calibration.samples is not None
            remarks.applied(self.name, first.op, f"{group.channels} channels")
        if scaled:
            update_ranges(main, calibration)


def find_groups(
    main: FuncOp, decision: str, tells: Callable[[LayerOp], bool]
) -> Iterator[tuple[Layer, ChannelGroup]]:
    """The groups of the inputs of layers, each with the first layer that uses it, in order; a group
    is looked for when those before it may have been rewritten. Layers that have none are remarked
    where `tells`."""
    seen = set[Operation]()
    constants = ConstantValues(main.body.block)
    for layer in layers(main):
        if layer.op in seen or not takes_factors(layer.op, constants):
            continue
        op = layer.linear
        try:
            group = group_of(op.operands[0], input_axis(op), constants)
        except Blocked as e:
            if tells(op):
                remarks.missed(decision, op, f"its input cannot be scaled: {e}")
            continue
        if group.producers:
            seen |= group.users.keys()
            yield layer, group


def apply(group: ChannelGroup, factors: Array, samples: Mapping[LayerOp, LayerSamples]) -> None:
    divide(group, factors)
    for op in group.users:
        if op in samples:
            samples[op].divide(factors)
    for op in group.producers:
        if isinstance(op, LayerOp) and op in samples:
            samples[op].divide_outputs(factors)


def update_ranges(main: FuncOp, calibration: Calibration) -> None:
    """Ranges of the inputs of layers from their samples."""
    for op, sample in layer_samples(main, calibration).items():
        bounds = float(sample.bounds[0].min()), float(sample.bounds[1].max())
        set_range(op.operands[0], calibration.table.set_range(sample.input, *bounds))


# ---- the choice --------------------------------------------------------------------------------


def choose(
    group: ChannelGroup, samples: Mapping[LayerOp, LayerSamples], scheme: Scheme, name: str
) -> Array | None:
    """The factors with the least error, None where none are better than ones."""
    users = [samples[op] for op in group.users if op in samples]
    if len(users) < len(group.users):
        remarks.missed(name, next(iter(group.users)), "a layer was not observed")
        return None
    candidates = [None, *(BLOCK_ALPHAS if scheme.block else ALPHAS)]
    errors = [error_of(users, alpha, scheme) for alpha in candidates]
    decision = decide(candidates, errors, LEAST_GAIN)
    if decision.chosen is None:
        what = f"the error of the outputs would not fall: {decision.before:.3g}"
        remarks.missed(name, users[0].layer.op, what)
        return None
    return factors_of(users, [u.bounds for u in users], decision.chosen)


def error_of(users: Sequence[LayerSamples], alpha: float | None, scheme: Scheme) -> float:
    """The error of the outputs of layers, with ranges that are as wide as is best for each."""

    def attempts(others: NDArray[np.bool_]) -> Iterator[Attempt]:
        ranges = [u.ranges(others) for u in users]
        factors = None if alpha is None else factors_of(users, ranges, alpha)
        for low, high in ranges:
            if factors is not None:
                low, high = low / factors, high / factors
            least, most = float(low.min()), float(high.max())
            yield [(least * m, most * m) for m in MARGINS], factors

    return float(fold_errors(users, scheme, attempts).min(1).sum())


def factors_of(
    users: Sequence[LayerSamples], ranges: Sequence[tuple[Array, Array]], alpha: float
) -> Array:
    size = np.max([np.maximum(np.abs(low), np.abs(high)) for low, high in ranges], 0)
    weight = np.max([relative_weight(u, len(size)) for u in users], 0)
    size, weight = (np.maximum(v.astype(np.float64), SPAN * v.max() or 1.0) for v in (size, weight))
    factors = size**alpha / weight ** (1 - alpha)
    return (factors / np.exp(np.log(factors).mean())).astype(np.float32)


def relative_weight(user: LayerSamples, channels: int) -> Array:
    """For each input channel the largest magnitude of its weights, each relative to the largest
    that shares its scale."""
    weight = np.abs(user.weight)
    tied = weight.reshape(len(weight), -1, user.tied * weight.shape[2]).max(-1)
    largest = np.maximum(np.repeat(tied, user.tied, 1), np.finfo(np.float32).tiny)
    relative = (weight / largest[..., None]).max(1)
    return relative.reshape(channels, -1).max(1)


def is_between_layers(group: ChannelGroup) -> bool:
    return all(isinstance(op, LayerOp) for op in group.producers)


def is_behind_norm(op: LayerOp) -> bool:
    return isinstance(op.operands[0].owner, TrailingNorm | GroupNormOp)


@dataclass(frozen=True)
class EqualizeChannelsPass(ScalingPass):
    """Scale channels between layers.
    `scheme`: of activations and weights, int8 or int16; `data`: a file with samples (.npz) or a
    table (.toml), else what is at hand."""

    name = "equalize-channels"

    def belongs(self, group: ChannelGroup) -> bool:
        return is_between_layers(group)

    def tells(self, op: LayerOp) -> bool:
        return not is_behind_norm(op)
