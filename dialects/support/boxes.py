"""Which box of an operand an op needs for a box of a result.

    %t = graph.transpose %x permutation [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
    op.operand_box(0, Box((4, 0), (2, 6)))          # Box((0, 4), (6, 2)): rows 4 and 5 of %t

Shapes are static, and sizes of boxes are known; offsets may be numbers that a core computes when it
runs. A box may pass the ends of its value at both sides (so a window does where it meets padding):
what lies beyond is of no meaning. The box is as small as it can be: where that depends on offsets
that are not known, for any of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import Any, ClassVar, TypeAlias

from ge.dialects.support.access import Access
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import Shape, shape_of
from ge.dialects.support.work import WorkInterface

Offset: TypeAlias = Any
"""An int, or a number with its own + - * // and `divisor`: see `divisor_of`."""


@dataclass(frozen=True, slots=True)
class Box:
    """Elements `offsets[i] .. offsets[i] + sizes[i] - 1` along each dimension i."""

    offsets: tuple[Offset, ...]
    sizes: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Shape) -> "Box":
        return cls((0,) * len(shape), shape)

    @classmethod
    def nothing(cls, shape: Shape) -> "Box":
        return cls((0,) * len(shape), (0,) * len(shape))

    @classmethod
    def of(cls, spans: Sequence["Span"]) -> "Box":
        return cls(tuple(s[0] for s in spans), tuple(s[1] for s in spans))

    @classmethod
    def part(cls, shape: Shape, spans: Mapping[int, "Span"]) -> "Box":
        """All of a value of this shape but along the dimensions that have spans."""
        return cls.of([spans.get(i, (0, d)) for i, d in enumerate(shape)])

    def along(self, shape: Shape, axes: Collection[int]) -> "Box":
        """This box, but all of a value of this shape along some dimensions."""
        return Box.of([(0, shape[i]) if i in axes else s for i, s in enumerate(self.spans)])

    @property
    def spans(self) -> list["Span"]:
        return list(zip(self.offsets, self.sizes, strict=True))


class Unknown:
    """An offset of which nothing is known, and so is what is computed of it."""

    divisor = 1

    def computed(self, *_: object) -> "Unknown":
        return Unknown()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = computed


Span: TypeAlias = tuple[Offset, int]
"""Offset and size of a box along one dimension."""


class BoxInterface(WorkInterface):
    """Ops that say which box of an operand a box of a result needs. What follows from `ACCESS` is
    the default."""

    ACCESS: ClassVar[Access] = Access.WHOLE  # which is never wrong

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """The box of operand `index` that a box of a result needs; None where it may need any
        element. Where an op of the access VIEW needs as many elements as the box has, they are the
        same elements in the same order."""
        shape, whole = shape_of(operands_of(self)[index]), shape_of(self.results[result])
        if self.ACCESS is Access.VIEW and index == 0:
            return view_box(box, shape, whole)
        pointwise = self.ACCESS is Access.POINTWISE and len(shape) <= len(whole)
        return aligned_box(box, shape) if pointwise else None

    def counts_size(self, axis: int, result: int = 0) -> bool:
        """Whether the size of operands along `axis` of a result goes into its elements beside the
        elements that boxes name: an index that counts from the end, or in a flattened operand."""
        return False


def stretches(op: BoxInterface, index: int) -> int | None:
    """The greatest number of equal stretches of memory such that stretch i of each result needs
    only stretch i of an operand, by the boxes for the results' leading dimensions; None where it
    is not one number, or no box of the operand is known. Shapes are static."""
    found = {_stretches(op, index, r) for r in range(len(op.results))}
    return found.pop() if len(found) == 1 else None


def _stretches(op: BoxInterface, index: int, result: int) -> int | None:
    shape, whole = shape_of(operands_of(op)[index]), shape_of(op.results[result])
    places = {i: (Unknown(), 1) for i, d in enumerate(whole) if d != 1}
    for count in range(len(whole), -1, -1):
        cut = {i: place for i, place in places.items() if i < count}
        if (own := op.operand_box(index, Box.part(whole, cut), result)) is None:
            continue
        spans = [(s, d) for s, d in zip(own.spans, shape, strict=True) if d != 1]
        if spans[: len(cut)] == [(place, whole[i]) for i, place in cut.items()]:
            return prod(whole[:count])
    return None


def hull(a: Box | None, b: Box | None) -> Box | None:
    """The box that has both in it; None where it is not known, or one is None."""
    if a is None or b is None:
        return None
    spans = list[Span]()
    for (first, size), (other, length) in zip(a.spans, b.spans, strict=True):
        if first is other and size == length:
            spans.append((first, size))
        elif isinstance(first, int) and isinstance(other, int):
            low = min(first, other)
            spans.append((low, max(first + size, other + length) - low))
        else:
            return None
    return Box.of(spans)


def aligned_box(box: Box, shape: Shape) -> Box:
    """The box of an operand that broadcasts to a result."""
    last = box.spans[len(box.sizes) - len(shape) :]
    return Box.of([(0, 1) if d == 1 else s for d, s in zip(shape, last, strict=True)])


def view_box(box: Box, source: Shape, target: Shape) -> Box | None:
    """The box of a tensor of shape `source` whose elements a box of its reshape to `target` is."""
    if 0 in source:
        return None
    spans, own, i, j = list[Span](), box.spans, 0, 0
    for k, m in groups(source, target):
        spans += spread(joined(own[j:m], target[j:m]), source[i:k])
        i, j = k, m
    return Box.of(spans)


@lru_cache(maxsize=4096)
def groups(source: Shape, target: Shape) -> Sequence[tuple[int, int]]:
    """Where dimensions of two shapes end that have the same number of elements."""
    found = list[tuple[int, int]]()
    i = j = 0
    a = b = 1
    while i < len(source) or j < len(target):
        if j == len(target) or (a <= b and i < len(source)):
            a, i = a * source[i], i + 1
        else:
            b, j = b * target[j], j + 1
        if a == b:
            found.append((i, j))
    return found


# ---- spans: arithmetic that leaves out what changes nothing --------------------------------------


def plus(a: Offset, b: Offset) -> Offset:
    if isinstance(b, int) and b == 0:
        return a
    return b if isinstance(a, int) and a == 0 else a + b


def times(offset: Offset, number: int) -> Offset:
    return offset if number == 1 else offset * number


def divisor_of(offset: Offset) -> int:
    """A number that divides the offset, whatever it is when the core runs; 0 divides 0 alone."""
    return abs(offset) if type(offset) is int else offset.divisor


def remainder(offset: Offset, number: int) -> Offset:
    """offset % number"""
    return 0 if divisor_of(offset) % number == 0 else offset % number


def blocks(span: Span, block: int) -> Span:
    """The blocks of `block` elements that a span has elements of."""
    offset, size = span
    if block == 1:
        return span
    before = block - gcd(divisor_of(offset), block)  # at most, in the first block
    if isinstance(offset, int):
        before = offset % block
    return offset // block, (before + size - 1) // block + 1


def in_blocks(span: Span, block: int) -> Span:
    """The elements of the blocks that a span has elements of."""
    return scaled(blocks(span, block), block)


def scaled(span: Span, number: int) -> Span:
    return times(span[0], number), span[1] * number


def window_span(span: Span, stride: int, begin: int, extent: int) -> Span:
    """The elements under windows of `extent` elements, of which the first begins at `begin`."""
    return plus(times(span[0], stride), begin), (span[1] - 1) * stride + extent


def element_span(span: Span, dim: int, elements: Callable[[int], Iterable[int]]) -> Span:
    """The `dim` elements from the first to the last that indices of a span need; all of them where
    the indices are not known."""
    if not isinstance(span[0], int):
        return 0, dim
    needed = [e for i in range(span[0], span[0] + span[1]) for e in elements(i)]
    return (min(needed), max(needed) - min(needed) + 1) if needed else (0, 0)


def joined(spans: Sequence[Span], shape: Shape) -> Span:
    """From the first to the last element of a box, in memory order."""
    offset, last = 0, 0
    for i, ((own, size), dim) in enumerate(zip(spans, shape, strict=True)):
        stride = prod(shape[i + 1 :])
        last += (size - 1) * stride
        if dim > 1:
            offset = plus(offset, times(own, stride))
    return offset, last + 1


def spread(span: Span, shape: Shape) -> list[Span]:
    """The box of a tensor that has the elements of a span, in memory order."""
    spans = list[Span]()
    for i, dim in enumerate(shape):
        stride = prod(shape[i + 1 :])
        if dim == 1:
            spans.append((0, 1))
            continue
        spans.append(own := blocks(span, stride))
        if own[1] > 1:
            return spans + [(0, d) for d in shape[i + 1 :]]
        span = remainder(span[0], stride), span[1]
    return spans
