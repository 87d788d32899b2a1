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

from xdsl.ir import Operation

from ge.dialects.fused_op import RegionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.transforms.fusion.groups import Group, Groups
from ge.transforms.fusion.merging import FusionPass, Merger, is_pure
from ge.transforms.fusion.peak_memory import relieve_peak
from ge.transforms.fusion.recompute import RECOMPUTE, RELIEVE_PEAK, duplicate_into_users
from ge.transforms.fusion.regions import FUSE_SIBLINGS, FUSE_USERS, Edges, all_edges
from ge.transforms.rewriting.counts import declare, is_enabled

FUSE_SHAPE_ARITHMETIC = declare("fuse-shape-arithmetic", "shape arithmetic becomes one task")


@dataclass(frozen=True)
class FuseRegionPass(FusionPass):
    """Fuse elementwise ops, data movement and reductions into `fused_op.region`."""

    name = "fuse-region"
    RULES = (FUSE_USERS, FUSE_SIBLINGS, FUSE_SHAPE_ARITHMETIC, RECOMPUTE, RELIEVE_PEAK)

    recompute: bool = False
    """Whether cheap ops may be computed once for each launch that uses them."""
    peak_memory: bool = False
    """Whether to fuse for less memory at the peak, even where that takes more time."""

    def fuse(self, merger: Merger) -> None:
        Edges(merger).merge_all(all_edges(merger))
        if self.recompute and is_enabled(RECOMPUTE):
            for op in list(merger.groups.block.ops):
                duplicate_into_users(merger, op)
        if self.peak_memory and is_enabled(RELIEVE_PEAK):
            relieve_peak(merger)
        if is_enabled(FUSE_SHAPE_ARITHMETIC):
            merge_shape_arithmetic(merger)
        for group in list(merger.groups):
            if len(group.ops) > 1:
                merger.finish(group, RegionOp)


def merge_shape_arithmetic(merger: Merger) -> None:
    """Put shape arithmetic into one group with what it uses of it, and all that needs no launch
    before it, as it follows from the shapes of the inputs, into one."""
    groups = merger.groups
    for op in groups.block.ops:
        if _is_shape_op(op):
            for value in op.operands:
                maker = groups.defining(value)
                if maker is not None and _is_shape_op(maker):
                    groups.merge(groups.of(maker), groups.of(op))
    early = [g for g in groups if _is_shape_op(g.ops[0]) and _waits_for_nothing(groups, g)]
    for group in early[1:]:
        groups.merge(early[0], group)


def _waits_for_nothing(groups: Groups, group: Group) -> bool:
    before = (op for producer in groups.producers(group) for op in producer.ops)
    return all(isinstance(op, ConstantOp) for op in before)


def _is_shape_op(op: Operation) -> bool:
    return is_pure(op) and is_shape_arithmetic(op)
