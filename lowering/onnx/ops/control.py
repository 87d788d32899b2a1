"""ONNX's control flow: If, Loop, Scan, SequenceMap, Optional*.

Branches on constants, sequences (lists of tensors that exist during import only) and optionals are
resolved at import; the rest becomes graph.if and graph.loop. Of a branch that would fail in any run
remains a graph.assert.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from onnx import GraphProto, helper
from xdsl.dialects.builtin import StringAttr, UnrankedTensorType
from xdsl.ir import Attribute, Region, SSAValue

from ge.dialects.graph.control import CONDITION, ITERATION, AssertOp, IfOp, LoopOp, YieldOp, join
from ge.dialects.support.types import DYNAMIC, is_ranked, normalize_axis, rank_of, shape_of
from ge.lowering.onnx.order import node_name
from ge.lowering.onnx.registry import Node, Parts, Unsupported, Value, onnx_op
from ge.lowering.onnx.scope import Failed, ImportProblem, Scope, Undecided
from ge.lowering.onnx.size_conditions import usual

OPSET = 18  # the opset of nodes that this file makes itself

# Exporters say "no limit" with the largest int64; a trip count from here on is none
FOREVER = 1 << 40

MAX_UNROLLED = 1024  # most rounds of a loop that is written out at import

# Imports a loop's body into a scope; its arguments are the iteration number, the condition and
# the carried values, its results the next condition, the next carried values and scan slices
Body: TypeAlias = Callable[[Scope, Sequence[Value]], list[Value]]


def sizes(values: Sequence[Value]) -> list[int | None]:
    """How each value is made of tensors: None for one tensor, else the length of a sequence."""
    if any(v is None for v in values):
        raise Unsupported("an empty optional cannot pass control flow")
    if any(isinstance(v, Parts) for v in values):
        raise Unsupported("a sequence of a length known only at run time cannot pass control flow")
    return [len(v) if isinstance(v, tuple) else None for v in values]


def flat(values: Sequence[Value]) -> list[SSAValue]:
    return [t for v in values for t in (v if isinstance(v, tuple) else (cast(SSAValue, v),))]


def grouped(tensors: Sequence[SSAValue], form: Sequence[int | None]) -> list[Value]:
    """The reverse of `flat`; `form` comes from `sizes`."""
    rest = iter(tensors)
    return [next(rest) if size is None else tuple(next(rest) for _ in range(size)) for size in form]


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
    tried = [attempt(scope, n.subgraph(name)) for name in BRANCHES]
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


def attempt(scope: Scope, graph: GraphProto) -> Attempt:
    inner, values = scope.child(), list[Value]()
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
    forms = [sizes(t.values) for t in tried]
    if forms[0] != forms[1]:
        raise Unsupported("the branches give sequences of different lengths")
    regions = [end(t.inner, flat(t.values)) for t in tried]
    count = len(cast(YieldOp, regions[0].block.last_op).operands)
    return grouped(n.build(IfOp, n[0], regions=regions, results=count).results, forms[0])


def failure(problem: ImportProblem) -> str:
    return f", with which {problem.op_type} {problem} fails: {problem.reason}"


def asserted(n: Node, scope: Scope, taken: int, why: str) -> list[Value]:
    """The values of the branch `taken`; a run in which it is not stops with an error."""
    condition = n[0] if taken == 0 else apply(n, scope, "Not", n[0])
    values = scope.inline(n.subgraph(BRANCHES[taken]))
    name, other = node_name(n.proto), BRANCHES[1 - taken].replace("_", " ")
    message = StringAttr(f"If '{name}' takes its {other}{why}")
    tensors = [n.emit(AssertOp, v, condition, message=message) for v in flat(values)]
    return grouped(tensors, sizes(values))


# ---- loops -------------------------------------------------------------------------------------


@onnx_op("Loop")
def loop(n: Node) -> list[Value]:
    def body(scope: Scope, args: Sequence[Value]) -> list[Value]:
        return scope.import_graph(n.subgraph("body"), args)

    trip, condition = n.get(0), n.get(1)
    trips, start = n.constant(0), n.constant(1)
    if trips is not None and trips.size == 1 and trips.item() >= FOREVER:
        trip = None
    if start is not None and start.all():
        condition = None
    carried = n.inputs[2:]
    known = trips is not None and trip is not None
    count = int(cast(np.ndarray, trips).item()) if known else None

    def rounds(what: str) -> list[Value]:
        first = start if condition is not None else np.True_
        return unroll(n, count, first, carried, body, what)

    if any(not isinstance(v, SSAValue) for v in carried):
        return rounds("it carries a sequence")
    tensors, counted = cast(Sequence[SSAValue], carried), known or trip is None
    return make_loop(n, trip, condition, tensors, body, rounds if counted else None)


def make_loop(
    n: Node,
    trip: SSAValue | None,
    condition: SSAValue | None,
    carried: Sequence[SSAValue],
    body: Body,
    rounds: Callable[[str], list[Value]] | None = None,
) -> list[Value]:
    """A graph.loop. Its body is imported again with `?` for each dimension that turns out to
    change from round to round, until the types of the carried values hold. Where their ranks do,
    no type of a loop says what its body needs: `rounds` writes it out, if how often it runs may be
    known."""
    scope = cast(Scope, n.scope)
    types: list[Attribute] = [v.type for v in carried]
    while True:
        start = scope.importer.mark()
        inner = scope.child([ITERATION, CONDITION, *types])
        inner.round_number = inner.block.args[0]
        values = body(inner, inner.block.args)
        tensors = flat(values)
        if len(tensors) != len(values) or len(values) < 1 + len(carried):
            raise Unsupported("the body must give a condition, the carried values and tensors")
        after = [
            join(t, v.type, f"carried value {i}")
            for i, (t, v) in enumerate(zip(types, tensors[1:], strict=False))
        ]
        if after == types:
            break
        before = [isinstance(t, UnrankedTensorType) for t in types]
        types = after
        inner.block.erase(safe_erase=False)
        scope.importer.reset(start)
        if rounds is not None and before != [isinstance(t, UnrankedTensorType) for t in types]:
            last = scope.block.last_op
            try:
                return rounds("how many dimensions a value has changes from round to round")
            except Unsupported:
                if trip is not None:
                    raise
                # its condition is known at run time only: a loop may do without ranks
                while (op := scope.block.last_op) is not last and op is not None:
                    op.detach()
                    op.erase(safe_erase=False)
                scope.importer.reset(start)
    region = end(inner, tensors)
    results = len(tensors) - 1
    op = n.build(LoopOp, trip, condition, carried, regions=[region], results=results)
    return list(op.results)


def unroll(
    n: Node,
    count: int | None,
    condition: np.ndarray | np.bool_ | None,
    carried: Sequence[Value],
    body: Body,
    what: str,
) -> list[Value]:
    """The rounds one after another, for a loop that carries `what` a graph.loop does not, such as
    sequences or optionals: these are known at import only, and so must the number of rounds be."""
    scope = cast(Scope, n.scope)
    values = list(carried)
    scans: list[list[SSAValue]] = []
    rounds = 0
    while condition is not None and condition.all() and (count is None or rounds < count):
        if rounds == MAX_UNROLLED:
            raise Unsupported(f"{what} for more than {MAX_UNROLLED} rounds")
        inner = Scope(scope.importer, scope.block, scope.opsets, scope)
        outputs = body(inner, [n.const(np.int64(rounds)), n.const(np.True_), *values])
        values = outputs[1 : 1 + len(carried)]
        scans.append(flat(outputs[1 + len(carried) :]))
        condition = scope.known(flat(outputs[:1])[0])
        rounds += 1
    if condition is None:
        raise Unsupported(f"{what}, but how often it runs is not known at import")
    if not scans and len(n.proto.output) > len(carried):
        raise Unsupported("it runs zero times, so that the shapes of its scan outputs are unknown")
    return [*values, *(stack(n, scope, list(s)) for s in zip(*scans, strict=True))]


def stack(n: Node, scope: Scope, slices: Sequence[SSAValue], axis: int = 0) -> SSAValue:
    axes = n.const(np.array([axis]))
    return apply(
        n, scope, "Concat", *(apply(n, scope, "Unsqueeze", s, axes) for s in slices), axis=axis
    )


# ---- Scan --------------------------------------------------------------------------------------


@onnx_op("Scan")
def scan(n: Node) -> list[Value]:
    if n.opset < 9:
        return batched_scan(n)
    count = n.int("num_scan_inputs")
    inputs = n.tensors()
    states, sequences = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    return make_scan(n, states, sequences, n.ints("scan_input_directions", [0] * count))


def make_scan(
    n: Node, states: Sequence[SSAValue], sequences: Sequence[SSAValue], reverse: Sequence[int]
) -> list[Value]:
    if not sequences:
        raise Unsupported("it has nothing to scan")
    scope = cast(Scope, n.scope)
    ranks = [len(shape_of(s)) for s in sequences]
    scan_axes = n.ints("scan_input_axes", [0] * len(sequences))
    axes = [normalize_axis(a, r) for a, r in zip(scan_axes, ranks, strict=True)]
    rounds = length(n, scope, sequences[0], axes[0])
    last = apply(n, scope, "Sub", rounds, n.const(np.int64(1))) if any(reverse) else rounds

    def body(inner: Scope, args: Sequence[Value]) -> list[Value]:
        iteration, going, *rest = args
        slices: list[Value] = []
        for sequence, axis, backward in zip(sequences, axes, reverse, strict=True):
            index = apply(n, inner, "Sub", last, iteration) if backward else iteration
            slices.append(apply(n, inner, "Gather", sequence, index, axis=axis))
        return [going, *inner.import_graph(n.subgraph("body"), [*rest, *slices])]

    results = make_loop(n, rounds, None, states, body)
    count = len(results) - len(states)
    out_axes = n.ints("scan_output_axes", [0] * count)
    out_reverse = n.ints("scan_output_directions", [0] * count)
    scans = [
        placed(n, scope, cast(SSAValue, v), axis, bool(backward))
        for v, axis, backward in zip(results[len(states) :], out_axes, out_reverse, strict=True)
    ]
    return [*results[: len(states)], *scans]


def length(n: Node, scope: Scope, value: SSAValue, axis: int) -> SSAValue:
    size = shape_of(value)[axis]
    if size != DYNAMIC:
        return n.const(np.int64(size))
    shape = apply(n, scope, "Shape", value)
    return apply(n, scope, "Gather", shape, n.const(np.int64(axis)), axis=0)


def placed(n: Node, scope: Scope, value: SSAValue, axis: int, backward: bool) -> SSAValue:
    """A scan result (stacked along axis 0) in the order and along the axis that are asked for."""
    if backward:
        limits = [n.const(np.array([v])) for v in (-1, np.iinfo(np.int64).min, 0, -1)]
        value = apply(n, scope, "Slice", value, *limits)
    rank = len(shape_of(value))
    axis = normalize_axis(axis, rank)
    if axis == 0:
        return value
    order = list(range(1, rank))
    order.insert(axis, 0)
    return apply(n, scope, "Transpose", value, perm=order)


def batched_scan(n: Node) -> list[Value]:
    """Scan of opset 8, in which everything has a batch dimension first: one scan each."""
    scope = cast(Scope, n.scope)
    if n.get(0) is not None:
        raise Unsupported("sequence lengths are not supported")
    count = n.int("num_scan_inputs")
    inputs = n.tensors(1)
    batch = shape_of(inputs[0])[0] if shape_of(inputs[0]) else DYNAMIC
    if not 0 < batch <= MAX_UNROLLED:
        raise Unsupported("Scan of opset 8 needs a batch dimension that is known")
    rounds: list[list[SSAValue]] = []
    for i in range(batch):
        own = [apply(n, scope, "Gather", v, n.const(np.int64(i)), axis=0) for v in inputs]
        split = len(own) - count
        values = make_scan(n, own[:split], own[split:], n.ints("directions", [0] * count))
        rounds.append(flat(values))
    return [stack(n, scope, members) for members in zip(*rounds, strict=True)]


# ---- sequences and optionals -------------------------------------------------------------------


@onnx_op("SequenceMap")
def sequence_map(n: Node) -> list[Value]:
    scope = cast(Scope, n.scope)
    if isinstance(n.inputs[0], Parts):
        return mapped(n, scope, n.inputs[0])
    first = n.sequence(0)
    results: list[list[Value]] = []
    for i in range(len(first)):
        members: list[Value] = []
        for value in n.inputs:
            if isinstance(value, tuple) and len(value) != len(first):
                raise Unsupported(f"sequences of {len(first)} and {len(value)} members")
            members.append(value[i] if isinstance(value, tuple) else value)
        results.append(scope.inline(n.subgraph("body"), members))
    if not results:
        return [() for _ in n.proto.output]
    return [tuple(flat(column)) for column in zip(*results, strict=True)]


def mapped(n: Node, scope: Scope, first: Parts) -> list[Value]:
    """The body for each part, in a loop, of which the results are stacked."""

    def body(inner: Scope, args: Sequence[Value]) -> list[Value]:
        own = [member(n, inner, v, args[0]) if isinstance(v, Parts) else v for v in n.inputs]
        return [args[1], *inner.import_graph(n.subgraph("body"), own)]

    def member(n: Node, inner: Scope, sequence: Parts, place: Value) -> Value:
        proto = helper.make_node("SequenceAt", ["", ""], ["member"])
        return inner.call(proto, [sequence, place], OPSET)[0]

    rounds = cast(SSAValue, scope.call(helper.make_node("SequenceLength", [""], [""]), [first])[0])
    stacked = make_loop(n, rounds, None, (), body)
    return [Parts(cast(SSAValue, v), 0, 1, keeps_axis=False) for v in stacked]


@onnx_op("Optional")
def optional(n: Node) -> list[Value]:
    return [n.inputs[0] if n.inputs else None]


@onnx_op("OptionalHasElement")
def has_element(n: Node) -> SSAValue:
    return n.const(np.array(bool(n.inputs) and n.inputs[0] is not None))


@onnx_op("OptionalGetElement")
def get_element(n: Node) -> list[Value]:
    if not n.inputs or n.inputs[0] is None:
        raise Unsupported("the optional is empty")
    return [n.inputs[0]]
