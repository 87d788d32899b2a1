"""Attention: tiles of queries meet keys tile by tile (Dao et al., arXiv 2205.14135).

    cube      S = Q K^T      push          pop P, U = P V      push
    vector           pop S, P = exp(S * scale - m), push P          pop U, acc = acc * g + U

Vector cores that share a cube core have each some of the rows. The cube is two tiles of keys ahead,
so that it has work while the vector cores have the scores. m is the largest score of each row so
far, g = exp(m before - m) what sums relative to the one before are scaled by (Milakov and
Gimelshein, arXiv 1805.02867). m begins at the lowest number of float32 instead of -inf, so that
rows without a key get weights 0 and not nan. Positions are masked where a tile of keys has some to
leave out; tiles that no query of a tile sees are not loaded.

Where sizes are large, a tile of keys comes to L1 in pieces, and values are summed for some elements
after the others. Where queries are few, rows are those of several heads: `attention_heads.py`.

Weights are rounded to the element type before they are multiplied. Where a mask of 16 bits is
added, rows are rounded to its type while their largest score *so far* is low: see
`graph.attention`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod, sqrt
from typing import TypeAlias

from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.access import Access
from ge.dialects.support.boxes import Box as Part
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, constant_value, element_type, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.lowering.kernels.attention_heads import Heads, heads_of
from ge.lowering.kernels.attention_operands import Operand, Segment, Source, joined, segments_of
from ge.lowering.kernels.attention_tiles import AHEAD, Problem, Tiles, tiles_for
from ge.lowering.kernels.launch import Arguments, Launch, NotLowered, Written
from ge.lowering.kernels.programs import bytes_left
from ge.lowering.kernels.pulling import Pull
from ge.lowering.tiles.indices import Index, Scalar, SharedIndex, ceil_div, minimum
from ge.lowering.tiles.indices import maximum as larger
from ge.lowering.tiles.tracing import Queue, Tracer
from ge.lowering.tiles.values import (
    Argument,
    Box,
    Expression,
    Tile,
    cast,
    columns,
    exp,
    maximum,
    rowmax,
    rowsum,
    tanh,
    where,
)
from ge.lowering.tiles.values import minimum as smaller

NONE, LOWEST = float("-inf"), -3.4028234663852886e38
PART = 4096  # elements of other results at a time
ALWAYS = -1  # a tile before all others
LOW = -1024.0  # rows whose scores are all below it are rounded: see `graph.attention`


def lower_attention(launch: Launch) -> Written:
    """Attention, what computes its operands by elements, and caches that are results, too."""
    (op,) = (op for op in launch.body.ops if isinstance(op, AttentionOp))
    if reason := unsupported(op):
        raise NotLowered(reason)
    if (lengths := op.key_lengths) is not None:
        in_text = numel(shape_of(lengths)) == 1 and launch.constant(lengths) is not None
        if in_text or lengths not in launch.body.inputs:
            raise NotLowered("there is none for `key_lengths` that are not in device memory")
    result, segments = output_of(launch, op), segments_of(launch, op)
    masks = [Mask(v, launch) for v in op.masks]
    others = [out for out in launch.body.outputs if out is not result]
    for way in ways(launch, op, segments):
        (heads, query, _), attention = way, Attention(launch, op, result, masks, segments, way)
        shapes = {result: heads.shape(op.sizes("result"))}
        if query is not None:
            shapes[query] = heads.shape(op.sizes("query"))
        shapes |= {m.value: m.shape for m in attention.masks if m.number is None}
        cores = min(attention.items, launch.target.cube_cores)
        written = Written(partial(attention.write, others=others), cores, shapes)
        if len(launch.body.ops) == 1 or min(bytes_left(launch, written).values()) >= 0:
            return written
    raise NotLowered("no tiles fit beside those of what it is fused with")


Way: TypeAlias = tuple[Heads, SSAValue | None, Tiles]


def ways(launch: Launch, op: AttentionOp, segments: list[Segment]) -> list[Way]:
    """The tiles that fit, the fastest first, and which heads are in one. Raises NotLowered where
    none fits."""
    computed = any(s.value.is_computed for s in segments)
    found: list[tuple[float, Way]] = []
    for heads, query in heads_of(launch, op):
        try:
            fit = tiles_for(Problem.of(op, heads.count, heads.unit, computed), launch.target)
        except NotLowered:
            if heads.count == 1:
                raise
            continue
        found += [(cycles, (heads, query, tiles)) for cycles, tiles in fit]
    return [way for _, way in sorted(found, key=lambda f: (f[0], -f[1][0].count))]


def output_of(launch: Launch, op: AttentionOp) -> SSAValue:
    """The launch's result that is attention's, maybe in another shape. Raises NotLowered where
    there is none, or others depend on it."""
    found = [out for out in launch.body.outputs if depends(out, op.result)]
    value = found[0] if len(found) == 1 else None
    while value is not None and value is not op.result:
        value = viewed(value)
    if value is None:
        raise NotLowered("there is none for what uses attention's result")
    return found[0]


def several(c: Tracer, count: int) -> Iterable[Scalar]:
    """The numbers below `count`; one alone takes no loop."""
    return c.range(count) if count > 1 else (0,)


def shared(c: Tracer, count: int) -> Iterator[Index]:
    """The numbers below `count` that are this vector core's."""
    me, all_of_them = (c.core * c.parts + c.part if c.parts > 1 else c.core), c.cores * c.parts
    for turn in c.range(ceil_div(count - me, all_of_them)):
        yield me + turn * all_of_them


def viewed(value: SSAValue) -> SSAValue | None:
    """What a value is a view of."""
    owner = value.owner
    if isinstance(owner, TensorOp) and owner.ACCESS is Access.VIEW:
        return owner.operands[0]
    return None


def depends(value: SSAValue, on: SSAValue) -> bool:
    operands = value.owner.operands if isinstance(value.owner, TensorOp) else ()
    return value is on or any(depends(v, on) for v in operands)


def parts(value: SSAValue, narrow: int) -> Shape:
    """Sizes of boxes in which a result is computed that is none of attention; the narrowest type on
    the way has as many bits."""
    *rest, row, size = (1, *shape_of(value))
    rows = min(row, max(PART // size, 1)) if size * narrow % (8 * BLOCK) == 0 else 1
    return (*(1 for _ in rest), rows, size)[-len(shape_of(value)) :]


def unsupported(op: AttentionOp) -> str:
    """Why there is no program."""
    if element_type(op.query) not in (f16, bf16, f32):
        return f"there is none for attention of {element_type(op.query)}"
    if op.rounded_weights.value.data or op.has_grids:
        return "there is none for attention that rounds scores or weights"
    for name in ("offset_value", "length", "table"):
        if getattr(op, name) is not None:
            return f"there is none for attention with `{name}`"
    return ""


class Mask:
    """One of attention's masks: a constant of one element, or a memref of four dimensions."""

    def __init__(self, value: SSAValue, launch: Launch) -> None:
        shape = shape_of(value)
        if value not in launch.body.inputs:
            raise NotLowered("there is none for masks that are computed")
        self.value, self.shape = value, (*(1,) * (4 - len(shape)), *shape)
        self.element = element_type(value)
        constant = launch.constant(value)
        dense = None if constant is None or numel(shape) > 1 else constant_value(constant.result)
        self.number = None if dense is None else float(dense.get_values()[0])
        if self.number is not None and self.element == i1:
            raise NotLowered("there is none for a mask of one truth value")

    def of(self, heads: Heads) -> "Mask":
        """As it is for rows of several heads."""
        new = copy(self)
        if heads.count > 1 and self.shape[1] > 1:
            new.shape = heads.shape(self.shape)
        return new

    def box(self, given: Argument, b: Scalar, h: Scalar, row: Scalar, key: Scalar) -> Box:
        at = [i if size > 1 else 0 for i, size in zip((b, h), self.shape, strict=False)]
        r, k = (i if size > 1 else 0 for i, size in zip((row, key), self.shape[2:], strict=True))
        return given[at[0], at[1], r:, k:]


def known(c: Tracer, number: Scalar) -> Scalar:
    """The number, computed before the loop whose conditions compare with it."""
    return c.now(number) if isinstance(number, Index) else number


@dataclass(frozen=True)
class Place:
    """What one tile of queries is: of which batch and heads, from which row on."""

    batch: Scalar
    head: Scalar  # of heads that are in one tile, the number of these
    row: Scalar
    keys: Scalar  # that take part
    offset: Scalar  # position of the first query among them

    def rows_from(self, more: Scalar) -> "Place":
        return replace(self, row=self.row + more)

    def count(self, part: Segment) -> Scalar:
        """Keys of a part that take part."""
        left = self.keys - part.start
        return min(part.count, left) if isinstance(left, int) else minimum(part.count, left)


class Attention:
    """The program of one attention."""

    def __init__(
        self,
        launch: Launch,
        op: AttentionOp,
        result: SSAValue,
        masks: list[Mask],
        segments: list[Segment],
        way: Way,
    ) -> None:
        self.launch, self.op, self.result = launch, op, result
        self.segments = segments
        self.together, self.query, self.tiles = heads, _, tiles = way
        self.masks = [mask.of(heads) for mask in masks]
        self.batch, all_heads, self.queries, self.size = op.sizes("query")
        _, key_heads, self.keys, self.value_size = op.sizes("value")
        self.heads = all_heads // heads.count
        self.sharing = self.heads // key_heads
        self.element = element_type(op.query)
        self.row_tiles = ceil(self.queries * heads.count / tiles.rows)
        self.items = self.batch * self.heads * self.row_tiles
        self.scale = 1 / sqrt(max(self.size, 1)) if op.scale is None else op.scale.value.data
        self.cap = op.softcap.value.data
        self.left, self.right = op.left_window.value.data, op.right_window.value.data
        if op.causal.value.data:
            self.right = min(self.right, 0) if self.right >= 0 else 0
        self.offset = (op.ints("offset") or (0,))[0]
        self.plain = not self.masks and self.cap <= 0 and self.scale > 0
        self.rounds = self.element != f32 and any(m.element == self.element for m in masks)

    # ---- which tiles ----

    def place(self, c: Tracer, given: Arguments, item: Scalar) -> Place:
        """Tiles that see most keys come first where their number differs: cores then end at about
        the same time."""
        heads = self.batch * self.heads
        head, tile = item % heads, self.row_tiles - 1 - item // heads
        batch, keys = head // self.heads, self.keys
        offset: Scalar = self.offset
        if self.op.key_lengths is not None:
            keys = c.now(c.read(given[self.op.key_lengths][batch], below=self.keys + 1))
            offset = offset if self.op.offset is not None else keys - self.queries
        return Place(batch, head % self.heads, tile * self.tiles.rows, keys, offset)

    def span(self, at: Place, part: Segment) -> tuple[Scalar, Scalar, Scalar]:
        """The tiles of some keys that a tile of queries meets, from the first to the one after the
        last; and from which one on some key may not take part (ALWAYS: in any)."""
        M, N = self.tiles.rows, self.tiles.keys
        first: Scalar = 0
        last, masked = ceil_div(at.count(part), N), at.count(part) // N
        if self.right >= 0:
            token, more = self.together.first_token(at.row), self.together.tokens_of(M) - 1
            seen = token + at.offset + (self.right + 1 - part.start)  # that the first query sees
            last = minimum(last, (seen + (more + N - 1)) // N)
            masked = minimum(masked, seen // N)
        if self.left >= 0:
            token = self.together.first_token(at.row)
            first, masked = larger(0, (token + at.offset - (self.left + part.start)) // N), ALWAYS
        return first, last, masked

    # ---- the program ----

    def write(self, c: Tracer, given: Arguments, others: Sequence[SSAValue]) -> None:
        t, element = self.tiles, self.element
        pull = Pull(c, self.launch, given)
        cube = Cube(self, c, given)
        H, D = t.rows // c.split(), t.value_part
        s, u = c.ub(H, t.keys, f32, copies=t.copies), c.ub(H, D, f32, copies=t.back)
        p = s if element == f32 else c.ub(H, t.keys, element, copies=t.copies)
        vector = Vector(self, c, given)
        scores, weights, sums = c.queue(s, AHEAD + 1), c.queue(p, AHEAD + 1), c.queue(u, 2)
        q = Operand(Source(self.op, "query", self.launch, self.op.query), cube.Q, c, pull)
        keys = [Operand(part.key, cube.K, c, pull) for part in self.segments]
        values = [Operand(part.value, cube.V, c, pull) for part in self.segments]
        for i in c.share(self.items):
            at = self.place(c, given, i)
            mine = at.rows_from(c.part * H) if t.parts > 1 else at
            own = cube.queries(q, i, at)
            vector.begin(mine)
            for part, k, v in zip(self.segments, keys, values, strict=True):
                first, last, masked = (known(c, n) for n in self.span(at, part))
                for j in c.range(first, last + AHEAD):
                    with c.when(j < last):
                        scores.send(cube.scores(k, at, part, j, own), s[j])
                        vector.weights(mine, part, j, s[j], p[j], masked)
                        weights.push(p[j])
                    with c.when(j >= first + AHEAD):
                        b = j - AHEAD
                        if not t.is_simple:
                            weights.pop(cube.P[b])
                        for some in several(c, t.value_size // D):
                            turn, col = (b, 0) if D == t.value_size else (some, some * D)
                            sum = cube.values(v, at, part, b, weights, turn, col)
                            sums.send(sum, u[turn])
                            vector.add(b, u[turn], col)
            for col, tile in vector.end():
                c.store(self.box(given[self.result], mine, tile, col), tile)
        for value in others:
            self.write_other(c, pull, value)

    def write_other(self, c: Tracer, pull: Pull, value: SSAValue) -> None:
        """A result that is none of attention, such as a cache: put together, or computed."""
        widths = [bitwidth(element_type(r)) for op in self.launch.body.ops for r in op.results]
        for source, axis, start in joined(self.launch, value):
            shape, sizes = shape_of(source), parts(source, min(widths))
            counts = [ceil(d / n) for d, n in zip(shape, sizes, strict=True)]
            for i in shared(c, prod(counts)):
                offsets, left = list[Scalar](), c.now(i)
                for count, size in zip(reversed(counts), reversed(sizes), strict=True):
                    offsets.append(left % count * size if count > 1 else 0)
                    left = c.now(left // count) if count > 1 else left
                box = Part(tuple(reversed(offsets)), sizes)
                if source is value:
                    pull.store(value, box)
                    continue
                tile = pull.tile(source, box)
                to = [n + start if d == axis else n for d, n in enumerate(box.offsets)]
                c.store(pull.box(value, Part(tuple(to), sizes)), tile)

    def box(self, given: Argument, at: Place, tile: Tile, col: Scalar = 0) -> Box:
        """The box of query or result that a tile is of, from a column on."""
        return self.together.box(given, at.batch, at.head, at.row, col, tile.shape)


class Cube:
    """Products of a tile of queries and keys, of weights and values: in L1 are pieces of keys and
    values."""

    def __init__(self, attention: Attention, c: Tracer, given: Arguments) -> None:
        t, element = attention.tiles, attention.element
        self.a, self.c, self.given = attention, c, given
        M, N, n, D = t.rows, t.keys, t.piece, t.value_part
        self.Q, self.K = c.l1(M, t.size, element, t.own), c.l1(n, t.size, element, copies=2)
        self.V, self.P = c.l1(n, D, element, copies=2), c.l1(M, N, element, copies=2)
        self.S, self.U = (c.l0c(M, size, f32, copies=t.sums) for size in (N, D))

    def queries(self, q: Operand, turn: SharedIndex, at: Place) -> Tile:
        if self.a.query is None:
            return q.load(turn, at.batch, at.head, at.row)
        tile = self.Q[turn]
        return self.c.load(tile, self.a.box(self.given[self.a.query], at, tile), pad=0)

    def scores(self, k: Operand, at: Place, part: Segment, j: Scalar, own: Tile) -> Tile:
        t, head, sums = self.a.tiles, at.head // self.a.sharing, self.S[j]
        for piece in several(self.c, t.keys // t.piece):
            turn, first = (j, 0) if t.piece == t.keys else (piece, piece * t.piece)
            keys = k.load(turn, at.batch, head, part.key_token + j * t.keys + first)
            some = sums if t.piece == t.keys else sums.part(0, first, (t.rows, t.piece))
            self.c.mmad(some, own, keys.T, init=True, k=t.size_part)
        return sums

    def values(
        self,
        v: Operand,
        at: Place,
        part: Segment,
        j: Scalar,
        fifo: Queue,
        turn: Scalar,
        col: Scalar,
    ) -> Tile:
        """What weights make of some elements of the values, from a column on. Values that are one
        tile are loaded before the weights are there."""
        t, head, sums = self.a.tiles, at.head // self.a.sharing, self.U[turn]
        for piece in several(self.c, t.keys // t.piece):
            copy, first = (turn, 0) if t.piece == t.keys else (piece, piece * t.piece)
            token = part.value_token + j * t.keys + first
            values, weights = v.load(copy, at.batch, head, token, col), self.P[j]
            if t.is_simple:
                fifo.pop(weights)
            some = weights if t.piece == t.keys else weights.part(0, first, (t.rows, t.piece))
            self.c.mmad(sums, some, values, init=piece == 0, k=t.key_part)
        return sums


class Vector:
    """The softmax of rows whose scores come in tiles, and what it weighs."""

    def __init__(self, attention: Attention, c: Tracer, given: Arguments) -> None:
        t = attention.tiles
        self.a, self.c, self.given = attention, c, given
        M, N, D = t.rows // t.parts, t.keys, t.value_size
        self.rows = M
        self.acc, self.total = c.ub(M, D, f32), c.ub(M, 1, f32)
        self.top, self.new = c.ub(M, 1, f32), c.ub(M, 1, f32)
        self.factor = c.ub(M, 1, f32, copies=AHEAD + 1)
        is_f32 = attention.element == f32
        self.out = self.acc if is_f32 else c.ub(M, t.value_part, attention.element)
        self.masks: list[Tile | None] = []
        for m in attention.masks:
            shape = (M if m.shape[2] > 1 else 1, N if m.shape[3] > 1 else 1)
            self.masks.append(c.ub(*shape, m.element, copies=2) if m.number is None else None)
        self.bounds: list[tuple[Tile, bool]] = []  # the last or the first key of each row
        if attention.left >= 0:
            self.bounds.append((c.ub(M, 1, "i32"), False))
        if attention.right >= 0:
            self.bounds.append((c.ub(M, 1, "i32"), True))

    def begin(self, at: Place) -> None:
        a, M = self.a, self.rows
        self.top[:], self.total[:], self.acc[:] = LOWEST, 0, 0
        for bound, is_last in self.bounds:
            offset = at.offset + (a.right if is_last else -a.left)
            token = a.together.positions(M, at.row, offset)
            bound[:] = smaller(token, a.keys - 1) if is_last else maximum(token, 0)

    def weights(
        self, at: Place, part: Segment, j: Scalar, s: Tile, p: Tile, masked: Scalar
    ) -> None:
        a, scale = self.a, self.a.scale
        if not a.plain:
            s[:] = self.biased(at, j, part.start + j * a.tiles.keys, s)
            scale = 1.0
        self.leave_out(at, part, j, s, masked)
        self.raise_top(rowmax(s) * scale if scale != 1 else rowmax(s), s)
        self.factor[j] = exp(self.top - self.new)
        self.top[:] = self.new
        s[:] = exp((s * scale if scale != 1 else s) - self.top)
        self.total[:] = self.total * self.factor[j] + rowsum(s)
        if a.element != f32:
            p[:] = cast(s, a.element)

    def biased(self, at: Place, j: Scalar, key: Scalar, s: Tile) -> Expression:
        a = self.a
        x = s * a.scale
        if a.cap > 0:
            x = tanh(s * (a.scale / a.cap)) * a.cap
        for mask, ring in zip(a.masks, self.masks, strict=True):
            if mask.number is not None:
                x = x + mask.number
                continue
            assert ring is not None
            box = mask.box(self.given[mask.value], at.batch, at.head, at.row, key)
            tile = self.c.load(ring[j], box, pad=0)
            if tile.element == i1:
                x = where(tile, x, a.op.fill.value.data)
            else:
                x = x + (tile if tile.element == f32 else cast(tile, f32))
        return x

    def leave_out(self, at: Place, part: Segment, j: Scalar, s: Tile, masked: Scalar) -> None:
        """Keys that do not take part."""
        N, count = self.a.tiles.keys, at.count(part)
        ends_within = not isinstance(count, int) or count % N != 0
        if not self.bounds and not ends_within:
            return
        always = isinstance(masked, int) and masked == ALWAYS
        with nullcontext() if always else self.c.when(j >= masked):
            for bound, is_last in self.bounds:
                key = columns(N, part.start + j * N)
                s[:] = where(key <= bound if is_last else key >= bound, s, NONE)
            if ends_within:
                s[:] = where(columns(N, j * N - count) < 0, s, NONE)

    def raise_top(self, top: Expression, s: Tile) -> None:
        new, element = self.new, self.a.element
        new[:] = maximum(self.top, top)
        if self.a.rounds:
            s[:] = where(new < LOW, cast(cast(s, element), f32), s)
            new[:] = where(new < LOW, maximum(cast(cast(new, element), f32), LOWEST), new)

    def add(self, j: Scalar, u: Tile, col: Scalar) -> None:
        """What comes back of some elements, from a column on."""
        acc = self.some(col)
        acc[:] = acc * self.factor[j] + u

    def some(self, col: Scalar) -> Tile:
        shape = self.rows, self.a.tiles.value_part
        return self.acc if shape == self.acc.shape else self.acc.part(0, col, shape)

    def end(self) -> Iterator[tuple[Scalar, Tile]]:
        """The result, some elements after the other. Rows without a key have no weights: 0, or nan
        where `undefined` says so."""
        total, undefined, t = self.total, self.a.op.undefined.data, self.a.tiles
        if undefined == "zero":
            total[:] = maximum(total, 1e-30)
        for some in several(self.c, t.value_size // t.value_part):
            acc = self.some(some * t.value_part)
            result: Expression = acc / total
            if undefined == "guard":
                result = where(total > 0, result, 0.0)
            out = acc if self.out is self.acc else self.out
            out[:] = result if self.out is self.acc else cast(result, self.a.element)
            yield some * t.value_part, out
