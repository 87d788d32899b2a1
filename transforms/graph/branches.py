"""Rules for `graph.if` and `graph.case`, a function each; all of them keep every bit."""

from collections.abc import Hashable, Mapping, Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.control import Branching, IfOp, branch_of
from ge.dialects.graph.elementwise import NotOp
from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.types import constant_ints, element_type, number_of
from ge.transforms.graph.control_flow import end_of, inline, insert_before, move_before, replace_op
from ge.transforms.graph.share_common_subexpressions import Numbering
from ge.transforms.rewriting.counts import count


def take_known_branch(op: Branching) -> bool:
    """Inline the branch that is taken, if the condition, or index, is constant; whether it was.

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
        """The ops by what they compute from the values around the branches, of those that all
        branches `before` have."""
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
    """What ops have in common, at least, that compute the same."""
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
        elif value is result and isinstance(op, IfOp):
            value = _as_condition(op, *values) or result
        if value is not result:
            result.replace_all_uses_with(value)
            count("use-equal-values")


def _as_condition(op: IfOp, then: SSAValue, otherwise: SSAValue) -> SSAValue | None:
    """The condition or its negation, if the branches yield that."""
    if element_type(then) != i1 or not then.type == otherwise.type == op.condition.type:
        return None
    values = constant_ints(then), constant_ints(otherwise)
    if None in values:
        return None
    a, b = (bool(v[0]) for v in values if v is not None)
    if a == b:
        return None
    return op.condition if a else insert_before(op, NotOp.of(op.condition)).result
