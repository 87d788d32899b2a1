"""Kernels of random numbers: computed in float64, rounded once."""

import numpy as np

from ge.dialects.graph import random as g
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.philox import derived, drawn, key_of
from ge.runtime.numbers.shape import fitting, ints_of, refusing


@kernel(g.RandomUniformOp)
def random_uniform(op: g.RandomUniformOp) -> Fn:
    low, high = op.low.value.data, op.high.value.data

    def uniform(u: Array, v: Array) -> Array:
        return low + (high - low) * np.stack([u, v])

    return drawing(op, uniform)


@kernel(g.RandomNormalOp)
def random_normal(op: g.RandomNormalOp) -> Fn:
    mean, scale = op.mean.value.data, op.scale.value.data

    def normal(u: Array, v: Array) -> Array:
        """By Box and Muller: u becomes a distance (its logarithm is taken of 1 - u, which is never
        zero), v an angle."""
        distance, angle = np.sqrt(-2 * np.log1p(-u)), 2 * np.pi * v
        return mean + scale * distance * np.stack([np.cos(angle), np.sin(angle)])

    return drawing(op, normal)


def drawing(op: g.RandomOp, transform: Fn) -> Fn:
    """The kernel of an op that draws by `transform` (see `drawn`)."""
    shape_of, dtype = ints_of(op, "shape"), dtype_of(op.element)
    stream, own = op.stream.value.data, None if op.own is None else op.own.value.data

    def run(seed: Array, shape: Array | None) -> Array:
        sizes = fitting(shape_of(shape), dtype)
        key = key_of(seed, stream, own)
        size = int(np.prod(sizes))
        return drawn(key, size, dtype == np.float64, transform).astype(dtype).reshape(sizes)

    return refusing(run)


@kernel(g.DeriveSeedOp)
def derive_seed(op: g.DeriveSeedOp) -> Fn:
    def run(seed: Array, index: Array) -> Array:
        return derived(seed, int(index.item()))

    return run
