"""What a chance costs that is missed, and saves that is taken, for remarks of the rules that find
composites and of user rules.

    graph.exp, graph.add, graph.log     nearly softplus: three launches instead of one

The loss is the time of one launch for each op less that of one launch for all of them, by the cost
model of the function's target: an upper bound, as fusion may join the ops without the rule. (Fusion
rules know the launches, and compare those, see `fusion/merging.py`.)
"""

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import target_for
from ge.runtime.library.asking import launch_us
from ge.transforms.analysis.views import view_offsets
from ge.transforms.rewriting import remarks

MOST_OPS = 64  # that `made_of` returns


def loss_us(ops: Iterable[Operation]) -> float | None:
    """Microseconds that one launch of the ops saves over a launch of each; None if no remarks are
    wanted, if a size is not known, and for ops that need no launch."""
    if not remarks.wanted():
        return None
    if not (members := in_order(ops)):
        return None
    target = target_for(_function(members[0]))
    single = [Body.of(op) for op in members if view_offsets(op) is None]
    times = [launch_us(b, target) for b in (body_of(members), *single)] if single else [None]
    known = [t for t in times if t is not None]
    return max(sum(known[1:]) - known[0], 0.0) if len(known) == len(times) else None


def gain_us(new: Iterable[Operation], old: Iterable[Operation]) -> float | None:
    """Microseconds that launches of the new ops take less than launches of the old ones, one for
    each op, on the target of the function that the old ones are in; None if a size is not known."""
    members = in_order(old)
    if not members:
        return None
    target = target_for(_function(members[0]))
    launches = [[op for op in ops if view_offsets(op) is None] for ops in (in_order(new), members)]
    times = [[launch_us(Body.of(op), target) for op in ops] for ops in launches]
    known = [[t for t in some if t is not None] for some in times]
    return sum(known[1]) - sum(known[0]) if known == times else None


def _function(op: Operation) -> Operation:
    """The outermost op around an op but for the module: it records its target."""
    while (parent := op.parent_op()) is not None and parent.parent is not None:
        op = parent
    return op


def made_of(value: SSAValue, x: SSAValue) -> list[Operation]:
    """The ops, `MOST_OPS` at most, between x and a value computed from it."""
    todo, ops = [value], dict[Operation, None]()
    while todo and len(ops) < MOST_OPS:
        v = todo.pop()
        if v is not x and isinstance(op := v.owner, Operation) and op not in ops:
            ops[op] = None
            todo += op.operands
    return list(ops)


def in_order(ops: Iterable[Operation]) -> list[TensorOp]:
    """The ops that compute, definitions before users."""
    todo = [
        op for op in ops
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp) and not op.regions
    ]  # fmt: skip
    inside = set[Operation](todo)
    ordered: dict[TensorOp, None] = {}
    while todo:
        op = todo[-1]
        owners = (v.owner for v in op.operands)
        before = [o for o in owners if isinstance(o, TensorOp) and o in inside and o not in ordered]
        if before:
            todo += before
        else:
            ordered[op] = None
            todo.pop()
    return list(ordered)


def body_of(members: Sequence[TensorOp]) -> Body:
    inside = set[Operation](members)
    inputs = dict.fromkeys(v for op in members for v in op.operands if v.owner not in inside)
    results = (r for op in members for r in op.results)
    outputs = [r for r in results if any(u.operation not in inside for u in r.uses)]
    return Body(list(members), list(inputs), outputs)
