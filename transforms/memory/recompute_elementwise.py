"""Recompute cheap values instead of keeping them live across the memory peak.

    %0 = graph.conv %x, %w ...
    %1 = graph.mul %0, %s
    %2 = graph.relu %1
    ...                                   (memory peak: %1 and %2 are live)
    %7 = graph.mul %1, %6
    %8 = graph.conv %2, %6 ...
becomes
    %0 = graph.conv %x, %w ...
    %1 = graph.mul %0, %s
    %2 = graph.relu %1
    ...                                   (memory peak: %0 is live)
    %1b = graph.mul %0, %s
    %7 = graph.mul %1b, %6
    %2b = graph.relu %1b
    %8 = graph.conv %2b, %6 ...

In a training step the peak is where the backward pass begins. The values that stay live across it
are a minimum cut: the fewest bytes from which elementwise ops, views and data movement compute all
that is used later (as in PyTorch: He et al., "Min-cut optimal recomputation", AOTAutograd 2022),
computed by the maximum flow (Ford and Fulkerson 1956) along shortest augmenting paths, all of one
length at a time (Dinic 1970). At most `DEPTH` ops in a row are recomputed, and nothing changes
where less than `LEAST` is saved.

The pass runs before fusion, so that copies are fused into the launches that use them. Ops before
and after the peak get different phases (`fused_op.phase`) and are not fused with each other: a
fused copy would otherwise be computed before the peak.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, NoMemoryEffect

from ge.dialects.fused_op import PHASE
from ge.dialects.fused_op import RECOMPUTED as COPIES
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, has_size
from ge.transforms.analysis.dependencies import erase_unused
from ge.transforms.analysis.task_graph import used_by, value_graph
from ge.transforms.analysis.views import view_offsets, whole_of
from ge.transforms.rewriting.passes import MainPass

UNLIMITED = 1 << 62
"""A capacity that no cut includes."""


@dataclass
class Network:
    """Nodes and edges by number; edge i ^ 1 is the reverse of edge i."""

    edges: list[list[int]] = field(default_factory=list[list[int]])
    """Of each node the edges that leave it."""
    ends: list[int] = field(default_factory=list[int])
    room: list[int] = field(default_factory=list[int])  # residual capacities

    def node(self) -> int:
        """Add a node; its number."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        for node, other, room in ((start, end, capacity), (end, start, 0)):
            self.edges[node].append(len(self.ends))
            self.ends.append(other)
            self.room.append(room)

    def sink_side(self, source: int, sink: int) -> list[bool]:
        """For each node whether it is on the sink's side of the minimum cut, of several that with
        the fewest nodes there."""
        while (distance := self.distances(source, sink))[sink] >= 0:
            at = [0] * len(self.edges)
            while self.augment(source, sink, distance, at):
                pass
        reaches = [False] * len(self.edges)
        reaches[sink] = True
        stack = [sink]
        while stack:
            for i in self.edges[stack.pop()]:
                if self.room[i ^ 1] and not reaches[self.ends[i]]:
                    reaches[self.ends[i]] = True
                    stack.append(self.ends[i])
        return reaches

    def distances(self, source: int, sink: int) -> list[int]:
        """Return for each node the number of edges with room on the way from the source; -1: there
        is no path."""
        distance = [-1] * len(self.edges)
        distance[source] = 0
        queue = [source]
        for node in queue:
            for i in self.edges[node]:
                end = self.ends[i]
                if self.room[i] and distance[end] < 0:
                    distance[end] = distance[node] + 1
                    queue.append(end)
        return distance

    def augment(self, source: int, sink: int, distance: list[int], at: list[int]) -> bool:
        """Send flow along one of the shortest paths; returns False if there is none. `at`: how many
        edges of each node are known to be dead ends."""
        path: list[int] = []
        node = source
        while node != sink:
            i = self.open_edge(node, distance, at)
            if i is not None:
                path.append(i)
                node = self.ends[i]
            elif path:
                node = self.ends[path.pop() ^ 1]
                at[node] += 1
            else:
                return False
        flow = min(self.room[i] for i in path)
        for i in path:
            self.room[i] -= flow
            self.room[i ^ 1] += flow
        return True

    def open_edge(self, node: int, distance: list[int], at: list[int]) -> int | None:
        """The next edge of a node on a shortest path."""
        edges = self.edges[node]
        while at[node] < len(edges):
            i = edges[at[node]]
            if self.room[i] and distance[self.ends[i]] == distance[node] + 1:
                return i
            at[node] += 1
        return None


CHEAP = (Access.POINTWISE, Access.VIEW, Access.MOVEMENT)

DEPTH = 8  # ops, views not counted

LEAST = 0.05  # of the bytes live at the peak

SMALL = 1e-3
"""Values of up to this share of the bytes live at the peak are not recomputed."""

WINDOW = 64
"""Ops after which the next user gets a new copy."""


def is_cheap(op: Operation) -> bool:
    """Return whether an op is pure and costs little more than to read its operands."""
    return (
        isinstance(op, TensorOp)
        and op.ACCESS in CHEAP
        and not isinstance(op, ConstantOp)
        and not op.regions
        and op.has_trait(NoMemoryEffect)
        and all(map(has_size, op.results))
    )


# ---- what stays live -----------------------------------------------------------------------------


def peak_of(block: Block, ops: Sequence[Operation]) -> tuple[int, int]:
    """The op before which the most bytes are live that it or later ops use, and the bytes. Results
    of the block and constants do not count."""
    end = block.last_op
    returned = {whole_of(v) for v in (() if end is None else end.operands)}

    def counted(value: SSAValue) -> int:
        return 0 if value in returned or isinstance(value.owner, ConstantOp) else size_of(value)

    profile = value_graph(([op] for op in ops), counted).live_between()
    return profile.peak_step + 1, profile.peak


def size_of(value: SSAValue) -> int:
    return byte_size(value.type) if has_size(value) else 0


def cheap_values(ops: Iterable[Operation]) -> set[SSAValue]:
    """The results of ops that at most `DEPTH` cheap ops compute from other values."""
    depth: dict[SSAValue, int] = {}
    for op in ops:
        if is_cheap(op):
            steps = max((depth.get(v, 0) for v in op.operands), default=0)
            steps += view_offsets(op) is None
            if steps <= DEPTH:
                depth.update(dict.fromkeys(op.results, steps))
    return set(depth)


def price(value: SSAValue, cheap: set[SSAValue], small: float) -> int:
    """The cost of keeping a value live: 16 for each byte, 17 if it would not be in memory without
    that because all that defines and uses it may be fused, 0 for up to `small` bytes."""
    if isinstance(value.owner, Block | ConstantOp) or size_of(value) <= small:
        return 0
    stored = value not in cheap or not all(is_cheap(use.operation) for use in value.uses)
    return size_of(value) * (16 if stored else 17)


def least_live(
    before: Container[SSAValue], later: Iterable[Operation], cheap: set[SSAValue], small: float
) -> set[SSAValue]:
    """Return of the values `before` the peak the fewest bytes from which cheap ops compute all that
    the `later` ops use; values of up to `small` bytes cost nothing."""
    network = Network()
    source, sink = network.node(), network.node()
    nodes: dict[SSAValue, int] = {}
    used = dict.fromkeys(v for op in later for v in used_by(op) if v in before)
    stack = list(used)

    def node(value: SSAValue) -> int:
        """The node at which a value comes in; at the next one it goes out."""
        if value not in nodes:
            into, out = network.node(), network.node()
            nodes[value] = into
            network.edge(into, out, price(value, cheap, small))
            if value in cheap:
                stack.append(value)
            else:
                network.edge(source, into, UNLIMITED)
        return nodes[value]

    for value in used:
        network.edge(node(value) + 1, sink, UNLIMITED)
    visited: set[SSAValue] = set()
    while stack:
        value = stack.pop()
        if value in cheap and value not in visited:
            visited.add(value)
            assert isinstance(value.owner, Operation)
            for operand in value.owner.operands:
                network.edge(node(operand) + 1, node(value), UNLIMITED)
    late = network.sink_side(source, sink)
    return {value for value, into in nodes.items() if late[into + 1] and not late[into]}


# ---- rewriting -----------------------------------------------------------------------------------


def is_vector_work(op: Operation) -> bool:
    return isinstance(op, TensorOp) and op.ACCESS in (*CHEAP, Access.ROWS) and not op.regions


LATER = IntegerAttr(1, i64)

Key = tuple[SSAValue, Operation | None]
"""A value, and the op of the vector unit that its copy is for: a launch may fuse it. Other ops
share copies (None)."""


@dataclass
class Copies:
    """Copies of cheap ops, before their users."""

    recomputed: set[SSAValue]
    latest: dict[Key, tuple[SSAValue, int]] = field(default_factory=dict[Key, tuple[SSAValue, int]])
    """The latest copy of a value, and the position of its last user."""
    count: int = 0

    def serve(self, op: Operation, position: int) -> None:
        """Let an op use copies."""
        for inner in op.walk():
            for i, value in enumerate(inner.operands):
                if value in self.recomputed:
                    inner.operands[i] = self.copy(value, op, position)

    def copy(self, value: SSAValue, user: Operation, position: int) -> SSAValue:
        """Return the value that an op uses in place of a value: itself, or a copy recomputed before
        the op."""
        if value not in self.recomputed:
            return value
        reader = user if is_vector_work(user) else None
        copy, last = self.latest.get((value, reader), (value, -WINDOW - 1))
        if position - last > WINDOW:
            op = value.owner
            assert isinstance(op, Operation)
            new = op.clone({v: self.copy(v, user, position) for v in op.operands})
            new.location = op.location
            new.attributes[PHASE] = LATER
            Rewriter.insert_op(new, InsertPoint.before(user))
            self.count += 1
            for old, result in zip(op.results, new.results, strict=True):
                self.latest[old, reader] = result, position
            copy, _ = self.latest[value, reader]
        self.latest[value, reader] = copy, position
        return copy


def recompute(ops: Sequence[Operation], end: int, recomputed: set[SSAValue]) -> int:
    """Have the ops from `end` on use copies of values; returns the number of copies."""
    copies = Copies(recomputed)
    for position, op in enumerate(ops[end:]):
        copies.serve(op, position)
        if not op.has_trait(IsTerminator):
            op.attributes[PHASE] = LATER
    erase_unused(filter(is_cheap, ops[:end]))
    return copies.count


class RecomputeElementwisePass(MainPass):
    """Recompute cheap values of @main instead of keeping them live across the memory peak."""

    name = "recompute-elementwise"

    def run(self, main: FuncOp) -> None:
        block = main.body.block
        ops = list(block.ops)
        end, peak = peak_of(block, ops)
        cheap = cheap_values(ops[:end])
        before = {*block.args, *(r for o in ops[:end] for r in o.results)}
        live = least_live(before, ops[end:], cheap, SMALL * peak)
        live_bytes = sum(size_of(v) for v in live if not isinstance(v.owner, Block | ConstantOp))
        if live_bytes < (1 - LEAST) * peak:
            main.attributes[COPIES] = IntegerAttr(recompute(ops, end, cheap - live), i64)
