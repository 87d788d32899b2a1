"""Kernels of random numbers: computed in float64, rounded once.

They come from Philox 4x32-10, a generator without state: a bijection of a counter of four 32-bit
words under a key of two (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
3", SC 2011), whose constants these are.

Counters whose last two words are zero number the elements of a tensor, four for each. Keys follow
from seeds by the same bijection, with a last word that says what for (`Use`)."""

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from ge.dialects.graph import creation as g
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.shape import fitting, ints_of, refusing

ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85  # of the words of the key, from round to round

WORD, MASK = 32, 0xFFFFFFFF
BLOCK = 4096  # counters at a time: what is computed of them stays in the cache

Key = tuple[int, int]
Bits = Callable[[int, int], Array]  # the first number and how many -> that many rows of four words


class Use(IntEnum):
    """The purpose of a key or a seed."""

    STREAM = 0
    OWN = 1
    ROUND = 2


def philox(counter: Array, key: Key) -> Array:
    """The four words for each counter: uint64 [4, n] of words below 2^32, to the same."""
    a, b, c, d = counter
    k, m = key
    for _ in range(ROUNDS):
        low, high = a * np.uint64(FACTORS[0]), c * np.uint64(FACTORS[1])
        a, b = (high >> WORD) ^ b ^ np.uint64(k), high & MASK
        c, d = (low >> WORD) ^ d ^ np.uint64(m), low & MASK
        k, m = (k + STEPS[0]) & MASK, (m + STEPS[1]) & MASK
    return np.stack([a, b, c, d])


def halves(number: int) -> Key:
    """The two words of a number modulo 2^64, the lower one first."""
    return number & MASK, (number >> WORD) & MASK


def mixed(seed: int, number: int, stream: int, use: Use) -> int:
    """64 bits that follow from all of these."""
    counter = np.array([*halves(number), stream, use], np.uint64)[:, None]
    low, high = philox(counter, halves(seed))[:2, 0]
    return int(low) | int(high) << WORD


def key_of(seed: Array, stream: int, own: int | None) -> Key:
    """The key of a stream of a seed [of the session, of the run], or of a seed of an op's own."""
    session, run = (int(v) for v in seed)
    if own is None:
        return halves(mixed(session, run, stream, Use.STREAM))
    return halves(mixed(own, run, 0, Use.OWN))


def derived(seed: Array, index: int) -> Array:
    """The seed of a round. Its second number depends on the second one alone, as seeds of an op's
    own do not depend on the session's."""
    numbers = [mixed(int(v), index, 0, Use.ROUND) for v in seed]
    return np.array(numbers, np.uint64).view(np.int64)


def words(key: Key, first: int, count: int) -> Array:
    """uint64 [4, count]: the results of the counters from `first` on."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    zeros = np.zeros_like(numbers)
    return philox(np.stack([numbers & MASK, numbers >> WORD, zeros, zeros]), key)


def drawn(key: Key, size: int, wide: bool, transform: Callable[[Array, Array], Array]) -> Array:
    """float64 [size], of pairs of numbers in [0, 1) that are independent: `transform` takes arrays
    of the first and of the second ones and gives [2, n]. Numbers have 24 bits, or 53 if `wide`:
    then a counter makes one pair, else two."""
    each = 2 if wide else 4
    count = -(-size // each)
    result = np.empty((count, each))
    for start in range(0, count, BLOCK):
        bits = words(key, start, min(BLOCK, count - start))
        pairs = fractions(bits, wide)
        made = [transform(*pairs[i : i + 2]) for i in range(0, each, 2)]
        result[start : start + BLOCK] = np.concatenate(made).T
    return result.reshape(-1)[:size]


def fractions(bits: Array, wide: bool) -> Array:
    """Numbers in [0, 1) of 24 bits, one for each word, or of 53, for each two."""
    if not wide:
        return (bits >> 8) * 2.0**-24
    return ((bits[::2] << WORD | bits[1::2]) >> 11) * 2.0**-53


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
        """Normal numbers by Box and Muller: u becomes a distance (its logarithm is taken of 1 - u,
        which is never zero), v an angle."""
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
