"""Layers that no kernel computes become ops that have one. Recurrent layers are loops: one matmul
with all of the input, then a matmul with the state and elementwise ops for each step.

    %h, %l, %c = graph.lstm %x, %w, %r
becomes
    %0 = graph.matmul %x, %w {transpose_rhs}                        all steps at once
    %l, %c, %h = graph.loop (%i) trip 64 carry (%a = 0, %b = 0) {
      %1 = graph.gather %0, %i
      %2 = graph.matmul %a, %r {transpose_rhs}
      ...
    }

Local response normalization is a pool over channels, the largest elements along any dimension are
those of rows, and a transposed convolution of stride 1 is one of the kernel backwards. What samples
images is sums of rows of channels (`canonical/sampling.py`).

Matmuls, pools and elementwise ops have tile programs, a whole layer has none. Narrow floats are
computed in f32 and rounded once, at the end, as by the kernels. Exceptions: states of 8 bits, sizes
that are not known, and the activation "thresholded_relu"; largest elements of regions of as many
samples as elements (a number that is known at run time only), and Fourier transforms of more than
`layers.MOST` elements of a matrix.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.operation import all_ops
from ge.transforms.graph.canonical import layers, recurrent, sampling
from ge.transforms.graph.canonical.local import rules_of, simplify
from ge.transforms.rewriting.passes import Relation, Ulps

FAMILIES = (layers, recurrent, sampling)


@dataclass(frozen=True)
class ExpandLayersPass(ModulePass):
    """Write layers without programs as ops that have them. `quantized`: recurrent ones whose
    operands are dequantized alone, which lower-quantization computes in integers then."""

    name = "expand-layers"

    quantized: bool = False
    LOCAL: ClassVar[bool] = True
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        families = (recurrent.loop_of_integers,) if self.quantized else FAMILIES
        expanded = tuple(kind for family in families for r in rules_of(family) for kind in r.ops)
        if any(isinstance(o, expanded) for o in all_ops(op.body.blocks)):
            simplify(op, families)
