"""Query, key and value of attention: where they lie in device memory, or what computes them.

A fused kernel may see its operands through views and moves, which only say where a box lies, and
may compute them (biases, casts): the vector core does that by tiles, and a fifo takes them to the
cube. Keys and values may be put together of a cache and what is new: each is met where it is.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from xdsl.ir import OpResult, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.boxes import Access, Box, plus
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import align_up, element_type, shape_of
from ge.dialects.tile.scalars import zero_of
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div
from ge.runtime.library.language.tracing import Queue, Tracer
from ge.runtime.library.launch import Launch, NotLowered
from ge.runtime.library.places import long_dims, place_of
from ge.runtime.library.pulling import Pull

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
    """One of the operands, or what it has from one token on: `value`, [B, H, T, E] or with heads
    and tokens exchanged."""

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
        """Whether the vector core has to compute tiles of it. Raises NotLowered where it cannot."""
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
    """A cache and what is new are read where they are."""
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
    """What a value is put together of: each part, the dimension, and where it begins."""
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
        """The tile from a token and an element on, in a copy of the ring. What is beyond the last
        token is 0 in values, which weights of 0 multiply, and of no meaning in others."""
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
        if source.size % self.shape[1] and not source.is_input:  # what is beside it is another one
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
        them: those that stand for others are as little used as what is beyond the last one."""
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
    """The least bits of an element of what a value is computed of."""
    op, bits = value.owner, bitwidth(element_type(value))
    if value in launch.body.inputs or not isinstance(op, TensorOp):
        return bits if launch.constant(value) is None else 32
    return min(bits, *(narrowest(launch, v) for v in op.operands))


def box_dims(source: AttentionSource) -> tuple[int, int]:
    """The dimensions of rows and elements."""
    by_tokens = source.op.tokens_first(source.name) != (source.heads > 1)
    return (1, 3) if by_tokens else (2, 3)
