"""How long cuts of a convolution take, by an estimate from the target's facts: the busiest pipe
sets the pace of a block; the first load and the last store stand alone. The fastest is taken."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import ceil, inf, prod
from typing import NamedTuple

from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.convolution.cuts import (
    Convolution,
    Cut,
    ImagePart,
    Sizes,
    block_sizes,
    cuts,
    longest_part,
)
from ge.runtime.library.costs.instructions import REPEAT_BYTES
from ge.runtime.library.costs.rates import peak_macs, share_of, window_rate
from ge.runtime.library.matmul.blocks import SUM_BYTES

ROUNDED = 1 - 1e-9  # sums of floats in another order


def fastest(w: Convolution, target: Target, fits: Callable[[Cut], bool]) -> Cut | None:
    """Of the cuts that fit, the first of those that take the fewest cycles. Blocks are looked at
    by the cycles that they take at least, until those are more than a cut was found to take. For
    most it is enough to know what their sums take."""
    times, listed = Times(w, target), list(block_sizes(w, target))
    best, least, place = None, inf, (0, 0)
    left = [(times.sums(b), i, False) for i, b in enumerate(listed)]
    heapify(left)
    while left and left[0][0] <= least:
        _, number, is_known = heappop(left)
        if not is_known:
            heappush(left, (times.least(listed[number]), number, True))
            continue
        for step, cut in enumerate(cuts(w, target, listed[number])):
            found = times.cycles(cut, least)
            if (found, (number, step)) < (least, place) and fits(cut):
                best, least, place = cut, found, (number, step)
    return best


def all_cuts(w: Convolution, target: Target) -> Iterator[tuple[float, Cut]]:
    """Those that there are, and the cycles that they take by the estimate."""
    times = Times(w, target)
    found = (cut for sizes in block_sizes(w, target) for cut in cuts(w, target, sizes))
    return ((times.cycles(cut), cut) for cut in found)


class Block(NamedTuple):
    """What all cuts into blocks of the same channels and pixels have in common."""

    rounds: int  # blocks of the busiest core
    down: int  # blocks of channels, each of which has the windows
    out: float  # cycles for the sums to leave L0C
    weight_rate: float  # bytes a cycle
    window_rate: float  # of windows that are not unfolded
    window_bytes: float  # of one channel of these
    vector: float  # cycles of a vector core for the sums


@dataclass(frozen=True)
class Times:
    """Cycles of the cuts of one convolution."""

    w: Convolution
    target: Target

    @cached_property
    def size(self) -> float:
        """Bytes of an element."""
        return self.w.bits / 8

    @cached_property
    def peak(self) -> float:
        """Products a cycle."""
        return peak_macs(self.w.element, self.target)

    @cached_property
    def out_rate(self) -> float:
        """Bytes a cycle of sums."""
        return self.target.l0c_out_rate or self.target.l0c_to_ub_rate

    @cached_property
    def images(self) -> int:
        """Those that there are, and their planes."""
        return self.w.batch * self.w.planes

    @cached_property
    def hbm(self) -> float:
        """Bytes a cycle."""
        return self.target.hbm_rate * self.target.hbm_read_efficiency

    @cached_property
    def window_hbm(self) -> float:
        """Bytes a cycle of windows; vector cores may load, too."""
        return self.hbm / (2 if self.w.passing > 1 else 1)

    @cached_property
    def l0_rates(self) -> tuple[float, float, float]:
        """Bytes a cycle into L0A, into L0B, and of windows that are unfolded."""
        w, target = self.w, self.target
        unfolded = window_rate(w.kernel, w.strides, w.dilations, target)
        return target.l1_to_l0a_rate, target.l1_to_l0b_rate, unfolded

    @cached_property
    def shares(self) -> tuple[float, float, float]:
        """Of the full rate, for rows of weights, for lines of images, and for those whose channels
        are last."""
        w = self.w
        lengths = w.depth, w.ins if w.last else prod(w.image), w.ins
        a, b, c = (share_of(length, w.element) for length in lengths)
        return a, b, c

    @cached_property
    def late(self) -> float:
        """Cycles until a kernel whose vector cores only bring windows begins, more than one that
        has none of them."""
        start = self.target.kernel_start_us
        late = 0.0 if self.w.passing else start.get("mixed", 0.0) - start.get("cube", 0.0)
        return max(late, 0.0) * self.target.cycles_per_us

    @cached_property
    def blocks(self) -> dict[tuple[int, int, int], Block]:
        return {}

    def block(self, m: int, lines: int, cols: int) -> Block:
        if (found := self.blocks.get((m, lines, cols))) is None:
            found = self.blocks[m, lines, cols] = self._block(m, lines, cols)
        return found

    def _block(self, m: int, lines: int, cols: int) -> Block:
        w, target = self.w, self.target
        high, wide = w.result[-2:]
        down = ceil(w.outs / m)
        images = self.images * ceil(high / lines) * ceil(wide / cols)
        out = m * (lines * cols) * SUM_BYTES / self.out_rate
        again = max(down * w.taps / prod(w.strides), 1)  # how often an element comes
        pixel, rate = self.size, target.l2_read_rate * self.shares[1]
        if w.strides[-1] > 1:  # each is a piece of its own
            pixel, rate = BLOCK, min(rate, BLOCK / (target.mte2_piece_cycles or 1))
        return Block(
            ceil(images * down / target.cube_cores),
            down,
            out,
            min(target.l2_read_rate * self.shares[0], self.hbm * images),
            min(rate, self.window_hbm * again),
            w.taps * min(lines, high) * min(cols, wide) * pixel,
            taken(m, lines, cols, w, target),
        )

    def operand_cycles(self, m: int, n: int, unfolds: bool) -> float:
        """MTE1, for a byte of each row of weights and of each window."""
        a, b, unfolded = self.l0_rates
        rate = unfolded if unfolds else a
        return n / min(a, rate) + m / b if self.w.turned else m / a + n / min(b, rate)

    @cached_property
    def sum_cycles(self) -> float:
        """Of one element of a block: of its products, or of taking it out of L0C."""
        return max(self.w.depth / self.peak, SUM_BYTES / self.out_rate) * ROUNDED

    def sums(self, sizes: Sizes) -> float:
        """No cut into such blocks takes less, however their operands come."""
        m, lines, cols, *_ = sizes
        w, (high, wide) = self.w, self.w.result[-2:]
        blocks = self.images * -(-high // lines) * -(-wide // cols) * -(-w.outs // m)
        return -(-blocks // self.target.cube_cores) * m * lines * cols * self.sum_cycles

    def least(self, sizes: Sizes) -> float:
        """No cut into such blocks takes less, whatever its steps are: together they have all terms,
        which are multiplied, moved and loaded, in parts of which L0 holds two."""
        m, lines, cols, image, _ = sizes
        w, target, block, n = self.w, self.target, self.block(m, lines, cols), lines * cols
        load = min(m, w.outs) * w.depth * self.size / block.weight_rate
        before = start = 0.0
        if image is None:
            load += w.ins * block.window_bytes / block.window_rate
        else:
            load += image.pixels * w.ins * self.size / self.image_rate(block)
            if not w.last:
                before, start = w.ins * self.channel_before(image, block), self.late
        parts = w.depth / max(longest_part(w, target, sizes), 1)
        moves = w.depth * self.size * self.operand_cycles(m, n, image is not None)
        moves += parts * 2 * target.mte1_start_cycles
        macs = m * n * w.depth / self.peak + parts * target.mmad_start_cycles
        pace = max(load, before + block.vector, moves, macs, block.out)
        return (block.rounds * pace + start + block.out + block.vector) * ROUNDED

    def channel_before(self, image: ImagePart, block: Block) -> float:
        """Cycles that a vector core takes at least for a channel of what it brings to L1."""
        w, target = self.w, self.target
        parts, turns = w.parts(target), target.vector_cycles.get("transpose", 1)
        share, lines = image.pixels / parts * self.size, 1
        if not image.whole:
            lines = image.pixels // image.width / parts
        found = self.window_hbm * block.down / parts
        begin = share / min(target.gm_to_ub_rate or self.image_rate(block), found)
        begin = target.mte2_start_cycles + max(begin, lines * target.mte2_piece_cycles)
        return max(begin, turns * share / REPEAT_BYTES, share / target.ub_out_rate)

    def cycles(self, cut: Cut, most: float = inf) -> float:
        """Of the busiest core, by the busiest of its pipes. Where its cube alone takes `most`, they
        are any number: how the operands come there is not asked."""
        w, target = self.w, self.target
        block, steps = self.block(cut.m, cut.lines, cut.cols), ceil(w.ins / cut.channels)
        parts, out = cut.depth // cut.part, block.out
        each = self.operand_cycles(cut.m, cut.n, cut.image is not None)
        moves = parts * 2 * target.mte1_start_cycles + cut.depth * self.size * each
        macs = parts * target.mmad_start_cycles + cut.m * cut.n * cut.depth / self.peak
        cube = steps * macs + (out if cut.sums == 1 else 0)
        if block.rounds * max(steps * moves, cube, out) >= most:
            return inf
        windows, before, start = self.brought(cut, block)
        load = target.mte2_start_cycles + windows
        load += min(cut.m, w.outs) * min(cut.depth, w.depth) * self.size / block.weight_rate
        vector = block.vector
        pace = max(steps * load, steps * before + vector, steps * moves, cube, out)
        return block.rounds * pace + start + before + load + macs / parts + out + vector

    def us(self, cut: Cut) -> float:
        """Microseconds of a kernel with this cut."""
        kind = "mixed" if self.w.passing else "cube"
        start = self.target.kernel_start_us.get(kind, 0.0)
        return start + self.cycles(cut) / self.target.cycles_per_us

    def image_rate(self, block: Block) -> float:
        """Bytes a cycle of pixels to L1, of which windows are unfolded."""
        target = self.target
        if self.w.last:
            return min(target.l2_read_rate * self.shares[2], self.window_hbm * block.down)
        return target.l2_read_rate if target.split_cores else target.l0c_to_ub_rate

    def brought(self, cut: Cut, block: Block) -> tuple[float, float, float]:
        """Cycles of MTE2 for the windows of a step, of the vector cores before, and until a kernel
        with both kinds of cores begins."""
        w, target, size, real = self.w, self.target, self.size, min(cut.channels, self.w.ins)
        if cut.image is None:
            load = real * block.window_bytes / block.window_rate
            return w.taps * target.mte2_start_cycles + load, 0.0, 0.0
        pixels, width, rate = cut.image.pixels, cut.image.width, self.image_rate(block)
        if w.last:
            return target.mte2_start_cycles + pixels * real * size / rate, 0.0, 0.0
        parts, turns = w.parts(target), target.vector_cycles.get("transpose", 1)
        pop = parts * target.mte2_start_cycles + pixels * cut.channels * size / rate
        share, lines = pixels / parts * size, 1 if cut.image.whole else pixels // width / parts
        found = self.window_hbm * block.down / parts
        begin = real * share / min(target.gm_to_ub_rate or rate, found)
        begin = max(begin, real * lines * target.mte2_piece_cycles) + target.mte2_start_cycles
        turn = target.vector_start_cycles + turns * cut.channels * share / REPEAT_BYTES
        push = cut.channels * share / target.ub_out_rate
        return pop, max(begin, turn, push), self.late


def taken(m: int, lines: int, cols: int, w: Convolution, target: Target) -> float:
    """Cycles of a vector core for the sums of a block: its loads, and its stores. Pieces of memory
    are rows of the block, or lines of rows where a block has columns that there are not."""
    if not w.passing:
        return 0.0
    high, wide = w.result[-2:]
    pieces = m * (1 if cols == wide else min(lines, high))
    size = m * min(lines * cols, high * wide) * SUM_BYTES
    loads = w.passing * size / (target.gm_to_ub_rate or target.l0c_to_ub_rate)
    least = pieces * target.mte2_piece_cycles
    loads = max(loads, (w.passing - 1) * least) + (w.passing - 1) * target.mte2_start_cycles
    stores = max(size / target.ub_out_rate, least)
    return max(loads, stores) / target.vector_parts
