"""Kernels of the elementwise ops and the activation functions. float16 and bfloat16 are computed in
float32 where a formula has several steps, and rounded once.

numpy vectorizes tanh and exp but knows no erf. The formulas here are chains of numpy calls that
write into their own temporaries; run on blocks, these stay in the cache."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ge.dialects import graph as g
from ge.runtime.data.arrays import BFLOAT16, Array, compute_dtype, rounded
from ge.runtime.numbers import Fn, array_kernel, kernel

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
        wide = compute_dtype(x)
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
# (1e-8), computed by iteratively reweighted least squares (Lawson, 1961).
_ATANH_ERF = (
    1.74775246e-10, -8.32788938e-09, 1.5417971e-07, -1.27488039e-06, 1.27155847e-06,
    6.94387195e-05, -5.95439641e-04, -2.06585268e-04, 0.102772152, 0.128379179,
)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function of a float32 or float64 array."""
    if x.dtype == np.float64:
        return np.vectorize(math.erf, [np.float64])(x)
    # erf is tanh of a smooth odd function, and tanh is one fast call. At 4.1 the value is 1 in
    # float32, and stays 1 with the polynomial held constant above.
    square = x * x
    np.minimum(square, 16.81, out=square)
    y = horner(square, _ATANH_ERF)
    y *= x
    y += x
    return np.tanh(y, out=y)


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


def gelu_erf(x: Array) -> Array:
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


def clipped_line(x: Array, alpha: float, beta: float) -> Array:
    """max(0, min(1, alpha x + beta))"""
    y = x * alpha
    y += beta
    np.maximum(y, 0, out=y)
    return np.minimum(y, 1, out=y)


def hard_swish(x: Array) -> Array:
    """x max(0, min(1, x / 6 + 1 / 2))"""
    y = clipped_line(x, 1 / 6, 0.5)
    y *= x
    return y


_UFUNCS: dict[type[Any], Any] = {
    g.AbsOp: np.absolute,
    g.NegOp: np.negative,
    g.SignOp: np.sign,
    g.AddOp: np.add,
    g.SubOp: np.subtract,
    g.MulOp: np.multiply,
    g.MaximumOp: np.maximum,
    g.MinimumOp: np.minimum,
    g.AndOp: np.bitwise_and,
    g.OrOp: np.bitwise_or,
    g.XorOp: np.bitwise_xor,
    g.NotOp: np.invert,
    g.IsNanOp: np.isnan,
    g.ErfOp: in_blocks(erf),
    g.SigmoidOp: in_blocks(sigmoid),
    g.SoftplusOp: in_blocks(softplus),
    g.SoftsignOp: in_blocks(softsign),
    g.MishOp: in_blocks(mish),
    g.HardSwishOp: in_blocks(hard_swish),
}
for _op, _fn in _UFUNCS.items():
    array_kernel(_op, into=True)(_fn)

_FLOAT_UFUNCS: dict[type[Any], Any] = {
    g.FloorOp: np.floor,
    g.CeilOp: np.ceil,
    g.RoundOp: np.rint,
    g.SqrtOp: np.sqrt,
    g.ExpOp: np.exp,
    g.LogOp: np.log,
    g.SinOp: np.sin,
    g.CosOp: np.cos,
    g.TanOp: np.tan,
    g.AsinOp: np.arcsin,
    g.AcosOp: np.arccos,
    g.AtanOp: np.arctan,
    g.SinhOp: np.sinh,
    g.CoshOp: np.cosh,
    g.TanhOp: np.tanh,
    g.AsinhOp: np.arcsinh,
    g.AcoshOp: np.arccosh,
    g.AtanhOp: np.arctanh,
}


def _float_ufunc(fn: Any) -> Fn:
    blocks = in_blocks(fn)  # ml_dtypes' own loops for bfloat16 are 5 to 20 times slower

    def run(x: Array, out: Array | None = None) -> Array:
        return blocks(x, out) if x.dtype == BFLOAT16 else fn(x, out=out)

    return run


for _op, _fn in _FLOAT_UFUNCS.items():
    array_kernel(_op, into=True)(_float_ufunc(_fn))


array_kernel(g.SelectOp)(np.where)


@array_kernel(g.ReciprocalOp, into=True)
def reciprocal(x: Array, out: Array | None = None) -> Array:
    return np.divide(x.dtype.type(1), x, out=out)


@array_kernel(g.DivOp, into=True)
def div(x: Array, y: Array, out: Array | None = None) -> Array:
    if x.dtype.kind not in "iu":
        return np.divide(x, y, out=out)
    quotient = np.floor_divide(x, y)
    if x.dtype.kind == "i":  # floor to truncation: one up where the signs differ
        quotient = quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))
    return rounded(quotient, x.dtype, out)


@kernel(g.ModOp, into=True)
def mod(op: g.ModOp) -> Fn:
    return np.fmod if op.fmod.value.data else np.mod


@array_kernel(g.PowOp, into=True)
def power(x: Array, y: Array, out: Array | None = None) -> Array:
    if y.size == 1 and y.ndim <= x.ndim and (exponent := float(y.item())) in (2.0, 3.0):
        return np.multiply(x, x if exponent == 2.0 else x * x, out=out)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        # Modulo 2^64 first: an exponent need not fit into the type of the base.
        wrapped = np.power(x.astype(np.uint64), np.maximum(y, 0).astype(np.uint64))
        if (below := y < 0).any():  # these alone are fractions, whatever other elements are
            fractions = rounded(np.power(x.astype(np.float64), y.astype(np.float64)), x.dtype)
            wrapped = np.where(below, fractions, wrapped.astype(x.dtype))
        return rounded(wrapped, x.dtype, out)
    wide = np.float64 if x.dtype.itemsize > 4 or x.dtype.kind in "iu" else np.float32
    base = x.astype(wide)
    if (y == 0.5).any():  # where numpy takes a root: that of -0.0 is -0.0, of -inf nan
        base = np.where((y == 0.5) & ((base == 0) | (base == -np.inf)), np.abs(base), base)
    return rounded(np.power(base, y.astype(wide)), x.dtype, out)


@kernel(g.ShiftOp, into=True)
def shift(op: g.ShiftOp) -> Fn:
    return np.left_shift if op.direction.data == "left" else np.right_shift


_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@kernel(g.CompareOp, into=True)
def compare(op: g.CompareOp) -> Fn:
    return _COMPARE[op.predicate.data]


@kernel(g.IsInfOp)
def is_inf(op: g.IsInfOp) -> Fn:
    negative, positive = bool(op.negative.value.data), bool(op.positive.value.data)

    def run(x: Array) -> Array:
        infinite = np.isinf(x)
        if negative and positive:
            return infinite
        return infinite & ((x < 0) if negative else (x > 0) if positive else np.False_)

    return run


@array_kernel(g.ClampOp, into=True)
def clamp(x: Array, low: Array | None, high: Array | None, out: Array | None = None) -> Array:
    if x.dtype.itemsize == 1 and x.dtype.isbuiltin != 1:  # ml_dtypes has no clip for small types
        arrays = (None if a is None else a.astype(np.float32) for a in (x, low, high))
        return rounded(clamp(*arrays), x.dtype, out)
    if x.dtype.kind == "f":  # np.maximum by one number takes three times as long
        least = -np.inf if low is None else low.item()
        return x.clip(least, np.inf if high is None else high.item(), out=out)
    if low is None:
        return (
            rounded(x, x.dtype, out) if high is None else np.minimum(x, high.reshape(()), out=out)
        )
    if high is None:
        return np.maximum(x, low.reshape(()), out=out)
    if x.dtype != BFLOAT16:  # of which np.clip would make float32
        return x.clip(low.item(), high.item(), out=out)
    least, most = low.reshape(())[()], high.reshape(())[()]  # copies: `out` may be a limit
    return np.minimum(np.maximum(x, least, out=out), most, out=out)


def leaky_relu(x: Array, alpha: float) -> Array:
    return np.maximum(x, x * alpha) if 0 < alpha <= 1 else np.where(x >= 0, x, x * alpha)


def thresholded_relu(x: Array, alpha: float) -> Array:
    return np.where(x > alpha, x, x.dtype.type(0))


_WITH_ALPHA: dict[type[Any], Callable[[Array, float], Array]] = {
    g.SiluOp: silu,
    g.EluOp: elu,
    g.CeluOp: celu,
    g.LeakyReluOp: leaky_relu,
    g.ThresholdedReluOp: thresholded_relu,
}


@kernel(*_WITH_ALPHA, into=True)
def with_alpha(op: Any) -> Fn:
    formula, alpha = _WITH_ALPHA[type(op)], op.alpha.value.data
    return in_blocks(lambda x: formula(x, alpha))


@array_kernel(g.ReluOp, into=True)
def relu(x: Array, out: Array | None = None) -> Array:
    if x.dtype.kind == "f":  # np.clip takes a third of the time of np.maximum by one number
        return x.clip(0.0, np.inf, out=out)
    return np.maximum(x, x.dtype.type(0), out=out)


@kernel(g.GeluOp, into=True)
def gelu(op: g.GeluOp) -> Fn:
    forms: dict[str, Callable[[Array], Array]] = {
        "none": gelu_erf,
        "tanh": gelu_tanh,
        "sigmoid": lambda x: silu(x, 1.702),
    }
    return in_blocks(forms[op.approximate.data])


@kernel(g.SeluOp, into=True)
def selu(op: g.SeluOp) -> Fn:
    alpha, gamma = op.alpha.value.data, op.gamma.value.data
    return in_blocks(lambda x: elu(x, alpha) * gamma)


@kernel(g.HardSigmoidOp, into=True)
def hard_sigmoid(op: g.HardSigmoidOp) -> Fn:
    alpha, beta = op.alpha.value.data, op.beta.value.data
    return in_blocks(lambda x: clipped_line(x, alpha, beta))


@kernel(g.ShrinkOp)
def shrink(op: g.ShrinkOp) -> Fn:
    bias, lambd = op.bias.value.data, op.lambd.value.data

    def run(x: Array) -> Array:
        """Integers are moved by a fraction, and truncated."""
        wide = x.astype(np.float64) if x.dtype.kind in "iu" else x
        step = wide.dtype.type(bias)
        high = np.where(wide > lambd, wide - step, wide.dtype.type(0))
        return np.where(wide < -lambd, wide + step, high).astype(x.dtype)

    return run


@array_kernel(g.PReluOp)
def prelu(x: Array, slope: Array) -> Array:
    return np.where(x >= x.dtype.type(0), x, x * slope)
