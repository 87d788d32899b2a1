"""Batch normalization, factors and offsets by channel go into the weights of the convolution or
product beside them.

    %0 = graph.conv %x, %w
    %1 = graph.batch_norm %0, %scale, %bias, %mean, %variance
becomes
    %f = %scale / sqrt(%variance + epsilon)
    %1 = graph.conv %x, (%w * %f) bias (%bias - %mean * %f)

What is computed of weights alone is done once, at load (see prepare-weights). The rules are in
`canonical/linear_maps.py`. With `exact` batch norm becomes a product and a sum, and a first bias
goes into a convolution: that keeps every bit.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.transforms.graph.canonical import linear_maps
from ge.transforms.graph.canonical.simplify import simplify
from ge.transforms.rewriting.relations import BitExact, Relation, Ulps


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Put what is linear by channel into weights.
    `exact`: only by rules that keep every bit."""

    name = "fold-batch-norm"

    exact: bool = False

    @property
    def RELATION(self) -> Relation:
        """What the rules may do to the numbers: data that is not multiplied any more does not
        overflow any more."""
        return BitExact() if self.exact else Ulps(overflow=True)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        simplify(op, (linear_maps,), self.exact)
