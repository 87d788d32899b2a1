"""Kernels of products of one row with weights of 8 or 4 bits, as layers have them that make one
token after the other: the vector cores go along the terms, and add rows of codes times numbers of
the row to the sums of all columns.

    %w = graph.dequantize %codes, %scales axis 1              terms x columns
    %y = graph.matmul %x, %w

    for u in share(blocks of columns x parts of the terms), of each of the products
      for s in range(terms of the part / depth)
        load codes[s.., c..]; wide = f16 of them               # depth x columns
        for i in range(depth)
          sums += wide[i, :] * x[s + i]                        # in f32, exact products
      sums * scales[c..], and what follows; or, of parts, -> workspace
    barrier;  parts are added, and what follows (`SplitSums`)

The cube needs weights of the elements of %x: the vector cores bring these to memory, and the cube
loads twice as many bytes from there as codes have. Here codes are read once, and a program of
vector cores alone starts earlier. A tile times one number that is added to a tile is one
instruction (`axpy` of `costs/cycles.py`), half as long as products of two tiles. Products of
numbers of 16 bits are exact in f32, and scales meet sums: no weight is rounded to f16.

Codes of 4 bits, or of 8, have a scale and a zero point for each group of terms.

    %w = graph.dequantize %codes, %scales, %zeros axis 0 block_size 32

    x[part] *= r                                             # so that no sum is out of range
    for s in range(terms of the part / 16), of group g
      sums = zeros[g, c..] * -(sum of 16 terms of x)           # in f16
      for i in range(16)
        sums += codes[16 s + i, c..] * x[16 s + i]
      total += sums * scales[g, c..]                           # in f32, exact products
    total / r

Products in f16 take half the time of those in f32, in which the vector cores would be slower than
memory. A sum of f16 has 16 terms: its rounding is small beside that of weights to 4 bits, less so
beside that to 8.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import ceil, gcd

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import (
    Shape,
    align_up,
    element_type,
    numel,
    shape_of,
)
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cycles import REQUEST
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, Written
from ge.runtime.library.matmul.codes import has_codes_for_rows
from ge.runtime.library.matmul.outputs import ResultBlock
from ge.runtime.library.matmul.program import Epilogue, SplitSums
from ge.runtime.library.matmul.sections import Product, Section
from ge.runtime.library.programs import fitted

MOST_BLOCKS, DEPTHS = 64, (16, 8, 4, 2, 1)  # of columns; terms of a tile of codes
WAVES = 4  # units of a core, of which parts of the terms are chosen
CHAIN = 16  # terms of a group that are summed up in f16
LARGEST, TINY = 65504, 2.0**-24  # of f16


def codes_of(product: Product) -> DequantizeOp | None:
    """The op that makes the weight of codes along the columns; None where it is another one."""
    op, inputs = product.rhs.value.owner, product.launch.body.inputs
    if not isinstance(op, DequantizeOp) or op not in product.launch.body.ops:
        return None
    given = not product.rhs.turned and all(v in inputs for v in op.operands)
    return op if given and has_codes_for_rows(op, 1) else None


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
    """`cols` columns of the products, of which `piece` terms come at a time, and `depth` of these
    become f16; `parts` of the terms are summed up apart."""

    cols: int
    depth: int
    parts: int
    piece: int

    def units(self, columns: int) -> int:
        """Blocks that cores share."""
        return ceil(columns / self.cols) * self.parts

    def pieces(self, terms: int) -> int:
        """Pieces of a part of the terms."""
        return ceil(ceil(terms / self.piece) / self.parts)


@dataclass(frozen=True)
class RowCosts:
    """Cycles and bytes of cuts, estimated by what the busiest core loads and multiplies."""

    sections: Sequence[Section]
    target: Target

    @property
    def op(self) -> DequantizeOp:
        (op, _), *_ = codes_in(self.sections[0])
        return op

    def bytes(self, cut: RowCut) -> int:
        """Bytes of the tiles of a core."""
        terms, block = max(s.p.terms for s in self.sections), self.op.block_size.value.data
        bits = bitwidth(element_type(self.op.input))
        row = 2 * cut.pieces(self.sections[0].p.k) * cut.piece
        codes = cut.piece * cut.cols * 2 * bits // 8 + 2 * cut.depth * cut.cols
        others = (8 + bits // 4) * cut.cols if block else 2 * cut.cols
        return codes + others + row + 4 * terms * cut.cols

    def piece(self, cut: RowCut) -> float:
        """Cycles of a piece of the terms of a block of columns."""
        core, cols, op = Core.of(self.target), cut.cols, self.op
        block, wide = op.block_size.value.data, cut.depth * cols * 2
        bits = bitwidth(element_type(op.input))
        cycles = cut.piece / cut.depth * core.vector("cast", 1, wide)
        size, loads = cut.piece * cols * bits / 8, core.ub(cut.piece, cols * bits / 8)
        if block:
            scales = cut.piece / block * cols * (2 + bits / 8)
            loads += core.ub(1, 2 * cols) + core.ub(1, cols * bits / 8)
            cycles += core.vector("scalar mul_add", 1, 4 * cols)
            cycles += cut.piece * core.vector("axpy", 1, 2 * cols)
            cycles += core.vector("cast", 1, 2 * cols)
        else:
            scales = 0
            cycles += cut.piece * core.vector("axpy", 1, 4 * cols)
        hbm = core.hbm * self.target.cube_cores / self.target.vector_cores
        return max(cycles, loads, (size + scales) / hbm)

    def cycles(self, cut: RowCut) -> float:
        core, cores = Core.of(self.target), self.target.vector_cores
        p = self.sections[0].p
        unit = cut.pieces(p.k) * self.piece(cut) + core.vector("copy", 1, 4 * cut.cols)
        terms = max(s.p.terms for s in self.sections)
        time = ceil(sum(cut.units(s.p.n) for s in self.sections) / cores) * terms * unit
        if has_whole_sums(self.sections, cut):
            return time
        each = sum(s.p.terms * ceil(s.p.n / cores) for s in self.sections)
        return time + core.merging(cut.parts, 1, each)

    def cuts(self) -> list[RowCut]:
        """Cuts that have room, the fastest first."""
        p, block = self.sections[0].p, self.op.block_size.value.data
        bits, most = bitwidth(element_type(self.op.input)), max(s.p.n for s in self.sections)
        unit = REQUEST * 8 // bits
        pieces, cores = [gcd(block, CHAIN)] if block else DEPTHS, self.target.vector_cores
        widths = {align_up(ceil(most / n), unit) for n in range(1, MOST_BLOCKS + 1)}
        found = dict[RowCut, float]()
        for cols in sorted(widths, reverse=True):
            blocks = sum(ceil(s.p.n / cols) for s in self.sections)
            parts = {1} | {max(1, cores * wave // blocks) for wave in range(1, WAVES + 1)}
            for piece, depth, count in combinations(pieces, DEPTHS, sorted(parts)):
                cut = RowCut(cols, depth, count, piece)
                fits = self.bytes(cut) <= self.target.core_memories["ub"]
                if piece % depth == 0 and fits and count <= ceil(p.k / piece):
                    found[cut] = self.cycles(cut)
        return sorted(found, key=found.__getitem__)


def has_whole_sums(sections: Sequence[Section], cut: RowCut) -> bool:
    """True if the core that sums up columns computes what follows: it has all terms, and outputs
    take any columns, or as many."""
    return cut.parts == 1 and all(s.part_cols in (0, cut.cols) for s in sections)


def elements_of(section: Section) -> list[Attribute]:
    return [element_type(term.op.result) for term, _ in section.terms]


def single_row(launch: Launch, sections: Sequence[Section]) -> Written | None:
    """The first program that fits of products of one row by vector cores alone; None where there is
    none, the products are others, or cores of both kinds share their memories."""
    if not launch.target.split_cores or not all(map(has_single_row, sections)):
        return None
    ops = [op for section in sections for op, _ in codes_in(section)]
    kinds = {
        (*(element_type(v) for v in op.operands[:2]), op.block_size, len(op.operands)) for op in ops
    }
    if len({(s.product.lhs, s.p.k) for s in sections}) > 1 or len(kinds) > 1:
        return None
    cores = launch.target.vector_cores

    def programs() -> Iterator[Written]:
        for cut in RowCosts(sections, launch.target).cuts():
            count = min(sum(cut.units(s.p.n) for s in sections), cores)
            kind = GroupWriter if ops[0].block_size.value.data else RowWriter
            writer = kind(launch, sections, cut, count)
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
    def lhs(self) -> SSAValue:
        return self.sections[0].product.lhs.value

    @property
    def pieces(self) -> int:
        return self.cut.pieces(self.sections[0].p.k)

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        """Shapes of memrefs that are not the values' own."""
        return {self.lhs: (1, self.sections[0].p.k)}

    def write(self, c: Tracer, arguments: Arguments) -> None:
        cut = self.cut
        self.c, self.arguments = c, arguments
        self.tiles(c)
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
                part, col = c.now(unit % cut.parts), c.now(unit // cut.parts * cut.cols)
                first = c.now(part * self.pieces)
                self.load_row(first)
                terms = zip(codes_in(section), self.sums, strict=False)
                sums = [self.sums_of(op, col + at, first, into) for (op, at), into in terms]
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
        (first, _), *_ = codes_in(self.sections[0])
        cols, depth = self.cut.cols, self.cut.depth
        most = max(len(s.terms) for s in self.sections)
        self.sums = [c.ub(1, cols, f32) for _ in range(most)]
        self.codes = c.ub(self.cut.piece, cols, element_type(first.input), copies=2)
        self.wide = c.ub(depth, cols, f16)
        self.own_tiles(c, first)

    def own_tiles(self, c: Tracer, first: DequantizeOp) -> None:
        self.x = c.ub(1, self.pieces * self.cut.piece, f16)
        self.scale = c.ub(1, self.cut.cols, element_type(first.scale))

    def load_row(self, first: Scalar) -> None:
        """Bring the terms of a part, whose first piece this is."""
        self.c.load(self.x, self.arguments[self.lhs][0:, first * self.cut.piece :], pad=0)

    def number(self, piece: Scalar, term: int) -> v.Tile:
        """A term of a piece of the part."""
        return self.x.part(0, piece * self.cut.piece + term, (1, 1))

    def rows_of(self, codes: v.Tile, piece: Scalar) -> Iterator[tuple[v.Tile, v.Tile]]:
        """The rows of codes of a piece, as f16, and its terms."""
        cut = self.cut
        for term in range(cut.piece):
            if term % cut.depth == 0:
                self.wide[:] = v.cast(codes.part(term, 0, (cut.depth, cut.cols)), f16)
            row = self.wide.part(term % cut.depth, 0, (1, cut.cols))
            yield row, self.number(piece, term)

    def sums_of(self, op: DequantizeOp, col: Scalar, first: Scalar, into: v.Tile) -> v.Tile:
        """The sums of a part of the terms of some columns, times their scales."""
        c, arguments = self.c, self.arguments
        c.fill(into, 0)
        for piece in c.range(self.pieces):
            box = arguments[op.input][(first + piece) * self.cut.piece :, col:]
            for row, x in self.rows_of(c.load(self.codes[piece], box, pad=0), piece):
                into[:] = into + v.cast(row, f32) * v.cast(x, f32)
        if numel(shape_of(op.scale)) == 1:
            one = self.scale[:, :1]
            c.load(one, arguments[op.scale][(*(0 for _ in shape_of(op.scale)[1:]), slice(0, None))])
            into[:] = into * v.cast(one, f32)
        else:
            c.load(self.scale, arguments[op.scale][col:], pad=0)
            into[:] = into * v.cast(self.scale, f32)
        return into

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
    def shapes(self) -> dict[SSAValue, Shape]:
        return {self.lhs: (self.sections[0].p.k // self.cut.piece, self.cut.piece)}

    def own_tiles(self, c: Tracer, first: DequantizeOp) -> None:
        pieces, cols = self.pieces, self.cut.cols
        self.bits = bitwidth(element_type(first.input))
        self.acc = c.ub(1, cols, f16)
        self.scale = c.ub(1, cols, element_type(first.scale), copies=2)
        self.x, self.wide_x = (c.ub(pieces, self.cut.piece, kind) for kind in (f16, f32))
        self.column, self.less = c.ub(pieces, 1, f32), c.ub(pieces, 1, f16)
        self.least, self.back, self.forth = (c.ub(1, 1, f32) for _ in range(3))
        if first.zero_point is not None:
            self.zeros = c.ub(1, cols, element_type(first.zero_point), copies=2)
            self.zero = c.ub(1, cols, f16)

    def number(self, piece: Scalar, term: int) -> v.Tile:
        return self.x.part(piece, term, (1, 1))

    def load_row(self, first: Scalar) -> None:
        """Bring the terms of a part, times a number by which no sum of f16 is out of range; of each
        piece the sum below 0."""
        c, x, wide = self.c, self.x, self.wide_x
        wide[:] = v.cast(c.load(x, self.arguments[self.lhs][first:, 0:], pad=0), f32)
        c.assign(self.column, v.rowmax(v.maximum(wide, 0 - wide)))
        c.assign(self.least, v.colmax(self.column))
        most = LARGEST / (2 * 2**self.bits * CHAIN)
        self.back[:] = v.maximum(self.least, TINY) * (1 / most)
        self.forth[:] = 1 / self.back
        x[:] = v.cast(wide * self.forth, f16)
        c.assign(self.column, v.rowsum(v.cast(x, f32)))
        self.less[:] = v.cast(0 - self.column, f16)

    def sums_of(self, op: DequantizeOp, col: Scalar, first: Scalar, into: v.Tile) -> v.Tile:
        c, arguments, piece = self.c, self.arguments, self.cut.piece
        of_group = op.block_size.value.data // piece
        c.fill(into, 0)
        for number in c.range(self.pieces):
            place = c.now(first + number)
            group = c.now(place // of_group)
            scale = c.load(self.scale[number], arguments[op.scale][group:, col:], pad=0)
            zeros = self.load_zeros(op, group, col, number)
            codes = c.load(self.codes[number], arguments[op.input][place * piece :, col:], pad=0)
            if zeros is None:
                c.fill(self.acc, 0)
            else:
                self.zero[:] = v.cast(zeros, f16)
                self.acc[:] = self.zero * self.less.part(number, 0, (1, 1))
            for row, x in self.rows_of(codes, number):
                self.acc[:] = self.acc + row * x
            into[:] = into + v.cast(self.acc, f32) * v.cast(scale, f32)
        into[:] = into * self.back
        return into

    def load_zeros(
        self, op: DequantizeOp, group: Scalar, col: Scalar, turn: Scalar
    ) -> v.Tile | None:
        if op.zero_point is None:
            return None
        box = self.arguments[op.zero_point][group:, col:]
        return self.c.load(self.zeros[turn], box, pad=0)
