"""Recurrent layers become loops: one matmul with all of the input, then a matmul with the state and
elementwise ops for each step.

    %h, %l, %c = graph.lstm %x, %w, %r
becomes
    %0 = graph.matmul %x, %w {transpose_rhs}                        all steps at once
    %l, %c, %h = graph.loop (%i) trip 64 carry (%a = 0, %b = 0) {
      %1 = graph.gather %0, %i
      %2 = graph.matmul %a, %r {transpose_rhs}
      ...
    }

Matmuls and elementwise ops have tile programs, a whole layer has none. Narrow floats are computed
in f32 and rounded once, at the end, as by the kernels. Exceptions: lengths of sequences, peepholes,
limits of what goes into an activation, states of 8 bits, sizes that are not known, and activations
but relu, tanh and sigmoid.
"""

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.graph.recurrent import Recurrent
from ge.dialects.support.operation import all_ops
from ge.transforms.graph.canonical import recurrent
from ge.transforms.graph.canonical.simplify import simplify
from ge.transforms.rewriting.relations import Relation, Ulps


class ExpandRecurrentPass(ModulePass):
    """Write recurrent layers as loops over their steps."""

    name = "expand-recurrent"
    LOCAL: ClassVar[bool] = True
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, Recurrent) for o in all_ops(op.body.blocks)):
            simplify(op, (recurrent,))
