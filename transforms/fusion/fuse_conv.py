"""Convolutions and their users in one launch.

    %0 = graph.conv %x, %w bias %b
    %1 = graph.add %0, %r
    %2 = graph.relu %1
becomes
    %2 = fused_op.conv(%x, %w, %b, %r) { graph.conv, graph.add, graph.relu }

Bias, batch norm, activation, residual and the like join as after a matmul (see `epilogues.py`), and
so do a pad (a store into a larger image) and a pool whose windows do not overlap (each lies within
a tile). A pool with overlapping windows would need the tiles of its neighbours. What makes the
input stays apart: windows overlap, and each core would make its part again.
"""

from xdsl.ir import Block

from ge.dialects.fused_op import ConvOp as FusedConvOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.support.tensor_op import TensorOp
from ge.transforms.fusion.epilogues import EPILOGUE, Verdict, grow, judge_epilogue
from ge.transforms.fusion.groups import Group, Groups
from ge.transforms.fusion.merging import FusionPass, Merger
from ge.transforms.fusion.operands import (
    FUSE_WEIGHT,
    dequantize_for_each_user,
    take_tables,
    take_weights,
)
from ge.transforms.rewriting.counts import declare

FUSE_POOL = declare("fuse-pool", "a pool joins the launch of a convolution")


def judge_conv(op: TensorOp, group: Group, merger: Merger) -> Verdict:
    if isinstance(op, PoolOp):
        window = op.window()
        apart = window.strides == window.kernel and not any(d > 1 for d in window.dilations)
        return FUSE_POOL, None if apart else "the windows of the pool overlap"
    return judge_epilogue(op, group, merger)


class FuseConvPass(FusionPass):
    """Fuse convolutions and their users on the core into `fused_op.conv`."""

    name = "fuse-conv"
    RULES = (*EPILOGUE, FUSE_WEIGHT, FUSE_POOL)

    def groups(self, block: Block) -> Groups:
        dequantize_for_each_user(block)
        return Groups(block)

    def fuse(self, merger: Merger) -> None:
        groups = merger.groups
        for op in [op for op in groups.block.ops if isinstance(op, ConvOp | ConvTransposeOp)]:
            group = groups.of(op)
            if group.kind is None:
                take_weights(merger, op)
                grow(merger, group, judge_conv)
                take_tables(merger, group)
                merger.finish(group, FusedConvOp)
