"""Kernels for the vector cores: depthwise convolutions of images whose channels are last, or whose
lines are short.

Rows are pixels, columns are channels, so that a window's elements are rows further on, of one tile:

    for i in share(blocks)                       # `lines` lines of `cols` pixels, some channels
      load x[y - 1.., x - 1.., channels..] to t  # lines + 2, of cols + 2 pixels
      turned = transposed weights[channels.., :]
      for each line y
        sum of t[(y + r) (cols + 2) + s ..] * turned[3 r + s] over r, s, and what follows
        store

With a stride over columns, those that share a rest come together. What follows is pulled from the
sums; a transposition that leaves channels last is none, else sums are transposed before. So are
pixels of channels that are not last, which is faster than rows of a few pixels (`sliding.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from math import ceil, prod

from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.choices import in_order
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.programs import fits
from ge.runtime.library.pulling import Pull, number

Pair = tuple[int, int]


@dataclass(frozen=True)
class Pixels:
    """A convolution of `batch` images: lines and columns of them (images of one dimension have one
    line), of the result, of the kernel, strides, dilations, pads before."""

    op: ConvOp
    image: Pair
    result: Pair
    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pair

    @classmethod
    def of(cls, op: ConvOp) -> "Pixels":
        """Raises NotLowered for what has no program here."""
        image = op.input_shape()[2:]
        if op.channel_axis == 1 and {*op.window().strides[-1:]} != {1}:
            raise NotLowered("columns of channels that are not last have a stride")
        if len(image) > 2 or not is_float(element_type(op.input)):
            raise NotLowered("it is no convolution of floats of images")
        window, one = op.window().resolved(image), (1,) * (2 - len(image))

        def pair(sizes: Sequence[int], before: Shape = one) -> Pair:
            line, col = (*before, *sizes)
            return line, col

        return cls(
            op, pair(image), pair(shape_of(op.result)[2:]), pair(window.kernel),
            pair(window.strides), pair(window.dilations),
            pair(window.pads[: window.rank], (0,) * len(one)),
        )  # fmt: skip

    @property
    def turns(self) -> bool:
        """Whether channels of the input are not last."""
        return self.op.channel_axis == 1

    @property
    def batch(self) -> int:
        return shape_of(self.op.input)[0]

    @property
    def channels(self) -> int:
        return shape_of(self.op.weight)[0]

    @property
    def unit(self) -> int:
        """Elements in a block of memory."""
        return BLOCK * 8 // bitwidth(element_type(self.op.input))

    @cached_property
    def phases(self) -> list[int]:
        """The rests of the places of the kernel's columns by the stride."""
        step, apart = self.strides[1], self.dilations[1]
        return sorted({col * apart % step for col in range(self.kernel[1])})

    @property
    def reach(self) -> Pair:
        """By how many lines, and columns of a phase, windows reach beyond their first ones."""
        (down, across), step = self.dilations, self.strides[1]
        return (self.kernel[0] - 1) * down, (self.kernel[1] - 1) * across // step

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        """Of memrefs."""
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

    def loaded(self, w: Pixels) -> Pair:
        """Lines and columns of each phase."""
        down, across = w.reach
        wide = self.cols + across
        return (self.lines - 1) * w.strides[0] + down + 1, align_up(wide, w.unit if w.turns else 1)

    def bytes(self, w: Pixels) -> int:
        """Of what is loaded, in UB."""
        pixels = len(w.phases) * prod(self.loaded(w))
        copies = 3 if w.turns else 2
        return copies * pixels * self.channels * bitwidth(element_type(w.op.input)) // 8

    def cycles(self, w: Pixels, target: Target) -> float:
        """Of the busiest core."""
        core, size = Core.of(target), bitwidth(element_type(w.op.input)) / 8
        (high, wide), taps, row = self.loaded(w), prod(w.kernel), self.channels * 4
        if w.turns:
            load = core.ub(high * self.channels, wide * size)
        else:
            pixels = len(w.phases) * high * wide
            load = core.ub(pixels, self.channels * size, len(w.phases))
        # each row of a tap's tile meets the one row of weights
        tap = core.vector("mul", self.cols, row, self.cols > 1)
        tap += core.vector("add" if size == 4 else "cast add", self.cols, row)
        vector = self.lines * taps * tap
        if w.turns:
            for pixels in (high * wide, self.lines * self.cols):
                vector += core.vector("transpose", pixels, self.channels * size)
        rounds = ceil(self.blocks(w) / target.vector_cores)
        return cycles_of_blocks(rounds, (load, 1), (vector, 1))


def cuts(w: Pixels, target: Target) -> list[ChannelsLastCut]:
    """Those that fit, but for what follows, the fastest first."""
    (high, wide), unit, parts = w.result, w.unit, (1, 2, 4, 8, 16, 32, 64)
    channels = {align_up(ceil(w.channels / n), unit) for n in parts}
    cols = {align_up(ceil(wide / n), unit) for n in parts}
    lines = {ceil(high / n) for n in (*parts, 3, 6, 12, 24, high) if n <= high}
    found = [ChannelsLastCut(*sizes) for sizes in product(lines, cols, channels)]
    room = target.core_memories["ub"]
    fitting = (cut for cut in found if cut.bytes(w) <= room)
    return sorted(fitting, key=lambda cut: (cut.cycles(w, target), cut.lines, cut.cols))


def lower_channels_last(launch: Launch) -> Written:
    """A depthwise convolution by rows of channels, and what follows."""
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
    for cut in in_order(cuts(w, launch.target)):
        if fits(launch, written := by_blocks(launch, w, value, cut)):
            return written
    raise NotLowered("no block of it fits into ub")


def by_blocks(launch: Launch, w: Pixels, value: SSAValue, cut: ChannelsLastCut) -> Written:
    def write(c: Tracer, arguments: Arguments) -> None:
        ChannelsLastWriter(c, launch, w, value, cut, arguments).write()

    cores = min(cut.blocks(w), launch.target.vector_cores)
    us = Core.of(launch.target).us("vector", cut.cycles(w, launch.target))
    return Written(write, cores, w.shapes, us)


class ChannelsLastWriter:
    """The program, while it is written. `value`: what the sums are."""

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
        self.weights = c.ub(cut.channels, taps, element, copies=2)
        self.turned = c.ub(taps, cut.channels, element)
        self.bias = None if w.op.bias is None else c.ub(1, cut.channels, element, copies=2)
        self.sums = c.ub(cut.cols, cut.channels, element, copies=2)
        self.is_last = value is not w.op.result
        if not self.is_last:
            self.moved = c.ub(cut.channels, cut.cols, element, copies=2)

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
        """What windows of a block see, and the weights, with one for each channel side by side."""
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
        """Sums of one line, and what follows."""
        cut, sums = self.cut, self.sums[copy]
        total = v.wide(reduce(lambda a, b: a + b, self.terms(i, more)))
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
            ring = self.lines[w.phases.index(at % w.strides[1])]
            row = (more * w.strides[0] + line * w.dilations[0]) * wide + at // w.strides[1]
            tile = ring if w.turns else ring[i]
            x = tile.part(row, 0, (cut.cols, cut.channels))
            found.append(v.wide(x) * v.wide(self.turned[tap : tap + 1]))
        return found
