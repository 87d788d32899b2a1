"""Recurrent layers: a cell that runs along a sequence.

Sizes: S steps, B batch, I input, H hidden, D directions (2 when "bidirectional"), G gates a cell.
`input` is [S, B, I], `weights` [D, G*H, I], `recurrence` [D, G*H, H], `bias` [D, 2*G*H] (of the
input's, then of the state's matmul), `lengths` [B] (steps of each sequence, else S), initial
states [D, B, H]. Results are all states [S, D, B, H] (zero past a sequence's end) and the last
states [D, B, H]. Gates stand in ONNX's order.

`activations` has one set for each direction: "relu", "tanh", "sigmoid", "affine" (alpha x + beta),
"leaky_relu", "thresholded_relu", "scaled_tanh" (alpha tanh(beta x)), "hard_sigmoid", "elu",
"softsign" and "softplus"; `alphas` and `betas` hold their parameters, an element for each.
`clip` limits the size of the inputs of an activation. With `state_scale` matmuls read the state
(of a GRU also r h) rounded to 8 bits, as graph.quantize rounds it by this scale.
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    GraphOp,
    check_same_element,
    check_shape,
    optional,
)
from ge.dialects.support.boxes import Box, Work
from ge.dialects.support.constraints import (
    F64S,
    FLOATS,
    INTEGERS,
    NOT_NEGATIVE,
    POSITIVE,
    ChoiceConstraint,
    choice,
    choice_def,
)
from ge.dialects.support.types import (
    element_type,
    numel,
    shape_of,
    tensor,
    times,
)

ACTIVATIONS = (
    "relu", "tanh", "sigmoid", "affine", "leaky_relu", "thresholded_relu", "scaled_tanh",
    "hard_sigmoid", "elu", "softsign", "softplus",
)  # fmt: skip
Activation = choice("graph.activation", *ACTIVATIONS)
Direction = choice("graph.direction", "forward", "reverse", "bidirectional")


_OPERANDS = f"$input `,` $weights `,` $recurrence {optional('bias', 'lengths', 'initial_state')}"


class Recurrent(GraphOp, ABC):
    """Cells that are run along a sequence, in one direction or both."""

    GATES: ClassVar[int]
    DEFAULTS: ClassVar[tuple[str, ...]]  # the activations of one direction when none are named
    ALWAYS_MACS: ClassVar = True

    input = operand_def(FLOATS.of_rank(3))
    weights = operand_def(FLOATS.of_rank(3))
    recurrence = operand_def(FLOATS.of_rank(3))
    bias = opt_operand_def(FLOATS.of_rank(2))
    lengths = opt_operand_def(INTEGERS.of_rank(1))
    initial_state = opt_operand_def(FLOATS.of_rank(3))
    direction = choice_def(Direction, "forward")
    activations = opt_prop_def(ArrayAttr.constr(ChoiceConstraint(Activation)))
    alphas = opt_prop_def(F64S)
    betas = opt_prop_def(F64S)
    clip = opt_prop_def(NOT_NEGATIVE)
    state_scale = opt_prop_def(POSITIVE)
    states = result_def(FLOATS.of_rank(4))
    last_state = result_def(FLOATS.of_rank(3))
    irdl_options = SEGMENTED
    assembly_format = f"{_OPERANDS} {TYPES}"

    @property
    def directions(self) -> int:
        return 2 if self.direction.data == "bidirectional" else 1

    @property
    def hidden(self) -> int:
        return shape_of(self.recurrence)[-1]

    def index_operands(self) -> Sequence[SSAValue]:
        return () if self.lengths is None else (self.lengths,)

    def can_fail(self) -> bool:
        return self.lengths is not None or super().can_fail()

    def activation_names(self) -> tuple[str, ...]:
        if self.activations is None:
            return self.DEFAULTS * self.directions
        return tuple(a.data for a in self.activations)

    def batch(self) -> int:
        """Return what is known of the batch. Raises VerifyException for several."""
        (batch,) = check_shape(self.lengths, "lengths", shape_of(self.input)[1:2])
        state = self.directions, batch, self.hidden
        return check_shape(self.initial_state, "initial_state", state)[1]

    def infer(self) -> Sequence[Attribute]:
        self.check_activations()
        check_same_element(self.input, self.weights, self.recurrence, self.bias, self.initial_state)
        steps, _, size = shape_of(self.input)
        d, hidden = self.directions, self.hidden
        gates = times(self.GATES, hidden)
        check_shape(self.weights, "weights", (d, gates, size))
        check_shape(self.recurrence, "recurrence", (d, gates, hidden))
        check_shape(self.bias, "bias", (d, times(2, gates)))
        t, batch = element_type(self.input), self.batch()
        last = tensor((d, batch, hidden), t)
        return (tensor((steps, d, batch, hidden), t), *[last] * (len(self.results) - 1))

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """Directions and batch of the result; steps up to its last one where they go forward."""
        shape, steps = shape_of(self.operands[index]), len(box.sizes) == 4
        directions, batch, _ = box.spans[steps:]
        if index == 0:
            forward = steps and self.direction.data == "forward" and isinstance(box.offsets[0], int)
            ends = {0: (0, box.offsets[0] + box.sizes[0])} if forward else {}
            return Box.part(shape, {**ends, 1: batch})
        if self.lengths is not None and self.operands[index] is self.lengths:
            return Box.of([batch])
        states = len(shape) == 3 and index > 2
        return Box.part(shape, {0: directions, 1: batch} if states else {0: directions})

    def check_activations(self) -> None:
        names, count = self.activation_names(), len(self.DEFAULTS) * self.directions
        if len(names) != count:
            raise VerifyException(f"expected {count} activations, got {len(names)}")
        for label, values in (("alphas", self.alphas), ("betas", self.betas)):
            if values is not None and len(values) != count:
                raise VerifyException(f"expected {count} {label}, got {len(values)}")

    def static_work(self) -> Work:
        """Two matmuls a step; about 8 element-operations for each gate."""
        steps, batch, size = shape_of(self.input)
        rows = numel((steps, batch, self.directions, self.hidden)) * self.GATES
        return Work(rows * (numel((size,)) + self.hidden), rows * 8, *self.traffic())


@irdl_op_definition
class RnnOp(Recurrent):
    """h' = f(W x + R h + b) (Elman, Finding Structure in Time, 1990)."""

    name = "graph.rnn"
    GATES: ClassVar = 1
    DEFAULTS: ClassVar = ("tanh",)


@irdl_op_definition
class GruOp(Recurrent):
    """Gated recurrent unit (Cho et al., arXiv 1406.1078); gates z, r, h:
    z = f(Wz x + Rz h + bz); r = f(Wr x + Rr h + br);
    n = g(Wh x + Rh (r h) + bh), with `linear_before_reset` g(Wh x + wbh + r (Rh h + rbh));
    h' = (1 - z) n + z h."""

    name = "graph.gru"
    GATES: ClassVar = 3
    DEFAULTS: ClassVar = ("sigmoid", "tanh")
    linear_before_reset = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))


@irdl_op_definition
class LstmOp(Recurrent):
    """Long short-term memory with peepholes p (Gers and Schmidhuber, 2000); gates i, o, f, c:
    i = f(Wi x + Ri h + pi c + bi); f = f(Wf x + Rf h + pf c + bf), or 1 - i when `input_forget`;
    c' = f c + i g(Wc x + Rc h + bc); o = f(Wo x + Ro h + po c' + bo); h' = o h(c').
    `peephole` is [D, 3*H] in the order i, o, f. `quantize_state`: before each step each row
    of h is rounded to 8 bits by its range, as graph.dynamic_quantize does."""

    name = "graph.lstm"
    GATES: ClassVar = 4
    DEFAULTS: ClassVar = ("sigmoid", "tanh", "tanh")
    # Operands of a base class come last unless they are repeated.
    input = operand_def(FLOATS.of_rank(3))
    weights = operand_def(FLOATS.of_rank(3))
    recurrence = operand_def(FLOATS.of_rank(3))
    bias = opt_operand_def(FLOATS.of_rank(2))
    lengths = opt_operand_def(INTEGERS.of_rank(1))
    initial_state = opt_operand_def(FLOATS.of_rank(3))
    initial_cell = opt_operand_def(FLOATS.of_rank(3))
    peephole = opt_operand_def(FLOATS.of_rank(2))
    input_forget = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    quantize_state = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    states = result_def(FLOATS.of_rank(4))
    last_state = result_def(FLOATS.of_rank(3))
    last_cell = result_def(FLOATS.of_rank(3))
    assembly_format = f"{_OPERANDS} {optional('initial_cell', 'peephole')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        types = super().infer()
        check_same_element(self.input, self.initial_cell, self.peephole)
        state = self.directions, self.batch(), self.hidden
        check_shape(self.initial_cell, "initial_cell", state)
        check_shape(self.peephole, "peephole", (self.directions, times(3, self.hidden)))
        return types
