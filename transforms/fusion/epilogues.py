"""Work of the vector unit on the tiles of a matmul, or a convolution, in its launch: epilogues of
its results, and operands on their way to it.

A tile of the result leaves L0C through UB, where the vector unit can work on it before it is
stored. Ops that need only the tile, and elements of other values at the same positions, therefore
need no launch and no memory traffic of their own:

- elementwise ops, with constants or with other values (a residual), also on several matmuls of the
  launch (a gated pair);
- views, and data movement that is a store to other addresses (heads split off, transposed,
  sliced, padded, concatenated);
- ops on whole rows, where the row fits on the core.

Ops join one by one in program order; those at the end come apart again where that takes less time
(`Merger.fastest`). Where an op could also join its user on the vector unit (a residual sum before a
norm, a cast whose input is needed as well), the times of both decide. A sum of two
matmuls joins the one that more matmuls precede: the other one need not wait for these, and may run
beside them.

Operands are made in the launch that multiplies them:

    %w = graph.dequantize %q, %s axis 1
    %y = graph.matmul %x, %w
becomes
    %y = fused_op.linear(%x, %q, %s) { graph.dequantize, graph.matmul }

so that memory holds, and the core loads, the integers of the weight, and of a table that is added
to the result. A weight of several users is dequantized in each of them. An input of the model, or
the result of a branch or loop, is quantized in the launch of its only user, and rounded to 16 bits
in the launches of all products that use it. Any other value is quantized or rounded in the
launch that defines it.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects import graph
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.control import Control
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import is_float, is_narrow
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type, is_static, shape_of
from ge.runtime.library.asking import launch_us
from ge.transforms.analysis.views import whole_of
from ge.transforms.fusion.groups import (
    Group,
    Groups,
    access,
    can_join,
    is_vector_op,
    is_view,
    size_of,
)
from ge.transforms.fusion.merging import Merger, Missed, is_weight
from ge.transforms.fusion.regions import mismatch
from ge.transforms.graph.prepare_weights import WEIGHTED
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count, declare, is_enabled

LEAST_GAIN_US = 0.05  # a smaller difference does not count

MOST_USERS = 16  # users of a value that are looked at: of more, one stays apart anyhow

FUSE_ACTIVATION = declare("fuse-activation", "a function of the matmul alone joins its launch")

FUSE_BIAS = declare("fuse-bias", "the matmul plus, or times, a constant or a shorter value")

FUSE_RESIDUAL = declare("fuse-residual", "the matmul plus, or times, a value as large as it")

FUSE_GATE = declare("fuse-gate", "two matmuls of a launch, or parts of one, go into one result")

FUSE_STORE = declare("fuse-store", "views and data movement become how the matmul is stored")

EPILOGUE = (FUSE_ACTIVATION, FUSE_BIAS, FUSE_RESIDUAL, FUSE_GATE, FUSE_STORE)

# The rule by which an op would join a launch, and why it cannot: None when it can, "" when it is
# of another kind altogether.
Verdict = tuple[str, str | None]

Judge = Callable[[TensorOp, Group, Merger], Verdict]


def grow(merger: Merger, group: Group, judge: Judge) -> None:
    """Let the users of a group's results join it, and their users in turn."""
    groups = merger.groups
    visited: set[Operation] = set()
    heap: list[tuple[int, int, Operation]] = []

    def push_users(ops: list[Operation]) -> None:
        for op in ops:
            for result in op.results:
                for use in result.uses:
                    user = use.operation
                    if user in groups.number and user not in visited:
                        visited.add(user)
                        heappush(heap, (groups.number[user], len(visited), user))

    push_users(group.ops)
    while heap:
        user = heappop(heap)[2]
        other = groups.of(user)
        if other is group or other.kind is not None or not can_join(user):
            continue
        assert isinstance(user, TensorOp)
        rule, why = judge(user, group, merger)
        if why is not None:
            if why:
                merger.missed(rule, user, Missed(why, merger.worth_us(group, other)))
        elif not is_enabled(rule):
            continue
        elif rule == FUSE_RESIDUAL and comes_sooner(merger, group, user):
            merger.missed(rule, user, Missed("the other operand is computed later", 0.0))
        elif (rival := better_user(merger, group, user, judge)) is not None:
            op, gain = rival
            merger.missed(rule, user, Missed(f"with {op.name} it saves {gain:.1f} us more", 0.0))
        elif merger.join(group, other, rule):
            push_users([user])


def comes_sooner(merger: Merger, group: Group, op: TensorOp) -> bool:
    """Return whether another operand of an op comes from a matmul that more matmuls precede than
    those of the group, and that does not use them."""
    groups, depths = merger.groups, merger.depths
    if not groups.can_merge(group, groups.of(op)):
        return False
    own = max(depths[o] for o in group.ops)
    others = (v for v in op.operands if groups.producer(v) is not group)
    return any(depths.get(v.owner, 0) > own and _is_of_matmul(groups, v) for v in others)


def _is_of_matmul(groups: Groups, value: SSAValue) -> bool:
    """Return whether a value is computed by a matmul without a launch, through ops that can join
    it."""
    for _ in range(MOST_USERS):
        op = groups.defining(value)
        if not isinstance(op, TensorOp) or groups.of(op).kind is not None or len(op.results) > 1:
            return False
        if op.IS_MATMUL or isinstance(op, graph.Convolution):
            return True
        joins = access(op) in (Access.POINTWISE, Access.VIEW) and can_join(op)
        if not joins or not op.results[0].has_one_use():
            return False
        value = op.operands[0]
    return False


def better_user(
    merger: Merger, group: Group, op: TensorOp, judge: Judge
) -> tuple[Operation, float] | None:
    """The user of `op` on the vector unit that it should join instead, and the time saved, or at
    least that where nobody listens to remarks; None when it had better join the group. What a
    launch of the group and the op takes is asked for only if its lower bound does not decide."""
    groups = merger.groups
    uses = islice((u for r in op.results for u in r.uses), MOST_USERS)
    users = [u.operation for u in uses if u.operation in groups.number]
    users = [u for u in users if is_vector_op(u) and groups.of(u).kind is None]
    if not users or access(op) is Access.VIEW:
        return None
    sources = [v for v in op.operands if groups.producer(v) is group]
    uses = list(islice((u for v in sources for u in v.uses), MOST_USERS + 1))
    others = {u.operation for u in uses} - {*group.ops, op}
    stays = len(uses) > MOST_USERS or any(
        not _could_join(merger, group, o, judge) for o in others
    )  # the group's value is stored anyway
    first = min(users, key=groups.number.__getitem__)
    own, last = groups.of(op), groups.of(first)
    if not (stays or access(first) is Access.ROWS) or is_view(first) or last is group:
        return None
    assert isinstance(first, TensorOp)
    if judge(first, group, merger)[1] is None or mismatch(merger.body((own, last))) is not None:
        return None
    if (alone := merger.sum_us([group])) is None:
        return None
    joined = None if remarks.wanted() else merger.at_least_us([group, own])
    if joined is None or joined - alone < LEAST_GAIN_US:
        joined = merger.sum_us([group, own])
        if joined is None or joined - alone < LEAST_GAIN_US:
            return None  # the other launch takes no less time with it than without
    apart, longer = merger.sum_us([last]), merger.sum_us([own, last])
    if apart is None or longer is None:
        return None
    if joined + apart - alone - longer < LEAST_GAIN_US:
        joined = merger.sum_us([group, own])  # it may have been a bound
    if joined is None or (gain := joined + apart - alone - longer) < LEAST_GAIN_US:
        return None
    return first, gain


def _could_join(merger: Merger, group: Group, op: Operation, judge: Judge) -> bool:
    groups = merger.groups
    return (
        op in groups.number
        and can_join(op)
        and isinstance(op, TensorOp)
        and judge(op, group, merger)[1] is None
        and groups.can_merge(group, groups.of(op))
    )


def judge_epilogue(op: TensorOp, group: Group, merger: Merger) -> Verdict:
    """Return the rule by which `op` joins the epilogue of a matmul, or why it cannot."""
    sources = [v for v in op.operands if merger.groups.producer(v) is group]
    kind = access(op)
    if kind is Access.VIEW:
        return FUSE_STORE, None
    if kind is Access.MOVEMENT:
        return FUSE_STORE, moves_too_much(op, sources)
    if kind is not Access.POINTWISE:
        return FUSE_ACTIVATION, ""
    if are_turned(sources, group):
        return rule_of(op, sources), "the convolution ends with a transposition"
    return rule_of(op, sources), not_on_a_tile(op, sources)


def are_turned(sources: list[SSAValue], group: Group) -> bool:
    """Return whether values are sums of a convolution that leave the cube in another order: no
    program has ops behind that. (Vector cores have channels last all the time, where each is one of
    its own.)"""
    turns = any(isinstance(whole_of(v).owner, graph.TransposeOp) for v in sources)
    return turns and any(isinstance(o, graph.Convolution) and o.groups == 1 for o in group.ops)


def rule_of(op: TensorOp, sources: list[SSAValue]) -> str:
    """The rule by which an elementwise op on values of the launch, `sources`, joins it."""
    others = [
        v for v in op.operands if v not in sources and not isinstance(v.owner, graph.ConstantOp)
    ]
    if any(shape_of(v) == shape_of(op.results[0]) for v in others):
        return FUSE_RESIDUAL
    if len(sources) < len(op.operands):
        return FUSE_BIAS
    return FUSE_GATE if len(set(sources)) > 1 else FUSE_ACTIVATION


def not_on_a_tile(op: TensorOp, sources: list[SSAValue]) -> str | None:
    """Return why an elementwise op cannot be computed on tiles of the matmul; None if it can."""
    if op.VECTOR_PROGRAM:
        return f"the epilogue has no {op.name.removeprefix('graph.')}"
    if op.operands[0] not in sources and not isinstance(op, g.Elementwise):
        return "the matmul is a parameter of it"
    largest = max((size_of(v) or 0 for v in sources), default=0)
    if largest and any((size_of(r) or 0) > largest for r in op.results):
        return "it broadcasts the matmul"
    return None


def moves_too_much(op: TensorOp, sources: list[SSAValue]) -> str | None:
    """Return why movement is better a launch of its own than a store to other addresses, None if it
    is not: most of the moved elements come from elsewhere, or the matmul's are repeated."""
    if isinstance(op, graph.PadOp):
        return None
    if not all(is_static(shape_of(v)) for v in (*op.operands, *op.results)):
        return None if not isinstance(op, graph.ConcatOp) else "sizes are known only at run time"
    own = sum(byte_size(v.type) for v in dict.fromkeys(sources))
    if sum(byte_size(r.type) for r in op.results) > 2 * own:
        return "most of the result is not of the matmul"
    return None


FUSE_WEIGHT = declare("fuse-weight", "a weight is dequantized in the launch of its matmul")

FUSE_INPUT = declare(
    "fuse-input", "an input of the model is quantized, or rounded, in the launch of its matmul"
)

OPERANDS = (FUSE_WEIGHT, FUSE_INPUT)


def dequantized(value: SSAValue) -> graph.DequantizeOp | None:
    """The op that dequantizes a weight; None for other values."""
    return op if is_weight(op := value.owner) else None


def is_given(value: SSAValue) -> bool:
    """Return whether no launch of its block defines a value: an input, a result of a branch or
    loop, or a view of them."""
    return isinstance(whole_of(value).owner, Block | Control)


def dequantize_for_each_user(block: Block) -> None:
    """Give each matmul, or convolution, of a block that uses a dequantized weight an op of its
    own."""
    for op in list(block.ops):
        if not is_weight(op):
            continue
        uses = list(op.result.uses)
        own = [u for u in uses if isinstance(u.operation, WEIGHTED) and u.operation.parent is block]
        for use in own[1:] if len(own) == len(uses) else own:
            copy = op.clone()
            block.insert_op_after(copy, op)
            use.operation.operands[use.index] = copy.result


def take_weights(merger: Merger, matmul: Operation) -> None:
    """Let the dequantization of weights join their matmul."""
    groups = merger.groups
    for value in matmul.operands:
        first = dequantized(value)
        while first is not None and isinstance(op := value.owner, TensorOp):
            if op in groups.number:
                merger.join(groups.of(matmul), groups.of(op), FUSE_WEIGHT)
            if op is first:
                break
            value = op.operands[0]


def take_tables(merger: Merger, group: Group) -> None:
    """Let the dequantization of constants that an epilogue reads join its launch."""
    for value in [v for op in group.ops for v in op.operands]:
        op = dequantized(value)
        if op is not None and op in merger.groups.number and value.has_one_use():
            if (other := merger.groups.of(op)) is not group:
                merger.join(group, other, FUSE_WEIGHT)


def rounds(op: Operation | Block) -> TypeGuard[graph.QuantizeOp | graph.CastOp]:
    """Return whether an op quantizes a float, or casts it to 16 bits."""
    if isinstance(op, graph.CastOp):
        return is_narrow(op.to) and is_float(element_type(op.input))
    return isinstance(op, graph.QuantizeOp)


def take_input(merger: Merger, matmul: Operation) -> None:
    """Let the quantization of a value that is given join the only launch that takes it, and its
    rounding each matmul, or convolution, if nothing else takes it."""
    groups = merger.groups
    group = groups.of(matmul)
    for value in matmul.operands:
        op = value.owner
        if not rounds(op) or op not in groups.number or not is_given(op.input):
            continue
        users = {groups.find(use.operation) for use in value.uses}
        if users == {group}:
            merger.join(group, groups.of(op), FUSE_INPUT)
        elif isinstance(op, graph.CastOp) and is_enabled(FUSE_INPUT) and pays(merger, op, group):
            count(FUSE_INPUT)
            groups.absorb(op, group)


def pays(merger: Merger, cast: graph.CastOp, group: Group) -> bool:
    """Return whether only products use a value, and rounding it once more in a launch of them takes
    no more time than its part of a launch of its own."""
    uses = list(cast.result.uses)
    if not all(isinstance(u.operation, WEIGHTED) for u in uses):
        return False
    alone, user = merger.sum_us([merger.groups.of(cast)]), merger.sum_us([group])
    together = launch_us(merger.body_with(cast, group.ops), merger.target)
    if alone is None or user is None or together is None:
        return False
    return together <= user + alone / len(uses)
