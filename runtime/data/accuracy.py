"""Distance of an array from its reference, and a test that it is near enough for the type it was
computed in: the one place where tolerances of numbers against other programs' are stated."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array, kind_of

Arrays: TypeAlias = Mapping[str, Array]  # outputs of all samples, by name

LEAST = 1e-6  # an error is part of the largest magnitude, or of this where that is less


def powers(want: Array, got: Array) -> tuple[float, float]:
    """The power of an array and that of another's difference from it, where it is finite."""
    finite = np.isfinite(want)
    want = np.where(finite, want, 0).astype(np.float64)
    noise = np.where(finite, got, 0).astype(np.float64) - want
    power = float(np.square(noise).sum())
    return float(np.square(want).sum()), power if math.isfinite(power) else math.inf


def are_finite(arrays: Iterable[Array]) -> bool:
    """Return whether no float among them is infinite or nan."""
    return all(kind_of(a.dtype) != "f" or bool(np.isfinite(a).all()) for a in arrays)


def decibels(signal: float, noise: float) -> float:
    """inf without noise, -inf without signal."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and noise < math.inf else -math.inf


def cosine(want: Array, got: Array) -> float:
    (signal, noise), other = powers(want, got), powers(got, got)[0]
    return cosine_of(signal, noise, other)


def cosine_of(signal: float, noise: float, other: float) -> float:
    """The cosine of two arrays of powers `signal` and `other`, and that of their difference."""
    if not signal or not other or noise == math.inf:
        return 1.0 if signal == other else 0.0
    return (signal + other - noise) / (2 * math.sqrt(signal) * math.sqrt(other))


# ---- all outputs of a model --------------------------------------------------------------------


def floats_of(want: Arrays) -> list[str]:
    return [name for name, array in want.items() if kind_of(array.dtype) == "f"]


def total_noise(want: Arrays, got: Arrays) -> float:
    """The noise of outputs as part of their power, of those of floats if there are any."""
    pairs = (powers(want[name], got[name]) for name in floats_of(want) or want)
    return sum(noise / (signal or 1.0) for signal, noise in pairs)


def decibels_of(want: Arrays, got: Arrays) -> dict[str, float]:
    """The signal-to-noise ratio of each output of floats."""
    return {name: decibels(*powers(want[name], got[name])) for name in floats_of(want)}


def worst(metric: str, want: Arrays, got: Arrays) -> float:
    """The least of a metric over all outputs of floats."""
    if not (names := floats_of(want)):
        hint = "compare outputs with a function of your own: ge.quantize(..., accuracy=...)"
        raise GeError(f"the model has no outputs of floats for '{metric}'", hint=hint)
    if metric == "snr":
        return min(decibels_of(want, got).values())
    return min(cosine(want[name], got[name]) for name in names)


# ---- tolerances ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bounds that outputs have to keep: `share` is the largest error there may be, as part of the
    largest magnitude of the output; `snr` (dB) and `cos` are the least there may be. None: not
    asked for. Integers may differ by `step`."""

    share: float | None = None
    snr: float | None = None
    cos: float | None = None
    step: int = 0

    def __str__(self) -> str:
        bounds = {"error <= {:g} of the largest": self.share, "snr >= {:g} dB": self.snr,
                  "cos >= {:g}": self.cos}  # fmt: skip
        return ", ".join(form.format(v) for form, v in bounds.items() if v is not None)


# What numbers are computed in -> what they keep. f8 and integers of a model that is quantized in
# both programs differ by rounding at ties alone; beside a model of floats, by the steps of codes.
INTEGERS, CODES = "integers", "integers beside floats"
TOLERANCES: Mapping[str, Tolerance] = {
    "f64": Tolerance(share=1e-9),
    "f32": Tolerance(share=1e-4),
    "f16": Tolerance(share=2e-2),
    "bf16": Tolerance(share=0.12),
    INTEGERS: Tolerance(snr=40.0, step=1),
    CODES: Tolerance(snr=20.0, step=1),
}


# ---- measuring -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Distance of an array from a reference of its shape. `error`: the largest, of `largest`, the
    largest magnitude of what it should be; `strange`: elements that are nan or infinite in one of
    the two only; `differ`: elements that are not equal, counted for integers alone."""

    is_float: bool
    size: int
    error: float
    largest: float
    snr: float
    cos: float
    strange: int = 0
    differ: int = 0

    @property
    def share(self) -> float:
        """The largest error as part of the largest magnitude."""
        return self.error / max(self.largest, LEAST)

    def complaint(self, tolerance: Tolerance) -> str:
        """Text of the bound that is broken; "" if the array is within the tolerance."""
        if self.strange:
            return f"nan or infinity in other places: {self.strange} of {self.size} elements"
        if not self.is_float:
            is_near = not self.differ or 0 < self.error <= tolerance.step
            return "" if is_near else f"{self.differ} of {self.size} elements differ"
        if tolerance.share is not None and not self.share <= tolerance.share:
            return f"error {self.share:.1e} of the largest, {tolerance.share:g} is allowed"
        if tolerance.snr is not None and not self.snr >= tolerance.snr:
            return f"{self.snr:.1f} dB, {tolerance.snr:g} are asked for"
        if tolerance.cos is not None and not self.cos >= tolerance.cos:
            return f"cosine {self.cos:.6f}, {tolerance.cos:g} is asked for"
        return ""


def measured(want: Array, got: Array) -> Measured:
    """Measure the distance of `got` from `want`, of the same shape. For floats of up to 32 bits
    sums are taken in 32 bits first, which is enough for decibels and costs a tenth of the time of
    wider ones."""
    kinds = {kind_of(want.dtype), kind_of(got.dtype)}
    is_float = "f" in kinds
    if is_float and want.size and max(want.dtype.itemsize, got.dtype.itemsize) <= 4:
        a, b = (x.reshape(-1).astype(np.float32, copy=False) for x in (want, got))
        if (quick := _sums(a, b)) is not None:
            return quick
    a, b = (x.reshape(-1).astype(np.float64) for x in (want, got))
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        strange = int(np.count_nonzero(~finite & ~same))
        a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
        noise = b - a
        signal, power, other = (float(np.dot(x, x)) for x in (a, noise, b))
    return Measured(
        is_float, want.size,
        float(np.abs(noise).max(initial=0.0)), float(np.abs(a).max(initial=0.0)),
        decibels(signal, power), cosine_of(signal, power, other),
        strange, 0 if is_float else int(np.count_nonzero(want.reshape(-1) != got.reshape(-1))),
    )  # fmt: skip


def _sums(a: Array, b: Array) -> Measured | None:
    """`measured` of flat arrays of floats; None where a sum is not finite."""
    with np.errstate(all="ignore"):
        noise = b - a
        signal, power, other = (float(np.dot(x, x)) for x in (a, noise, b))
        if not math.isfinite(signal + power + other):
            return None
        error, largest = _magnitude(noise), _magnitude(a)
    snr, cos = decibels(signal, power), cosine_of(signal, power, other)
    return Measured(True, a.size, error, largest, snr, min(max(cos, -1.0), 1.0))


def _magnitude(x: Array) -> float:
    """The largest magnitude, without an array of magnitudes."""
    most, least = float(x.max()), float(x.min())
    return max(most, -least, 0.0)


def report(m: Measured) -> dict[str, Any]:
    """The figures for JSON: without noise there are no dB."""
    figures: dict[str, Any] = {"error": m.error, "share": m.share, "cos": m.cos}
    if math.isfinite(m.snr):
        figures["snr_db"] = m.snr
    if not m.is_float:
        figures["differ"] = m.differ
    if m.strange:
        figures["strange"] = m.strange
    return figures
