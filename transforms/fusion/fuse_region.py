"""Ops of the vector unit in one launch.

    %0 = graph.slice %x ...      %2 = graph.concat %1, %0
    %1 = graph.neg %y            %3 = graph.mul %2, %s
becomes
    %3 = fused_op.region(%x, %y, %s) { graph.slice, graph.neg, graph.concat, graph.mul }

Greedy by the bytes that need not be written and read; see `regions.py` for what makes one kernel.
Shape arithmetic is grouped as well: each group is one task of the control processor.

With `recompute`, a cheap op whose users cannot become one launch joins each of them, if what that
saves in traffic is more than computing it again (`recompute.py`). With `peak-memory`, values go out
of memory where the block needs the most, even at some cost of time (`peak_memory.py`).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.fused_op import RegionOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.target import DEFAULT_TARGET
from ge.transforms.fusion.merging import Merger, fuse_blocks, is_pure
from ge.transforms.fusion.peak_memory import relieve_peak
from ge.transforms.fusion.recompute import duplicate_into_users
from ge.transforms.fusion.regions import Edges, all_edges


@dataclass(frozen=True)
class FuseRegionPass(ModulePass):
    """Fuse elementwise ops, data movement and reductions into `fused_op.region`."""

    name = "fuse-region"

    target: str = DEFAULT_TARGET
    """Preset name, or path of a target file."""
    recompute: bool = False
    """Whether cheap ops may be computed once for each launch that uses them."""
    peak_memory: bool = False
    """Whether to fuse for less memory at the peak, even where that takes more time."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        def fuse(merger: Merger) -> None:
            block = merger.groups.block
            Edges(merger).merge_all(all_edges(merger))
            if self.recompute:
                for inner in list(block.ops):
                    duplicate_into_users(merger, inner)
            if self.peak_memory:
                relieve_peak(merger)
            merge_shape_arithmetic(merger)
            for group in list(merger.groups):
                if len(group.ops) > 1:
                    merger.finish(group, RegionOp)

        fuse_blocks(op, self.target, self.name, fuse)


def merge_shape_arithmetic(merger: Merger) -> None:
    """Put shape arithmetic into one group with what it uses of it."""
    groups = merger.groups
    for op in groups.block.ops:
        if _is_shape_op(op):
            for value in op.operands:
                maker = groups.defining(value)
                if maker is not None and _is_shape_op(maker):
                    groups.merge(groups.of(maker), groups.of(op))


def _is_shape_op(op: Operation) -> bool:
    return is_pure(op) and is_shape_arithmetic(op)
