"""ONNX's branches: If, and Optional*.

Branches on constants and optionals that are known are resolved at import; the rest becomes
graph.if. Of a branch that would fail in any run remains a graph.assert.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from onnx import GraphProto, helper
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Region, SSAValue

from ge.dialects.graph.control import AssertOp, IfOp, YieldOp
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.support.types import DYNAMIC, is_ranked, rank_of, shape_of
from ge.lowering.onnx.order import node_name
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op
from ge.lowering.onnx.scope import Failed, ImportProblem, Scope, Undecided
from ge.lowering.onnx.size_conditions import usual
from ge.lowering.onnx.values import Maybe, Value, described, flat, form_of, grouped

OPSET = 18  # the opset of nodes that this file makes itself


def apply(n: Node, scope: Scope, op_type: str, *inputs: Value, **attributes: Any) -> SSAValue:
    name = n.proto.name or n.proto.output[0]
    proto = helper.make_node(op_type, [""] * len(inputs), [name], name, **attributes)
    return cast(SSAValue, scope.call(proto, inputs, OPSET)[0])


def end(scope: Scope, values: Sequence[SSAValue]) -> Region:
    scope.block.add_op(YieldOp(*values))
    return Region(scope.block)


# ---- branches ----------------------------------------------------------------------------------

BRANCHES = ("then_branch", "else_branch")

OTHER_SIZES = (
    ", whose result has another number of dimensions: compile for the sizes that take it, "
    "with --dim or --shape"
)


@onnx_op("If")
def branch(n: Node) -> list[Value]:
    scope = cast(Scope, n.scope)
    condition = n.constant(0)
    if condition is not None:
        return scope.inline(n.subgraph("then_branch" if condition.any() else "else_branch"))
    start = scope.importer.mark()
    holds = n[0], None  # in each branch
    tried = [attempt(scope, n.subgraph(b), h) for b, h in zip(BRANCHES, holds, strict=True)]
    problems = [t.problems for t in tried]
    differ = not any(problems) and ranks_differ(tried)
    if differ:
        if scope.on_trial:
            raise Undecided
        problems = [problems_after(n, scope, t) for t in tried]
    for taken, other in ((0, 1), (1, 0)):
        if not problems[taken] and is_mismatch(problems[other]):
            scope.importer.reset(start)
            return asserted(n, scope, taken, failure(problems[other][0]))
    if any(t.problems for t in tried):
        scope.importer.problems.extend(p for t in tried for p in t.problems)
        raise Failed
    if differ and (is_usual := usual(n[0])) is not None:
        scope.importer.reset(start)
        return asserted(n, scope, 0 if is_usual else 1, OTHER_SIZES)
    return conditional(n, tried)


@dataclass
class Attempt:
    """A branch that is imported into a block of its own, and the problems that this met."""

    inner: Scope
    values: list[Value]
    problems: list[ImportProblem]


def attempt(scope: Scope, graph: GraphProto, holds: SSAValue | None) -> Attempt:
    inner, values = scope.child(), list[Value]()
    inner.holds = holds
    with scope.importer.trial() as problems, suppress(Failed):
        values = inner.import_graph(graph)
    return Attempt(inner, values, problems)


def is_mismatch(problems: Sequence[ImportProblem]) -> bool:
    """Whether there are problems, and all are of types that do not fit: it fails in any run."""
    return bool(problems) and all(p.is_mismatch for p in problems)


def ranks_differ(tried: Sequence[Attempt]) -> bool:
    pairs = zip(*(t.values for t in tried), strict=False)
    return not all(same_rank(a, b) for a, b in pairs)


def same_rank(a: Value, b: Value) -> bool:
    """Whether both have a rank and it is the same, or they are no tensors."""
    if not isinstance(a, SSAValue) or not isinstance(b, SSAValue):
        return True
    return is_ranked(a) and is_ranked(b) and rank_of(a) == rank_of(b)


def problems_after(n: Node, scope: Scope, tried: Attempt) -> list[ImportProblem]:
    """The problems that the nodes after the If have with the results of a branch: exporters write
    squeeze as an If, and what follows often takes one rank only. Looks as far as the next If
    whose branches differ in rank."""
    start = scope.importer.mark()
    after = scope.on_trial_with(dict(zip(n.proto.output, tried.values, strict=False)))
    with scope.importer.trial() as problems, suppress(Undecided):
        for node in scope.rest():
            after.import_node(node)
    scope.importer.reset(start)
    return problems


def conditional(n: Node, tried: Sequence[Attempt]) -> list[Value]:
    rows = [agreed(n, *pair) for pair in zip(*(t.values for t in tried), strict=True)]
    columns = list(zip(*rows, strict=True))
    regions = [end(t.inner, flat(v)) for t, v in zip(tried, columns, strict=True)]
    count = len(cast(YieldOp, regions[0].block.last_op).operands)
    op = n.build(IfOp, n[0], regions=regions, results=count)
    return grouped(op.results, columns[0])


def agreed(n: Node, first: Value, second: Value) -> tuple[Value, Value]:
    """What the two branches give, in one form: that of an optional, where one of them is empty.
    Raises Unsupported where there is none."""
    pair = first, second
    if form_of(first) != form_of(second) and any(v is None or isinstance(v, Maybe) for v in pair):
        tensors = [v.tensor if isinstance(v, Maybe) else v for v in pair]
        like = next((v for v in tensors if isinstance(v, SSAValue)), None)
        if like is not None:
            first, second = (maybe(n, v, like) for v in pair)
    if form_of(first) != form_of(second):
        forms = f"{described(first)} or {described(second)}"
        raise Unsupported(f"the branches give {forms}, and its condition is known only at run time")
    return first, second


def maybe(n: Node, value: Value, like: SSAValue) -> Value:
    """A value as an optional; in an empty one is a tensor of zeros of the type of `like`."""
    if isinstance(value, SSAValue):
        return Maybe(n.const(np.True_), value)
    if value is not None:
        return value
    dims = [0 if d == DYNAMIC else d for d in shape_of(like)]
    return Maybe(n.const(np.False_), n.emit(BroadcastToOp, n.like(0, like), shape=dims))


def failure(problem: ImportProblem) -> str:
    return f", with which {problem.op_type} {problem} fails: {problem.reason}"


def asserted(n: Node, scope: Scope, taken: int, why: str) -> list[Value]:
    """The values of the branch `taken`; a run in which it is not stops with an error."""
    condition = n[0] if taken == 0 else apply(n, scope, "Not", n[0])
    values = scope.inline(n.subgraph(BRANCHES[taken]))
    name, other = node_name(n.proto), BRANCHES[1 - taken].replace("_", " ")
    message = StringAttr(f"If '{name}' takes its {other}{why}")
    tensors = [n.emit(AssertOp, v, condition, message=message) for v in flat(values)]
    return grouped(tensors, values)


# ---- optionals ---------------------------------------------------------------------------------


@onnx_op("Optional")
def optional(n: Node) -> list[Value]:
    return [n.inputs[0] if n.inputs else None]


@onnx_op("OptionalHasElement")
def has_element(n: Node) -> SSAValue:
    value = n.inputs[0] if n.inputs else None
    return value.is_there if isinstance(value, Maybe) else n.const(np.array(value is not None))


@onnx_op("OptionalGetElement")
def get_element(n: Node) -> list[Value]:
    if not n.inputs or n.inputs[0] is None:
        raise Unsupported("the optional is empty")
    if not isinstance(value := n.inputs[0], Maybe):
        return [value]
    if cast(Scope, n.scope).is_known_to_hold(value.is_there):
        return [value.tensor]
    message = StringAttr(f"the optional of '{node_name(n.proto)}' is empty")
    return [n.emit(AssertOp, value.tensor, value.is_there, message=message)]
