"""Facts of an op that do not depend on the machine: the elements of operands it needs, what its
kernel may do with their memory, and how much it computes.

    %t = graph.transpose %x permutation [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
    op.operand_box(0, Box((4, 0), (2, 6)))          # Box((0, 4), (6, 2)): rows 4 and 5 of %t

Shapes are static, and sizes of boxes are known; offsets may be numbers that a core computes when it
runs. A box may pass the ends of its value at both sides (so a window does where it meets padding):
elements beyond are of no meaning. The box is as small as it can be: where that depends on offsets
that are not known, for any of them.

From boxes follows whether the first elements of a result depend on the first elements of operands
alone: then elements behind them (the padding of a gear) do not count.

    %0, %1 = graph.lstm %x, %w, %r : (tensor<5x8x16xf32>, ...) -> tensor<5x1x8x4xf32>, ...
    each_axes(op, 2)      # ({1}, {}, {}): element n of the batch needs element n of %x along 1
    prefix_axes(op, 0)    # ({0}, {}, {}): the first n steps need the first n, they go forward
    prefix_axes(op, 0, 1) # None: the last state needs all steps
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import gcd, prod
from typing import Any, ClassVar, TypeAlias

from xdsl.ir import SSAValue

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import GeOp, operands_of
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    byte_size,
    element_type,
    is_static,
    numel,
    shape_of,
)


class Access(Enum):
    """The operand elements that a result element needs, by which fusion decides."""

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
    """Division of the first operand of an op on rows: `count` independent rows of `length` elements
    (`?` where unknown), which lie next to each other in memory if `contiguous`. Cut in
    `parts` equal parts, in memory order, each part holds whole rows."""

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


@dataclass(frozen=True, slots=True)
class Work:
    """Cost of one execution: multiply-accumulates of the cube, element-operations of the vector
    unit, and bytes moved from and to memory."""

    macs: int = 0
    vector: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.macs + other.macs,
            self.vector + other.vector,
            self.read + other.read,
            self.written + other.written,
        )


class WorkInterface(GeOp):
    """Ops that state their work. By default it is that of an elementwise op."""

    VECTOR_COST: ClassVar[int] = 1  # element-operations for each result element
    ALWAYS_MACS: ClassVar[bool] = False  # whether there are multiply-accumulates in all shapes

    def work(self) -> Work | None:
        """The work of one execution; None while a shape is dynamic."""
        try:
            return self.static_work()
        except ValueError:
            return None

    def static_work(self) -> Work:
        """The work of the op, as `work` gives it; this is the method to override. Raises ValueError
        for a dynamic shape."""
        elements = sum(numel(shape_of(r)) for r in self.results)
        return Work(0, elements * self.VECTOR_COST, *self.traffic())

    def bytes_read(self, index: int) -> int:
        """Bytes of operand `index` that are needed. Raises ValueError for a dynamic shape."""
        return byte_size(operands_of(self)[index].type)

    def bytes_written(self, index: int) -> int:
        """Bytes of result `index` that are written where it lies in an operand's memory. Raises
        ValueError for a dynamic shape."""
        return byte_size(self.results[index].type)

    def traffic(self) -> tuple[int, int]:
        """Bytes read and written when each operand and result crosses the memory once."""
        return (
            sum([byte_size(o.type) for o in operands_of(self)]),
            sum([byte_size(r.type) for r in self.results]),
        )


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
    """An unknown offset; all that is computed of it is unknown too."""

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
        """True if elements of a result depend on the size of operands along its `axis`, beside the
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
    """The ends of groups of dimensions, as (end in source, end in target), that have the same
    number of elements in both shapes."""
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
    """The span from the first to the last element of a box, in memory order."""
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


Axes = frozenset[int]


def says_boxes(op: object) -> bool:
    """True if the op says which elements of operands its results need."""
    if not isinstance(op, BoxInterface):
        return False
    follows = op.ACCESS in (Access.POINTWISE, Access.VIEW)
    return follows or type(op).operand_box is not BoxInterface.operand_box


def each_axes(op: BoxInterface, axis: int, result: int = 0) -> tuple[Axes, ...] | None:
    """For each operand, the axes (as long as `axis` of a result) along which element i of the
    result needs only the elements at index i of the operand. Along other axes all elements need the
    same. None where no operand has such an axis, where one is needed in another way, or where sizes
    count."""
    if not says_boxes(op) or op.counts_size(axis, result):
        return None
    shape = shape_of(op.results[result])
    part, found = Unknown(), list[Axes]()
    box = Box.part(shape, {axis: (part, 1)})
    for i, operand in enumerate(op.operands):
        needed = op.operand_box(i, box, result)
        spans = [] if needed is None else needed.spans
        cut = {a for a, span in enumerate(spans) if not isinstance(span[0], int)}
        if any(spans[a] != (part, 1) for a in cut):
            return None
        found.append(frozenset(a for a in cut if shape_of(operand)[a] == shape[axis]))
    return tuple(found) if any(found) else None


def prefix_axes(op: BoxInterface, axis: int, result: int = 0) -> tuple[Axes, ...] | None:
    """The axes of `each_axes` for the first n elements of the result, whatever n is: those along
    which they need the first n elements of the operand, or fewer. If the axis of the result is k
    times as long as all of these (an image is enlarged), this holds for the first k * n. Asks for
    as many boxes as the axis has elements."""
    if not says_boxes(op) or op.counts_size(axis, result):
        return None
    size = shape_of(op.results[result])[axis]
    lengths = {d for v in op.operands for d in shape_of(v) if d > 1 and size % d == 0}
    found = (_prefix_axes(op, axis, result, d) for d in sorted(lengths, reverse=True))
    return next((axes for axes in found if axes is not None), None)


def _prefix_axes(op: BoxInterface, axis: int, result: int, length: int) -> tuple[Axes, ...] | None:
    """`prefix_axes` for axes of operands of one length."""
    shape = shape_of(op.results[result])
    times = shape[axis] // length
    needs = [[_Needs(d, d == length) for d in shape_of(v)] for v in op.operands]
    for n in range(1, length + 1):
        box = Box.part(shape, {axis: (0, n * times)})
        for i, own in enumerate(needs):
            needed = op.operand_box(i, box, result) or Box.whole(shape_of(op.operands[i]))
            if not all([need.see(s, n) for need, s in zip(own, needed.spans, strict=True)]):
                return None
    found = [frozenset(a for a, need in enumerate(own) if not need.same) for own in needs]
    return tuple(found) if any(found) else None


@dataclass(slots=True)
class _Needs:
    """The elements needed of an operand along one of its axes by the first n elements, for all n so
    far."""

    size: int
    prefix: bool
    same: bool = True
    first: Span | None = None

    def see(self, span: Span, n: int) -> bool:
        """Take the span needed for n. Returns true if it is the same for each n, or within the
        first n."""
        low, high = max(span[0], 0), min(span[0] + span[1], self.size)
        own = (low, max(high, low))
        self.first = self.first or own
        self.same = self.same and own == self.first
        self.prefix = self.prefix and own[1] <= n
        return self.same or self.prefix


def same_bytes(a: SSAValue, b: SSAValue) -> bool:
    """True if element i of one value lies where element i of the other one would, for all i."""
    if not prod(shape_of(a)) == prod(shape_of(b)) > 0:
        return False
    return a.type is b.type or bitwidth(element_type(a)) == bitwidth(element_type(b))


class InPlaceInterface(BoxInterface):
    """Ops whose kernels may overwrite operands, and read and write strided views. What follows
    from `ACCESS` is the default."""

    IN_PLACE: ClassVar[Collection[int] | None] = None
    """The operands that the kernel reads part by part, each before it writes that part of the
    results. None: those that pointwise ops read element by element, and what a view is of."""

    def local_parts(self, index: int) -> int | None:
        """Number of equal contiguous chunks such that chunk i of each result reads only chunk i of
        operand `index`, in one pass or several; None if there is no such partition. Shapes are
        static."""
        elements = prod(shape_of(operands_of(self)[index]))
        if self.IN_PLACE is not None:
            return stretches(self, index) if index in self.IN_PLACE else None
        if self.ACCESS is Access.VIEW and index == 0:
            return elements
        if self.ACCESS is not Access.POINTWISE:
            return None
        # Each element has one of the same place: no boxes are needed to see it
        if operands_of(self)[index].type is self.results[0].type and len(self.results) == 1:
            if type(self).operand_box is BoxInterface.operand_box:
                return elements
        # An element that is read for several places is overwritten at the first one
        return elements if stretches(self, index) == elements else None

    def in_place_pairs(self) -> Iterator[tuple[int, int]]:
        """Each (result, operand) such that the kernel may write the result over the operand: it
        goes through both chunk by chunk (see `local_parts`), and reads an element before it writes
        there. Shapes are static."""
        for i, operand in enumerate(operands_of(self)):
            fitting = [r for r, result in enumerate(self.results) if same_bytes(result, operand)]
            if fitting and self.local_parts(i) is not None:
                yield from ((r, i) for r in fitting)

    def accepts_strided(self) -> bool:
        """True if the kernel can read operands and write results whose rows lie apart in memory: it
        moves tiles, row by row. Raises ValueError for a dynamic shape."""
        return self.ACCESS is not Access.WHOLE or self.static_work().macs > 0
