"""Recompute cheap values instead of keeping them live across the memory peak.

    %0 = graph.conv %x, %w ...
    %1 = graph.mul %0, %s
    %2 = graph.relu %1
    ...                                   (here the most is in memory: %1 and %2 among it)
    %7 = graph.mul %1, %6
    %8 = graph.conv %2, %6 ...
becomes
    %0 = graph.conv %x, %w ...
    %1 = graph.mul %0, %s
    %2 = graph.relu %1
    ...                                   (%0 is in memory)
    %1b = graph.mul %0, %s
    %7 = graph.mul %1b, %6
    %2b = graph.relu %1b
    %8 = graph.conv %2b, %6 ...

In a training step the place is where backward begins. What is kept there is a minimum cut: the
fewest bytes from which elementwise ops, views and movement of data give all that is needed later
(as for PyTorch: He and others, "Min-cut optimal recomputation", AOTAutograd 2022). It comes before
fusion: the copies join the launches that need them, where they cost no more than a read.

What is before the place and what is behind it have different phases (`fused_op.phase`): they do
not share launches, which would bring values that are needed late into memory early, these copies
among them. Nothing is done where little would be saved. Only pure ops are repeated, with at most
`DEPTH` in a row.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator, Pure

from ge.dialects.fused_op import PHASE
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.access import Access
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, has_size
from ge.transforms.analysis.live_profile import LiveProfile
from ge.transforms.analysis.task_graph import used_by, value_graph
from ge.transforms.analysis.views import view_offsets, whole_of
from ge.transforms.memory.minimum_cut import UNLIMITED, Network

CHEAP = (Access.POINTWISE, Access.VIEW, Access.MOVEMENT)

COPIES = "fused_op.recomputed"
"""Attribute of a function: how many ops are there to compute something again."""

DEPTH = 8
"""Ops in a row, views not counted, that one value may take to be computed again."""

LEAST = 0.05
"""Share of the bytes kept that has to be saved."""

SMALL = 1e-3
"""Share of the bytes kept up to which a value is kept rather than computed again."""

WINDOW = 64
"""Ops after which a copy is made anew for the next user."""


def is_cheap(op: Operation) -> bool:
    """Whether an op may be repeated: it gives the same each time, and costs little more than to
    read its operands."""
    return (
        isinstance(op, TensorOp)
        and op.ACCESS in CHEAP
        and not isinstance(op, ConstantOp)
        and not op.regions
        and op.has_trait(Pure)
        and all(map(has_size, op.results))
    )


# ---- what is kept --------------------------------------------------------------------------------


class Timeline:
    """The ops of a block in order, and until when their values are needed."""

    def __init__(self, block: Block) -> None:
        self.block, self.ops = block, list(block.ops)
        self.place = {op: i for i, op in enumerate(self.ops)}
        graph, buffers = value_graph(([op] for op in self.ops), size_of)
        end = block.last_op
        returned = {whole_of(v) for v in (() if end is None else end.operands)}
        self.last = {
            value: graph.last_use(b)
            for value, b in buffers.items()
            if value not in returned and not isinstance(value.owner, ConstantOp)
        }
        """Value with memory of its own that is no result -> the last op that uses it."""

    def fullest(self) -> tuple[int, int]:
        """The op before which the most bytes are kept for it and later ones, and the bytes."""
        lives = ((size_of(v), self.before(v) + 1, last) for v, last in self.last.items())
        profile = LiveProfile.of(lives, len(self.ops) + 1)
        return profile.peak_step, profile.peak

    def before(self, value: SSAValue) -> int:
        """The defining op's place; -1 for arguments."""
        return self.place[value.owner] if isinstance(value.owner, Operation) else -1


def size_of(value: SSAValue) -> int:
    return byte_size(value.type) if has_size(value) else 0


def cheap_values(timeline: Timeline, end: int) -> set[SSAValue]:
    """The values made before `end` that few cheap ops make from others."""
    depth: dict[SSAValue, int] = {}
    for op in timeline.ops[:end]:
        if is_cheap(op):
            steps = max((depth.get(v, 0) for v in op.operands), default=0)
            steps += view_offsets(op) is None
            if steps <= DEPTH:
                depth.update(dict.fromkeys(op.results, steps))
    return set(depth)


def price(value: SSAValue, cheap: set[SSAValue], small: float) -> int:
    """What it costs to keep a value: its bytes, and a little more where it would not be in memory
    without that, as all that makes and uses it may share a launch; nothing for `small` bytes."""
    if isinstance(value.owner, Block | ConstantOp) or size_of(value) <= small:
        return 0
    stored = value not in cheap or not all(is_cheap(use.operation) for use in value.uses)
    return size_of(value) * (16 if stored else 17)


def least_kept(timeline: Timeline, end: int, cheap: set[SSAValue], small: float) -> set[SSAValue]:
    """The values to keep for the ops from `end` on: the fewest bytes from which cheap ops give all
    that these need; values of `small` bytes are kept anyhow."""
    network = Network()
    source, sink = network.node(), network.node()
    nodes: dict[SSAValue, int] = {}
    todo = list(dict.fromkeys(v for op in timeline.ops[end:] for v in used_by(op)))
    todo = [v for v in todo if timeline.before(v) < end]

    def node(value: SSAValue) -> int:
        """Where a value comes in; the next node is where it goes out."""
        if value not in nodes:
            into, out = network.node(), network.node()
            nodes[value] = into
            network.edge(into, out, price(value, cheap, small))
            if value in cheap:
                todo.append(value)
            else:
                network.edge(source, into, UNLIMITED)
        return nodes[value]

    for value in list(todo):
        network.edge(node(value) + 1, sink, UNLIMITED)
    done: set[SSAValue] = set()
    while todo:
        value = todo.pop()
        if value in cheap and value not in done:
            done.add(value)
            assert isinstance(value.owner, Operation)
            for operand in value.owner.operands:
                network.edge(node(operand) + 1, node(value), UNLIMITED)
    late = network.sink_side(source, sink)
    return {value for value, into in nodes.items() if late[into + 1] and not late[into]}


# ---- rewriting -----------------------------------------------------------------------------------


def is_vector_work(op: Operation) -> bool:
    return isinstance(op, TensorOp) and op.ACCESS in (*CHEAP, Access.ROWS) and not op.regions


@dataclass
class Copies:
    """Copies of cheap ops, before those that need them. An op of the vector unit has its own, which
    its launch may take in; all others share some."""

    timeline: Timeline
    again: set[SSAValue]
    """The values that are computed again."""
    made: dict[tuple[SSAValue, Operation | None], tuple[SSAValue, int]] = field(
        default_factory=dict[tuple[SSAValue, Operation | None], tuple[SSAValue, int]]
    )
    """Value, and for whom (None: for all that share it) -> its latest copy, and the place of the op
    that needed that."""
    count: int = 0
    """How many ops there are."""

    def serve(self, op: Operation) -> None:
        """Let an op use copies."""
        whom = op if is_vector_work(op) else None
        for inner in op.walk():
            for i, value in enumerate(inner.operands):
                if value in self.again:
                    inner.operands[i] = self.copy(value, op, whom)

    def copy(self, value: SSAValue, user: Operation, whom: Operation | None) -> SSAValue:
        """What an op uses in place of a value."""
        if value not in self.again:
            return value
        now = self.timeline.place[user]
        known = self.made.get((value, whom))
        if known is None or now - known[1] > WINDOW:
            maker = value.owner
            assert isinstance(maker, Operation)
            new = maker.clone({v: self.copy(v, user, whom) for v in maker.operands})
            new.location = maker.location
            new.attributes[PHASE] = LATER
            self.timeline.block.insert_op_before(new, user)
            self.count += 1
            for old, result in zip(maker.results, new.results, strict=True):
                self.made[old, whom] = result, now
        copy, _ = self.made[value, whom]
        self.made[value, whom] = copy, now
        return copy


LATER = IntegerAttr(1, i64)


def recompute(timeline: Timeline, end: int, kept: set[SSAValue], cheap: set[SSAValue]) -> int:
    """Have the ops from `end` on use copies of all cheap values that are not kept; returns how many
    copies there are."""
    again = {v for v in cheap if v not in kept}
    later = timeline.ops[end:]
    copies = Copies(timeline, again)
    for op in later:
        copies.serve(op)
        if not op.has_trait(IsTerminator):
            op.attributes[PHASE] = LATER
    for op in reversed(timeline.ops[:end]):
        if is_cheap(op) and all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()
    return copies.count


def kept_bytes(values: Iterable[SSAValue]) -> int:
    return sum(size_of(v) for v in values if not isinstance(v.owner, Block | ConstantOp))


@dataclass(frozen=True)
class RecomputeElementwisePass(ModulePass):
    """Compute cheap values of @main again instead of keeping them where the most is kept."""

    name = "recompute-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        timeline = Timeline(main.body.block)
        end, before = timeline.fullest()
        cheap = cheap_values(timeline, end)
        kept = least_kept(timeline, end, cheap, SMALL * before)
        if kept_bytes(kept) < (1 - LEAST) * before:
            copies = recompute(timeline, end, kept, cheap)
            main.attributes[COPIES] = IntegerAttr(copies, i64)
