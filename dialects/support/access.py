"""Which elements of its operands an op needs for an element of its results."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from xdsl.ir import SSAValue

from ge.dialects.support.types import DYNAMIC, Shape, is_static, numel, shape_of


class Access(Enum):
    """Which operand elements a result element needs: what decides on fusion."""

    POINTWISE = "the elements at its index (operands broadcast), or few beside it in a row"
    VIEW = "one element; all stay where they are in memory"
    MOVEMENT = "one element, at an index that follows from its own"
    LOOKUP = "one element of the first operand, at an index that is an element of another operand"
    WINDOW = "the elements of the first operand in a window around its index"
    ROWS = "a row of elements: see `RowsInterface`"
    WHOLE = "any elements"


MOVING = frozenset((Access.VIEW, Access.MOVEMENT, Access.LOOKUP))  # elements stay as they are


@dataclass(frozen=True, slots=True)
class Rows:
    """How an op on rows cuts its first operand: `count` independent rows of `length` elements
    (`?` where unknown), which lie next to each other in memory if `contiguous`. Cut in `parts`
    equal parts, in memory order, each part holds whole rows."""

    count: int
    length: int
    contiguous: bool
    parts: int


def rows_along(shape: Shape, axes: Collection[int]) -> Rows:
    """The rows of a tensor along some axes, counted from the front."""

    def size(dims: Iterable[int]) -> int:
        known = tuple(dims)
        return numel(known) if is_static(known) else DYNAMIC

    count = size(d for i, d in enumerate(shape) if i not in axes)
    start = min(axes, default=len(shape))
    contiguous = all(i in axes or d == 1 for i, d in enumerate(shape[start:], start))
    return Rows(count, size(shape[i] for i in axes), contiguous, size(shape[:start]))


def aligned_axes(axis: int, rank: int, operands: Iterable[SSAValue]) -> tuple[int | None, ...]:
    """The axes of operands that broadcast to a result of `rank` dimensions that are its `axis`,
    None for those that have one element there."""
    shapes = [shape_of(v) for v in operands]
    axes = [axis - (rank - len(s)) for s in shapes]
    return tuple(i if i >= 0 and s[i] != 1 else None for i, s in zip(axes, shapes, strict=True))
