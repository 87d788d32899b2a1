"""Norms with what stands before and after them in one launch.

    %0 = graph.add %x, %r
    %1 = graph.layer_norm %0, %s, %b
    %2 = graph.quantize %1, %q
becomes
    %0, %2 = fused_op.norm(%x, %r, %s, %b, %q) { graph.add, graph.layer_norm, graph.quantize }

A row is on the core while its statistics are computed: what makes it (a residual sum, embeddings
looked up, a cast) and what follows (activation, cast, quantization, a transposed store) costs no
traffic there. A sum that is used elsewhere too is a second result. See `regions.py` for what fits.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.fused_op import NormOp
from ge.dialects.graph.normalization import GroupNormOp, LayerNormOp, RmsNormOp
from ge.dialects.target import DEFAULT_TARGET
from ge.transforms.fusion.merging import Merger, Missed, fuse_blocks
from ge.transforms.fusion.regions import Neighbours, edges_around, merge_edge

NORMS = (LayerNormOp, RmsNormOp, GroupNormOp)


@dataclass(frozen=True)
class FuseNormPass(ModulePass):
    """Fuse norms and what stands around them into `fused_op.norm`."""

    name = "fuse-norm"

    target: str = DEFAULT_TARGET
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_blocks(op, self.target, self.name, fuse)


def fuse(merger: Merger) -> None:
    """Let each normalization take what is before and behind it; none of what one has taken is taken
    by another."""
    groups, near = merger.groups, Neighbours(merger)
    norms = [op for op in groups.block.ops if isinstance(op, NORMS)]
    for op in norms:
        group = groups.of(op)
        if group.kind is None:
            grow(merger, op, near)
    for op in norms:
        group = groups.of(op)
        if group.kind is None:
            merger.finish(group, NormOp)


def grow(merger: Merger, norm: Operation, near: Neighbours) -> None:
    """Merge along the edges of the norm's group, those that save most first."""
    groups = merger.groups
    missed: dict[tuple[Operation, Operation], Missed] = {}
    grown = True
    while grown:
        grown = False
        for edge in edges_around(near, groups.of(norm)):
            ends = edge.first, edge.second
            if ends not in missed:
                if (why := merge_edge(merger, edge)) is None:
                    grown = True
                    break
                missed[ends] = why
    for edge in edges_around(near, groups.of(norm)):
        merger.missed(edge.second, missed[edge.first, edge.second])
