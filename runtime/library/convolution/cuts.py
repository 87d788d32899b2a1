"""Cuts of convolutions into blocks of the result, and of blocks into steps over input channels. By
what a cut asks of the pipes of a core the fastest is taken."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from math import ceil, gcd, inf, prod
from operator import itemgetter
from typing import NamedTuple

from xdsl.dialects.builtin import bf16, f16, f32, i8
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, FRACTAL, Memory
from ge.dialects.tile.unfold import Unfolding
from ge.runtime.library.costs.cycles import l0_cycles, pop_rate, push_rate, window_rate
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.launch import NotLowered
from ge.runtime.library.matmul.blocks import SUM_BYTES, extents
from ge.runtime.library.windows.windows import Windows, windows_of


@dataclass(frozen=True)
class ConvolutionProblem(Windows):
    """A convolution: `batch` times weights of one group by windows of its channels."""

    op: ConvOp | ConvTransposeOp = field(compare=False)
    element: Attribute
    has_bias: bool  # that the cube adds
    batch: int  # images times groups
    groups: int
    ins: int  # channels of a group
    outs: int
    last: bool  # channels of the input are last
    turned: bool  # those of the result are
    passing: int = 0  # whole values that vector cores take for a block of sums; 0: they take none
    narrowest: int = 32  # bits of a whole value
    pixel_bits: int = 0  # that UB has of all whole values, for each pixel that passes
    columns: int = 0  # operands with a number for each row of a block that passes
    shared: bool = False  # the input is an operand of other ops, too
    copies: int = 0  # bytes of UB for copies beside it
    single_lines: bool = False  # blocks have one line
    scales: int = 0  # rows of them in FB, by which sums of integers leave
    bias_row: bool = False  # which these begin with, in BT

    @classmethod
    def of(cls, op: ConvOp, turned: bool) -> "ConvolutionProblem":
        """Describe a convolution. Raises NotLowered if it is none of images."""
        shape, weight, last = op.input_shape(), shape_of(op.weight), op.channel_axis != 1
        element = element_of(op)
        if op.input is op.weight:
            raise NotLowered("its input is its weight: one value would have two shapes in memory")
        windows = windows_of(op.window(), shape[2:], shape_of(op.result)[2:])
        groups, images = op.groups, shape[0] * op.groups
        if groups > 1 and (last or turned):
            raise NotLowered("channels are last, and in groups")
        sizes = images, groups, weight[1], weight[0] // groups
        found = cls(*windows, op, element, has_bias(op), *sizes, last, turned)
        if last and found.has_planes:
            raise NotLowered("channels are last, and images have planes")
        return found

    @cached_property
    def bits(self) -> int:
        return bitwidth(self.element)

    @cached_property
    def unit(self) -> int:
        """Blocks and steps have multiples of so many."""
        return max(FRACTAL, BLOCK * 8 // min(self.bits, self.narrowest))

    @cached_property
    def depth(self) -> int:
        return self.ins * self.taps

    @property
    def bias(self) -> SSAValue | None:
        """The bias that the cube adds."""
        return self.op.bias if self.has_bias else None

    @property
    def pad(self) -> int:
        """The pad value around images."""
        return self.op.pad_value.value.data if isinstance(self.op, ConvOp) else 0

    def row_bytes(self, m: int, target: Target) -> int:
        """Bytes that rows of scales and bias take in L1; more than there are if BT or FB have no
        room for them."""
        room, row = target.core_memories, m * SUM_BYTES
        if self.scales * row > room["fb"] or self.bias_row * row > room["bt"]:
            return room["l1"]
        return 2 * (self.scales + self.bias_row) * row

    @property
    def is_matmul(self) -> bool:
        """True if each window is one element, and windows lie side by side."""
        return self.taps == 1 and {*self.strides} == {1} and not any(self.pads)

    @property
    def unfolds(self) -> bool:
        """True if windows may be unfolded of one image in L1."""
        return not self.is_matmul and not self.has_planes

    @property
    def line_step(self) -> int:
        """Distance from one line of an image that is loaded whole to the next: windows of one line
        leave lines out."""
        return self.strides[0] if self.kernel[0] == 1 else 1

    def parts(self, target: Target) -> int:
        """Vector cores that bring pixels of an image before the cube."""
        return 1 if self.last else target.vector_parts

    @property
    def result_shape(self) -> Shape:
        """Shape of the result's memref, and of all operands that are added to it."""
        if self.turned:
            return (self.batch, *self.result, self.outs)
        return (self.batch, self.outs, *self.result)

    def shapes(self, cut: "ConvolutionCut") -> dict[SSAValue, Shape]:
        op = self.op
        image = (prod(self.image),) if cut.image and cut.image.whole else self.image
        shapes: dict[SSAValue, Shape] = {
            op.input: (self.batch, *image, self.ins)
            if self.last
            else (self.batch, self.ins, *image),
            op.weight: (self.groups, self.outs, self.depth),
        }
        if op.bias is not None:
            shapes[op.bias] = self.groups, self.outs, 1
        return shapes


def has_bias(op: ConvOp | ConvTransposeOp) -> bool:
    """True if the cube adds a bias."""
    return op.bias is not None and element_type(op.input) != i8


def element_of(op: ConvOp | ConvTransposeOp) -> Attribute:
    """The element type that is multiplied. Raises NotLowered for types that the cube does not
    multiply."""
    element, other = element_type(op.input), element_type(op.weight)
    if element not in (f16, bf16, f32, i8) or element != other:
        raise NotLowered(f"the cube does not multiply {element} by {other}")
    return element


@dataclass(frozen=True)
class ImagePart:
    """The part of an image in L1: pixels, in lines of `width`. `whole`: these are lines as they lie
    in memory, and padding lies left and right of them; else they begin and end with windows."""

    pixels: int
    width: int
    whole: bool


@dataclass(frozen=True)
class ConvolutionCut:
    """Blocks of m channels by `lines` x `cols` pixels; steps of `channels` input channels, in parts
    of `part`; how many `sums`. `image`: where windows are unfolded in L1."""

    m: int
    lines: int
    cols: int
    channels: int
    depth: int  # of a step, in L1
    part: int
    sums: int
    image: ImagePart | None = None

    @property
    def n(self) -> int:
        return self.lines * self.cols

    def counts(self, w: ConvolutionProblem) -> tuple[int, int, int]:
        """Blocks of channels, of lines and of columns."""
        lines, cols = w.result[-2:]
        return ceil(w.outs / self.m), ceil(lines / self.lines), ceil(cols / self.cols)

    def blocks(self, w: ConvolutionProblem) -> int:
        return w.batch * w.planes * prod(self.counts(w))

    def passes(self, w: ConvolutionProblem) -> bool:
        """True if vector cores have a part in it."""
        return w.passing > 0 or w.copies > 0 or (self.image is not None and not w.last)

    def room(self, w: ConvolutionProblem, target: Target) -> int:
        """Bytes of UB that are left for results."""
        room = target.ub_bytes - w.copies
        if self.image is None or w.last:
            return room
        count = 4 * self.image.pixels // w.parts(target) * self.channels
        return room - count * w.bits // 8

    def passing_rows(self, w: ConvolutionProblem, target: Target) -> int:
        """Rows of a block that pass a vector core at a time: of even pieces the largest that fits;
        0: not even the least one does."""
        parts, least = target.vector_parts, ceil(FRACTAL / target.vector_parts)
        most = self.room(w, target) // (self.n * w.pixel_bits // 8 + w.columns * 8)
        sizes = range(min(most, self.m // parts) // least * least, 0, -least)
        return next((n for n in sizes if self.m % (n * parts) == 0), 0)


class Sizes(NamedTuple):
    """Blocks of m channels by `lines` x `cols` pixels; `image`: the part of an image in L1, if
    windows are unfolded; `counts`: the channels that steps may have."""

    m: int
    lines: int
    cols: int
    image: ImagePart | None
    counts: list[int]


def block_sizes(w: ConvolutionProblem, target: Target) -> Iterator[Sizes]:
    """Sizes of blocks whose sums fit into L0C."""
    unit, most = w.unit, target.core_memories["l0c"] // SUM_BYTES
    plain, unfolded = channel_steps(w, unit)
    for high, wide in pixel_blocks(w, unit):
        image = None if not w.unfolds else image_in_l1(w, high, wide, unit * w.parts(target))
        for m in extents(w.outs, unit):
            if m * high * wide <= most:
                if plain:
                    yield Sizes(m, high, wide, None, plain)
                if unfolded:
                    yield Sizes(m, high, wide, image, unfolded)


def cuts(w: ConvolutionProblem, target: Target, block: Sizes) -> Iterator[ConvolutionCut]:
    """Cuts into blocks that fit on a core."""
    bits, room, unit = w.bits, target.core_memories, w.unit
    m, high, wide, image, counts = block
    n = high * wide
    sums = room["l0c"] // (m * n * SUM_BYTES)
    left, right = (n, m) if w.turned else (m, n)
    # L0A and L0B hold two parts of a step; beside them there may be two of the bias
    most = min(room["l0a"] // left, room["l0b"] // right) * 8 // (2 * bits) - unit
    l1 = room["l1"] - w.row_bytes(m, target)
    for count in counts:
        depth = align_up(min(count, w.ins) * w.taps, unit)
        pixels = image.pixels * count if image else n * depth
        if 2 * (m * depth + pixels + (m + n) * unit) * bits // 8 > l1:
            continue
        if part := best_part(depth // unit, most // unit) * unit:
            cut = ConvolutionCut(m, high, wide, count, depth, part, min(sums, 2), image)
            if cut.room(w, target) >= 0:
                yield cut


def least_bytes(w: ConvolutionProblem) -> dict[str, int]:
    """Bytes that the least block takes of each memory: a fractal of channels by one of pixels."""
    unit, counts = w.unit, [count for found in channel_steps(w, w.unit) for count in found]
    depth = align_up(min([min(count, w.ins) for count in counts], default=1) * w.taps, unit)
    part = 2 * 2 * unit * unit * w.bits // 8
    l1 = 2 * (2 * unit * depth + 2 * unit * unit) * w.bits // 8
    return {"l0c": unit * unit * SUM_BYTES, "l0a": part, "l0b": part, "l1": l1}


def pixel_blocks(w: ConvolutionProblem, unit: int) -> list[tuple[int, int]]:
    """Lines and columns of blocks: one line, or some whole lines."""
    lines, cols = w.result[-2:]
    blocks = [(1, c) for c in extents(cols, unit)]
    if not w.single_lines:
        even = {ceil(lines / n) for n in range(1, lines)} - {1}  # as few as give as many blocks
        few = unit // gcd(cols, unit)  # lines whose pixels fill whole fractals
        exact = {align_up(n, few) for n in even | {1} if few > 1}
        blocks += [(n, align_up(cols, unit)) for n in sorted(even - exact)]
        blocks += [(n, cols) for n in sorted(exact)]
    return blocks


def channel_steps(w: ConvolutionProblem, unit: int) -> tuple[list[int], list[int]]:
    """Possible numbers of channels in a step; and those where windows are unfolded in L1."""
    plain, unfolded = list[int](), list[int]()
    if w.is_matmul or not w.last:
        least = unit // gcd(unit, w.taps)  # channels whose kernel elements fill whole fractals
        plain = [w.ins, *(c for i in range(7) if (c := least << i) < w.ins)]
    if w.unfolds:
        whole = align_up(w.ins, unit)
        unfolded = [whole, *(c for i in range(7) if (c := unit << i) < whole)]
    return plain, unfolded


def unfolding(w: ConvolutionProblem, width: int, pixels: int, whole: bool) -> Unfolding:
    """Unfolding of windows of `pixels` results from lines of `width` pixels in L1; `whole`: lines
    as they lie in memory, else those parts that windows are within."""
    line = 1 if whole else w.line_step
    (down, across), (high, wide) = w.dilations, w.kernel
    strides, left = (w.strides[0] // line, w.strides[1]), w.pads[1] if whole else 0
    return Unfolding(width, pixels, (high, wide), strides, (down, across), left)


def image_in_l1(w: ConvolutionProblem, lines: int, cols: int, unit: int) -> ImagePart:
    """The least part of an image that the windows of a block are within, in multiples of `unit`
    pixels. Lines come whole where the block has all columns."""
    if cols >= w.result[1] and not w.shared:
        width = w.image[1]
        high = unfolding(w, width, cols, True).reach(0, lines)
        return ImagePart(align_up(high * width, unit), width, True)
    need = unfolding(w, 0, cols, False)
    high = align_up(need.reach(0, lines), 2)
    wide = need.reach(1, cols)
    sizes = [(n, align_up(wide, unit // gcd(n, unit))) for n in range(high, high + 8, 2)]
    high, width = min(sizes, key=prod)
    return ImagePart(high * width, width, False)


@cache
def best_part(depth: int, most: int) -> int:
    """The longest part that divides a depth; one that does it an even number of times may be half
    as long, since two tiles take turns. 0: there is none."""
    parts = [p for p in range(1, min(depth, most) + 1) if depth % p == 0]
    return max(parts, key=lambda p: p * (1 + (depth // p % 2 == 0)), default=0)


@dataclass(frozen=True)
class Candidates:
    """Search for the fastest cut of a convolution. `even`: blocks of channels are whole, as others
    would be written behind them; `unfolded`: windows are unfolded in L1."""

    w: ConvolutionProblem
    target: Target
    even: bool = False
    unfolded: bool = False

    def cycles(self, cut: ConvolutionCut, most: float = inf) -> float:
        """Cycles of a cut; infinite if it takes `most`, or has no program."""
        w = self.w
        if (self.even and w.outs % cut.m) or (self.unfolded and cut.image is None):
            return inf
        found = cycles(w, cut, self.target, most)
        fits = found < most and (not w.passing or cut.passing_rows(w, self.target) > 0)
        return found if fits else inf

    def cuts(self) -> Iterator[ConvolutionCut]:
        blocks = block_sizes(self.w, self.target)
        return (cut for sizes in blocks for cut in cuts(self.w, self.target, sizes))

    @lru_cache(1024)
    def fastest(self) -> ConvolutionCut | None:
        """The fastest cut; None if none fits. Blocks that cannot be the fastest are not cut
        (`least_cycles`)."""
        w, target = self.w, self.target
        bounds = [(least_cycles(w, sizes, target), sizes) for sizes in block_sizes(w, target)]
        best, least = None, inf
        for bound, sizes in sorted(bounds, key=itemgetter(0)):
            if bound >= least:
                break
            for cut in cuts(w, target, sizes):
                if (found := self.cycles(cut, least)) < least:
                    best, least = cut, found
        return best


def least_cycles(w: ConvolutionProblem, sizes: Sizes, target: Target) -> float:
    """Lower bound of cycles for cuts into these blocks, as if all channels came in one step: all
    blocks of the busiest core, by their products, by their loads, or by how their sums leave."""
    m, high, wide, image, _ = sizes
    whole = ConvolutionCut(m, high, wide, w.ins, w.depth, w.depth, 1, image)
    core, (down, lines, across) = Core.of(target), whole.counts(w)
    users, size = w.batch * w.planes * lines * across, w.bits / 8
    width = w.depth * size
    load = core.load_rows(min(m, w.outs), width, w.depth, w.element, users / w.groups)
    load += brought(w, whole, down, target)[0]
    left, right = (whole.n, m) if w.turned else (m, whole.n)
    room = target.core_memories
    longest = min(room["l0a"] // left, room["l0b"] // right) / size / 2
    if longest < w.unit:
        return inf  # none fits
    starts = (w.depth / longest - 1) * target.mmad_start_cycles
    cube = core.mmad(m, whole.n, w.depth, w.element) + max(starts, 0)
    rounds = ceil(users * down / target.cube_cores)
    return rounds * max(cube, load, core.out(m * whole.n * SUM_BYTES))


def cycles(w: ConvolutionProblem, cut: ConvolutionCut, target: Target, most: float = inf) -> float:
    """Cycles of the busiest core; infinite if sums or loads alone take `most`."""
    core, (down, high, across), steps = Core.of(target), cut.counts(w), ceil(w.ins / cut.channels)
    users, size = w.batch * w.planes * high * across, w.bits / 8  # of weights
    rounds, parts = ceil(users * down / target.cube_cores), cut.depth // cut.part
    out, times = core.out(cut.m * cut.n * SUM_BYTES), steps * parts
    cube = times * core.mmad(cut.m, cut.n, cut.part, w.element)
    if rounds * max(cube, out) >= most:
        return inf
    width = min(cut.depth, w.depth) * size
    load = core.load_rows(min(cut.m, w.outs), width, w.depth, w.element, users / w.groups)
    windows, before = brought(w, cut, down, target)
    load = steps * (load + windows)
    if rounds * load >= most:
        return inf
    weights, unfolded = (Memory.L0B, Memory.L0A) if w.turned else (Memory.L0A, Memory.L0B)

    def fed(depth: int, rate: float) -> float:
        found = l0_cycles(weights, cut.m * depth * size, target)
        return found + l0_cycles(unfolded, cut.n * depth * size, target, rate)

    rate = window_rate(w.kernel, w.strides, w.dilations, target) if cut.image else inf
    feed = times * fed(cut.part, rate)
    if parts % 2:  # the last part of a step and the first one of the next share a tile
        cube += feed / parts
    if cut.sums == 1:
        cube += out
    if w.bias is not None:  # a part of its own
        feed, cube = feed + fed(w.unit, inf), cube + core.mmad(cut.m, cut.n, w.unit, w.element)
        load += core.load(cut.m * size)
    vector = max(passed(w, cut, target)) if w.passing else 0.0
    if vector and before:  # the next block's pixels come when these sums have passed
        cube += vector + before
    late = core.late("mixed", "cube") if cut.passes(w) else 0.0
    return late + cycles_of_blocks(
        rounds,
        (load, steps),
        (feed, times),
        (cube, times),
        (out, 1),
        (steps * before + vector, steps if before else 1),
    )


def brought(
    w: ConvolutionProblem, cut: ConvolutionCut, down: int, target: Target
) -> tuple[float, float]:
    """Cycles of MTE2 for the windows of a step, and of the vector cores before."""
    core, size, real = Core.of(target), w.bits / 8, min(cut.channels, w.ins)
    if (image := cut.image) is None:
        lines, cols = min(cut.lines, w.result[-2]), min(cut.cols, w.result[-1])
        count, users = real * w.taps * lines * cols, max(down * w.taps / prod(w.strides), 1)
        if w.strides[-1] > 1:  # each is a piece of its own
            load = core.apart(count, w.taps)
            return max(load, core.load(count * BLOCK, users, starts=w.taps)), 0.0
        stride = w.ins if w.last else prod(w.image)
        return core.load(count * size, users, core.share(stride, w.element), w.taps), 0.0
    if w.last:
        return core.load_rows(image.pixels, real * size, w.ins, w.element, down), 0.0
    # each vector core transposes its part of the pixels
    parts, bits = w.parts(target), cut.channels * w.bits / 8
    pixels = image.pixels / parts
    lines = 1 if image.whole else pixels / image.width
    load = core.ub(real * lines, pixels * size / lines)
    load = max(load, real * pixels * size / (core.hbm * down / parts))
    turn = core.vector("transpose", 1, bits * pixels)
    push = bits * pixels / push_rate(Memory.UB, target)
    pop = target.mte2_start_cycles + bits * pixels / pop_rate(Memory.L1, target)
    return parts * pop, max(load, turn, push)


def passed(w: ConvolutionProblem, cut: ConvolutionCut, target: Target) -> tuple[float, float]:
    """Cycles of a vector core for the sums of a block: to load its part, and to store it. Pieces of
    memory are rows of the block, or lines of rows where a block passes the last column."""
    core, (high, wide) = Core.of(target), w.result[-2:]
    pieces = cut.m * (1 if cut.cols == wide else min(cut.lines, high)) / target.vector_parts
    size = min(cut.n, high * wide) * SUM_BYTES * cut.m / target.vector_parts
    loads = (w.passing - 1) * core.ub(pieces, size / pieces)
    return size / core.back_rate + loads, core.store(pieces, size / pieces)
