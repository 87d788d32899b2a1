"""Reductions over the same devices are one, where that takes no longer.

    %a = graph.all_reduce sum %x over <"dp"=8> : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %b = graph.all_reduce sum %y over <"dp"=8> : (tensor<32xf32>) -> tensor<32xf32>
becomes
    %0 = graph.concat (%x as 512 elements), (%y as 32 elements) axis 0
    %1 = graph.all_reduce sum %0 over <"dp"=8> : (tensor<544xf32>) -> tensor<544xf32>
    %a = elements 0 to 512 of %1, %b = elements 512 to 544

Of a reduce_scatter the terms stand in rows, one for each device, and follow each other in these.
Each element is added in the same order as before.

A start is saved for each, but the first one waits for the last. When each is ready follows from the
times of ops (`rates.py`), and so does when all are sent at the earliest, each with those before it
or alone. That is the limit, or the end of all that does not need what they bring, if it is later;
from the last one back each reduction takes along as many as keep to it. So sums of gradients are
one where they are short beside the backward pass, and a few where they can be sent beside it.

What has to be copied to stand beside others, as the rows of a reduce_scatter, goes with them where
it takes no longer than its start.

What follows from a reduction waits for all that it goes with: it is put behind them, unless
something that devices send each other follows from it. Reductions stand directly behind what they
are of: the order of the program has room for them there, and they can begin early.

Exchanges that bring boxes of one value are one where these lie beside each other, or overlap."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from typing import ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.collectives import (
    AllReduceOp,
    Collective,
    ExchangeOp,
    Needed,
    NeededAttr,
    Place,
    ReduceScatterOp,
)
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.sharding import Unseen, mesh_of
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.digits import all_digits
from ge.dialects.support.editing import put_in_row
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, operands_of, ops_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type, has_size, shape_of
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.collectives import kind_of, reduction_us
from ge.transforms.graph.control_flow import insert_before, is_pure, replace_op
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.passes import BitExact, Relation
from ge.transforms.sharding.local_ops import with_properties
from ge.transforms.sharding.rates import Rates

LATER = 0.005  # share of the time by which fewer may end later: times here are not as exact

Reduction: TypeAlias = AllReduceOp | ReduceScatterOp
Key = tuple[type[Operation], Attribute, Attribute, Attribute]  # kinds, axes and element type


@dataclass(frozen=True)
class MergeCollectivesPass(ModulePass):
    """Make reductions over the same devices one."""

    name = "merge-collectives"
    RELATION: ClassVar[Relation] = BitExact()

    target: str = ""
    """whose times decide what goes together; by default that of the package"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mesh, main = mesh_of(op), main_function(op)
        if mesh is None or main is None:
            return
        rates = Rates(Target.load(*filter(None, [self.target])), mesh)
        for block in blocks(main.body.block):
            for own in exchanges(block):
                exchange_once(own)
            ops = ops_of(block)
            seconds = seconds_of(ops, rates) if (found := groups(block)) else {}
            ends = dict(zip(seconds, accumulate(seconds.values()), strict=True))
            together = [own for group in found for own in parts(group, seconds, ends, rates)]
            Unseen.of(op).also(moved_by(together)).state(op)
            early = [new for own in together for new in merge(own)]
            if early:
                put_early(block, early)


def blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in all_ops([block]):
        for region in op.regions:
            yield from region.blocks


# ---- boxes of one value -------------------------------------------------------------------------


def exchanges(block: Block) -> list[list[ExchangeOp]]:
    """Exchanges that bring a device boxes of one value beside each other."""
    found: dict[Hashable, list[ExchangeOp]] = defaultdict(list)
    for op in ops_of(block):
        if isinstance(op, ExchangeOp) and op.onto is None:
            terms = tuple(place.terms for place, _ in op.needs.data.spans)
            found[op.input, op.has, op.shape, op.fill, terms].append(op)
    return [own for own in found.values() if len(own) > 1 and fit_together(own)]


def fit_together(ops: Sequence[ExchangeOp]) -> bool:
    """Return whether one box that has all has no more than they do."""
    return prod(around(ops).sizes) <= sum(prod(op.needs.data.sizes) for op in ops)


def around(ops: Sequence[ExchangeOp]) -> Needed:
    spans = list[tuple[Place, int]]()
    for own in zip(*(op.needs.data.spans for op in ops), strict=True):
        first = min(place.constant for place, _ in own)
        end = max(place.constant + size for place, size in own)
        spans.append((replace(own[0][0], constant=first), end - first))
    return Needed(tuple(spans))


def exchange_once(ops: Sequence[ExchangeOp]) -> None:
    """Have one exchange bring a box of which each had a part."""
    first, box = ops[0], around(ops)
    properties = {**first.properties, "needs": NeededAttr(box)}
    whole = insert_before(first, with_properties(first, [first.input], properties)).results[0]
    for op in ops:
        pairs = zip(op.needs.data.spans, box.spans, strict=True)
        starts = [place.constant - origin.constant for (place, _), (origin, _) in pairs]
        ends = [a + n for a, n in zip(starts, op.needs.data.sizes, strict=True)]
        own = SliceOp.of(whole, starts=starts, ends=ends, axes=[*range(len(starts))])
        replace_op(op, insert_before(op, own).results)
    remarks.applied("merge-collectives", first, f"{len(ops)} exchanges are one")


# ---- what can go together ------------------------------------------------------------------------


@dataclass
class Mergeable:
    """Reductions none of which needs another one, what follows from them and can wait, and the
    first op that cannot."""

    members: list[Reduction] = field(default_factory=list[Reduction])
    waiting: set[Operation] = field(default_factory=set[Operation])
    end: Operation | None = None


def groups(block: Block) -> list[Mergeable]:
    """The reductions of a block over the same devices of which none is needed before the last."""
    found, open_ = list[Mergeable](), dict[Key, Mergeable]()
    for op in ops_of(block):
        used = set(_used(op))
        for key, group in list(open_.items()):
            if used.isdisjoint(group.waiting) and used.isdisjoint(group.members):
                continue
            if can_wait(op):
                group.waiting.add(op)
            else:
                open_.pop(key).end = op
        if isinstance(op, AllReduceOp | ReduceScatterOp) and has_size(op.input):
            key = type(op), op.kind, op.axes, element_type(op.input)
            if key not in open_:
                found.append(open_.setdefault(key, Mergeable()))
            open_[key].members.append(op)
    return found


def can_wait(op: Operation) -> bool:
    """Return whether an op may be put behind others: not so where other devices wait for it."""
    is_local = isinstance(op, TensorOp) and not isinstance(op, Collective) and not op.regions
    return is_local and is_pure(type(op))


def _used(op: Operation) -> Iterator[Operation]:
    inner = all_ops([b for r in op.regions for b in r.blocks]) if op.regions else ()
    for value in (v for o in (op, *inner) for v in operands_of(o)):
        if isinstance(value.owner, Operation):
            yield value.owner


# ---- what goes together --------------------------------------------------------------------------


class Sending:
    """Reductions as they become ready, and the times of some of them as one."""

    def __init__(self, ready: Mapping[Reduction, float], rates: Rates) -> None:
        self.members = sorted(ready, key=ready.__getitem__)
        self.ready = [ready[m] for m in self.members]
        self.rates = rates
        sizes = [byte_size(m.input.type) for m in self.members]
        copied = [n if is_copied(m) else 0 for m, n in zip(self.members, sizes, strict=True)]
        self.bytes = list(accumulate(sizes, initial=0))  # of those before each
        self.copied = list(accumulate(copied, initial=0))

    def seconds(self, first: int, end: int) -> float:
        """The time of some as one, with copies of what cannot be computed where it is sent from."""
        op, target = self.members[first], self.rates.target
        cluster, spread = self.rates.spread(op.group())
        size = float(self.bytes[end] - self.bytes[first])
        seconds = min(reduction_us(kind_of(op), cluster, spread, size, target).values()) / 1e6
        copied = self.copied[end] - self.copied[first]
        if copied and end - first > 1:
            seconds += target.launch_us / 1e6 + 2 * copied / self.rates.memory
        return seconds

    def sent(self) -> list[float]:
        """The times at which the first ones are sent, by their number: each with those before it,
        or alone, whichever is sooner."""
        done, free, first = [0.0], 0.0, 0
        for last, ready in enumerate(self.ready):
            together = max(free, ready) + self.seconds(first, last + 1)
            alone = max(done[-1], ready) + self.seconds(last, last + 1)
            if alone < together:
                free, first = done[-1], last
            done.append(min(alone, together))
        return done

    def parts(self, other: float) -> Iterator[Sequence[Reduction]]:
        """Those that are one, from the last to the first. All else takes so long."""
        done, end = self.sent(), len(self.members)
        limit = max(other, done[-1]) * (1 + LATER)
        while end:
            starts = (max(free, self.ready[end - 1]) for free in done[:end])
            in_time = (i for i, t in enumerate(starts) if t + self.seconds(i, end) <= limit)
            first = next(in_time, end - 1)
            yield self.members[first:end]
            limit, end = limit - self.seconds(first, end), first


def is_copied(op: Reduction) -> bool:
    """Return whether the terms have to be copied to stand beside others."""
    owner = op.input.owner
    is_elsewhere = isinstance(owner, Block | ConstantOp) or not op.input.has_one_use()
    return is_elsewhere or isinstance(op, ReduceScatterOp)


def is_short(op: Reduction, rates: Rates) -> bool:
    """Return whether the start of a reduction takes as long as all else of it."""
    sending = Sending({op: 0.0}, rates)
    return sending.seconds(0, 1) <= 2 * rates.spread(op.group())[0].start_us / 1e6


def seconds_of(ops: Sequence[Operation], rates: Rates) -> dict[Operation, float]:
    """The time of each op of a block, of what is no collective."""
    found = dict.fromkeys(ops, 0.0)
    for before, op in zip((None, *ops), ops, strict=False):
        if isinstance(op, TensorOp) and not isinstance(op, Collective):
            work = op.work()
            moved = 0 if work is None else work.read + work.written
            found[op] = rates.work_s(op, 1, moved) + rates.start_s(op, before)
    return found


def parts(
    group: Mergeable,
    seconds: Mapping[Operation, float],
    ends: Mapping[Operation, float],
    rates: Rates,
) -> Iterator[Sequence[Reduction]]:
    """The reductions of a group that are one, in the order of the program. `seconds`: of all ops;
    `ends`: when they have ended if none waits."""
    op: Operation | None = group.members[0]
    late, clock = dict[Operation, float](), ends[op]  # from the first member on
    while (op := op.next_op) is not None and op is not group.end:
        if op not in group.waiting:
            clock += seconds[op]
        late[op] = clock
    ready = {m: late.get(m.input.owner, ends.get(m.input.owner, 0.0))
             if isinstance(m.input.owner, Operation) else 0.0
             for m in group.members}  # fmt: skip
    alone = [m for m in group.members if is_copied(m) and not is_short(m, rates)]
    yield from ([m] for m in alone)
    if len(alone) < len(ready):
        sending = Sending({m: ready[m] for m in ready if m not in alone}, rates)
        yield from (sorted(own, key=group.members.index) for own in sending.parts(clock))


# ---- as one --------------------------------------------------------------------------------------


def merge(members: Sequence[Reduction]) -> list[Operation]:
    """Make some reductions one; return the ops in their place, of one that stays itself."""
    last, new = members[-1], list[Operation]()
    if len(members) == 1:
        return [last] if last.input.has_one_use() else []

    def add(op: TensorOp) -> SSAValue:
        new.append(insert_before(last, op))
        return op.results[0]

    terms = [add_row(m, add) for m in members]
    whole = add(ConcatOp.of(terms, axis=-1))
    if isinstance(last, ReduceScatterOp):
        total = add(ReduceScatterOp.of(whole, kind=last.kind, dim=0, axes=last.axes))
    else:
        total = add(AllReduceOp.of(whole, kind=last.kind, axes=last.axes))
    remarks.applied("merge-collectives", last, f"{len(members)} reductions are one")
    first = 0
    for member, row in zip(members, terms, strict=True):
        shape, size = shape_of(member.result), shape_of(row)[-1]
        own = add(SliceOp.of(total, starts=[first], ends=[first + size], axes=[-1]))
        first += size
        replace_op(member, [add(ReshapeOp.of(own, shape=shape, allow_zero=True))])
    return new


def moved_by(together: Iterable[Sequence[Reduction]]) -> Unseen:
    """The axes whose parts stand in rows before they are scattered, and behind other dimensions
    again after it: of the one row that a device has then nothing is moved."""
    some = [m for own in together if len(own) > 1 for m in own if isinstance(m, ReduceScatterOp)]
    inner = [m for m in some if prod(shape_of(m.input)[: m.dim.value.data]) > 1]
    return Unseen(moved=frozenset(digit for m in inner for digit in all_digits(m.axes.data)))


def add_row(op: Reduction, add: Callable[[TensorOp], SSAValue]) -> SSAValue:
    """The terms of a reduction in a row; of a reduce_scatter in one for each device."""
    if isinstance(op, AllReduceOp):
        return add(ReshapeOp.of(op.input, shape=[prod(shape_of(op.input))]))
    shape, value = shape_of(op.input), op.input
    if (outer := prod(shape[: op.dim.value.data])) > 1:
        value = add(ReshapeOp.of(value, shape=[outer, op.count, prod(shape) // outer // op.count]))
        value = add(TransposeOp.of(value, permutation=[1, 0, 2]))
    return add(ReshapeOp.of(value, shape=[op.count, prod(shape) // op.count]))


def put_early(block: Block, early: Sequence[Operation]) -> None:
    """Put some ops directly behind what they use. Others stay in their order, but for those that
    are behind what they use no more."""
    ops, order, placed = ops_of(block), list[Operation](), set[Operation]()
    inside, first = set(ops), set(early)
    held: dict[Operation, list[Operation]] = defaultdict(list)
    for op in (*early, *(o for o in ops if o not in first)):
        todo = [op]
        while todo:
            own = todo.pop()
            needs = (v.owner for v in operands_of(own))
            missing = next((o for o in needs if o in inside and o not in placed), None)
            if isinstance(missing, Operation):
                held[missing].append(own)
            else:
                order.append(own)
                placed.add(own)
                todo += reversed(held.pop(own, []))
    put_in_row(block, ops, order)
