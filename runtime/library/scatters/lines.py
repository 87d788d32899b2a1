"""Lines along an axis, and indices along it: of what is gathered there, or put there.

Along the last axis a core has some lines whole. Along another one it has a few columns of all rows,
one behind the other as they come, of which column c of row r is element r * width + c.
"""

from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.graph.indexing import GatherElementsOp, ScatterElementsOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import NotLowered

NUMBERS = 12  # bytes of what is made of an index on the way

Op = TypeVar("Op", bound=GatherElementsOp | ScatterElementsOp)


@dataclass(frozen=True)
class Lines(Generic[Op]):
    """`before` x `size` x `after` elements of the input, the middle ones along the axis; `count`
    indices of each line along it."""

    op: Op
    before: int
    size: int
    after: int
    count: int

    @classmethod
    def of(cls, op: Op) -> "Lines[Op]":
        """Raises NotLowered for what has no program here."""
        shape, indices = shape_of(op.input), shape_of(op.indices)
        axis = normalize_axis(op.axis.value.data, len(shape))
        if numel(shape) == 0 or numel(indices) == 0:
            raise NotLowered("it has no elements")
        if bitwidth(element_type(op.input)) < 8:
            raise NotLowered("elements of less than a byte are not moved")
        return cls(op, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), indices[axis])

    @property
    def is_last(self) -> bool:
        return self.after == 1

    @property
    def bytes(self) -> int:
        """Of an element."""
        return bitwidth(element_type(self.op.input)) // 8

    @property
    def index_bytes(self) -> int:
        return bitwidth(element_type(self.op.indices)) // 8

    @property
    def unit(self) -> int:
        """Elements of rows of tiles are multiples of it."""
        return BLOCK // min(self.bytes, self.index_bytes, 4)

    def shapes(self) -> dict[SSAValue, Shape]:
        """Of memrefs."""
        op, inner = self.op, () if self.is_last else (self.after,)
        axis = normalize_axis(op.axis.value.data, len(shape_of(op.input)))
        values = (*op.operands, *op.results)
        return {value: (self.before, shape_of(value)[axis], *inner) for value in values}


def counted(index: v.Expression, size: int) -> v.Expression:
    """Indices of `size` elements, of which those below 0 count from the end."""
    at = v.cast(index, i32)
    return v.where(at < 0, at + size, at)


def columns_of(c: Tracer, lines: int, width: int) -> v.Tile:
    """The columns of elements that come row after row: 0, 1, .. width - 1, 0, 1, .."""
    found = c.ub(1, lines * width, i32)
    number = v.cast(v.columns(lines * width), f32)
    rows = v.unary(FloorOp, (number + 0.5) / float(width))
    found[:] = v.cast(number - rows * float(width), i32)
    return found
