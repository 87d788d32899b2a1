"""Convolutions in groups of few channels: groups are merged until they fill a fractal, as the
chips' library does (`SetOptGroupParams` of ops-nn's conv2d_v2). Weights of the merged groups are
blocks along a diagonal:

    vector core:   zeros, and in each row the weights of its group     -> workspace
    barrier
    cube core:     a convolution of few groups of 16 channels or more

Of single channels a sixteenth of the products is of use, and yet that is faster than vector cores
are where images are large, since these take each element of a kernel one by one.
"""

from dataclasses import replace
from math import ceil

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.support.types import align_up, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.convolution.blocks import ConvolutionWriter
from ge.runtime.library.convolution.cuts import ConvolutionCut, ConvolutionProblem
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.costs.rates import peak_macs, window_rate
from ge.runtime.library.language.indices import ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Arguments, NotLowered
from ge.runtime.library.windows.windows import Rest

MOST = 96  # channels of a merged group: more are products of zeros


def merged(op: ConvOp, target: Target) -> ConvolutionProblem:
    """With as many groups in one as are fastest to unfold and to multiply, for each channel. Raises
    NotLowered where windows are not unfolded, or no groups may be merged."""
    w = ConvolutionProblem.of(op, False)
    if not w.unfolds:
        raise NotLowered("windows of its groups are not unfolded")
    rate = window_rate(w.kernel, w.strides, w.dilations, target)
    peak = peak_macs(w.element, target)

    def cycles(many: int) -> tuple[float, int]:
        """Of a channel's part of the depth, in fractals; of equal ones the fewest."""
        ins, outs = (align_up(many * n, w.unit) for n in (w.ins, w.outs))
        return max(ins * w.bits / 8 / rate, ins * outs / peak) / many, many

    found = (n for n in range(2, w.groups + 1) if w.groups % n == 0)
    fitting = [n for n in found if n * max(w.ins, w.outs) <= MOST]
    if not fitting:
        raise NotLowered(f"its {w.groups} groups are not merged")
    many = min(fitting, key=cycles)
    channels = {"ins": many * w.ins, "outs": many * w.outs}
    new = replace(w, batch=w.batch // many, groups=w.groups // many, **channels)
    return replace(new, copies=buffer_bytes(new))


def row_elements(w: ConvolutionProblem) -> int:
    """Of a row of weights as it comes, in a tile."""
    return align_up(shape_of(w.op.weight)[1] * w.taps, BLOCK * 8 // w.bits)


def buffer_bytes(w: ConvolutionProblem) -> int:
    """In UB."""
    elements = 2 * w.outs * row_elements(w) + align_up(w.depth, BLOCK * 8 // w.bits)
    return elements * w.bits // 8


def merging_us(w: ConvolutionProblem, target: Target) -> float:
    """Microseconds of making the weights, of which vector cores have some groups each."""
    core, size = Core.of(target), w.bits / 8
    own = shape_of(w.op.weight)[1] * w.taps * size
    load, store = core.ub(w.outs, own), core.store(1, w.depth * size) + core.store(1, own)
    turns = ceil(w.groups / target.vector_cores)
    cycles = cycles_of_blocks(turns, (load, 1), (w.outs * store, w.outs))
    return (core.barrier + cycles) / target.cycles_per_us


class MergedBlocks(ConvolutionWriter):
    """The program, while it is written."""

    def __init__(
        self,
        c: Tracer,
        w: ConvolutionProblem,
        cut: ConvolutionCut,
        arguments: Arguments,
        rest: Rest,
    ) -> None:
        super().__init__(c, w, cut, arguments, rest)
        if self.weight is not None:
            raise NotLowered("its weights are one number")
        self.arguments = {**arguments, w.op.weight: self.merge(arguments[w.op.weight])}

    def merge(self, weights: Argument) -> Argument:
        """Weights of merged groups, as those of groups lie."""
        c, w, size, own = self.c, self.w, self.w.outs, shape_of(self.w.op.weight)[1]
        apart = size * own // w.ins  # rows of a group
        rows = c.ub(size, row_elements(w), w.element, copies=2)
        zeros = c.ub(1, align_up(w.depth, BLOCK * 8 // w.bits), w.element)
        target = c.workspace(w.groups, size, w.depth, dtype=w.element)
        zeros[:] = 0
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(w.groups - me, all_of_them)):
            group = c.now(me + turn * all_of_them)
            tile = c.load(rows[turn], weights[group * size :, 0:], pad=0)
            for k in c.range(size):
                c.store(target[group, k, 0:], zeros)
                first = c.now(k // apart * (own * w.taps))
                c.store(target[group, k, first:], tile.part(k, 0, (1, own * w.taps)))
        c.barrier()
        return target
