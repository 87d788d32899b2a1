"""Kernels for the vector cores: images resized, linearly or to the nearest element.

An element of the result lies between two of the input along each axis that is resized, at places
that the core computes: (a i + b) / c in whole numbers. Lines of the result are sums of lines of the
input; columns are those of lines that are turned:

    for b in share(blocks)                       # `lines` lines, `cols` columns of the result
      for i in range(lines)
        load the lines around line b + i; t[i] = their sum by weights
      turned = transposed t
      for j in range(cols)
        u[j] = turned[k] * (1 - w) + turned[k + 1] * w
      store transposed u

The lines are those of all dimensions before the last one; where that is not resized, t is stored as
it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32

from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.support.coordinates import coordinates, nearest_index
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language.indices import Index, Scalar, maximum, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Expression, Tile, cast, columns
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.programs import bytes_left, fits
from ge.runtime.library.rows.vector import shared

CLOSE = 1e-6  # of places: what weights of f32 cannot tell
NEAREST = {  # floor((2 x + n) / 2), of what is a little less than x or not
    "floor": (0, 0), "ceil": (2, -1), "round_prefer_floor": (1, -1), "round_prefer_ceil": (1, 0)
}  # fmt: skip

Place: TypeAlias = "tuple[Scalar, Scalar, Scalar]"
"""The elements of the input before and after a place, and how far it is behind the first one, in
parts of the axis."""


@dataclass(frozen=True)
class Axis:
    """Element i of the result lies at (a i + b) / c of `size` elements, and is one of `count`.
    `nearest`: it is element floor of that."""

    size: int
    count: int
    a: int
    b: int
    c: int
    nearest: bool

    @classmethod
    def of(cls, op: ResizeOp, size: int, count: int, scale: float) -> "Axis":
        """Raises NotLowered where the places are no line of fractions."""
        numbers = np.arange(count, dtype=np.float64)
        at = coordinates(op.coordinates.data, numbers, count, size, scale, (0.0, 1.0))
        step = float(at[1] - at[0]) if count > 1 else 0.0
        nearest = op.mode.data == "nearest"
        for bits in range(4, 22, 2):
            most = 1 << bits
            k, first = (Fraction(x).limit_denominator(most) for x in (step, float(at[0])))
            c = (k * first.denominator).denominator * first.denominator
            found = cls(size, count, int(k * c), int(first * c), c, False)
            if c > 1 << 24 or not np.allclose(found.table, at, rtol=0, atol=CLOSE):
                continue
            if not nearest:
                return found
            more, less = NEAREST[op.nearest_mode.data]
            found = cls(size, count, 2 * found.a, 2 * found.b + more * c + less, 2 * c, True)
            short, half = at.astype(np.float32), np.float32(0.5)
            wanted = nearest_index(short, half, op.nearest_mode.data, np.floor, np.ceil)
            if np.array_equal(np.floor(found.table), wanted):
                return found
        raise NotLowered("its places are no line of fractions")

    @property
    def table(self) -> Any:
        return (self.a * np.arange(self.count) + self.b) / self.c

    def place(self, number: Scalar) -> Place:
        whole = number * self.a + self.b
        before = whole // self.c
        inside = tuple(minimum(maximum(n, 0), self.size - 1) for n in (before, before + 1))
        return inside[0], inside[0 if self.nearest else 1], 0 if self.nearest else whole % self.c

    def reach(self, cols: int) -> int:
        """Elements of the input that so many of the result lie between."""
        ends = [(min(i + cols, self.count) - 1, i) for i in range(0, self.count, cols)]
        return max(self.clamped(last) + 1 - self.clamped(first) for last, first in ends) + 1

    def clamped(self, number: int) -> int:
        return min(max((self.a * number + self.b) // self.c, 0), self.size - 1)


@dataclass(frozen=True)
class Resizing:
    """What is resized: `axes` by their dimension, of an input and a result of dimensions of which
    the last ones, where they are not, are one."""

    op: ResizeOp
    shape: Shape
    result: Shape
    axes: dict[int, Axis]

    @classmethod
    def of(cls, op: ResizeOp) -> "Resizing":
        """Raises NotLowered for what has no program here."""
        if op.mode.data == "cubic":
            raise NotLowered("there is none for cubic interpolation")
        for flag in ("antialias", "exclude_outside"):
            if getattr(op, flag).value.data:
                raise NotLowered(f"there is none for {flag}")
        if op.roi is not None or op.scales_value is not None or op.sizes_value is not None:
            raise NotLowered("it is resized by what is not in the text")
        if op.keep_aspect_ratio_policy.data != "stretch":
            raise NotLowered("its scale is a bound")
        shape, result, axes = shape_of(op.input), shape_of(op.result), dict[int, Axis]()
        scales = op.scale_values() or [result[i] / shape[i] for i in op.resized_axes()]
        for i, scale in zip(op.resized_axes(), scales, strict=True):
            if scale != 1 or shape[i] != result[i]:
                axes[i] = Axis.of(op, shape[i], result[i], scale)
        end = max(axes) + 1
        if prod(shape[end:]) > 1:
            inner = (prod(shape[end:]),)
            return cls(op, (*shape[:end], *inner), (*result[:end], *inner), axes)
        return cls(op, shape[:end], result[:end], axes)

    @property
    def last(self) -> Axis | None:
        """Where columns are resized."""
        return self.axes.get(len(self.shape) - 1)

    @property
    def lines(self) -> int:
        return prod(self.result[:-1])


def lower_resize(launch: Launch) -> Written:
    """An image that is resized, by blocks of its lines."""
    op = next(op for op in launch.body.ops if isinstance(op, ResizeOp))
    if len(launch.body.ops) > 1:
        raise NotLowered("there are ops beside graph.resize")
    element = element_type(op.input)
    if bitwidth(element) < 8 or (op.mode.data != "nearest" and not is_float(element)):
        raise NotLowered(f"images of {element} are not resized by mode {op.mode.data}")
    w = Resizing.of(op)
    written: Written | None = None
    for lines, cols in cuts(w, launch):
        written = by_lines(launch, w, lines, cols)
        if fits(launch, written):
            return written
    assert written is not None
    left = min(bytes_left(launch, written).values())
    raise NotLowered(f"its least tiles need {-left} bytes of ub more than there are")


def cuts(w: Resizing, launch: Launch) -> Iterator[tuple[int, int]]:
    """Lines and columns of blocks, the largest first."""
    unit = BLOCK * 8 // bitwidth(element_type(w.op.input))
    cores, cols = launch.target.vector_cores, align_up(w.result[-1], unit)
    lines = align_up(ceil(w.lines / cores), unit) if w.last else ceil(w.lines / cores)
    while True:
        high = min(lines, 8 * unit)
        while high >= (unit if w.last else 1):
            yield high, cols
            high = align_up(high // 2, unit) if w.last and high > unit else high // 2
        if cols == unit:
            return
        cols = align_up(ceil(cols / 2), unit)


def by_lines(launch: Launch, w: Resizing, lines: int, cols: int) -> Written:
    across = ceil(w.result[-1] / cols)
    count = ceil(w.lines / lines) * across
    cores = min(count, launch.target.vector_cores)

    def write(c: Tracer, arguments: Arguments) -> None:
        blocks = Lines(c, w, arguments, lines, cols)
        for i in shared(c, count, cores):
            blocks.write(i // across * lines, i % across * cols)

    shapes = {w.op.input: w.shape, w.op.result: (w.lines, w.result[-1])}
    return Written(write, cores, shapes)


class Lines:
    """The program, while it is written."""

    def __init__(self, c: Tracer, w: Resizing, arguments: Arguments, lines: int, cols: int) -> None:
        self.c, self.w, self.high, self.cols = c, w, lines, cols
        self.source, self.out = arguments[w.op.input], arguments[w.op.result]
        element = element_type(w.op.input)
        self.nearest = w.op.mode.data == "nearest"
        self.element = element if self.nearest else f32
        unit = BLOCK * 8 // bitwidth(element)
        self.wide = align_up(w.last.reach(cols), unit) if w.last else cols
        outer = [axis for i, axis in w.axes.items() if i < len(w.shape) - 1]
        many = 1 if self.nearest else 2 ** len(outer)
        self.rows = [c.ub(1, self.wide, element, copies=2) for _ in range(many)]
        self.summed = c.ub(lines, self.wide, self.element)
        if w.last:
            self.turned = c.ub(self.wide, lines, self.element)
            self.taken = c.ub(cols, lines, self.element)
            self.result = c.ub(lines, cols, self.element)
        if self.element != element:
            self.stored = c.ub(lines, cols, element)

    def write(self, line: Scalar, col: Scalar) -> None:
        c, w, begin = self.c, self.w, col
        if w.last:
            begin = w.last.place(col)[0]
        for i in c.range(self.high):
            self.sum_line(i, minimum(line + i, w.lines - 1), begin)
        found = self.summed
        if w.last:
            c.move(self.turned, self.summed.T)
            for j in c.range(self.cols):
                place = w.last.place(minimum(col + j, w.last.count - 1))
                before, after = (
                    self.turned.part(at - begin, 0, (1, self.high)) for at in place[:2]
                )
                taken = before if w.last.nearest else weighted(before, after, w.last, place[2])
                c.assign(self.taken.part(j, 0, (1, self.high)), taken)
            c.move(self.result, self.taken.T)
            found = self.result
        if self.element != self.source.element:
            self.stored[:] = cast(found, self.source.element)
            found = self.stored
        c.store(self.out[line:, col:], found)

    def sum_line(self, i: Index, number: Scalar, begin: Scalar) -> None:
        """Line i of a block: the lines around it, by their weights."""
        at = dict[int, Place]()
        for dim in reversed(range(len(self.w.shape) - 1)):
            extent = self.w.result[dim]
            own = number % extent if dim else number
            number = number // extent
            axis = self.w.axes.get(dim)
            at[dim] = axis.place(own) if axis else (own, own, 0)
        rows = (ring[i] for ring in self.rows)
        self.c.assign(self.summed.part(i, 0, (1, self.wide)), self.between(rows, at, [], begin))

    def between(
        self,
        rows: Iterator[Tile],
        at: dict[int, Place],
        starts: Sequence[Scalar],
        begin: Scalar,
    ) -> Expression:
        """The line at these places, of which the first ones are known."""
        dim = len(starts)
        if dim == len(self.w.shape) - 1:
            row = self.c.load(next(rows), self.source[*starts, begin:], pad=0)
            return row if self.nearest else cast(row, f32)
        before, after, part = at[dim]
        axis = self.w.axes.get(dim)
        first = self.between(rows, at, [*starts, before], begin)
        if axis is None or axis.nearest:
            return first
        second = self.between(rows, at, [*starts, after], begin)
        return weighted(first, second, axis, part)


def weighted(before: Expression, after: Expression, axis: Axis, part: Scalar) -> Expression:
    """What lies between two elements of an axis, so many parts behind the first one."""
    weight = cast(columns(1, part), f32) * (1 / axis.c)
    return before * (1.0 - weight) + after * weight
