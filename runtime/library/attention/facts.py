"""Facts that the program of one attention depends on, and the tiles of queries and keys that meet.

Heads that share keys may be rows of one tile, so that their keys are loaded once. Where queries are
few, as when tokens are generated one by one, a tile of one head's queries would be nearly empty,
and each head would load the keys again. The memrefs of query and result are seen in another shape
then, in which the rows of a tile stand side by side:

    [B, H, Q, E] as [B, H / n, n Q, E]      tokens of a head stand together, or there is one token
    [B, Q, H, E] as [B, Q, H / n, n, E]     heads of a token do: those of several are a box

A fused kernel may see query, key and value through views and moves, which only say where a box
lies, and may compute them (biases, casts): the vector core does that by tiles, and a fifo takes
them to the cube. Keys and values may be put together of a cache and new ones: each is met in its
own place."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, sqrt
from typing import Any, TypeAlias

from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import OpResult, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.boxes import Access, Box, plus
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.tile.instruction import zero_of
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.attention.tiles import AttentionTiles, largest
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div, maximum, minimum
from ge.runtime.library.language.tracing import Queue, Tracer
from ge.runtime.library.language.values import Argument, Subview, Tile
from ge.runtime.library.launch import Arguments, Launch, NotLowered
from ge.runtime.library.pulling import Pull
from ge.runtime.library.tile_ops import long_dims, place_of

MOST = 128  # rows that several heads have together


@dataclass(frozen=True)
class Heads:
    """`count` heads of `tokens` queries each; `inner`: those of a token stand together."""

    count: int
    tokens: int
    tokens_first: bool

    @property
    def inner(self) -> bool:
        return self.tokens_first and self.count > 1 and self.tokens > 1

    @property
    def unit(self) -> int:
        """Rows of tiles are multiples of it."""
        return self.count if self.inner else 1

    def shape(self, sizes: Shape) -> Shape:
        """Shape of the memref of these sizes: batch, heads, tokens and elements."""
        batch, heads, tokens, size = sizes
        if self.inner:
            return batch, tokens, heads // self.count, self.count, size
        if self.count > 1:
            return batch, heads // self.count, self.count * tokens, size
        return (batch, tokens, heads, size) if self.tokens_first else sizes

    def box(
        self, given: v.Argument, batch: Scalar, head: Scalar, row: Scalar, col: Scalar, size: Shape
    ) -> v.Subview:
        """The box of a tile of this size, whose rows begin at `row` of those of all these heads."""
        if self.inner:
            box = given[batch, row // self.count :, head, 0:, col:]
            return box.sized(size[0] // self.count, self.count, size[1])
        if self.tokens_first and self.count == 1:
            return given[batch, row:, head, col:]
        return given[batch, head, row:, col:]

    def first_token(self, row: Scalar) -> Scalar:
        """The least token of a tile of rows."""
        if self.count == 1:
            return row
        return row // self.count if self.inner else 0

    def tokens_of(self, rows: int) -> int:
        """Most tokens in a tile of so many rows."""
        if self.count == 1:
            return rows
        return rows // self.count if self.inner else self.tokens

    def positions(self, rows: int, row: Scalar, offset: Scalar) -> v.Expression:
        """The token of each row, and an offset to it."""
        if self.count == 1:
            return v.rows(rows, row + offset)
        if self.inner:
            return divided(v.rows(rows, row + offset * self.count), self.count)
        heads = divided(v.rows(rows, row), self.tokens)
        return v.rows(rows, row + offset) - heads * self.tokens


def divided(x: v.Expression, by: int) -> v.Expression:
    """Rounded down."""
    near = (v.cast(x, "f32") + 0.5) * (1 / by)
    return v.cast(v.unary(FloorOp, near), i32)


def heads_of(launch: Launch, op: AttentionOp) -> Iterator[tuple[Heads, SSAValue | None]]:
    """The heads that a tile may have, and the input whose memref is seen in another shape; None for
    one token that is computed, whose heads are rows of a box."""
    _, heads, tokens, _ = op.sizes("query")
    first = op.tokens_first("query")
    yield Heads(1, tokens, op.tokens_first("result")), None
    query = plain_query(launch, op)
    group = heads // max(op.sizes("key")[1], 1)
    if tokens > 1 and (query is None or first != op.tokens_first("result")):
        return
    for mask in op.masks:
        _, mask_heads, mask_rows, _ = (*(1,) * (4 - len(shape_of(mask))), *shape_of(mask))
        if mask_rows > 1 or (mask_heads > 1 and tokens > 1):
            return
    for count in range(2, group + 1):
        if group % count == 0 and count * tokens <= MOST:
            yield Heads(count, tokens, first), query


def plain_query(launch: Launch, op: AttentionOp) -> SSAValue | None:
    """The input that the query is, maybe in another shape, if nothing else has its memref."""
    value = op.query
    while value not in launch.body.inputs:
        owner = value.owner
        if not isinstance(owner, TensorOp) or owner.ACCESS is not Access.VIEW:
            return None
        if len(list(value.uses)) > 1 or value in launch.body.outputs:
            return None
        value = owner.operands[0]
    memref = launch.operands[value]
    alone = sum(operand is memref for operand in launch.operands.values()) == 1
    return value if alone and len(list(value.uses)) == 1 else None


PLACES = frozenset((Access.VIEW, Access.MOVEMENT))


def seen_through(launch: Launch, value: SSAValue, box: Box) -> tuple[SSAValue, Box]:
    """The value that a box of a value is a box of, through views and moves that keep its rows and
    its columns."""
    while isinstance(value, OpResult) and value not in launch.body.inputs:
        op = value.op
        if not isinstance(op, TensorOp) or op.ACCESS not in PLACES:
            break
        if (needed := place_of(op, box, value.index)) is None:
            break
        value, box = op.operands[0], needed
    return value, box


@dataclass
class AttentionSource:
    """One of the operands, or its part from one token on: `value`, [B, H, T, E] or with heads and
    tokens exchanged."""

    op: AttentionOp
    name: str
    launch: Launch
    value: SSAValue

    heads: int = 1  # of one token each, that are rows of a tile

    @property
    def tokens(self) -> int:
        """Rows that there are for a tile."""
        return self.heads if self.heads > 1 else self.extent

    @property
    def extent(self) -> int:
        return shape_of(self.value)[self.op.dimension(self.name, 2)]

    @property
    def size(self) -> int:
        return shape_of(self.value)[3]

    def box(self, batch: Scalar, head: Scalar, token: Scalar, rows: int) -> Box:
        if self.heads > 1:
            first = head * self.heads + token
            if self.op.tokens_first(self.name):
                return Box((batch, 0, first, 0), (1, 1, rows, self.size))
            return Box((batch, first, 0, 0), (1, rows, 1, self.size))
        if self.op.tokens_first(self.name):
            return Box((batch, token, head, 0), (1, rows, 1, self.size))
        return Box((batch, head, token, 0), (1, 1, rows, self.size))

    @property
    def is_input(self) -> bool:
        return self.value in self.launch.body.inputs

    @property
    def is_computed(self) -> bool:
        """True if the vector core has to compute tiles of it. Raises NotLowered if it cannot."""
        if self.is_input:
            return False
        if self.size == 1:
            raise NotLowered("elements of size 1 are not seen through views")
        found, box = seen_through(self.launch, self.value, self.box(0, 0, 0, FRACTAL))
        dims = long_dims(box)
        if found in self.launch.body.inputs and len(dims) == 2:
            if self.name != "value" or shape_of(found)[dims[0]] == self.extent:
                return False
        width = bitwidth(element_type(self.value)) // 8
        if self.size % FRACTAL or self.size * width % BLOCK:
            text = f"computed operands have sizes of multiples of {FRACTAL}"
            raise NotLowered(f"{text}, not {self.size}")
        return True


@dataclass
class KeySegment:
    """Keys that stand in one tensor, and so do their values. `start`: the first of them;
    `key_token`, `value_token`: where that one is in its tensor."""

    start: int
    count: int
    key: AttentionSource
    key_token: int
    value: AttentionSource
    value_token: int


def segments_of(launch: Launch, op: AttentionOp) -> list[KeySegment]:
    """Segments of keys and values: a cache and new tokens are read where they are."""
    keys, values = pieces(launch, op, "key"), pieces(launch, op, "value")
    longer = max(keys, values, key=len)
    starts = list(accumulate((s.tokens for s in longer[:-1]), initial=0))
    found: list[KeySegment] = []
    for i, (start, source) in enumerate(zip(starts, longer, strict=True)):
        at: list[tuple[AttentionSource, int]] = []
        for those in (keys, values):
            if len(those) > 1 and [s.tokens for s in those] != [s.tokens for s in longer]:
                raise NotLowered("keys and values are put together of other parts")
            at.append((those[i], 0) if len(those) > 1 else (those[0], start))
        found.append(KeySegment(start, source.tokens, *at[0], *at[1]))
    return found


def joined(launch: Launch, value: SSAValue) -> list[tuple[SSAValue, int, int]]:
    """Parts that a value is concatenated of: each part, the dimension, and where it begins."""
    owner = value.owner
    if not isinstance(owner, ConcatOp) or value in launch.body.inputs:
        return [(value, 0, 0)]
    found: list[tuple[SSAValue, int, int]] = []
    axis, start = owner.axis.value.data % len(shape_of(value)), 0
    for part in owner.operands:
        found += [(part, axis, start)] if shape_of(part)[axis] else []
        start += shape_of(part)[axis]
    return found


def pieces(launch: Launch, op: AttentionOp, name: str) -> list[AttentionSource]:
    value: SSAValue = getattr(op, name)
    parts = joined(launch, value)
    if parts[0][1] != op.dimension(name, 2):  # not one token after the other
        parts = [(value, 0, 0)]
    return [AttentionSource(op, name, launch, part) for part, _, _ in parts]


class OperandRing:
    """A source in a program: tiles of it in a ring of L1."""

    def __init__(
        self,
        source: AttentionSource,
        ring: Any,
        c: Tracer,
        pull: Pull,
        table: v.Argument | None = None,
    ) -> None:
        self.source, self.c, self.pull, self.ring, self.table = source, c, pull, ring, table
        self.shape: v.Shape = ring.type.shape
        self.rows = self.shape[0] // c.parts  # that one vector core computes
        self.queue: Queue | None = None
        self.few: v.Tile | None = None  # where these are more than all tokens
        if source.is_computed:
            self.queue = c.queue(ring)
            if source.tokens < self.rows or source.heads == self.rows:
                self.few = c.ub(self.rows, self.shape[1], element_type(source.value))

    def load(
        self, copy: Scalar, batch: Scalar, head: Scalar, token: Scalar, col: Scalar = 0
    ) -> v.Tile:
        """The tile from a token and an element on, in a copy of the ring. Beyond the last token it
        is 0 for values, which weights of 0 multiply, and of no meaning for others."""
        source, tile = self.source, self.ring[copy]
        if self.queue is not None:
            self.queue.push(self.computed(batch, head, token))
            return self.queue.pop(tile)
        if self.table is not None:
            return self.c.load(tile, self.in_block(batch, head, token, col), pad=0)
        box = source.box(batch, head, token, self.shape[0])
        if self.shape[1] < source.size:
            box = Box.of([*box.spans[:3], (col, self.shape[1])])
        value, box = seen_through(source.launch, source.value, box)
        argument, ends = self.pull.arguments[value], tuple[Scalar, ...]()
        dims = box_dims(source) if source.is_input else tuple(long_dims(box))
        if source.size % self.shape[1] and not source.is_input:  # its neighbour is another one
            end = plus(box.offsets[dims[1]], source.size - col)
            ends = tuple(end if i == dims[1] else d for i, d in enumerate(argument.shape))
        place = v.Subview(argument, box.offsets, dims, (1,) * len(box.sizes), ends)
        return self.c.load(tile, place, pad=0)

    def in_block(self, batch: Scalar, head: Scalar, token: Scalar, col: Scalar) -> v.Subview:
        """The box of a tile that is a block, or ends in one: the table says where it lies."""
        assert self.table is not None
        blocks, rows = self.table.shape[0], self.shape[0]
        number = ceil_div(token, rows)
        block = self.c.now(self.c.read(self.table[number], below=blocks))
        argument = self.pull.arguments[self.source.value]
        if self.source.op.tokens_first(self.source.name):
            return argument[batch, block, token - number * rows :, head, col:]
        return argument[batch, head, block, token - number * rows :, col:]

    def computed(self, batch: Scalar, head: Scalar, token: Scalar) -> v.Tile:
        """The rows of a tile that are this vector core's. If all tokens are fewer, each core has
        them: those that stand for others are as little used as rows beyond the last one."""
        source, rows = self.source, self.rows
        zero = zero_of(element_type(source.value))
        if self.few is not None:
            self.few[:] = zero
            some = self.few.part(0, 0, (source.tokens, source.size))
            self.pull.tile(source.value, source.box(batch, head, 0, source.tokens), into=some)
            return self.few
        token = token + self.c.part * rows if self.c.parts > 1 else token
        box, size = source.box(batch, head, token, rows), source.size
        wide = align_up(size, BLOCK * 8 // narrowest(source.launch, source.value))
        tile = self.pull.tile(source.value, Box.of([*box.spans[:3], (0, wide)]))
        tile = tile if wide == size else tile.part(0, 0, (rows, size))
        if source.name == "value" and source.tokens % self.shape[0]:
            tile[:] = v.where(v.rows(rows, token - source.tokens) < 0, tile, zero)
        return tile


def narrowest(launch: Launch, value: SSAValue) -> int:
    """The least bits of an element of the values that a value is computed of."""
    op, bits = value.owner, bitwidth(element_type(value))
    if value in launch.body.inputs or not isinstance(op, TensorOp):
        return bits if launch.constant(value) is None else 32
    return min(bits, *(narrowest(launch, v) for v in op.operands))


def box_dims(source: AttentionSource) -> tuple[int, int]:
    """The dimensions of rows and elements."""
    by_tokens = source.op.tokens_first(source.name) != (source.heads > 1)
    return (1, 3) if by_tokens else (2, 3)


ALWAYS = -1  # a tile before all others

Way: TypeAlias = tuple[Heads, SSAValue | None, AttentionTiles, int]
"""How many heads are in a tile, the input whose memref has another shape for it, the tiles, and how
many cores share the keys of one."""


class Mask:
    """One of attention's masks: a constant of one element, or a memref of four dimensions."""

    def __init__(self, value: SSAValue, launch: Launch) -> None:
        shape = shape_of(value)
        if value not in launch.body.inputs:
            raise NotLowered("there is none for masks that are computed")
        self.value, self.shape = value, (*(1,) * (4 - len(shape)), *shape)
        self.element = element_type(value)
        self.number = launch.number(value)
        if self.number is not None and self.element == i1:
            raise NotLowered("there is none for a mask of one truth value")

    def of(self, heads: Heads) -> "Mask":
        """A copy of the mask for rows of several heads."""
        new = copy(self)
        if heads.count > 1 and self.shape[1] > 1:
            new.shape = heads.shape(self.shape)
        return new

    def box(self, given: Argument, b: Scalar, h: Scalar, row: Scalar, key: Scalar) -> Subview:
        at = [i if size > 1 else 0 for i, size in zip((b, h), self.shape, strict=False)]
        r, k = (i if size > 1 else 0 for i, size in zip((row, key), self.shape[2:], strict=True))
        return given[at[0], at[1], r:, k:]


@dataclass(frozen=True)
class QueryTile:
    """The place of one tile of queries: its batch and heads, and its first row."""

    batch: Scalar
    head: Scalar  # of heads that are in one tile, the number of these
    row: Scalar
    keys: Scalar  # that take part
    offset: Scalar  # position of the first query among them

    def rows_from(self, more: Scalar) -> "QueryTile":
        return replace(self, row=self.row + more)

    def count(self, part: KeySegment) -> Scalar:
        """Keys of a part that take part."""
        left = self.keys - part.start
        return min(part.count, left) if isinstance(left, int) else minimum(part.count, left)


class AttentionFacts:
    """Facts that the program of one attention depends on."""

    def __init__(
        self,
        launch: Launch,
        op: AttentionOp,
        result: SSAValue,
        masks: list[Mask],
        segments: list[KeySegment],
        way: Way,
    ) -> None:
        self.launch, self.op, self.result = launch, op, result
        self.segments = segments
        self.together, self.query, self.tiles, self.splits = heads, _, tiles, _ = way
        self.masks = [mask.of(heads) for mask in masks]
        self.batch, all_heads, self.queries, self.size = op.sizes("query")
        _, key_heads, self.keys, self.value_size = op.sizes("value")
        self.heads = all_heads // heads.count
        self.sharing = self.heads // key_heads
        self.element, self.result_element = element_type(op.query), element_type(op.result)
        self.sums = i32 if op.is_integer else f32  # what those of the cube are of
        self.row_tiles = ceil(self.queries * heads.count / tiles.rows)
        self.items = self.batch * self.heads * self.row_tiles
        self.scale = 1 / sqrt(max(self.size, 1)) if op.scale is None else op.scale.value.data
        self.cap = op.softcap.value.data
        self.left, self.right = op.left_window.value.data, op.right_window.value.data
        if op.causal.value.data:
            self.right = min(self.right, 0) if self.right >= 0 else 0
        self.offset = (op.ints("offset") or (0,))[0]
        self.score_grid, self.weight_grid = op.grid("score"), op.grid("weight")
        simple = not self.masks and self.score_grid is None
        self.plain = simple and self.cap <= 0 and self.scale > 0
        self.rounds = self.element != f32 and any(m.element == self.element for m in masks)

    def place(self, c: Tracer, given: Arguments, item: Scalar) -> QueryTile:
        """Tiles that see most keys come first where their number differs: cores then end at about
        the same time. Where all see as many, those of a head come one after the other: cores have
        them at a time, and their keys cross HBM once."""
        heads = self.batch * self.heads
        if self.left >= 0 or self.right >= 0:
            head, tile = item % heads, self.row_tiles - 1 - item // heads
        else:
            head, tile = item // self.row_tiles, item % self.row_tiles
        batch, keys = head // self.heads, self.keys
        offset: Scalar = self.offset
        if self.op.key_lengths is not None:
            keys = c.now(c.read(given[self.op.key_lengths][batch], below=self.keys + 1))
            offset = offset if self.op.offset is not None else keys - self.queries
        if (length := self.op.length) is not None:
            memref = given[length]
            first = c.now(c.read(memref[(0,) * len(memref.shape)], below=self.keys + 1))
            keys = first if isinstance(keys, int) else minimum(keys, first)
        return QueryTile(batch, head % self.heads, tile * self.tiles.rows, keys, offset)

    def span(self, at: QueryTile, part: KeySegment) -> tuple[Scalar, Scalar, Scalar]:
        """The tiles of some keys that a tile of queries meets, from the first to the one after the
        last; and from which one on some key may not take part (ALWAYS: in any)."""
        M, N = self.tiles.rows, self.tiles_of(part).keys
        first: Scalar = 0
        last, masked = ceil_div(at.count(part), N), at.count(part) // N
        if self.right >= 0:
            token, more = self.together.first_token(at.row), self.together.tokens_of(M) - 1
            seen = token + at.offset + (self.right + 1 - part.start)  # that the first query sees
            last = minimum(last, (seen + (more + N - 1)) // N)
            masked = minimum(masked, seen // N)
        if self.left >= 0:
            token = self.together.first_token(at.row)
            first, masked = maximum(0, (token + at.offset - (self.left + part.start)) // N), ALWAYS
        return first, last, masked

    def tiles_of(self, part: KeySegment) -> AttentionTiles:
        """The tiles in which keys of a part come: a part with fewer keys than a tile has a smaller
        one, if the tile has nothing but these keys."""
        t, grain = self.tiles, max(FRACTAL, BLOCK * 8 // bitwidth(self.element))
        others = self.op.table, self.op.length, self.weight_grid
        whole = self.op.is_integer or any(o is not None for o in others)
        count = align_up(part.count, grain)
        if whole or count >= t.keys or any(m.number is None for m in self.masks):
            return t
        key_part = largest(count, t.key_part, grain)
        return t._replace(keys=count, piece=count, key_part=key_part)

    def first_key(self, at: QueryTile, j: Scalar) -> Scalar:
        """The key of a part where tile j begins: the last tile ends with the `length`, since
        elements behind it are of no meaning, even times 0."""
        start = j * self.tiles.keys
        return start if self.op.length is None else minimum(start, at.keys - self.tiles.keys)

    def box(self, given: Argument, at: QueryTile, tile: Tile, col: Scalar = 0) -> Subview:
        """The box of query or result that a tile is of, from a column on."""
        return self.together.box(given, at.batch, at.head, at.row, col, tile.shape)
