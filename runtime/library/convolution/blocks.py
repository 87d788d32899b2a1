"""The program of a convolution, as `convolution.py` says, while it is written, block by block.

Of convolutions in groups of few channels, groups are merged until they fill a fractal, as the
chips' library does (`SetOptGroupParams` of ops-nn's conv2d_v2). Weights of the merged groups are
blocks along a diagonal:

    vector core:   zeros, and in each row the weights of its group     -> workspace
    barrier
    cube core:     a convolution of few groups of 16 channels or more

Of single channels a sixteenth of the products is of use, and yet that is faster than vector cores
are where images are large, since these take each element of a kernel one by one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, TypeAlias

from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, FRACTAL, Memory
from ge.runtime.library.convolution.cuts import ConvolutionCut, ConvolutionProblem, unfolding
from ge.runtime.library.costs.cycles import peak_macs, window_rate
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language.indices import Condition, Index, Scalar, SharedIndex, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import (
    Argument,
    Subview,
    Tile,
    Transposed,
    Unfolded,
)
from ge.runtime.library.launch import Arguments, NotLowered
from ge.runtime.library.windows.windows import Rest

COPIED = 4096  # elements, at most, that are copied at a time
COPIES = 2 * 4 * COPIED  # bytes of two tiles of them

Side: TypeAlias = "Tile | Transposed | Unfolded"


class ConvolutionWriter:
    """The program of a convolution, while it is written."""

    def __init__(
        self,
        c: Tracer,
        w: ConvolutionProblem,
        cut: ConvolutionCut,
        arguments: Arguments,
        rest: Rest,
    ) -> None:
        self.c, self.w, self.cut, self.arguments, self.rest = c, w, cut, arguments, rest
        element = element_type(w.op.input)
        self.parts = 1
        if cut.passes(w):
            self.parts = c.split()
        self.weights = c.l1(*self.weights_shape, element, copies=2)
        if cut.image:
            shape = cut.image.pixels, cut.channels
        else:
            shape = (cut.n, cut.depth) if w.last else (cut.depth, cut.n)
        self.windows = c.l1(*shape, element, copies=2)
        if cut.image and not w.last:
            pixels = cut.image.pixels // self.parts
            self.lines = c.ub(cut.channels, pixels, element, copies=2)
            self.pixels = c.ub(pixels, cut.channels, element, copies=2)
            self.images = c.queue(self.pixels)
        shape = (cut.n, cut.m) if w.turned else (cut.m, cut.n)
        self.sums = c.l0c(*shape, i32 if element == i8 else f32, copies=cut.sums)
        if not cut.image and not w.last and cut.channels * w.taps < cut.depth:
            self.clear()
        self.weight = rest.launch.number(w.op.weight)
        if self.weight is not None:
            for copy in range(2):
                c.fill(self.weights[copy], self.weight)
        if w.bias is not None:
            unit = max(FRACTAL, BLOCK * 8 // bitwidth(element))
            self.bias, self.ones = c.l1(cut.m, unit, element, copies=2), c.l1(unit, cut.n, element)
            c.fill(self.ones, 1)
            if (number := rest.launch.number(w.bias)) is not None:  # in all columns, together
                for copy in range(2):
                    c.fill(self.bias[copy], number / unit)
        self.tables: dict[tuple[SSAValue, Memory], tuple[Tile, Tile]] = {}  # in L1, and BT or FB
        for way in rest.ways.values():
            for value, memory in ((way.bias, Memory.BT), (way.scale, Memory.FB)):
                if value is not None and (value, memory) not in self.tables:
                    kind = element_type(value)
                    ring = c.l1(1, cut.m, kind, copies=2)
                    self.tables[value, memory] = ring, c.alloc(memory, 1, cut.m, kind)
        if w.passing:
            self.prepare_rest()

    def clear(self) -> None:
        """Clear the places beyond the terms of a step, which no step loads."""
        for copy in range(2):
            self.c.fill(self.windows[copy], 0)

    @property
    def weights_shape(self) -> tuple[int, int]:
        """Shape of the tile of weights."""
        return self.cut.m, self.cut.depth

    def write(self) -> None:
        c, cut, w = self.c, self.cut, self.w
        blocks = cut.blocks(w)
        if w.passing and cut.image and not w.last and cut.sums > 1:
            # vector cores bring the next block's pixels before they take this one's sums
            count = ceil_div(blocks - c.core, c.cores)
            assert isinstance(count, Index)
            turns = c.now(count)
            for turn in c.range(turns + 1):
                with c.when(turn < turns):
                    self.sum_up(c.nth(turn))
                with c.when(turn >= 1):
                    self.write_rest(c.nth(turn - 1))
        else:
            for i in c.share(blocks):
                self.sum_up(i)
                if w.passing:
                    self.write_rest(i)
                else:
                    self.store(i)
        if isinstance(joined := self.rest.last, ConcatOp):
            self.copy_others(joined)

    def store(self, i: SharedIndex) -> None:
        """Store the sums of a block as they are, or by the ways that they have."""
        image, m, at = self.place(i)
        if not self.rest.ways:
            out = self.result(self.rest.out, image, m, at, self.cut.m)
            self.c.store(out, self.sums[i], relu=self.rest.is_relu)
        for value, way in self.rest.ways.items():
            out = self.result(value, image, m, at, self.cut.m)
            scale = None if way.scale is None else self.row(way.scale, Memory.FB, m, i.turn)
            self.c.store(out, self.sums[i], relu=way.relu, scale=scale, zero=way.zero)

    def row(self, value: SSAValue, memory: Memory, m: Scalar, turn: Index) -> Tile:
        """The numbers of a block's channels, in BT or FB."""
        ring, tile = self.tables[value, memory]
        argument, is_one = self.arguments[value], numel(shape_of(value)) == 1
        loaded = self.c.load(ring[turn], argument[0 if is_one else m :], pad=None if is_one else 0)
        self.c.move(tile, loaded)
        return tile

    def place(self, i: SharedIndex) -> tuple[Index, Index, Sequence[Any]]:
        """Place of a block: image, first channel, first pixel (with its plane, if there are
        any)."""
        cut = self.cut
        return self.w.place(self.c, i, cut.counts(self.w), (cut.m, cut.lines, cut.cols))

    def group(self, image: Index) -> Scalar:
        return image % self.w.groups if self.w.groups > 1 else 0

    def sum_up(self, i: SharedIndex) -> None:
        c, cut, w = self.c, self.cut, self.w
        steps = ceil(w.ins / cut.channels)
        image, m, at = self.place(i)
        group, first = self.group(image), c.now(i.turn * steps)
        if w.bias is not None:
            column = self.bias[i]
            if self.rest.launch.number(w.bias) is None:
                c.load(column, self.arguments[w.bias][group, m:, 0:], pad=0)
            self.multiply(self.sums[i], column, self.ones, init=True, k=column.shape[1])
        bias = w.op.bias if w.bias_row else None
        row = None if bias is None else self.row(bias, Memory.BT, m, i.turn)
        for s in c.range(steps):
            lhs = self.load_weights(first + s, group, m, s * cut.channels, at)
            rhs = self.load_windows(first + s, image, s * cut.channels, at)
            init = w.bias is None and s == 0
            self.multiply(self.sums[i], lhs, rhs, init=init, k=cut.part, bias=row)

    def load_weights(
        self, copy: Index, group: Scalar, m: Index, channel: Index, at: Sequence[Any]
    ) -> Tile | Transposed:
        tile, w = self.weights[copy], self.w
        if self.weight is not None:
            return tile
        box = self.arguments[w.op.weight][group, m:, channel * w.taps :]
        return self.c.load(tile, box, pad=0)

    def multiply(
        self,
        sums: Tile,
        lhs: Side,
        rhs: Side,
        init: Condition | bool,
        k: int,
        bias: Tile | None = None,
    ) -> None:
        """The sums += lhs rhs, or transposed, which may begin with a row of bias."""
        if self.w.turned:
            assert isinstance(lhs, Tile)
            turned = rhs.tile if isinstance(rhs, Transposed) else rhs.T  # of windows, too
            self.c.mmad(sums, turned, lhs.T, init=init, k=k, bias=bias)
        else:
            self.c.mmad(sums, lhs, rhs, init=init, k=k)

    def load_windows(self, copy: Index, image: Index, channel: Index, at: Sequence[Any]) -> Side:
        c, cut, w = self.c, self.cut, self.w
        tile, pad = self.windows[copy], w.pad
        x, (lines, cols) = self.arguments[w.op.input], w.kernel[-2:]
        if cut.image:
            windows = unfolding(w, cut.image.width, cut.cols, cut.image.whole)
            self.bring(copy, tile, image, channel, at)
            return Unfolded(tile, windows, cut.depth, cut.n, pad if cut.image.whole else None)
        if w.last:
            return c.load(tile, x[image, at[0], at[1] :, channel:], pad=0).T
        for number, plane in enumerate(w.planes_of_kernel):
            for line in c.range(lines) if lines > 1 else (0,):
                for col in range(cols):
                    box = x[image, channel:, *w.spans(at, (*plane, line, col))]
                    tap = line * cols + col
                    rows = tap + number * lines * cols if number else tap, cut.channels, w.taps
                    c.load(tile, box.sized(cut.channels, cut.lines, cut.cols), pad=pad, rows=rows)
        return tile

    def bring(
        self, copy: Index, tile: Tile, image: Index, channel: Index, at: Sequence[Index]
    ) -> None:
        """The pixels of a block to L1."""
        c, cut, w = self.c, self.cut, self.w
        part, parts = cut.image, 1 if w.last else self.parts
        assert part is not None
        x, pad = self.arguments[w.op.input], w.pad
        line, col = w.starts(at, (0, 0))
        spans: tuple[slice, ...] = slice(line, None, w.line_step), slice(col, None)
        sizes: tuple[int, ...] = part.pixels // part.width // parts, part.width
        own = sizes[0] * w.line_step  # from one vector core to the next
        if part.whole:
            sizes, own = (part.pixels // parts,), part.pixels // parts
            spans = (slice(line * part.width, None),)
        if w.last:
            c.load(tile, x[image, *spans, channel:].sized(*sizes, cut.channels), pad=pad)
            return
        if parts > 1:
            first = spans[0]
            spans = slice(first.start + c.part * own, None, first.step), *spans[1:]
        box = x[image, channel:, *spans].sized(cut.channels, *sizes)
        c.load(self.lines[copy], box, pad=pad)
        c.move(self.pixels[copy], self.lines[copy].T)
        self.images.push(self.pixels[copy])
        self.images.pop(tile)

    def result(
        self, value: SSAValue, image: Scalar, m: Scalar, at: Sequence[Any], rows: int
    ) -> Subview:
        """A box of the result, or of an operand that is added to it."""
        if self.w.turned:
            box = self.arguments[value][image, at[0] :, at[1] :, m:]
            return box.sized(self.cut.lines, self.cut.cols, rows)
        if value is self.rest.out and isinstance(op := self.rest.last, ConcatOp):
            begin = sum(shape_of(v)[1] for v in op.inputs[: op.inputs.index(self.rest.computed)])
            m = m + begin
        *plane, line, col = at
        box = self.arguments[value][image, m:, *plane, line:, col:]
        return box.sized(rows, self.cut.lines, self.cut.cols)

    def copy_others(self, op: ConcatOp) -> None:
        """Copy the other values that a result is concatenated with, by the vector cores."""
        c, out, begin = self.c, self.arguments[self.rest.out], 0
        for value in op.inputs:
            channels = shape_of(value)[1]
            if value is not self.rest.computed:
                memref, bits = self.arguments[value], bitwidth(element_type(value))
                images, *_, high, wide = memref.shape
                cols = min(align_up(wide, BLOCK * 8 // bits), COPIED)
                lines = min(high, COPIED // cols)
                most = min(COPIED // (lines * cols), channels)
                rows = next(n for n in range(most, 0, -1) if channels % n == 0)
                tile = c.ub(rows, lines * cols, element_type(value), copies=2)
                down, along, across = channels // rows, ceil(high / lines), ceil(wide / cols)
                pieces = images * self.w.planes * down * along * across
                for i in c.share(ceil(pieces / self.parts)):
                    place = c.now(i * self.parts + c.part if self.parts > 1 else i)
                    m, line = (
                        place // across // along % down * rows,
                        place // across % along * lines,
                    )
                    image, plane = self.w.image_of(c, place // (across * along * down))
                    col = place % across * cols
                    box = memref[image, m:, *plane, line:, col:].sized(rows, lines, cols)
                    c.load(tile[i], box)
                    box = out[image, begin + m :, *plane, line:, col:].sized(rows, lines, cols)
                    c.store(box, tile[i])
            begin += channels

    # ---- other ops, on vector cores

    def prepare_rest(self) -> None:
        """Buffers for pieces of the block's rows."""
        c, cut, rest = self.c, self.cut, self.rest
        self.rows = cut.passing_rows(self.w, rest.launch.target)

        def ring(value: SSAValue, cols: int) -> Tile:
            return c.ub(self.rows, cols, element_type(value), copies=2)

        self.popped = ring(self.w.op.result, cut.n)
        self.stored = {out: ring(out, cut.n) for out in rest.results.values()}
        self.queue = c.queue(self.popped)
        self.rings = {v: ring(v, cut.n if kind == "all" else 1) for v, kind in rest.others.items()}

    def write_rest(self, i: SharedIndex) -> None:
        c, rows, together = self.c, self.rows, self.rows * self.parts
        image, m, at = self.place(i)
        group = self.group(image)
        pieces = self.cut.m // together
        first = c.now(i.turn * pieces)
        for piece in c.range(pieces):
            copy, row = first + piece, piece * together
            self.queue.push(self.sums[i].part(row, 0, (together, self.cut.n)))
            if self.parts > 1:
                row = row + c.part * rows
            block = partial(self.result, image=image, m=m + row, at=at, rows=rows)
            place = image, group, m + row
            known = self.rest.load(c, self.rings, copy, self.arguments, place, block)
            known[self.w.op.result] = self.queue.pop(self.popped[copy])
            self.rest.compute(
                known, self.stored, copy, lambda out, tile, at=block: c.store(at(out), tile)
            )


MOST = 96  # channels of a merged group: more are products of zeros


def merged(op: ConvOp, target: Target) -> ConvolutionProblem:
    """The problem with as many groups in one as are fastest to unfold and to multiply, for each
    channel. Raises NotLowered if windows are not unfolded, or no groups may be merged."""
    w = ConvolutionProblem.of(op, False)
    if not w.unfolds:
        raise NotLowered("windows of its groups are not unfolded")
    rate = window_rate(w.kernel, w.strides, w.dilations, target)
    peak = peak_macs(w.element, target)

    def cycles(many: int) -> tuple[float, int]:
        """Cycles of a channel's part of the depth, in fractals; of equal ones the fewest groups."""
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
    """Elements of a row of weights in a tile, in the form that it is loaded in."""
    return align_up(shape_of(w.op.weight)[1] * w.taps, BLOCK * 8 // w.bits)


def buffer_bytes(w: ConvolutionProblem) -> int:
    """Bytes of the buffers in UB."""
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

    def write(self) -> None:
        if self.weight is not None:
            raise NotLowered("its weights are one number")
        weight = self.w.op.weight
        self.arguments = {**self.arguments, weight: self.merge(self.arguments[weight])}
        super().write()

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
