"""Kernels of products of one row with weights of 8 bits, as layers have them that make one token
after the other: the vector cores multiply codes, and scales follow once for each column.

    %w = graph.dequantize %codes, %scales axis 0          columns x terms
    %y = graph.matmul %x, %w transpose_rhs

    for u in share(blocks of columns x parts of the terms)
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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import SSAValue

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.cycles import REPEAT_BYTES
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
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


def has_single_row(section: Section) -> bool:
    """True if vector cores may compute the products of a section."""
    p, product = section.p, section.product
    given = product.lhs.is_plain and not product.lhs.turned
    return (
        (p.m, p.batch, p.element) == (1, 1, f16)
        and given
        and not section.reduces
        and not product.groups
        and all(codes_of(term) is not None for term, _ in section.terms)
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


def row_cuts(section: Section, target: Target) -> list[RowCut]:
    """The cuts, the fastest first: by what the busiest core loads and multiplies."""
    p, core = section.p, Core.of(target)

    def cycles(cut: RowCut) -> float:
        products = core.vector("mul", cut.rows, REPEAT_BYTES, apart=True)
        step = core.vector("cast", 1, 2 * cut.rows * cut.depth) + cut.depth // LANES * products
        step = max(step, core.ub(cut.rows, cut.depth))
        unit = p.terms * (cut.steps(p.k) * step + core.reduced("sum", cut.rows, REPEAT_BYTES))
        return ceil(cut.units(p.n) / target.vector_cores) * unit

    parts = range(1, MOST_PARTS + 1)
    found = [RowCut(r, d, n) for r in ROWS for d in DEPTHS for n in parts]
    return sorted((c for c in found if c.parts <= ceil(p.k / c.depth)), key=cycles)


def single_row(launch: Launch, sections: Sequence[Section]) -> Written | None:
    """The first program that fits of products of one row by vector cores alone; None where there is
    none, the products are others, or cores of both kinds share their memories."""
    cores, one = launch.target.vector_cores, len(sections) == 1
    if not launch.target.split_cores or not one or not has_single_row(sections[0]):
        return None

    def programs() -> Iterator[Written]:
        for cut in row_cuts(sections[0], launch.target):
            writer = RowWriter(launch, sections[0], cut)
            shapes = {sections[0].product.lhs.value: sections[0].product.lhs.shape}
            yield Written(writer.write, min(cut.units(sections[0].p.n), cores), shapes)

    return next((w for w in (fitted(launch, p) for p in programs()) if w is not None), None)


@dataclass
class RowWriter:
    """A program of one row, while it is written."""

    launch: Launch
    section: Section
    cut: RowCut

    @cached_property
    def terms(self) -> list[tuple[DequantizeOp, int]]:
        """The weights' ops, each with the first column that is needed of it."""
        ops = [(codes_of(term), first) for term, first in self.section.terms]
        return [(op, first) for op, first in ops if op is not None]

    def write(self, c: Tracer, arguments: Arguments) -> None:
        p, cut, lhs = self.section.p, self.cut, self.section.product.lhs
        shared = SplitSums(c, replace(p, splits=cut.parts), {})
        self.tiles(c)
        ends = (*(0 for _ in lhs.shape[:-1]), slice(0, None))
        c.load(self.x, arguments[lhs.value][ends], pad=0)
        for unit in c.share(cut.units(p.n)):
            part, col = c.now(unit % cut.parts), c.now(unit // cut.parts * cut.rows)
            sums = [
                self.sums_of(c, arguments, op, col + first, part, self.rows[number])
                for number, (op, first) in enumerate(self.terms)
            ]
            shared.store(part, 0, col, sums)
        c.barrier()
        self.merge(c, arguments, shared)

    def tiles(self, c: Tracer) -> None:
        p, (rows, depth) = self.section.p, (self.cut.rows, self.cut.depth)
        steps = self.cut.steps(p.k) * self.cut.parts  # the last ones may be beyond the terms
        element = element_type(self.terms[0][0].input)
        self.codes, self.wide = c.ub(rows, depth, element, copies=2), c.ub(rows, depth, f16)
        self.x, self.acc = c.ub(1, steps * depth, f16), c.ub(rows, LANES, f32)
        self.column = c.ub(rows, BLOCK // 4, f32)  # a block for each number
        self.scale = c.ub(1, rows, element_type(self.terms[0][0].scale))
        self.rows = [c.ub(1, rows, f32) for _ in self.terms]

    def sums_of(
        self,
        c: Tracer,
        arguments: Arguments,
        op: DequantizeOp,
        col: Scalar,
        part: Scalar,
        into: v.Tile,
    ) -> v.Tile:
        """The sums of a part of the terms of some columns, times their scales."""
        (rows, depth), steps = self.wide.shape, self.cut.steps(self.section.p.k)
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

    def merge(self, c: Tracer, arguments: Arguments, shared: SplitSums) -> None:
        """Add the parts, and compute the ops behind the products."""
        pull, values = Epilogue(c, self.launch, arguments), self.values
        elements = [element_type(value) for value in values]
        for col, tiles in shared.merged(elements, self.section.part_cols):
            for value, (_, first), tile in zip(values, self.section.terms, tiles, strict=True):
                pull.terms[value, first] = tile
            pull.col, pull.columns = col, tiles[0].shape[1]
            at = ResultBlock(1, 1, 0, 0, col)
            for out in self.section.outputs:
                pull.store(out.value, out.box(at, *tiles[0].shape))

    @property
    def values(self) -> list[SSAValue]:
        return [term.op.result for term, _ in self.section.terms]
