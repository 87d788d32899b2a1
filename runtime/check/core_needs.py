"""How many elements of each value a core keeps at least while it works on one tile.

A tile is a run of consecutive elements of the longest value of a part of a kernel. `Needs` walks
the ops of the part backwards, from results to operands:

- every value has its share: some tile takes as many of its elements as the tile has of all;
- operands that are broadcast: the distinct elements below a run, counted for tiles at the begin,
  in the middle, at the end and across the edge of each dimension (their share, where an op works on
  rows that are not contiguous: a tile is then some of these rows);
- around a matmul, where a tile is 16 rows by some columns: one element for each of its columns;
- rows whole, and windows with the input that the first tile reaches. A tile that is shorter than
  a row, or than the rows that a window spans, passes them in parts: then the share counts, and
  that the parts suffice is assumed (`streamed` names the ops).

These are lower bounds. Assumed besides: movement (transposes, slices, gathers) and interpolation
bring no element into a tile that is not counted for their users.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.pooling import Pooling
from ge.dialects.graph.quantization import Granular, LookupOp, RequantizeOp
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.support.access import Access
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, normalize_axis, numel, shape_of

# The sizes of dimensions, and whether a value that is broadcast to them has elements of its own for
# each index
Dims = Sequence[tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class Columns:
    """The tile of a matmul: some contiguous places of its result, by some columns."""

    shape: Shape
    axis: int
    columns: int
    places: int  # 0 where places of one tile do not lie next to each other

    def below(self, shape: Shape) -> int:
        """Distinct elements of a value of this shape, broadcast to the matmul, in the tile."""
        dims = broadcast_dims(shape, self.shape)
        columns = self.columns if dims[self.axis][1] else 1
        others = [d for i, d in enumerate(dims) if i != self.axis]
        return columns * (distinct_below(others, self.places) if self.places else 1)


@dataclass
class Needs:
    """The least elements of the values of `ops` for tiles of `tile` of `elements` elements."""

    ops: Sequence[TensorOp]
    elements: int
    tile: int
    matmuls: Sequence[Columns] = ()
    counts: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    streamed: dict[TensorOp, None] = field(default_factory=dict[TensorOp, None])

    def __post_init__(self) -> None:
        rows = (rows_of(op) for op in self.ops)
        self.runs = all(r is None or r.contiguous for r in rows)
        for op in self.ops:
            for v in (*op.operands, *op.results):
                self.counts[v] = self.share(numel(shape_of(v)))
        for op in reversed(self.ops):
            if op.results:
                most = max(op.results, key=lambda r: self.counts[r])
                for i, v in enumerate(op.operands):
                    size = numel(shape_of(v))
                    if size > 1:
                        more = min(size, self.needed(op, i, most))
                        self.counts[v] = max(self.counts[v], more)

    def share(self, size: int) -> int:
        return min(size, -(-size * self.tile // self.elements))

    def needed(self, op: TensorOp, index: int, result: SSAValue) -> int:
        count, size = self.counts[result], numel(shape_of(op.operands[index]))
        total = max(numel(shape_of(result)), 1)
        # rounded down: the count has been rounded up, and the operand's own share is counted
        ratio = count * size // total
        match op.ACCESS:
            case Access.VIEW:
                return 0 if index else count
            case Access.MOVEMENT if isinstance(op, BroadcastToOp):
                return self.broadcast(op, index, result) if not index else 0
            case Access.MOVEMENT:
                return ratio if size < total else 0 if index else count
            case Access.LOOKUP:
                return self.broadcast(op, index, result) if index else count
            case Access.POINTWISE if isinstance(op, LookupOp) and index:
                return size
            case Access.POINTWISE:
                return max(ratio, self.broadcast(op, index, result))
            case Access.ROWS:
                return self.rows(op, index, count, total)
            case Access.WINDOW if isinstance(op, Pooling) and not index:
                return self.window(op, count)
            case _:
                return 0

    def broadcast(self, op: TensorOp, index: int, result: SSAValue) -> int:
        """Elements of an operand below a tile of the result, where it is known how they meet."""
        if isinstance(op, Granular) and index and op.block_size.value.data:
            blocks = op.meeting_shapes() if self.runs else None
            return (
                0
                if blocks is None
                else distinct_below(broadcast_dims(*blocks), self.run(self.counts[result]))
            )
        large, small = shape_of(result), broadcast_shape(op, index, shape_of(result))
        if small is None or not self.runs:
            return 0
        for matmul in self.matmuls:
            if matmul.shape == large:
                return 0 if small == large else matmul.below(small)
        return distinct_below(broadcast_dims(small, large), self.run(self.counts[result]))

    def run(self, count: int) -> int:
        runs = [p.columns if p.axis == len(p.shape) - 1 else p.places for p in self.matmuls]
        return min(count, *runs) if runs else count

    def rows(self, op: TensorOp, index: int, count: int, total: int) -> int:
        rows, size = rows_of(op), numel(shape_of(op.operands[index]))
        if rows is None or rows.length < 1:
            return 0
        touched = -(-count * rows.count // total)
        if self.share(rows.count * rows.length) < rows.length:
            self.streamed[op] = None
            return min(count, rows.length) if size == rows.length and index else 0
        if index:
            return size if size == rows.length else 0
        return touched * rows.length

    def window(self, op: Pooling, count: int) -> int:
        """The input below the first `count` places of a window, as far as they fill whole rows
        along the first spatial dimension."""
        inside, outside = shape_of(op.operands[0]), shape_of(op.results[0])
        window = op.window().resolved(inside[2:])
        rows = min(window.extent(0), inside[2]) * prod(inside[3:])
        if self.share(numel(inside)) < rows:
            self.streamed[op] = None
            return 0
        covered = [
            reached(window.kernel[i], window.dilations[i], window.strides[i], window.pads[i], n, d)
            for i, (n, d) in enumerate(zip(outside[2:], inside[2:], strict=True))
        ]
        inner = max(prod(outside[3:]), 1)
        plane = max(inner * outside[2], 1)
        if count >= plane:
            return count // plane * prod(covered)
        full = count // inner
        if not full:
            return 0
        first = reached(
            window.kernel[0], window.dilations[0], window.strides[0], window.pads[0], full,
            inside[2],
        )  # fmt: skip
        return first * prod(covered[1:])


def reached(kernel: int, dilation: int, stride: int, pad: int, places: int, size: int) -> int:
    """Distinct indices of a dimension below the first places of a window."""
    if dilation == 1 and stride <= kernel:
        return max(0, min(size, (places - 1) * stride + kernel - pad) - max(-pad, 0))
    below = {p * stride + k * dilation - pad for p in range(places) for k in range(kernel)}
    return sum(0 <= i < size for i in below)


def broadcast_shape(op: TensorOp, index: int, large: Shape) -> Shape | None:
    """The shape with which an operand broadcasts to a result; None where it does not."""
    small = shape_of(op.operands[index])
    if isinstance(op, GatherOp) and index:
        axis = op.axis.value.data
        small = (*(1,) * axis, *small, *(1,) * (len(large) - axis - len(small)))
    elif isinstance(op, RequantizeOp) and index > 1:
        pass  # one element
    elif isinstance(op, Granular | RequantizeOp) and index:
        axis = op.properties.get("axis")
        if not isinstance(axis, IntegerAttr) or len(small) != 1:
            return None
        at = normalize_axis(axis.value.data, len(large))
        small = (*(1,) * at, *small, *(1,) * (len(large) - at - 1))
    elif not isinstance(op, Elementwise | BroadcastToOp):
        return None
    padded = (*(1,) * (len(large) - len(small)), *small)
    fits = len(padded) == len(large) and all(
        a in (1, b) for a, b in zip(padded, large, strict=True)
    )
    return padded if fits else None


def broadcast_dims(small: Shape, large: Shape) -> list[tuple[int, bool]]:
    padded = (*(1,) * (len(large) - len(small)), *small)
    return [(b, a != 1 or b == 1) for a, b in zip(padded, large, strict=True)]


def distinct_below(dims: Dims, tile: int) -> int:
    """The most elements of a broadcast value below one of the tiles that are looked at."""
    total = prod(d for d, _ in dims)
    tile = min(tile, total)
    if not tile:
        return 0
    last = total // tile - 1
    starts = {0, min(1, last), last // 2, last}
    inner = 1
    for size, _ in reversed(dims):
        inner *= size
        starts.add(min((inner - 1) // tile, last))
    return max(distinct(dims, at * tile, (at + 1) * tile - 1) for at in starts)


def distinct(dims: Dims, first: int, last: int) -> int:
    """Distinct elements of a broadcast value below the indices `first` to `last`, in memory
    order."""
    if not dims:
        return 1
    (_, own), rest = dims[0], dims[1:]
    inner = prod(d for d, _ in rest)
    (a, low), (b, high) = divmod(first, inner), divmod(last, inner)
    if a == b:
        return distinct(rest, low, high)
    every = prod(d for d, kept in rest if kept)
    if own:
        return distinct(rest, low, inner - 1) + (b - a - 1) * every + distinct(rest, 0, high)
    return every if b - a > 1 else _at_both_ends(rest, high, low)


def _at_both_ends(dims: Dims, last: int, first: int) -> int:
    """As `distinct`, for the indices up to `last` together with those from `first` on."""
    if first <= last + 1:
        return prod(d for d, kept in dims if kept)
    (size, own), rest = dims[0], dims[1:]
    inner = prod(d for d, _ in rest)
    (a, high), (b, low) = divmod(last, inner), divmod(first, inner)
    every = prod(d for d, kept in rest if kept)
    whole = a + size - 1 - b
    if not own:
        return every if whole else _at_both_ends(rest, high, low)
    if a == b:
        return whole * every + _at_both_ends(rest, high, low)
    return whole * every + distinct(rest, 0, high) + distinct(rest, low, inner - 1)
