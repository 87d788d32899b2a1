"""Kernels of the recurrent layers: the products with the whole input are one matrix product, then
a loop over the steps. 16-bit floats are computed in float32 throughout and rounded at the end."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, Float64Type

from ge.dialects.graph import recurrent as g
from ge.dialects.support.types import array_floats
from ge.runtime.data.arrays import Array
from ge.runtime.kernels import Fn, kernel
from ge.runtime.kernels.normalization import widen
from ge.runtime.kernels.special import sigmoid, softplus

Activation = Callable[[Array], Array]
State = tuple[Array, ...]
# From the input's products for all gates and the states before, the states after.
Step = Callable[[Array, State], State]


def activation(name: str, alpha: float, beta: float) -> Activation:
    functions: dict[str, Activation] = {
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
        "sigmoid": sigmoid,
        "affine": lambda x: x * alpha + beta,
        "leaky_relu": lambda x: np.where(x >= 0, x, x * alpha),
        "thresholded_relu": lambda x: np.where(x >= alpha, x, 0),
        "scaled_tanh": lambda x: np.tanh(x * beta) * alpha,
        "hard_sigmoid": lambda x: np.clip(x * alpha + beta, 0, 1),
        "elu": lambda x: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "softplus": softplus,
    }
    return functions[name]


def _parameters(attr: DenseArrayBase[Float64Type] | None, count: int) -> Sequence[float]:
    return [0.0] * count if attr is None else list(array_floats(attr))


def _activations(op: g.Recurrent) -> list[list[Activation]]:
    names = op.activation_names()
    alphas, betas = _parameters(op.alphas, len(names)), _parameters(op.betas, len(names))
    functions = [activation(*parameters) for parameters in zip(names, alphas, betas, strict=True)]
    if op.clip is not None:
        limit = op.clip.value.data
        functions = [_clipped(f, limit) for f in functions]
    count = len(op.DEFAULTS)
    return [functions[i : i + count] for i in range(0, len(functions), count)]


def _clipped(f: Activation, limit: float) -> Activation:
    return lambda x: f(np.clip(x, -limit, limit))


def _reversal(steps: int, lengths: Array | None) -> Any:
    if lengths is None:
        return np.s_[::-1]
    time = np.arange(steps)[:, None]
    return np.where(time < lengths, lengths - 1 - time, time), np.arange(len(lengths))


def run_cell(
    step: Step, products: Array, state: State, lengths: Array | None
) -> tuple[Array, State]:
    """All hidden states (zero past the end of a sequence) and the last states."""
    hidden = np.empty((len(products), *state[0].shape), products.dtype)
    for time, product in enumerate(products):
        after = step(product, state)
        hidden[time] = after[0]
        if lengths is not None:
            alive = (time < lengths)[:, None]
            np.copyto(hidden[time], 0, where=~alive)
            after = tuple(np.where(alive, a, b) for a, b in zip(after, state, strict=True))
        state = after
    return hidden, state


def _layer(
    op: g.Recurrent,
    x: Array,
    weights: Array,
    lengths: Array | None,
    initial: Sequence[Array | None],
    input_bias: Array,
    make_step: Callable[[int], Step],
) -> tuple[Array, ...]:
    steps, batch, size = x.shape
    hidden = weights.shape[1] // op.GATES
    if lengths is not None and (lengths == steps).all():
        lengths = None
    wide, weights = widen(x), widen(weights)
    results: list[tuple[Array, State]] = []
    for d in range(op.directions):
        backward = op.direction.data == "reverse" or d == 1
        turn = _reversal(steps, lengths) if backward else np.s_[:]
        products = wide[turn].reshape(steps * batch, size) @ weights[d].T
        products += input_bias[d]
        zero = np.zeros((batch, hidden), wide.dtype)
        state = tuple(zero if i is None else widen(i[d]) for i in initial)
        products = products.reshape(steps, batch, products.shape[1])
        states, last = run_cell(make_step(d), products, state, lengths)
        results.append((states[turn], last))
    stacked = np.stack([states for states, _ in results], 1)
    lasts = (np.stack(s) for s in zip(*(last for _, last in results), strict=True))
    return tuple(r.astype(x.dtype, copy=False) for r in (stacked, *lasts))


def _biases(op: g.Recurrent, weights: Array, bias: Array | None) -> tuple[Array, Array]:
    if bias is None:
        zero = np.zeros(weights.shape[:2], widen(weights).dtype)
        return zero, zero
    first, second = np.split(widen(bias), 2, axis=1)
    return first, second


@kernel(g.RnnOp)
def rnn(op: g.RnnOp) -> Fn:
    functions = _activations(op)

    def run(
        x: Array, weights: Array, recurrence: Array, bias: Array | None = None,
        lengths: Array | None = None, initial: Array | None = None,
    ) -> tuple[Array, ...]:  # fmt: skip
        first, second = _biases(op, weights, bias)
        wide = widen(recurrence)

        def make_step(d: int) -> Step:
            r, (f,) = wide[d].T, functions[d]
            return lambda product, state: (f(product + state[0] @ r),)

        return _layer(op, x, weights, lengths, [initial], first + second, make_step)

    return run


@kernel(g.GruOp)
def gru(op: g.GruOp) -> Fn:
    functions = _activations(op)
    linear = bool(op.linear_before_reset.value.data)

    def run(
        x: Array, weights: Array, recurrence: Array, bias: Array | None = None,
        lengths: Array | None = None, initial: Array | None = None,
    ) -> tuple[Array, ...]:  # fmt: skip
        first, second = _biases(op, weights, bias)
        wide, hidden = widen(recurrence), recurrence.shape[-1]
        gates = 2 * hidden
        # Only the hidden gate's second bias may stay inside the reset gate.
        outer = first + second
        if linear:
            outer[:, gates:] = first[:, gates:]

        def make_step(d: int) -> Step:
            r_gates, r_hidden = wide[d, :gates].T, wide[d, gates:].T
            b_hidden = second[d, gates:]
            f, g_ = functions[d]

            def step(product: Array, state: State) -> State:
                (h,) = state
                zr = f(product[:, :gates] + h @ r_gates)
                z, r = zr[:, :hidden], zr[:, hidden:]
                inner = r * (h @ r_hidden + b_hidden) if linear else (r * h) @ r_hidden
                n = g_(product[:, gates:] + inner)
                return (n + z * (h - n),)

            return step

        return _layer(op, x, weights, lengths, [initial], outer, make_step)

    return run


@kernel(g.LstmOp)
def lstm(op: g.LstmOp) -> Fn:
    functions = _activations(op)
    coupled = bool(op.input_forget.value.data)

    def run(
        x: Array, weights: Array, recurrence: Array, bias: Array | None = None,
        lengths: Array | None = None, initial: Array | None = None,
        initial_cell: Array | None = None, peephole: Array | None = None,
    ) -> tuple[Array, ...]:  # fmt: skip
        first, second = _biases(op, weights, bias)
        wide, hidden = widen(recurrence), recurrence.shape[-1]
        peeps = None if peephole is None else widen(peephole)

        def make_step(d: int) -> Step:
            r, (f, g_, h_) = wide[d].T, functions[d]
            p_i, p_o, p_f = (0, 0, 0) if peeps is None else np.split(peeps[d], 3)

            def step(product: Array, state: State) -> State:
                h, c = state
                gates = product + h @ r
                i, o, forget, cell = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
                i = f(i + p_i * c)
                forget = 1 - i if coupled else f(forget + p_f * c)
                c = forget * c + i * g_(cell)
                return f(o + p_o * c) * h_(c), c

            return step

        initials = [initial, initial_cell]
        return _layer(op, x, weights, lengths, initials, first + second, make_step)

    return run
