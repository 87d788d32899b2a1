"""A cheap op whose users cannot become one launch joins each of them: its result is computed
several times, and neither written nor read."""

from dataclasses import replace

from xdsl.ir import Operation

from ge.dialects.support.access import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.costs.cost import launch_us
from ge.transforms.fusion.groups import Group
from ge.transforms.fusion.merging import MOST_OPS, Merger, access, is_view
from ge.transforms.fusion.regions import is_vector_op, mismatch
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count, declare

RECOMPUTE = declare("recompute", "a cheap op is computed once in each launch that uses it")
RELIEVE_PEAK = declare("relieve-peak", "the same for less memory at the peak, at some cost of time")

CHEAP = 2
"""Vector instructions for an element that may be spent again."""


def duplicate_into_users(merger: Merger, op: Operation, slower: float = 1.0) -> bool:
    """Compute a cheap op once in each launch that uses it, if the launches together take at most
    `slower` times as long then; whether that was done."""
    groups = merger.groups
    group = groups.of(op)
    if not _is_cheap(op) or any(groups.producer(v) is group for v in op.operands):
        return False
    users = [groups.find(use.operation) for use in op.results[0].uses]
    takers = [u for u in dict.fromkeys(users) if u is not None and u is not group]
    if not takers or None in users or not all(map(_is_region, (group, *takers))):
        return False
    bodies = [merger.body_of([op, *u.ops]) for u in takers]
    if any(len(b.ops) > MOST_OPS or mismatch(b) is not None for b in bodies):
        return False
    if len(group.ops) > 1:
        body = merger.body_of(group.ops)
        bodies.append(replace(body, outputs=[v for v in body.outputs if v.owner is not op]))
    elif len(takers) == 1:
        return False
    apart = merger.sum_us([group], *([u] for u in takers))
    times = [launch_us(b, merger.target) for b in bodies]
    if apart is None or None in times:
        return False
    together = sum(t or 0 for t in times)
    if together > slower * apart:
        return False
    change = f"{abs(apart - together):.1f} us {'saved' if together <= apart else 'lost'}"
    rule = RECOMPUTE if slower <= 1 else RELIEVE_PEAK
    count(rule)
    remarks.applied(rule, op, f"computed {len(bodies)} times: {change}")
    for user in takers:
        groups.absorb(op, user)
    return True


def _is_region(group: Group) -> bool:
    """Whether a group is, and may stay, one kernel of the vector unit."""
    return group.kind is None and all(is_vector_op(op) for op in group.ops)


def _is_cheap(op: Operation) -> bool:
    if not isinstance(op, TensorOp) or access(op) is not Access.POINTWISE:
        return False
    return is_vector_op(op) and not is_view(op) and op.VECTOR_COST <= CHEAP
