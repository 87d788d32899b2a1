"""Kernels for the cube: convolutions.

A convolution is weights (output channels x depth) times windows (depth x pixels), where depth goes
over input channels and, within each, over kernel elements, as weights lie in memory. So neither
weights nor results are transposed: rows are channels, columns are pixels.

    for i in share(blocks)                       # m channels, `lines` lines of `cols` pixels
      for s in range(steps)                      # `channels` input channels each
        load weights[m.., s..] to A[s]
        for each kernel element t
          load input[s.., y + t // 3.., x + t % 3..] to B[s] rows t step 9 pad 0
        mmad sums, A[s], B[s]
      store sums to result[m.., y.., x..]

Kernels of one element on whole images have one long line; there channels of the input may be last.
Those of a result that is transposed on its way out are last: then the product is transposed. Bias
is a product, too: of the bias as a column by ones. Pads of images are those of loads. Other ops
than relu are on vector cores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, gcd, prod
from typing import TypeAlias

from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.lowering.kernels.blocks import SUM_BYTES, extents
from ge.lowering.kernels.launch import Arguments, Launch, NotLowered, Written
from ge.lowering.kernels.sliding import lower_sliding
from ge.lowering.kernels.windows import Rest, Windows, pairs
from ge.lowering.tiles.indices import Condition, Index, Scalar, SharedIndex
from ge.lowering.tiles.tracing import Tracer
from ge.lowering.tiles.values import Box, Expression, Tile, Transposed
from ge.runtime.costs.cube import peak_macs
from ge.runtime.costs.split_cores import share_of


@dataclass(frozen=True)
class Convolution(Windows):
    """A convolution: `batch` times weights of one group by windows of its channels."""

    op: ConvOp
    batch: int  # images times groups
    groups: int
    ins: int  # channels of a group
    outs: int
    last: bool  # channels of the input are last
    turned: bool  # those of the result are

    @classmethod
    def of(cls, op: ConvOp, turned: bool) -> "Convolution":
        """Raises NotLowered for what is no convolution of images."""
        shape, weight = op.input_shape(), shape_of(op.weight)
        element, last = element_type(op.input), op.channel_axis != 1
        if element not in (f16, bf16, f32, i8) or element != element_type(op.weight):
            raise NotLowered(f"the cube does not multiply {element} by {element_type(op.weight)}")
        if element == i8 and op.bias is not None:
            raise NotLowered("there is no bias of integers")
        windows = pairs(op.window(), shape[2:], shape_of(op.result)[2:])
        groups, images = op.groups, shape[0] * op.groups
        image, result, kernel = windows[:3]
        if last and (kernel != (1, 1) or image != result or image[0] > 1):
            raise NotLowered("channels of its input are last, and windows are several elements")
        if groups > 1 and (last or turned):
            raise NotLowered("channels are last, and in groups")
        return cls(*windows, op, images, groups, weight[1], weight[0] // groups, last, turned)

    @property
    def depth(self) -> int:
        return self.ins * self.taps

    @property
    def result_shape(self) -> Shape:
        """Of its memref, and of all that is added to it."""
        if self.turned:
            return (self.batch, *self.result, self.outs)
        return (self.batch, self.outs, *self.result)

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        """Of memrefs."""
        op = self.op
        shapes: dict[SSAValue, Shape] = {
            op.input: (self.batch, self.image[1], self.ins)
            if self.last
            else (self.batch, self.ins, *self.image),
            op.weight: (self.groups, self.outs, self.depth),
        }
        if op.bias is not None:
            shapes[op.bias] = self.groups, self.outs, 1
        return shapes


@dataclass(frozen=True)
class Cut:
    """Blocks of m channels by `lines` x `cols` pixels; steps of `channels` input channels, in parts
    of `part`; how many `sums`."""

    m: int
    lines: int
    cols: int
    channels: int
    depth: int  # of a step, in L1
    part: int
    sums: int

    @property
    def n(self) -> int:
        return self.lines * self.cols

    def counts(self, w: Convolution) -> tuple[int, int, int]:
        """Blocks of channels, of lines and of columns."""
        lines, cols = w.result
        return ceil(w.outs / self.m), ceil(lines / self.lines), ceil(cols / self.cols)

    def blocks(self, w: Convolution) -> int:
        return w.batch * prod(self.counts(w))


def cuts(w: Convolution, target: Target) -> Iterator[Cut]:
    """Those that fit on a core."""
    bits, room = bitwidth(element_type(w.op.input)), target.core_memories
    unit = max(FRACTAL, BLOCK * 8 // bits)
    least = unit // gcd(unit, w.taps)  # channels whose kernel elements fill whole fractals
    channels = [w.ins, *(c for i in range(7) if (c := least << i) < w.ins)]
    lines, cols = w.result
    wide = [(1, c) for c in extents(cols, unit)]
    high = [(n, align_up(cols, unit)) for n in range(2, lines + 1)]
    for m in extents(w.outs, unit):
        for high_or_wide in (*wide, *high):
            n = prod(high_or_wide)
            sums = room["l0c"] // (m * n * SUM_BYTES)
            if not sums:
                continue
            for count in channels:
                depth = align_up(count * w.taps, unit)
                if 2 * ((m + n) * depth + (m + n) * unit) * bits // 8 > room["l1"]:
                    continue
                # beside two parts there may be two of the bias
                left, right = (n, m) if w.turned else (m, n)
                most = min(room["l0a"] // left, room["l0b"] // right) * 8 // (2 * bits) - unit
                part = best_part(depth // unit, most // unit) * unit
                if part:
                    yield Cut(m, *high_or_wide, count, depth, part, min(sums, 2))


def best_part(depth: int, most: int) -> int:
    """The longest part that divides a depth; one that does it an even number of times may be half
    as long, since two tiles take turns. 0: there is none."""
    parts = [p for p in range(1, min(depth, most) + 1) if depth % p == 0]
    return max(parts, key=lambda p: p * (1 + (depth // p % 2 == 0)), default=0)


def cycles(cut: Cut, w: Convolution, target: Target) -> float:
    """Of the busiest core, by the busiest of its pipes."""
    element = element_type(w.op.input)
    size = bitwidth(element) / 8
    steps = ceil(w.ins / cut.channels)
    images, down, across = cut.blocks(w) // cut.counts(w)[0], cut.counts(w)[0], w.batch
    hbm = target.hbm_rate * target.hbm_read_efficiency
    rates = [
        min(target.l2_read_rate * share_of(stride, element), hbm * shared)
        for stride, shared in (
            (w.depth, images),
            (w.ins if w.last else prod(w.image), down * w.taps * across),
        )
    ]
    lines, cols = (min(a, b) for a, b in zip((cut.lines, cut.cols), w.result, strict=True))
    pixel = size if w.strides[1] == 1 else BLOCK
    load = (1 + w.taps) * target.mte2_start_cycles
    load += min(cut.m, w.outs) * min(cut.depth, w.depth) * size / rates[0]
    load += min(cut.channels, w.ins) * w.taps * lines * cols * pixel / rates[1]
    parts = cut.depth // cut.part
    feed = cut.m / target.l1_to_l0a_rate + cut.n / target.l1_to_l0b_rate
    moves = parts * 2 * target.mte1_start_cycles + cut.depth * size * feed
    macs = parts * target.mmad_start_cycles + cut.m * cut.n * cut.depth / peak_macs(element, target)
    out = cut.m * cut.n * SUM_BYTES / (target.l0c_out_rate or target.l0c_to_ub_rate)
    cube = steps * macs + (out if cut.sums == 1 else 0)
    pace = max(steps * load, steps * moves, cube, out)
    return ceil(cut.blocks(w) / target.cube_cores) * pace + load + macs / parts + out


def lower_convolution(launch: Launch) -> Written:
    """A convolution, and ops on its result. Where each channel is one of its own, vector cores do
    it: the cube would multiply one row of 16."""
    body = launch.body
    op = next(op for op in body.ops if isinstance(op, ConvOp))
    if op.groups > 1 and shape_of(op.weight)[:2] == (op.groups, 1):
        return lower_sliding(launch)
    last = body.ops[-1]
    turned = isinstance(last, TransposeOp) and last.ints("permutation") == (0, 2, 3, 1)
    w = Convolution.of(op, turned)
    cut = min(cuts(w, launch.target), key=lambda c: cycles(c, w, launch.target), default=None)
    if cut is None:
        raise NotLowered("no block of it fits on a core")
    rest = Rest(launch, op, w.result_shape, (w.groups, w.outs, 1), turned)
    if turned and rest.ops and not rest.is_relu:
        raise NotLowered("there are other ops before a transposition")

    def write(c: Tracer, arguments: Arguments) -> None:
        Blocks(c, w, cut, arguments, rest).write()

    return Written(write, min(cut.blocks(w), launch.target.cube_cores), w.shapes | rest.shapes)


Side: TypeAlias = "Tile | Transposed"


class Blocks:
    """The program of a convolution, while it is written."""

    def __init__(
        self, c: Tracer, w: Convolution, cut: Cut, arguments: Arguments, rest: Rest
    ) -> None:
        self.c, self.w, self.cut, self.arguments, self.rest = c, w, cut, arguments, rest
        element = element_type(w.op.input)
        self.weights = c.l1(cut.m, cut.depth, element, copies=2)
        shape = (cut.n, cut.depth) if w.last else (cut.depth, cut.n)
        self.windows = c.l1(*shape, element, copies=2)
        shape = (cut.n, cut.m) if w.turned else (cut.m, cut.n)
        self.sums = c.l0c(*shape, i32 if element == i8 else f32, copies=cut.sums)
        if not w.last and cut.channels * w.taps < cut.depth:
            for copy in range(2):
                c.fill(self.windows[copy], 0)
        if w.op.bias is not None:
            unit = max(FRACTAL, BLOCK * 8 // bitwidth(element))
            self.bias, self.ones = c.l1(cut.m, unit, element, copies=2), c.l1(unit, cut.n, element)
            c.fill(self.ones, 1)
        if rest.ops and not rest.is_relu:
            self.prepare_rest()

    def write(self) -> None:
        c, cut, w = self.c, self.cut, self.w
        down, high, across = cut.counts(w)
        steps = ceil(w.ins / cut.channels)
        for i in c.share(cut.blocks(w)):
            block, place = c.now(i // (high * across)), c.now(i % (high * across))
            m, image = c.now(block % down * cut.m), c.now(block // down)
            at = c.now(place // across * cut.lines), c.now(place % across * cut.cols)
            group = image % w.groups if w.groups > 1 else 0
            first = c.now(i.turn * steps)
            if w.op.bias is not None:
                bias = self.arguments[w.op.bias][group, m:, 0:]
                column = c.load(self.bias[i], bias, pad=0)
                self.multiply(self.sums[i], column, self.ones, init=True, k=column.shape[1])
            for s in c.range(steps):
                lhs = self.weights[first + s]
                depth = s * (cut.channels * w.taps)
                c.load(lhs, self.arguments[w.op.weight][group, m:, depth:], pad=0)
                rhs = self.load_windows(first + s, image, s * cut.channels, at)
                init = w.op.bias is None and s == 0
                self.multiply(self.sums[i], lhs, rhs, init=init, k=cut.part)
            if self.rest.ops and not self.rest.is_relu:
                self.write_rest(i, image, group, m, at)
            else:
                out = self.result(self.rest.out, image, m, at, cut.m)
                c.store(out, self.sums[i], relu=self.rest.is_relu)

    def multiply(self, sums: Tile, lhs: Tile, rhs: Side, init: Condition | bool, k: int) -> None:
        """The sums += lhs rhs, or transposed."""
        if self.w.turned:
            turned = rhs.tile if isinstance(rhs, Transposed) else rhs.T
            self.c.mmad(sums, turned, lhs.T, init=init, k=k)
        else:
            self.c.mmad(sums, lhs, rhs, init=init, k=k)

    def load_windows(self, copy: Index, image: Index, channel: Index, at: Sequence[Index]) -> Side:
        c, cut, w = self.c, self.cut, self.w
        tile, pad = self.windows[copy], w.op.pad_value.value.data
        x, (lines, cols) = self.arguments[w.op.input], w.kernel
        if w.last:
            return c.load(tile, x[image, at[1] :, channel:], pad=0).T
        for line in c.range(lines) if lines > 1 else (0,):
            for col in range(cols):
                box = x[image, channel:, *w.spans(at, (line, col))]
                rows = (line * cols + col, cut.channels, w.taps)
                c.load(tile, box.sized(cut.channels, cut.lines, cut.cols), pad=pad, rows=rows)
        return tile

    def result(
        self, value: SSAValue, image: Scalar, m: Scalar, at: Sequence[Scalar], rows: int
    ) -> Box:
        """A box of the result, or of what is added to it."""
        if self.w.turned:
            box = self.arguments[value][image, at[0] :, at[1] :, m:]
            return box.sized(self.cut.lines, self.cut.cols, rows)
        box = self.arguments[value][image, m:, at[0] :, at[1] :]
        return box.sized(rows, self.cut.lines, self.cut.cols)

    # ---- other ops, on vector cores

    def prepare_rest(self) -> None:
        """Buffers for pieces of the block's rows."""
        c, cut, rest = self.c, self.cut, self.rest
        full = [v for v, kind in rest.others.items() if kind == "all"]
        values = [self.w.op.result, *full, rest.out]
        columns = len(rest.others) - len(full)
        bits = 2 * sum(bitwidth(element_type(v)) for v in values)  # of a pixel
        room = rest.launch.target.core_memories["ub"]
        sizes = [n for n in range(FRACTAL, cut.m + 1, FRACTAL) if cut.m % n == 0]
        fitting = [n for n in sizes if n * cut.n * bits // 8 + columns * 8 * n <= room]
        if not fitting:
            raise NotLowered("its blocks do not fit into ub")
        self.rows = fitting[-1]

        def ring(value: SSAValue, cols: int) -> Tile:
            return c.ub(self.rows, cols, element_type(value), copies=2)

        self.popped, self.stored = ring(values[0], cut.n), ring(rest.out, cut.n)
        self.queue = c.queue(self.popped, 2)
        self.rings = {v: ring(v, cut.n if kind == "all" else 1) for v, kind in rest.others.items()}

    def write_rest(
        self, i: SharedIndex, image: Index, group: Scalar, m: Index, at: Sequence[Index]
    ) -> None:
        c, rows = self.c, self.rows
        pieces = self.cut.m // rows
        first = c.now(i.turn * pieces)
        for piece in c.range(pieces):
            copy, row = first + piece, piece * rows
            self.queue.push(self.sums[i].part(row, 0, (rows, self.cut.n)))
            known: dict[SSAValue, Expression] = {}
            for value, ring in self.rings.items():
                if self.rest.others[value] == "all":
                    box = self.result(value, image, m + row, at, rows)
                else:
                    memref = self.arguments[value]
                    box = self.rest.column_box(value, memref, image, group, m + row)
                known[value] = c.load(ring[copy], box, pad=1)
            known[self.w.op.result] = self.queue.pop(self.popped[copy])
            self.stored[copy] = self.rest.value(known, self.stored.type.shape)
            c.store(self.result(self.rest.out, image, m + row, at, rows), self.stored[copy])
