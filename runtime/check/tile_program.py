"""The work of a core for a tile program, instruction by instruction: its second reading, for
proofs.

`Walk(kernel, program, core)` runs the scalar part of a program (loops, branches, indices) as the
core's scalar unit does, and lists the instructions in the order of issue, each with its pipe and
with the bytes and boxes that it reads and writes. Nothing of the emulated core is used here. What
both trust: the pipe, the operands read and written of each op, the sizes of boxes and the row
strides of tiles, which the dialect states; what index arithmetic is, the proof trusts alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeAlias, cast

from xdsl.dialects.arith import CmpiOp, SelectOp
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import operands_of
from ge.dialects.tile.buffers import (
    AllocOp,
    FifoOp,
    ReadOp,
    SlotOp,
    ViewOp,
    check_place,
    memref_shape,
    number_at,
    row_stride,
)
from ge.dialects.tile.compute import FlagOp
from ge.dialects.tile.instruction import ARITHMETIC, COMPARED, Binary, Instruction
from ge.dialects.tile.kernel import BarrierOp, CoreOp, CoresOp, KernelOp, PartOp, ProgramOp
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BoxType, Memory, Pipe, TileType, box_type

MOST_INSTRUCTIONS = 1 << 21  # of one core, and rounds of its loops


class ReadNumbers(Enum):
    """The numbers that a walk takes for a `tile.read`, of those that it may read. Those that ascend
    part all elements in groups: the first or the last one has all, all have as many, or each has
    more than the one before."""

    LARGEST, LEAST, EVEN, UNEVEN = range(4)


class WalkError(Exception):
    """The program cannot be followed beyond `op`."""

    def __init__(self, rule: str, message: str, op: Operation):
        super().__init__(message)
        self.rule, self.op = rule, op


class Bytes(NamedTuple):
    """Rows of `width` bytes, `pitch` bytes apart, in a memory of the core; `owner` is the number of
    the copy of the allocation that they are part of."""

    memory: Memory
    low: int
    rows: int
    width: int
    pitch: int
    owner: int

    @property
    def high(self) -> int:
        return self.low + (self.rows - 1) * self.pitch + self.width


Part = tuple[int, int, int, int]  # of a tile: row, rows, column, columns


class Region(NamedTuple):
    """A box of a memref, cut at the memref's ends and at its own: [start, end) along each
    dimension, those between two of its elements included. `parts`: what exists of it, in rows and
    columns of a tile; `endless`: the bounds without ends of its own."""

    memref: BlockArgument
    bounds: tuple[tuple[int, int], ...]
    parts: tuple[Part, ...]
    endless: tuple[tuple[int, int], ...]

    @property
    def is_empty(self) -> bool:
        return not self.parts


@dataclass(slots=True, eq=False)
class TileStep:
    """An instruction as it is issued, or for each pipe a barrier. `number`: how many the program
    issued before; `phase`: how many barriers there were before. `flag` is the id of a flag, `fifo`
    the queue, `part` the vector core beside the cube core whose rows pass it. `around`: the whole
    tile of a load that writes a part of it, since its box passes the memref."""

    op: Instruction | BarrierOp
    pipe: Pipe
    number: int = 0
    phase: int = 0
    reads: tuple[Bytes, ...] = ()
    writes: tuple[Bytes, ...] = ()
    around: tuple[Bytes, ...] = ()
    read_boxes: Sequence[Region] = ()
    written_boxes: Sequence[Region] = ()
    flag: int | None = None
    fifo: FifoOp | None = None
    part: int = 0

    def shape(self) -> tuple[object, ...]:
        """The facts that two cores must share for one proof to hold for both."""
        return id(self.op), self.reads, self.writes, self.flag


@dataclass(frozen=True, slots=True)
class TilePlace:
    """The place of the tile of a value: in an allocation, or one copy of it, as sub-tile of
    sub-tiles (row, column, type, type of the tile around), the innermost first."""

    tile: TileType
    bits: int  # of an element
    pitch: int  # elements from row to row
    views: tuple[tuple[SSAValue, SSAValue, TileType, TileType], ...]
    copy: SSAValue | None  # the number of the copy
    alloc: AllocOp
    copies: int
    offsets: Sequence[int] | None

    @classmethod
    def of(cls, value: SSAValue) -> "TilePlace":
        tile, home = cast(TileType, value.type), value
        views: list[tuple[SSAValue, SSAValue, TileType, TileType]] = []
        while isinstance(view := home.owner, ViewOp):
            row, col = view.offsets
            inner, whole = cast(TileType, home.type), cast(TileType, view.source.type)
            views.append((row, col, inner, whole))
            home = view.source
        slot = home.owner
        index, home = (slot.index, slot.ring) if isinstance(slot, SlotOp) else (None, home)
        alloc, bits = cast(AllocOp, home.owner), bitwidth(tile.element)
        pitch = row_stride(value)
        return cls(tile, bits, pitch, tuple(views), index, alloc, alloc.copies, alloc.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class BoxFacts:
    """Facts of a box of a memref in the text."""

    memref: BlockArgument
    starts: tuple[SSAValue, ...]
    ends: tuple[SSAValue, ...]
    extents: tuple[tuple[int, int, int], ...]  # along each dimension: size, step, the memref's size
    rows_and_columns: Sequence[Sequence[int]]  # the dimensions of each

    @classmethod
    def of(cls, value: SSAValue) -> "BoxFacts":
        view = cast(ViewOp, value.owner)
        sizes = zip(view.box_sizes, view.box_steps, memref_shape(view.source), strict=True)
        memref = cast(BlockArgument, view.source)
        return cls(memref, tuple(view.offsets), tuple(view.ends), tuple(sizes), view.box_dims)


@dataclass(frozen=True, slots=True)
class Operands:
    """The pipe of an instruction, the tiles and boxes that it reads and writes, and which of them
    it does not read if a value is true. `flag`: its number; `loaded`: the shape of the box that it
    loads, without padding; `moves`: what says which bytes of its tiles it touches."""

    pipe: Pipe
    reads: tuple[SSAValue, ...]
    writes: tuple[SSAValue, ...]
    read_boxes: tuple[SSAValue, ...]
    written_boxes: tuple[SSAValue, ...]
    skipped: tuple[SSAValue, SSAValue] | None
    flag: SSAValue | None
    loaded: Sequence[int] | None
    moves: tuple[SSAValue, ...]

    @classmethod
    def of(cls, op: Instruction) -> "Operands":
        reads, writes = op.reads(), op.writes()
        tiles, boxes = (
            [tuple(v for v in values if isinstance(v.type, kind)) for values in (reads, writes)]
            for kind in (TileType, BoxType)
        )
        flag = op.id if isinstance(op, FlagOp) else None
        loads = isinstance(op, LoadOp) and op.pad is None
        loaded = box_type(boxes[0][0]).shape if loads else None
        skipped = op.not_read_if()
        moves = [] if skipped is None else [skipped[1]]
        moves += [op.first] if isinstance(op, LoadOp) and op.first is not None else []
        for place in map(TilePlace.of, (*tiles[0], *tiles[1])):
            moves += [at for row, col, _, _ in place.views for at in (row, col)]
            moves += [] if place.copy is None else [place.copy]
        which = tuple(dict.fromkeys(moves))
        return cls(op.pipe(), tiles[0], tiles[1], boxes[0], boxes[1], skipped, flag, loaded, which)


Tiles: TypeAlias = tuple[tuple[Bytes, ...], tuple[Bytes, ...], tuple[Bytes, ...]]
"""What an instruction reads and writes of its tiles, and what is around that."""

Follow: TypeAlias = Callable[["Walk", Any], None]
"""A method of a walk that follows an op."""


def lines_of(block: Block) -> list[tuple[Follow, Operation]]:
    """The ops of a block that a walk follows, each with its way to do so."""
    return [(follow, op) for op in block.ops if (follow := follow_of(op)) is not None]


def follow_of(op: Operation) -> Follow | None:
    match op:
        case PushOp() | PopOp():
            return Walk.pass_rows
        case Instruction():
            return Walk.issue
        case BarrierOp():
            return Walk.barrier
        case ForOp():
            return Walk.loop
        case IfOp():
            return Walk.branch
        case AllocOp() | SlotOp() | ViewOp() | FifoOp():
            return None
        case Binary():
            return arithmetic_of(op)
        case _:
            return Walk.scalar if op.results else None


def arithmetic_of(op: Binary) -> Follow:
    name, compute, unsigned = op.name, ARITHMETIC[type(op)], op.name.endswith("ui")
    (lhs, rhs), result = operands_of(op), op.result

    def follow(walk: "Walk", op: Operation) -> None:
        a, b = walk.values[lhs], walk.values[rhs]
        if unsigned and min(a, b) < 0:
            raise WalkError("T23", f"{name} of a negative number, {min(a, b)}", op)
        try:
            walk.values[result] = compute(a, b)
        except ZeroDivisionError:
            raise WalkError("T23", f"{name} by zero", op) from None

    return follow


class KernelFacts:
    """Facts of the text of a kernel that hold for all cores: it is read once."""

    def __init__(self) -> None:
        self.place, self.box, self.operands, self.lines, self.region = (
            cache(TilePlace.of),
            cache(BoxFacts.of),
            cache(Operands.of),
            cache(lines_of),
            cache(region_of),
        )


@dataclass
class Walk:
    """Follows a program for one core. Raises WalkError."""

    kernel: KernelOp
    program: ProgramOp
    core: int
    numbers: ReadNumbers = ReadNumbers.LARGEST
    # The number of a vector core beside the cube core; of a cube core, the one whose rows pass now
    part: int = 0
    facts: KernelFacts = field(default_factory=KernelFacts)
    steps: list[TileStep] = field(default_factory=list[TileStep])
    trips: int = 0  # rounds of all loops so far
    phase: int = 0  # barriers so far
    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    owners: dict[tuple[AllocOp, int], int] = field(default_factory=dict[tuple[AllocOp, int], int])
    known: dict[object, Tiles] = field(default_factory=dict[object, Tiles])

    def run(self) -> list[TileStep]:
        self.block(self.kernel.body.block)
        self.block(self.program.body.block)
        return self.steps

    def block(self, block: Block) -> None:
        for follow, op in self.facts.lines(block):
            follow(self, op)

    def pass_rows(self, op: PushOp | PopOp) -> None:
        if self.program.parts > 1:
            self.issue(op)
            return
        own = self.part
        for self.part in range(self.kernel.parts):  # one behind the other
            self.issue(op)
        self.part = own

    def barrier(self, op: BarrierOp) -> None:
        self.phase += 1
        for pipe in self.program.pipes:
            self.steps.append(TileStep(op, pipe, len(self.steps), self.phase))

    def branch(self, op: IfOp) -> None:
        taken = op.true_region if self.values[op.cond] else op.false_region
        if taken.blocks:
            self.block(taken.block)

    def loop(self, op: ForOp) -> None:
        low, high, step = (self.values[v] for v in (op.lb, op.ub, op.step))
        if step < 1:
            raise WalkError("T24", f"the step of a loop is at least 1, not {step}", op)
        body = op.body.block
        for i in range(low, high, step):
            self.trips += 1
            if self.trips > MOST_INSTRUCTIONS:
                raise WalkError("T24", f"more than {MOST_INSTRUCTIONS} rounds of loops", op)
            self.values[body.args[0]] = i
            self.block(body)

    # ---- scalars ----

    def scalar(self, op: Operation) -> None:
        if isinstance(op, CoreOp):
            value = self.core
        elif isinstance(op, CoresOp):
            value = self.kernel.core_count
        elif isinstance(op, PartOp):
            value = self.part
        elif isinstance(op, ReadOp):
            at = [self.values[v] for v in op.offsets]
            if not all(0 <= i < n for i, n in zip(at, memref_shape(op.source), strict=True)):
                raise WalkError("T21", f"a number is read at {at}, outside of its memref", op)
            value = self.number_read(op, at)
        elif op.name == "arith.constant":
            value = cast(IntegerAttr, op.properties["value"]).value.data
            value = value & 1 if op.results[0].type == i1 else value  # true is kept as -1
        elif isinstance(op, CmpiOp):
            a, b = (self.values[v] for v in op.operands)
            value = int(COMPARED[op.predicate.value.data](a, b))
        elif isinstance(op, SelectOp):
            value = self.values[op.lhs if self.values[op.cond] else op.rhs]
        else:
            raise WalkError("T24", f"{op.name} cannot be followed", op)
        self.values[op.results[0]] = value

    def number_read(self, op: ReadOp, at: Sequence[int]) -> int:
        """The largest or the least of those that may be there; where all elements are distinct,
        they go down from the largest, or up from the least, in the order of the memref."""
        if op.ascending is not None:
            (place,), last = at, memref_shape(op.source)[0] - 1
            match self.numbers:
                case ReadNumbers.LARGEST:
                    return op.span[-1] if place else op.span[0]
                case ReadNumbers.LEAST:
                    return op.span[0] if place < last else op.span[-1]
                case ReadNumbers.EVEN:
                    return number_at(op, place, last)
                case ReadNumbers.UNEVEN:
                    return number_at(op, place**2, last**2)
        place = 0
        if op.distinct is not None:
            for i, size in zip(at, memref_shape(op.source), strict=True):
                place = place * size + i
        return op.span[place if self.numbers is ReadNumbers.LEAST else -1 - place]

    # ---- instructions ----

    def issue(self, op: Instruction) -> None:
        if len(self.steps) >= MOST_INSTRUCTIONS:
            raise WalkError("T24", f"more than {MOST_INSTRUCTIONS} instructions of one core", op)
        operands = self.facts.operands(op)
        step = TileStep(op, operands.pipe, len(self.steps), self.phase, part=self.part)
        if operands.flag is not None:
            step.flag = self.values[operands.flag]
        else:
            self.touch(step, op, operands)
        self.steps.append(step)

    def touch(self, step: TileStep, op: Instruction, operands: Operands) -> None:
        """Note the bytes that an instruction touches."""
        if isinstance(op, PushOp | PopOp):
            queue = op.target if isinstance(op, PushOp) else op.source
            step.fifo = cast(FifoOp, queue.owner)
        step.read_boxes = [self.region(v, op) for v in operands.read_boxes]
        step.written_boxes = [self.region(v, op) for v in operands.written_boxes]
        box = None  # that cuts the bytes read or written of a tile
        if operands.loaded is not None:
            box = step.read_boxes[0]
        elif isinstance(op, StoreOp):
            box = step.written_boxes[0]
        parts, values = None if box is None else box.parts, self.values
        key = op, parts, self.part, *[values[v] for v in operands.moves]
        if (tiles := self.known.get(key)) is None:
            tiles = self.known[key] = self.tiles(op, operands, box)
        step.reads, step.writes, step.around = tiles

    def tiles(self, op: Instruction, operands: Operands, box: Region | None) -> Tiles:
        """The bytes that an instruction touches of its tiles, cut by a box if there is one."""
        reads, skipped, around = operands.reads, operands.skipped, ()
        if skipped is not None and self.values[skipped[1]]:
            reads = [v for v in reads if v is not skipped[0]]
        touched = self.touched(reads, op, box), self.touched(operands.writes, op, box)
        if box is not None and operands.loaded is not None and is_cut(box, operands.loaded):
            around = self.touched(operands.writes, op, None)
        return *touched, around

    def touched(
        self, tiles: Sequence[SSAValue], user: Instruction, box: Region | None
    ) -> tuple[Bytes, ...]:
        """The bytes that an instruction touches of its tiles: all, where a box has elements, or the
        rows of this vector core."""
        found: list[Bytes] = []
        for value in tiles:
            first, (rows, cols) = 0, cast(TileType, value.type).shape
            is_moved = cast(TileType, value.type).space is not Memory.FB  # scales are not stored
            if isinstance(user, LoadOp):
                rows, cols = box_type(user.source).shape
            elif isinstance(user, PushOp | PopOp) and self.program.parts == 1 and is_moved:
                rows //= self.kernel.parts
                first = self.part * rows
            is_cut = box is not None and is_moved
            for part in box.parts if box is not None and is_cut else ((first, rows, 0, cols),):
                found.append(self.bytes(value, user, part))
        return tuple(found)

    def rows(self, user: Instruction, t: TileType) -> tuple[int, int]:
        """The first row of a tile that an instruction touches, and how far they are apart."""
        if not isinstance(user, LoadOp) or user.first is None:
            return 0, 1
        first, step, count = self.values[user.first], user.row_step, box_type(user.source).shape[0]
        if first < 0 or first + (count - 1) * step >= t.shape[0]:
            text = f"{count} rows from {first} on, {step} apart, pass the tile"
            raise WalkError("T20", text, user)
        return first, step

    def bytes(self, value: SSAValue, user: Instruction, part: Part) -> Bytes:
        """The bytes of a part of a tile. Bytes that belong to it only in part are counted."""
        place = self.facts.place(value)
        (skipped, rows, left, cols), (first, step) = part, self.rows(user, place.tile)
        bits, pitch = place.bits, place.pitch
        at = (first + skipped * step) * pitch + left
        for row_value, col_value, inner, whole in place.views:
            row, col = self.values[row_value], self.values[col_value]
            inside = 0 <= row <= whole.shape[0] - inner.shape[0]
            if not (inside and 0 <= col <= whole.shape[1] - inner.shape[1]):
                raise WalkError("T20", f"a sub-tile at {row}, {col} passes its tile", user)
            try:
                if not user.reads_number(value):
                    check_place(row, col, pitch, inner)
            except VerifyException as e:
                raise WalkError("T20", str(e), user) from None
            at += row * pitch + col
        if place.offsets is None:
            raise WalkError("T22", "a buffer has no place: run tile-plan", place.alloc)
        copy = 0 if place.copy is None else self.values[place.copy] % place.copies
        owner = self.owners.setdefault((place.alloc, copy), len(self.owners))
        if cols == pitch and step == 1:  # one stretch
            rows, cols = 1, rows * cols
        low, rest = divmod(at * bits, 8)
        width = -(-(rest + cols * bits) // 8)
        low += place.offsets[copy]
        return Bytes(place.tile.space, low, rows, width, pitch * step * bits // 8, owner)

    def region(self, value: SSAValue, user: Operation) -> Region:
        box, values = self.facts.box(value), self.values
        starts = [values[v] for v in box.starts]
        if min(starts) < 0 and not (isinstance(user, LoadOp) and user.pad is not None):
            raise WalkError("T21", f"a box begins at {starts}, before the memref", user)
        return self.facts.region(box, (*starts,), (*[values[v] for v in box.ends],))


def region_of(box: BoxFacts, starts: Sequence[int], ends: Sequence[int]) -> Region:
    """A box that begins at these elements, and has these ends of its own, or none."""
    bounds: list[tuple[int, int]] = []
    exist: list[range] = []  # the numbers of those elements that do, along each dimension
    endless = [
        (min(max(at, 0), whole), max(0, min(at + (size - 1) * step + 1, whole)))
        for at, (size, step, whole) in zip(starts, box.extents, strict=True)
    ]
    stops = ends or [extent for _, _, extent in box.extents]
    for at, stop, (size, step, whole) in zip(starts, stops, box.extents, strict=True):
        low, extent = max(0, (step - 1 - at) // step), min(stop, whole)
        there = range(low, min(size, (extent - at + step - 1) // step))
        bounds.append((at + there[0] * step, at + there[-1] * step + 1) if there else (0, 0))
        exist.append(there)
    parts: tuple[Part, ...] = ()
    if all(exist):
        rows, cols = (
            stretches([(exist[d], box.extents[d][0]) for d in dims])
            for dims in box.rows_and_columns
        )
        parts = tuple((*r, *c) for r in rows for c in cols)
    return Region(box.memref, tuple(bounds), parts, tuple(endless))


def stretches(dims: Sequence[tuple[range, int]]) -> list[tuple[int, int]]:
    """Stretches (from, count) of the numbers that exist along several dimensions seen as one."""
    found, length = [(0, 1)], 1
    for exist, size in reversed(dims):
        if found == [(0, length)]:  # all so far: longer stretches
            found = [(exist.start * length, len(exist) * length)]
        else:
            found = [(i * length + at, count) for i in exist for at, count in found]
        length *= size
    return found


def is_cut(region: Region, shape: Sequence[int]) -> bool:
    """True if a box of this shape passes its memref."""
    return sum(rows * cols for _, rows, _, cols in region.parts) < shape[0] * shape[1]
