"""Kernels of the recurrent layers: one matmul with the whole input, then a loop over its steps.
16-bit floats are computed in float32 throughout and rounded at the end."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, Float64Type

from ge.dialects.graph import recurrent as g
from ge.dialects.support.types import array_floats
from ge.runtime.data.arrays import Array, widen
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.elementwise import sigmoid, softplus

Activation = Callable[[Array], Array]
State = tuple[Array, ...]
# From the input's matmul for all gates and the states before, the states after.
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


def run_cell(step: Step, inputs: Array, state: State, lengths: Array | None) -> tuple[Array, State]:
    """All hidden states (zero past the end of a sequence) and the last states."""
    hidden = np.empty((len(inputs), *state[0].shape), inputs.dtype)
    for time, gates in enumerate(inputs):
        after = step(gates, state)
        hidden[time] = after[0]
        if lengths is not None:
            live = (time < lengths)[:, None]
            np.copyto(hidden[time], 0, where=~live)
            after = tuple(np.where(live, a, b) for a, b in zip(after, state, strict=True))
        state = after
    return hidden, state


# ---- one step of a cell: weights [gates, hidden] and bias of the state's matmul -----------------

Activations = Sequence[Activation]


def read_state(op: g.Recurrent) -> Activation:
    """Return what becomes of a state before matmuls read it."""
    if isinstance(op, g.LstmOp) and op.quantize_state.value.data:
        return in_8_bits
    if op.state_scale is None:
        return lambda h: h
    scale = np.float32(op.state_scale.value.data)
    return lambda h: np.clip(np.rint(h / scale), -128, 127) * scale


def rnn_step(
    op: g.RnnOp, weights: Array, bias: Array, peepholes: Array | None, functions: Activations
) -> Step:
    r, (f,), read = weights.T, functions, read_state(op)
    return lambda gates, state: (f(gates + read(state[0]) @ r),)


def gru_step(
    op: g.GruOp, weights: Array, bias: Array, peepholes: Array | None, functions: Activations
) -> Step:
    hidden = weights.shape[1]
    first = 2 * hidden
    r_gates, r_hidden, b_hidden = weights[:first].T, weights[first:].T, bias[first:]
    (f, g_), read = functions, read_state(op)
    linear = bool(op.linear_before_reset.value.data)

    def step(gates: Array, state: State) -> State:
        (h,) = state
        seen = read(h)
        zr = f(gates[:, :first] + seen @ r_gates)
        z, r = zr[:, :hidden], zr[:, hidden:]
        inner = r * (seen @ r_hidden + b_hidden) if linear else read(r * h) @ r_hidden
        n = g_(gates[:, first:] + inner)
        return (n + z * (h - n),)

    return step


def in_8_bits(h: Array) -> Array:
    """The state rounded to 8 bits, by the range of each row (see graph.dynamic_quantize)."""
    low, high = h.min(-1, keepdims=True, initial=0), h.max(-1, keepdims=True, initial=0)
    scale = (high - low) / h.dtype.type(255)
    scale[scale == 0] = 1
    zero_point = np.clip(np.rint(-low / scale), 0, 255)
    codes = np.clip(np.rint(h / scale) + zero_point, 0, 255)
    return (codes - zero_point) * scale


def lstm_step(
    op: g.LstmOp, weights: Array, bias: Array, peepholes: Array | None, functions: Activations
) -> Step:
    r, hidden, (f, g_, h_) = weights.T, weights.shape[1], functions
    p_i, p_o, p_f = (0, 0, 0) if peepholes is None else np.split(peepholes, 3)
    coupled, read = bool(op.input_forget.value.data), read_state(op)

    def step(inputs: Array, state: State) -> State:
        h, c = state
        gates = inputs + read(h) @ r
        i, o, forget, cell = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
        i = f(i + p_i * c)
        forget = 1 - i if coupled else f(forget + p_f * c)
        c = forget * c + i * g_(cell)
        return f(o + p_o * c) * h_(c), c

    return step


# ---- a layer -----------------------------------------------------------------------------------

_STEPS: dict[type[Any], Callable[[Any, Array, Array, Array | None, Activations], Step]] = {
    g.RnnOp: rnn_step,
    g.GruOp: gru_step,
    g.LstmOp: lstm_step,
}


@kernel(*_STEPS)
def recurrent(op: g.Recurrent) -> Fn:
    functions, make_step = _activations(op), _STEPS[type(op)]
    linear = isinstance(op, g.GruOp) and bool(op.linear_before_reset.value.data)

    def run(
        x: Array, weights: Array, recurrence: Array, bias: Array | None, lengths: Array | None,
        initial: Array | None, initial_cell: Array | None = None, peepholes: Array | None = None,
    ) -> tuple[Array, ...]:  # fmt: skip
        steps, batch, size = x.shape
        wide, hidden = widen(x), recurrence.shape[-1]
        weights, recurrence = widen(weights), widen(recurrence)
        bias = np.zeros((len(weights), 2 * op.GATES * hidden), wide.dtype) if bias is None else bias
        input_bias, state_bias = np.split(widen(bias), 2, axis=1)
        sums = input_bias + state_bias
        if linear:  # the hidden gate's second bias stays inside the reset gate
            sums[:, 2 * hidden :] = input_bias[:, 2 * hidden :]
        if lengths is not None and (lengths == steps).all():
            lengths = None
        initials = [initial, initial_cell] if isinstance(op, g.LstmOp) else [initial]
        results: list[tuple[Array, State]] = []
        for d in range(op.directions):
            backward = op.direction.data == "reverse" or d == 1
            turn = _reversal(steps, lengths) if backward else np.s_[:]
            inputs = wide[turn].reshape(steps * batch, size) @ weights[d].T
            inputs += sums[d]
            zero = np.zeros((batch, hidden), wide.dtype)
            state = tuple(zero if i is None else widen(i[d]) for i in initials)
            peephole = None if peepholes is None else widen(peepholes[d])
            step = make_step(op, recurrence[d], state_bias[d], peephole, functions[d])
            inputs = inputs.reshape(steps, batch, inputs.shape[1])
            states, last = run_cell(step, inputs, state, lengths)
            results.append((states[turn], last))
        stacked = np.stack([states for states, _ in results], 1)
        lasts = (np.stack(s) for s in zip(*(last for _, last in results), strict=True))
        return tuple(r.astype(x.dtype, copy=False) for r in (stacked, *lasts))

    return run
