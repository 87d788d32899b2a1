"""Kernels of the elementwise ops. float16 and bfloat16 are computed in float32 where a formula
has several steps, and rounded once."""

from typing import Any

import numpy as np

from ge.dialects.graph import elementwise as g
from ge.dialects.graph import trigonometry as trig
from ge.runtime.data.arrays import BFLOAT16, Array
from ge.runtime.numbers import Fn, array_kernel, kernel, special
from ge.runtime.numbers.special import in_blocks


def store(result: Array, out: Array | None) -> Array:
    """The result, in `out` if that is given."""
    if out is None:
        return result
    np.copyto(out, result)
    return out


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
    g.ErfOp: in_blocks(special.erf),
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
    trig.SinOp: np.sin,
    trig.CosOp: np.cos,
    trig.TanOp: np.tan,
    trig.AsinOp: np.arcsin,
    trig.AcosOp: np.arccos,
    trig.AtanOp: np.arctan,
    trig.SinhOp: np.sinh,
    trig.CoshOp: np.cosh,
    g.TanhOp: np.tanh,
    trig.AsinhOp: np.arcsinh,
    trig.AcoshOp: np.arccosh,
    trig.AtanhOp: np.arctanh,
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
    return store(quotient, out)


@kernel(g.ModOp, into=True)
def mod(op: g.ModOp) -> Fn:
    return np.fmod if op.fmod.value.data else np.mod


@array_kernel(g.PowOp, into=True)
def power(x: Array, y: Array, out: Array | None = None) -> Array:
    if y.size == 1 and y.ndim <= x.ndim and (exponent := float(y.item())) in (2.0, 3.0):
        return np.multiply(x, x if exponent == 2.0 else x * x, out=out)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu" and (y >= 0).all():
        # Modulo 2^64 first: an exponent need not fit into the type of the base.
        wrapped = np.power(x.astype(np.uint64), y.astype(np.uint64))
        return store(wrapped.astype(x.dtype), out)
    wide = np.float64 if x.dtype.itemsize > 4 or x.dtype.kind in "iu" else np.float32
    base = x.astype(wide)
    if (y == 0.5).any():  # where numpy takes a root: that of -0.0 is -0.0, of -inf nan
        base = np.where((y == 0.5) & ((base == 0) | (base == -np.inf)), np.abs(base), base)
    return store(np.power(base, y.astype(wide)).astype(x.dtype), out)


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
        return store(clamp(*arrays).astype(x.dtype), out)
    if x.dtype.kind == "f":  # np.maximum by one number takes three times as long
        least = -np.inf if low is None else low.item()
        return x.clip(least, np.inf if high is None else high.item(), out=out)
    if low is None:
        return store(x, out) if high is None else np.minimum(x, high.reshape(()), out=out)
    if high is None:
        return np.maximum(x, low.reshape(()), out=out)
    if x.dtype != BFLOAT16:  # of which np.clip would make float32
        return x.clip(low.item(), high.item(), out=out)
    least, most = low.reshape(())[()], high.reshape(())[()]  # copies: `out` may be a limit
    return np.minimum(np.maximum(x, least, out=out), most, out=out)
