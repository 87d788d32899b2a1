"""Kernels of products of one row with weights of 8 or 4 bits, as layers have them that make one
token after the other: the vector cores multiply codes, and scales follow once for each column.

    %w = graph.dequantize %codes, %scales axis 0          columns x terms
    %y = graph.matmul %x, %w transpose_rhs

    for u in share(blocks of columns x parts of the terms), of each of the products
      for s in range(terms of the part / depth)
        load codes[c.., s..]; wide = f16 of them          # rows x depth
        for j in range(depth / lanes)
          sums += wide[:, j..] * x[s + j..]               # rows x lanes, in f32
      the sum of each row * scales[c..], and what follows; or, of parts, -> workspace
    barrier;  parts are added, and what follows (`SplitSums`)

The cube needs weights of the elements of %x: the vector cores bring these to memory, and the cube
loads twice as many bytes from there as codes have. Here codes are read once, and a program of
vector cores alone starts earlier. Products of numbers of 16 bits are exact in f32, and scales meet
sums: no weight is rounded to f16.

Codes of 4 bits have a scale and a zero point for each group of terms. They are stored so that a
lane has a group (`transforms/graph/turn_weights.py`), and so is the row of %x:

    %w = graph.dequantize %codes, %scales, %zeros axis 2     parts x columns x terms x 64 groups

    for s in range(parts of 64 groups)
      sums = zeros[s, c..] * -(sum of the terms of each group)
      for i in range(terms of a group)
        sums += codes[s, c.., i] * x[s, i]                # rows x lanes, in f32
      total += sums * scales[s, c..]
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import (
    Shape,
    element_type,
    normalize_axis,
    numel,
    shape_of,
)
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.cycles import REPEAT_BYTES
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, Written
from ge.runtime.library.matmul.lanes import LANES, unspread
from ge.runtime.library.matmul.outputs import ResultBlock
from ge.runtime.library.matmul.program import Epilogue, SplitSums
from ge.runtime.library.matmul.sections import Product, Section
from ge.runtime.library.programs import fitted

ROWS, DEPTHS = (128, 64, 32, 16), (1024, 512, 256)  # of a tile of codes
MOST_PARTS = 8  # of the terms
MOST_ROWS, GROUP_DEPTHS = 192, (8, 4, 2)  # of a tile of codes in groups, in terms of each


def codes_of(product: Product) -> DequantizeOp | None:
    """The op that makes the weight of codes of 8 bits along the terms, or of 4 bits in groups along
    lanes; None where the weight is another one."""
    launch, turned = product.launch, product.rhs.turned
    value = product.rhs.value if turned else unspread(product.rhs.value)
    op, inputs = value.owner, launch.body.inputs
    if not isinstance(op, DequantizeOp) or op not in launch.body.ops:
        return None
    if not all(v in inputs for v in op.operands):
        return None
    shape, block = shape_of(op.input), op.block_size.value.data
    axis = 0 if op.axis is None else normalize_axis(op.axis.value.data, len(shape))
    bits = bitwidth(element_type(op.input))
    if not turned:
        lanes = len(shape) == 4 and shape[2:] == (block, LANES) and axis == 2
        return op if lanes and bits == 4 else None
    along = len(shape) == 2 and (axis == 0 or numel(shape_of(op.scale)) == 1)
    return op if along and bits == 8 and not block and op.zero_point is None else None


def codes_in(section: Section) -> list[tuple[DequantizeOp, int]]:
    """The weights' ops, each with the first column that is needed of it."""
    ops = [(codes_of(term), first) for term, first in section.terms]
    return [(op, first) for op, first in ops if op is not None]


def has_single_row(section: Section) -> bool:
    """True if vector cores may compute the products of a section."""
    p, product = section.p, section.product
    given = product.lhs.is_plain and not product.lhs.turned
    return (
        (p.m, p.batch, p.element) == (1, 1, f16)
        and given
        and not section.reduces
        and not product.groups
        and len(codes_in(section)) == len(section.terms)
    )


@dataclass(frozen=True)
class RowCut:
    """`rows` columns of the products and `depth` terms at a time; `parts` of the terms are summed
    up apart."""

    rows: int
    depth: int
    parts: int

    def units(self, columns: int) -> int:
        """Blocks that cores share."""
        return ceil(columns / self.rows) * self.parts

    def steps(self, terms: int) -> int:
        """Steps of a part of the terms."""
        return ceil(ceil(terms / self.depth) / self.parts)


def row_cuts(sections: Sequence[Section], target: Target) -> list[RowCut]:
    """The cuts, the fastest first: by what the busiest core loads and multiplies."""
    p, core = sections[0].p, Core.of(target)
    (op, _), *_ = codes_in(sections[0])
    bits, block = bitwidth(element_type(op.input)), op.block_size.value.data
    whole = p.k if not block else numel(shape_of(op.input)) // p.n

    def cycles(cut: RowCut) -> float:
        products = core.vector("mul", cut.rows, REPEAT_BYTES, apart=True)
        step = core.vector("cast", 1, 2 * cut.rows * cut.depth) + cut.depth // LANES * products
        step = max(step, core.ub(cut.rows, cut.depth * bits // 8))
        if block:  # zero points before and scales behind the terms of a group
            scaled = core.vector("cast cast mul cast mul add", cut.rows, REPEAT_BYTES)
            step += scaled * cut.depth / (block * LANES)
        unit = cut.steps(whole) * step + core.reduced("sum", cut.rows, REPEAT_BYTES)
        units = sum(cut.units(s.p.n) * s.p.terms for s in sections)
        apart = not has_whole_sums(sections, cut)
        return ceil(units / target.vector_cores) * unit + apart * core.barrier

    if block:
        counts = [ceil(p.n / most) for most in range(FRACTAL, MOST_ROWS + 1)]
        rows = list(dict.fromkeys(ceil(p.n / count) for count in counts))
        depths = [n * LANES for n in GROUP_DEPTHS if block % n == 0]
        lanes = whole // (block * LANES)
        parts = [n for n in range(1, lanes + 1) if lanes % n == 0]
    else:
        rows, depths, parts = list(ROWS), list(DEPTHS), list(range(1, MOST_PARTS + 1))
    found = [RowCut(r, d, n) for r in rows for d in depths for n in parts]
    return sorted((c for c in found if c.parts <= ceil(whole / c.depth)), key=cycles)


def has_whole_sums(sections: Sequence[Section], cut: RowCut) -> bool:
    """True if the core that sums up columns computes what follows: it has all terms, and outputs
    take any columns, or as many."""
    return cut.parts == 1 and all(s.part_cols in (0, cut.rows) for s in sections)


def elements_of(section: Section) -> list[Attribute]:
    return [element_type(term.op.result) for term, _ in section.terms]


def single_row(launch: Launch, sections: Sequence[Section]) -> Written | None:
    """The first program that fits of products of one row by vector cores alone; None where there is
    none, the products are others, or cores of both kinds share their memories."""
    if not launch.target.split_cores or not all(map(has_single_row, sections)):
        return None
    ops = [op for section in sections for op, _ in codes_in(section)]
    kinds = {
        (*(element_type(v) for v in op.operands[:2]), shape_of(op.input)[2:], len(op.operands))
        for op in ops
    }
    if len({(s.product.lhs, s.p.k) for s in sections}) > 1 or len(kinds) > 1:
        return None
    cores = launch.target.vector_cores

    def programs() -> Iterator[Written]:
        for cut in row_cuts(sections, launch.target):
            count = min(sum(cut.units(s.p.n) for s in sections), cores)
            if ops[0].block_size.value.data:
                writer = GroupWriter(launch, sections, cut, count)
            else:
                writer = RowWriter(launch, sections, cut, count)
            yield Written(writer.write, count, writer.shapes)

    return next((w for w in (fitted(launch, p) for p in programs()) if w is not None), None)


@dataclass
class RowWriter:
    """A program of one row, while it is written."""

    launch: Launch
    sections: Sequence[Section]
    cut: RowCut
    cores: int

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        """Shapes of memrefs that are not the values' own."""
        lhs = self.sections[0].product.lhs
        return {lhs.value: lhs.shape}

    def write(self, c: Tracer, arguments: Arguments) -> None:
        cut = self.cut
        self.c, self.arguments = c, arguments
        self.tiles(c)
        self.load_row()
        before, tiles, shared = 0, dict[Hashable, v.Tile](), list[tuple[Section, SplitSums]]()
        for section in self.sections:
            parts, pull = None, Epilogue(c, self.launch, arguments)
            if not has_whole_sums(self.sections, cut):
                parts = SplitSums(c, replace(section.p, splits=cut.parts), tiles)
                shared.append((section, parts))
            units = cut.units(section.p.n)
            me = c.now((c.core + -before % self.cores) % self.cores) if before else c.core
            for turn in c.range(ceil_div(units - me, c.cores)):
                unit = c.now(me + turn * c.cores)
                part, col = c.now(unit % cut.parts), c.now(unit // cut.parts * cut.rows)
                terms = zip(codes_in(section), self.rows, strict=False)
                sums = [self.sums_of(op, col + at, part, into) for (op, at), into in terms]
                if parts is not None:
                    parts.store(part, 0, col, sums)
                else:
                    self.follow(pull, section, col, self.rounded(section, sums, tiles))
            before += units
        if shared:
            c.barrier()
        for section, parts in shared:
            pull = Epilogue(c, self.launch, arguments)
            for col, sums in parts.merged(elements_of(section), section.part_cols):
                self.follow(pull, section, col, sums)

    def tiles(self, c: Tracer) -> None:
        rows, depth = self.cut.rows, self.cut.depth
        first, _ = codes_in(self.sections[0])[0]
        self.codes = c.ub(rows, depth, element_type(first.input), copies=2)
        self.wide, self.acc = c.ub(rows, depth, f16), c.ub(rows, LANES, f32)
        self.column = c.ub(rows, 1, f32)
        most = max(len(s.terms) for s in self.sections)
        self.rows = [c.ub(1, rows, f32) for _ in range(most)]
        self.own_tiles(c, first)

    def own_tiles(self, c: Tracer, first: DequantizeOp) -> None:
        cut, terms = self.cut, self.sections[0].p.k
        terms = cut.steps(terms) * cut.parts * cut.depth  # some behind the end
        self.x, self.scale = c.ub(1, terms, f16), c.ub(1, cut.rows, element_type(first.scale))

    def load_row(self) -> None:
        lhs = self.sections[0].product.lhs
        ends = (*(0 for _ in lhs.shape[:-1]), slice(0, None))
        self.c.load(self.x, self.arguments[lhs.value][ends], pad=0)

    def multiply(self, lane: Scalar, x: v.Tile) -> None:
        """Add the products of some codes of each row, from a lane on, with those of x."""
        some = self.wide.part(0, lane, (self.cut.rows, LANES))
        self.acc[:] = self.acc + v.cast(some, f32) * v.cast(x, f32)

    def sums_of(self, op: DequantizeOp, col: Scalar, part: Scalar, into: v.Tile) -> v.Tile:
        """The sums of a part of the terms of some columns, times their scales."""
        c, arguments = self.c, self.arguments
        depth, steps = self.cut.depth, self.cut.steps(self.sections[0].p.k)
        c.fill(self.acc, 0)
        for step in c.range(steps):
            at = c.now((part * steps + step) * depth)
            codes = c.load(self.codes[step], arguments[op.input][col:, at:], pad=0)
            self.wide[:] = v.cast(codes, f16)
            for j in c.range(depth // LANES):
                self.multiply(j * LANES, self.x.part(0, at + j * LANES, (1, LANES)))
        self.sum_lanes(self.acc, into)
        if numel(shape_of(op.scale)) == 1:
            one = self.scale[:, :1]
            c.load(one, arguments[op.scale][(*(0 for _ in shape_of(op.scale)[1:]), slice(0, None))])
            into[:] = into * v.cast(one, f32)
        else:
            c.load(self.scale, arguments[op.scale][col:], pad=0)
            into[:] = into * v.cast(self.scale, f32)
        return into

    def sum_lanes(self, sums: v.Tile, into: v.Tile) -> None:
        self.c.assign(self.column, v.rowsum(sums))
        self.c.move(into, self.column.T)

    def rounded(
        self, section: Section, sums: Sequence[v.Tile], tiles: dict[Hashable, v.Tile]
    ) -> list[v.Tile]:
        """Sums as the products' types."""
        found = list(sums)
        for number, (tile, element) in enumerate(zip(sums, elements_of(section), strict=True)):
            if element == tile.element:
                continue
            if (key := (number, element)) not in tiles:
                tiles[key] = self.c.ub(*tile.shape, element)
            tiles[key][:] = v.cast(tile, element)
            found[number] = tiles[key]
        return found

    def follow(self, pull: Epilogue, section: Section, col: Scalar, sums: Sequence[v.Tile]) -> None:
        """Compute the ops behind the products of some columns, and store the results."""
        for (term, first), tile in zip(section.terms, sums, strict=True):
            pull.terms[term.op.result, first] = tile
        pull.col, pull.columns = col, sums[0].shape[1]
        at = ResultBlock(1, 1, 0, 0, col)
        for out in section.outputs:
            pull.store(out.value, out.box(at, *sums[0].shape))


class GroupWriter(RowWriter):
    """A program of one row and weights with a scale for each group of terms."""

    @property
    def codes_shape(self) -> tuple[int, int]:
        """Parts of 64 groups, and terms of a group."""
        (op, _), *_ = codes_in(self.sections[0])
        parts, _, terms, _ = shape_of(op.input)
        return parts, terms

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        _, terms = self.codes_shape
        found = {self.sections[0].product.lhs.value: (self.sections[0].p.k // terms, terms)}
        weights = [v for s in self.sections for op, _ in codes_in(s) for v in op.operands]
        return found | {v: (*shape_of(v)[:2], numel(shape_of(v)[2:])) for v in weights}

    def own_tiles(self, c: Tracer, first: DequantizeOp) -> None:
        parts, terms = self.codes_shape
        groups, rows = parts * LANES, self.cut.rows
        self.square, self.x = c.ub(LANES, terms, f16, copies=2), c.ub(terms, groups, f16)
        self.total, self.scale = c.ub(rows, LANES, f32), c.ub(rows, LANES, f16)
        if first.zero_point is not None:
            self.zeros = c.ub(rows, LANES, element_type(first.zero_point))
            self.less = c.ub(1, groups, f32)  # the sum of the terms of each group, below 0

    def load_row(self) -> None:
        c, source = self.c, self.arguments[self.sections[0].product.lhs.value]
        for part in c.range(self.codes_shape[0]):
            square = c.load(self.square[part], source[part * LANES :, 0:], pad=0)
            c.move(self.x.part(0, part * LANES, (self.x.shape[0], LANES)), square.T)
        (op, _), *_ = codes_in(self.sections[0])
        if op.zero_point is not None:
            c.fill(self.less, 0)
            for term in c.range(self.x.shape[0]):
                self.less[:] = self.less - v.cast(self.x.part(term, 0, self.less.shape), f32)

    def sums_of(self, op: DequantizeOp, col: Scalar, part: Scalar, into: v.Tile) -> v.Tile:
        c, given, depth = self.c, self.arguments, self.cut.depth
        (lanes, terms), each = self.codes_shape, self.cut.depth // LANES
        chunks, steps = terms // each, lanes // self.cut.parts
        c.fill(self.total, 0)
        for step in c.range(steps):
            place = c.now(part * steps + step)
            group = c.now(place * LANES)
            if op.zero_point is None:
                c.fill(self.acc, 0)
            else:
                zeros = c.load(self.zeros, given[op.zero_point][place, col:, 0:], pad=0)
                short = self.wide.part(0, 0, zeros.shape)
                short[:] = v.cast(zeros, f16)
                self.acc[:] = v.cast(short, f32) * self.less.part(0, group, (1, LANES))
            for chunk in c.range(chunks):
                at = c.now(chunk * depth)
                codes = self.codes[step * chunks + chunk]
                self.wide[:] = v.cast(c.load(codes, given[op.input][place, col:, at:], pad=0), f16)
                for i in c.range(each):
                    self.multiply(i * LANES, self.x.part(chunk * each + i, group, (1, LANES)))
            scale = c.load(self.scale, given[op.scale][place, col:, 0:], pad=0)
            self.total[:] = self.total + self.acc * v.cast(scale, f32)
        self.sum_lanes(self.total, into)
        return into
