"""Ops of the vector unit in one launch.

    %0 = graph.slice %x ...      %2 = graph.concat %1, %0
    %1 = graph.neg %y            %3 = graph.mul %2, %s
becomes
    %3 = fused_op.region(%x, %y, %s) { graph.slice, graph.neg, graph.concat, graph.mul }

Greedy by the bytes that need not be written and read; see `regions.py` for what makes one kernel.
"""

from ge.dialects.fused_op import RegionOp
from ge.transforms.fusion.merging import FusionPass, Merger
from ge.transforms.fusion.regions import FUSE_SIBLINGS, FUSE_USERS, Edges, all_edges
from ge.transforms.fusion.weights_together import FUSE_WEIGHTS, dequantize_together


class FuseVectorOpsPass(FusionPass):
    """Fuse elementwise ops, data movement and reductions into `fused_op.region`."""

    name = "fuse-vector-ops"
    RULES = (FUSE_USERS, FUSE_SIBLINGS, FUSE_WEIGHTS)

    def fuse(self, merger: Merger) -> None:
        Edges(merger).merge_all(all_edges(merger))
        for group in list(merger.groups):
            merger.finish(group, RegionOp)
        dequantize_together(merger)
