"""Chains of branches, as exporters write the choice of one of several.

    %c = graph.compare "eq" %i, %zero               %c = graph.compare "eq" %i, %zero
    %y = graph.if %c {                              %d = graph.compare "eq" %i, %one
      graph.yield %a                                %0 = graph.select %d, %one, %two
    } else {                                        %1 = graph.select %c, %zero, %0
      %d = graph.compare "eq" %i, %one              %y = graph.case %1 {
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

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import CaseOp, IfOp
from ge.dialects.graph.elementwise import SelectOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.support.types import has_size
from ge.transforms.graph.control_flow import (
    constant_before,
    end_of,
    insert_before,
    is_pure,
    move_before,
    nested_blocks,
    replace_op,
)
from ge.transforms.graph.infer_shapes import infer_op
from ge.transforms.graph.loops import may_fail
from ge.transforms.rewriting.counts import count


def merge_chains(block: Block) -> None:
    """Merge the chains of a block, and of the blocks in it, the longest ones."""
    for op in list(block.ops):
        links = chain_of(op) if isinstance(op, IfOp) and has_size(op.condition) else []
        new = merge(links) if len(links) > 1 else op
        for inner in nested_blocks(new):
            merge_chains(inner)


def chain_of(op: IfOp) -> list[IfOp]:
    """The branch, the one that its else side comes to, and so on."""
    links = [op]
    while (link := next_link(links[-1].else_region.block)) is not None:
        links.append(link)
    return links


def next_link(block: Block) -> IfOp | None:
    """The branch that a block comes to, if all else in it may be computed before."""
    *ops, _ = block.ops
    links = [op for op in ops if isinstance(op, IfOp)]
    if len(links) != 1 or not has_size(links[0].condition):
        return None
    (link,) = links
    others = [op for op in ops if op is not link]
    used = {v for op in others for v in op.operands}
    return link if used.isdisjoint(link.results) and all(map(is_early, others)) else None


def is_early(op: Operation) -> bool:
    """Whether an op may be computed where it was not before."""
    if isinstance(op, ConstantOp):
        return True
    return is_pure(type(op)) and not may_fail(op) and is_shape_arithmetic(op)


def merge(links: Sequence[IfOp]) -> CaseOp:
    """Replace a chain by a case."""
    first, last = links[0], len(links)
    ends = [list(end_of(link.else_region.block).operands) for link in links]
    for link in links[:-1]:
        *ops, _ = link.else_region.block.ops
        move_before(first, [op for op in ops if not isinstance(op, IfOp)])
    index = constant_before(first, np.array(last, np.int64))
    for number in reversed(range(last)):
        here = constant_before(first, np.array(number, np.int64))
        operands = [links[number].condition, here, index]
        select = insert_before(first, SelectOp(operands=operands, result_types=[index.type]))
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
    case = CaseOp(operands=[index], result_types=[first.result_types], regions=[regions])
    insert_before(first, case)
    infer_op(case)
    replace_op(first, case.results)
    count("merge-chain", 1, 1)
    return case
