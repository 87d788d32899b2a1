"""Convolutions in groups of few channels: groups are merged until they fill a fractal, as the
chips' library does (`SetOptGroupParams` of ops-nn's conv2d_v2). Weights of the merged groups are
blocks along a diagonal:

    vector core:   zeros, and in each row the weights of its group     -> workspace
    barrier
    cube core:     a convolution of few groups of 16 channels or more

Of single channels a sixteenth of the products is of use, and yet that is faster than vector cores
are where images are large, since these take each element of a kernel one by one.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import lcm
from typing import Any

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.support.types import align_up, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.convolution.convolution import Blocks
from ge.runtime.library.convolution.cuts import Convolution, Cut
from ge.runtime.library.language.indices import Index, Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument, Tile, Transposed
from ge.runtime.library.launch import Arguments, NotLowered
from ge.runtime.library.windows.windows import Rest


def merged(op: ConvOp) -> Convolution:
    """With as many groups in one as fill a fractal. Raises NotLowered where they are no multiple of
    that, or where windows are not unfolded."""
    w = Convolution.of(op, False)
    many = lcm(*(lcm(n, w.unit) // n for n in (w.ins, w.outs)))
    if many == 1 or w.groups % many or not w.unfolds:
        raise NotLowered(f"{w.groups} groups are not merged by {many}")
    channels = {"ins": many * w.ins, "outs": many * w.outs}
    return replace(w, batch=w.batch // many, groups=w.groups // many, **channels)


def merging_us(w: Convolution, target: Target) -> float:
    """Microseconds of making the weights, of which vector cores have some groups each."""
    turns = -(-w.groups // target.vector_cores)
    zeros = w.outs * w.depth * w.bits / 8 / target.ub_out_rate
    each = zeros + w.outs * target.mte2_start_cycles + target.mte2_start_cycles
    return (turns * each + 2 * target.cross_flag_cycles) / target.cycles_per_us


class MergedBlocks(Blocks):
    """The program, while it is written."""

    def __init__(
        self, c: Tracer, w: Convolution, cut: Cut, arguments: Arguments, rest: Rest
    ) -> None:
        super().__init__(c, w, cut, arguments, rest)
        if self.weight is not None:
            raise NotLowered("its weights are one number")
        self.blocks = self.merge(arguments[w.op.weight])

    def merge(self, weights: Argument) -> Argument:
        """Groups of blocks: output by input channels by kernel elements."""
        c, w, size, own = self.c, self.w, self.w.outs, shape_of(self.w.op.weight)[1]
        apart = size * own // w.ins  # rows of a group
        wide = align_up(own * w.taps, BLOCK * 8 // w.bits)
        rows = c.ub(size, wide, w.element, copies=2)
        zeros = c.ub(size, w.depth, w.element)
        target = c.workspace(w.groups, size, w.ins, w.taps, dtype=w.element)
        zeros[:] = 0
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(w.groups - me, all_of_them)):
            group = c.now(me + turn * all_of_them)
            tile = c.load(rows[turn], weights[group * size :, 0:], pad=0)
            c.store(target[group, 0:, 0:, 0:].sized(size, w.ins, w.taps), zeros)
            for k in c.range(size):
                box = target[group, k:, c.now(k // apart * own) :, 0:].sized(1, own, w.taps)
                c.store(box, tile.part(k, 0, (1, own * w.taps)))
        c.barrier()
        return target

    def load_weights(
        self, copy: Index, group: Scalar, m: Index, channel: Index, at: Sequence[Any]
    ) -> Tile | Transposed:
        cut = self.cut
        box = self.blocks[group, m:, channel:, 0:].sized(cut.m, cut.channels, self.w.taps)
        return self.c.load(self.weights[copy], box, pad=0)
