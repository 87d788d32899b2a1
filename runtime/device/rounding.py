"""By how much the results of a kernel may differ where its sums are made in another order.

Each addition rounds, and n of these errors add up like the steps of a random walk: to about
sqrt(n) * eps of the terms, however small the sum is that they cancel to. So
much is what results differ by if each element of the inputs is off by sqrt(n) * eps of itself; the
kernel is run on such inputs to see it, so that what happens to sums afterwards counts too.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.boxes import MOVING, Box
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of
from ge.runtime.data.arrays import Array, float_limits, kind_of
from ge.runtime.device.interpreter import KernelCode

TRIALS = 4
FACTOR = 4.0  # both ways to add have an error, and either may be larger than is usual


def most_terms(kernel: KernelOp) -> int:
    """Of how many elements of one operand an op of the kernel makes one element, at most."""
    ops = [op for op in kernel.body.walk() if isinstance(op, TensorOp)]
    return max((_terms(op) for op in ops), default=1)


def _terms(op: TensorOp) -> int:
    if op.ACCESS in MOVING:
        return 1
    counts = [1]
    for number, result in enumerate(op.results):
        one = Box.of([(0, 1)] * len(shape_of(result)))
        for index, operand in enumerate(op.operands):
            box = op.operand_box(index, one, number)
            counts.append(prod(shape_of(operand) if box is None else box.sizes))
    return max(counts)


def rounding(
    kernel: KernelOp, code: KernelCode, inputs: Sequence[Array], wanted: Sequence[Array]
) -> list[Array]:
    """For each element of the results of a kernel on these inputs, which are `wanted`: the
    greatest difference that rounding explains. Shapes are static."""
    relative = most_terms(kernel) ** 0.5 * _eps(wanted)
    # a change must not be lost in elements of 16 bits: what is larger counts for less
    eps = [float(float_limits(a.dtype).eps) for a in inputs if kind_of(a.dtype) == "f"]
    change = max([relative, *eps])
    rng = np.random.default_rng(0)
    moved = [np.zeros(want.shape) for want in wanted]
    with np.errstate(all="ignore"):
        for _ in range(TRIALS):
            results = code.run([_changed(a, change, rng) for a in inputs], [None] * len(wanted))
            for most, got, want in zip(moved, results, wanted, strict=True):
                np.maximum(most, _distance(got, want), out=most)
        return [
            FACTOR * relative * (_usual(most) / change + _distance(want, np.zeros_like(want)))
            for most, want in zip(moved, wanted, strict=True)
        ]


def explained(got: Array, want: Array, allowed: Array) -> Array:
    """Which elements differ by no more than is allowed."""
    with np.errstate(all="ignore"):
        return _distance(got, want, np.inf) <= allowed


def _eps(wanted: Sequence[Array]) -> float:
    """Of the type in which sums are made: floats of 16 bits are added in one of 32."""
    wide = all(want.dtype == np.float64 for want in wanted)
    return float(np.finfo(np.float64 if wide else np.float32).eps)


def _changed(array: Array, change: float, rng: np.random.Generator) -> Array:
    if kind_of(array.dtype) != "f":
        return array
    factors = 1 + change * rng.standard_normal(array.shape)
    return (array.astype(np.float64) * factors).astype(array.dtype)


def _distance(a: Array, b: Array, otherwise: float = 0.0) -> Array:
    """Between floats, and `otherwise` where that is no number, and of other types."""
    if kind_of(b.dtype) != "f":
        return np.full(b.shape, otherwise)
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(apart), apart, otherwise)


def _usual(moved: Array) -> Array:
    """At least what half of the elements move by: a few trials may leave one where it is."""
    return np.maximum(moved, np.median(moved)) if moved.size else moved
