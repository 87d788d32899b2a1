"""ONNX's branches and loops: If and Optional*; Loop, Scan and SequenceMap.

Branches on constants and optionals that are known are resolved at import; the rest becomes
graph.if. Of a branch that would fail in any run remains a graph.assert.

A loop becomes a graph.loop, or its rounds one after another where these are known at import and a
graph.loop cannot carry what they do: values that gain dimensions, sequences that change in length.
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
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    is_ranked,
    normalize_axis,
    rank_of,
    shape_of,
)
from ge.lowering.onnx.model import node_name
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op
from ge.lowering.onnx.scope import Failed, ImportProblem, Scope, Undecided
from ge.lowering.onnx.values import (
    Growing,
    Maybe,
    SequenceParts,
    Value,
    described,
    flat,
    form_of,
    grouped,
    rebuilt,
    tensors_of,
    usual,
)
from ge.runtime.data.arrays import dtype_of

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
    """Return whether there are problems, and all are of types that do not fit: it fails in any
    run."""
    return bool(problems) and all(p.is_mismatch for p in problems)


def ranks_differ(tried: Sequence[Attempt]) -> bool:
    pairs = zip(*(t.values for t in tried), strict=False)
    return not all(same_rank(a, b) for a, b in pairs)


def same_rank(a: Value, b: Value) -> bool:
    """Return whether both have a rank and it is the same, or they are no tensors."""
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
    """Return the values of two branches in one form: that of an optional, if one of them is empty.
    Raises Unsupported if there is no common form."""
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


# Exporters say "no limit" with the largest int64; a trip count from here on is none
FOREVER = 1 << 40

MAX_UNROLLED = 1024  # most rounds of a loop that is written out at import

# Imports a loop's body into a scope; its arguments are the iteration number, the condition and
# the carried values, its results the next condition, the next carried values and scan slices
Body: TypeAlias = Callable[[Scope, Sequence[Value]], list[Value]]


# ---- Loop --------------------------------------------------------------------------------------


@onnx_op("Loop")
def loop(n: Node) -> list[Value]:
    def body(scope: Scope, args: Sequence[Value]) -> list[Value]:
        return scope.import_graph(n.subgraph("body"), args)

    trip, condition = n.get(0), n.get(1)
    trips, start = n.constant(0), n.constant(1)
    if trips is not None and trips.size == 1 and trips.item() >= FOREVER:
        trip = trips = None
    if start is not None and start.all():
        condition = None
    carried = n.inputs[2:]
    count = None if trips is None else int(trips.item())
    if start is not None and not start.all():
        count = 0

    def rounds(what: str) -> list[Value]:
        first = start if condition is not None else np.True_
        return unroll(n, count, first, carried, body, what)

    is_counted = count is not None or trip is None
    if is_counted and any(not isinstance(v, SSAValue) for v in carried):
        written = tried(cast(Scope, n.scope), lambda: rounds("it carries a sequence"))
        if isinstance(written, list):
            return written
    return make_loop(n, trip, condition, carried, body, rounds if is_counted else None)


def tried(scope: Scope, attempt: Callable[[], list[Value]]) -> list[Value] | Unsupported:
    """Return the result of an attempt; if it is Unsupported, return that error and remove all ops
    of the attempt."""
    start, last = scope.importer.mark(), scope.block.last_op
    try:
        return attempt()
    except Unsupported as e:
        while (op := scope.block.last_op) is not last and op is not None:
            op.detach()
            op.erase(safe_erase=False)
        scope.importer.reset(start)
        return e


@dataclass
class LoopBody:
    """The body of a loop, imported for values of these types.

    `carried` are the values before the first round, `growing` the places of those that are
    sequences to which each round appends: their new tensors leave the loop as scan results."""

    carried: Sequence[Value]
    types: Sequence[Attribute]
    growing: frozenset[int]
    inner: Scope
    values: Sequence[Value] = ()  # that the body yields

    def arguments(self) -> list[Value]:
        iteration, condition, *tensors = self.inner.block.args
        rest = iter(tensors)
        own = [
            Growing(self.inner.block, i) if i in self.growing else rebuilt(v, rest)
            for i, v in enumerate(self.carried)
        ]
        return [iteration, condition, *own]

    @property
    def after(self) -> Sequence[Value]:
        """The carried values after the round."""
        return self.values[1 : 1 + len(self.carried)]

    def grown(self) -> frozenset[int]:
        """Return the places of sequences that turn out to change in length."""
        return self.growing | {
            i
            for i, (a, b) in enumerate(zip(self.carried, self.after, strict=False))
            if isinstance(a, tuple) and form_of(a) != form_of(b) and i not in self.growing
        }

    def kept(self) -> list[SSAValue]:
        """The tensors of the other values after the round. Raises Unsupported where a value has
        another form than before it."""
        tensors: list[SSAValue] = []
        for i, (a, b) in enumerate(zip(self.carried, self.after, strict=True)):
            if i in self.growing:
                continue
            if form_of(a) != form_of(b):
                raise Unsupported(
                    f"carried value {i} is {described(a)} before a round and {described(b)} after"
                )
            tensors.extend(tensors_of(b))
        return tensors

    def appended(self, n: Node) -> list[SSAValue]:
        """Return what the round appends to each sequence that grows, along a new first dimension.
        Raises Unsupported if a sequence is not its former value with tensors behind it."""
        found: list[SSAValue] = []
        for i in sorted(self.growing):
            value = self.after[i]
            if not isinstance(value, Growing) or (value.body, value.place) != (self.inner.block, i):
                raise Unsupported(
                    f"sequence {i} changes in length from round to round, and how many there are "
                    "is known only at run time: the loop can append to its end, and nothing else"
                )
            found.append(stack(n, self.inner, value.added))
        return found


def make_loop(
    n: Node,
    trip: SSAValue | None,
    condition: SSAValue | None,
    carried: Sequence[Value],
    body: Body,
    rounds: Callable[[str], list[Value]] | None = None,
) -> list[Value]:
    """A graph.loop. Its body is imported again with `?` for each dimension that turns out to
    change from round to round, and without sequences that turn out to grow, until the types of the
    carried values hold. Where their ranks change, no type of a loop says what its body needs:
    `rounds` writes it out, if how often it runs may be known."""
    scope = cast(Scope, n.scope)
    types: list[Attribute] = [v.type for v in flat(carried)]
    growing: frozenset[int] = frozenset()
    while True:
        start = scope.importer.mark()
        inner = scope.child([ITERATION, CONDITION, *types])
        inner.round_number = inner.block.args[0]
        inner.rounds = condition if trip is None else trip
        this = LoopBody(carried, types, growing, inner)
        this.values = body(inner, this.arguments())
        if len(this.values) < 1 + len(carried):
            raise Unsupported("the body must give a condition and the carried values")
        if (more := this.grown()) != growing:
            growing = more
            after = [v.type for i, c in enumerate(carried) if i not in more for v in tensors_of(c)]
        else:
            pairs = zip(types, this.kept(), strict=True)
            after = [join(t, v.type, f"carried value {i}") for i, (t, v) in enumerate(pairs)]
            if after == types:
                return finished(n, trip, condition, this)
        lost = sum(map(is_unranked, after)) > sum(map(is_unranked, types))
        types = after
        inner.block.erase(safe_erase=False)
        scope.importer.reset(start)
        if rounds is not None and lost:
            what = "how many dimensions a value has changes from round to round"
            written = tried(scope, lambda what=what: rounds(what))
            if isinstance(written, list):
                return written
            if trip is not None:  # else its condition is known at run time only: a loop may do
                raise written


def is_unranked(t: Attribute) -> bool:
    return isinstance(t, UnrankedTensorType)


def finished(
    n: Node, trip: SSAValue | None, condition: SSAValue | None, last: LoopBody
) -> list[Value]:
    """The loop of a body whose types hold, and its results."""
    carried, growing = last.carried, last.growing
    scans, appended = flat(last.values[1 + len(carried) :]), last.appended(n)
    tensors = [*tensors_of(last.values[0]), *last.kept(), *scans, *appended]
    region = end(last.inner, tensors)
    kept = flat(v for i, v in enumerate(carried) if i not in growing)
    op = n.build(LoopOp, trip, condition, kept, regions=[region], results=len(tensors) - 1)
    own, rest = iter(op.results[: len(kept)]), iter(op.results[len(kept) + len(scans) :])
    values = [
        sequence_of(n, carried[i], next(rest)) if i in growing else rebuilt(v, own)
        for i, v in enumerate(carried)
    ]
    return [*values, *op.results[len(kept) : len(kept) + len(scans)]]


def sequence_of(n: Node, before: Value, added: SSAValue) -> SequenceParts:
    """A sequence with the tensors behind it that the rounds have appended; the first dimensions of
    `added` are the rounds, and the tensors of each."""
    scope = cast(Scope, n.scope)
    shape = apply(n, scope, "Shape", added, start=2)
    shape = apply(n, scope, "Concat", n.const(np.array([-1])), shape, axis=0)
    whole = apply(n, scope, "Reshape", added, shape)
    if flat([before]):
        whole = apply(n, scope, "Concat", stack(n, scope, flat([before])), whole, axis=0)
    return SequenceParts(whole, 0, 1, keeps_axis=False)


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
        return [*values, *empty_scans(n, carried, body)]
    return [*values, *(stack(n, scope, list(s)) for s in zip(*scans, strict=True))]


def empty_scans(n: Node, carried: Sequence[Value], body: Body) -> list[Value]:
    """The scan results of no rounds: of the shape that slices of a first one would have, 0 where
    that is known only when it runs."""
    scope = cast(Scope, n.scope)
    start, inner = scope.importer.mark(), scope.child()
    outputs: list[Value] = []
    with scope.importer.trial(), suppress(Failed):
        outputs = body(inner, [n.const(np.int64(0)), n.const(np.True_), *carried])
    types = [v.type for v in flat(outputs[1 + len(carried) :])]
    inner.block.erase(safe_erase=False)
    scope.importer.reset(start)
    if len(types) != len(n.proto.output) - len(carried) or any(map(is_unranked, types)):
        raise Unsupported("it runs zero times, so that the shapes of its scan outputs are unknown")
    found = [(t.get_shape(), dtype_of(t.element_type)) for t in cast(Sequence[AnyTensor], types)]
    return [n.const(np.zeros((0, *(max(d, 0) for d in shape)), dtype)) for shape, dtype in found]


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


# ---- SequenceMap -------------------------------------------------------------------------------


@onnx_op("SequenceMap")
def sequence_map(n: Node) -> list[Value]:
    scope = cast(Scope, n.scope)
    if isinstance(n.inputs[0], SequenceParts):
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


def mapped(n: Node, scope: Scope, first: SequenceParts) -> list[Value]:
    """Run the body for each part, in a loop whose results are stacked."""

    def body(inner: Scope, args: Sequence[Value]) -> list[Value]:
        own = [
            member(n, inner, v, args[0]) if isinstance(v, SequenceParts) else v for v in n.inputs
        ]
        return [args[1], *inner.import_graph(n.subgraph("body"), own)]

    def member(n: Node, inner: Scope, sequence: SequenceParts, place: Value) -> Value:
        proto = helper.make_node("SequenceAt", ["", ""], ["member"])
        return inner.call(proto, [sequence, place], OPSET)[0]

    rounds = cast(SSAValue, scope.call(helper.make_node("SequenceLength", [""], [""]), [first])[0])
    stacked = make_loop(n, rounds, None, (), body)
    return [SequenceParts(cast(SSAValue, v), 0, 1, keeps_axis=False) for v in stacked]
