"""Kernels for the vector cores: pools.

Rows of tiles are lines of images, of several channels one below the other, so that lines of windows
are rows of whole tiles and an instruction passes all of them at once; between two channels it
computes some that nobody stores. Terms that the lines of a kernel share are computed once:

    for i in share(blocks)                       # channels, `lines` lines of `cols` pixels
      for each column s of the kernel
        load x[channels.., y - 1.., x + s - 1..] to t[s]     # lines + 2 of each channel
      u = t[0] + t[1] + t[2]
      v = u[0:] + u[1:] + u[2:]                  # rows
      store v of each channel

With a stride over columns whole lines come once (elements that do not lie side by side are slow to
load): their lines are combined first, and columns are taken of that. Lines of a few elements are
slow, too: small images are turned (`Turned`), where that is faster. Where windows of an average
pass the image, lines and columns have the numbers of their elements. One window over a whole image
is a reduction.

Of small images that are turned channels are columns of tiles, pixels are rows. Lines of a few
elements are slow to load one by one. Here whole lines come, those of a channel side by side;
turned, a pixel beside or below is a row before or behind, wherever instructions begin. Elements
of a window from the other side of an image, since lines follow each other, do not count:

    for i in share(blocks)                       # `cols` channels, some lines
      load x[channels.., y - 1.., 0..] to t;  turn t to x
      h = max of x[o..] over offsets o of the kernel's columns, where these pixels are in the line
      v = max of h[o * width..] over those of its lines;  store v, turned

Pixels that are no place of a window, with strides, are left out at the end."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import ceil, prod

from xdsl.dialects.builtin import f16, f32, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.elementwise import FloorOp, PowOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.support.parameters import lowest
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar, SharedIndex, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, Written
from ge.runtime.library.windows.depthwise import Sliding
from ge.runtime.library.windows.windows import Rest, fastest

Combine = Callable[[v.Expression, v.Expression], v.Expression]


@dataclass(frozen=True)
class Pool:
    """`w`: windows without the parts outside of any image; `whole`: with these. `takes`: whole
    lines come, and columns are taken of them."""

    w: Sliding
    whole: Sliding
    op: PoolOp
    takes: bool

    @classmethod
    def of(cls, op: PoolOp, target: Target) -> "Pool":
        """Raises NotLowered if there is no program for it here."""
        whole = Sliding.of(op)
        takes = whole.strides[-1] > 1 and "gather" in target.vector_cycles
        return cls(meeting(whole), whole, op, takes)

    @cached_property
    def covered(self) -> list[tuple[int, int]]:
        """See `Sliding`."""
        return self.whole.covered

    @cached_property
    def sums(self) -> Attribute:
        """The element type that is combined."""
        narrow = self.op.kind.data != "max" and bitwidth(self.w.element) < 32
        return f32 if narrow else self.w.element

    @property
    def pad(self) -> float:
        return lowest(self.w.element) if self.op.kind.data == "max" else 0

    @property
    def unit(self) -> int:
        """Columns of a tile are a multiple of it."""
        return BLOCK * 8 // min(bitwidth(self.w.element), bitwidth(self.sums))

    @cached_property
    def shift(self) -> int:
        """Lines that a channel has in tiles beside those of the result."""
        return max(self.w.high(taps, 0) for taps in self.w.phases.values())

    def wide(self, cols: int) -> int:
        """Columns that are loaded for so many of the result."""
        if not self.takes:
            return cols
        reach = (self.w.kernel[-1] - 1) * self.w.dilations[-1] + 1
        return align_up((cols - 1) * self.w.strides[-1] + reach, self.unit)

    @property
    def columns(self) -> int:
        """Number of times that lines come."""
        return 1 if self.takes else self.w.kernel[-1]

    def of_element(self, x: v.Expression) -> v.Expression:
        """The term that an element contributes to the window's sum."""
        x = v.cast(x, self.sums)
        if self.op.kind.data != "lp":
            return x
        p = self.op.p.value.data
        return x * x if p == 2 else v.abs(x) if p == 1 else v.binary(PowOp, v.abs(x), float(p))

    def elements(self, dim: int, start: v.Expression) -> v.Expression:
        """Number of elements that count along a dimension, of a window that begins there."""
        last, apart = self.whole.kernel[dim] - 1, self.whole.dilations[dim]
        low, high = self.covered[dim]
        behind = v.minimum(floored(high - 1.0 - start, apart), last)
        before = v.minimum(floored(start - float(low), apart), 0.0)
        return v.maximum(behind + before + 1.0, 0.0)

    @property
    def combine(self) -> Combine:
        return v.maximum if self.op.kind.data == "max" else operator.add

    def finished(self, total: v.Expression) -> v.Expression:
        """The result, but for the number of elements of windows that pass the image."""
        if self.op.kind.data == "lp":
            p = self.op.p.value.data
            if p > 1:
                total = v.sqrt(total) if p == 2 else v.binary(PowOp, total, 1 / p)
        elif self.op.kind.data == "average" and not self.covered:
            total = total * (1 / self.whole.taps)
        return total


def meeting(w: Sliding) -> Sliding:
    """The windows without the elements of the kernel that meet no image, wherever they are."""
    kernel, pads = list[int](), list[int]()
    sizes = zip(w.image, w.result, w.kernel, w.strides, w.dilations, w.pads, strict=True)
    for size, count, length, step, apart, pad in sizes:
        at = [k for k in range(length) if -(count - 1) * step <= k * apart - pad < size] or [0]
        kernel.append(len(at))
        pads.append(pad - at[0] * apart)
    return replace(w, kernel=tuple(kernel), pads=tuple(pads))


def floored(x: v.Expression, by: int) -> v.Expression:
    return x if by == 1 else v.unary(FloorOp, x / float(by))


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
        """Pixels of a block that windows may begin at."""
        return self.lines * self.p.w.strides[-2] * self.width

    @cached_property
    def loaded(self) -> int:
        """Pixels with those that windows reach below."""
        return self.pixels + (self.p.w.kernel[-2] - 1) * self.p.w.dilations[-2] * self.width

    @property
    def results(self) -> int:
        return self.lines * self.p.w.result[-1]

    @property
    def counts(self) -> tuple[int, int]:
        """Number of blocks: of channels, and of lines."""
        w = self.p.w
        return ceil(w.channels / self.cols), ceil(w.result[-2] / self.lines)

    @property
    def is_dense(self) -> bool:
        """True if each pixel is the place of a window."""
        return self.p.w.strides == (1, 1) and self.width == self.p.w.result[-1]

    def offsets(self, dim: int) -> list[int]:
        """Offsets of a kernel's elements from the place of a window, which is its number times the
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
        p, size, wide = self.p, self.p.w.bits // 8, bitwidth(self.p.sums) // 8
        rows = self.loaded + sum(self.around)
        total = 2 * self.cols * align_up(self.loaded * size, BLOCK)
        total += self.cols * (rows * (size + 2 + 4) + self.loaded * wide + self.pixels * size)
        total += self.cols * self.pixels * 4 if p.covered else 0
        total += 0 if self.is_dense else self.cols * align_up(self.pixels * size, BLOCK)
        return total + 2 * self.cols * align_up(self.results * size, BLOCK) + 8 * self.results

    def cycles(self, target: Target) -> float:
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
        """A part of the tile with as many rows as there are pixels of an image."""
        return tile.part(row, 0, (self.b.loaded, self.b.cols))

    def of_columns(self) -> list[v.Expression]:
        """The elements of a window for each column of the kernel, in the line of its place."""
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
        """Compute the values that all blocks share."""
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
        """Compute one over the number of elements that windows have, from a line on."""
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


@dataclass(frozen=True)
class PoolingCut:
    """Blocks of so many channels, lines and columns of pixels."""

    channels: int
    lines: int
    cols: int

    def counts(self, p: Pool) -> tuple[int, int, int]:
        lines, cols = p.w.result[-2:]
        return ceil(p.w.channels / self.channels), ceil(lines / self.lines), ceil(cols / self.cols)

    def blocks(self, p: Pool) -> int:
        return p.w.planes * prod(self.counts(p))

    def rows(self, p: Pool) -> int:
        """Rows of tiles that are loaded."""
        return self.channels * (self.lines + p.shift)

    def computed(self, p: Pool) -> int:
        """Rows that lines of windows begin at."""
        return self.rows(p) - p.shift

    def bytes(self, p: Pool, rest: Rest) -> int:
        size, wide = bitwidth(p.sums) // 8, self.rows(p) * p.wide(self.cols)
        loads = len(p.w.loads)
        total = 2 * loads * p.columns * wide * p.w.bits // 8
        pixels = self.rows(p) * self.cols
        if p.takes:
            total += size * (wide + p.w.kernel[-1] * pixels)
        elif p.columns > 1:
            total += size * loads * pixels
        columns = 4 * BLOCK * self.rows(p) + 4 * BLOCK * self.cols if p.covered else 0
        others = 2 * BLOCK * len(rest.others)
        return total + pixels * rest.whole_bits // 4 + columns + others

    def cycles(self, p: Pool, target: Target) -> float:
        core, w, rows, wide = Core.of(target), p.w, self.rows(p), p.wide(self.cols)
        loads, taps = len(w.loads), sum(len(w.phases[phase]) for _, phase in w.loads)
        load = core.ub(rows, wide * w.bits / 8) * loads * p.columns
        cast = "" if bitwidth(p.sums) == w.bits else "cast"

        def each(names: str, cols: int) -> float:
            return core.vector(names, rows, cols * bitwidth(p.sums) / 8)

        vector = loads * p.columns * each(cast, wide) + taps * each("max", wide)
        if p.takes:
            vector += w.kernel[-1] * each("gather max", self.cols)
        elif p.columns > 1:
            vector += loads * (p.columns - 1) * each("max", wide)
        vector += each("mul mul", self.cols) if p.covered else 0.0
        store = core.store(self.channels * self.lines, self.cols * w.bits / 8)
        rounds = ceil(self.blocks(p) / target.vector_cores)
        times = loads * p.columns  # each tile is computed with when it is there
        return cycles_of_blocks(rounds, (load, times), (vector, times), (store, 1))


def cuts(p: Pool, rest: Rest) -> list[PoolingCut]:
    """Cuts of a pooling; with operands that are numbers for channels, a block has one channel."""
    high, wide = p.w.pieces(BLOCK * 8 // min(rest.narrowest, bitwidth(p.sums)))
    channels = [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if n < 2 * p.w.channels]
    return [
        PoolingCut(n, h, c)
        for n in (channels if not rest.others else [1])
        for c in wide
        for h in high
        if c >= p.w.result[-1] or h == 1 or n == 1
    ]


def lower_pool(launch: Launch) -> Written:
    """A pool, and ops on its result."""
    op = next(op for op in launch.body.ops if isinstance(op, PoolOp))
    p = Pool.of(op, launch.target)
    w = p.w
    rest = Rest(launch, op, (1, w.channels, *w.result), (1, w.channels, 1))
    sizes = {cut: cut.bytes(p, rest) for cut in cuts(p, rest)}
    cut = fastest(launch, sizes, lambda cut: cut.cycles(p, launch.target))
    turned = fastest_turned(p, launch.target) if rest.is_empty else None
    if turned is not None and turned.cycles(launch.target) < cut.cycles(p, launch.target):
        return turned.written(launch.target)

    def write(c: Tracer, arguments: Arguments) -> None:
        PoolingWriter(c, p, cut, arguments, rest).write()

    cores = min(cut.blocks(p), launch.target.vector_cores)
    return Written(write, cores, w.shapes | rest.shapes)


class PoolingWriter:
    """The program, while it is written."""

    def __init__(
        self, c: Tracer, p: Pool, cut: PoolingCut, arguments: Arguments, rest: Rest
    ) -> None:
        self.c, self.p, self.w, self.cut, self.arguments = c, p, p.w, cut, arguments
        self.rest, self.pitch = rest, cut.lines + p.shift
        self.rows, self.computed = cut.rows(p), cut.computed(p)
        wide = p.wide(cut.cols)
        self.loaded = {
            (*load, col): c.ub(self.rows, wide, p.w.element, copies=2)
            for load in p.w.loads
            for col in range(p.columns)
        }
        if p.takes:
            self.lines = c.ub(self.computed, wide, p.sums)
            self.taken = [c.ub(self.computed, cut.cols, p.sums) for _ in range(p.w.kernel[-1])]
        elif p.columns > 1:
            self.summed = {load: c.ub(self.rows, wide, p.sums) for load in p.w.loads}
        self.rings = {
            value: c.ub(*((self.computed, cut.cols) if kind == "all" else (1, 1)),
                        element_type(value), copies=2)
            for value, kind in rest.others.items()
        }  # fmt: skip
        self.stored = {
            out: c.ub(self.computed, cut.cols, element_type(out), copies=2)
            for out in rest.results.values()
        }
        if p.covered:
            self.shares = c.ub(self.computed, 1, f32), c.ub(1, cut.cols, f32)

    def write(self) -> None:
        c, cut, w = self.c, self.cut, self.w
        counts = cut.counts(self.p)
        whole = w.planes * prod(counts[1:]) == 1  # all blocks have the same pixels
        if self.p.covered and whole:
            self.share_out((0,) * len(w.result))
        for i in c.share(cut.blocks(self.p)):
            _, row, at = w.place(c, i, counts, (cut.channels, cut.lines, cut.cols))
            if self.p.covered and not whole:
                self.share_out(at)
            block = partial(self.box, row=row, at=at)
            known = self.rest.load(c, self.rings, i, self.arguments, (0, 0, row), block)
            known[self.p.op.results[0]] = self.pooled(i, row, at)
            self.rest.compute(known, self.stored, i, partial(self.store, row=row, at=at))

    def box(self, value: SSAValue, row: Scalar, at: Sequence[Scalar], count: int = 1) -> v.Subview:
        """Lines of a result's channels."""
        *plane, line, col = at
        box = self.arguments[value][0, row:, *plane, line:, col:]
        return box.sized(count, self.cut.lines, self.cut.cols)

    def store(self, out: SSAValue, tile: v.Tile, row: Index, at: Sequence[Scalar]) -> None:
        """Store all channels at once, or one by one if lines lie between them that are none of a
        result."""
        cut = self.cut
        if not self.p.shift or cut.channels == 1:
            self.c.store(self.box(out, row, at, cut.channels), tile)
            return
        for k in self.c.range(minimum(cut.channels, self.w.channels - row)):
            lines = tile.part(k * self.pitch, 0, (cut.lines, cut.cols))
            self.c.store(self.box(out, row + k, at), lines)

    def pooled(self, i: SharedIndex, row: Scalar, at: Sequence[Scalar]) -> v.Expression:
        c, p, combine = self.c, self.p, self.p.combine
        lines: dict[tuple[tuple[int, ...], int], v.Expression] = {}
        for load in p.w.loads:
            loaded = [self.load(self.loaded[*load, s][i], load, s, row, at)
                      for s in range(p.columns)]  # fmt: skip
            if not p.takes and p.columns > 1:
                self.summed[load][:] = reduce(combine, map(p.of_element, loaded))
                lines[load] = self.summed[load]
            else:
                lines[load] = loaded[0]
        total = reduce(combine, self.of_lines(lines))
        if p.takes:
            self.lines[:] = total
            for s, target in enumerate(self.taken):
                c.take(target, self.lines, s * p.w.dilations[-1], p.w.strides[-1])
            total = reduce(combine, self.taken)
        total = p.finished(total)
        if p.covered:
            total = total * self.shares[0] * self.shares[1]
        return v.cast(total, p.w.element)

    def of_lines(
        self, lines: dict[tuple[tuple[int, ...], int], v.Expression]
    ) -> list[v.Expression]:
        """The terms to combine, for each line of each plane of the kernel."""
        w, found = self.w, list[v.Expression]()
        for (plane, phase), tile in lines.items():
            assert isinstance(tile, v.Tile)
            for tap in w.phases[phase]:
                part = tile.part(w.shift(tap), 0, (self.computed, tile.shape[1]))
                done = (plane, phase) in getattr(self, "summed", {})
                found.append(part if done else self.p.of_element(part))
        return found

    def load(
        self,
        tile: v.Tile,
        load: tuple[tuple[int, ...], int],
        column: int,
        row: Scalar,
        at: Sequence[Scalar],
    ) -> v.Tile:
        """The lines of a phase, of each channel."""
        plane, phase = load
        *spans, cols = self.w.spans(at, (*plane, self.w.phases[phase][0], column))
        if self.p.takes:
            cols = slice(cols.start, None)
        box = self.arguments[self.p.op.input][0, row:, *spans, cols]
        box = box.sized(self.cut.channels, self.pitch, tile.shape[1])
        return self.c.load(tile, box, pad=self.p.pad)

    def share_out(self, at: Sequence[Scalar]) -> None:
        """Compute one over the number of elements that windows have: of lines (and planes), and of
        columns."""
        lines, cols = self.shares
        number = v.cast(v.rows(self.computed), f32)
        line = number - v.unary(FloorOp, (number + 0.5) / float(self.pitch)) * float(self.pitch)
        count = self.count(-2, at, line, v.rows)
        for dim in range(len(at) - 2):
            count = count * self.count(dim, at, None, v.columns)
        lines[:] = 1.0 / v.maximum(count, 1.0)
        column = v.cast(v.columns(self.cut.cols), f32)
        cols[:] = 1.0 / v.maximum(self.count(-1, at, column, v.columns), 1.0)

    def count(
        self,
        dim: int,
        at: Sequence[Scalar],
        place: v.Expression | None,
        numbers: Callable[..., v.Expression],
    ) -> v.Expression:
        """Elements of windows along a dimension that count, for each pixel from `at` on."""
        w = self.p.whole
        start = v.cast(numbers(1, at[dim] * w.strides[dim] - w.pads[dim]), f32)
        if place is not None:
            start = start + place * float(w.strides[dim])
        return self.p.elements(dim, start)
