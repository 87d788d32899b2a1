"""Convolutions and their users in one launch.

    %0 = graph.conv %x, %w bias %b
    %1 = graph.add %0, %r
    %2 = graph.relu %1
becomes
    %2 = fused_op.conv(%x, %w, %b, %r) { graph.conv, graph.add, graph.relu }

Bias, activation, residual and the like join as after a matmul (see `epilogues.py`). A pool stays
apart: tiles of the cube are rows of channels, and have no windows. So does what makes the input:
windows overlap, and each core would make its part again.
"""

from xdsl.ir import Block

from ge.dialects.fused_op import ConvOp as FusedConvOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.transforms.fusion.epilogues import (
    EPILOGUE,
    FUSE_WEIGHT,
    dequantize_for_each_user,
    grow,
    judge_epilogue,
    take_tables,
    take_weights,
)
from ge.transforms.fusion.groups import Groups
from ge.transforms.fusion.merging import FusionPass, Merger


class FuseConvPass(FusionPass):
    """Fuse convolutions and their users on the core into `fused_op.conv`."""

    name = "fuse-conv"
    RULES = (*EPILOGUE, FUSE_WEIGHT)

    def groups(self, block: Block) -> Groups:
        dequantize_for_each_user(block)
        return Groups(block)

    def fuse(self, merger: Merger) -> None:
        groups = merger.groups
        for op in [op for op in groups.block.ops if isinstance(op, ConvOp | ConvTransposeOp)]:
            group = groups.of(op)
            if group.kind is None:
                take_weights(merger, op)
                grow(merger, group, judge_epilogue)
                take_tables(merger, group)
                merger.finish(group, FusedConvOp)
