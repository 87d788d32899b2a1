"""What can be one kernel of the vector unit, and the search for it.

Such a kernel walks over tiles of its results and computes everything that a tile needs on the
core. So the ops of a region are elementwise, views, movement of data, and ops on rows (reductions,
softmax, norms), and

- all ops on rows cut the same tensor into the same rows: a tile is some whole rows (or, where a
  row does not fit on the core, pieces of one, in several passes);
- nothing moves data between two ops on rows: their rows would not be the same ones;
- what follows an op on rows belongs to a row too: it repeats no row's result in other rows;
- a lookup (gather) and a window (pool, resize) read from memory, so their first operand comes from
  outside of the region; a short value that is broadcast is computed anew by each core;
- the values of a small tile fit into the core's memory.

Candidates are pairs of a producer and a user, then pairs of users of one value. Those that save
the most bytes of traffic merge first, as long as the launch is no slower than the two apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.interfaces import Access, Rows, TensorOp
from ge.dialects.types import DYNAMIC, byte_size, is_static, normalize_axis, numel, shape_of
from ge.runtime.tiling import VectorKernel
from ge.transforms.fusion.merging import Merger, access, can_join, is_view, size_of

REGION = (
    Access.POINTWISE,
    Access.VIEW,
    Access.MOVEMENT,
    Access.LOOKUP,
    Access.WINDOW,
    Access.ROWS,
)

LEAST_TILE = 256
"""Elements of the smallest tile that is worth a step of the loop."""


def is_vector_op(op: Operation) -> bool:
    """Whether a region can hold the op."""
    return can_join(op) and not isinstance(op, FusedOp) and access(op) in REGION


# ---- what fits together ------------------------------------------------------------------------


def mismatch(body: Body) -> str | None:
    """Why ops cannot be one kernel of the vector unit; None when they can."""
    inside = {r for op in body.ops for r in op.results}
    rows: Rows | None = None
    reduced: set[SSAValue] = set()
    moved: set[SSAValue] = set()
    for op in body.ops:
        kind = access(op)
        if kind in (Access.LOOKUP, Access.WINDOW) and op.operands[0] in inside:
            return f"{op.name} reads its input from memory"
        below = any(v in reduced for v in op.operands)
        if kind is Access.ROWS:
            found = op.rows()
            if found is None or (rows is not None and rows != found):
                return "rows differ"
            if any(v in moved for v in op.operands):
                return "data moves between ops on rows"
            rows, below = found, True
        if below:
            reduced.update(op.results)
            if rows is not None and not all(_keeps_rows(r, rows) for r in op.results):
                return "a row's result is repeated in other rows"
            if any(v in moved for v in op.operands) or _moves(op, rows):
                moved.update(op.results)
    return None


def _keeps_rows(value: SSAValue, rows: Rows) -> bool:
    """Whether the elements of a value can be dealt out to rows."""
    size = size_of(value)
    if size is None or rows.count == DYNAMIC or rows.length == DYNAMIC:
        return True
    if size in (rows.count, rows.count * rows.length) or size <= rows.length:
        return True
    leading = 1
    for d in shape_of(value):
        if leading == rows.count:
            return True
        leading *= d
    return leading == rows.count


def _moves(op: TensorOp, rows: Rows | None) -> bool:
    """Whether an op moves elements from one row to another."""
    if access(op) not in (Access.MOVEMENT, Access.LOOKUP):
        return False
    if rows is None or not isinstance(op, SliceOp | SplitOp | ConcatOp | PadOp):
        return True
    if isinstance(op, SliceOp):
        axes = [b[0] for b in op.bounds() or ()]
    elif isinstance(op, PadOp):
        axes = list(op.ints("axes") or ())
    else:
        axes = [op.axis.value.data]
    shape = shape_of(op.operands[0])
    if not axes or not is_static(shape):
        return True
    first = min(normalize_axis(a, len(shape)) for a in axes)
    return numel(shape[:first]) % max(rows.count, 1) != 0


def too_large(body: Body, merger: Merger) -> bool:
    """Whether the values of even a small tile do not fit into the core's memory."""
    if not body.is_static:
        return len(body.inputs) + len(body.outputs) > 48
    return 2 * LEAST_TILE * VectorKernel(body, merger.target).width > merger.target.ub_bytes


# ---- candidates --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edge:
    """Two ops that may become one launch."""

    saved: int
    """Bytes of traffic that this saves."""
    first: Operation
    second: Operation


def _bytes(value: SSAValue) -> int:
    return byte_size(value.type) if is_static(shape_of(value)) else 0


def _users(merger: Merger, value: SSAValue, through_views: bool = False) -> list[Operation]:
    """The ops of the block that use a value (or its views), in order."""
    number = merger.groups.number
    found: set[Operation] = set()
    todo = [value]
    while todo:
        for use in todo.pop().uses:
            if (user := use.operation) not in number or user in found:
                continue
            if through_views and is_view(user):
                todo += user.results
            else:
                found.add(user)
    return sorted(found, key=number.__getitem__)


def edges_of(
    merger: Merger, ops: Iterable[Operation], shared: Iterable[SSAValue] = ()
) -> list[Edge]:
    """The pairs that ops of the vector unit make with the users of their results, and users of
    `shared` values with one another, those that save most first."""
    edges: list[Edge] = []
    values = dict.fromkeys(shared)
    for op in ops:
        values.update(dict.fromkeys(op.results))
        if is_vector_op(op):
            for value in op.results:
                users = _users(merger, value)
                vector = [u for u in users if is_vector_op(u)]
                saved = _bytes(value) * (2 if len(users) == len(vector) == 1 else 1)
                edges += [Edge(saved, op, user) for user in vector]
    for value in values:
        if isinstance(value.owner, Operation) and _is_free(value.owner):
            continue
        siblings = [u for u in _users(merger, value, through_views=True) if is_vector_op(u)]
        edges += [Edge(_bytes(value), a, b) for a, b in pairwise(siblings)]
    return sorted(edges, key=lambda e: -e.saved)


def _is_free(op: Operation) -> bool:
    """Whether sharing the op's results saves nothing: constants, and views (what they are of is
    shared instead)."""
    return isinstance(op, ConstantOp) or is_view(op)


def merge_edge(merger: Merger, edge: Edge) -> bool:
    """Merge the groups at the ends of an edge if they make one kernel."""
    groups = merger.groups
    first, second = groups.of(edge.first), groups.of(edge.second)
    if first is second or first.kind is not None or second.kind is not None:
        return False
    body = merger.body((first, second))
    if (why := mismatch(body)) is not None:
        merger.missed(edge.second, why, None)
        return False
    if too_large(body, merger):
        merger.missed(edge.second, "the values of a tile do not fit on the core", None)
        return False
    return merger.join(first, second, edge.second.name)


SWEEPS = 3
"""A pair that does not fit may fit when others have merged."""


def merge_edges(merger: Merger, edges: Sequence[Edge]) -> None:
    """Merge along edges, in order, until none is left that can."""
    for _ in range(SWEEPS):
        results = [merge_edge(merger, edge) for edge in edges]
        groups = merger.groups
        edges = [e for e in edges if groups.of(e.first) is not groups.of(e.second)]
        if not any(results):
            return
