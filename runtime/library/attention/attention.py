"""Attention: tiles of queries meet keys tile by tile (Dao et al., arXiv 2205.14135).

    cube      S = Q K^T      push          pop P, U = P V      push
    vector           pop S, P = exp(S * scale - m), push P          pop U, acc = acc * g + U

Vector cores that share a cube core have each some of the rows. The cube is two tiles of keys ahead,
so that it has work while the vector cores have the scores. m is the largest score of each row so
far, g = exp(m before - m) what sums relative to the one before are scaled by (Milakov and
Gimelshein, arXiv 1805.02867). m begins at the lowest number of float32 instead of -inf, so that
rows without a key get weights 0 and not nan. Positions are masked where a tile of keys has some to
leave out; tiles that no query of a tile sees are not loaded.

Where items have few tiles of keys, all scores of the next item come before values of this one:
neither kind of cores waits for what passes to the other one and back.

Where sizes are large, a tile of keys comes to L1 in pieces, and values are summed for some elements
after the others. Where queries are few, rows are those of several heads: `facts.py`.
Where cores have no equal number of tiles of queries, they share keys: `cores.py`.

Attention of integers rounds weights to integers from 0 to 255, relative to the largest score of
the keys so far, `KEYS` at a time: tiles have so many. The cube multiplies them as w - 128 by
values, and adds 128 times the sum of these: 64 times twice, so that all have 8 bits.

Scores and weights that have a grid are rounded to it as they come. That of weights takes all keys
in one tile, since these are divided by their sum before.

Weights of floats are rounded to the element type before they are multiplied. Where a mask of 16
bits is added, rows are rounded to its type while their largest score *so far* is low: see
`graph.attention`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, prod

from xdsl.dialects.builtin import bf16, f16, f32, i8
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.boxes import Access, Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, element_type, numel, shape_of
from ge.dialects.tile.types import BLOCK, FRACTAL, Memory
from ge.runtime.library.attention.cores import Cube, Splits, Vector, several, share_of, why_whole
from ge.runtime.library.attention.facts import (
    ALWAYS,
    AttentionFacts,
    AttentionSource,
    KeySegment,
    Mask,
    OperandRing,
    QueryTile,
    Way,
    heads_of,
    joined,
    segments_of,
)
from ge.runtime.library.attention.tiles import (
    AHEAD,
    ITEMS,
    KEYS,
    AttentionProblem,
    block_of,
    tiles_for,
)
from ge.runtime.library.language.indices import Index, Scalar, ceil_div
from ge.runtime.library.language.tracing import Queue, Tracer
from ge.runtime.library.language.values import Tile
from ge.runtime.library.launch import (
    Arguments,
    Launch,
    NotLowered,
    Written,
    decided,
    in_order,
    is_open,
)
from ge.runtime.library.programs import fitted_or_full
from ge.runtime.library.pulling import Pull, is_pointwise
from ge.runtime.library.tile_ops import GridOp

UNSURE = 0.005  # part of a time that its rough estimate does not tell: an assumption
PART = 4096  # elements of other results at a time
MOST_STEPS = 4  # tiles of keys of an item, of which those of several are on their way


def lower_attention(launch: Launch) -> Written:
    """Attention, the elementwise ops that compute its operands, and caches that are results,
    too."""
    (op,) = (op for op in launch.body.ops if isinstance(op, AttentionOp))
    if reason := unsupported(op):
        raise NotLowered(reason)
    for name in ("key_lengths", "length", "table"):
        if (value := getattr(op, name)) is not None:
            in_text = numel(shape_of(value)) == 1 and launch.constant(value) is not None
            if in_text or value not in launch.body.inputs:
                raise NotLowered(f"there is none for a `{name}` that is not in device memory")
    (result, last), segments = output_of(launch, op), segments_of(launch, op)
    known = all(part.key.is_input and part.value.is_input for part in segments)
    if op.grid("weight") is not None and len(segments) > 1:
        raise NotLowered("there is none for a grid of weights where keys are put together")
    if op.length is not None and (len(segments) > 1 or not known):
        raise NotLowered("there is none for a `length` of keys that are computed")
    masks = [Mask(v, launch) for v in op.masks]
    others = [out for out in launch.body.outputs if out is not result]
    ranked = ways(launch, op, segments)
    stays_whole = bool(why_whole(Attention(launch, op, result, masks, segments, ranked[0])))

    def may_be(way: Way) -> bool:
        return (last is op.result or way[0].count == 1) and not (way[3] > 1 and stays_whole)

    def written(way: Way) -> Written | Memory:
        heads, query, _, splits = way
        attention = Attention(launch, op, result, masks, segments, way)
        shapes: dict[SSAValue, Shape] = {v: (1,) for v in launch.body.inputs if not shape_of(v)}
        shapes[result] = heads.shape(op.sizes("result"))
        for name in ("key", "value") if op.table is not None else ():
            shapes[getattr(op, name)] = in_blocks(op, name)
        if query is not None:
            shapes[query] = heads.shape(op.sizes("query"))
        shapes |= {m.value: m.shape for m in attention.masks if m.number is None}
        cores = min(attention.items * splits, launch.target.cube_cores)
        found = Written(partial(attention.write, final=last, others=others), cores, shapes)
        alone = len(launch.body.ops) == 1 and splits == 1
        return found if alone else fitted_or_full(launch, found)

    return first_that_fits(list(filter(may_be, ranked)), written)


def first_that_fits(ranked: Sequence[Way], written: Callable[[Way], Written | Memory]) -> Written:
    """The program of the first way that has one; others have the memory that is full. Where tiles
    of so many rows do not fit, the smallest ones with as many are tried: if these do not, no others
    of as many rows or more do. Raises NotLowered."""
    most, tried = dict[int, int](), set[tuple[int, int]]()  # by heads in a tile
    full = list[Way]()  # of UB
    for way in ranked if is_open() else in_order(ranked, text_of):
        count, rows = kind = way[0].count, way[2].rows
        if rows >= most.get(count, rows + 1) or any(fills_ub_as(way, other) for other in full):
            continue
        if isinstance(found := written(way), Written):
            return found
        if found is Memory.UB:
            full.append(way)
        if kind not in tried:
            tried.add(kind)
            alike = [w for w in ranked if (w[0].count, w[2].rows) == kind]
            if not isinstance(written(min(alike, key=lambda w: (w[3], *w[2]))), Written):
                most[count] = rows
    raise NotLowered("no tiles fit beside those of what it is fused with")


def fills_ub_as(way: Way, other: Way) -> bool:
    """Return whether the buffers that a way has in UB are as large as those of another one, or
    larger: queries in L1, sums in L0C and parts in L0A and L0B may be others."""
    a, b = way[2], other[2]
    sizes = zip((*a[:6], a.copies, a.back), (*b[:6], b.copies, b.back), strict=True)
    return (*way[:2], way[3]) == (*other[:2], other[3]) and all(x >= y for x, y in sizes)


def text_of(way: Way) -> str:
    return f"{way[0].count} heads, {way[2]}, {way[3]} splits"


def ways(launch: Launch, op: AttentionOp, segments: list[KeySegment]) -> Sequence[Way]:
    """The tiles that fit, the fastest first, and which heads are in one. Raises NotLowered where
    none fits."""
    found: list[tuple[float, Way]] = []
    if is_open():
        same, _, tiles, splits = decided(lambda: found[0][1])
        pairs = heads_of(launch, op)
        return [
            (heads, query, tiles, splits) for heads, query in pairs if heads.count == same.count
        ]
    computed = any(s.value.is_computed for s in segments)
    for heads, query in heads_of(launch, op):
        problem = AttentionProblem.of(op, heads.count, heads.unit, computed)
        apart = heads.count > 1 and query is None  # rows that the vector cores compute
        if apart and not AttentionSource(op, "query", launch, op.query).is_computed:
            continue
        try:
            fit = list(tiles_for(problem, launch.target))
        except NotLowered:
            if heads.count == 1:
                raise
            continue
        if apart:  # each vector core has all heads, or some that no other one has
            own = [(f, f[1].rows // f[1].parts) for f in fit]
            fit = [f for f, n in own if heads.count <= n or heads.count % n == 0]
        whole = op.table is not None  # tiles of keys are blocks
        fit = [f for f in fit if f[1].piece == f[1].keys or not whole]
        found += [(cycles, (heads, query, tiles, splits)) for cycles, tiles, splits in fit]

    close = (1 + UNSURE) * min((f[0] for f in found), default=0.0)

    def rank(f: tuple[float, Way]) -> tuple[float, ...]:
        """A sort key: of those as fast as the fastest, as far as the estimate goes, the one with
        the fewest tiles of keys comes first."""
        return -f[1][2].keys if f[0] <= close else 0, f[0], -f[1][0].count

    return [way for _, way in sorted(found, key=rank)]


def output_of(launch: Launch, op: AttentionOp) -> tuple[SSAValue, SSAValue]:
    """The launch's result that is attention's, maybe in another shape, and the value computed from
    it by elementwise ops. Raises NotLowered where there is none, or others depend on it."""
    found = [out for out in launch.body.outputs if depends(out, op.result)]
    if len(found) != 1:
        raise NotLowered("there is none for several results of attention")
    last = found[0]
    while last is not op.result and (before := viewed(last)) is not None:
        last = before
    todo = [last]
    while todo:
        if (value := todo.pop()) is op.result or not depends(value, op.result):
            continue
        owner = value.owner
        assert isinstance(owner, TensorOp)
        by_elements = is_pointwise(owner) or isinstance(owner, GridOp)
        if not by_elements or shape_of(value) != shape_of(op.result):
            raise NotLowered("there is none for what uses attention's result")
        todo += owner.operands
    return found[0], last


def in_blocks(op: AttentionOp, name: str) -> Shape:
    """The shape in which the tokens of keys or values are split into blocks and places within a
    block."""
    shape, dim, block = list(shape_of(getattr(op, name))), op.dimension(name, 2), block_of(op)
    return (*shape[:dim], shape[dim] // block, block, *shape[dim + 1 :])


def shared(c: Tracer, count: int) -> Iterator[Index]:
    """The numbers below `count` that are this vector core's."""
    me, all_of_them = (c.core * c.parts + c.part if c.parts > 1 else c.core), c.cores * c.parts
    for turn in c.range(ceil_div(count - me, all_of_them)):
        yield me + turn * all_of_them


def viewed(value: SSAValue) -> SSAValue | None:
    """The operand that the value is a view of; None if it is no view."""
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
    """The reason why there is no program; "" if there may be one."""
    if element_type(op.query) not in (f16, bf16, f32, i8):
        return f"there is none for attention of {element_type(op.query)}"
    if op.rounded_weights.value.data and not op.is_integer:
        return "there is none for attention of floats whose weights are rounded"
    if op.offset_value is not None:
        return "there is none for attention with an `offset` that is computed"
    block = block_of(op)
    if op.table is not None and (op.is_integer or block % FRACTAL or block > KEYS[0]):
        return f"there is none for attention over blocks of {block} {element_type(op.key)}"
    return ""


def known(c: Tracer, number: Scalar) -> Scalar:
    """The number, computed before the loop whose conditions compare with it."""
    return c.now(number) if isinstance(number, Index) else number


@dataclass(frozen=True)
class SegmentPipeline:
    """Keys that stand in one tensor, and the buffers with which they are processed."""

    segment: KeySegment
    k: OperandRing
    v: OperandRing
    cube: Cube
    s: Tile
    p: Tile
    scores: Queue
    weights: Queue


@dataclass(frozen=True)
class KeyRange:
    """The tiles of a part that a tile of queries meets, from `first` on: numbers `begin` to `end`
    of the tiles of all parts."""

    part: SegmentPipeline
    first: Scalar
    masked: Scalar
    begin: Scalar
    end: Scalar

    def tile(self, number: Scalar) -> Scalar:
        """The number of the tile within its part."""
        return number if self.begin is self.first else number - self.begin + self.first


class Attention(AttentionFacts):
    """The program of one attention."""

    def write(
        self, c: Tracer, given: Arguments, final: SSAValue, others: Sequence[SSAValue]
    ) -> None:
        t = self.tiles
        pull = Pull(c, self.launch, given)
        whole = Cube(self, c, given, t)
        H, D = t.rows // c.split(), t.value_part
        u = c.ub(H, D, self.sums, copies=t.back)
        vector, sums = Vector(self, c, given, steps := self.few_steps), c.queue(u)
        count = 1 if self.query is not None else self.together.count
        source = AttentionSource(self.op, "query", self.launch, self.op.query, count)
        q = OperandRing(source, whole.Q, c, pull)
        met = self.parts(c, given, pull, whole)
        splits = Splits(self, c, vector, u) if self.splits > 1 else None
        if steps:
            self.write_ahead(c, given, (whole, q, vector), met[0], (u, sums), final)
        for i in c.share(self.items * self.splits) if not steps else ():
            at = self.place(c, given, c.now(i // self.splits) if splits else i)
            mine = self.own_rows(c, at, H)
            own = whole.queries(q, i, at)
            vector.begin(mine)
            rounds = self.rounds_of(c, met, at, i % self.splits if splits else None)
            for j in c.range(rounds[0].begin, rounds[-1].end + AHEAD):
                for r in rounds:
                    is_before = j < r.end
                    with c.when(is_before if r is rounds[0] else is_before & (j >= r.begin)):
                        part, tile = r.part, r.tile(j)
                        found = part.cube.scores(part.k, at, part.segment, tile, own, j)
                        part.scores.send(found, part.s[j])
                        vector.weights(mine, part.segment, tile, part.s[j], part.p[j], r.masked, j)
                        part.weights.push(part.p[j])
                b = j - AHEAD
                for r in rounds:
                    is_behind = j >= r.begin + AHEAD
                    last_one = r is rounds[-1]
                    with c.when(is_behind if last_one else is_behind & (j < r.end + AHEAD)):
                        part = r.part
                        self.bring_values(c, part, at, r.tile(b), b, (u, sums), vector)
            if splits:
                splits.store(i)
            else:
                self.end(c, given, vector, mine, final)
        if splits:
            c.barrier()
            for i in c.share(self.items):
                splits.merge(i)
                self.end(c, given, vector, self.own_rows(c, self.place(c, given, i), H), final)
        for value in others:
            self.write_other(c, pull, value)

    def bring_values(
        self,
        c: Tracer,
        part: "SegmentPipeline",
        at: QueryTile,
        tile: Scalar,
        number: Scalar,
        back: tuple[Tile, Queue],
        vector: Vector,
        is_first: bool = False,
    ) -> None:
        """Weigh the values of a tile, and add the sums; `number` is that of all tiles."""
        t, (u, sums) = self.tiles, back
        if not t.is_simple:
            part.weights.pop(part.cube.P[number])
        for some in several(c, t.value_size // t.value_part):
            is_whole = t.value_part == t.value_size
            turn, col = (number, 0) if is_whole else (some, some * t.value_part)
            weights = part.weights, turn, col, number
            sums.send(part.cube.values(part.v, at, part.segment, tile, *weights), u[turn])
            vector.add(number, u[turn], col, is_first)

    @cached_property
    def few_steps(self) -> int:
        """Number of tiles of keys of each item, where these are few, as many for all items, and lie
        in memory, and where cores have several items; else 0."""
        (segment, *others), op = self.segments, self.op
        count = segment.count
        told = op.key_lengths, op.length, op.table, self.weight_grid
        if others or any(x is not None for x in told) or max(self.left, self.right) >= 0:
            return 0
        query = AttentionSource(op, "query", self.launch, op.query)
        if any(source.is_computed for source in (query, segment.key, segment.value)):
            return 0
        if self.splits > 1 or is_open() or type(count) is not int:
            return 0
        steps = ceil(count / self.tiles.keys)
        several_items = self.items > self.launch.target.cube_cores
        return steps if several_items and steps <= MOST_STEPS else 0

    def write_ahead(
        self,
        c: Tracer,
        given: Arguments,
        ends: tuple[Cube, OperandRing, Vector],
        part: "SegmentPipeline",
        back: tuple[Tile, Queue],
        final: SSAValue,
    ) -> None:
        """All items of a core: scores of the next one come before values of the one before."""
        steps, (whole, q, vector) = self.few_steps, ends
        turns = known(c, ceil_div(self.items - c.core, c.cores))

        def places(i: Index) -> tuple[QueryTile, QueryTile]:
            at = self.place(c, given, i)
            return at, self.own_rows(c, at, vector.rows)

        for turn in c.range(turns + ITEMS - 1):
            with c.when(turn < turns):
                at, mine = places(i := c.nth(turn))
                own, first = whole.queries(q, i, at), c.now(turn * steps)
                masked = self.span(at, part.segment)[2]
                vector.turn_to(turn)
                for j in c.range(steps):
                    number = first + j
                    s, p = part.s[number], part.p[number]
                    found = part.cube.scores(part.k, at, part.segment, j, own, number)
                    part.scores.send(found, s)
                    for is_first, test in ((True, j < 1), (False, j >= 1)):
                        with c.when(test):
                            vector.weights(mine, part.segment, j, s, p, masked, j, first, is_first)
                    part.weights.push(p)
            with c.when(turn >= ITEMS - 1):
                at, mine = places(c.nth(before := turn - (ITEMS - 1)))
                first = c.now(before * steps)
                vector.turn_to(before)
                for j in c.range(steps):
                    for is_first, test in ((True, j < 1), (False, j >= 1)):
                        with c.when(test):
                            self.bring_values(c, part, at, j, first + j, back, vector, is_first)
                self.end(c, given, vector, mine, final)

    def rounds_of(
        self, c: Tracer, met: "Sequence[SegmentPipeline]", at: "QueryTile", split: "Scalar | None"
    ) -> "list[KeyRange]":
        """Ranges of the tiles of each part that queries at a place meet, one part behind the other;
        with `split` only the share of them that has this number."""
        rounds: list[KeyRange] = []
        for part in met:
            first, last, masked = self.span(at, part.segment)
            if split is not None:
                first, last = share_of(first, last, split, self.splits)
            first, last, masked = (known(c, n) for n in (first, last, masked))
            begin = rounds[-1].end if rounds else first
            end = last
            if rounds:  # numbers of the tiles of all parts
                end = known(c, begin + last - first)
                always = isinstance(masked, int) and masked == ALWAYS
                masked = ALWAYS if always else known(c, begin + masked - first)
            rounds.append(KeyRange(part, first, masked, begin, end))
        return rounds

    def parts(
        self, c: Tracer, given: Arguments, pull: Pull, whole: Cube
    ) -> "list[SegmentPipeline]":
        """A pipeline for each part of the keys; parts with tiles of one size share buffers."""
        table = None if self.op.table is None else given[self.op.table]
        alike: dict[int, tuple[Cube, Tile, Tile]] = {}
        queues: dict[int, tuple[Queue, Queue]] = {}
        found: list[SegmentPipeline] = []
        # keys that the vector cores compute come first, so that the cube has not to wait for them
        # with what follows; where nothing depends on which keys came before
        segments = self.segments
        if not why_whole(self):
            segments = sorted(segments, key=lambda s: not s.key.is_computed)
        for segment in segments:
            t = self.tiles_of(segment)
            if t.keys not in alike:
                H = t.rows // c.parts
                cube = whole if t is self.tiles else Cube(self, c, given, t, whole)
                s = c.ub(H, t.keys, self.sums, copies=t.copies)
                p = s if self.element == f32 else c.ub(H, t.keys, self.element, copies=t.copies)
                alike[t.keys] = cube, s, p
                depth = max(AHEAD + 1, ITEMS * self.few_steps)
                queues[t.keys] = c.queue(s, depth), c.queue(p, depth)
            (cube, s, p), both = alike[t.keys], queues[t.keys]
            k = OperandRing(segment.key, cube.K, c, pull, table)
            v = OperandRing(segment.value, cube.V, c, pull, table)
            found.append(SegmentPipeline(segment, k, v, cube, s, p, *both))
        return found

    def own_rows(self, c: Tracer, at: QueryTile, rows: int) -> QueryTile:
        """The queries of a tile that are this vector core's."""
        return at.rows_from(c.part * rows) if self.tiles.parts > 1 else at

    def end(
        self, c: Tracer, given: Arguments, vector: Vector, mine: QueryTile, final: SSAValue
    ) -> None:
        """Store the sums of the vector core."""
        for col, out in vector.end():
            tile = out
            if final is not self.op.result:
                ends = Pull(c, self.launch, given, given={self.op.result: out})
                tile = ends.tile(final, self.part(mine, col, out.shape))
            c.store(self.box(given[self.result], mine, tile, col), tile)

    def part(self, at: QueryTile, col: Scalar, shape: Shape) -> Box:
        """The box of the result that a tile is of."""
        spans = [(at.batch, 1), (at.head, 1), (at.row, shape[0]), (col, shape[1])]
        return Box.of([spans[self.op.dimension("result", i)] for i in range(4)])

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
                box = Box(tuple(reversed(offsets)), sizes)
                if source is value:
                    pull.store(value, box)
                    continue
                tile = pull.tile(source, box)
                to = [n + start if d == axis else n for d, n in enumerate(box.offsets)]
                there = pull.box(value, Box(tuple(to), sizes))
                if shape[axis] % sizes[axis]:  # the last box ends where the next part begins
                    ends = list(there.argument.shape)
                    ends[axis] = start + shape[axis]
                    there = replace(there, ends=tuple(ends))
                c.store(there, tile)
