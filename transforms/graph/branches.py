"""Rules for `graph.if`, a function each; all of them keep every bit.

A rule changes the ops around the `if` and in it, and says whether it did.
"""

from collections.abc import Hashable

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.control import IfOp
from ge.dialects.graph.elementwise import NotOp
from ge.dialects.support.types import constant_ints, element_type
from ge.transforms.graph.control_flow import blocks_of, end_of, inline, replace_op
from ge.transforms.graph.share_common_subexpressions import Numbering
from ge.transforms.rewriting.counts import count


def take_known_branch(op: IfOp) -> bool:
    """The ops of the branch that is taken, when the condition is constant.

    %y = graph.if %true {                   %a = graph.exp %x
      %a = graph.exp %x          becomes    (%a in the place of %y)
      graph.yield %a
    } else { ... }
    """
    known = constant_ints(op.condition)
    if known is None:
        return False
    taken = op.then_region if known[0] else op.else_region
    replace_op(op, inline(taken.block, op, ()))
    count("take-known-branch")
    return True


def hoist_common_ops(op: IfOp) -> bool:
    """What both branches compute is computed before.

    %y = graph.if %c {                      %a = graph.exp %x
      %a = graph.exp %x                     %y = graph.if %c {
      graph.yield %a                          graph.yield %a
    } else {                    becomes     } else {
      %a = graph.exp %x                       %b = graph.neg %a
      %b = graph.neg %a                       graph.yield %b
      graph.yield %b                        }
    }
    """
    assert op.parent is not None
    blocks = blocks_of(op)
    kinds = [{type(o) for o in block.ops if o.regions} for block in blocks]
    numbering = Numbering()

    def numbered(block: Block) -> dict[Hashable, list[Operation]]:
        """The ops by what they compute from the values around the branches."""
        found: dict[Hashable, list[Operation]] = {}
        for inner in block.ops:
            if inner is block.last_op or (inner.regions and type(inner) not in in_both):
                continue
            found.setdefault(numbering.visit(inner), []).append(inner)
        return found

    in_both = kinds[0] & kinds[1]
    then, otherwise = (numbered(b) for b in blocks)
    common = [key for key in otherwise if key in then]
    for key in common:
        first, *same = (*then[key], *otherwise[key])
        first.detach()
        op.parent.insert_op_before(first, op)
        for other in same:  # all of them: what is hoisted next may use any
            replace_op(other, first.results)
    if common:
        count("hoist-common-ops", len(common), len(common))
    return bool(common)


def use_equal_values(op: IfOp) -> bool:
    """A result for which both branches yield one value is that value; one that is true where the
    condition holds and false elsewhere is the condition; two that are equal are one."""
    changed = False
    then, otherwise = (end_of(b).operands for b in blocks_of(op))
    first: dict[tuple[SSAValue, SSAValue], SSAValue] = {}
    for result, a, b in zip(op.results, then, otherwise, strict=True):
        if result.first_use is None:
            continue
        value: SSAValue = first.setdefault((a, b), result)
        if a is b:
            value = a
        elif value is result:
            value = _as_condition(op, a, b) or result
        if value is not result:
            result.replace_all_uses_with(value)
            count("use-equal-values")
            changed = True
    return changed


def _as_condition(op: IfOp, then: SSAValue, otherwise: SSAValue) -> SSAValue | None:
    """The condition, or its contrary, if this is what the branches yield."""
    if element_type(then) != i1 or not then.type == otherwise.type == op.condition.type:
        return None
    values = constant_ints(then), constant_ints(otherwise)
    if None in values:
        return None
    a, b = (bool(v[0]) for v in values if v is not None)
    if a == b:
        return None
    if a:
        return op.condition
    contrary = NotOp.of(op.condition, location=op.location)
    assert op.parent is not None
    op.parent.insert_op_before(contrary, op)
    return contrary.result
