"""Composites between a cast up to f32 and a cast down again are computed in 16 bits: the same bits
come out (see widening.py).

    %0 = graph.cast %x to f32
    %1 = graph.softmax %0
    %2 = graph.cast %1 to f16
becomes
    %2 = graph.softmax %x
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.functions import defined_functions
from ge.transforms.graph.composites.widening import NarrowComputation
from ge.transforms.rewriting.driver import rewrite


@dataclass(frozen=True)
class NarrowComputationPass(ModulePass):
    """Take the casts around composites that round once anyway out."""

    name = "narrow-computation"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            rewrite(func.body, [NarrowComputation()])
