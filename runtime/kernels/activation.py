"""Kernels of the activation functions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ge.dialects.graph import activation as g
from ge.runtime.data.arrays import Array
from ge.runtime.kernels import Fn, kernel
from ge.runtime.kernels import special as f
from ge.runtime.kernels.special import in_blocks

_FORMULAS: dict[type[Any], Callable[[Array], Array]] = {
    g.SigmoidOp: f.sigmoid,
    g.SoftplusOp: f.softplus,
    g.SoftsignOp: f.softsign,
    g.MishOp: f.mish,
    g.HardSwishOp: f.hard_swish,
}


def _formula(fn: Callable[[Array], Array]) -> Callable[[Any], Fn]:
    return lambda op: in_blocks(fn)


for _op, _fn in _FORMULAS.items():
    kernel(_op, into=True)(_formula(_fn))


@kernel(g.ReluOp, into=True)
def relu(op: g.ReluOp) -> Fn:
    def run(x: Array, out: Array | None = None) -> Array:
        return np.maximum(x, x.dtype.type(0), out=out)

    return run


@kernel(g.SiluOp, into=True)
def silu(op: g.SiluOp) -> Fn:
    alpha = op.alpha.value.data
    return in_blocks(lambda x: f.silu(x, alpha))


@kernel(g.GeluOp, into=True)
def gelu(op: g.GeluOp) -> Fn:
    forms: dict[str, Callable[[Array], Array]] = {
        "none": f.gelu,
        "tanh": f.gelu_tanh,
        "sigmoid": lambda x: f.silu(x, 1.702),
    }
    return in_blocks(forms[op.approximate.data])


@kernel(g.EluOp, into=True)
def elu(op: g.EluOp) -> Fn:
    alpha = op.alpha.value.data
    return in_blocks(lambda x: f.elu(x, alpha))


@kernel(g.SeluOp, into=True)
def selu(op: g.SeluOp) -> Fn:
    alpha, gamma = op.alpha.value.data, op.gamma.value.data
    return in_blocks(lambda x: f.elu(x, alpha) * gamma)


@kernel(g.CeluOp, into=True)
def celu(op: g.CeluOp) -> Fn:
    alpha = op.alpha.value.data
    return in_blocks(lambda x: f.celu(x, alpha))


@kernel(g.LeakyReluOp, into=True)
def leaky_relu(op: g.LeakyReluOp) -> Fn:
    alpha = op.alpha.value.data
    if 0 < alpha <= 1:
        return in_blocks(lambda x: np.maximum(x, x * alpha))
    return in_blocks(lambda x: np.where(x >= 0, x, x * alpha))


@kernel(g.ThresholdedReluOp, into=True)
def thresholded_relu(op: g.ThresholdedReluOp) -> Fn:
    alpha = op.alpha.value.data
    return in_blocks(lambda x: np.where(x > alpha, x, x.dtype.type(0)))


@kernel(g.HardSigmoidOp, into=True)
def hard_sigmoid(op: g.HardSigmoidOp) -> Fn:
    alpha, beta = op.alpha.value.data, op.beta.value.data
    return in_blocks(lambda x: f.hard_sigmoid(x, alpha, beta))


@kernel(g.ShrinkOp)
def shrink(op: g.ShrinkOp) -> Fn:
    bias, lambd = op.bias.value.data, op.lambd.value.data

    def run(x: Array) -> Array:
        zero, step = np.zeros((), x.dtype), np.asarray(bias).astype(x.dtype)
        low = np.where(x < -lambd, x + step, zero)
        return np.where(x > lambd, x - step, low)

    return run


@kernel(g.PReluOp)
def prelu(op: g.PReluOp) -> Fn:
    def run(x: Array, slope: Array) -> Array:
        return np.where(x >= x.dtype.type(0), x, x * slope)

    return run
