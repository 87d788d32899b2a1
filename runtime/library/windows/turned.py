"""Pools of small images: channels are columns of tiles, pixels are rows.

Lines of a few elements are slow to load one by one. Here whole lines come, those of a channel side
by side; turned, a pixel beside or below is a row before or behind, wherever instructions begin.
What a window has from the other side of an image, since lines follow each other, does not count:

    for i in share(blocks)                       # `cols` channels, some lines
      load x[channels.., y - 1.., 0..] to t;  turn t to x
      h = max of x[o..] over offsets o of the kernel's columns, where these pixels are in the line
      v = max of h[o * width..] over those of its lines;  store v, turned

Pixels that are no place of a window, with strides, are left out at the end.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from math import ceil, prod

from xdsl.dialects.builtin import f16, f32, i32

from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Written
from ge.runtime.library.windows.pool import Pool

FRACTAL = 16  # rows and columns that are turned at once
COUNTED = "scalar scalar scalar scalar scalar add scalar scalar"  # elements along a dimension
SHARED = f"scalar scalar cast scalar sub {COUNTED} add {COUNTED} mul scalar div"  # their part
LONGEST = 2048  # lines whose columns have numbers of f16


@dataclass(frozen=True)
class Turned:
    """`cols` channels and `lines` lines of the result at a time."""

    p: Pool
    cols: int
    lines: int

    @property
    def width(self) -> int:
        return self.p.w.image[-1]

    @cached_property
    def pixels(self) -> int:
        """That windows may begin at, of a block."""
        return self.lines * self.p.w.strides[-2] * self.width

    @cached_property
    def loaded(self) -> int:
        """With those that windows reach below."""
        return self.pixels + (self.p.w.kernel[-2] - 1) * self.p.w.dilations[-2] * self.width

    @property
    def results(self) -> int:
        return self.lines * self.p.w.result[-1]

    @property
    def counts(self) -> tuple[int, int]:
        """Of blocks: of channels, and of lines."""
        w = self.p.w
        return ceil(w.channels / self.cols), ceil(w.result[-2] / self.lines)

    @property
    def is_dense(self) -> bool:
        """Whether each pixel is the place of a window."""
        return self.p.w.strides == (1, 1) and self.width == self.p.w.result[-1]

    def offsets(self, dim: int) -> list[int]:
        """Of a kernel's elements, from the place of a window on, which is its number times the
        stride."""
        w = self.p.w
        return [k * w.dilations[dim] - w.pads[dim] for k in range(w.kernel[dim])]

    @property
    def around(self) -> tuple[int, int]:
        """Rows before and behind the pixels that windows reach."""
        offsets = self.offsets(-1)
        return max(-offsets[0], 0), max(offsets[-1], 0)

    def applies(self) -> bool:
        w = self.p.w
        places = zip(w.result, w.strides, w.image, strict=True)
        inside = all((count - 1) * step < size for count, step, size in places)
        floats = bitwidth(w.element) >= 16
        return len(w.image) == 2 and inside and floats and w.image[-1] < LONGEST

    def bytes(self) -> int:
        """In UB."""
        p, size, wide = self.p, self.p.w.bits // 8, bitwidth(self.p.sums) // 8
        rows = self.loaded + sum(self.around)
        total = 2 * self.cols * align_up(self.loaded * size, BLOCK)
        total += self.cols * (rows * (size + 2 + 4) + self.loaded * wide + self.pixels * size)
        total += self.cols * self.pixels * 4 if p.covered else 0
        total += 0 if self.is_dense else self.cols * align_up(self.pixels * size, BLOCK)
        return total + 2 * self.cols * align_up(self.results * size, BLOCK) + 8 * self.results

    def cycles(self, target: Target) -> float:
        """Of the busiest core."""
        core, p, w = Core.of(target), self.p, self.p.w
        (high, across), (down, lines) = w.kernel, self.counts
        size, row = self.cols * w.bits / 8, self.cols * bitwidth(p.sums) // 8

        def each(names: str) -> float:
            return core.vector(names, self.loaded, row)

        vector = (across - 1) * core.vector("compare select", self.loaded, size)
        vector += (across + 1) * each("cast") if p.sums != w.element else 0.0
        vector += (across + high - 2 + bool(p.covered)) * each("max")
        vector += 2 * core.vector("transpose", self.loaded, size)
        if p.covered and lines > 1:
            vector += core.vector(SHARED, self.pixels, self.cols * 4)
        if not self.is_dense:
            vector += self.cols * core.vector("gather", 1, self.results * 4)
        load = core.ub(self.cols, self.loaded * w.bits / 8)
        return cycles_of_blocks(ceil(down * lines / target.vector_cores), (load, 1), (vector, 1))

    def written(self, target: Target) -> Written:
        op, w = self.p.op, self.p.w
        count = prod(self.counts)

        def write(c: Tracer, arguments: Arguments) -> None:
            TurnedWriter(c, self, arguments).write(count)

        shapes = {op.input: (w.channels, *w.image), op.result: (w.channels, prod(w.result))}
        return Written(write, min(count, target.vector_cores), shapes)


def fastest_turned(p: Pool, target: Target) -> Turned | None:
    """The fastest block by estimate; None where there is none."""
    if not {"gather", "transpose"} <= {*target.vector_cycles}:
        return None
    lines = p.w.result[-2]
    high = {ceil(lines / n) for n in range(1, lines + 1)}
    blocks = [Turned(p, FRACTAL * n, h) for n in range(1, 9) for h in sorted(high)]
    blocks = [b for b in blocks if b.applies() and b.bytes() <= target.ub_bytes]
    return min(blocks, key=lambda b: b.cycles(target), default=None)


class TurnedWriter:
    """The program, while it is written."""

    def __init__(self, c: Tracer, b: Turned, arguments: Arguments) -> None:
        self.c, self.b, self.p, w = c, b, b.p, b.p.w
        self.source, self.out = arguments[b.p.op.input], arguments[b.p.op.result]
        self.before, behind = b.around
        rows = self.before + b.loaded + behind
        self.loaded = c.ub(b.cols, b.loaded, w.element, copies=2)
        self.image = c.ub(rows, b.cols, w.element)
        self.numbers = c.ub(rows, b.cols, f16)
        self.own = c.tile_of(v.Counted("rows", -self.before, (rows, b.cols), f32))
        self.lines = c.ub(b.loaded, b.cols, b.p.sums)
        self.found = c.ub(b.pixels, b.cols, w.element)
        self.stored = c.ub(b.cols, b.results, w.element, copies=2)
        if not b.is_dense:
            self.back = c.ub(b.cols, b.pixels, w.element)
            self.places = c.ub(1, b.results, i32)
        if b.p.covered:
            self.shares = c.ub(b.pixels, b.cols, f32)

    def write(self, count: int) -> None:
        c, b, p = self.c, self.b, self.p
        self.prepare()
        across, width = b.counts[1], b.width
        for i in c.share(count):
            row, line = i // across * b.cols, i % across * b.lines
            if p.covered and across > 1:
                self.share_out(line * p.w.strides[-2])
            first = line * p.w.strides[-2] - p.w.pads[-2]
            box = self.source[row:, first:, 0:].sized(b.cols, b.loaded // width, width)
            tile = c.load(self.loaded[i], box, pad=p.pad)
            c.move(self.whole(self.image, self.before), tile.T)
            self.lines[:] = reduce(p.combine, self.of_columns())
            apart = p.w.dilations[-2] * width
            parts = [
                self.lines.part(k * apart, 0, (b.pixels, b.cols)) for k in range(p.w.kernel[-2])
            ]
            total = p.finished(reduce(p.combine, parts))
            if p.covered:
                total = total * self.shares
            self.found[:] = v.cast(total, p.w.element)
            if b.is_dense:
                c.move(self.stored[i], self.found.T)
            else:
                c.move(self.back, self.found.T)
                c.gather(self.stored[i], self.back, self.places)
            c.store(self.out[row:, line * p.w.result[-1] :], self.stored[i])

    def whole(self, tile: v.Tile, row: Scalar) -> v.Tile:
        """As many rows as there are pixels of an image."""
        return tile.part(row, 0, (self.b.loaded, self.b.cols))

    def of_columns(self) -> list[v.Expression]:
        """What a window has for each column of the kernel, in the line of its place."""
        width, found = self.b.width, list[v.Expression]()
        for o in self.b.offsets(-1):
            x: v.Expression = self.whole(self.image, self.before + o)
            if o:
                number = self.whole(self.numbers, self.before + o)
                inside = number >= float(o) if o > 0 else number < float(width + o)
                x = v.where(inside, x, float(self.p.pad))
            found.append(self.p.of_element(x))
        return found

    def prepare(self) -> None:
        """What all blocks have in common."""
        c, b, p, w = self.c, self.b, self.p, self.p.w
        width = b.width
        self.numbers[:] = v.cast(self.own - line_of(self.own, width) * float(width), f16)
        if p.covered and b.counts[1] == 1:
            self.share_out(0)
        c.fill(self.image, p.pad)
        if not b.is_dense:
            place = v.cast(v.columns(b.results), f32)
            line = line_of(place, w.result[-1])
            col = place - line * float(w.result[-1])
            pixel = line * float(w.strides[-2] * width) + col * float(w.strides[-1])
            self.places[:] = v.cast(pixel, i32)

    def share_out(self, first: Scalar) -> None:
        """One over the number of elements that windows have, from a line on."""
        own = self.own.part(self.before, 0, self.shares.shape)
        line = line_of(own, self.b.width)
        begin = v.cast(v.columns(1, first), f32)
        counts = self.count(-1, own - line * float(self.b.width)) * self.count(-2, line + begin)
        self.shares[:] = 1.0 / v.maximum(counts, 1.0)

    def count(self, dim: int, place: v.Expression) -> v.Expression:
        """Elements of windows along a dimension that count."""
        return self.p.elements(dim, place - float(self.p.whole.pads[dim]))


def line_of(number: v.Expression, width: int) -> v.Expression:
    return v.unary(FloorOp, (number + 0.5) / float(width))
