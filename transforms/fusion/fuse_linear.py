"""Matmul, bias and activation in one launch.

    %0 = graph.matmul %x, %w
    %1 = graph.add %0, %b
    %2 = graph.relu %1
becomes
    %2 = fused_op.linear(%x, %w, %b) { graph.matmul, graph.add, graph.relu }

The cube leaves a tile of the product in L0C; the vector unit adds the bias and applies the
activation on the way out, so neither intermediate has memory outside the core. The bias is a
constant that broadcasts to the product; each intermediate has no other user.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.fused_op import LinearOp
from ge.dialects.graph.linear import MatmulOp
from ge.transforms.fusion.chains import fuse_epilogues


@dataclass(frozen=True)
class FuseLinearPass(ModulePass):
    """Fuse matmul, a constant bias and an activation function into `fused_op.linear`."""

    name = "fuse-linear"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_epilogues(op, MatmulOp, LinearOp, self.name)
