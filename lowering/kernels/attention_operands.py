"""Query, key and value of attention: where they lie in device memory, or what computes them.

A fused kernel may see its operands through views and moves, which only say where a box lies, and
may compute them (biases, casts): the vector core does that by tiles, and a fifo takes them to the
cube.
"""

from dataclasses import dataclass
from typing import Any

from xdsl.ir import OpResult, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.access import Access
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of
from ge.dialects.tile.types import BLOCK
from ge.lowering.kernels.launch import Launch, NotLowered
from ge.lowering.kernels.pulling import Pull, long_dims, place_of
from ge.lowering.tiles import values as v
from ge.lowering.tiles.indices import Scalar
from ge.lowering.tiles.tracing import Queue, Tracer

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
class Source:
    """One of the operands: `value`, [B, H, T, E] or with heads and tokens exchanged."""

    op: AttentionOp
    name: str
    launch: Launch

    @property
    def value(self) -> SSAValue:
        return getattr(self.op, self.name)

    def box(self, batch: Scalar, head: Scalar, token: Scalar, rows: int) -> Box:
        size = self.op.sizes(self.name)[3]
        if self.op.tokens_first(self.name):
            return Box((batch, token, head, 0), (1, rows, 1, size))
        return Box((batch, head, token, 0), (1, 1, rows, size))

    @property
    def is_input(self) -> bool:
        return self.value in self.launch.body.inputs

    @property
    def is_computed(self) -> bool:
        """Whether the vector core has to compute tiles of it. Raises NotLowered where it cannot."""
        if self.is_input:
            return False
        tokens, size = self.op.sizes(self.name)[2:]
        if size == 1:
            raise NotLowered("elements of size 1 are not seen through views")
        found, box = seen_through(self.launch, self.value, self.box(0, 0, 0, FRACTAL))
        dims = long_dims(box)
        is_place = found in self.launch.body.inputs
        ends_there = self.name != "value" or shape_of(found)[dims[0]] == tokens
        if is_place and (ends_there or tokens % FRACTAL == 0):
            return False
        width = bitwidth(element_type(self.value)) // 8
        if size % FRACTAL or size * width % BLOCK:
            raise NotLowered(f"computed operands have sizes of multiples of {FRACTAL}, not {size}")
        return True


class Operand:
    """A source in a program: tiles of it in L1."""

    def __init__(self, source: Source, c: Tracer, pull: Pull, shape: v.Shape) -> None:
        self.source, self.c, self.pull, self.shape = source, c, pull, shape
        element = element_type(source.value)
        self.ring: Any = c.l1(*shape, element, copies=2)
        self.queue: Queue | None = c.queue(self.ring, 2) if source.is_computed else None

    def load(self, copy: Scalar, batch: Scalar, head: Scalar, token: Scalar) -> v.Tile:
        """The tile from a token on, in a copy of the ring. What is beyond the last token is 0 in
        values, which weights of 0 multiply, and of no meaning in others."""
        source, tile = self.source, self.ring[copy]
        box = source.box(batch, head, token, self.shape[0])
        if self.queue is not None:
            computed = self.pull.tile(source.value, box)
            self.clear_end(computed, token)
            self.queue.push(computed)
            return self.queue.pop(tile)
        value, box = seen_through(source.launch, source.value, box)
        argument = self.pull.arguments[value]
        dims = box_dims(source) if source.is_input else tuple(long_dims(box))
        place = v.Box(argument, box.offsets, dims, (1,) * len(box.sizes))
        return self.c.load(tile, place, pad=0)

    def clear_end(self, tile: v.Tile, token: Scalar) -> None:
        rows, tokens = self.shape[0], self.source.op.sizes(self.source.name)[2]
        if self.source.name != "value" or tokens % rows == 0:
            return
        is_there = v.rows(rows, token - tokens) < 0
        tile[:] = v.where(is_there, tile, 0.0)


def box_dims(source: Source) -> tuple[int, int]:
    """The dimensions of tokens and elements."""
    return (1, 3) if source.op.tokens_first(source.name) else (2, 3)
