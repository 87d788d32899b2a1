"""Regions: ops that can be one kernel of the vector unit, and the search for them.

Such a kernel walks over tiles of its results and computes everything that a tile needs on the
core. So the ops of a region are elementwise, views, movement of data, and ops on rows (reductions,
softmax, norms), and

- all ops on rows cut the same tensor into the same rows: a tile is some whole rows (or, where a
  row does not fit on the core, pieces of one, in several passes);
- no data moves between two ops on rows: their rows would not be the same ones;
- users of an op on rows belong to a row too: they repeat no row's result in other rows;
- a lookup (gather) and a window (pool, resize) read from memory, so their first operand comes from
  outside of the region (or, for a lookup, each of its elements follows from one element of such a
  value); a short value that is broadcast is computed anew by each core;
- the values of a small tile fit into the core's memory, and the code into its instruction cache
  (a region of known sizes that has no tile program comes apart again: `Merger.with_program`).

Candidates are pairs of a producer and a user, and pairs of users of one value. Pairs that save
the most bytes of traffic merge first, among equals the smallest groups, so n ops take n log n
steps.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from operator import mul

from xdsl.ir import Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.fused_op import Body
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.support.boxes import Access, Rows
from ge.dialects.support.tensor_op import TensorOp, rows_of
from ge.dialects.support.types import (
    DYNAMIC,
    byte_size,
    has_size,
    is_static,
    normalize_axis,
    numel,
    shape_of,
)
from ge.transforms.fusion.groups import Group, Groups, access, is_vector_op, is_view, size_of
from ge.transforms.fusion.merging import MOST_OPS, Merger, Missed
from ge.transforms.fusion.sending import hidden_apart_us
from ge.transforms.rewriting.counts import declare, is_enabled

MOST_VALUES = 48  # values of unknown size that a kernel reads and writes at most
SWEEPS = 3  # a pair that does not fit may fit when others have merged

# Operands, or results, of an op that is merged with others at most: each needs a tile, and each way
# to merge the op is weighed with all of them, so that time would be quadratic in their number.
MOST_OPERANDS = 128


def mismatch(body: Body) -> str | None:
    """Return why ops cannot be one kernel of the vector unit; None if they can."""
    inside: set[SSAValue] = {r for op in body.ops for r in op.results}
    rows: Rows | None = None
    reduced: set[SSAValue] = set()
    moved: set[SSAValue] = set()
    for op in body.ops:
        kind = access(op)
        if kind in (Access.LOOKUP, Access.WINDOW) and op.operands[0] in inside:
            if kind is Access.WINDOW or not _by_element(op.operands[0], inside):
                return f"{op.name} reads its input from memory"
        below = any(v in reduced for v in op.operands)
        if kind is Access.ROWS:
            own = rows_of(op)
            if own is None or (rows is not None and rows != own):
                return "rows differ"
            if any(v in moved for v in op.operands):
                return "data moves between ops on rows"
            rows, below = own, True
        if below:
            reduced.update(op.results)
            if rows is not None and op.operands[0] not in moved and _leaves_rows_out(op, rows):
                return "rows are left out"
            if rows is not None and not all(_keeps_rows(r, rows) for r in op.results):
                return "a row's result is repeated in other rows"
            if any(v in moved for v in op.operands) or _moves(op, rows):
                moved.update(op.results)
    return None


def _by_element(value: SSAValue, inside: set[SSAValue]) -> bool:
    """Return whether each element of a value follows from the element in memory at the same
    position: then a lookup loads that one and computes the rest, f(x)[i] = f(x[i])."""
    while value in inside and isinstance(op := value.owner, Operation):
        unary = isinstance(op, Elementwise | g.CastOp) and len(op.operands) == 1
        if not unary and not (isinstance(op, TensorOp) and access(op) is Access.VIEW):
            return False
        value = op.operands[0]
    return True


def _keeps_rows(value: SSAValue, rows: Rows) -> bool:
    """Return whether each element of a value belongs to one row."""
    size = size_of(value)
    if size is None or rows.count == DYNAMIC or rows.length == DYNAMIC:
        return True
    if size in (rows.count, rows.count * rows.length) or size <= rows.length:
        return True
    return rows.count in accumulate(shape_of(value), mul, initial=1)


def _leaves_rows_out(op: TensorOp, rows: Rows) -> bool:
    """Return whether an op on whole rows takes only some of them, so that its result has others
    than the rest of the kernel. One stretch of rows is a view, and costs nothing."""
    if not isinstance(op, g.SliceOp | g.SplitOp) or is_view(op) or not rows.contiguous:
        return False
    shape = shape_of(op.operands[0])
    inner = [shape[axis + 1 :] for axis in _cut_axes(op)]
    return rows.length != DYNAMIC and any(
        is_static(dims) and numel(dims) >= rows.length for dims in inner
    )


def _cut_axes(op: g.SliceOp | g.SplitOp | g.ConcatOp | g.PadOp) -> list[int]:
    """The axes that an op takes apart or puts together, as far as they are known."""
    if isinstance(op, g.SliceOp):
        axes = [b[0] for b in op.bounds() or ()]
    elif isinstance(op, g.PadOp):
        axes = list(op.ints("axes") or ())
    else:
        axes = [op.axis.value.data]
    rank = len(shape_of(op.operands[0]))
    return [normalize_axis(a, rank) for a in axes]


def _moves(op: TensorOp, rows: Rows | None) -> bool:
    """Return whether an op moves elements from one row to another."""
    if access(op) not in (Access.MOVEMENT, Access.LOOKUP):
        return False
    if rows is None or not isinstance(op, g.SliceOp | g.SplitOp | g.ConcatOp | g.PadOp):
        return True
    axes, shape = _cut_axes(op), shape_of(op.operands[0])
    if not axes or not is_static(shape):
        return True
    first = min(axes)
    return numel(shape[:first]) % max(rows.count, 1) != 0


def too_large(body: Body) -> str | None:
    """Return why a kernel of unknown sizes reads and writes too many values; None if it does
    not."""
    several = len(body.inputs) + len(body.outputs)
    if several <= MOST_VALUES or body.is_static:
        return None
    return f"{several} values are read and written"


FUSE_USERS = declare("fuse-users", "an op of the vector unit joins the launch of what it uses")
FUSE_SIBLINGS = declare("fuse-siblings", "ops of the vector unit on one value share a launch")


@dataclass(frozen=True, slots=True)
class Edge:
    """Two ops that may become one launch, which saves so many bytes of traffic."""

    saved: int
    first: Operation
    second: Operation
    rule: str


def _bytes(value: SSAValue) -> int:
    return byte_size(value.type) if has_size(value) else 0


class Neighbours:
    """The users of values of a block, in order; each value is looked up once."""

    def __init__(self, merger: Merger) -> None:
        self.groups = merger.groups
        self._users: dict[SSAValue, list[Operation]] = {}
        self._siblings: dict[SSAValue, list[Operation]] = {}
        self._around: dict[Operation, list[Edge]] = {}
        self.is_view = cache(is_view)
        self.is_vector_op = cache(is_vector_op)

    def users(self, value: SSAValue) -> list[Operation]:
        if value not in self._users:
            number = self.groups.number
            users = {use.operation for use in value.uses if use.operation in number}
            self._users[value] = sorted(users, key=number.__getitem__)
        return self._users[value]

    def siblings(self, value: SSAValue) -> list[Operation]:
        """The ops of the vector unit that use a value or a view of it. Empty for values whose
        sharing saves nothing: constants, and views (their source is shared instead)."""
        if value not in self._siblings:
            free = isinstance(op := value.owner, Operation) and (
                isinstance(op, g.ConstantOp) or self.is_view(op)
            )
            siblings: set[Operation] = set()
            todo = [] if free else [value]
            while todo:
                for user in self.users(todo.pop()):
                    if self.is_view(user):
                        todo += user.results
                    elif self.is_vector_op(user):
                        siblings.add(user)
            self._siblings[value] = sorted(siblings, key=self.groups.number.__getitem__)
        return self._siblings[value]

    def edge(self, value: SSAValue, producer: Operation, user: Operation) -> Edge:
        """The edge of a value: it is not read, and if it has one user not written either."""
        saved = _bytes(value) * (2 if len(self.users(value)) == 1 else 1)
        return Edge(saved, producer, user, FUSE_USERS)

    def after(self, op: Operation) -> Iterator[Edge]:
        """The edges from an op to the users of its results."""
        if self.is_vector_op(op):
            for value in op.results:
                users = filter(self.is_vector_op, self.users(value))
                yield from (self.edge(value, op, user) for user in users)

    def before(self, op: Operation) -> Iterator[Edge]:
        """The edges from the defining ops of an op's operands to it."""
        for value in op.operands:
            producer = self.groups.defining(value)
            if producer is not None and self.is_vector_op(producer):
                yield self.edge(value, producer, op)

    def beside(self, op: Operation) -> Iterator[Edge]:
        """The edges between an op and the nearest other users of its operands."""
        number = self.groups.number
        for value in op.operands:
            while (
                isinstance(view := value.owner, Operation) and view in number and self.is_view(view)
            ):
                value = view.operands[0]
            others = self.siblings(value)
            at = bisect_left(others, number[op], key=number.__getitem__)
            for other in others[max(at - 1, 0) : at] + others[at + 1 : at + 2]:
                first, second = sorted((op, other), key=number.__getitem__)
                yield Edge(_bytes(value), first, second, FUSE_SIBLINGS)

    def around(self, op: Operation) -> list[Edge]:
        """Return the edges of an op, computed once."""
        if (edges := self._around.get(op)) is None:
            edges = [*self.before(op), *self.after(op), *self.beside(op)]
            self._around[op] = edges
        return edges


def all_edges(merger: Merger) -> Iterator[Edge]:
    """The pairs of ops of the vector unit and users of their results, and of users of one value."""
    near, block = Neighbours(merger), merger.groups.block
    values: list[SSAValue] = list(block.args)
    for op in block.ops:
        yield from near.after(op)
        values += op.results
    for value in values:
        pairs = pairwise(near.siblings(value))
        yield from (Edge(_bytes(value), a, b, FUSE_SIBLINGS) for a, b in pairs)


def edges_around(near: Neighbours, group: Group) -> list[Edge]:
    """The edges between a group and groups that may still join it, those that save most first."""
    edges: dict[Edge, None] = {}
    for op in near.groups.in_order(group):
        edges.update(dict.fromkeys(near.around(op)))
    return sorted((e for e in edges if is_open(near.groups, e)), key=lambda e: -e.saved)


def is_open(groups: Groups, edge: Edge) -> bool:
    """Return whether an edge is between two groups, neither of them finished, by an enabled
    rule."""
    first, second = groups.of(edge.first), groups.of(edge.second)
    if first is second or not is_enabled(edge.rule):
        return False
    return first.kind is None and second.kind is None


def merge_edge(merger: Merger, edge: Edge) -> Missed | None:
    """Merge the groups at the ends of an edge if they make one kernel; returns why not."""
    groups = merger.groups
    first, second = groups.of(edge.first), groups.of(edge.second)
    many = max(max(len(op.operands), len(op.results)) for op in (edge.first, edge.second))
    if many > MOST_OPERANDS:
        why = f"an op of {many} operands or results"
        return Missed(why, merger.worth_us(first, second), final=True)
    body: Body | None = None
    if len(first.ops) + len(second.ops) <= MOST_OPS:
        body = merger.body((first, second))
        why = mismatch(body) or too_large(body)
        if why is not None:
            return Missed(why, merger.worth_us(first, second))
    hidden = hidden_apart_us(merger, first, second) if edge.rule == FUSE_SIBLINGS else 0.0
    return merger.attempt(first, second, edge.rule, hidden > 0, hidden, body)


class Edges:
    """Edges to merge along: those that save most first, of equal ones those of the smallest groups.
    A long chain so grows in pairs, then in pairs of pairs: each op is looked at as often as its
    group doubles."""

    def __init__(self, merger: Merger) -> None:
        self.merger = merger
        self._queue: list[tuple[int, int, int]] = []
        self._edges: list[Edge] = []
        # Edge -> why it was missed, and how many ops its groups had then.
        self._missed: dict[int, tuple[Missed, int]] = {}
        # The same of two groups, and a rule: several values may join them.
        self._apart: dict[tuple[Group, Group, str], tuple[Missed, int]] = {}

    def merge_all(self, edges: Iterable[Edge]) -> None:
        """Merge along edges as long as groups can merge, and remark on the others."""
        self._edges = list(edges)
        self._queue = [(-e.saved, self._size(e), i) for i, e in enumerate(self._edges)]
        for _ in range(SWEEPS):
            heapify(self._queue)
            merged = self._sweep()
            self._queue = [
                (-self._edges[i].saved, self._size(self._edges[i]), i)
                for i in self._missed
                if self._may_merge_now(i)
            ]
            if not merged or not self._queue:
                break
        self._remark()

    def _sweep(self) -> bool:
        """Try each edge of the queue once; whether any merged."""
        merged = False
        while self._queue:
            saved, size, i = heappop(self._queue)
            edge = self._edges[i]
            if not is_open(self.merger.groups, edge):
                self._missed.pop(i, None)
            elif (now := self._size(edge)) > size:
                heappush(self._queue, (saved, now, i))
            elif (missed := self._merge(edge)) is not None:
                self._missed[i] = missed, self._ops(edge)
            else:
                merged = True
                self._missed.pop(i, None)
        return merged

    def _merge(self, edge: Edge) -> Missed | None:
        """`merge_edge`, once for two groups as they are."""
        groups, ops = self.merger.groups, self._ops(edge)
        pair = groups.of(edge.first), groups.of(edge.second), edge.rule
        if (known := self._apart.get(pair)) is not None and known[1] == ops:
            return known[0]
        missed = merge_edge(self.merger, edge)
        if missed is not None and not missed.final:
            self._apart[pair] = missed, ops
        return missed

    def _may_merge_now(self, i: int) -> bool:
        missed, ops = self._missed[i]
        return not missed.final and self._ops(self._edges[i]) != ops

    def _ops(self, edge: Edge) -> int:
        groups = self.merger.groups
        return len(groups.of(edge.first).ops) + len(groups.of(edge.second).ops)

    def _size(self, edge: Edge) -> int:
        return self._ops(edge).bit_length()

    def _remark(self) -> None:
        """One remark for each two groups on why they did not merge."""
        pairs: set[tuple[Group, Group]] = set()
        for i, (missed, _) in self._missed.items():
            edge, groups = self._edges[i], self.merger.groups
            pair = groups.of(edge.first), groups.of(edge.second)
            if is_open(groups, edge) and pair not in pairs:
                pairs.add(pair)
                self.merger.missed(edge.rule, edge.second, missed)
