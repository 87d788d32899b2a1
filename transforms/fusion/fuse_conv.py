"""Convolution, bias and activation in one launch.

    %0 = graph.conv %x, %w bias %b
    %1 = graph.relu %0
becomes
    %1 = fused_op.conv(%x, %w, %b) { graph.conv, graph.relu }

As for fuse-linear: the activation is applied to the output tile on its way out of L0C. The bias
may be the convolution's own operand or a constant added after it.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.fused_op import ConvOp as FusedConvOp
from ge.dialects.graph.convolution import ConvOp
from ge.transforms.fusion.chains import fuse_epilogues


@dataclass(frozen=True)
class FuseConvPass(ModulePass):
    """Fuse a convolution, a constant bias and an activation function into `fused_op.conv`."""

    name = "fuse-conv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_epilogues(op, ConvOp, FusedConvOp, self.name)
