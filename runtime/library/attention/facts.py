"""What the program of one attention depends on, and which tiles of queries and keys meet."""

from copy import copy
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TypeAlias

from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type, shape_of
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.attention.heads import Heads
from ge.runtime.library.attention.operands import KeySegment
from ge.runtime.library.attention.tiles import AttentionTiles, largest
from ge.runtime.library.language.indices import Scalar, ceil_div, maximum, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument, Subview, Tile
from ge.runtime.library.launch import Arguments, Launch, NotLowered

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
        """As it is for rows of several heads."""
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
    """What one tile of queries is: of which batch and heads, from which row on."""

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
    """What the program of one attention depends on."""

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
        """In which keys of a part come: a part with less keys than a tile has a smaller one, where
        the tile has nothing but these keys."""
        t, grain = self.tiles, max(FRACTAL, BLOCK * 8 // bitwidth(self.element))
        others = self.op.table, self.op.length, self.weight_grid
        whole = self.op.is_integer or any(o is not None for o in others)
        count = align_up(part.count, grain)
        if whole or count >= t.keys or any(m.number is None for m in self.masks):
            return t
        key_part = largest(count, t.key_part, grain)
        return t._replace(keys=count, piece=count, key_part=key_part)

    def first_key(self, at: QueryTile, j: Scalar) -> Scalar:
        """The key of a part where tile j begins: the last one ends with the `length`, since what is
        behind is of no meaning, even times 0."""
        start = j * self.tiles.keys
        return start if self.op.length is None else minimum(start, at.keys - self.tiles.keys)

    def box(self, given: Argument, at: QueryTile, tile: Tile, col: Scalar = 0) -> Subview:
        """The box of query or result that a tile is of, from a column on."""
        return self.together.box(given, at.batch, at.head, at.row, col, tile.shape)
