"""Rules for `graph.if` and `graph.case`, a function each; all of them keep every bit. And chains of
branches, as exporters write the choice of one of several, which become one case:

    %c = graph.compare eq %i, %zero                 %c = graph.compare eq %i, %zero
    %y = graph.if %c {                              %d = graph.compare eq %i, %one
      graph.yield %a                                %0 = graph.select %d, %one, %two
    } else {                                        %1 = graph.select %c, %zero, %0
      %d = graph.compare eq %i, %one                %y = graph.case %1 {
      %z = graph.if %d {                   becomes    graph.yield %a
        graph.yield %b                              } {
      } else {                                        graph.yield %b
        graph.yield %e                              } {
      }                                               graph.yield %e
      graph.yield %z                                }
    }

Who takes a branch waits for its condition: of a chain for one after the other, of a case once. Only
scalars and short vectors of integers, which the control processor computes, are computed earlier
than before, and nothing that may fail.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.control import Branching, branch_of
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.types import constant_ints, element_type, has_size, number_of
from ge.transforms.graph.control_flow import (
    constant_before,
    end_of,
    inline,
    insert_before,
    is_pure,
    move_before,
    nested_blocks,
    replace_op,
)
from ge.transforms.graph.infer_shapes import infer_op
from ge.transforms.graph.loops import may_fail
from ge.transforms.graph.share_common_subexpressions import Numbering
from ge.transforms.rewriting.counts import count


def take_known_branch(op: Branching) -> bool:
    """Inline the branch that is taken, if the condition, or index, is constant; returns whether it
    was.

    %y = graph.if %true {                   %a = graph.exp %x
      %a = graph.exp %x          becomes    (%a in the place of %y)
      graph.yield %a
    } else { ... }
    """
    known = constant_ints(op.operands[0])
    if known is None or (branch := branch_of(op, known[0])) is None:
        return False
    replace_op(op, inline(branch.block, op, ()))
    count("take-known-branch")
    return True


def hoist_common_ops(op: Branching) -> None:
    """Hoist what all branches compute.

    %y = graph.if %c {                      %a = graph.exp %x
      %a = graph.exp %x                     %y = graph.if %c {
      graph.yield %a                          graph.yield %a
    } else {                    becomes     } else {
      %a = graph.exp %x                       %b = graph.neg %a
      %b = graph.neg %a                       graph.yield %b
      graph.yield %b                        }
    }
    """
    blocks = [region.block for region in op.regions]
    tables_of_kinds = [{kind(o) for o in ops_of(block)} for block in blocks]
    in_all = tables_of_kinds[0].intersection(*tables_of_kinds[1:])
    numbering = Numbering()

    def numbered(
        block: Block, before: Mapping[Hashable, Sequence[Operation]] | None
    ) -> dict[Hashable, list[Operation]]:
        """Return the ops by numbers, equal for ops that compute the same from the values around the
        branches; only those that all branches `before` have."""
        ops: dict[Hashable, list[Operation]] = {}
        own: set[SSAValue] = set()
        for inner in ops_of(block):
            key = None
            if inner is not block.last_op and kind(inner) in in_all:
                users = (inner,) if isinstance(inner, FusedOp) else inner.walk()
                used = (v for o in users for v in operands_of(o))
                key = None if any(v in own for v in used) else numbering.visit(inner)
            if key is None or (before is not None and key not in before):
                own.update(inner.results)
            else:
                ops.setdefault(key, []).append(inner)
        return ops

    tables: list[dict[Hashable, list[Operation]]] = []
    for block in blocks:
        tables.append(numbered(block, tables[-1] if tables else None))
    common = list(tables[-1])
    for key in common:
        first, *same = (o for table in tables for o in table[key])
        move_before(op, [first])
        for other in same:  # all of them: what is hoisted next may use any
            replace_op(other, first.results)
    if common:
        count("hoist-common-ops", len(common), len(common))


def kind(op: Operation) -> Hashable:
    """Return a key that is equal for all ops that may compute the same: class and result types."""
    return type(op), *[number_of(r.type) for r in op.results]


def use_equal_values(op: Branching) -> None:
    """A result for which all branches yield one value is that value; one that is true where the
    condition holds and false elsewhere is the condition; two that are equal are one."""
    ends = [end_of(region.block).operands for region in op.regions]
    first: dict[tuple[SSAValue, ...], SSAValue] = {}
    for result, *values in zip(op.results, *ends, strict=True):
        if result.first_use is None:
            continue
        value: SSAValue = first.setdefault(tuple(values), result)
        if all(v is values[0] for v in values):
            value = values[0]
        elif value is result and isinstance(op, g.IfOp):
            value = _as_condition(op, *values) or result
        if value is not result:
            result.replace_all_uses_with(value)
            count("use-equal-values")


def _as_condition(op: g.IfOp, then: SSAValue, otherwise: SSAValue) -> SSAValue | None:
    """The condition or its negation, if the branches yield that."""
    if element_type(then) != i1 or not then.type == otherwise.type == op.condition.type:
        return None
    values = constant_ints(then), constant_ints(otherwise)
    if None in values:
        return None
    a, b = (bool(v[0]) for v in values if v is not None)
    if a == b:
        return None
    return op.condition if a else insert_before(op, g.NotOp.of(op.condition)).result


def merge_chains(block: Block) -> None:
    """Merge the chains of a block, and of the blocks in it, the longest ones."""
    for op in list(block.ops):
        links = chain_of(op) if isinstance(op, g.IfOp) and has_size(op.condition) else []
        new = merge(links) if len(links) > 1 else op
        for inner in nested_blocks(new):
            merge_chains(inner)


def chain_of(op: g.IfOp) -> list[g.IfOp]:
    """The branch, the one that its else side comes to, and so on."""
    links = [op]
    while (link := next_link(links[-1].else_region.block)) is not None:
        links.append(link)
    return links


def next_link(block: Block) -> g.IfOp | None:
    """The branch that a block comes to, if all else in it may be computed before."""
    *ops, _ = block.ops
    links = [op for op in ops if isinstance(op, g.IfOp)]
    if len(links) != 1 or not has_size(links[0].condition):
        return None
    (link,) = links
    others = [op for op in ops if op is not link]
    used = {v for op in others for v in op.operands}
    return link if used.isdisjoint(link.results) and all(map(is_early, others)) else None


def is_early(op: Operation) -> bool:
    """Return whether an op may be computed at a place where it was not computed before."""
    if isinstance(op, g.ConstantOp):
        return True
    return is_pure(type(op)) and not may_fail(op) and is_shape_arithmetic(op)


def merge(links: Sequence[g.IfOp]) -> g.CaseOp:
    """Replace a chain by a case."""
    first, last = links[0], len(links)
    ends = [list(end_of(link.else_region.block).operands) for link in links]
    for link in links[:-1]:
        *ops, _ = link.else_region.block.ops
        move_before(first, [op for op in ops if not isinstance(op, g.IfOp)])
    index = constant_before(first, np.array(last, np.int64))
    for number in reversed(range(last)):
        here = constant_before(first, np.array(number, np.int64))
        operands = [links[number].condition, here, index]
        select = insert_before(first, g.SelectOp(operands=operands, result_types=[index.type]))
        infer_op(select)
        index = select.result
    taken = [*(link.then_region for link in links), links[-1].else_region]
    regions = [link.detach_region(r) for link, r in zip([*links, links[-1]], taken, strict=True)]
    for number, region in enumerate(regions):
        end = end_of(region.block)
        values = list(end.operands)
        for outer in reversed(range(min(number, last - 1))):
            inner: dict[SSAValue, SSAValue] = dict(
                zip(links[outer + 1].results, values, strict=True)
            )
            values = [inner.get(v, v) for v in ends[outer]]
        end.operands = values
    case = g.CaseOp(operands=[index], result_types=[first.result_types], regions=[regions])
    insert_before(first, case)
    infer_op(case)
    replace_op(first, case.results)
    count("merge-chain", 1, 1)
    return case
