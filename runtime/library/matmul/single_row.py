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

    %w = graph.dequantize %codes, %scales, %zeros axis 1     parts x terms x columns x 128 groups

    %x *= r                                               # so that no sum below is out of range
    for s in range(parts of 128 groups)
      total += (zeros[s, c..] * -(sum of the terms of each group)) * scales[s, c..]
      for i in range(terms of a group / 8)
        sums = codes[s, 8 i, c..] * x[s, 8 i] + ...       # rows x lanes, in f16
        total += sums * scales[s, c..]                    # in f32, exact products
    the sum of each row / r

Products in f16 take half the time of those in f32, in which the vector cores would be slower than
memory. A sum of f16 has 8 terms: it is as exact as a weight that is rounded to f16, about.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import (
    Shape,
    align_up,
    element_type,
    normalize_axis,
    numel,
    shape_of,
)
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.cycles import REPEAT_BYTES, REQUEST
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar, ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, Written
from ge.runtime.library.matmul.lanes import LANES, unspread
from ge.runtime.library.matmul.outputs import ResultBlock
from ge.runtime.library.matmul.program import Epilogue, SplitSums
from ge.runtime.library.matmul.sections import Product, Section
from ge.runtime.library.programs import fitted

ROWS, DEPTHS = (128, 64, 32, 16), (1024, 512, 256)  # of a tile of codes
MOST_PARTS = 8  # of the terms
SUMS = REPEAT_BYTES * 8 // 32  # of a row, in f32: one repeat of an instruction
MOST_ROWS, GROUP_DEPTHS = 255, (4, 2, 1)  # of a tile of codes in groups, in terms of each
CHAIN = 8  # terms of a group that are summed up in f16
LARGEST, TINY = 65504, 2.0**-24  # of f16
BITS = 4  # of codes in groups


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
        lanes = len(shape) == 4 and shape[1::2] == (block, LANES) and axis == 1
        return op if lanes and bits == BITS else None
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
    chain = gcd(block, CHAIN)

    def cycles(cut: RowCut) -> float:
        products = core.vector("mul", cut.rows, REPEAT_BYTES, apart=True)
        step = core.vector("cast", 1, 2 * cut.rows * cut.depth)
        step += cut.depth // (LANES if block else SUMS) * products
        step = max(step, core.ub(cut.rows, cut.depth * bits // 8))
        if block:  # zero points before the terms of a group, and scales behind each chain of them
            scaled = core.vector("mul", cut.rows, 2 * REPEAT_BYTES)
            groups = core.vector("cast mul", cut.rows, REPEAT_BYTES) + scaled
            step += (groups / block + scaled / chain) * cut.depth / LANES
        unit = cut.steps(whole) * step + core.reduced("sum", cut.rows, REPEAT_BYTES)
        units = sum(cut.units(s.p.n) * s.p.terms for s in sections)
        apart = not has_whole_sums(sections, cut)
        return ceil(units / target.vector_cores) * unit + apart * core.barrier

    if block:
        counts = [ceil(p.n / most) for most in range(FRACTAL, MOST_ROWS + 1)]
        unit = REQUEST * 8 // (bits * LANES)
        sizes = (max(align_up(ceil(p.n / n), unit), FRACTAL) for n in counts)
        rows = list(dict.fromkeys(sizes))
        depths = [n * LANES for n in GROUP_DEPTHS if chain % n == 0]
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
        (*(element_type(v) for v in op.operands[:2]), shape_of(op.input)[1::2], len(op.operands))
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
                self.turn, terms = turn, enumerate(zip(codes_in(section), self.rows, strict=False))
                sums = [self.sums_of(op, col + at, part, i, r) for i, ((op, at), r) in terms]
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
        first, _ = codes_in(self.sections[0])[0]
        self.column = c.ub(self.cut.rows, 1, f32)
        most = max(len(s.terms) for s in self.sections)
        self.rows = [c.ub(1, self.cut.rows, f32) for _ in range(most)]
        self.own_tiles(c, first)

    def own_tiles(self, c: Tracer, first: DequantizeOp) -> None:
        cut, terms = self.cut, self.sections[0].p.k
        self.codes = c.ub(cut.rows, cut.depth, element_type(first.input), copies=2)
        self.wide, self.acc = c.ub(cut.rows, cut.depth, f16), c.ub(cut.rows, SUMS, f32)
        terms = cut.steps(terms) * cut.parts * cut.depth  # some behind the end
        self.x, self.scale = c.ub(1, terms, f16), c.ub(1, cut.rows, element_type(first.scale))

    def load_row(self) -> None:
        lhs = self.sections[0].product.lhs
        ends = (*(0 for _ in lhs.shape[:-1]), slice(0, None))
        self.c.load(self.x, self.arguments[lhs.value][ends], pad=0)

    def sums_of(
        self, op: DequantizeOp, col: Scalar, part: Scalar, number: int, into: v.Tile
    ) -> v.Tile:
        """The sums of a part of the terms of some columns, times their scales."""
        c, arguments = self.c, self.arguments
        depth, steps = self.cut.depth, self.cut.steps(self.sections[0].p.k)
        c.fill(self.acc, 0)
        for step in c.range(steps):
            at = c.now((part * steps + step) * depth)
            codes = c.load(self.codes[step], arguments[op.input][col:, at:], pad=0)
            self.wide[:] = v.cast(codes, f16)
            for j in c.range(depth // SUMS):
                some = self.wide.part(0, j * SUMS, (self.cut.rows, SUMS))
                x = self.x.part(0, at + j * SUMS, (1, SUMS))
                self.acc[:] = self.acc + v.cast(some, f32) * v.cast(x, f32)
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
        parts, terms, *_ = shape_of(op.input)
        return parts, terms

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        _, terms = self.codes_shape
        found = {self.sections[0].product.lhs.value: (self.sections[0].p.k // terms, terms)}
        given = [(op, v) for s in self.sections for op, _ in codes_in(s) for v in op.operands[1:]]
        return found | {v: (*shape_of(op.input)[::2], LANES) for op, v in given}

    def own_tiles(self, c: Tracer, first: DequantizeOp) -> None:
        (parts, terms), (rows, depth) = self.codes_shape, (self.cut.rows, self.cut.depth)
        deep = depth // LANES * rows
        self.codes = c.ub(deep, LANES, element_type(first.input), copies=2)
        self.wide, self.acc = c.ub(deep, LANES, f16), c.ub(rows, LANES, f16)
        self.total = c.ub(rows, LANES, f32)
        self.scales = self.of_groups(first.scale)
        self.square, self.x = c.ub(LANES, terms, f16), c.ub(terms, parts * LANES, f16)
        self.least, self.back, self.forth = c.ub(1, LANES, f16), c.ub(1, 1, f32), c.ub(1, 1, f32)
        if first.zero_point is not None:
            self.zeros = self.of_groups(first.zero_point)
            self.sums = [c.ub(1, LANES, f32) for _ in range(2)]
            self.less = c.ub(1, parts * LANES, f16)  # the sum of the terms of each group, below 0

    def of_groups(self, numbers: SSAValue) -> list[v.Tile]:
        """Tiles for numbers of groups: of each product of a block, or of one in turns."""
        count = max(len(s.terms) for s in self.sections)
        shape, copies = (self.cut.rows, LANES), 2 if count == 1 else 1
        return [self.c.ub(*shape, element_type(numbers), copies=copies) for _ in range(count)]

    def load_numbers(
        self, ring: v.Tile, numbers: SSAValue, place: Scalar, col: Scalar, turn: Scalar
    ) -> v.Tile:
        return self.c.load(ring[turn], self.arguments[numbers][place, col:, 0:], pad=0)

    def load_row(self) -> None:
        c, source = self.c, self.arguments[self.sections[0].product.lhs.value]
        parts, terms = self.codes_shape
        for part in c.range(parts):
            square = c.load(self.square, source[part * LANES :, 0:], pad=0)
            c.move(self.x.part(0, part * LANES, (terms, LANES)), square.T)
        high = terms if terms <= self.cut.rows else gcd(terms, FRACTAL)
        peak, some = (tile.part(0, 0, (high, LANES)) for tile in (self.acc, self.total))
        c.fill(peak, 0)
        for part in c.range(parts):
            for step in c.range(terms // high):
                x = self.x.part(step * high, part * LANES, (high, LANES))
                peak[:] = v.maximum(peak, v.maximum(x, 0 - x))
        c.assign(self.least, v.colmax(peak))
        c.assign(one := self.least[:, :1], v.rowmax(self.least))
        most = LARGEST / (2**BITS * max(terms, CHAIN))
        self.back[:] = v.maximum(v.cast(one, f32), TINY) * (1 / most)
        self.forth[:] = 1 / self.back
        self.x[:] = v.cast(v.cast(self.x, f32) * self.forth, f16)
        (op, _), *_ = codes_in(self.sections[0])
        if op.zero_point is None:
            return
        less, part_of_it = self.sums
        for part in c.range(parts):
            c.fill(less, 0)
            for step in c.range(terms // high):
                some[:] = v.cast(self.x.part(step * high, part * LANES, (high, LANES)), f32)
                c.assign(part_of_it, v.colsum(some))
                less[:] = less - part_of_it
            self.less.part(0, part * LANES, less.shape)[:] = v.cast(less, f16)

    def sums_of(
        self, op: DequantizeOp, col: Scalar, part: Scalar, number: int, into: v.Tile
    ) -> v.Tile:
        c, rows = self.c, self.cut.rows
        (lanes, terms), each = self.codes_shape, self.cut.depth // LANES
        chain, steps = gcd(terms, CHAIN), lanes // self.cut.parts
        turn = c.now(self.turn * steps)
        c.fill(self.total, 0)
        for step in c.range(steps):
            place = c.now(part * steps + step)
            group = c.now(place * LANES)
            at = place, col, turn + step
            scale = self.load_numbers(self.scales[number], op.scale, *at)
            if op.zero_point is not None:
                zeros = self.load_numbers(self.zeros[number], op.zero_point, *at)
                self.acc[:] = v.cast(zeros, f16) * self.less.part(0, group, (1, LANES))
                self.add_scaled(scale)
            for link in c.range(terms // chain):
                c.fill(self.acc, 0)
                first = c.now(step * (terms // each) + link * (chain // each))
                for piece in c.range(chain // each):
                    term = c.now(link * chain + piece * each)
                    self.load_codes(op, place, term, col, first + piece)
                    for i in range(each):
                        some = self.wide.part(i * rows, 0, (rows, LANES))
                        x = self.x.part(term + i, group, (1, LANES))
                        self.acc[:] = self.acc + some * x
                self.add_scaled(scale)
        self.sum_lanes(self.total, into)
        into[:] = into * self.back
        return into

    def load_codes(
        self, op: DequantizeOp, place: Scalar, term: Index, col: Scalar, number: Scalar
    ) -> None:
        """Bring the codes of some terms, as f16."""
        c, rows, codes = self.c, self.cut.rows, self.codes[number]
        for i in range(self.cut.depth // LANES):
            some = codes.part(i * rows, 0, (rows, LANES))
            c.load(some, self.arguments[op.input][place, term + i, col:, 0:], pad=0)
        self.wide[:] = v.cast(codes, f16)

    def add_scaled(self, scale: v.Tile) -> None:
        self.total[:] = self.total + v.cast(self.acc, f32) * v.cast(scale, f32)
