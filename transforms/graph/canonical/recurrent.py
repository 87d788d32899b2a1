"""Recurrent layers as loops: the passes that apply it say why (`expand_layers.py`). Parts of a
weight that integers are dequantized to are parts of the integers, for the matmuls that read them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from xdsl.dialects.builtin import i8, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.control import CONDITION, ITERATION
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    array_floats,
    element_type,
    is_static,
    numel,
    shape_of,
)
from ge.transforms.graph.canonical.linear_maps import as_type, shaped, wide
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.rewriting.building import Make

ACTIVATIONS: dict[str, type[TensorOp]] = {
    "relu": g.ReluOp, "tanh": g.TanhOp, "sigmoid": g.SigmoidOp, "softsign": g.SoftsignOp,
    "softplus": g.SoftplusOp, "leaky_relu": g.LeakyReluOp, "elu": g.EluOp,
    "hard_sigmoid": g.HardSigmoidOp, "affine": g.MulOp, "scaled_tanh": g.TanhOp,
}  # fmt: skip
"""What is most of an activation. "thresholded_relu" is none: the layer has it at the threshold, the
op of that name beyond it."""

Function = Callable[[Make, SSAValue], SSAValue]
States = Sequence[SSAValue]
Weights = Sequence[SSAValue]  # of the state, for each matmul of a step
Step = Callable[[Make, SSAValue, States, SSAValue], list[SSAValue]]
"""The states after a step, of what its input gives to the gates, of the states before, and of what
matmuls read of the first."""


@rule(g.LstmOp, g.GruOp, g.RnnOp, exact=False, below=(g.DequantizeOp,))
def loop_of_integers(op: g.Recurrent, make: Make) -> Replacement:
    """The same of operands that are dequantized, which matmuls then read"""
    return expanded(op, make)


@rule(g.LstmOp, g.GruOp, g.RnnOp, exact=False)
def loop_of_steps(op: g.Recurrent, make: Make) -> Replacement:
    """One matmul with all of the input, then a loop over its steps"""
    return expanded(op, make)


def expanded(op: g.Recurrent, make: Make) -> Replacement:
    names = op.activation_names()
    if isinstance(op, g.LstmOp) and op.quantize_state.value.data:
        return None
    if not {*names} <= ACTIVATIONS.keys() or not all(is_static(shape_of(v)) for v in op.operands):
        return None
    if 0 in map(numel, map(shape_of, (*op.operands, *op.results))):
        return None
    layers = [direction(op, d, make) for d in range(op.directions)]
    joined = (
        values[0] if len(values) == 1 else make(g.ConcatOp, list(values), axis=rank - 3)
        for values, rank in zip(zip(*layers, strict=True), (4, 3, 3), strict=False)
    )
    return [as_type(make, v, element_type(op.input)) for v in joined]


def direction(op: g.Recurrent, d: int, make: Make) -> list[SSAValue]:
    """All states [S, 1, B, H], and the last ones [1, B, H]."""
    element = wide(element_type(op.input))
    (steps, batch, size), hidden, count = shape_of(op.input), op.hidden, op.GATES * op.hidden
    backward = op.direction.data == "reverse" or d == 1

    def own(value: SSAValue, shape: Shape) -> SSAValue:
        """Return its part for this direction."""
        if shape_of(value)[0] > 1:
            value = make(g.SliceOp, value, starts=[d], ends=[d + 1], axes=[0])
        return as_type(make, shaped(make, value, shape), element)

    def turned(value: SSAValue) -> SSAValue:
        if not backward or steps == 1:
            return value
        if op.lengths is not None:
            return make(g.ReverseSequenceOp, value, op.lengths, batch_axis=1, time_axis=0)
        order = make.constant(np.arange(steps - 1, -1, -1))
        return make(g.GatherOp, value, order, axis=0)

    x = shaped(make, as_type(make, turned(op.input), element), (steps * batch, size))
    weights = matrix(make, op.weights, d, 0, count, element)
    gates = make(g.MatmulOp, x, weights, transpose_rhs=True)
    inner = None
    if op.bias is not None:
        bias = own(op.bias, (2 * count,))
        of_input, of_state = part(make, bias, 0, count), part(make, bias, count, 2 * count)
        if isinstance(op, g.GruOp) and op.linear_before_reset.value.data:  # within the reset gate
            inner = part(make, of_state, 2 * hidden, count)
            zeros = make.splat(0.0, element, (hidden,))
            of_state = make(g.ConcatOp, [part(make, of_state, 0, 2 * hidden), zeros], axis=0)
        gates = make(g.AddOp, gates, make(g.AddOp, of_input, of_state))
    gates = shaped(make, gates, (steps, batch, count))
    zero = make.splat(0.0, element, (batch, hidden))
    initial = (
        [op.initial_state, op.initial_cell] if isinstance(op, g.LstmOp) else [op.initial_state]
    )
    states = [zero if v is None else own(v, (batch, hidden)) for v in initial]
    functions = activations(op)
    functions = functions[d * len(op.DEFAULTS) : (d + 1) * len(op.DEFAULTS)]
    if isinstance(op, g.LstmOp) and op.peephole is not None:
        inner = own(op.peephole, (3 * hidden,))
    ends = [0, *([2 * hidden] if reads_reset_state(op) else []), count]
    parts = [matrix(make, op.recurrence, d, *rows, element) for rows in pairwise(ends)]
    step = STEPS[type(op)](op, parts, inner, functions)
    *last, every = looped(make, step, gates, states, op.lengths, rounding_of(op))
    found = shaped(make, turned(every), (steps, 1, batch, hidden))
    return [found, *(shaped(make, v, (1, batch, hidden)) for v in last)]


def reads_reset_state(op: g.Recurrent) -> bool:
    """Return whether a step has a second matmul, with r h."""
    return isinstance(op, g.GruOp) and not op.linear_before_reset.value.data


@dataclass(frozen=True)
class Rounding:
    """What matmuls read of states: 8 bits, where there is a scale."""

    scale: float | None

    def codes(self, make: Make, h: SSAValue) -> SSAValue:
        return make(g.QuantizeOp, h, make.splat(self.scale or 1.0, element_type(h)), to=i8)

    def floats(self, make: Make, codes: SSAValue, element: Attribute) -> SSAValue:
        return make(g.DequantizeOp, codes, make.splat(self.scale or 1.0, element))

    def rounded(self, make: Make, h: SSAValue) -> SSAValue:
        return self.floats(make, self.codes(make, h), element_type(h)) if self.scale else h


def rounding_of(op: g.Recurrent) -> Rounding:
    return Rounding(None if op.state_scale is None else op.state_scale.value.data)


def rows_of(make: Make, value: SSAValue, d: int, low: int, high: int) -> SSAValue:
    """Rows of [D, rows, columns], those of one direction."""
    directions, rows, columns = shape_of(value)
    if directions > 1 or high - low < rows:
        value = make(g.SliceOp, value, starts=[d, low], ends=[d + 1, high], axes=[0, 1])
    return shaped(make, value, (high - low, columns))


def matrix(
    make: Make, weight: SSAValue, d: int, low: int, high: int, element: Attribute
) -> SSAValue:
    """Rows of a weight as floats of this element type."""
    source = weight.owner
    if not isinstance(source, g.DequantizeOp) or source.block_size.value.data:
        return as_type(make, rows_of(make, weight, d, low, high), element)
    axis = 0 if source.axis is None else source.axis.value.data

    def own(value: SSAValue) -> SSAValue:
        """Return the part of scales or zero points."""
        if numel(shape_of(value)) == 1 or axis == 2:
            return value
        return part(make, value, *((low, high) if axis else (d, d + 1)))

    grid = [own(v) for v in (source.scale, source.zero_point) if v is not None]
    along = (None, 0, 1)[axis] if numel(shape_of(source.scale)) > 1 else None
    codes = rows_of(make, source.input, d, low, high)
    return make(g.DequantizeOp, codes, *grid, axis=along, to=element)


def part(make: Make, value: SSAValue, low: int, high: int) -> SSAValue:
    return make(g.SliceOp, value, starts=[low], ends=[high], axes=[-1])


def looped(
    make: Make,
    step: Step,
    gates: SSAValue,
    states: Sequence[SSAValue],
    lengths: SSAValue | None,
    rounding: Rounding,
) -> Sequence[SSAValue]:
    """Return the last states, and the first one of each step, stacked. Past the end of a sequence
    states stay, and 0 is given. A step leaves the codes that the next one multiplies."""
    if rounding.scale:
        states = [*states, rounding.codes(make, states[0])]
    block = Block(arg_types=[ITERATION, CONDITION, *(v.type for v in states)])
    number, going, *before = block.args
    inside = Make()
    gate, read = inside(g.GatherOp, gates, number, axis=0), before[0]
    codes = before.pop() if rounding.scale else None
    if codes is not None:
        read = rounding.floats(inside, codes, element_type(read))
    after = step(inside, gate, before, read)
    if codes is not None:
        after.append(rounding.codes(inside, after[0]))
        before.append(codes)
    given = after[0]
    if lengths is not None:
        ends = shaped(inside, as_type(inside, lengths, i64), (*shape_of(lengths), 1))
        live = inside(g.CompareOp, ends, number, predicate="gt")
        given = inside(g.SelectOp, live, given, inside.splat(0.0, element_type(given)))
        pairs = zip(after, before, strict=True)
        after = [inside(g.SelectOp, live, new, old) for new, old in pairs]
    block.add_ops([*inside.ops, g.YieldOp(going, *after, given)])
    trip = make.splat(shape_of(gates)[0], i64)
    loop = make.op(
        g.LoopOp, trip, None, list(states), regions=[Region(block)], results=len(states) + 1
    )
    return [*loop.results[: len(states) - bool(rounding.scale)], loop.results[-1]]


# ---- cells ---------------------------------------------------------------------------------------


def activations(op: g.Recurrent) -> list[Function]:
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
        return make.splat(value, element_type(x))

    if limit is not None:
        x = make(g.MinimumOp, make(g.MaximumOp, x, number(-limit)), number(limit))
    match name:
        case "affine":
            return make(g.AddOp, make(g.MulOp, x, number(alpha)), number(beta))
        case "scaled_tanh":
            return make(g.MulOp, make(g.TanhOp, make(g.MulOp, x, number(beta))), number(alpha))
        case "hard_sigmoid":
            return make(g.HardSigmoidOp, x, alpha=alpha, beta=beta)
        case "leaky_relu" | "elu":
            return make(ACTIVATIONS[name], x, alpha=alpha)
        case _:
            return make(ACTIVATIONS[name], x)


def rnn(op: g.RnnOp, parts: Weights, inner: SSAValue | None, functions: list[Function]) -> Step:
    def step(make: Make, gates: SSAValue, states: States, read: SSAValue) -> list[SSAValue]:
        product = make(g.MatmulOp, read, parts[0], transpose_rhs=True)
        return [functions[0](make, make(g.AddOp, gates, product))]

    return step


def gru(op: g.GruOp, parts: Weights, inner: SSAValue | None, functions: list[Function]) -> Step:
    hidden, rounding = op.hidden, rounding_of(op)

    def step(make: Make, gates: SSAValue, states: States, read: SSAValue) -> list[SSAValue]:
        (h,), of_gates = states, partial(part, make, gates)
        first, last = make(g.MatmulOp, read, parts[0], transpose_rhs=True), None
        if len(parts) == 1:
            last = part(make, first, 2 * hidden, 3 * hidden)
            first = part(make, first, 0, 2 * hidden)
        both = functions[0](make, make(g.AddOp, of_gates(0, 2 * hidden), first))
        z, r = part(make, both, 0, hidden), part(make, both, hidden, 2 * hidden)
        if last is not None:
            last = make(g.MulOp, r, last if inner is None else make(g.AddOp, last, inner))
        else:
            reset = rounding.rounded(make, make(g.MulOp, r, h))
            last = make(g.MatmulOp, reset, parts[1], transpose_rhs=True)
        new = functions[1](make, make(g.AddOp, of_gates(2 * hidden, 3 * hidden), last))
        return [make(g.AddOp, new, make(g.MulOp, z, make(g.SubOp, h, new)))]

    return step


def lstm(op: g.LstmOp, parts: Weights, inner: SSAValue | None, functions: list[Function]) -> Step:
    hidden, coupled = op.hidden, bool(op.input_forget.value.data)

    def seen(make: Make, gate: SSAValue, cell: SSAValue, k: int) -> SSAValue:
        """Add what a gate sees of the cell by a peephole, those of i, o and f."""
        if inner is None:
            return gate
        hole = part(make, inner, k * hidden, (k + 1) * hidden)
        return make(g.AddOp, gate, make(g.MulOp, cell, hole))

    def step(make: Make, gates: SSAValue, states: States, read: SSAValue) -> list[SSAValue]:
        c = states[1]
        gates = make(g.AddOp, gates, make(g.MatmulOp, read, parts[0], transpose_rhs=True))
        i, o, f, cell = (part(make, gates, k * hidden, (k + 1) * hidden) for k in range(4))
        i, f = seen(make, i, c, 0), seen(make, f, c, 2)
        i = functions[0](make, i)
        if coupled:
            f = make(g.SubOp, make.splat(1.0, element_type(i)), i)
        else:
            f = functions[0](make, f)
        c = make(g.AddOp, make(g.MulOp, f, c), make(g.MulOp, i, functions[1](make, cell)))
        o = seen(make, o, c, 1)
        return [make(g.MulOp, functions[0](make, o), functions[2](make, c)), c]

    return step


STEPS: dict[type[g.Recurrent], Callable[..., Step]] = {g.RnnOp: rnn, g.GruOp: gru, g.LstmOp: lstm}
