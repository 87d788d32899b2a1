"""Kernels of the elementwise ops. float16 and bfloat16 are computed in float32 where a formula
has several steps, and rounded once."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ge.dialects.graph import elementwise as g
from ge.runtime.arrays import BFLOAT16, Array, dtype_of
from ge.runtime.kernels import Fn, kernel

_HALF = (np.dtype(np.float16), BFLOAT16)


def in_float32(fn: Callable[[Array], Array]) -> Fn:
    """`fn` computed in float32 for 16-bit floats, the result rounded back."""

    def wrapped(x: Array) -> Array:
        if x.dtype in _HALF:
            return fn(x.astype(np.float32)).astype(x.dtype)
        return fn(x)

    return wrapped


def _ufunc(fn: Any) -> Callable[[Any], Fn]:
    return lambda op: fn


_UFUNCS: dict[type[Any], Any] = {
    g.AbsOp: np.absolute,
    g.NegOp: np.negative,
    g.SignOp: np.sign,
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
}
for _op, _fn in _UFUNCS.items():
    kernel(_op, into=True)(_ufunc(_fn))


@kernel(g.ReciprocalOp)
def reciprocal(op: g.ReciprocalOp) -> Fn:
    return lambda x: (np.ones((), x.dtype) / x).astype(x.dtype, copy=False)


def erf(x: Array) -> Array:
    """The error function of float32 or float64 arrays, by the rational approximations of
    W. J. Cody (Math. Comp. 23, 1969) on [0, 0.5] and the complementary function above it."""
    return _erf_wide(x) if x.dtype == np.float64 else _erf_single(x)


def _erf_single(x: Array) -> Array:
    # Odd polynomial over even polynomial on [-4, 4], outside of which erf is 1 in float32.
    x = np.clip(x, np.float32(-4), np.float32(4))
    x2 = x * x
    p = np.float32(-2.72614225801306e-10)
    for c in (
        2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
        -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
    ):  # fmt: skip
        p = p * x2 + np.float32(c)
    q = np.float32(-1.45660718464996e-05)
    for c in (
        -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
        -1.42647390514189e-02,
    ):  # fmt: skip
        q = q * x2 + np.float32(c)
    return x * p / q


def _erf_wide(x: Array) -> Array:
    from math import erf as scalar

    return np.vectorize(scalar, otypes=[np.float64])(x) if x.size else x.copy()


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow: by tanh."""
    return np.tanh(x * x.dtype.type(0.5)) * x.dtype.type(0.5) + x.dtype.type(0.5)


def softplus(x: Array) -> Array:
    return np.logaddexp(x, x.dtype.type(0))


@kernel(g.ErfOp)
def erf_kernel(op: g.ErfOp) -> Fn:
    return in_float32(erf)


@kernel(g.SigmoidOp)
def sigmoid_kernel(op: g.SigmoidOp) -> Fn:
    return in_float32(sigmoid)


@kernel(g.ReluOp)
def relu(op: g.ReluOp) -> Fn:
    return lambda x: np.maximum(x, x.dtype.type(0))


@kernel(g.SiluOp)
def silu(op: g.SiluOp) -> Fn:
    alpha = op.alpha.value.data
    if alpha == 1.0:
        return in_float32(lambda x: x * sigmoid(x))
    return in_float32(lambda x: x * sigmoid(x * x.dtype.type(alpha)))


@kernel(g.GeluOp)
def gelu(op: g.GeluOp) -> Fn:
    def by_erf(x: Array) -> Array:
        t = x.dtype.type
        return x * (erf(x * t(0.7071067811865476)) + t(1)) * t(0.5)

    def by_tanh(x: Array) -> Array:
        t = x.dtype.type
        inner = t(0.7978845608028654) * (x + t(0.044715) * x * x * x)
        return t(0.5) * x * (t(1) + np.tanh(inner))

    def by_sigmoid(x: Array) -> Array:
        return x * sigmoid(x * x.dtype.type(1.702))

    forms = {"none": by_erf, "tanh": by_tanh, "sigmoid": by_sigmoid}
    return in_float32(forms[op.approximate.data])


@kernel(g.SoftplusOp)
def softplus_kernel(op: g.SoftplusOp) -> Fn:
    return in_float32(softplus)


@kernel(g.SoftsignOp)
def softsign(op: g.SoftsignOp) -> Fn:
    return in_float32(lambda x: x / (np.abs(x) + x.dtype.type(1)))


@kernel(g.MishOp)
def mish(op: g.MishOp) -> Fn:
    return in_float32(lambda x: x * np.tanh(softplus(x)))


@kernel(g.EluOp)
def elu(op: g.EluOp) -> Fn:
    alpha = op.alpha.value.data
    return in_float32(
        lambda x: np.where(x >= 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))
    )


@kernel(g.SeluOp)
def selu(op: g.SeluOp) -> Fn:
    alpha, gamma = op.alpha.value.data, op.gamma.value.data

    def run(x: Array) -> Array:
        t = x.dtype.type
        return t(gamma) * np.where(x > 0, x, t(alpha) * np.expm1(np.minimum(x, 0)))

    return in_float32(run)


@kernel(g.CeluOp)
def celu(op: g.CeluOp) -> Fn:
    alpha = op.alpha.value.data

    def run(x: Array) -> Array:
        t = x.dtype.type
        return np.maximum(x, t(0)) + np.minimum(t(0), t(alpha) * np.expm1(x / t(alpha)))

    return in_float32(run)


@kernel(g.LeakyReluOp)
def leaky_relu(op: g.LeakyReluOp) -> Fn:
    alpha = op.alpha.value.data
    return in_float32(lambda x: np.where(x >= 0, x, x * x.dtype.type(alpha)))


@kernel(g.ThresholdedReluOp)
def thresholded_relu(op: g.ThresholdedReluOp) -> Fn:
    alpha = op.alpha.value.data
    return lambda x: np.where(x > x.dtype.type(alpha), x, x.dtype.type(0))


@kernel(g.HardSigmoidOp)
def hard_sigmoid(op: g.HardSigmoidOp) -> Fn:
    alpha, beta = op.alpha.value.data, op.beta.value.data
    return in_float32(
        lambda x: np.clip(
            x * x.dtype.type(alpha) + x.dtype.type(beta), x.dtype.type(0), x.dtype.type(1)
        )
    )


@kernel(g.HardSwishOp)
def hard_swish(op: g.HardSwishOp) -> Fn:
    return in_float32(
        lambda x: x
        * np.clip(x / x.dtype.type(6) + x.dtype.type(0.5), x.dtype.type(0), x.dtype.type(1))
    )


@kernel(g.ShrinkOp)
def shrink(op: g.ShrinkOp) -> Fn:
    bias, lambd = op.bias.value.data, op.lambd.value.data

    def run(x: Array) -> Array:
        zero = np.zeros((), x.dtype)
        low = np.where(x < -lambd, x + x.dtype.type(bias), zero)
        return np.where(x > lambd, x - x.dtype.type(bias), low).astype(x.dtype, copy=False)

    return run


@kernel(g.DivOp)
def div(op: g.DivOp) -> Fn:
    def run(x: Array, y: Array) -> Array:
        if x.dtype.kind in "iu":
            quotient = np.floor_divide(x, y)
            if x.dtype.kind == "i":  # floor to truncation: one up where the signs differ
                quotient += (quotient * y != x) & ((x < 0) != (y < 0))
            return quotient
        return np.divide(x, y)

    return run


@kernel(g.ModOp)
def mod(op: g.ModOp) -> Fn:
    return np.fmod if op.fmod.value.data else np.mod


@kernel(g.PowOp)
def power(op: g.PowOp) -> Fn:
    def run(x: Array, y: Array) -> Array:
        if y.size == 1 and float(y.reshape(())) == 2.0:
            return np.broadcast_to(x * x, np.broadcast_shapes(x.shape, y.shape))
        if x.dtype.kind in "iu" and y.dtype.kind in "iu" and (y >= 0).all():
            return np.power(x, y.astype(x.dtype))
        wide = np.float64 if x.dtype.itemsize > 4 or x.dtype.kind in "iu" else np.float32
        return np.power(x.astype(wide), y.astype(wide)).astype(x.dtype)

    return run


@kernel(g.ShiftOp)
def shift(op: g.ShiftOp) -> Fn:
    return np.left_shift if op.direction.data == "left" else np.right_shift


@kernel(g.PReluOp)
def prelu(op: g.PReluOp) -> Fn:
    return lambda x, slope: np.where(x >= x.dtype.type(0), x, x * slope)


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


@kernel(g.SelectOp)
def select(op: g.SelectOp) -> Fn:
    return np.where


@kernel(g.ClampOp)
def clamp(op: g.ClampOp) -> Fn:
    def run(x: Array, low: Array | None, high: Array | None) -> Array:
        if low is not None:
            x = np.maximum(x, low.reshape(()))
        return x if high is None else np.minimum(x, high.reshape(()))

    return run


@kernel(g.CastOp)
def cast(op: g.CastOp) -> Fn:
    to = dtype_of(op.to)

    def run(x: Array) -> Array:
        if to.kind in "iu" and x.dtype.kind not in "iub":
            wide = np.trunc(x.astype(np.float64))
            with np.errstate(invalid="ignore"):
                return wide.astype(np.int64).astype(to) if to != np.uint64 else wide.astype(to)
        with np.errstate(over="ignore"):
            return x.astype(to)

    return run


@kernel(g.BitcastOp)
def bitcast(op: g.BitcastOp) -> Fn:
    to = dtype_of(op.to)
    return lambda x: np.ascontiguousarray(x).view(to)
