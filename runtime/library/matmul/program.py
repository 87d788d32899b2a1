"""The program of matmuls, while it is written: how blocks are shared, summed up and brought out.
Ops after them are pulled from tiles of their results (`Epilogue`).

Terms of sums may be shared by several cores (split-K): of all blocks of matmuls of few rows, of
others of the blocks that are left where all cores have had as many (stream-K).

    core (block, split):   sums of its part of the terms, in f32    -> workspace
    barrier
    vector core:           some columns: the parts added in their order, and what follows

Few rows have few blocks: with narrow ones, so that all cores have some, rows of the right-hand side
that vector cores load are many and short. Of many rows the last blocks are shared in the same way:

    core, in its turns:    whole blocks, as without
    core (block, split):   sums of its part of the terms of a block that is left  -> workspace
    barrier
    vector core:           some rows of these blocks: the parts added, and what follows

Operands that vector cores compute once, for all blocks, are there in time from the first block on:

    vector core:           columns of the first blocks   -> workspace
    barrier
    vector core:           the other columns, and operands   -> workspace
    cube core:             the first blocks
    barrier
    cube core:             the other blocks
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, gcd
from typing import Any, NamedTuple

from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import SliceOp, SplitOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.boxes import Access, Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, align_up, array_ints, element_type, numel, shape_of
from ge.dialects.tile.instruction import zero_of
from ge.dialects.tile.types import BLOCK, FRACTAL, Memory
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import (
    KNOWN,
    Condition,
    Index,
    Scalar,
    ceil_div,
    maximum,
    minimum,
    number_of,
)
from ge.runtime.library.language.tracing import Queue, Tracer
from ge.runtime.library.language.values import Tile, Transposed
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.matmul.blocks import MatmulCut, Matrices, columns_together
from ge.runtime.library.matmul.operands import Copy, Feed, MatmulOperand
from ge.runtime.library.matmul.outputs import (
    AnyMatmul,
    Origins,
    ResultBlock,
    Term,
    ending,
    has_relu,
)
from ge.runtime.library.matmul.sections import Lot, Section, lots
from ge.runtime.library.pulling import Pull
from ge.runtime.library.tile_ops import long_dims, tile_shape

MERGED_BYTES = 8192  # of parts of sums that are added at a time


@dataclass
class Epilogue(Pull):
    """The ops behind matmuls: moved elements are in the same tile, at another place, or in one
    where rows are columns. `terms`: tiles of the matmuls' results, `columns` of them from `col` on,
    after the first ones."""

    terms: dict[Term, Tile] = field(default_factory=dict[Term, Tile])
    passed: set[SSAValue] = field(default_factory=set[SSAValue])  # what sums pass as, by scales
    col: Scalar = 0
    columns: int = 0
    end: "Scalar | None" = None  # of the rows that are stored, along dimension `row`
    row: int = 0

    def box(self, value: SSAValue, box: Box) -> v.Subview:
        found = super().box(value, box)
        return ending(found, self.row, self.end) if value in self.dependent else found

    @cached_property
    def dependent(self) -> set[SSAValue]:
        return Origins(self.launch.body).dependent

    def tile(
        self, value: SSAValue, box: Box, column: bool = False, into: Tile | None = None
    ) -> Tile:
        """The tile of a box; a value that depends on a matmul is computed here, wherever its box
        is."""
        pull = self.tile_here if value in self.dependent else super().tile
        return pull(value, box, column, into)

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> v.Expression:
        if isinstance(value.owner, AnyMatmul) or value in self.passed:
            first = at_zero(box.offsets[-1]) - at_zero(self.col)
            if (value, first) not in self.terms:
                raise NotLowered(f"columns from {first} on are of another block of the matmul")
            return self.terms[value, first]
        if isinstance(op := value.owner, ReduceOp):  # here, where its operand is
            key = self._key(value, box, column)
            for known in (self.known.get(block, {}) for block in self.open):
                if key in known:
                    return known[key]
            self.parts = dict.fromkeys(op.reduced_axes() or (), self.columns)
            return self._keep(value, box, column, self.reduced(op, value, box, column))
        return super().expression(value, box, column)

    def computed(self, op: TensorOp, value: SSAValue, box: Box, column: bool) -> v.Expression:
        if op.ACCESS is not Access.VIEW and not isinstance(op, TransposeOp | SplitOp | SliceOp):
            return super().computed(op, value, box, column)
        number = next(i for i, r in enumerate(op.results) if r is value)
        needed, dims = op.operand_box(0, box, number), long_dims(box)
        if isinstance(op, TransposeOp):
            order = [array_ints(op.permutation)[d] for d in dims]
            if order != sorted(order):
                return self._transposed(op, value, box)
        if needed is None or tile_shape(needed, column) != tile_shape(box, column):
            raise NotLowered(f"a box of {op.name} is none of its operand")
        return self.expression(op.operands[0], needed, column)


def at_zero(number: Scalar) -> int:
    """A number on core 0, in the first rounds of all loops."""
    if (known := number_of(number)) is not None:
        return known
    assert isinstance(number, Index)
    args = [at_zero(a) for a in number.args]
    match number.kind:
        case "known":
            return args[0]
        case kind if kind in KNOWN:
            return KNOWN[kind](*args)
        case "cores":
            return 1  # or any number: core 0 has the first block whatever that is
        case _:
            return 0


class SplitSums:
    """The parts of sums in a workspace: of each matmul whose blocks are computed together. `tiles`
    are those that sums of other matmuls are added in, too."""

    def __init__(self, c: Tracer, p: Matrices, tiles: dict[Hashable, Tile]) -> None:
        self.c, self.p, self.tiles = c, p, tiles
        self.parts = c.workspace(p.splits, p.terms, p.m, p.n, dtype=f32)

    def tile(self, shape: tuple[int, int], element: Attribute, number: int) -> Tile:
        """The tile with this number; a ring of two where that is 0."""
        key = shape, element, number
        if key not in self.tiles:
            self.tiles[key] = self.c.ub(*shape, element, copies=None if number else 2)
        return self.tiles[key]

    def store(self, split: Scalar, row: Scalar, col: Scalar, sums: Sequence[Tile]) -> None:
        """The sums of a block of each matmul, of a part of the terms."""
        for term, tile in enumerate(sums):
            self.c.store(self.parts[split, term, row:, col:], tile)

    def merged(
        self, elements: Sequence[Attribute], part_cols: int
    ) -> Iterator[tuple[Index, list[Tile]]]:
        """Sums merged behind a barrier: columns that are this vector core's, of each matmul as its
        element type, with the first of them; `part_cols` at a time unless that is 0."""
        c, p = self.c, self.p
        unit = BLOCK * 8 // min(8, *map(bitwidth, elements))
        cols = part_cols or align_up(ceil(p.n / c.target.vector_cores), unit)
        some = parts_together(p, cols)
        rows = slice(0, None) if p.m > 1 else 0
        total = self.tile((some * p.m, cols), f32, -1)
        outs = [self.tile((p.m, cols), element, i) for i, element in enumerate(elements, 1)]
        me, all_of_them = c.core, c.cores
        if c.parts > 1:
            me, all_of_them = me * c.parts + c.part, all_of_them * c.parts
        for turn in c.range(ceil_div(ceil(p.n / cols) - me, all_of_them)):
            col = c.now((me + turn * all_of_them) * cols)
            for term, out in enumerate(outs):
                c.load(total, self.parts[0 if p.m > 1 else slice(0, None), term, rows, col:], pad=0)
                for more in c.range(1, ceil(p.splits / some)):
                    part = self.tile(total.shape, f32, 0)
                    at = slice(more * some, None) if p.m == 1 else more
                    box = self.parts[at, term, rows, col:]
                    total[:] = total + c.load(part[more], box, pad=0)
                out[:] = v.cast(added_up(total, p.m), out.element)
            yield col, outs


def parts_together(p: Matrices, cols: int) -> int:
    """Parts of the sums of one row that are loaded and added at a time, a power of two; else 1."""
    most = min(p.splits, max(MERGED_BYTES // (4 * cols), 1)) if p.m == 1 else 1
    return 1 << most.bit_length() - 1


def added_up(tile: Tile, rows: int) -> Tile:
    """The sum of the parts of a tile, of so many rows each, in the first of them: half of them are
    added to the other half at a time."""
    count, cols = tile.shape
    while count > rows:
        count //= 2
        some, others = (tile.part(at, 0, (count, cols)) for at in (0, count))
        some[:] = some + others
    return tile.part(0, 0, (rows, cols))


class SharedWave:
    """The blocks that are left where all cores have had `waves` blocks each: `splits` cores have
    the terms of each of them, and their parts are in a workspace."""

    def __init__(self, c: Tracer, p: Matrices, cut: MatmulCut) -> None:
        self.c, self.cut, self.splits = c, cut, p.splits
        self.waves, self.left = cut.waves(p, c.target.cube_cores)
        self.before = self.waves * c.target.cube_cores
        self.parts = c.workspace(p.splits, self.left, cut.m, cut.n, dtype=f32)

    @property
    def count(self) -> int:
        """Number of cores that have a part of a block."""
        return self.left * self.splits

    def store(self, split: Scalar, block: Scalar, sums: Tile) -> None:
        """The sums of a block, of a part of the terms."""
        self.c.store(self.parts[split, block, 0:, 0:], sums)

    def merged(self, out: Tile) -> Iterator[tuple[Index, Index, Index]]:
        """Wait for all cores; then the pieces that are this vector core's, in this tile: which
        block it is of, and the piece's row and column in it."""
        c, (rows, cols) = self.c, out.shape
        c.barrier()
        total = out if out.element == f32 else c.ub(rows, cols, f32)
        part = c.ub(rows, cols, f32, copies=2)
        across, down = self.cut.n // cols, self.cut.m // rows
        me, all_of_them = c.core * c.parts + c.part, c.cores * c.parts
        for turn in c.range(ceil_div(self.left * down * across - me, all_of_them)):
            piece = c.now(me + turn * all_of_them)
            block, inside = c.now(piece // (down * across)), c.now(piece % (down * across))
            row, col = c.now(inside // across * rows), c.now(inside % across * cols)
            c.load(total, self.parts[0, block, row:, col:])
            for split in c.range(1, self.splits):
                total[:] = total + c.load(part[split], self.parts[split, block, row:, col:])
            if out is not total:
                out[:] = v.cast(total, out.element)
            yield block, row, col


def part_of(size: int, most: int, unit: int) -> int:
    """The largest part of a size in multiples of `unit` that divides it, of `most` at most; one
    unit if there is none. A size that is no multiple stays."""
    units = size // unit
    parts = (d for d in range(1, units + 1) if units % d == 0 and d * unit <= max(most, unit))
    return size if size % unit else unit * max(parts)


@dataclass(frozen=True)
class MatmulPlan:
    """The program of matmuls: how they are cut, in parts of how many rows sums pass to the vector
    cores, and how many elements of operands one of these computes at a time."""

    launch: Launch
    sections: Sequence[Section]
    cut: MatmulCut
    rows: int
    most: int
    copies: int = 2  # of a tile of sums that vector cores take
    early: int = 0  # columns of blocks whose operand is copied first, the rest beside them; 0: all

    @property
    def cores(self) -> int:
        cores = self.launch.target.cube_cores
        first = self.sections[0]
        if first.copied:
            return cores
        if first.last_wave and not (waves := self.cut.waves(first.p, cores))[0]:
            return waves[1] * first.splits
        blocks = sum(self.cut.blocks(p) for s in self.sections for p in s.shapes)
        return min(blocks // self.cut.run, cores)

    def written(self) -> Written:
        shapes: dict[SSAValue, Shape] = {}
        for section in self.sections:
            shapes[section.product.lhs.value] = section.product.lhs.shape
            if section.is_direct:
                shapes |= {out.value: out.stored_shape(section.p.m) for out in section.outputs}

        def write(c: Tracer, arguments: Arguments) -> None:
            MatmulWriter(self, c, arguments).write_all()

        passes = any(s.has_vector_cores for s in self.sections)
        return Written(write, self.cores, shapes, engine=None if passes else Engine.CUBE)


class BlockColumns(NamedTuple):
    """Columns of blocks, of all there are: either number may be open."""

    first: int
    across: int


class MatmulWriter:
    """The program, while it is written."""

    def __init__(self, blocks: MatmulPlan, c: Tracer, arguments: Arguments) -> None:
        self.blocks, self.c, self.cut, self.arguments = blocks, c, blocks.cut, arguments
        self.rings: dict[tuple[tuple[int, int], int], Tile] = {}
        self.rows: dict[Memory, tuple[Any, Any]] = {}  # rings in L1, and BT or FB
        self.leads: dict[MatmulOperand, list[Scalar]] = {}  # of the matrices of a block
        self.lot: Lot | None = None  # whose blocks are written
        self.columns: BlockColumns | None = None  # that are written; None: all
        self.held: Tile | None = None  # left-hand sides of runs of blocks, in L1
        self.left: Tile | None = None  # that of a run that is written
        self.sums: list[Tile] = []
        self.popped: dict[tuple[Shape, int], tuple[Any, Queue]] = {}  # rings, and queues
        self.turn: Scalar = 0  # of the tile of sums that passes to the vector cores
        self.pull = Epilogue(c, blocks.launch, arguments)
        self.feed = Feed(c, blocks.launch, arguments, blocks.most)
        if any(s.has_vector_cores for s in blocks.sections):
            c.split()

    def write_all(self) -> None:
        for section in self.blocks.sections:
            for operand in section.copied_operands:
                outer = self.cut.m if operand is section.product.lhs else self.cut.n
                step = self.cut.k if operand.side == 1 else outer
                if operand not in self.feed.copies:
                    self.feed.copies[operand] = Copy(self.feed, operand, step)
        before = self.write_copies()
        shared, tiles = list[tuple[Section, SplitSums]](), dict[Hashable, Tile]()
        for section in self.blocks.sections:
            if section.last_wave:
                self.write_waves(section)
                continue
            if section.product.groups:
                known = bool(section.product.group_sizes)
                write = self.write_lots if known else self.write_groups
                before = write(section, before)
                continue
            parts = SplitSums(self.c, section.p, tiles) if section.splits > 1 else None
            if self.cut.run > 1:
                self.write_runs(section, before)
            else:
                self.write(section, before, parts)
            before += self.blocks_of(section) // self.cut.run
            self.columns = None
            if parts is not None:
                shared.append((section, parts))
        if shared:
            self.c.barrier()
        for section, parts in shared:
            self.merge(section, parts)

    def write_copies(self) -> int:
        """The copies of operands, and the first columns of blocks; how many blocks these are."""
        copies, early, first = self.feed.copies, self.blocks.early, self.blocks.sections[0]
        if not copies:
            return 0
        mine = {t.rhs for t, _ in first.terms} if early else set[MatmulOperand]()
        end = early * self.cut.n
        for operand, copy in copies.items():
            if operand in mine:
                copy.write(last=end)
            elif not early or operand is first.product.lhs:
                copy.write()
        self.c.barrier()
        if not early:
            return 0
        for operand, copy in copies.items():
            if operand in mine:
                copy.write(first=end)
            elif operand is not first.product.lhs:
                copy.write()
        self.columns, across = BlockColumns(0, early), self.cut.counts(first.p)[1]
        self.write(first, 0, None)
        self.c.barrier()
        done, self.columns = self.blocks_of(first), BlockColumns(early, across - early)
        return done

    def columns_of(self, section: Section) -> BlockColumns:
        return self.columns or BlockColumns(0, self.cut.counts(section.p)[1])

    def blocks_of(self, section: Section) -> int:
        """Number of blocks that are written."""
        blocks = self.cut.blocks(section.p)
        if self.columns is None:
            return blocks
        return blocks // self.cut.counts(section.p)[1] * self.columns.across

    def write(self, section: Section, before: int, shared_sums: SplitSums | None) -> None:
        """A section: `before` blocks are those of the cores already."""
        c = self.c
        sums, splits = self.sums_of(section), section.splits
        me = self.first_block(before)
        for turn in c.range(ceil_div(self.blocks_of(section) - me, c.cores)):
            i = me + turn * c.cores
            split, i = i % splits, c.now(i // splits) if splits > 1 else i
            place = self.place(section, i)
            self.sum_up(section, place, turn, split if splits > 1 else None)
            if shared_sums is not None:
                blocks = [ring[turn] for ring in sums]
                shared_sums.store(split, place.row, place.col, blocks)
            else:
                self.bring_out(section, place, turn)

    def write_runs(self, section: Section, before: int) -> None:
        """A section of which each core has runs of blocks: L1 has all of their left-hand side."""
        c, cut, p, lhs = self.c, self.cut, section.p, section.product.lhs
        me, shape = self.first_block(before), lhs.tile_shape(cut.m, cut.depth(p))
        if self.held is None:
            self.held = c.l1(*shape, p.element, copies=2)
        for turn in c.range(ceil_div(cut.blocks(p) // cut.run - me, c.cores)):
            first, number = (c.now(i * cut.run) for i in (me + turn * c.cores, turn))
            row = self.place(section, first).row
            box = lhs.box(self.leads[lhs], (row, 0), (cut.m, cut.depth(p)))
            self.left = self.feed.fill(self.held[turn], lhs, box, turn)
            for i in c.range(cut.run):
                place = self.place(section, first + i)
                self.sum_up(section, place, number + i)
                self.bring_out(section, place, number + i)

    def first_block(self, before: int) -> Index:
        """The first block of a core, where `before` blocks are those of the cores already."""
        cores = self.blocks.cores
        return self.c.now((self.c.core + (-before % cores)) % cores) if before else self.c.core

    def write_lots(self, section: Section, before: int) -> int:
        """The groups of a section; how many blocks are those of the cores then."""
        c, across = self.c, self.cut.counts(section.p)[1]
        for lot in lots(section.product.group_sizes, self.cut.m):
            self.lot, me = lot, self.first_block(before)
            for turn in c.range(ceil_div(lot.places * across - me, c.cores)):
                place = self.place_in(section, lot, me + turn * c.cores)
                self.sum_up(section, place, turn)
                self.bring_out(section, place, turn)
            before += lot.places * across
        self.lot = None
        return before

    def write_groups(self, section: Section, before: int) -> int:
        """The groups of a section whose offsets are read. A core has columns of a group, and every
        so many-th of its blocks of rows: so few columns that all cores have some of one group that
        has all rows. Columns depend on no number that is read, or no proof could tell cores apart.
        """
        c, p, cut, offsets = self.c, section.p, self.cut, section.product.offsets
        assert offsets is not None
        across, groups = cut.counts(p)[1], section.product.groups
        apart = min(ceil(self.blocks.cores / across), ceil(p.m / cut.m))
        count, me = apart * groups * across, self.first_block(before)
        for turn in c.range(ceil_div(count - me, c.cores)):
            i = c.now(me + turn * c.cores)
            line, column = c.now(i // across), c.now(i % across)
            group, first = c.now(line % groups), c.now(line // groups)
            low, high = (
                c.now(c.read(self.arguments[offsets][group + i], below=p.m + 1, ascending=True))
                for i in (0, 1)
            )
            self.take_matrices(section, group)
            self.pull.end = high
            for block in c.range(ceil_div(ceil_div(high - low, cut.m) - first, apart)):
                row = c.now(low + (first + block * apart) * cut.m)
                place = ResultBlock(1, p.m, 0, row, c.now(column * cut.n))
                self.sum_up(section, place, block)
                self.bring_out(section, place, block)
        self.pull.end = None
        return before + count

    @property
    def block_rows(self) -> int:
        """Rows of the blocks that are written: those of a lot in multiples of the rows that pass to
        the vector cores at a time."""
        if self.lot is None:
            return self.cut.m
        direct = all(s.is_direct for s in self.blocks.sections)
        return align_up(self.lot.rows, FRACTAL if direct else self.blocks.rows)

    def write_waves(self, section: Section) -> None:
        """Whole blocks, as many for each core, and the parts of those that are left."""
        c, splits, cores = self.c, section.splits, self.blocks.cores
        wave, sums = SharedWave(c, section.p, self.cut), self.sums_of(section)
        for turn in c.range(wave.waves) if wave.waves else ():
            self.sum_up(section, place := self.place(section, c.core + turn * cores), turn)
            self.bring_out(section, place, turn)
        # the part's place depends on no loop, so it is known before the one that runs once or not
        block, split = c.now(c.core // splits), c.now(c.core % splits)
        place = self.place(section, block + wave.before)
        for more in c.range(ceil_div(wave.count - c.core, cores)):
            turn = more + wave.waves
            self.sum_up(section, place, turn, split)
            wave.store(split, block, sums[0][turn])
        ((term, first),), own = section.terms, self.blocks.rows // c.parts
        value, cols = term.op.result, section.part_cols or self.cut.n
        out = c.ub(own, cols, element_type(value))
        least = min(own, section.p.m)
        for block, row, col in wave.merged(out):
            self.pull.terms[value, first] = out[:least]
            at = self.place(section, block + wave.before)
            at = replace(at, row=at.row + row, col=at.col + col)
            self.pull.col, self.pull.columns = at.col, cols
            for to in section.outputs:
                self.pull.store(to.value, to.box(at, least, cols))

    def place(self, section: Section, block: Index) -> ResultBlock:
        """The place of a block, whose matrices are those that `loaded` takes then."""
        c, p, down = self.c, section.p, self.cut.counts(section.p)[0]
        columns = self.columns_of(section)
        across = columns.across
        group = min(columns_together(self.cut, p, c.target), across)
        if group == across:
            line, column = c.now(block // across), c.now(block % across)
            batch, row = c.now(line // down), c.now(line % down)
        else:  # so many columns, row after row, before the next ones
            batch, inside = c.now(block // (down * across)), c.now(block % (down * across))
            first = c.now(inside // (down * group) * group)
            wide = minimum(across - first, group) if across % group else group
            rest = c.now(inside % (down * group))
            row, column = c.now(rest // wide), c.now(first + rest % wide)
        cut = self.cut
        row, col = c.now(row * cut.m), c.now((column + columns.first) * cut.n)
        place = ResultBlock(p.batch, p.m, batch, row, col)
        self.take_matrices(section, place.batch)
        return place

    def place_in(self, section: Section, lot: Lot, block: Index) -> ResultBlock:
        """The place of a block of a lot: blocks of a row of them come one after the other."""
        c, s, across = self.c, lot.stretch, self.cut.counts(section.p)[1]
        line, column = c.now(block // across), c.now(block % across)
        group = c.now(line // lot.blocks)
        row = group * s.size + line % lot.blocks * lot.rows + (s.first + lot.begin)
        self.take_matrices(section, c.now(group + s.group))
        return ResultBlock(1, section.p.m, 0, c.now(row), c.now(column * self.cut.n))

    def take_matrices(self, section: Section, number: Scalar) -> None:
        """The matrices of a block: `loaded` takes them."""
        batches = section.product.batches
        for operand in dict.fromkeys(o for term, _ in section.terms for o in term.operands):
            self.leads[operand] = operand.matrix(batches, number, self.c, self.arguments)

    def sum_up(
        self, section: Section, place: ResultBlock, turn: Index, split: Index | None = None
    ) -> None:
        """The sums of a block, or of the part of their terms that has this number."""
        c, steps, splits = self.c, ceil(section.p.k / self.cut.k), section.splits
        begin, count, most = 0, steps, steps
        if split is not None:
            begin, most = c.now(split * steps // splits), ceil(steps / splits)
            even = steps % splits == 0
            count = most if even else c.now((split + 1) * steps // splits - begin)
        first, sums = c.now(turn * most), self.sums_in(section, turn)
        bias = self.bias(section, place, turn)
        for i in c.range(count):  # the copies of L1 take turns from one block to the next
            self.step(section, place, first + i, begin + i, i == 0, sums, bias)

    def bias(self, section: Section, place: ResultBlock, turn: Index) -> Tile | None:
        """The row that the sums of a block begin with."""
        rows = {way.bias for way in section.tables} - {None}
        return self.row_in(Memory.BT, rows.pop(), section, place, turn) if rows else None

    def row_in(
        self,
        memory: Memory,
        value: SSAValue | None,
        section: Section,
        place: ResultBlock,
        turn: Index,
    ) -> Tile:
        """The numbers of a block's columns in BT or FB, which may be one that is known."""
        assert value is not None
        c, element, argument = self.c, element_type(value), self.arguments[value]
        if memory not in self.rows:
            ring = c.l1(1, self.cut.n, element, copies=2)
            room = c.target.core_memories[memory] * 8 // (self.cut.n * bitwidth(element))
            self.rows[memory] = ring, c.alloc(memory, 1, self.cut.n, element, copies=min(room, 2))
        ring, target = (each[turn] for each in self.rows[memory])
        if numel(shape_of(value)) == 1:
            c.move(target, c.load(ring, argument[0:]))
            return target
        first = section.terms[0][1]
        at: Scalar = place.col + first if first else place.col
        *lead, last = range(len(shape_of(value)))
        box = v.Subview(argument, (*(0 for _ in lead), at), (last,), (1,) * (last + 1))
        c.move(target, c.load(ring, box, pad=zero_of(element)))
        return target

    def bring_out(self, section: Section, place: ResultBlock, turn: Index) -> None:
        """The sums of a whole block."""
        sums = self.sums_in(section, turn)
        if section.is_direct:
            self.store(section, place, sums[0], turn)
        else:
            self.pass_on(section, place, sums, turn)

    def merge(self, section: Section, shared_sums: SplitSums) -> None:
        """Compute the ops behind the matmuls, on sums of which several cores have parts."""
        values = [term.op.result for term, _ in section.terms]
        elements = [element_type(value) for value in values]
        for col, tiles in shared_sums.merged(elements, section.part_cols):
            rows, cols = tiles[0].shape
            for value, (_, first), tile in zip(values, section.terms, tiles, strict=True):
                self.pull.terms[value, first] = tile
            self.pull.col, self.pull.columns = col, cols
            at = ResultBlock(1, section.p.m, 0, 0, col)
            for out in section.outputs:
                self.pull.store(out.value, out.box(at, rows, cols))

    def sums_of(self, section: Section) -> list[Tile]:
        """Rings in L0C, one for each matmul."""
        kind = i32 if section.p.element == i8 else f32
        while len(self.sums) < len(section.terms):
            self.sums.append(self.c.l0c(self.cut.m, self.cut.n, kind, copies=self.cut.sums))
        return self.sums[: len(section.terms)]

    def sums_in(self, section: Section, turn: Index) -> list[Tile]:
        """The sums of a block."""
        shape = self.block_rows, self.cut.n
        return [ring[turn].part(0, 0, shape) for ring in self.sums_of(section)]

    def step(
        self,
        section: Section,
        place: ResultBlock,
        copy: Index,
        step: Index,
        start: Condition | bool,
        sums: Sequence[Tile],
        bias: Tile | None,
    ) -> None:
        """Operands of one step come to L1, and are multiplied; at the start sums begin anew."""
        cut, k = self.cut, step * self.cut.k
        lhs, shape, at = section.product.lhs, (cut.m, cut.k), (place.row, k)
        if self.left is None:
            left = self.loaded(section, lhs, shape, at, copy, 0, self.block_rows)
        else:
            row, col = (k, 0) if lhs.turned else (0, k)
            left = lhs.as_taken(self.left.part(row, col, lhs.tile_shape(*shape)))
        for number, ((term, at), acc) in enumerate(zip(section.terms, sums, strict=True), 1):
            rhs = term.rhs, (cut.k, cut.n), (k, place.col + at if at else place.col)
            right = self.loaded(section, *rhs, copy, number)
            self.c.mmad(acc, left, right, init=start, k=cut.part, bias=bias)

    def loaded(
        self,
        section: Section,
        operand: MatmulOperand,
        shape: tuple[int, int],
        at: tuple[Scalar, Scalar],
        copy: Index,
        number: int,
        rows: int = 0,
    ) -> Tile | Transposed:
        """A part of an operand in L1; `number` says which ring it has, `rows` how many rows are
        needed (0: all)."""
        key = operand.tile_shape(*shape), number
        if key not in self.rings:
            self.rings[key] = self.c.l1(*key[0], section.p.element, copies=2)
        shape = rows or shape[0], shape[1]
        box = operand.box(self.leads[operand], at, shape)
        tile = self.rings[key][copy].part(0, 0, operand.tile_shape(*shape))
        return operand.as_taken(self.feed.fill(tile, operand, box, copy))

    # ---- on the way out

    def parts(
        self, section: Section, rows: int, whole: int
    ) -> Iterator[tuple[Scalar, Scalar, int, int]]:
        """Row, column and sizes of the parts of a block of so many rows that are boxes of the
        outputs."""
        cut, cols = self.cut, section.part_cols or self.cut.n
        across = cut.n // cols
        if (count := whole // rows * across) == 1:
            yield 0, 0, rows, cols
            return
        for i in self.c.range(count):
            self.turn = i
            yield i // across * rows, 0 if across == 1 else i % across * cols, rows, cols

    def store(self, section: Section, place: ResultBlock, sums: Tile, turn: Index) -> None:
        ways, scales = section.ways, self.scales(section, place, turn)
        whole = self.cut.m if self.lot is None else self.lot.rows
        for row, col, rows, cols in self.parts(section, gcd(whole, section.part_rows), whole):
            part = sums if (rows, cols) == sums.shape else sums.part(row, col, (rows, cols))
            for out in section.outputs:
                at = replace(place, row=place.row + row, col=place.col + col)
                box = out.stored(self.arguments[out.value], at, rows, cols, self.pull.end)
                if scales is None:
                    self.c.store(box, part, relu=True in has_relu(out.value))
                    continue
                way, own = ways[out.value], self.some_of(scales, col, cols)
                self.c.store(box, part, relu=way.relu, scale=own, zero=way.zero)

    def scales(self, section: Section, place: ResultBlock, turn: Index) -> Tile | None:
        """The scales of a block's columns in FB, where sums leave by such."""
        for value in {way.scale for way in section.tables}:  # one
            return self.row_in(Memory.FB, value, section, place, turn)
        return None

    def some_of(self, scales: Tile, col: Scalar, cols: int) -> Tile:
        return scales if cols == self.cut.n else scales.part(0, col, (1, cols))

    def pass_on(
        self, section: Section, place: ResultBlock, sums: Sequence[Tile], turn: Index
    ) -> None:
        c, own, scales = self.c, self.blocks.rows // self.c.parts, None
        if section.way_to_vector_cores is not None:
            scales = self.scales(section, place, turn)
            self.pull.passed = {section.way_to_vector_cores.value}
        self.turn = turn
        for row, col, rows, cols in self.parts(section, self.blocks.rows, self.block_rows):
            for number, ((term, _), acc) in enumerate(zip(section.terms, sums, strict=True)):
                tile, queue = self.passing((own, cols), section.passed(term), number)
                some = acc if (rows, cols) == acc.shape else acc.part(row, col, (rows, cols))
                queue.push(some, None if scales is None else self.some_of(scales, col, cols))
                queue.pop(tile)
            at = replace(place, row=place.row + row, col=place.col + col)
            if self.pull.end is not None:
                self.follow(section, at, (own, cols), True)
            elif self.lot is None:
                self.follow(section, at, (min(own, section.p.m), cols), own <= section.p.m)
            elif (left := self.lot.rows % rows) == 0:
                self.follow(section, at, (own, cols), True)
            else:
                ends = self.lot.rows - left
                for _ in c.range(minimum(ends // rows - row // rows, 1)) if ends else ():
                    self.follow(section, at, (own, cols), True)
                for _ in c.range(row // rows - ends // rows + 1):
                    self.follow_last(section, at, left, (own, cols))

    def follow(self, section: Section, at: ResultBlock, shape: v.Shape, by_all: bool) -> None:
        """Compute the ops behind the matmuls, on so many rows and columns of each vector core, from
        a place on; on the first core alone where that has all rows."""
        for _ in self.c.range(1 - self.c.part) if self.c.parts > 1 and not by_all else (0,):
            below = at.row + self.c.part * shape[0] if self.c.parts > 1 and by_all else at.row
            self.write_outputs(section, replace(at, row=below), shape)

    def follow_last(self, section: Section, at: ResultBlock, left: int, shape: v.Shape) -> None:
        """Compute the ops behind the matmuls where the rows of all vector cores together are more
        than those left: each core takes as many of these as there are, the first ones all of
        theirs."""
        own, cols = shape
        for part in range(min(self.c.parts, -(-left // own))):
            mine, number = min(own, left - part * own), self.c.part - part
            alone = self.c.range(1 - maximum(number, 0 - number)) if self.c.parts > 1 else (0,)
            for _ in alone:
                there = replace(at, row=at.row + part * own)
                self.write_outputs(section, there, (mine, cols))

    def write_outputs(self, section: Section, at: ResultBlock, shape: v.Shape) -> None:
        rows, cols = shape
        own = self.blocks.rows // self.c.parts, cols
        for number, (term, first) in enumerate(section.terms):
            tile, _ = self.passing(own, section.passed(term), number)
            self.pull.terms[section.passed(term), first] = tile[:rows]
        self.pull.col, self.pull.columns = at.col, cols
        for out in section.outputs:
            if self.pull.end is not None:
                self.pull.row = out.spans(at.rows)[0]
            self.pull.store(out.value, out.box(at, rows, cols))

    def passing(self, shape: v.Shape, value: SSAValue, number: int) -> tuple[Tile, Queue]:
        """The tile and queue in which a matmul's sums come to UB."""
        key = shape, number
        if key not in self.popped:
            ring = self.c.ub(*shape, element_type(value), copies=self.blocks.copies)
            self.popped[key] = ring, self.c.queue(ring)
        ring, queue = self.popped[key]
        return ring[self.turn], queue
