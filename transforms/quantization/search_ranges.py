"""Make ranges of activations wider or narrower, where the outputs of layers are more exact then.

    %0 = graph.gelu %x {graph.range = [-0.17, 3.0]}
becomes, where samples that had no part in a range are often cut off by it,
    %0 = graph.gelu %x {graph.range = [-0.19, 3.36]}

The range of some of the calibration samples, times a factor, is judged on the others by the error
of the outputs of all layers that read the value; min-max is one of the choices, and stays where
none is clearly better. A range never leaves what an op can return at all (relu, clamp, softmax).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.activation import GeluOp, HardSigmoidOp, ReluOp, SigmoidOp, SiluOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrate import set_range
from ge.transforms.quantization.data import CalibratedPass, Calibration
from ge.transforms.quantization.layer_samples import LayerSamples, folds, layer_samples
from ge.transforms.quantization.observe import Observer
from ge.transforms.quantization.schemes import INT8, Scheme, scheme_of
from ge.transforms.quantization.table import Range
from ge.transforms.rewriting import remarks

FACTORS = (1.0, 0.8, 0.9, 1.06, 1.12, 1.25)  # of the range of the samples
LEAST_GAIN = 0.98  # of the error at min-max

ANY: Range = -math.inf, math.inf
LIMITS: dict[type[Operation], Range] = {
    ReluOp: (0.0, math.inf),
    SigmoidOp: (0.0, 1.0),
    HardSigmoidOp: (0.0, 1.0),
    SoftmaxOp: (0.0, 1.0),
    g.TanhOp: (-1.0, 1.0),
    GeluOp: (-0.1701, math.inf),
    SiluOp: (-0.2785, math.inf),
}
KINDS = ("max", "min", "mean", "average")  # of reductions that stay within what they reduce


class Limits:
    """What the elements of values cannot go beyond, by the ops that compute them."""

    def __init__(self, observer: Observer) -> None:
        self.constants, self.constant = observer.constants, observer.constant

    def of(self, value: SSAValue) -> Range:
        op = value.owner
        if not isinstance(op, Operation):
            return ANY
        if type(op) in LIMITS:
            return LIMITS[type(op)]
        match op:
            case PoolOp(kind=kind) | ReduceOp(kind=kind) if kind.data in KINDS:
                return self.of(op.operands[0])
            case ReshapeOp() | SqueezeOp() | UnsqueezeOp() | TransposeOp():
                return self.of(op.operands[0])
            case g.ClampOp():
                return self.within(self.of(op.input), op.low, op.high)
            case g.MinimumOp() if op.rhs in self.constants:
                return self.within(self.of(op.lhs), None, op.rhs)
            case g.MaximumOp() if op.rhs in self.constants:
                return self.within(self.of(op.lhs), op.rhs, None)
            case _:
                return ANY

    def within(self, range: Range, low: SSAValue | None, high: SSAValue | None) -> Range:
        least, most = range
        if low is not None and low in self.constants:
            least = max(least, float(self.constant(low).min()))
        if high is not None and high in self.constants:
            limits = self.constant(high)
            least, most = min(least, float(limits.min())), min(most, float(limits.max()))
        return least, most


def widened(low: Array, high: Array, factor: float, limits: Range) -> Range:
    """The range of all channels with zero, times a factor, within limits."""
    least, most = min(float(low.min()), 0.0), max(float(high.max()), 0.0)
    return max(least * factor, limits[0]), min(most * factor, limits[1])


def errors_of(users: Sequence[LayerSamples], limits: Range, scheme: Scheme) -> NDArray[np.float64]:
    """For each factor the error of the outputs of layers that read one value."""
    errors = np.zeros(len(FACTORS))
    for others, judged in folds(len(users[0].low)):
        ranges = [widened(*users[0].ranges(others), f, limits) for f in FACTORS]
        for user in users:
            errors += user.errors(judged, ranges, scheme)
    return errors


def search_ranges(main: FuncOp, calibration: Calibration, scheme: Scheme) -> None:
    """Write the best ranges to the activations of layers and to the table."""
    users: dict[SSAValue, list[LayerSamples]] = {}
    for op, samples in layer_samples(main, calibration).items():
        users.setdefault(op.operands[0], []).append(samples)
    limits = Limits(Observer(main))
    for value, readers in users.items():
        bounds = limits.of(value)
        errors = errors_of(readers, bounds, scheme)
        best = int(np.argmin(errors))
        if errors[best] > errors[0] * LEAST_GAIN:
            best = 0
        low, high = widened(*readers[0].bounds, FACTORS[best], bounds)
        set_range(value, calibration.table.set_range(readers[0].input, low, high))
        if best:
            gain = 10 * math.log10(errors[0] / errors[best]) if errors[best] else math.inf
            what = f"range of '{readers[0].input}' times {FACTORS[best]:g}, {gain:.1f} dB"
            remarks.applied("search-ranges", readers[0].layer.op, what)


@dataclass(frozen=True)
class SearchRangesPass(CalibratedPass):
    """Choose the ranges of activations by the errors of layers, where there are samples.
    `scheme`: of activations and weights, int8 or int16; `data`: a file with samples (.npz), else
    what is at hand."""

    name = "search-ranges"

    scheme: str = INT8

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if calibration.samples is not None:
            search_ranges(main, calibration, scheme_of(self.scheme))
