"""How convolutions are cut into blocks of the result, and blocks into steps over input channels.

Of the cuts that fit on a core the fastest is taken, by an estimate from the target's facts: the
busiest pipe sets the pace of a block; the first load and the last store stand alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, gcd, inf, prod

from xdsl.dialects.builtin import bf16, f16, f32, i8
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.dialects.tile.unfold import Unfolding
from ge.lowering.kernels.blocks import SUM_BYTES, extents
from ge.lowering.kernels.launch import NotLowered
from ge.lowering.kernels.windows import Windows, windows_of
from ge.runtime.costs.cube import peak_macs
from ge.runtime.costs.instructions import REPEAT_BYTES
from ge.runtime.costs.split_cores import share_of, window_rate


@dataclass(frozen=True)
class Convolution(Windows):
    """A convolution: `batch` times weights of one group by windows of its channels."""

    op: ConvOp | ConvTransposeOp
    batch: int  # images times groups
    groups: int
    ins: int  # channels of a group
    outs: int
    last: bool  # channels of the input are last
    turned: bool  # those of the result are
    passing: int = 0  # whole values that vector cores take for a block of sums; 0: they take none
    narrowest: int = 32  # bits of a whole value
    shared: bool = False  # the input is an operand of other ops, too
    copies: int = 0  # bytes of UB for what is copied beside
    single_lines: bool = False  # blocks have one line

    @classmethod
    def of(cls, op: ConvOp, turned: bool) -> "Convolution":
        """Raises NotLowered for what is no convolution of images."""
        shape, weight, last = op.input_shape(), shape_of(op.weight), op.channel_axis != 1
        check_elements(op)
        windows = windows_of(op.window(), shape[2:], shape_of(op.result)[2:])
        groups, images = op.groups, shape[0] * op.groups
        if groups > 1 and (last or turned):
            raise NotLowered("channels are last, and in groups")
        found = cls(*windows, op, images, groups, weight[1], weight[0] // groups, last, turned)
        if last and found.has_planes:
            raise NotLowered("channels are last, and images have planes")
        return found

    @cached_property
    def element(self) -> Attribute:
        return element_type(self.op.input)

    @cached_property
    def bits(self) -> int:
        return bitwidth(self.element)

    @property
    def depth(self) -> int:
        return self.ins * self.taps

    @property
    def bias(self) -> SSAValue | None:
        """That the cube adds."""
        return None if self.element == i8 else self.op.bias

    @property
    def pad(self) -> int:
        """What is around images."""
        return self.op.pad_value.value.data if isinstance(self.op, ConvOp) else 0

    @property
    def is_matmul(self) -> bool:
        """Whether each window is one element, side by side."""
        return self.taps == 1 and {*self.strides} == {1}

    @property
    def unfolds(self) -> bool:
        """Whether windows may be unfolded of one image in L1."""
        return not self.is_matmul and not self.has_planes

    @property
    def line_step(self) -> int:
        """From one line of an image that is loaded whole to the next: windows of one line leave
        lines out."""
        return self.strides[0] if self.kernel[0] == 1 else 1

    def parts(self, target: Target) -> int:
        """Vector cores that bring pixels of an image before the cube."""
        return 1 if self.last else target.vector_parts

    @property
    def result_shape(self) -> Shape:
        """Of its memref, and of all that is added to it."""
        if self.turned:
            return (self.batch, *self.result, self.outs)
        return (self.batch, self.outs, *self.result)

    def shapes(self, cut: "Cut") -> dict[SSAValue, Shape]:
        """Of memrefs."""
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


def check_elements(op: ConvOp | ConvTransposeOp) -> None:
    """Raises NotLowered for what the cube does not multiply."""
    element, other = element_type(op.input), element_type(op.weight)
    if element not in (f16, bf16, f32, i8) or element != other:
        raise NotLowered(f"the cube does not multiply {element} by {other}")


@dataclass(frozen=True)
class ImagePart:
    """What L1 has of an image: pixels, in lines of `width`. `whole`: these are lines as they lie in
    memory, and what is left and right of them is padding; else they begin and end with windows."""

    pixels: int
    width: int
    whole: bool


@dataclass(frozen=True)
class Cut:
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

    def counts(self, w: Convolution) -> tuple[int, int, int]:
        """Blocks of channels, of lines and of columns."""
        lines, cols = w.result[-2:]
        return ceil(w.outs / self.m), ceil(lines / self.lines), ceil(cols / self.cols)

    def blocks(self, w: Convolution) -> int:
        return w.batch * w.planes * prod(self.counts(w))

    def room(self, w: Convolution, target: Target) -> int:
        """Bytes of UB that are left for results."""
        room = target.ub_bytes - w.copies
        if self.image is None or w.last:
            return room
        count = 4 * self.image.pixels // w.parts(target) * self.channels
        return room - count * w.bits // 8


def cuts(w: Convolution, target: Target) -> Iterator[Cut]:
    """Those that fit on a core."""
    bits, room = w.bits, target.core_memories
    unit = max(FRACTAL, BLOCK * 8 // min(bits, w.narrowest))
    steps = list(channel_steps(w, unit))
    lines, cols = w.result[-2:]
    blocks = [(1, c) for c in extents(cols, unit)]
    if not w.single_lines:
        blocks += [(n, align_up(cols, unit)) for n in range(2, lines + 1)]
        few = unit // gcd(cols, unit)  # lines whose pixels fill whole fractals
        blocks += [(n, cols) for n in range(few, lines + few, few) if few > 1]
    for high, wide in blocks:
        n = high * wide
        image = None if not w.unfolds else image_in_l1(w, high, wide, unit * w.parts(target))
        for m in extents(w.outs, unit):
            sums = room["l0c"] // (m * n * SUM_BYTES)
            if not sums:
                continue
            left, right = (n, m) if w.turned else (m, n)
            # beside two parts there may be two of the bias
            most = min(room["l0a"] // left, room["l0b"] // right) * 8 // (2 * bits) - unit
            for count, unfolds in steps:
                depth = align_up(min(count, w.ins) * w.taps, unit)
                known = image if unfolds else None
                pixels = known.pixels * count if known else n * depth
                if 2 * (m * depth + pixels + (m + n) * unit) * bits // 8 > room["l1"]:
                    continue
                if part := best_part(depth // unit, most // unit) * unit:
                    cut = Cut(m, high, wide, count, depth, part, min(sums, 2), known)
                    if cut.room(w, target) >= 0:
                        yield cut


def channel_steps(w: Convolution, unit: int) -> Iterator[tuple[int, bool]]:
    """How many channels a step has, and whether their windows are unfolded in L1."""
    if w.is_matmul or not w.last:
        least = unit // gcd(unit, w.taps)  # channels whose kernel elements fill whole fractals
        yield w.ins, False
        yield from ((c, False) for i in range(7) if (c := least << i) < w.ins)
    if w.unfolds:
        whole = align_up(w.ins, unit)
        yield whole, True
        yield from ((c, True) for i in range(7) if (c := unit << i) < whole)


def unfolding(w: Convolution, width: int, pixels: int, whole: bool) -> Unfolding:
    """How windows of `pixels` results are unfolded of lines of `width` pixels in L1; `whole`: lines
    as they lie in memory, else those parts that windows are within."""
    line = 1 if whole else w.line_step
    (down, across), (high, wide) = w.dilations, w.kernel
    strides, left = (w.strides[0] // line, w.strides[1]), w.pads[1] if whole else 0
    return Unfolding(width, pixels, (high, wide), strides, (down, across), left)


def image_in_l1(w: Convolution, lines: int, cols: int, unit: int) -> ImagePart:
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


def fastest(w: Convolution, target: Target, fits: Callable[[Cut], bool]) -> Cut | None:
    """Of the cuts that fit, the first of those that take the fewest cycles."""
    best, least = None, inf
    for cut in cuts(w, target):
        if (found := cycles(cut, w, target, least)) < least and fits(cut):
            best, least = cut, found
    return best


def cycles(cut: Cut, w: Convolution, target: Target, most: float = inf) -> float:
    """Of the busiest core, by the busiest of its pipes. Where its cube alone takes `most`, that is
    an answer: how the operands come there is not asked."""
    size, steps, counts = w.bits / 8, ceil(w.ins / cut.channels), cut.counts(w)
    parts = cut.depth // cut.part
    a, b = target.l1_to_l0a_rate, target.l1_to_l0b_rate
    unfolds = window_rate(w.kernel, w.strides, w.dilations, target) if cut.image else a
    left, right = (cut.n / min(a, unfolds), cut.m / b) if w.turned else (
        cut.m / a, cut.n / min(b, unfolds)
    )  # fmt: skip
    moves = parts * 2 * target.mte1_start_cycles + cut.depth * size * (left + right)
    products = cut.m * cut.n * cut.depth
    macs = parts * target.mmad_start_cycles + products / peak_macs(w.element, target)
    out = cut.m * cut.n * SUM_BYTES / (target.l0c_out_rate or target.l0c_to_ub_rate)
    cube = steps * macs + (out if cut.sums == 1 else 0)
    rounds = ceil(w.batch * w.planes * prod(counts) / target.cube_cores)
    if (least := rounds * max(steps * moves, cube, out)) >= most:
        return least
    windows, before, start = brought(cut, w, target, counts[0])
    images = w.batch * w.planes * prod(counts) // counts[0]
    hbm = target.hbm_rate * target.hbm_read_efficiency
    rate = min(target.l2_read_rate * share_of(w.depth, w.element), hbm * images)
    load = target.mte2_start_cycles + windows
    load += min(cut.m, w.outs) * min(cut.depth, w.depth) * size / rate
    vector = taken(cut, w, target)
    pace = max(steps * load, steps * before + vector, steps * moves, cube, out)
    return rounds * pace + start + before + load + macs / parts + out + vector


def brought(cut: Cut, w: Convolution, target: Target, down: int) -> tuple[float, float, float]:
    """Cycles of MTE2 for the windows of a step, of the vector cores before, and until a kernel with
    both kinds of cores begins. `down`: blocks of channels, each of which has the windows."""
    element, size = w.element, w.bits / 8
    hbm = target.hbm_rate * target.hbm_read_efficiency
    hbm /= 2 if w.passing > 1 else 1  # vector cores load, too
    if cut.image is None:
        stride = w.ins if w.last else prod(w.image)
        sizes = zip((cut.lines, cut.cols), w.result[-2:], strict=True)
        lines, cols = (min(a, b) for a, b in sizes)
        again = max(down * w.taps / prod(w.strides), 1)  # how often an element comes
        rate = min(target.l2_read_rate * share_of(stride, element), hbm * again)
        pixel = size if w.strides[-1] == 1 else BLOCK
        load = min(cut.channels, w.ins) * w.taps * lines * cols * pixel / rate
        return w.taps * target.mte2_start_cycles + load, 0.0, 0.0
    (pixels, width), real = (cut.image.pixels, cut.image.width), min(cut.channels, w.ins)
    if w.last:
        rate = min(target.l2_read_rate * share_of(w.ins, element), hbm * down)
        return target.mte2_start_cycles + pixels * real * size / rate, 0.0, 0.0
    parts, turns = w.parts(target), target.vector_cycles.get("transpose", 1)
    rate = target.l2_read_rate if target.split_cores else target.l0c_to_ub_rate
    pop = parts * target.mte2_start_cycles + pixels * cut.channels * size / rate
    share, lines = pixels / parts * size, 1 if cut.image.whole else pixels // width / parts
    begin = real * lines * target.mte2_start_cycles
    begin += real * share / min(target.gm_to_ub_rate or rate, hbm * down / parts)
    turn = target.vector_start_cycles + turns * cut.channels * share / REPEAT_BYTES
    push = cut.channels * share / target.ub_out_rate
    start = target.kernel_start_us
    late = 0.0 if w.passing else max(start.get("mixed", 0.0) - start.get("cube", 0.0), 0.0)
    return pop, max(begin, turn, push), late * target.cycles_per_us


def taken(cut: Cut, w: Convolution, target: Target) -> float:
    """Cycles of a vector core for the sums of a block: its loads, and its stores. Pieces of memory
    are rows of the block, or lines of rows where a block has columns that there are not."""
    if not w.passing:
        return 0.0
    lines, cols = w.result[-2:]
    pieces = cut.m * (1 if cut.cols == cols else min(cut.lines, lines))
    size = cut.m * min(cut.n, lines * cols) * SUM_BYTES
    loads = w.passing * size / (target.gm_to_ub_rate or target.l0c_to_ub_rate)
    loads += (w.passing - 1) * pieces * target.mte2_start_cycles
    stores = pieces * target.mte2_start_cycles + size / target.ub_out_rate
    return max(loads, stores) / target.vector_parts
