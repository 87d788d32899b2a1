"""Kernels for the vector cores: images resized, linearly or to the nearest element.

An element of the result lies between two of the input along each axis that is resized, at places
(a i + b) / c in whole numbers, which the core computes. Lines and columns go one after the other:

    columns = places of columns, weights          # once, where a block has all of them
    for b in share(blocks)                        # `lines` lines, `cols` columns of the result
      for i in range(lines): load the two lines around line b + i
      t = their sum by weights, which are a column
      l, r = columns of t gathered at places, and at those behind them
      store their sum by weights, which are a row
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32, i32

from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.support.window import coordinates, nearest_index
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language.indices import Scalar, maximum, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Expression, Tile, cast, columns, rows, unary
from ge.runtime.library.language.values import maximum as greater
from ge.runtime.library.language.values import minimum as lesser
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written, in_order
from ge.runtime.library.programs import first_fitting
from ge.runtime.library.rows.vector import place

EXACT = 1 << 23  # whole numbers and a half from 0 on that f32 has
PLACED = "cast scalar add scalar scalar cast add scalar sub scalar"  # what finds places
CLAMPED = "scalar scalar scalar sub scalar scalar cast"  # and makes columns of them
CLOSE = 1e-6  # of places: what weights of f32 cannot tell
NEAREST = {  # floor((2 x + n) / 2), of x or a little less
    "floor": (0, 0), "ceil": (2, -1), "round_prefer_floor": (1, -1), "round_prefer_ceil": (1, 0)
}  # fmt: skip

Place: TypeAlias = "tuple[Scalar, Scalar, Scalar]"
"""The elements of the input before and after a place, and how far it is behind the first one, in
parts of the axis."""


@dataclass(frozen=True)
class ResizeAxis:
    """Element i of the result lies at (a i + b) / c of `size` elements, and is one of `count`.
    `nearest`: it is element floor of that."""

    size: int
    count: int
    a: int
    b: int
    c: int
    nearest: bool

    @classmethod
    def of(cls, op: ResizeOp, size: int, count: int, scale: float) -> "ResizeAxis":
        """Raises NotLowered where the places are no line of fractions."""
        numbers = np.arange(count, dtype=np.float64)
        at = coordinates(op.coordinates.data, numbers, count, size, scale, (0.0, 1.0))
        step = float(at[1] - at[0]) if count > 1 else 0.0
        nearest = op.mode.data == "nearest"
        for bits in range(4, 22, 2):
            most = 1 << bits
            k = Fraction(step).limit_denominator(most)
            first = Fraction(float(at[0])).limit_denominator(2 * most)  # halves of steps
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

    def parts(self, numbers: Expression, first: Scalar) -> tuple[Expression, Expression]:
        """Places of numbers from 0 on, which are counted from `first`: the elements before their
        places, and the distance of these behind them, in elements. Exact in f32 if `is_exact` says
        so."""
        whole = first * self.a + self.b
        before, rest = (cast(columns(1, n), f32) for n in (whole // self.c, whole % self.c))
        at = numbers * float(self.a) + rest
        found = unary(FloorOp, (at + 0.5) / float(self.c))
        return found + before, (at - found * float(self.c)) * (1 / self.c)

    def is_exact(self, count: int) -> bool:
        """True if f32 holds the places of so many elements in a row."""
        return self.c + self.a * count < EXACT > self.size

    def reach(self, cols: int) -> int:
        """Elements of the input that so many of the result lie between."""
        ends = [(min(i + cols, self.count) - 1, i) for i in range(0, self.count, cols)]
        return max(self.clamped(last) + 1 - self.clamped(first) for last, first in ends) + 1

    def clamped(self, number: int) -> int:
        return min(max((self.a * number + self.b) // self.c, 0), self.size - 1)


@dataclass(frozen=True)
class Resizing:
    """Description of a resize: `axes` by their dimension, of an input and a result of dimensions of
    which the last ones, where they are not resized, are one."""

    op: ResizeOp
    shape: Shape
    result: Shape
    axes: dict[int, ResizeAxis]

    @classmethod
    def of(cls, op: ResizeOp) -> "Resizing":
        """Raises NotLowered if there is no program for it here."""
        if op.mode.data == "cubic":
            raise NotLowered("there is none for cubic interpolation")
        for flag in ("antialias", "exclude_outside"):
            if getattr(op, flag).value.data:
                raise NotLowered(f"there is none for {flag}")
        if op.roi is not None or op.scales_value is not None or op.sizes_value is not None:
            raise NotLowered("it is resized by what is not in the text")
        if op.keep_aspect_ratio_policy.data != "stretch":
            raise NotLowered("its scale is a bound")
        shape, result, axes = shape_of(op.input), shape_of(op.result), dict[int, ResizeAxis]()
        scales = op.scale_values() or [result[i] / shape[i] for i in op.resized_axes()]
        for i, scale in zip(op.resized_axes(), scales, strict=True):
            if scale != 1 or shape[i] != result[i]:
                axes[i] = ResizeAxis.of(op, shape[i], result[i], scale)
        end = max(axes) + 1
        inner = (prod(shape[end:]),) * (prod(shape[end:]) > 1)
        before = (1,) * (end + len(inner) == 1)  # a line
        axes = {dim + len(before): axis for dim, axis in axes.items()}
        return cls(op, (*before, *shape[:end], *inner), (*before, *result[:end], *inner), axes)

    @property
    def last(self) -> ResizeAxis | None:
        """The axis of the columns if they are resized; otherwise None."""
        return self.axes.get(len(self.shape) - 1)

    @property
    def nearest(self) -> bool:
        return self.op.mode.data == "nearest"

    @property
    def loads(self) -> int:
        """Number of loads of lines, for each line of the result."""
        before = [axis for dim, axis in self.axes.items() if dim < len(self.shape) - 1]
        return 1 if self.nearest else 2 ** len(before)

    def wide(self, cols: int) -> int:
        """Columns that are loaded for so many of the result."""
        unit = BLOCK * 8 // bitwidth(element_type(self.op.input))
        return align_up(self.last.reach(cols), unit) if self.last else cols


def lower_resize(launch: Launch) -> Written:
    """An image that is resized, by blocks of its lines."""
    op = launch.only(ResizeOp)
    element = element_type(op.input)
    if bitwidth(element) < 8 or (op.mode.data != "nearest" and not is_float(element)):
        raise NotLowered(f"images of {element} are not resized by mode {op.mode.data}")
    w = Resizing.of(op)
    return first_fitting(launch, in_order(cuts(w, launch.target)), partial(by_blocks, launch, w))


@dataclass(frozen=True)
class ResizeCut:
    """Blocks of so many lines and columns of the result."""

    lines: int
    cols: int

    def counts(self, w: Resizing) -> Shape:
        """Number of blocks: along the dimensions before lines, along lines and along columns."""
        return *w.result[:-2], ceil(w.result[-2] / self.lines), ceil(w.result[-1] / self.cols)

    def cycles(self, w: Resizing, target: Target) -> float:
        core, wide = Core.of(target), w.wide(self.cols)
        piece = wide * bitwidth(element_type(w.op.input)) / 8
        load = w.loads * self.lines * core.ub(1, piece)

        def mapped(cols: int) -> float:
            """A product, another one and their sum."""
            apart = core.vector("mul mul", self.lines, cols * 4, self.lines > 1)
            return apart + core.vector("add", self.lines, cols * 4)

        sides, vector = 1 if w.nearest else 2, 0.0 if w.nearest else w.loads // 2 * mapped(wide)
        if w.last:
            vector += sides * self.lines * core.vector("gather", 1, self.cols * 4)
            vector += 0.0 if w.nearest else mapped(self.cols)
            if self.counts(w)[-1] > 1:  # places of columns, for each block
                vector += core.vector(PLACED, 1, self.cols * 4)
                vector += sides * core.vector(CLAMPED, 1, self.cols * 4)
        if len(w.shape) - 2 in w.axes and not w.nearest:  # places of lines
            vector += core.vector(PLACED, 1, self.lines * 4)
        rounds = ceil(prod(self.counts(w)) / target.vector_cores)
        return cycles_of_blocks(rounds, (load, 1), (vector, 1))


def cuts(w: Resizing, target: Target) -> list[ResizeCut]:
    """The fastest by estimate first."""
    unit = BLOCK * 8 // bitwidth(element_type(w.op.input))
    lines, cols = w.result[-2:]
    high = sorted({min(n, lines) for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)})
    wide = dict.fromkeys(align_up(ceil(cols / n), unit) for n in range(1, ceil(cols / unit) + 1))
    across, down = w.last, w.axes.get(len(w.shape) - 2)
    wide = [n for n in wide if across is None or across.is_exact(n)]
    found = [ResizeCut(h, n) for n in wide for h in high if down is None or down.is_exact(h)]
    if not found:
        raise NotLowered("its places are fractions of numbers that f32 has not")
    return sorted(found, key=lambda cut: cut.cycles(w, target))


def by_blocks(launch: Launch, w: Resizing, cut: ResizeCut) -> Written:
    count = prod(cut.counts(w))

    def write(c: Tracer, arguments: Arguments) -> None:
        ResizeWriter(c, w, arguments, cut).write()

    shapes = {w.op.input: w.shape, w.op.result: w.result}
    cores = min(count, launch.target.vector_cores)
    return Written(write, cores, shapes, engine=Engine.VECTOR)


class ResizeWriter:
    """The program, while it is written."""

    def __init__(self, c: Tracer, w: Resizing, arguments: Arguments, cut: ResizeCut) -> None:
        self.c, self.w, self.cut = c, w, cut
        self.source, self.out = arguments[w.op.input], arguments[w.op.result]
        element, lines, cols = element_type(w.op.input), cut.lines, cut.cols
        self.wide = w.wide(cols)
        self.loaded = [c.ub(lines, self.wide, element, copies=2) for _ in range(w.loads)]
        if not w.nearest:
            self.summed = c.ub(lines, self.wide, f32)
        if not (w.nearest and w.last is None):
            self.stored = c.ub(lines, cols, element, copies=2)
        if w.last:
            many = range(1 if w.nearest else 2)
            self.places = [c.ub(1, cols, i32) for _ in many]
            self.taken = [c.ub(lines, cols, f32) for _ in many if not w.nearest]
            self.shares = [c.ub(1, cols, f32) for _ in many if not w.nearest]

    def write(self) -> None:
        c, w, cut = self.c, self.w, self.cut
        counts = cut.counts(w)
        if w.last and counts[-1] == 1:
            self.find_columns(w.last, 0)
        for number in c.share(prod(counts)):
            *outer, line, col = place(number, counts, (1,) * len(counts))
            line, col = line * cut.lines, col * cut.cols
            if w.last and counts[-1] > 1:
                self.find_columns(w.last, col)
            begin = w.last.place(col)[0] if w.last else col
            tiles = iter([ring[number] for ring in self.loaded])
            found = self.between(tiles, outer, [], line, begin)
            box = self.out[*outer, line:, col:]
            if not isinstance(found, Tile) or w.last:
                found = self.finished(found, self.stored[number])
            c.store(box.sized(cut.lines, cut.cols), found)

    def finished(self, found: Expression, stored: Tile) -> Tile:
        """The columns of a block, of its lines."""
        c, w, element = self.c, self.w, self.source.element
        if w.last is None:
            stored[:] = cast(found, element)
        elif w.nearest:
            c.gather(stored, c.tile_of(found), self.places[0])
        else:
            if not isinstance(found, Tile):
                self.summed[:] = found
            for target, at in zip(self.taken, self.places, strict=True):
                c.gather(target, found if isinstance(found, Tile) else self.summed, at)
            before, after = self.taken
            stored[:] = cast(before * self.shares[0] + after * self.shares[1], element)
        return stored

    def find_columns(self, axis: ResizeAxis, col: Scalar) -> None:
        """The columns around those of a block, counted from the first one that is loaded, and their
        weights."""
        first, part = axis.parts(cast(columns(self.cut.cols), f32), col)
        begin = self.numbers(axis.place(col)[0])
        for further, target in enumerate(self.places):
            at = clamped(first + float(further), axis.size - 1) - begin
            target[:] = cast(clamped(at, self.wide - 1), i32)
        if self.shares:
            self.shares[1][:] = part
            self.shares[0][:] = 1.0 - self.shares[1]

    def numbers(self, number: Scalar) -> Expression:
        return cast(columns(1, number), f32)

    def between(
        self,
        tiles: Iterator[Tile],
        outer: Sequence[Scalar],
        starts: Sequence[Scalar],
        line: Scalar,
        begin: Scalar,
    ) -> Expression:
        """The lines of a block, where the places in the dimensions before are `starts` as far as
        they are known."""
        dim = len(starts)
        axis = self.w.axes.get(dim)
        if dim == len(self.w.shape) - 2:
            return self.lines(tiles, axis, starts, line, begin)
        if axis is None:
            return self.between(tiles, outer, [*starts, outer[dim]], line, begin)
        before, after, part = axis.place(outer[dim])
        first = self.between(tiles, outer, [*starts, before], line, begin)
        if axis.nearest:
            return first
        second = self.between(tiles, outer, [*starts, after], line, begin)
        weight = self.numbers(part) * (1 / axis.c)
        return first * (1.0 - weight) + second * weight

    def lines(
        self,
        tiles: Iterator[Tile],
        axis: ResizeAxis | None,
        starts: Sequence[Scalar],
        line: Scalar,
        begin: Scalar,
    ) -> Expression:
        c, w, shape = self.c, self.w, (self.cut.lines, self.wide)
        if axis is None:
            box = self.source[*starts, line:, begin:].sized(*shape)
            tile = c.load(next(tiles), box, pad=0)
            return tile if w.nearest else cast(tile, f32)
        found = [next(tiles) for _ in range(1 if axis.nearest else 2)]
        for i in c.range(shape[0]):
            places = axis.place(minimum(line + i, axis.count - 1))
            for tile, at in zip(found, places, strict=False):
                box = self.source[*starts, at, begin:]
                c.load(tile.part(i, 0, (1, self.wide)), box, pad=0)
        if axis.nearest:
            return found[0] if w.nearest else cast(found[0], f32)
        _, weight = axis.parts(cast(rows(shape[0]), f32), line)
        before, after = (cast(tile, f32) for tile in found)
        return before * (1.0 - weight) + after * weight


def clamped(x: Expression, most: int) -> Expression:
    return lesser(greater(x, 0.0), float(most))
