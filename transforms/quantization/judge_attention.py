"""Judge attention in integers by the error of its results on samples: smaller ranges of query, key
and value where results are more exact with them, and floats where they are not exact at all.

    %0 = graph.attention %q, %k, %v              %v has {graph.range = [-6.0, 5.0]}
becomes
    %0 = graph.attention %q, %k, %v              %v has {graph.range = [-5.4, 4.5]}

and in the table, where the noise of the results is more than `MOST_NOISE` of their power,
    [layers]
    "/attn/MatMul" = "float"

A few samples are judged. Each range is made smaller alone, and what is best of each is tried
together. The range of a value that other layers read too stays. Exceptions: schemes other than
int8, and attention that stays float anyway (see insert-quantization).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import BoolAttr, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.types import element_type
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array
from ge.runtime.kernels import Fn, prepare
from ge.runtime.kernels.attention import round_to
from ge.transforms.quantization.calibrate import range_of, set_range
from ge.transforms.quantization.data import CalibratedPass, Calibration, Samples
from ge.transforms.quantization.emitting import code_limits
from ge.transforms.quantization.insert_quantization import Insertion, patterns, quantizer
from ge.transforms.quantization.layer_samples import canonical
from ge.transforms.quantization.layers import Layer, activations, layers
from ge.transforms.quantization.noise import decibels, powers
from ge.transforms.quantization.observe import Observer, Step
from ge.transforms.quantization.schemes import FLOAT, INT8, SEARCH, range_method_of, scheme_of
from ge.transforms.quantization.search_ranges import LEAST_GAIN
from ge.transforms.quantization.table import Range
from ge.transforms.rewriting import remarks

FACTOR = 0.85  # of the range of all samples
MOST_NOISE = 0.01  # of the power of the results (20 dB); attention mostly has 35 dB and more
JUDGED = 32  # samples, at least

NAME = "judge-attention"

Ranges: TypeAlias = list[Range]  # of query, key and value


def in_integers(op: AttentionOp) -> Fn:
    """Attention with rounded weights, of arrays that were rounded before."""
    copy = op.clone()
    copy.rounded_weights = BoolAttr.from_bool(True)
    fn = prepare(copy)
    copy.erase()
    return fn


def rounded(x: Array, value: SSAValue, bounds: Range) -> Array:
    """An operand as it comes back from integers."""
    numbers = quantizer(bounds, element_type(value), i8, symmetric=True)
    assert numbers is not None
    result = x.copy()
    round_to((float(numbers[0]), *code_limits(i8)), result)
    return result


def noises(
    main: FuncOp, samples: Samples, tried: Mapping[AttentionOp, Sequence[Ranges]]
) -> dict[AttentionOp, list[float]]:
    """The noise of the results with each of these ranges, as part of their power."""
    kernels = {op: in_integers(op) for op in tried}
    sums = {op: np.zeros((len(ranges), 2)) for op, ranges in tried.items()}

    def watch(step: Step) -> None:
        op, want = step.op, step.results[0]
        assert isinstance(op, AttentionOp)
        for i, ranges in enumerate(tried[op]):
            with np.errstate(all="ignore"):
                factors = map(rounded, step.operands, op.operands, ranges)
                got = kernels[op](*factors, *step.operands[3:])
            sums[op][i] += powers(want, got)

    Observer(main).run(samples, dict.fromkeys(tried, watch))
    return {op: [n / (s or 1.0) for s, n in of_op] for op, of_op in sums.items()}


def smaller(op: AttentionOp, own: Collection[SSAValue]) -> list[Ranges]:
    """The ranges of query, key and value, and with one of them, of its `own` values, smaller."""
    whole = [range_of(v) or (0.0, 0.0) for v in op.operands[:3]]
    return [whole] + [
        [*whole[:i], (low * FACTOR, high * FACTOR), *whole[i + 1 :]]
        for i, (low, high) in enumerate(whole)
        if op.operands[i] in own
    ]


def together(tried: Sequence[Ranges], found: Sequence[float]) -> Ranges:
    """What is smaller in any ranges that make results more exact."""
    better = [r for r, noise in zip(tried, found, strict=True) if noise < found[0] * LEAST_GAIN]
    return [
        next((r[i] for r in better if r[i] != whole), whole) for i, whole in enumerate(tried[0])
    ]


def judge(main: FuncOp, calibration: Calibration, found: Sequence[Layer], searches: bool) -> None:
    """Write ranges, and what stays float, to the function and the table."""
    assert calibration.samples is not None
    samples, every = canonical(calibration.samples), layers(main)
    samples = samples.part(0, -(-JUDGED // samples.chunk) * samples.chunk)
    names, readers = activations(every), Counter(v for layer in every for v in layer.op.operands)
    own = {v for v, count in readers.items() if count == 1 and searches}
    ops = {layer.name: layer.op for layer in found if isinstance(layer.op, AttentionOp)}
    tried = {op: smaller(op, own) for op in ops.values()}
    seen = noises(main, samples, tried)
    best = {op: together(ranges, seen[op]) for op, ranges in tried.items()}
    new = {op: [ranges] for op, ranges in best.items() if ranges not in tried[op]}
    again = noises(main, samples, new) if new else {}
    for name, op in ops.items():
        noise = least = seen[op][0]
        after = again[op][0] if op in new else seen[op][tried[op].index(best[op])]
        if after < noise * LEAST_GAIN:
            least = after
            for value, bounds in zip(op.operands, best[op], strict=False):
                set_range(value, calibration.table.set_range(names[value], *bounds))
            what = f"smaller ranges of '{name}': {decibels(noise, least):.1f} dB"
            remarks.applied(NAME, op, what)
        if least > MOST_NOISE:
            what = f"in integers its results have {decibels(1.0, least):.1f} dB"
            calibration.facts(name, op).reason = what
            calibration.table.layers[name] = FLOAT


@dataclass(frozen=True)
class JudgeAttentionPass(CalibratedPass):
    """Judge attention in integers by the error of its results, where there are samples.
    `scheme`, `skip`, `target`: what insert-quantization has; `method`: of ranges, which are
    searched by search alone; `data`: a file with samples (.npz), else what is at hand."""

    name = NAME

    scheme: str = INT8
    method: str = SEARCH
    target: str = DEFAULT_TARGET
    skip: tuple[str, ...] = ()

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if calibration.samples is None:
            return
        target = Target.load(self.target)
        insertion = Insertion(main, scheme_of(self.scheme), target, patterns(self.skip))
        found = [layer for layer in insertion.layers if isinstance(layer.op, AttentionOp)]
        found = [layer for layer in found if not insertion.reason(layer)]
        if found:
            judge(main, calibration, found, range_method_of(self.method).name == SEARCH)
