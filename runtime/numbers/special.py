"""Special functions for the elementwise kernels, and how formulas of several steps are run.

numpy vectorizes tanh and exp but knows no erf. The formulas here are chains of numpy calls that
write into their own temporaries; run on blocks, these stay in the cache.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ge.runtime.data.arrays import NARROW_FLOATS, Array
from ge.runtime.numbers import Fn

BLOCK = 32768  # elements in a block: a few temporaries of it fit in a core's L2 cache


def in_blocks(formula: Callable[[Array], Array]) -> Fn:
    """A kernel that runs a unary formula block by block, on 16-bit floats in float32 with the
    result rounded once. It takes `out=`, which may be the operand itself."""

    def run(x: Array, out: Array | None = None) -> Array:
        if out is None:
            out = np.empty(x.shape, x.dtype)
        elif not out.flags.c_contiguous:
            np.copyto(out, run(x))
            return out
        source, target = x.reshape(-1), out.reshape(-1)
        wide = np.float32 if x.dtype in NARROW_FLOATS else x.dtype
        for i in range(0, source.size, BLOCK):
            block = source[i : i + BLOCK].astype(wide, copy=False)
            target[i : i + BLOCK] = formula(block)
        return out

    return run


def horner(x: Array, coefficients: Sequence[float]) -> Array:
    """The polynomial with these coefficients, the highest power first."""
    y = x * coefficients[0]
    for c in coefficients[1:-1]:
        y += c
        y *= x
    y += coefficients[-1]
    return y


# atanh(erf(x)) / x - 1 as a polynomial in x^2 on |x| <= 4.1: least maximal relative error of erf
# (1e-8), found by iteratively reweighted least squares (Lawson, 1961).
_ATANH_ERF = (
    1.74775246e-10, -8.32788938e-09, 1.5417971e-07, -1.27488039e-06, 1.27155847e-06,
    6.94387195e-05, -5.95439641e-04, -2.06585268e-04, 0.102772152, 0.128379179,
)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function of a float32 or float64 array."""
    if x.dtype == np.float64:
        return erf_float64(x)
    # erf is tanh of a smooth odd function, and tanh is one fast call. At 4.1 the value is 1 in
    # float32, and stays 1 with the polynomial held constant above.
    square = x * x
    np.minimum(square, 16.81, out=square)
    y = horner(square, _ATANH_ERF)
    y *= x
    y += x
    return np.tanh(y, out=y)


# Approximations of erf(x) / x and exp(x^2) (1 - erf(x)) by ratios of polynomials: W. J. Cody,
# Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969), with the
# coefficients of his program CALERF.
_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
     3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
     2.84423683343917062e3),
)  # fmt: skip
_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
     6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
     1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
     1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
     3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip


def _ratio(x: Array, polynomials: tuple[Sequence[float], Sequence[float]]) -> Array:
    return horner(x, polynomials[0]) / horner(x, polynomials[1])


def erf_float64(x: Array) -> Array:
    size = np.minimum(np.absolute(x), 6.0)  # erf(6) is 1 in float64
    small = size <= 0.46875
    y = np.empty_like(size)
    s = size[small]
    y[small] = s * _ratio(s * s, _SMALL)
    # Cody goes over to a third ratio at 4. From there on 1 - erf is below 2e-8, and what the
    # second one loses in accuracy does not show.
    s = size[~small]
    y[~small] = 1.0 - np.exp(-s * s) * _ratio(s, _MIDDLE)
    return np.copysign(y, x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); exp may overflow to infinity, which gives the right 0."""
    y = np.negative(x)
    np.exp(y, out=y)
    y += 1
    return np.divide(1, y, out=y)


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which does not overflow."""
    y = np.absolute(x)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += np.maximum(x, 0)
    return y


def gelu(x: Array) -> Array:
    """x (1 + erf(x / sqrt 2)) / 2"""
    y = erf(x * 0.7071067811865476)
    half = x * 0.5
    y *= half
    y += half
    return y


def gelu_tanh(x: Array) -> Array:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"""
    y = x * x
    y *= 0.044715 * 0.7978845608028654
    y += 0.7978845608028654
    y *= x
    np.tanh(y, out=y)
    half = x * 0.5
    y *= half
    y += half
    return y


def silu(x: Array, alpha: float = 1.0) -> Array:
    """x sigmoid(alpha x)"""
    y = x * -alpha
    np.exp(y, out=y)
    y += 1
    return np.divide(x, y, out=y)


def mish(x: Array) -> Array:
    """x tanh(softplus(x)) = x n / (n + 2) with n = e (e + 2), e = exp(x)."""
    e = np.minimum(x, 20)  # above, the quotient is 1
    np.exp(e, out=e)
    n = e + 2
    n *= e
    np.add(n, 2, out=e)
    n /= e
    n *= x
    return n


def elu(x: Array, alpha: float) -> Array:
    """x for x >= 0, alpha (exp(x) - 1) below."""
    y = np.minimum(x, 0)
    np.expm1(y, out=y)
    y *= alpha
    y += np.maximum(x, 0)
    return y


def celu(x: Array, alpha: float) -> Array:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))"""
    y = np.expm1(x / alpha)
    y *= alpha
    np.minimum(y, 0, out=y)
    y += np.maximum(x, 0)
    return y


def softsign(x: Array) -> Array:
    """x / (1 + |x|)"""
    y = np.absolute(x)
    y += 1
    return np.divide(x, y, out=y)


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """max(0, min(1, alpha x + beta))"""
    y = x * alpha
    y += beta
    np.maximum(y, 0, out=y)
    return np.minimum(y, 1, out=y)


def hard_swish(x: Array) -> Array:
    """x max(0, min(1, x / 6 + 1 / 2))"""
    y = hard_sigmoid(x, 1 / 6, 0.5)
    y *= x
    return y
