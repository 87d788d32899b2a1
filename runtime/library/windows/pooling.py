"""Kernels for the vector cores: pools.

Rows of tiles are lines of images, of several channels one below the other, so that lines of windows
are rows of whole tiles and an instruction passes all of them at once; between two channels it
computes some that nobody stores. What the lines of a kernel share is computed once:

    for i in share(blocks)                       # channels, `lines` lines of `cols` pixels
      for each column s of the kernel
        load x[channels.., y - 1.., x + s - 1..] to t[s]     # lines + 2 of each channel
      u = t[0] + t[1] + t[2]
      v = u[0:] + u[1:] + u[2:]                  # rows
      store v of each channel

With a stride over columns whole lines come once (elements that do not lie side by side are slow to
load): their lines are combined first, and columns are taken of that. Lines of a few elements are
slow, too: small images are turned (`turned.py`), where that is faster. Where windows of an average
pass the image, lines and columns have the numbers of their elements. One window over a whole image
is a reduction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil, prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.choices import in_order
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar, SharedIndex, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, Written, no_room
from ge.runtime.library.windows.pool import Pool
from ge.runtime.library.windows.turned import fastest_turned
from ge.runtime.library.windows.windows import Rest


@dataclass(frozen=True)
class PoolingCut:
    """Blocks of so many channels, lines and columns of pixels."""

    channels: int
    lines: int
    cols: int

    def counts(self, p: Pool) -> tuple[int, int, int]:
        lines, cols = p.w.result[-2:]
        return ceil(p.w.channels / self.channels), ceil(lines / self.lines), ceil(cols / self.cols)

    def blocks(self, p: Pool) -> int:
        return p.w.planes * prod(self.counts(p))

    def rows(self, p: Pool) -> int:
        """Of tiles that are loaded."""
        return self.channels * (self.lines + p.shift)

    def computed(self, p: Pool) -> int:
        """Rows that lines of windows begin at."""
        return self.rows(p) - p.shift

    def bytes(self, p: Pool, rest: Rest) -> int:
        """In UB."""
        size, wide = bitwidth(p.sums) // 8, self.rows(p) * p.wide(self.cols)
        loads = len(p.w.loads)
        total = 2 * loads * p.columns * wide * p.w.bits // 8
        pixels = self.rows(p) * self.cols
        if p.takes:
            total += size * (wide + p.w.kernel[-1] * pixels)
        elif p.columns > 1:
            total += size * loads * pixels
        columns = 4 * BLOCK * self.rows(p) + 4 * BLOCK * self.cols if p.covered else 0
        others = 2 * BLOCK * len(rest.others)
        return total + pixels * rest.whole_bits // 4 + columns + others

    def cycles(self, p: Pool, target: Target) -> float:
        """Of the busiest core."""
        core, w, rows, wide = Core.of(target), p.w, self.rows(p), p.wide(self.cols)
        loads, taps = len(w.loads), sum(len(w.phases[phase]) for _, phase in w.loads)
        load = core.ub(rows, wide * w.bits / 8) * loads * p.columns
        cast = "" if bitwidth(p.sums) == w.bits else "cast"

        def each(names: str, cols: int) -> float:
            return core.vector(names, rows, cols * bitwidth(p.sums) / 8)

        vector = loads * p.columns * each(cast, wide) + taps * each("max", wide)
        if p.takes:
            vector += w.kernel[-1] * each("gather max", self.cols)
        elif p.columns > 1:
            vector += loads * (p.columns - 1) * each("max", wide)
        vector += each("mul mul", self.cols) if p.covered else 0.0
        store = core.store(self.channels * self.lines, self.cols * w.bits / 8)
        rounds = ceil(self.blocks(p) / target.vector_cores)
        times = loads * p.columns  # each tile is computed with when it is there
        return cycles_of_blocks(rounds, (load, times), (vector, times), (store, 1))


def cuts(p: Pool, rest: Rest) -> list[PoolingCut]:
    """With operands that are numbers for channels, a block has one channel."""
    lines, cols = p.w.result[-2:]
    unit = BLOCK * 8 // min(rest.narrowest, bitwidth(p.sums))
    channels = [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if n < 2 * p.w.channels]
    wide = [align_up(ceil(cols / n), unit) for n in (1, 2, 4, 8, 16, 32, 64) if n <= cols]
    high = sorted({ceil(lines / n) for n in range(1, lines + 1)})
    return [
        PoolingCut(n, h, c)
        for n in (channels if not rest.others else [1])
        for c in dict.fromkeys(wide)
        for h in high
        if c >= cols or h == 1 or n == 1
    ]


def lower_pool(launch: Launch) -> Written:
    """A pool, and ops on its result."""
    op = next(op for op in launch.body.ops if isinstance(op, PoolOp))
    p = Pool.of(op, launch.target)
    w = p.w
    rest = Rest(launch, op, (1, w.channels, *w.result), (1, w.channels, 1))
    room = launch.target.core_memories["ub"]
    found = {cut: cut.bytes(p, rest) for cut in cuts(p, rest)}
    fitting = [cut for cut, size in found.items() if size <= room]
    if not fitting:
        raise no_room({"ub": min(found.values(), default=0)}, launch.target)
    found = in_order(sorted(fitting, key=lambda cut: cut.cycles(p, launch.target)))
    cut = next(iter(found))
    turned = fastest_turned(p, launch.target) if rest.is_empty else None
    if turned is not None and turned.cycles(launch.target) < cut.cycles(p, launch.target):
        return turned.written(launch.target)

    def write(c: Tracer, arguments: Arguments) -> None:
        PoolingWriter(c, p, cut, arguments, rest).write()

    cores = min(cut.blocks(p), launch.target.vector_cores)
    return Written(write, cores, w.shapes | rest.shapes)


class PoolingWriter:
    """The program, while it is written."""

    def __init__(
        self, c: Tracer, p: Pool, cut: PoolingCut, arguments: Arguments, rest: Rest
    ) -> None:
        self.c, self.p, self.w, self.cut, self.arguments = c, p, p.w, cut, arguments
        self.rest, self.pitch = rest, cut.lines + p.shift
        self.rows, self.computed = cut.rows(p), cut.computed(p)
        wide = p.wide(cut.cols)
        self.loaded = {
            (*load, col): c.ub(self.rows, wide, p.w.element, copies=2)
            for load in p.w.loads
            for col in range(p.columns)
        }
        if p.takes:
            self.lines = c.ub(self.computed, wide, p.sums)
            self.taken = [c.ub(self.computed, cut.cols, p.sums) for _ in range(p.w.kernel[-1])]
        elif p.columns > 1:
            self.summed = {load: c.ub(self.rows, wide, p.sums) for load in p.w.loads}
        self.rings = {
            value: c.ub(*((self.computed, cut.cols) if kind == "all" else (1, 1)),
                        element_type(value), copies=2)
            for value, kind in rest.others.items()
        }  # fmt: skip
        self.stored = {
            out: c.ub(self.computed, cut.cols, element_type(out), copies=2)
            for out in rest.results.values()
        }
        if p.covered:
            self.shares = c.ub(self.computed, 1, f32), c.ub(1, cut.cols, f32)

    def write(self) -> None:
        c, cut, w = self.c, self.cut, self.w
        down, high, across = cut.counts(self.p)
        whole = w.planes * high * across == 1  # all blocks have the same pixels
        if self.p.covered and whole:
            self.share_out((0,) * len(w.result))
        for i in c.share(cut.blocks(self.p)):
            block, place = c.now(i // (high * across)), c.now(i % (high * across))
            pixel = c.now(place // across * cut.lines), c.now(place % across * cut.cols)
            _, plane = w.image_of(c, block // down)
            row, at = c.now(block % down * cut.channels), (*plane, *pixel)
            if self.p.covered and not whole:
                self.share_out(at)
            known: dict[SSAValue, v.Expression] = {}
            for value, ring in self.rings.items():
                if self.rest.others[value] == "all":
                    box = self.box(value, row, at)
                else:
                    box = self.arguments[value][0, row:, 0:]
                known[value] = c.load(ring[i], box, pad=1)
            known[self.p.op.results[0]] = self.pooled(i, row, at)

            def keep(
                out: SSAValue, value: v.Expression, i: SharedIndex = i, row: Index = row,
                at: Sequence[Scalar] = at,
            ) -> v.Tile:  # fmt: skip
                tile = self.stored[out][i]
                tile[:] = value
                self.store(out, tile, row, at)
                return tile

            self.rest.compute(known, (self.computed, cut.cols), keep)

    def box(self, value: SSAValue, row: Scalar, at: Sequence[Scalar], count: int = 1) -> v.Subview:
        """Lines of a result's channels."""
        *plane, line, col = at
        box = self.arguments[value][0, row:, *plane, line:, col:]
        return box.sized(count, self.cut.lines, self.cut.cols)

    def store(self, out: SSAValue, tile: v.Tile, row: Index, at: Sequence[Scalar]) -> None:
        """All channels, or one by one where lines lie between them that are none of a result."""
        cut = self.cut
        if not self.p.shift or cut.channels == 1:
            self.c.store(self.box(out, row, at, cut.channels), tile)
            return
        for k in self.c.range(minimum(cut.channels, self.w.channels - row)):
            lines = tile.part(k * self.pitch, 0, (cut.lines, cut.cols))
            self.c.store(self.box(out, row + k, at), lines)

    def pooled(self, i: SharedIndex, row: Scalar, at: Sequence[Scalar]) -> v.Expression:
        c, p, combine = self.c, self.p, self.p.combine
        lines: dict[tuple[tuple[int, ...], int], v.Expression] = {}
        for load in p.w.loads:
            loaded = [self.load(self.loaded[*load, s][i], load, s, row, at)
                      for s in range(p.columns)]  # fmt: skip
            if not p.takes and p.columns > 1:
                self.summed[load][:] = reduce(combine, map(p.of_element, loaded))
                lines[load] = self.summed[load]
            else:
                lines[load] = loaded[0]
        total = reduce(combine, self.of_lines(lines))
        if p.takes:
            self.lines[:] = total
            for s, target in enumerate(self.taken):
                c.take(target, self.lines, s * p.w.dilations[-1], p.w.strides[-1])
            total = reduce(combine, self.taken)
        total = p.finished(total)
        if p.covered:
            total = total * self.shares[0] * self.shares[1]
        return v.cast(total, p.w.element)

    def of_lines(
        self, lines: dict[tuple[tuple[int, ...], int], v.Expression]
    ) -> list[v.Expression]:
        """What is combined, for each line of each plane of the kernel."""
        w, found = self.w, list[v.Expression]()
        for (plane, phase), tile in lines.items():
            assert isinstance(tile, v.Tile)
            for tap in w.phases[phase]:
                part = tile.part(w.shift(tap), 0, (self.computed, tile.shape[1]))
                done = (plane, phase) in getattr(self, "summed", {})
                found.append(part if done else self.p.of_element(part))
        return found

    def load(
        self,
        tile: v.Tile,
        load: tuple[tuple[int, ...], int],
        column: int,
        row: Scalar,
        at: Sequence[Scalar],
    ) -> v.Tile:
        """The lines of a phase, of each channel."""
        plane, phase = load
        *spans, cols = self.w.spans(at, (*plane, self.w.phases[phase][0], column))
        if self.p.takes:
            cols = slice(cols.start, None)
        box = self.arguments[self.p.op.input][0, row:, *spans, cols]
        box = box.sized(self.cut.channels, self.pitch, tile.shape[1])
        return self.c.load(tile, box, pad=self.p.pad)

    def share_out(self, at: Sequence[Scalar]) -> None:
        """One over the number of elements that windows have: of lines (and planes), and of
        columns."""
        lines, cols = self.shares
        number = v.cast(v.rows(self.computed), f32)
        line = number - v.unary(FloorOp, (number + 0.5) / float(self.pitch)) * float(self.pitch)
        count = self.count(-2, at, line, v.rows)
        for dim in range(len(at) - 2):
            count = count * self.count(dim, at, None, v.columns)
        lines[:] = 1.0 / v.maximum(count, 1.0)
        column = v.cast(v.columns(self.cut.cols), f32)
        cols[:] = 1.0 / v.maximum(self.count(-1, at, column, v.columns), 1.0)

    def count(
        self,
        dim: int,
        at: Sequence[Scalar],
        place: v.Expression | None,
        numbers: Callable[..., v.Expression],
    ) -> v.Expression:
        """Elements of windows along a dimension that count, for each pixel from `at` on."""
        w = self.p.whole
        start = v.cast(numbers(1, at[dim] * w.strides[dim] - w.pads[dim]), f32)
        if place is not None:
            start = start + place * float(w.strides[dim])
        return self.p.elements(dim, start)
