"""What follows a product on its way out of the core.

The cube leaves a tile of the product in L0C; the vector unit takes it through UB, where it can
work on it before it is stored. So everything that needs nothing but the tile, and values of the
tile's places that are read beside it, costs no launch and no memory traffic in between:

- elementwise ops, with constants or with values from elsewhere (a residual), which may be on more
  than one product of the launch (a gated pair);
- views, and data movement that is a store to other addresses (heads split off, transposed,
  sliced, padded, concatenated);
- ops on whole rows, where the row fits on the core.

The ops join one by one in program order, each when the launch gets no slower than the two apart.
Where an op could also join what uses it on the vector unit (a residual sum the norm behind it, a
cast whose input is needed as well), the cost model says which of the two is faster.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.slicing import ConcatOp, PadOp
from ge.dialects.support.access import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, is_static, shape_of
from ge.transforms.fusion.groups import Group
from ge.transforms.fusion.merging import Merger, Missed, access, can_join, is_view, size_of
from ge.transforms.fusion.regions import is_vector_op, mismatch
from ge.transforms.rewriting.counts import declare, is_enabled

LEAST_GAIN_US = 0.05
"""A difference below this is none."""

MANY = 16
"""Users of a value that are looked at; of more than that, one stays apart anyhow."""

FUSE_ACTIVATION = declare("fuse-activation", "a function of the product alone joins its launch")
FUSE_BIAS = declare("fuse-bias", "the product plus, or times, a constant or a shorter value")
FUSE_RESIDUAL = declare("fuse-residual", "the product plus, or times, a value as large as it")
FUSE_GATE = declare("fuse-gate", "two products of a launch, or parts of one, go into one result")
FUSE_STORE = declare("fuse-store", "views and data movement become how the product is stored")

EPILOGUE = (FUSE_ACTIVATION, FUSE_BIAS, FUSE_RESIDUAL, FUSE_GATE, FUSE_STORE)

Verdict = tuple[str, str | None]
"""The rule by which an op would join a launch, and why it cannot: None when it can, "" when it is
of another kind altogether."""

Accepts = Callable[[TensorOp, Group], Verdict]
"""How an op may join a group."""


def grow(merger: Merger, group: Group, refuses: Accepts) -> None:
    """Let the ops that follow a group join it."""
    groups = merger.groups
    seen: set[Operation] = set()
    heap: list[tuple[float, int, Operation]] = []

    def look(ops: list[Operation]) -> None:
        for op in ops:
            for result in op.results:
                for use in result.uses:
                    user = use.operation
                    if user in groups.number and user not in seen:
                        seen.add(user)
                        heappush(heap, (groups.number[user], len(seen), user))

    look(group.ops)
    while heap:
        user = heappop(heap)[2]
        other = groups.of(user)
        if other is group or other.kind is not None or not can_join(user):
            continue
        assert isinstance(user, TensorOp)
        rule, why = refuses(user, group)
        if why is not None:
            if why:
                merger.missed(rule, user, Missed(why, merger.worth_us(group, other)))
        elif not is_enabled(rule):
            continue
        elif (rival := better_behind(merger, group, user, refuses)) is not None:
            where, gain = rival
            merger.missed(rule, user, Missed(f"with {where.name} it saves {gain:.1f} us more", 0.0))
        elif merger.join(group, other, rule):
            look([user])


def better_behind(
    merger: Merger, group: Group, op: TensorOp, refuses: Accepts
) -> tuple[Operation, float] | None:
    """The op of the vector unit behind `op` that it should join instead, and the time saved;
    None when it had better join the group."""
    groups = merger.groups
    uses = islice((u for r in op.results for u in r.uses), MANY)
    users = [u.operation for u in uses if u.operation in groups.number]
    users = [u for u in users if is_vector_op(u) and groups.of(u).kind is None]
    if not users or access(op) is Access.VIEW:
        return None
    sources = [v for v in op.operands if groups.producer(v) is group]
    uses = list(islice((u for v in sources for u in v.uses), MANY + 1))
    others = {u.operation for u in uses} - {*group.ops, op}
    stays = len(uses) > MANY or any(not _could_follow(merger, group, o, refuses) for o in others)
    behind = min(users, key=groups.number.__getitem__)
    alone, last = groups.of(op), groups.of(behind)
    if not (stays or access(behind) is Access.ROWS) or is_view(behind) or last is group:
        return None
    assert isinstance(behind, TensorOp)
    if refuses(behind, group)[1] is None:
        return None  # it can follow as well
    if mismatch(merger.body((alone, last))) is not None:
        return None
    joined = merger.sum_us([group, alone], [last])
    apart = merger.sum_us([group], [alone, last])
    if joined is None or apart is None or joined - apart < LEAST_GAIN_US:
        return None
    return behind, joined - apart


def _could_follow(merger: Merger, group: Group, op: Operation, refuses: Accepts) -> bool:
    """Whether an op that uses a group's values may join it in its turn."""
    groups = merger.groups
    return (
        op in groups.number
        and can_join(op)
        and isinstance(op, TensorOp)
        and refuses(op, group)[1] is None
        and groups.can_merge(group, groups.of(op))
    )


def follows(op: TensorOp, group: Group, merger: Merger) -> Verdict:
    """By which rule `op` follows a product in its launch, and why it cannot."""
    sources = [v for v in op.operands if merger.groups.producer(v) is group]
    kind = access(op)
    if kind is Access.VIEW:
        return FUSE_STORE, None
    if kind is Access.MOVEMENT:
        return FUSE_STORE, moves_too_much(op, sources)
    if kind is not Access.POINTWISE:
        return FUSE_ACTIVATION, ""
    return rule_of(op, sources), not_on_a_tile(op, sources)


def rule_of(op: TensorOp, sources: list[SSAValue]) -> str:
    """The rule by which an elementwise op that uses values of the launch, `sources`, joins it."""
    others = [v for v in op.operands if v not in sources and not is_constant(v)]
    if any(shape_of(v) == shape_of(op.results[0]) for v in others):
        return FUSE_RESIDUAL
    if len(sources) < len(op.operands):
        return FUSE_BIAS
    return FUSE_GATE if len(set(sources)) > 1 else FUSE_ACTIVATION


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def not_on_a_tile(op: TensorOp, sources: list[SSAValue]) -> str | None:
    """Why an elementwise op cannot be computed on tiles of the product; None when it can."""
    if op.VECTOR_PROGRAM:
        return f"the epilogue has no {op.name.removeprefix('graph.')}"
    if op.operands[0] not in sources and not isinstance(op, g.Elementwise):
        return "the product is a parameter of it"
    largest = max((size_of(v) or 0 for v in sources), default=0)
    if largest and any((size_of(r) or 0) > largest for r in op.results):
        return "it broadcasts the product"
    return None


def moves_too_much(op: TensorOp, sources: list[SSAValue]) -> str | None:
    """Movement is a store to other addresses unless it brings in more from elsewhere, or repeats
    more, than the product has: then it is better on its own."""
    if isinstance(op, PadOp):
        return None
    values = (*op.operands, *op.results)
    if not all(is_static(shape_of(v)) for v in values):
        return None if not isinstance(op, ConcatOp) else "sizes are known only at run time"
    own = sum(byte_size(v.type) for v in dict.fromkeys(sources))
    if sum(byte_size(r.type) for r in op.results) > 2 * own:
        return "most of the result is not of the product"
    return None
