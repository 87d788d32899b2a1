"""Norms and the ops around them in one launch.

    %0 = graph.add %x, %r
    %1 = graph.layer_norm %0, %s, %b
    %2 = graph.quantize %1, %q
becomes
    %0, %2 = fused_op.norm(%x, %r, %s, %b, %q) { graph.add, graph.layer_norm, graph.quantize }

A row is on the core while its statistics are computed: there, ops that compute it (a residual sum,
a lookup of embeddings, a cast) and its users (activation, cast, quantization, a transposed store)
cost no traffic. A sum that is used elsewhere too is a second result. `regions.py` says what fits.
"""

from xdsl.ir import Operation

from ge.dialects.fused_op import NormOp
from ge.dialects.support.tensor_op import TensorOp
from ge.transforms.fusion.merging import FusionPass, Merger, Missed
from ge.transforms.fusion.regions import (
    FUSE_SIBLINGS,
    FUSE_USERS,
    Edge,
    Neighbours,
    edges_around,
    is_open,
    merge_edge,
)


class FuseNormPass(FusionPass):
    """Fuse norms and the ops around them into `fused_op.norm`."""

    name = "fuse-norm"
    RULES = (FUSE_USERS, FUSE_SIBLINGS)

    def fuse(self, merger: Merger) -> None:
        groups, near = merger.groups, Neighbours(merger)
        missed: dict[Edge, Missed] = {}
        norms = [op for op in groups.block.ops if isinstance(op, TensorOp) and op.NORMALIZES]
        for op in norms:
            while merge_one(merger, op, near, missed):
                pass
        for edge, why in missed.items():
            if is_open(groups, edge):
                merger.missed(edge.rule, edge.second, why)
        for op in norms:
            if groups.of(op).kind is None:
                merger.finish(groups.of(op), NormOp)


def merge_one(
    merger: Merger, norm: Operation, near: Neighbours, missed: dict[Edge, Missed]
) -> bool:
    """Merge along the edge of the norm's group that saves most; whether there is one. `missed` are
    the edges that were tried without success, and will be."""
    for edge in edges_around(near, merger.groups.of(norm)):
        if edge not in missed:
            if (why := merge_edge(merger, edge)) is None:
                return True
            missed[edge] = why
    return False
