"""Kernels of products of one row with weights of 8 bits, as layers have them that make one token
after the other: the vector cores multiply codes, and scales follow once for each column.

    %w = graph.dequantize %codes, %scales axis 0          columns x terms
    %y = graph.matmul %x, %w transpose_rhs

    for u in share(blocks of columns x parts of the terms), of each of the products
      for s in range(terms of the part / depth)
        load codes[c.., s..]; wide = f16 of them          # rows x depth
        for j in range(depth / lanes)
          sums += wide[:, j..] * x[s + j..]               # rows x lanes, in f32
      store the sum of each row * scales[c..]      -> workspace
    barrier;  parts are added, and what follows (`SplitSums`)

The cube needs weights of the elements of %x: the vector cores bring these to memory, and the cube
loads twice as many bytes from there as codes have. Here codes are read once, and a program of
vector cores alone starts earlier. Products of numbers of 16 bits are exact in f32, and scales meet
sums: no weight is rounded to f16.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from xdsl.dialects.builtin import f16, f32

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.cycles import REPEAT_BYTES
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, Written
from ge.runtime.library.matmul.outputs import ResultBlock
from ge.runtime.library.matmul.program import Epilogue, SplitSums
from ge.runtime.library.matmul.sections import Product, Section
from ge.runtime.library.programs import fitted

LANES = REPEAT_BYTES * 8 // 32  # sums of a row: one repeat of an instruction
ROWS, DEPTHS = (64, 32, 16), (1024, 512, 256)  # of a tile of codes
MOST_PARTS = 8  # of the terms


def codes_of(product: Product) -> DequantizeOp | None:
    """The op that makes the weight of codes of 8 bits along the terms; None where the weight is
    another one."""
    op, launch = product.rhs.value.owner, product.launch
    if not isinstance(op, DequantizeOp) or op not in launch.body.ops or not product.rhs.turned:
        return None
    shape, inputs = shape_of(op.input), launch.body.inputs
    axis = 0 if op.axis is None else normalize_axis(op.axis.value.data, len(shape))
    along = len(shape) == 2 and (axis == 0 or numel(shape_of(op.scale)) == 1)
    whole = bitwidth(element_type(op.input)) == 8 and not op.block_size.value.data
    plain = along and whole and op.zero_point is None
    return op if plain and op.input in inputs and op.scale in inputs else None


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

    def cycles(cut: RowCut) -> float:
        products = core.vector("mul", cut.rows, REPEAT_BYTES, apart=True)
        step = core.vector("cast", 1, 2 * cut.rows * cut.depth) + cut.depth // LANES * products
        step = max(step, core.ub(cut.rows, cut.depth))
        unit = cut.steps(p.k) * step + core.reduced("sum", cut.rows, REPEAT_BYTES)
        units = sum(cut.units(s.p.n) * s.p.terms for s in sections)
        return ceil(units / target.vector_cores) * unit

    parts = range(1, MOST_PARTS + 1)
    found = [RowCut(r, d, n) for r in ROWS for d in DEPTHS for n in parts]
    return sorted((c for c in found if c.parts <= ceil(p.k / c.depth)), key=cycles)


def single_row(launch: Launch, sections: Sequence[Section]) -> Written | None:
    """The first program that fits of products of one row by vector cores alone; None where there is
    none, the products are others, or cores of both kinds share their memories."""
    if not launch.target.split_cores or not all(map(has_single_row, sections)):
        return None
    ops = [op for section in sections for op, _ in codes_in(section)]
    kinds = {(element_type(op.input), element_type(op.scale)) for op in ops}
    if len({(s.product.lhs, s.p.k) for s in sections}) > 1 or len(kinds) > 1:
        return None
    lhs, cores = sections[0].product.lhs, launch.target.vector_cores

    def programs() -> Iterator[Written]:
        for cut in row_cuts(sections, launch.target):
            count = min(sum(cut.units(s.p.n) for s in sections), cores)
            write = RowWriter(launch, sections, cut, count).write
            yield Written(write, count, {lhs.value: lhs.shape})

    return next((w for w in (fitted(launch, p) for p in programs()) if w is not None), None)


@dataclass
class RowWriter:
    """A program of one row, while it is written."""

    launch: Launch
    sections: Sequence[Section]
    cut: RowCut
    cores: int

    def write(self, c: Tracer, arguments: Arguments) -> None:
        lhs, cut = self.sections[0].product.lhs, self.cut
        self.c, self.arguments = c, arguments
        self.tiles(c)
        ends = (*(0 for _ in lhs.shape[:-1]), slice(0, None))
        c.load(self.x, arguments[lhs.value][ends], pad=0)
        before, tiles, shared = 0, dict[Hashable, v.Tile](), list[SplitSums]()
        for section in self.sections:
            shared.append(parts := SplitSums(c, replace(section.p, splits=cut.parts), tiles))
            units = cut.units(section.p.n)
            me = c.now((c.core + -before % self.cores) % self.cores) if before else c.core
            for turn in c.range(ceil_div(units - me, c.cores)):
                unit = c.now(me + turn * c.cores)
                part, col = c.now(unit % cut.parts), c.now(unit // cut.parts * cut.rows)
                terms = zip(codes_in(section), self.rows, strict=False)
                sums = [self.sums_of(op, col + at, part, into) for (op, at), into in terms]
                parts.store(part, 0, col, sums)
            before += units
        c.barrier()
        for section, parts in zip(self.sections, shared, strict=True):
            self.merge(section, parts)

    def tiles(self, c: Tracer) -> None:
        rows, depth = self.cut.rows, self.cut.depth
        first, _ = codes_in(self.sections[0])[0]
        terms = self.cut.steps(self.sections[0].p.k) * self.cut.parts * depth  # some behind the end
        self.codes = c.ub(rows, depth, element_type(first.input), copies=2)
        self.wide, self.x = c.ub(rows, depth, f16), c.ub(1, terms, f16)
        self.acc = c.ub(rows, LANES, f32)
        self.column = c.ub(rows, BLOCK // 4, f32)  # a block for each number
        self.scale = c.ub(1, rows, element_type(first.scale))
        most = max(len(s.terms) for s in self.sections)
        self.rows = [c.ub(1, rows, f32) for _ in range(most)]

    def sums_of(self, op: DequantizeOp, col: Scalar, part: Scalar, into: v.Tile) -> v.Tile:
        """The sums of a part of the terms of some columns, times their scales."""
        c, arguments = self.c, self.arguments
        (rows, depth), steps = self.wide.shape, self.cut.steps(self.sections[0].p.k)
        c.fill(self.acc, 0)
        for step in c.range(steps):
            at = c.now((part * steps + step) * depth)
            codes = c.load(self.codes[step], arguments[op.input][col:, at:], pad=0)
            self.wide[:] = v.cast(codes, f16)
            for j in c.range(depth // LANES):
                some = self.wide.part(0, j * LANES, (rows, LANES))
                x = self.x.part(0, at + j * LANES, (1, LANES))
                self.acc[:] = self.acc + v.cast(some, f32) * v.cast(x, f32)
        column = self.column[:, :1]
        c.assign(column, v.rowsum(self.acc))
        c.move(into, column.T)
        if numel(shape_of(op.scale)) == 1:
            one = self.scale[:, :1]
            c.load(one, arguments[op.scale][(*(0 for _ in shape_of(op.scale)[1:]), slice(0, None))])
            into[:] = into * v.cast(one, f32)
        else:
            c.load(self.scale, arguments[op.scale][col:], pad=0)
            into[:] = into * v.cast(self.scale, f32)
        return into

    def merge(self, section: Section, shared: SplitSums) -> None:
        """Add the parts, and compute the ops behind the products."""
        pull = Epilogue(self.c, self.launch, self.arguments)
        values = [term.op.result for term, _ in section.terms]
        elements = [element_type(value) for value in values]
        for col, tiles in shared.merged(elements, section.part_cols):
            for value, (_, first), tile in zip(values, section.terms, tiles, strict=True):
                pull.terms[value, first] = tile
            pull.col, pull.columns = col, tiles[0].shape[1]
            at = ResultBlock(1, 1, 0, 0, col)
            for out in section.outputs:
                pull.store(out.value, out.box(at, *tiles[0].shape))
