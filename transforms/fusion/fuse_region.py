"""Ops of the vector unit in one launch.

    %0 = graph.slice %x ...      %2 = graph.concat %1, %0
    %1 = graph.neg %y            %3 = graph.mul %2, %s
becomes
    %3 = fused_op.region(%x, %y, %s) { graph.slice, graph.neg, graph.concat, graph.mul }

Greedy by the bytes that need not be written and read; see `regions.py` for what makes one kernel.
Shape arithmetic is grouped as well: each group is one task of the control processor.

With `recompute`, a cheap op whose users cannot become one launch joins each of them, if what that
saves in traffic is more than computing it again.
"""

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.fused_op import RegionOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.interfaces import Access, TensorOp
from ge.dialects.target import DEFAULT_TARGET
from ge.runtime.cost import launch_us
from ge.transforms import remarks
from ge.transforms.fusion.groups import Group
from ge.transforms.fusion.merging import Merger, access, fuse_blocks, is_pure, is_view
from ge.transforms.fusion.regions import Edges, all_edges, is_vector_op, mismatch

CHEAP = 2
"""Vector instructions for an element that may be spent again."""


@dataclass(frozen=True)
class FuseRegionPass(ModulePass):
    """Fuse elementwise ops, data movement and reductions into `fused_op.region`."""

    name = "fuse-region"

    target: str = DEFAULT_TARGET
    """Preset name, or path of a target file."""
    recompute: bool = False
    """Whether cheap ops may be computed once for each launch that uses them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        def fuse(merger: Merger) -> None:
            block = merger.groups.block
            Edges(merger).merge_all(all_edges(merger))
            if self.recompute:
                for inner in list(block.ops):
                    duplicate_into_users(merger, inner)
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


def duplicate_into_users(merger: Merger, op: Operation) -> None:
    """Compute a cheap op once in each launch that uses it, if that is faster."""
    groups = merger.groups
    group = groups.of(op)
    if not _is_cheap(op) or any(groups.producer(v) is group for v in op.operands):
        return
    users = [groups.find(use.operation) for use in op.results[0].uses]
    takers = [u for u in dict.fromkeys(users) if u is not None and u is not group]
    if not takers or None in users or not all(map(_is_region, (group, *takers))):
        return
    bodies = [merger.body_of([op, *u.ops]) for u in takers]
    if any(mismatch(b) is not None for b in bodies):
        return
    if len(group.ops) > 1:
        body = merger.body_of(group.ops)
        bodies.append(replace(body, outputs=[v for v in body.outputs if v.owner is not op]))
    elif len(takers) == 1:
        return
    apart = merger.sum_us([group], *([u] for u in takers))
    times = [launch_us(b, merger.target) for b in bodies]
    if apart is None or None in times or (saved := apart - sum(t or 0 for t in times)) < 0:
        return
    remarks.applied(merger.rule, op, f"computed {len(bodies)} times: {saved:.1f} us saved")
    for user in takers:
        groups.absorb(op, user)


def _is_cheap(op: Operation) -> bool:
    if not isinstance(op, TensorOp) or access(op) is not Access.POINTWISE:
        return False
    return is_vector_op(op) and not is_view(op) and op.VECTOR_COST <= CHEAP


def _is_region(group: Group) -> bool:
    return group.kind is None and all(is_vector_op(op) for op in group.ops)
