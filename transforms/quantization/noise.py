"""Distance of outputs from those of the float model: signal to noise, and cosine."""

from collections.abc import Mapping
from typing import TypeAlias

from ge.dialects.support.errors import GeError
from ge.runtime.data.accuracy import cosine, decibels, powers
from ge.runtime.data.arrays import Array, kind_of

Arrays: TypeAlias = Mapping[str, Array]  # outputs of all samples, by name


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
