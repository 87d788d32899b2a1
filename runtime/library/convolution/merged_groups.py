"""Convolutions of single channels on the cube: groups are merged until they fill a fractal, as the
chips' library does (`SetOptGroupParams` of ops-nn's conv2d_v2). Weights of the merged groups are
blocks with a diagonal:

    vector core:   zeros, and in row i of channel i its weights        -> workspace
    barrier
    cube core:     a convolution of few groups of 16 channels each

Of the products a sixteenth is of use, and yet that is faster than vector cores are where kernels
are large, since these take each element of them one by one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.support.types import align_up
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
    """With as many channels in a group as fill a fractal. Raises NotLowered where groups do not,
    or where windows are not unfolded."""
    w = Convolution.of(op, False)
    if w.groups % w.unit or not w.unfolds:
        raise NotLowered(f"{w.groups} channels are no groups of {w.unit}, or have no windows")
    channels = {"ins": w.unit, "outs": w.unit}
    return replace(w, batch=w.batch // w.unit, groups=w.groups // w.unit, **channels)


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
        c, w, size = self.c, self.w, self.w.outs
        wide = align_up(w.taps, BLOCK * 8 // w.bits)
        rows = c.ub(size, wide, w.element, copies=2)
        zeros = c.ub(size, size * w.taps, w.element)
        target = c.workspace(w.groups, size, size, w.taps, dtype=w.element)
        zeros[:] = 0
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(w.groups - me, all_of_them)):
            group = c.now(me + turn * all_of_them)
            tile = c.load(rows[turn], weights[group * size :, 0:], pad=0)
            c.store(target[group, 0:, 0:, 0:].sized(size, size, w.taps), zeros)
            for k in c.range(size):
                c.store(target[group, k, k, 0:], tile.part(k, 0, (1, wide)))
        c.barrier()
        return target

    def load_weights(
        self, copy: Index, group: Scalar, m: Index, channel: Index, at: Sequence[Any]
    ) -> Tile | Transposed:
        cut = self.cut
        box = self.blocks[group, m:, channel:, 0:].sized(cut.m, cut.channels, self.w.taps)
        return self.c.load(self.weights[copy], box, pad=0)
