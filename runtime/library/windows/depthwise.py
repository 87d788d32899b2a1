"""Kernels for the vector cores: windows over each channel, of depthwise convolutions.

Either rows are channels, and columns are pixels (`Sliding`). Lines of an image come once for each
column of the kernel, shifted by it (operands of an instruction begin at multiples of 32 bytes),
with the lines that windows reach beyond the block's; lines of windows are parts of those tiles.
With a stride over lines, each line of windows takes its own of them. With a stride over columns
whole lines come once (elements that do not lie side by side are slow to load), and columns are
taken of them.

    for i in share(blocks)                       # channels, `lines` lines of `cols` pixels
      for each column s of the kernel
        load x[channels.., y - 1.., x + s - 1..] to t[s]     # lines + 2
      sum of t[s][:, r * cols ..] * weight[:, 3 r + s] over r, s, and the ops on it
      store

Or, where channels of images are last, or lines are short, rows are pixels, and columns are channels
(`ChannelsLastWriter`), so that a window's elements are rows further on, of one tile:

    for i in share(blocks)                       # `lines` lines of `cols` pixels, some channels
      load x[y - 1.., x - 1.., channels..] to t  # lines + 2, of cols + 2 pixels, which become f32
      turned = transposed weights[channels.., :]
      for each line y
        sum of t[(y + r) (cols + 2) + s ..] * turned[3 r + s] over r, s, and what follows
        store

With a stride over columns, those that share a rest come together. Ops behind it are pulled from the
sums; a transposition that leaves channels last is none, else sums are transposed before. So are
pixels of channels that are not last, which is faster than rows of a few pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import product
from math import ceil, prod
from typing import Any

from xdsl.dialects.builtin import f32, i8
from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.support.window import WindowedOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar, SharedIndex
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Expression, Tile, cast, wide
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written, in_order
from ge.runtime.library.programs import first_fitting
from ge.runtime.library.pulling import Pull, number
from ge.runtime.library.windows.windows import Rest, Windows, each_dimension, fastest, windows_of

EXACT = 2**24 // 2**14  # products of i8 whose sums f32 has without rounding


def check_exact(op: ConvOp) -> None:
    """Raises NotLowered where vector cores round sums of integers, which they compute in f32."""
    element = element_type(op.input)
    if not is_float(element) and (element != i8 or prod(op.window().kernel) > EXACT):
        raise NotLowered("its sums of integers are not those of f32")


@dataclass(frozen=True)
class Sliding(Windows):
    """Windows over `channels` of each of `batch` images."""

    op: WindowedOp
    batch: int
    channels: int

    @classmethod
    def of(cls, op: "ConvOp | PoolOp") -> "Sliding":
        """Raises NotLowered if there is no program for it here."""
        batch, channels, *image = shape_of(op.input)
        windows = windows_of(op.window(), tuple(image), shape_of(op.results[0])[2:])
        if isinstance(op, PoolOp):
            batch, channels = 1, batch * channels
        elif op.channel_axis != 1:
            raise NotLowered("its channels are last")
        else:
            check_exact(op)
        return cls(*windows, op, batch, channels)

    @cached_property
    def element(self) -> Any:
        return element_type(self.op.operands[0])

    @cached_property
    def bits(self) -> int:
        return bitwidth(self.element)

    @cached_property
    def covered(self) -> list[tuple[int, int]]:
        """Begins and ends, along each dimension, of the elements that count in averages whose
        windows have different numbers of elements."""
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
        """The lines to load for each column of the kernel: lines of a phase, for each plane."""
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
        """Number of pixels of the loaded lines."""
        lines = len(w.loads) * self.lines + w.shifts
        return w.kernel[-1] * self.rows * lines * self.cols

    def loaded(self, w: Sliding) -> int:
        """Number of pixels loaded, where columns are taken apart: a line more, as the elements
        taken from the last one pass its end."""
        lines = len(w.loads) * (self.lines + 1) + w.shifts
        return self.rows * lines * self.cols * w.strides[-1]

    def bytes(self, w: Sliding, rest: Rest) -> int:
        pixels = self.pixels(w) / 2 + self.loaded(w) if self.takes else self.pixels(w)
        bits = ceil(pixels * w.bits)
        bits += self.rows * self.lines * self.cols * rest.whole_bits
        columns = len(rest.others) + w.taps + 1
        return bits // 4 + 2 * columns * align_up(self.rows * 4, BLOCK)

    def cycles(self, w: Sliding, target: Target) -> float:
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


def sliding_cuts(w: Sliding, narrowest: int, target: Target) -> list[SlidingCut]:
    """`narrowest`: bits of an element."""
    cols, unit = w.result[-1], BLOCK * 8 // narrowest
    high, wide = w.pieces(unit)
    rows = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n < 2 * w.channels]
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
    sizes = {c: c.bytes(w, rest) for c in sliding_cuts(w, rest.narrowest, launch.target)}
    cut = fastest(launch, sizes, lambda cut: cut.cycles(w, launch.target))

    def write(c: Tracer, arguments: Arguments) -> None:
        SlidingWriter(c, w, cut, arguments, rest).write()

    cores = min(cut.blocks(w), launch.target.vector_cores)
    us = Core.of(launch.target).us("vector", cut.cycles(w, launch.target))
    return Written(write, cores, w.shapes | rest.shapes, us, engine=Engine.VECTOR)


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
        for i in c.share(cut.blocks(w)):
            image, row, at = w.place(c, i, cut.counts(w), (cut.rows, cut.lines, cut.cols))
            block = partial(self.box, image=image, row=row, at=at)
            known = rest.load(c, self.rings, i, self.arguments, (image, 0, row), block)
            if cut.takes:
                self.take_lines(i, image, row, at)
            else:
                for (plane, phase, col), ring in self.lines.items():
                    self.load_lines(ring[i], (*plane, w.phases[phase][0], col), image, row, at)
            known[w.op.results[0]] = self.convolved(i, row)
            rest.compute(known, self.stored, i, lambda out, tile, at=block: c.store(at(out), tile))

    def box(self, value: SSAValue, image: Scalar, row: Scalar, at: Sequence[Scalar]) -> Any:
        """A box of a value of the result's shape."""
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
        """For each kernel element, the elements that it meets in the windows of each pixel."""
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


@dataclass(frozen=True)
class Pixels(Windows):
    """Windows over each channel of some images of lines and columns."""

    op: ConvOp

    @classmethod
    def of(cls, op: ConvOp) -> "Pixels":
        """Raises NotLowered if there is no program for it here."""
        image = op.input_shape()[2:]
        if op.channel_axis == 1 and {*op.window().strides[-1:]} != {1}:
            raise NotLowered("columns of channels that are not last have a stride")
        if len(image) > 2:
            raise NotLowered("it is no convolution of images")
        check_exact(op)
        return cls(*each_dimension(op.window(), image, shape_of(op.result)[2:]), op)

    @cached_property
    def turns(self) -> bool:
        """True if channels of the input are not last."""
        return self.op.channel_axis == 1

    @cached_property
    def batch(self) -> int:
        return shape_of(self.op.input)[0]

    @cached_property
    def channels(self) -> int:
        return shape_of(self.op.weight)[0]

    @cached_property
    def unit(self) -> int:
        """Elements in a block of memory."""
        return BLOCK * 8 // bitwidth(element_type(self.op.input))

    @cached_property
    def phases(self) -> list[int]:
        """The rests of the places of the kernel's columns by the stride."""
        step, apart = self.strides[1], self.dilations[1]
        return sorted({col * apart % step for col in range(self.kernel[1])})

    @cached_property
    def reach(self) -> tuple[int, int]:
        """Number of lines, and of columns of a phase, by which windows reach beyond their first
        ones."""
        (down, across), step = self.dilations, self.strides[1]
        return (self.kernel[0] - 1) * down, (self.kernel[1] - 1) * across // step

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        weight, image = (self.channels, prod(self.kernel)), (*self.image, self.channels)
        if self.turns:
            image = (self.channels, *self.image)
        return {self.op.input: (self.batch, *image), self.op.weight: weight}


@dataclass(frozen=True)
class ChannelsLastCut:
    """Blocks of `lines` lines of `cols` pixels, of so many channels."""

    lines: int
    cols: int
    channels: int

    def counts(self, w: Pixels) -> tuple[int, int, int]:
        high, wide = w.result
        parts = ceil(high / self.lines), ceil(wide / self.cols)
        return *parts, ceil(w.channels / self.channels)

    def blocks(self, w: Pixels) -> int:
        return w.batch * prod(self.counts(w))

    def loaded(self, w: Pixels) -> tuple[int, int]:
        """Lines and columns of each phase."""
        down, across = w.reach
        wide = self.cols + across
        return (self.lines - 1) * w.strides[0] + down + 1, align_up(wide, w.unit if w.turns else 1)

    def bytes(self, w: Pixels) -> int:
        """Bytes of the loaded pixels in UB, and of those that are made wide."""
        pixels, bits = len(w.phases) * prod(self.loaded(w)), bitwidth(element_type(w.op.input))
        copies = 3 if w.turns else 2
        return pixels * self.channels * (copies * bits + 32 * (bits < 32)) // 8

    def cycles(self, w: Pixels, target: Target) -> float:
        core, size = Core.of(target), bitwidth(element_type(w.op.input)) / 8
        (high, wide), taps, row = self.loaded(w), prod(w.kernel), self.channels * 4
        if w.turns:
            load = core.ub(high * self.channels, wide * size)
        else:
            pixels = len(w.phases) * high * wide
            load = core.ub(pixels, self.channels * size, len(w.phases))
        # each row of a tap's tile meets the one row of weights
        tap = core.vector("mul", self.cols, row, self.cols > 1)
        tap += core.vector("add", self.cols, row)
        vector = self.lines * taps * tap
        if size < 4:
            vector += core.vector("cast", len(w.phases) * high * wide, row)
        if w.turns:
            for pixels in (high * wide, self.lines * self.cols):
                vector += core.vector("transpose", pixels, self.channels * size)
        rounds = ceil(self.blocks(w) / target.vector_cores)
        return cycles_of_blocks(rounds, (load, 1), (vector, 1))


def channels_last_cuts(w: Pixels, target: Target) -> list[ChannelsLastCut]:
    """Cuts that fit, apart from the ops that follow, the fastest first."""
    (high, wide), unit, parts = w.result, w.unit, (1, 2, 4, 8, 16, 32, 64)
    channels = {align_up(ceil(w.channels / n), unit) for n in parts}
    cols = {align_up(ceil(wide / n), unit) for n in parts}
    lines = {ceil(high / n) for n in (*parts, 3, 6, 12, 24, high) if n <= high}
    found = [ChannelsLastCut(*sizes) for sizes in product(lines, cols, channels)]
    room = target.core_memories["ub"]
    fitting = (cut for cut in found if cut.bytes(w) <= room)
    return sorted(fitting, key=lambda cut: (cut.cycles(w, target), cut.lines, cut.cols))


def lower_channels_last(launch: Launch) -> Written:
    """A depthwise convolution by rows of channels, and the ops after it."""
    op, *after = launch.body.ops
    if not isinstance(op, ConvOp):
        raise NotLowered(f"{op.name} stands before a depthwise convolution")
    w, value = Pixels.of(op), op.result
    order = (0, *range(2, len(shape_of(op.result))), 1)
    if after and isinstance(first := after[0], TransposeOp) and first.input is op.result:
        alone = op.result.has_one_use() and op.result not in launch.body.outputs
        if alone and first.ints("permutation") == order:
            value = first.result
    if any(shape_of(out) != shape_of(value) for out in launch.body.outputs):
        raise NotLowered("a result has not the shape of the convolution's")
    cuts = in_order(channels_last_cuts(w, launch.target))
    return first_fitting(launch, cuts, partial(by_blocks, launch, w, value))


def by_blocks(launch: Launch, w: Pixels, value: SSAValue, cut: ChannelsLastCut) -> Written:
    def write(c: Tracer, arguments: Arguments) -> None:
        ChannelsLastWriter(c, launch, w, value, cut, arguments).write()

    cores = min(cut.blocks(w), launch.target.vector_cores)
    us = Core.of(launch.target).us("vector", cut.cycles(w, launch.target))
    return Written(write, cores, w.shapes, us, engine=Engine.VECTOR)


class ChannelsLastWriter:
    """The program, while it is written. `value`: the value that the sums stand for."""

    def __init__(
        self,
        c: Tracer,
        launch: Launch,
        w: Pixels,
        value: SSAValue,
        cut: ChannelsLastCut,
        arguments: Arguments,
    ) -> None:
        self.c, self.launch, self.w, self.value = c, launch, w, value
        self.cut, self.arguments = cut, arguments
        element, taps = element_type(w.op.input), align_up(prod(w.kernel), w.unit)
        pixels = prod(cut.loaded(w))
        copies = None if w.turns else 2
        self.lines = [c.ub(pixels, cut.channels, element, copies=copies) for _ in w.phases]
        if w.turns:
            self.loaded = c.ub(cut.channels, pixels, element, copies=2)
        narrow = w.phases if bitwidth(element) < 32 else ()
        self.wide = [c.ub(pixels, cut.channels, f32) for _ in narrow]
        self.weights = c.ub(cut.channels, taps, element, copies=2)
        self.turned = c.ub(taps, cut.channels, element)
        self.taps = c.ub(taps, cut.channels, f32) if self.wide else self.turned
        made, bias = element_type(w.op.result), w.op.bias
        self.bias = None
        if bias is not None:
            self.bias = c.ub(1, cut.channels, element_type(bias), copies=2)
        self.sums = c.ub(cut.cols, cut.channels, made, copies=2)
        self.is_last = value is not w.op.result
        if not self.is_last:
            self.moved = c.ub(cut.channels, cut.cols, made, copies=2)

    def write(self) -> None:
        c, w, cut = self.c, self.w, self.cut
        down, across, deep = cut.counts(w)
        for i in c.share(cut.blocks(w)):
            block, channel = c.now(i // deep), c.now(i % deep * cut.channels)
            place, image = c.now(block % (down * across)), c.now(block // (down * across))
            line, col = c.now(place // across * cut.lines), c.now(place % across * cut.cols)
            self.load(i, image, line, col, channel)
            first = c.now(i.turn * cut.lines)
            for more in c.range(cut.lines):
                self.line(first + more, more, image, line + more, col, channel, i)

    def load(self, i: Index, image: Scalar, line: Index, col: Index, channel: Index) -> None:
        """Load the pixels that windows of a block see, and the weights, with one for each channel
        side by side."""
        c, w, cut = self.c, self.w, self.cut
        x, (high, wide) = self.arguments[w.op.input], cut.loaded(w)
        (down, step), (above, left) = w.strides, w.pads
        pad = w.op.pad_value.value.data
        if w.turns:
            lines, cols = slice(line * down - above, None), slice(col - left, None)
            box = x[image, channel:, lines, cols].sized(cut.channels, high, wide)
            c.move(self.lines[0], c.load(self.loaded[i], box, pad=pad).T)
        for phase, ring in zip(w.phases, () if w.turns else self.lines, strict=False):
            lines, cols = (
                slice(line * down - above, None),
                slice(col * step - left + phase, None, step),
            )
            box = x[image, lines, cols, channel:].sized(high, wide, cut.channels)
            c.load(ring[i], box, pad=pad)
        weights = self.weights[i]
        c.load(weights, self.arguments[w.op.weight][channel:, 0:].sized(*weights.shape), pad=0)
        c.move(self.turned, weights.T)
        if self.wide:  # once, not for each element of the kernel
            self.taps[:] = v.wide(self.turned)
        for wide, ring in zip(self.wide, self.lines, strict=False):
            wide[:] = v.wide(ring if w.turns else ring[i])
        if self.bias is not None and self.bias_number is None:
            assert w.op.bias is not None
            c.load(self.bias[i], self.arguments[w.op.bias][channel:].sized(cut.channels), pad=0)

    @cached_property
    def bias_number(self) -> v.Expression | None:
        return None if self.w.op.bias is None else number(self.launch, self.w.op.bias)

    def line(
        self, copy: Index, more: Index, image: Index, line: Index, col: Index, channel: Index,
        i: Index,
    ) -> None:  # fmt: skip
        """Compute the sums of one line, and the ops after them."""
        cut, sums = self.cut, self.sums[copy]
        total = v.wide(reduce(lambda a, b: a + b, self.terms(i, more)))
        total = total if is_float(sums.element) else v.cast(total, sums.element)
        if self.bias is not None:
            total = total + v.wide(
                self.bias_number if self.bias_number is not None else self.bias[i]
            )
        sums[:] = v.cast(total, sums.element)
        spans = {1: (channel, cut.channels), 2: (line, 1), 3: (col, cut.cols)}
        if self.is_last:
            spans = {3: spans[1], 1: spans[2], 2: spans[3]}
        else:
            self.c.move(self.moved[copy], sums.T)
            sums = self.moved[copy]
        places = [(image, 1), *(spans[dim] for dim in sorted(spans))]
        if len(shape_of(self.value)) < len(places):  # of one dimension
            del places[1 if self.is_last else 2]
        pull = Pull(self.c, self.launch, self.arguments, given={self.value: sums})
        for out in self.launch.body.outputs:
            pull.store(out, Box.of(places))

    def terms(self, i: Index, more: Index) -> list[v.Expression]:
        w, cut = self.w, self.cut
        (_, wide), found = cut.loaded(w), list[v.Expression]()
        for tap, (line, col) in enumerate(product(*map(range, w.kernel))):
            at = col * w.dilations[1]
            phase = w.phases.index(at % w.strides[1])
            row = (more * w.strides[0] + line * w.dilations[0]) * wide + at // w.strides[1]
            tile = self.wide[phase] if self.wide else self.lines[phase]
            tile = tile if w.turns or self.wide else tile[i]
            x = tile.part(row, 0, (cut.cols, cut.channels))
            found.append(x * self.taps[tap : tap + 1])
        return found
