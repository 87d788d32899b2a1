"""How far outputs are from those of the float model: signal to noise, and cosine."""

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array, kind_of

Arrays: TypeAlias = Mapping[str, Array]  # outputs of all samples, by name


def powers(want: Array, got: Array) -> tuple[float, float]:
    """The power of an array and that of another's difference from it, where it is finite."""
    finite = np.isfinite(want)
    want = np.where(finite, want, 0).astype(np.float64)
    noise = np.where(finite, got, 0).astype(np.float64) - want
    power = float(np.square(noise).sum())
    return float(np.square(want).sum()), power if math.isfinite(power) else math.inf


def decibels(signal: float, noise: float) -> float:
    """inf without noise, -inf without signal."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and noise < math.inf else -math.inf


def cosine(want: Array, got: Array) -> float:
    (signal, noise), other = powers(want, got), powers(got, got)[0]
    if not signal or not other or noise == math.inf:
        return 1.0 if signal == other else 0.0
    return (signal + other - noise) / (2 * math.sqrt(signal) * math.sqrt(other))


def total_noise(want: Arrays, got: Arrays) -> float:
    """The noise of outputs as part of their power, of those of floats if there are any."""
    names = [n for n, a in want.items() if kind_of(a.dtype) == "f"] or list(want)
    pairs = (powers(want[name], got[name]) for name in names)
    return sum(noise / (signal or 1.0) for signal, noise in pairs)


def worst(metric: str, want: Arrays, got: Arrays) -> float:
    """The least of a metric over all outputs of floats."""
    values = [
        decibels(*powers(array, got[name])) if metric == "snr" else cosine(array, got[name])
        for name, array in want.items()
        if kind_of(array.dtype) == "f"
    ]
    if not values:
        hint = "compare outputs with a function of your own: ge.quantize(..., accuracy=...)"
        raise GeError(f"the model has no outputs of floats for '{metric}'", hint=hint)
    return min(values)
