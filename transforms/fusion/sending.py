"""What devices send each other while others of their ops are computed: two ops that become one
launch end together, and what one of them makes is sent no earlier than the other one's results.

    %q = linear(%x)        |  %k = linear(%x)
    %r = rotary(%q)        |  send(%r)
    %k = linear(%x)        |  %s = rotary(%k)
    %s = rotary(%k)        |
"""

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation

from ge.dialects.fused_op import FusedOp, multiplies
from ge.dialects.graph.collectives import Collective
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.library.costs.collectives import collective_us
from ge.transforms.fusion.groups import Group, Groups, access
from ge.transforms.fusion.merging import Merger

PASSED = frozenset((Access.POINTWISE, Access.VIEW, Access.MOVEMENT))

# Siblings so many ops apart may have results of any size; collectives as far are of other ops
NEAR = 32


def hidden_us(merger: Merger, first: Sequence[Group], then: Sequence[Group]) -> float:
    """Return the time in which what some groups make is sent to other devices while others are
    computed: with one launch it waits for all of them."""
    sent = sent_us(merger, first)
    return min(sent, merger.at_least_us(then)) if sent else 0.0


def sent_us(merger: Merger, groups: Sequence[Group]) -> float:
    """Return how long what some groups make is under way to other devices."""
    sent = {c: None for group in groups for op in group.ops for c in sent_by(op, merger.groups)}
    return sum(collective_us(c, merger.target) for c in sent)


def sent_by(op: Operation, groups: Groups) -> Iterator[Collective]:
    """Yield the collectives of what an op makes, or of its elements moved or changed one by one:
    those so near that they follow from it and not from a sum that goes through all layers."""
    last, seen = groups.number[op] + NEAR, {op}
    found = [op]
    while found:
        users = {u.operation for r in found.pop().results for u in r.uses} - seen
        seen |= users
        near = (u for u in users if groups.number.get(u, last) < last)
        for user in sorted(near, key=groups.number.__getitem__):
            if isinstance(user, Collective):
                yield user
            elif isinstance(user, TensorOp) and access(user) in PASSED:
                found.append(user)


def hidden_apart_us(merger: Merger, first: Group, second: Group) -> float:
    """Return the time in which what one of two groups makes is sent to other devices while the
    products are computed that the other one alone needs, as far as that one is not computed
    meanwhile: with one launch it waits for these."""
    groups = merger.groups
    if not groups.collectives:
        return 0.0
    both = [first, second]
    products = [needed_products(group, groups) for group in both]
    us = 0.0
    for one, own, others in zip(both, products, reversed(products), strict=True):
        behind = {id(g): g for op in others if op not in own for g in [groups.of(op)]}
        if behind and (sent := sent_us(merger, [one])):
            work = merger.at_least_us(behind.values()) - merger.at_least_us([one])
            us = max(us, min(sent, work))
    return us


def needed_products(group: Group, groups: Groups) -> set[Operation]:
    """Return the products that a group reads, itself or by way of ops that move or change their
    elements one by one: those near it."""
    first = min(groups.number[op] for op in group.ops) - NEAR
    todo, seen, found = list(group.ops), set(group.ops), set[Operation]()
    while todo:
        for value in todo.pop().operands:
            op = groups.defining(value)
            if op is None or op in seen or groups.number[op] < first:
                continue
            seen.add(op)
            if any(map(multiplies, op.members if isinstance(op, FusedOp) else (op,))):
                found.add(op)
            elif access(op) in PASSED:
                todo.append(op)
    return found
