"""What a cut of a convolution asks of the pipes of a core, by which the fastest is taken."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, prod
from operator import itemgetter

from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, Memory
from ge.runtime.library.convolution.cuts import (
    ConvolutionCut,
    ConvolutionProblem,
    Sizes,
    block_sizes,
    cuts,
)
from ge.runtime.library.costs.cycles import l0_cycles, pop_rate, push_rate
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.costs.rates import window_rate
from ge.runtime.library.matmul.blocks import SUM_BYTES


@dataclass(frozen=True)
class Candidates:
    """For the fastest cut of a convolution. `even`: blocks of channels are whole, as others would
    be written behind them; `unfolded`: windows are unfolded in L1."""

    w: ConvolutionProblem
    target: Target
    even: bool = False
    unfolded: bool = False

    def cycles(self, cut: ConvolutionCut, most: float = inf) -> float:
        """Of a cut; infinite where it takes `most`, or has no program."""
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
        """None where none fits. Blocks that cannot be the fastest are not cut (`least_cycles`)."""
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
    """What no cut into these blocks goes below, as if all channels came in one step: all blocks of
    the busiest core, by their products, by what is loaded, or by how their sums leave."""
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
    """Of the busiest core; infinite where sums or loads alone take `most`."""
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
    """Cycles of a vector core for the sums of a block: of what it loads, and stores. Pieces of
    memory are rows of the block, or lines of rows where a block has columns that there are not."""
    core, (high, wide) = Core.of(target), w.result[-2:]
    pieces = cut.m * (1 if cut.cols == wide else min(cut.lines, high)) / target.vector_parts
    size = min(cut.n, high * wide) * SUM_BYTES * cut.m / target.vector_parts
    loads = (w.passing - 1) * core.ub(pieces, size / pieces)
    return size / core.back_rate + loads, core.store(pieces, size / pieces)
