"""Ops of the vector unit in one launch.

    %0 = graph.slice %x ...      %2 = graph.concat %1, %0
    %1 = graph.neg %y            %3 = graph.mul %2, %s
becomes
    %3 = fused_op.region(%x, %y, %s) { graph.slice, graph.neg, graph.concat, graph.mul }

Greedy by the bytes that need not be written and read; see `regions.py` for what makes one kernel.
Shape arithmetic of the control processor is grouped as well: each group is one task of the host.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.fused_op import RegionOp
from ge.dialects.target import DEFAULT_TARGET
from ge.transforms.fusion.merging import Merger, fuse_blocks
from ge.transforms.fusion.regions import edges_of, merge_edges


@dataclass(frozen=True)
class FuseRegionPass(ModulePass):
    """Fuse elementwise ops, data movement and reductions into `fused_op.region`."""

    name = "fuse-region"

    target: str = DEFAULT_TARGET
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_blocks(op, self.target, self.name, fuse)


def fuse(merger: Merger) -> None:
    """Merge elementwise ops and their like along the edges that save most."""
    block = merger.groups.block
    merge_edges(merger, edges_of(merger, list(block.ops), block.args))
    for group in list(merger.groups):
        if len(group.ops) > 1:
            merger.finish(group, RegionOp)
