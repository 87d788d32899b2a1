"""Sums against exact ones: by what rounding may do, never relative to a sum whose terms cancel.

assert_sums(got, want, terms, magnitude)    # magnitude: the sums of what the terms are without
                                            # their signs
assert_matmul(got, a, b)
"""

from typing import Any

import numpy as np

from ge.runtime.data.arrays import Array, float_limits

FACTOR = 2.0  # over sqrt(n) * eps * magnitude: what n additions round by, as a random walk


def assert_sums(got: Array, want: Array, terms: int, magnitude: Any) -> None:
    """Sums of so many terms that floats of 32 bits (or more) were added to; those of 16 bits are
    rounded once at the end."""
    eps = float(float_limits(got.dtype).eps)
    exact = want.astype(np.float64)
    wide = min(eps, float(np.finfo(np.float32).eps))
    bound = FACTOR * terms**0.5 * wide * np.asarray(magnitude, np.float64) + eps * np.abs(exact)
    apart = np.abs(got.astype(np.float64) - exact)
    assert got.shape == want.shape
    wrong = ~(apart <= bound)
    assert not wrong.any(), (
        f"{int(wrong.sum())} of {wrong.size} sums of {terms} terms are off, by "
        f"{(apart / bound).max():.3g} times what rounding may do"
    )


def assert_matmul(got: Array, a: Array, b: Array, add: Any = 0.0) -> None:
    """`got` is a @ b + add."""
    wide, other, more = (np.asarray(x).astype(np.float64) for x in (a, b, add))
    magnitude = np.abs(wide) @ np.abs(other) + np.abs(more)
    assert_sums(got, wide @ other + more, a.shape[-1] + 1, magnitude)


def assert_near(got: Array, want: Array, relative: float) -> None:
    """Within so much of the largest element, where the terms of the sums are not at hand: a sum may
    cancel to zero in one order, and not quite in another."""
    want = np.asarray(want)
    most = np.abs(want[np.isfinite(want)], dtype=float).max(initial=0) if want.size else 0
    wide = [np.asarray(x, np.complex128) for x in (got, want)]
    np.testing.assert_allclose(*wide, rtol=relative, atol=relative * most)
