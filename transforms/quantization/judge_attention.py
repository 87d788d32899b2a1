"""Judge attention in integers by the error of its results on a few samples.

    %0 = graph.attention %q, %k, %v           %q, %k and %v have {graph.range = [-4.0, 4.0]} ...

Where the noise that query, key, value and weights in 8 bits put on the results is more than
`MOST_NOISE` of their power, attention stays float:
    [layers]
    "/attn/MatMul" = "float"
is added to the table, which insert-quantization obeys. Exceptions: schemes other than int8, and
attention that stays float anyway. (Smaller ranges of query, key and value were tried on two models:
results of attention had up to 0.9 dB more, outputs between 0.3 dB less and 0.2 dB more.)
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import BoolAttr, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.data.accuracy import decibels, powers
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, prepare
from ge.runtime.numbers.attention import round_to
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.data import Calibration, Samples
from ge.transforms.quantization.emitting import code_limits
from ge.transforms.quantization.insert_quantization import Insertion, patterns, quantizer
from ge.transforms.quantization.observe import ObservedOp, Observer
from ge.transforms.quantization.schemes import FLOAT, INT8, scheme_of

MOST_NOISE = 0.01  # of the power of the results (20 dB); attention mostly has 35 dB and more
JUDGED = 32  # samples, at least


def in_integers(op: AttentionOp) -> Fn:
    """Attention with rounded weights, of arrays that were rounded before."""
    copy = op.clone()
    copy.rounded_weights = BoolAttr.from_bool(True)
    fn = prepare(copy)
    copy.erase()
    return fn


def rounded(x: Array, value: SSAValue) -> Array:
    """An operand as it comes back from integers."""
    scale, _ = quantizer(value, i8, symmetric=True)
    result = x.copy()
    round_to((float(scale), *code_limits(i8)), result)
    return result


def noises(main: FuncOp, samples: Samples, ops: Iterable[AttentionOp]) -> dict[AttentionOp, float]:
    """The noise of the results in integers, as part of their power."""
    kernels = {op: in_integers(op) for op in ops}
    sums = {op: np.zeros(2) for op in kernels}

    def watch(step: ObservedOp) -> None:
        op = step.op
        assert isinstance(op, AttentionOp)
        with np.errstate(all="ignore"):
            factors = map(rounded, step.operands[:3], op.operands[:3])
            got = kernels[op](*factors, *step.operands[3:])
        sums[op] += powers(step.results[0], got)

    Observer(main).run(samples, dict.fromkeys(kernels, watch))
    return {op: noise / (signal or 1.0) for op, (signal, noise) in sums.items()}


@dataclass(frozen=True)
class JudgeAttentionPass(CalibratedPass):
    """Leave attention in floats that integers would be far off from, where there are samples.
    `scheme`, `skip`, `target`: what insert-quantization has; `data`: a file with samples (.npz),
    else what is at hand."""

    name = "judge-attention"

    scheme: str = INT8
    skip: tuple[str, ...] = ()
    target: str = DEFAULT_TARGET

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if calibration.samples is None:
            return
        target = Target.load(self.target)
        insertion = Insertion(main, scheme_of(self.scheme), target, patterns(self.skip))
        found = [layer for layer in insertion.layers if isinstance(layer.op, AttentionOp)]
        names = {layer.op: layer.name for layer in found if not insertion.reason(layer)}
        if not names:
            return
        some = calibration.samples.canonical.first(JUDGED)
        ops = (op for op in names if isinstance(op, AttentionOp))
        for op, noise in noises(main, some, ops).items():
            if noise > MOST_NOISE:
                reason = f"in integers its results have {decibels(1.0, noise):.1f} dB"
                calibration.decide(names[op], op, FLOAT, reason)
