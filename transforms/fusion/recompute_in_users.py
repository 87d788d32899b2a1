"""A cheap op whose users cannot be one launch is computed in each of them.

    %s = fused_op.region(%x) { graph.cast }
    %a = fused_op.region(%s) { graph.softmax }
    %b = fused_op.region(%s) { graph.softmax along the columns }
becomes
    %a = fused_op.region(%x) { graph.cast, graph.softmax }
    %b = fused_op.region(%x) { graph.cast, graph.softmax along the columns }

if what that saves in traffic is more than computing it again.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

from xdsl.ir import Block, Operation

from ge.dialects.fused_op import RegionOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.library.asking import launch_us
from ge.transforms.fusion.groups import Group, Groups, access, is_vector_op, is_view
from ge.transforms.fusion.merging import MOST_OPS, FusionPass, Merger
from ge.transforms.fusion.regions import mismatch
from ge.transforms.graph.control_flow import unfuse
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count, declare, is_enabled

RECOMPUTE = declare("recompute", "a cheap op is computed once in each launch that uses it")

CHEAP = 2  # vector instructions for an element that may be spent again


class RecomputingPass(FusionPass, ABC):
    """Base of the passes that move ops into several of the launches that use them."""

    def groups(self, block: Block) -> Groups:
        """Return the groups of a block; regions are groups of their members."""
        return Groups(block, [unfuse(op) for op in list(block.ops) if isinstance(op, RegionOp)])

    def fuse(self, merger: Merger) -> None:
        if is_enabled(self.RULES[0]):
            self.recompute(merger)
        for group in list(merger.groups):
            if len(group.ops) > 1:
                merger.trim(group)
                group.kind = RegionOp

    @abstractmethod
    def recompute(self, merger: Merger) -> None: ...


class RecomputeInUsersPass(RecomputingPass):
    """Compute a cheap op in each launch that uses it where that saves time."""

    name = "recompute-in-users"
    RULES = (RECOMPUTE,)

    def recompute(self, merger: Merger) -> None:
        for op in list(merger.groups.block.ops):
            duplicate_into_users(merger, op, RECOMPUTE)


def duplicate_into_users(merger: Merger, op: Operation, rule: str, slower: float = 1.0) -> bool:
    """Compute a cheap op in each launch that uses it, if the launches together then take at most
    `slower` times as long; whether that was done."""
    groups = merger.groups
    group = groups.of(op)
    if not _is_cheap(op) or any(groups.producer(v) is group for v in op.operands):
        return False
    users = {groups.find(use.operation): None for use in op.results[0].uses}
    others = [u for u in users if u is not None and u is not group]
    if not others or None in users or not all(map(_is_region, (group, *others))):
        return False
    bodies = [merger.body_with(op, u.ops) for u in others]
    if any(len(b.ops) > MOST_OPS or mismatch(b) is not None for b in bodies):
        return False
    if len(group.ops) > 1:
        body = merger.body_of(group.ops)
        bodies.append(replace(body, outputs=[v for v in body.outputs if v.owner is not op]))
    elif len(others) == 1:
        return False
    apart = merger.sum_us([group], *([u] for u in others))
    times = [launch_us(b, merger.target) for b in bodies]
    if apart is None or None in times:
        return False
    together = sum(t or 0 for t in times)
    if together > slower * apart:
        return False
    change = f"{abs(apart - together):.1f} us {'saved' if together <= apart else 'lost'}"
    count(rule)
    remarks.applied(rule, op, f"computed {len(bodies)} times: {change}")
    for user in others:
        groups.absorb(op, user)
    return True


def _is_region(group: Group) -> bool:
    """Return whether a group is, and may stay, one kernel of the vector unit."""
    return group.kind is None and all(is_vector_op(op) for op in group.ops)


def _is_cheap(op: Operation) -> bool:
    if not isinstance(op, TensorOp) or access(op) is not Access.POINTWISE:
        return False
    return is_vector_op(op) and not is_view(op) and op.VECTOR_COST <= CHEAP
