"""Quantized weights that are dequantized by launches of their own are so together.

    %0 = graph.dequantize %w, %s        %0, %1 = fused_op.region(%w, %s, %v, %t)
    %1 = graph.dequantize %v, %t   ->
    %2 = graph.matmul %x, %0            %2 = graph.matmul %x, %0
    %3 = graph.matmul %2, %1            %3 = graph.matmul %2, %1

Such launches wait for no others, and what they take is their starts. So do launches of vector cores
that take inputs alone (casts, masks), which join them. A weight is there earlier than it is needed:
the program takes no more memory at its peak than it would with weights of floats, or a small part
of L2. Weights that are too early at the beginning join a launch of vector cores that comes before
their first user.
"""

from collections.abc import Sequence

from xdsl.ir import Block

from ge.dialects import graph
from ge.dialects.fused_op import RegionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import byte_size, has_size
from ge.transforms.analysis.views import storage
from ge.transforms.fusion.groups import Group, is_vector_op, is_view
from ge.transforms.fusion.merging import MOST_OPS, Merger
from ge.transforms.fusion.relieve_peak import values_of
from ge.transforms.rewriting.counts import declare, is_enabled

FUSE_WEIGHTS = declare("fuse-weights", "weights are dequantized in one launch")
FEW = 64  # so small a part of L2 may be taken at once, also where integers save less
MOST_TRIED = 3  # launches before the first user that some weights may join


def dequantize_together(merger: Merger) -> None:
    """Make one launch of those that dequantize weights, as many as memory allows, where that takes
    less time."""
    if not is_enabled(FUSE_WEIGHTS):
        return
    groups = merger.groups
    given = [group for group in groups if waits_for_nobody(group)]
    if not has_weights(given):
        return
    given = [group for group in given if merger.refusal([*group.ops]) is None]
    weights = [group for group in given if has_weights([group])]
    number = {group: i for i, group in enumerate(groups)}
    first = {g: min([number[u] for u in groups.users(g)], default=number[g]) for g in given}
    order = sorted(number, key=lambda g: (first.get(g, number[g]), g not in first))
    place = {group: i for i, group in enumerate(order)}
    profile = values_of(merger).live([number[group] for group in order])
    saved = sum(bytes_of(merger, g) - stored_bytes(g) for g in weights)
    profile.peak += max(saved, merger.target.l2_bytes // FEW)

    def may_join(launch: Sequence[Group], early: Sequence[Group], begin: int, end: int) -> bool:
        """Return whether launches may be one, with memory for what is computed early."""
        size = sum(bytes_of(merger, g) for g in early)
        return sum(len(g.ops) for g in launch) <= MOST_OPS and profile.reserve(begin, end, size)

    parts = list[list[Group]]()
    for group in sorted(given, key=place.__getitem__):
        some = parts[-1] if parts else []
        if some and may_join([*some, group], [group], place[some[0]], place[group]):
            some.append(group)
        else:
            parts.append([group])
    for some in filter(has_weights, parts):
        begin = place[some[0]]
        before = [g for g in order[:begin] if g not in first and is_vector_launch(g)]
        for other in reversed(before[-MOST_TRIED:]):
            whole = [other, *some]
            if may_join(whole, some, place[other], begin) and join(merger, whole):
                break
        else:
            if not join(merger, some):
                join(merger, [g for g in some if has_weights([g])])


def join(merger: Merger, some: Sequence[Group]) -> bool:
    """Make some launches one, if that has a program and takes less time; whether it was done."""
    if len(some) < 2 or merger.refusal([o for g in some for o in g.ops]) is not None:
        return False
    apart, together = merger.sum_us(*([g] for g in some)), merger.sum_us(some)
    if apart is None or together is None or together >= apart:
        return False
    first, *others = some
    joined = [merger.join(first, other, FUSE_WEIGHTS) for other in others]
    if any(joined):
        first.kind = RegionOp
    return any(joined)


def waits_for_nobody(group: Group) -> bool:
    """Return whether a launch of the vector unit takes constants and inputs alone."""
    if not is_vector_launch(group):
        return False
    sources = {storage(v).owner for op in group.ops for v in op.operands} - {*group.ops}
    return all(isinstance(s, Block | ConstantOp) for s in sources)


def is_vector_launch(group: Group) -> bool:
    """Return whether a group is a launch of the vector unit, of sizes that are known."""
    known = all(is_vector_op(op) and all(map(has_size, op.results)) for op in group.ops)
    return known and not all(map(is_view, group.ops))


def has_weights(some: Sequence[Group]) -> bool:
    return any(isinstance(op, graph.DequantizeOp) for group in some for op in group.ops)


def bytes_of(merger: Merger, group: Group) -> int:
    return sum(byte_size(v.type) for v in merger.groups.outputs(group))


def stored_bytes(group: Group) -> int:
    values = {v for op in group.ops for v in operands_of(op) if v.owner not in group.ops}
    return sum(byte_size(v.type) for v in values)
