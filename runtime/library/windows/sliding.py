"""Kernels for the vector cores: windows over each channel, of depthwise convolutions.

Rows are channels, columns are pixels. Lines of an image come once for each column of the kernel,
shifted by it (what an instruction works on begins at multiples of 32 bytes), with the lines that
windows reach beyond the block's; lines of windows are parts of those tiles. With a stride over
lines, each line of windows takes its own of them. With a stride over columns whole lines come once
(elements that do not lie side by side are slow to load), and columns are taken of them.

    for i in share(blocks)                       # channels, `lines` lines of `cols` pixels
      for each column s of the kernel
        load x[channels.., y - 1.., x + s - 1..] to t[s]     # lines + 2
      sum of t[s][:, r * cols ..] * weight[:, 3 r + s] over r, s, and the ops on it
      store
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from math import ceil, prod
from typing import Any

from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.support.window import WindowedOp
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.choices import in_order
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language.indices import Index, Scalar, SharedIndex
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import (
    Expression,
    Tile,
    cast,
    wide,
)
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written, no_room
from ge.runtime.library.pulling import number
from ge.runtime.library.windows.windows import Rest, Windows, windows_of

EXACT = 2**24 // 2**14  # products of i8 whose sums f32 has without rounding


@dataclass(frozen=True)
class Sliding(Windows):
    """Windows over `channels` of each of `batch` images."""

    op: WindowedOp
    batch: int
    channels: int

    @classmethod
    def of(cls, op: "ConvOp | PoolOp") -> "Sliding":
        """Raises NotLowered for what has no program here."""
        batch, channels, *image = shape_of(op.input)
        windows = windows_of(op.window(), tuple(image), shape_of(op.results[0])[2:])
        if isinstance(op, PoolOp):
            batch, channels = 1, batch * channels
        elif op.channel_axis != 1:
            raise NotLowered("its channels are last")
        elif element_type(op.input) == i8 and prod(op.window().kernel) > EXACT:
            raise NotLowered("its sums of integers are not those of f32")
        return cls(*windows, op, batch, channels)

    @cached_property
    def element(self) -> Any:
        return element_type(self.op.operands[0])

    @cached_property
    def bits(self) -> int:
        return bitwidth(self.element)

    @cached_property
    def covered(self) -> list[tuple[int, int]]:
        """Of averages whose windows have different numbers of elements: where along each dimension
        those begin and end that count."""
        op = self.op
        if not isinstance(op, PoolOp) or op.kind.data != "average":
            return []
        if self.taps == 1 and self.image == self.result:  # each window is an element
            return []
        window = op.window().resolved(shape_of(op.input)[2:])
        pads = op.count_include_pad.value.data
        behind = [0] * (len(self.image) - window.rank) + [*window.pads[window.rank :]]
        found = [
            (-begin, size + end) if pads else (0, size)
            for begin, size, end in zip(self.pads, self.image, behind, strict=True)
        ]
        sizes = zip(self.result, self.strides, self.kernel, self.dilations, strict=True)
        lasts = [(n - 1) * step + (k - 1) * apart for n, step, k, apart in sizes]
        ends = zip(found, self.pads, lasts, strict=True)
        inside = (low <= -begin and last - begin < high for (low, high), begin, last in ends)
        return [] if all(inside) else found

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        """Of memrefs."""
        shapes: dict[SSAValue, Shape] = {
            self.op.operands[0]: (self.batch, self.channels, *self.image)
        }
        if isinstance(self.op, ConvOp):
            shapes[self.op.weight] = self.channels, self.taps
            if self.op.bias is not None:
                shapes[self.op.bias] = self.channels, 1
        return shapes

    @cached_property
    def phases(self) -> dict[int, list[int]]:
        """The lines of the kernel that share lines of the image, by the rest of their place."""
        found: dict[int, list[int]] = {}
        for line in range(self.kernel[-2]):
            found.setdefault(line * self.dilations[-2] % self.strides[-2], []).append(line)
        return found

    def shift(self, line: int) -> int:
        """Lines of the result by which a line of the kernel is behind the first of its phase."""
        place, step = line * self.dilations[-2], self.strides[-2]
        return place // step - self.phases[place % step][0] * self.dilations[-2] // step

    def high(self, phase: Sequence[int], lines: int) -> int:
        """Lines to load of a phase."""
        return lines + self.shift(phase[-1])

    @cached_property
    def loads(self) -> list[tuple[tuple[int, ...], int]]:
        """What is loaded for each column of the kernel: lines of a phase, of each of its planes."""
        return list(product(self.planes_of_kernel, self.phases))

    @cached_property
    def shifts(self) -> int:
        """Lines to load for a column of the kernel beside those of the result."""
        return sum(self.high(self.phases[phase], 0) for _, phase in self.loads)


@dataclass(frozen=True)
class SlidingCut:
    """Blocks of `rows` channels, `lines` and `cols` of pixels."""

    rows: int
    lines: int
    cols: int
    takes: bool = False  # columns with a stride come together, and vector cores take them apart

    def counts(self, w: Sliding) -> tuple[int, int, int]:
        lines, cols = w.result[-2:]
        return ceil(w.channels / self.rows), ceil(lines / self.lines), ceil(cols / self.cols)

    def blocks(self, w: Sliding) -> int:
        return w.batch * w.planes * prod(self.counts(w))

    def pixels(self, w: Sliding) -> int:
        """Of what is loaded."""
        lines = len(w.loads) * self.lines + w.shifts
        return w.kernel[-1] * self.rows * lines * self.cols

    def loaded(self, w: Sliding) -> int:
        """Pixels that come, where columns are taken apart: a line more, for what is taken of the
        last one passes its end."""
        lines = len(w.loads) * (self.lines + 1) + w.shifts
        return self.rows * lines * self.cols * w.strides[-1]

    def bytes(self, w: Sliding, rest: Rest) -> int:
        """In UB."""
        pixels = self.pixels(w) / 2 + self.loaded(w) if self.takes else self.pixels(w)
        bits = ceil(pixels * w.bits)
        bits += self.rows * self.lines * self.cols * rest.whole_bits
        columns = len(rest.others) + w.taps + 1
        return bits // 4 + 2 * columns * align_up(self.rows * 4, BLOCK)

    def cycles(self, w: Sliding, target: Target) -> float:
        """Of the busiest core."""
        core, loads, size = Core.of(target), w.kernel[-1] * len(w.loads), w.bits / 8
        lines, taken = self.pixels(w) // self.cols, 0.0
        if self.takes:
            taken = core.vector("gather", lines, self.cols * size)
            lines //= w.kernel[-1]
            load = core.ub(lines, self.loaded(w) * size / lines, len(w.loads))
        elif w.strides[-1] > 1:  # each pixel is a piece
            load = core.ub(self.pixels(w), BLOCK, loads)
        else:
            load = core.ub(lines, self.cols * size, loads)
        row = self.lines * self.cols * 4
        tap = core.by_column("mul", self.rows, row) + core.vector("add", self.rows, row)
        tap += core.vector("cast", self.rows, row) if w.bits < 32 else 0.0
        return cycles_of_blocks(
            ceil(self.blocks(w) / target.vector_cores),
            (load + core.ub(w.taps * self.rows, BLOCK, w.taps), 1),
            (taken + w.taps * tap, 1),
        )


def cuts(w: Sliding, narrowest: int, target: Target) -> list[SlidingCut]:
    """`narrowest`: bits of an element."""
    lines, cols = w.result[-2:]
    unit = BLOCK * 8 // narrowest
    rows = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n < 2 * w.channels]
    wide = [align_up(ceil(cols / n), unit) for n in (1, 2, 4, 8, 16, 32, 64) if n <= cols]
    high = sorted({ceil(lines / n) for n in range(1, lines + 1)})
    found = [SlidingCut(r, n, c) for r in rows for c in wide for n in high if n == 1 or c >= cols]
    if (step := w.strides[-1]) > 1 and "gather" in target.vector_cycles:
        reach = (w.kernel[-1] - 1) * w.dilations[-1] + 1  # columns that windows see
        whole = align_up(cols + max(0, ceil((reach - step) / step)), unit)
        found += [SlidingCut(r, n, whole, takes=True) for r in rows for n in high]
    return found


def lower_sliding(launch: Launch) -> Written:
    """A depthwise convolution, and ops on its result."""
    op = next(op for op in launch.body.ops if isinstance(op, ConvOp))
    w = Sliding.of(op)
    rest = Rest(launch, op, (w.batch, w.channels, *w.result), (1, w.channels, 1))
    room = launch.target.core_memories["ub"]
    found = {c: c.bytes(w, rest) for c in cuts(w, rest.narrowest, launch.target)}
    fitting = [cut for cut, size in found.items() if size <= room]
    if not fitting:
        raise no_room({"ub": min(found.values(), default=0)}, launch.target)
    cut = next(iter(in_order(sorted(fitting, key=lambda cut: cut.cycles(w, launch.target)))))

    def write(c: Tracer, arguments: Arguments) -> None:
        SlidingWriter(c, w, cut, arguments, rest).write()

    cores = min(cut.blocks(w), launch.target.vector_cores)
    us = Core.of(launch.target).us("vector", cut.cycles(w, launch.target))
    return Written(write, cores, w.shapes | rest.shapes, us)


class SlidingWriter:
    """The program, while it is written."""

    def __init__(
        self, c: Tracer, w: Sliding, cut: SlidingCut, arguments: Arguments, rest: Rest
    ) -> None:
        self.c, self.w, self.cut, self.arguments, self.rest = c, w, cut, arguments, rest
        self.pixels = cut.lines * cut.cols
        high = {phase: w.high(taps, cut.lines) for phase, taps in w.phases.items()}
        copies = None if cut.takes else 2
        self.lines = {
            (*load, col): c.ub(cut.rows, high[load[1]] * cut.cols, w.element, copies=copies)
            for load in w.loads
            for col in range(w.kernel[-1])
        }
        if cut.takes:
            line = cut.cols * w.strides[-1]
            self.loaded = {
                load: c.ub(cut.rows, (high[load[1]] + 1) * line, w.element, copies=2)
                for load in w.loads
            }
        self.rings: dict[SSAValue, Tile] = {}
        for value, kind in rest.others.items():
            self.rings[value] = self.ring(value, self.pixels if kind == "all" else 1)
        if isinstance(w.op, ConvOp):
            self.weights = [self.ring(w.op.weight, 1) for _ in range(w.taps)]
            if w.op.bias is not None:
                self.bias = self.ring(w.op.bias, 1)
        self.stored = {out: self.ring(out, self.pixels) for out in rest.results.values()}

    def ring(self, like: SSAValue, cols: int) -> Tile:
        return self.c.ub(self.cut.rows, cols, element_type(like), copies=2)

    def write(self) -> None:
        c, cut, w, rest = self.c, self.cut, self.w, self.rest
        _, high, across = cut.counts(w)
        for i in c.share(cut.blocks(w)):
            block, place = c.now(i // (high * across)), c.now(i % (high * across))
            pixel = c.now(place // across * cut.lines), c.now(place % across * cut.cols)
            down = ceil(w.channels / cut.rows)
            image, plane = w.image_of(c, block // down)
            row, at = c.now(block % down * cut.rows), (*plane, *pixel)
            known: dict[SSAValue, Expression] = {}
            for value, ring in self.rings.items():
                if rest.others[value] == "all":
                    box = self.box(value, image, row, at)
                else:
                    box = rest.column_box(value, self.arguments[value], image, 0, row)
                known[value] = c.load(ring[i], box, pad=1)
            if cut.takes:
                self.take_lines(i, image, row, at)
            else:
                for (plane, phase, col), ring in self.lines.items():
                    self.load_lines(ring[i], (*plane, w.phases[phase][0], col), image, row, at)
            known[w.op.results[0]] = self.convolved(i, row)

            def keep(
                out: SSAValue, value: Expression, i: SharedIndex = i, box: Any = (image, row, at)
            ) -> Tile:
                tile = self.stored[out][i]
                tile[:] = value
                c.store(self.box(out, *box), tile)
                return tile

            rest.compute(known, (cut.rows, self.pixels), keep)

    def box(self, value: SSAValue, image: Scalar, row: Scalar, at: Sequence[Scalar]) -> Any:
        """Of what has the result's shape."""
        *plane, line, col = at
        box = self.arguments[value][image, row:, *plane, line:, col:]
        return box.sized(self.cut.rows, self.cut.lines, self.cut.cols)

    def load_lines(
        self, tile: Tile, tap: Sequence[int], image: Scalar, row: Scalar, at: Sequence[Scalar]
    ) -> None:
        """The lines of a phase whose first line the kernel element `tap` is of."""
        box = self.arguments[self.w.op.operands[0]][image, row:, *self.w.spans(at, tap)]
        high = tile.shape[1] // self.cut.cols
        self.c.load(tile, box.sized(self.cut.rows, high, self.cut.cols), pad=self.pad)

    def take_lines(self, i: SharedIndex, image: Scalar, row: Scalar, at: Sequence[Scalar]) -> None:
        """Whole lines come once, and give the columns for each column of the kernel."""
        w, cut = self.w, self.cut
        for plane, phase in w.loads:
            taps = w.phases[phase]
            *spans, cols = w.spans(at, (*plane, taps[0], 0))
            box = self.arguments[w.op.operands[0]][image, row:, *spans, cols.start :]
            high = w.high(taps, cut.lines) + 1
            wide = self.loaded[plane, phase][i]
            self.c.load(wide, box.sized(cut.rows, high, cut.cols * w.strides[-1]), pad=self.pad)
            for col in range(w.kernel[-1]):
                target = self.lines[plane, phase, col]
                self.c.take(target, wide, col * w.dilations[-1], w.strides[-1])

    @property
    def pad(self) -> float:
        assert isinstance(self.w.op, ConvOp)
        return self.w.op.pad_value.value.data

    def elements(self, i: SharedIndex) -> list[Tile]:
        """By kernel element: what it meets in the windows of each pixel."""
        w, found = self.w, list[Tile]()
        for *plane, line, col in product(*map(range, w.kernel)):
            ring = self.lines[tuple(plane), line * w.dilations[-2] % w.strides[-2], col]
            at = w.shift(line) * self.cut.cols
            tile = ring if self.cut.takes else ring[i]
            found.append(tile[:, at : at + self.pixels])
        return found

    def convolved(self, i: SharedIndex, row: Index) -> Expression:
        op = self.w.op
        assert isinstance(op, ConvOp)
        terms: list[Expression] = []
        for tap, (x, ring) in enumerate(zip(self.elements(i), self.weights, strict=True)):
            terms.append(wide(x) * wide(self.column(op.weight, ring[i], row, tap)))
        total, element = reduce(lambda a, b: a + b, terms), element_type(op.result)
        total = total if is_float(element) else cast(total, element)
        if op.bias is not None:
            total = total + wide(self.column(op.bias, self.bias[i], row, 0))
        return cast(total, element)

    def column(self, value: SSAValue, tile: Tile, row: Index, at: int) -> Expression:
        """A number for each channel, or the one that there is."""
        if (constant := number(self.rest.launch, value)) is not None:
            return constant
        box = self.arguments[value][row:, at:].sized(self.cut.rows, 1)
        return self.c.load(tile, box, pad=0)
