"""Recurrent layers as loops: the passes that apply it say why (`expand_layers.py`)."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region, SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.control import CONDITION, ITERATION, LoopOp, YieldOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.recurrent import GruOp, LstmOp, Recurrent, RnnOp
from ge.dialects.graph.shape import ReverseSequenceOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, array_floats, element_type, is_static, numel, shape_of
from ge.runtime.data.arrays import dense
from ge.transforms.graph.canonical.linear_maps import as_type, shaped, wide
from ge.transforms.graph.canonical.local import Make, Replacement, rule

ACTIVATIONS: dict[str, type[TensorOp]] = {
    "relu": a.ReluOp, "tanh": g.TanhOp, "sigmoid": a.SigmoidOp, "softsign": a.SoftsignOp,
    "softplus": a.SoftplusOp, "leaky_relu": a.LeakyReluOp, "elu": a.EluOp,
    "hard_sigmoid": a.HardSigmoidOp, "affine": g.MulOp, "scaled_tanh": g.TanhOp,
}  # fmt: skip
"""What is most of an activation. "thresholded_relu" is none: the layer has it at the threshold, the
op of that name beyond it."""

Function = Callable[[Make, SSAValue], SSAValue]
Step = Callable[[Make, SSAValue, Sequence[SSAValue]], list[SSAValue]]
"""The states after a step, of what its input gives to the gates and of the states before."""


@rule(LstmOp, GruOp, RnnOp, exact=False)
def loop_of_steps(op: Recurrent, make: Make) -> Replacement:
    """One matmul with all of the input, then a loop over its steps"""
    names = op.activation_names()
    if isinstance(op, LstmOp) and op.quantize_state.value.data:
        return None
    if not {*names} <= ACTIVATIONS.keys() or not all(is_static(shape_of(v)) for v in op.operands):
        return None
    if 0 in map(numel, map(shape_of, (*op.operands, *op.results))):
        return None
    layers = [direction(op, d, make) for d in range(op.directions)]
    joined = (
        values[0] if len(values) == 1 else make(ConcatOp, list(values), axis=rank - 3)
        for values, rank in zip(zip(*layers, strict=True), (4, 3, 3), strict=False)
    )
    return [as_type(make, v, element_type(op.input)) for v in joined]


def direction(op: Recurrent, d: int, make: Make) -> list[SSAValue]:
    """All states [S, 1, B, H], and the last ones [1, B, H]."""
    element = wide(element_type(op.input))
    (steps, batch, size), hidden, count = shape_of(op.input), op.hidden, op.GATES * op.hidden
    backward = op.direction.data == "reverse" or d == 1

    def own(value: SSAValue, shape: Shape) -> SSAValue:
        """Return its part for this direction."""
        if shape_of(value)[0] > 1:
            value = make(SliceOp, value, starts=[d], ends=[d + 1], axes=[0])
        return as_type(make, shaped(make, value, shape), element)

    def turned(value: SSAValue) -> SSAValue:
        if not backward or steps == 1:
            return value
        if op.lengths is not None:
            return make(ReverseSequenceOp, value, op.lengths, batch_axis=1, time_axis=0)
        order = make.dense(dense(np.arange(steps - 1, -1, -1)))
        return make(GatherOp, value, order, axis=0)

    x = shaped(make, as_type(make, turned(op.input), element), (steps * batch, size))
    gates = make(MatmulOp, x, own(op.weights, (count, size)), transpose_rhs=True)
    inner = None
    if op.bias is not None:
        bias = own(op.bias, (2 * count,))
        of_input, of_state = part(make, bias, 0, count), part(make, bias, count, 2 * count)
        if isinstance(op, GruOp) and op.linear_before_reset.value.data:  # within the reset gate
            inner = part(make, of_state, 2 * hidden, count)
            zeros = make.constant(0.0, element, (hidden,))
            of_state = make(ConcatOp, [part(make, of_state, 0, 2 * hidden), zeros], axis=0)
        gates = make(g.AddOp, gates, make(g.AddOp, of_input, of_state))
    gates = shaped(make, gates, (steps, batch, count))
    zero = make.constant(0.0, element, (batch, hidden))
    initial = [op.initial_state, op.initial_cell] if isinstance(op, LstmOp) else [op.initial_state]
    states = [zero if v is None else own(v, (batch, hidden)) for v in initial]
    functions = activations(op)
    functions = functions[d * len(op.DEFAULTS) : (d + 1) * len(op.DEFAULTS)]
    recurrence = own(op.recurrence, (count, hidden))
    if isinstance(op, LstmOp) and op.peephole is not None:
        inner = own(op.peephole, (3 * hidden,))
    step = STEPS[type(op)](op, recurrence, inner, functions)
    *last, every = looped(make, step, gates, states, op.lengths)
    found = shaped(make, turned(every), (steps, 1, batch, hidden))
    return [found, *(shaped(make, v, (1, batch, hidden)) for v in last)]


def part(make: Make, value: SSAValue, low: int, high: int) -> SSAValue:
    return make(SliceOp, value, starts=[low], ends=[high], axes=[-1])


def looped(
    make: Make,
    step: Step,
    gates: SSAValue,
    states: Sequence[SSAValue],
    lengths: SSAValue | None,
) -> Sequence[SSAValue]:
    """Return the last states, and the first one of each step, stacked. Past the end of a sequence
    states stay, and 0 is given."""
    block = Block(arg_types=[ITERATION, CONDITION, *(v.type for v in states)])
    number, going, *before = block.args
    inside = Make()
    after = step(inside, inside(GatherOp, gates, number, axis=0), before)
    given = after[0]
    if lengths is not None:
        ends = shaped(inside, as_type(inside, lengths, i64), (*shape_of(lengths), 1))
        live = inside(g.CompareOp, ends, number, predicate="gt")
        given = inside(g.SelectOp, live, given, inside.constant(0.0, element_type(given)))
        pairs = zip(after, before, strict=True)
        after = [inside(g.SelectOp, live, new, old) for new, old in pairs]
    block.add_ops([*inside.ops, YieldOp(going, *after, given)])
    trip = make.constant(shape_of(gates)[0], i64)
    loop = make.op(
        LoopOp, trip, None, list(states), regions=[Region(block)], results=len(states) + 1
    )
    return loop.results


# ---- cells ---------------------------------------------------------------------------------------


def activations(op: Recurrent) -> list[Function]:
    """Return the functions of all gates, with their parameters and the limit of what goes into
    them."""
    names = op.activation_names()
    alphas, betas = (
        [0.0] * len(names) if given is None else [*array_floats(given)]
        for given in (op.alphas, op.betas)
    )
    limit = None if op.clip is None else op.clip.value.data
    return [partial(activated, *which, limit) for which in zip(names, alphas, betas, strict=True)]


def activated(
    name: str, alpha: float, beta: float, limit: float | None, make: Make, x: SSAValue
) -> SSAValue:
    def number(value: float) -> SSAValue:
        return make.constant(value, element_type(x))

    if limit is not None:
        x = make(g.MinimumOp, make(g.MaximumOp, x, number(-limit)), number(limit))
    match name:
        case "affine":
            return make(g.AddOp, make(g.MulOp, x, number(alpha)), number(beta))
        case "scaled_tanh":
            return make(g.MulOp, make(g.TanhOp, make(g.MulOp, x, number(beta))), number(alpha))
        case "hard_sigmoid":
            return make(a.HardSigmoidOp, x, alpha=alpha, beta=beta)
        case "leaky_relu" | "elu":
            return make(ACTIVATIONS[name], x, alpha=alpha)
        case _:
            return make(ACTIVATIONS[name], x)


def rnn(op: RnnOp, weights: SSAValue, inner: SSAValue | None, functions: list[Function]) -> Step:
    def step(make: Make, gates: SSAValue, states: Sequence[SSAValue]) -> list[SSAValue]:
        product = make(MatmulOp, states[0], weights, transpose_rhs=True)
        return [functions[0](make, make(g.AddOp, gates, product))]

    return step


def gru(op: GruOp, weights: SSAValue, inner: SSAValue | None, functions: list[Function]) -> Step:
    hidden, linear = op.hidden, bool(op.linear_before_reset.value.data)

    def step(make: Make, gates: SSAValue, states: Sequence[SSAValue]) -> list[SSAValue]:
        (h,), of_gates = states, partial(part, make, gates)
        if linear:
            product = make(MatmulOp, h, weights, transpose_rhs=True)
            first, last = (
                part(make, product, 0, 2 * hidden),
                part(make, product, 2 * hidden, 3 * hidden),
            )
        else:
            rows = make(SliceOp, weights, starts=[0], ends=[2 * hidden], axes=[0])
            first, last = make(MatmulOp, h, rows, transpose_rhs=True), None
        both = functions[0](make, make(g.AddOp, of_gates(0, 2 * hidden), first))
        z, r = part(make, both, 0, hidden), part(make, both, hidden, 2 * hidden)
        if last is not None:
            last = make(g.MulOp, r, last if inner is None else make(g.AddOp, last, inner))
        else:
            rows = make(SliceOp, weights, starts=[2 * hidden], ends=[3 * hidden], axes=[0])
            last = make(MatmulOp, make(g.MulOp, r, h), rows, transpose_rhs=True)
        new = functions[1](make, make(g.AddOp, of_gates(2 * hidden, 3 * hidden), last))
        return [make(g.AddOp, new, make(g.MulOp, z, make(g.SubOp, h, new)))]

    return step


def lstm(op: LstmOp, weights: SSAValue, inner: SSAValue | None, functions: list[Function]) -> Step:
    hidden, coupled = op.hidden, bool(op.input_forget.value.data)

    def seen(make: Make, gate: SSAValue, cell: SSAValue, k: int) -> SSAValue:
        """Add what a gate sees of the cell by a peephole, those of i, o and f."""
        if inner is None:
            return gate
        hole = part(make, inner, k * hidden, (k + 1) * hidden)
        return make(g.AddOp, gate, make(g.MulOp, cell, hole))

    def step(make: Make, gates: SSAValue, states: Sequence[SSAValue]) -> list[SSAValue]:
        h, c = states
        gates = make(g.AddOp, gates, make(MatmulOp, h, weights, transpose_rhs=True))
        i, o, f, cell = (part(make, gates, k * hidden, (k + 1) * hidden) for k in range(4))
        i, f = seen(make, i, c, 0), seen(make, f, c, 2)
        i = functions[0](make, i)
        if coupled:
            f = make(g.SubOp, make.constant(1.0, element_type(i)), i)
        else:
            f = functions[0](make, f)
        c = make(g.AddOp, make(g.MulOp, f, c), make(g.MulOp, i, functions[1](make, cell)))
        o = seen(make, o, c, 1)
        return [make(g.MulOp, functions[0](make, o), functions[2](make, c)), c]

    return step


STEPS: dict[type[Recurrent], Callable[..., Step]] = {RnnOp: rnn, GruOp: gru, LstmOp: lstm}
