"""What a missed chance costs, for remarks of rules that find ops again or are a user's own.

    graph.exp, graph.add, graph.log     nearly softplus: three launches instead of one

The ops that a rule had matched, or looked at, are taken as one launch and each as a launch of its
own, by the cost model of the function's target. That is the most that the rule could have saved:
what fusion makes of the ops later, without the rule, is not known yet. (Fusion rules know the
launches, and say what they compare, see `fusion/merging.py`.)
"""

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import target_for
from ge.runtime.costs.cost import launch_us
from ge.transforms.analysis.views import view_offsets
from ge.transforms.rewriting import remarks

MOST_OPS = 64
"""Ops that are looked at."""


def loss_us(ops: Iterable[Operation]) -> float | None:
    """Microseconds that one launch of the ops would save over a launch of each. None while nobody
    wants remarks, where a size is not known, and for ops that make no launch."""
    if not remarks.wanted():
        return None
    if not (members := in_order(ops)):
        return None
    target = target_for(_function(members))
    single = [Body.of(op) for op in members if view_offsets(op) is None]
    times = [launch_us(b, target) for b in (body_of(members), *single)] if single else [None]
    known = [t for t in times if t is not None]
    return max(sum(known[1:]) - known[0], 0.0) if len(known) == len(times) else None


def _function(ops: Sequence[Operation]) -> Operation:
    """The outermost op around the ops but for the module: it records its target."""
    op = ops[0]
    while (parent := op.parent_op()) is not None and parent.parent is not None:
        op = parent
    return op


def made_of(value: SSAValue, x: SSAValue) -> list[Operation]:
    """The ops, `MOST_OPS` at most, that make a value of x."""
    todo, found = [value], dict[Operation, None]()
    while todo and len(found) < MOST_OPS:
        v = todo.pop()
        if v is not x and isinstance(op := v.owner, Operation) and op not in found:
            found[op] = None
            todo += op.operands
    return list(found)


def in_order(ops: Iterable[Operation]) -> list[TensorOp]:
    """The ops that compute, each behind those that it uses."""
    todo = [op for op in ops if isinstance(op, TensorOp) and not isinstance(op, ConstantOp)]
    todo = [op for op in todo if not op.regions]
    inside = set[Operation](todo)
    found: dict[TensorOp, None] = {}
    while todo:
        op = todo[-1]
        owners = (v.owner for v in op.operands)
        before = [o for o in owners if isinstance(o, TensorOp) and o in inside and o not in found]
        if before:
            todo += before
        else:
            found[op] = None
            todo.pop()
    return list(found)


def body_of(members: list[TensorOp]) -> Body:
    """What the ops would be as one launch."""
    inside = set[Operation](members)
    inputs = dict.fromkeys(v for op in members for v in op.operands if v.owner not in inside)
    results = (r for op in members for r in op.results)
    outputs = [r for r in results if any(u.operation not in inside for u in r.uses)]
    return Body(members, list(inputs), outputs)
