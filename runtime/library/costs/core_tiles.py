"""What one step of a kernel's tile loop keeps on the core: a buffer for the tile of each value.

`Footprint.of(body, elements)` gives, for tiles of T of the `elements` elements of the kernel's
longest value, how many elements of each other value a tile needs, and when:

- a value takes its share T / elements of its own, and at least what the tiles of results computed
  from it need: rows whole where they stay on the core, the halo of a window, all of a bias;
- an input that is only looked up or moved is loaded to where the result has it, and a result that
  is only moved is stored from where it was computed: neither has a tile of its own; views share
  one with what they are of, and an input of one element is a register;
- what crosses between memory and core has two copies while the loop is double-buffered, and is
  then in use all the time; an input of which two tiles need all is loaded once and stays;
- what lives in between has one copy, from the op that makes it to the last one that uses it, and
  an elementwise op writes over an operand that dies there.

Step 0 loads, step i is op i of the body, counted from 1; the last step stores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.graph.pooling import Pooling
from ge.dialects.graph.quantization import Granular, LookupOp, RequantizeOp, meeting_axis
from ge.dialects.support.access import Access, repeated_parts
from ge.dialects.support.element_types import bitwidth, is_integer, storage_bytes
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, element_type, numel, shape_of

# How a kernel runs on a core, where formulas estimate it.
ACCUMULATOR_BYTES = 4  # of a sum in L0C, and at least of a result that comes from there to UB
PASSING_ROWS = 16  # rows of a matmul's tile that pass UB at a time
PROLOGUE_ELEMENTS = 1024  # that the vector unit computes at a time for the operands of matmuls
WIDE_ACCUMULATOR_BYTES = 8  # of a sum of products with integers of 16 bits
STATISTICS = 2  # of a query of attention: the largest score and the sum of exponentials


def sum_bytes(element: Attribute) -> int:
    """Bytes of a sum in L0C, of products of an element type."""
    if is_integer(element) and bitwidth(element) == 16:
        return WIDE_ACCUMULATOR_BYTES
    return max(ACCUMULATOR_BYTES, bitwidth(element) // 8)


def wider_element(op: Operation) -> Attribute:
    """The wider element type of what a matmul multiplies."""
    return max((element_type(v) for v in op.operands[:2]), key=bitwidth)


@dataclass(frozen=True, slots=True)
class Extent:
    """Elements of a value that a tile needs: at most share / elements of the tile and `extra`, and
    at most `most` / elements of it and `more`."""

    share: int
    extra: int
    most: int
    more: int

    def joined(self, other: "Extent") -> "Extent":
        return Extent(
            max(self.share, other.share),
            max(self.extra, other.extra),
            max(self.most, other.most),
            max(self.more, other.more),
        )

    def scaled(self, many: int, few: int, extra: int = 0) -> "Extent":
        share = -(-self.share * many // few)
        more = -(-self.extra * many // few) + extra
        return Extent(share, more, share, more)

    def within(self, other: "Extent", extra: int = 0) -> "Extent":
        """The same, but never more than the other at its most, and `extra`."""
        return Extent(self.share, self.extra, other.most, other.more + extra)


@dataclass(frozen=True, slots=True)
class Below:
    """A value that is broadcast to a matmul, of which a tile is some places by some columns."""

    columns: bool  # whether it has an element for each column
    places: int  # its elements for one column
    all_places: int  # the matmul's
    run: bool  # whether one element is for places in a row

    def elements(self, rows: int, columns: int) -> int:
        places = -(-rows * self.places // self.all_places) + 1 if self.run else rows
        return (columns if self.columns else 1) * min(self.places, places)

    @classmethod
    def of(cls, small: Shape, large: Shape, axis: int) -> "Below":
        """A value of shape `small`, broadcast to a matmul with columns along `axis`."""
        padded = (1,) * (len(large) - len(small)) + tuple(small)
        mine = [d for i, d in enumerate(padded) if i != axis]
        theirs = [d for i, d in enumerate(large) if i != axis]
        run = repeated_parts(tuple(mine), tuple(theirs)) is not None
        return cls(padded[axis] == large[axis], prod(mine), prod(theirs), run)


@dataclass(frozen=True, slots=True)
class Tile:
    name: str = field(compare=False)
    extent: Extent
    all: int  # elements of the value
    bits: int  # of an element on the core
    # Whether it is loaded or stored, so that there are two copies in a double-buffered loop.
    moves: bool
    loaded: bool
    first: int
    last: int
    below: "Below | None" = None  # how it is broadcast to matmuls, if it is to nothing else
    over: int | None = None  # the tile, by its place, whose bytes it takes over

    def elements(self, tile: int, elements: int, columns: int) -> int:
        if self.below is not None:
            return min(self.all, self.below.elements(max(tile // columns, 1), columns))
        e = self.extent
        needed = -(-e.share * tile // elements) + e.extra
        bound = min(self.all, -(-e.most * tile // elements) + e.more)
        return min(needed, bound)


@dataclass(frozen=True, slots=True)
class Placed:
    """A tile of a given size: bytes rounded up to the alignment, and its steps; None when it is
    live all the time."""

    tile: Tile
    bytes: int
    copies: int
    steps: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Footprint:
    """The buffers in UB that a tile of the kernel needs."""

    elements: int  # elements that tiles cut: of the longest value
    tiles: tuple[Tile, ...]
    steps: int  # the last step
    rows_stay: bool = True  # whether rows and windows are on the core while they are worked on

    def placed(self, tile: int, buffers: int, alignment: int, columns: int = 0) -> list[Placed]:
        placed: list[Placed] = []
        for t in self.tiles:
            count = t.elements(tile, self.elements, columns)
            # Of a short input two copies of a tile may take more than all of it.
            stays = t.loaded and t.all < self.elements and 2 * count >= t.all and buffers > 1
            size = -(-(t.all if stays else count) * t.bits // (8 * alignment)) * alignment
            always = buffers > 1 and t.moves
            copies = buffers if t.moves and not stays else 1
            placed.append(Placed(t, size, copies, None if always else (t.first, t.last)))
        return placed

    def peak(self, tile: int, buffers: int, alignment: int, columns: int = 0) -> int:
        """Most bytes live at one step, a lower bound of any plan."""
        change = [0] * (2 * self.steps + 3)
        always = 0
        for p in self.placed(tile, buffers, alignment, columns):
            if p.steps is None:
                always += p.bytes * p.copies
            else:  # what is written over begins when the other one has been read
                change[2 * p.steps[0] + (p.tile.over is not None)] += p.bytes * p.copies
                change[2 * p.steps[1] + 1] -= p.bytes * p.copies
        live = most = 0
        for c in change:
            live += c
            most = max(most, live)
        return always + most

    @property
    def whole_bytes(self) -> int:
        """Bytes of the inputs that every tile needs all of."""
        return sum(
            t.all * t.bits // 8
            for t in self.tiles
            if t.loaded and t.all <= min(t.extent.extra, t.extent.more)
        )

    def largest(self, limit: int, alignment: int, most: int) -> int:
        """A large tile of at most `most` elements that fits twice into `limit` bytes; 0 when none
        does. Bytes per element fall as tiles grow, so shrinking by the excess never skips the
        largest one."""
        tile = most
        while tile and (peak := self.peak(tile, 2, alignment)) > limit:
            tile = min(tile * limit // peak, tile - 1 - tile // 256)
        return tile

    @classmethod
    def of(
        cls,
        body: Body,
        elements: int,
        rows_stay: bool = True,
        whole_rows: bool = False,
        within: "Within | None" = None,
    ) -> "Footprint":
        """`rows_stay`: rows and windows are on the core while they are worked on, else parts of
        them pass one by one; `whole_rows`: tiles are whole rows; `within`: the body is a part of a
        kernel."""
        return _Builder(
            body, elements, rows_stay, whole_rows, within or Within.all_of(body)
        ).build()


@dataclass(frozen=True)
class Within:
    """Where a body stands in a kernel: the numbers of its inputs, the steps of its ops, and, for
    matmuls that come from L0C, the bytes of an element, and the axis of their columns. `read`: the
    steps at which matmuls read values."""

    inputs: Mapping[SSAValue, int]
    step: Mapping[TensorOp, int]
    steps: int
    arriving: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    axes: Mapping[Shape, int] = field(default_factory=dict[Shape, int])
    read: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    @classmethod
    def all_of(cls, body: Body) -> "Within":
        inputs = {v: i for i, v in enumerate(body.inputs)}
        return cls(inputs, {op: i for i, op in enumerate(body.ops, 1)}, len(body.ops) + 1)

    def name(self, value: SSAValue) -> str:
        """What a plan calls a value."""
        if value in self.inputs:
            return f"in{self.inputs[value]}"
        op = value.owner
        assert isinstance(op, TensorOp)
        number, result = self.step[op] - 1, op.results.index(value)
        return f"op{number}_{result}" if result else f"op{number}"


def bits_of(value: SSAValue) -> int:
    return bitwidth(element_type(value))


def bytes_of(value: SSAValue) -> int:
    """Of one element, at least one."""
    return storage_bytes(1, element_type(value))


class _Builder:
    """Walks a body forwards, for what needs a tile, and backwards, for sizes."""

    def __init__(
        self, body: Body, elements: int, rows_stay: bool, whole_rows: bool, within: Within
    ) -> None:
        self.body, self.elements, self.within = body, elements, within
        self.rows_stay, self.whole_rows = rows_stay, whole_rows
        self.home: dict[SSAValue, SSAValue] = {}  # view -> what it is of
        # Inputs, and what is only moved or looked up on the way in.
        self.from_memory: set[SSAValue] = set(body.inputs)
        self.first: dict[SSAValue, int] = dict.fromkeys(body.inputs, 0)
        # Last step that uses a tile: only values with a tile are here.
        self.last: dict[SSAValue, int] = {}
        self.stored: set[SSAValue] = set()
        self.extents: dict[SSAValue, Extent] = {}
        rows = [r for op in body.ops if (r := rows_of(op)) is not None]
        # How many rows there are of which tiles hold whole ones.
        self.counts = {r.count for r in rows} if whole_rows else set[int]()
        # Rows that do not lie in a row in memory: tiles are some of them, not runs of elements.
        self.apart = next((r for r in rows if not r.contiguous), None)
        # Value that is broadcast -> how, if to matmuls only.
        self.below: dict[SSAValue, Below | None] = {}

    def build(self) -> Footprint:
        self.find_tiles()
        self.find_extents()
        return Footprint(self.elements, tuple(self.tiles()), self.within.steps, self.rows_stay)

    # ---- what needs a tile ----

    def home_of(self, value: SSAValue) -> SSAValue:
        return self.home.get(value, value)

    def find_tiles(self) -> None:
        used = {v for op in self.body.ops for v in operands_of(op)}
        outputs = set(self.body.outputs)
        for op in self.body.ops:
            step, kind = self.within.step[op], op.ACCESS
            if kind is Access.VIEW:
                self.home[op.results[0]] = self.home_of(operands_of(op)[0])
                self.use(operands_of(op)[1:], step)
                continue
            moved = operands_of(op)[:1] if kind is Access.LOOKUP else operands_of(op)
            if kind in (Access.MOVEMENT, Access.LOOKUP) and self.in_memory(moved):
                begin = step if kind is Access.LOOKUP else 0
                self.use(operands_of(op)[len(moved) :], step)
                self.from_memory.update(op.results)
                self.first.update(dict.fromkeys(op.results, begin))
            elif kind is Access.MOVEMENT and not any(r in used for r in op.results):
                if not outputs.isdisjoint(op.results):  # the others of a split may be dead
                    outputs -= set(op.results)
                    self.store(operands_of(op))
            else:
                self.use(operands_of(op), step)
                self.first.update(dict.fromkeys(op.results, step))
                for r in op.results:
                    self.last.setdefault(r, step)
        self.store(v for v in self.body.outputs if v in outputs)
        for value, step in self.within.read.items():
            if self.home_of(value) in self.last:
                self.use([value], step)

    def in_memory(self, values: Iterable[SSAValue]) -> bool:
        return all(self.home_of(v) in self.from_memory for v in values)

    def use(self, values: Iterable[SSAValue], step: int) -> None:
        for value in values:
            home = self.home_of(value)
            self.last[home] = max(self.last.get(home, 0), step)

    def store(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            self.stored.add(self.home_of(value))
            self.use([value], self.within.steps)

    # ---- how much of it ----

    def find_extents(self) -> None:
        for v in (*self.body.inputs, *(r for op in self.body.ops for r in op.results)):
            size = numel(shape_of(v))
            self.extents[v] = Extent(size, 0, size, 0)
        for op in reversed(self.body.ops):
            result = self.extents[op.results[0]]
            for other in op.results[1:]:
                result = result.joined(self.extents[other])
            pointwise = isinstance(op, Elementwise)
            shape = shape_of(op.results[0])
            for i, value in enumerate(operands_of(op)):
                if pointwise and shape_of(value) == shape and self.extents[value] == result:
                    continue  # the usual case
                if op.ACCESS is not Access.POINTWISE:
                    self.below[self.home_of(value)] = None
                if (needed := self.extent_of_operand(op, i, result)) is not None:
                    for v in {value, self.home_of(value)}:
                        self.extents[v] = self.extents[v].joined(needed)

    def extent_of_operand(self, op: TensorOp, index: int, result: Extent) -> Extent | None:
        """What a tile of the result needs of an operand; None where its share will do."""
        value = operands_of(op)[index]
        size, result_size = numel(shape_of(value)), max(numel(shape_of(op.results[0])), 1)
        kind = op.ACCESS
        whole = Extent(0, size, 0, size)
        if kind is Access.MOVEMENT and size > 1:
            return result
        if kind in (Access.VIEW, Access.LOOKUP) and not index:
            return result
        if isinstance(op, LookupOp) and index:
            return whole
        if kind is Access.POINTWISE:
            return self.beside(op, index, result, size, result_size)
        if kind is Access.LOOKUP:
            shape, names = shape_of(op.results[0]), shape_of(value)
            if shape[: len(names)] == names:
                return result.scaled(size, result_size, 2)
            if shape[: len(names) - 1] == names[:-1]:  # the last dimension names one place
                return result.scaled(size, result_size, 2 * names[-1])
            return whole.within(result)
        if kind is Access.WINDOW:
            if index:
                return whole
            return result.scaled(size, result_size, 2 * halo(op)) if self.rows_stay else None
        if kind is Access.ROWS:
            rows = rows_of(op)
            if not self.rows_stay or rows is None:
                return whole.within(result) if index else None
            if index:
                return whole
            return result.scaled(size, result_size, 0 if self.whole_rows else 2 * rows.length)
        return None

    def beside(
        self, op: TensorOp, index: int, result: Extent, size: int, result_size: int
    ) -> Extent | None:
        """As `extent_of_operand`, for an op that needs the elements at the place of the result."""
        value = operands_of(op)[index]
        small, large = shape_of(value), shape_of(op.results[0])
        if isinstance(op, Granular) and index:
            small, large = op.meeting_shapes() or (small, large)
        elif isinstance(op, RequantizeOp) and index == 1:
            small, large = meeting_axis(op) or (small, large)
        if size > 1 and (below := self.below_product(small, large)) is not None:
            home = self.home_of(value)
            self.below[home] = below if self.below.get(home, below) == below else None
        elif size > 1:
            self.below[self.home_of(value)] = None
        if size in self.counts and (is_statistic(value) or op.local_parts(index) == size):
            return result.scaled(size, result_size).within(result)
        if parts := op.local_parts(index):
            granule = result_size // parts
            spare = 2 * (size // parts) if granule > 1 else 0
            return result.scaled(size, result_size, spare).within(result, spare)
        if (rows := self.apart) is not None:
            return result.scaled(size, result_size, rows.length).within(result, rows.length)
        if (same := shared_leading(small, large)) > 1:
            return result.scaled(size, result_size, 2 * (size // same)).within(result)
        # Tables and scales of an axis are not broadcast: a tile needs at most those of a row more.
        row = 0 if same else prod(large[-1:])
        return Extent(0, size, 0, size).within(result, row)

    def below_product(self, small: Shape, large: Shape) -> Below | None:
        axis = self.within.axes.get(large)
        if axis is None or small == large or not shared_leading(small, large):
            return None
        return Below.of(small, large, axis)

    # ---- the tiles ----

    def tiles(self) -> list[Tile]:
        """In the order of their first steps."""
        tiles: list[Tile] = []
        place: dict[SSAValue, int] = {}
        overwritten: set[SSAValue] = set()
        for value in sorted(self.last, key=lambda v: self.first[v]):
            size = numel(shape_of(value))
            loaded = value in self.from_memory
            arriving = self.within.arriving.get(value)
            if not size or (size == 1 and loaded and arriving is None):
                continue
            moves = loaded or value in self.stored
            over = None if moves else self.written_over(value, overwritten)
            if over is not None:
                overwritten.add(over)
            place[value] = len(tiles)
            bits = bits_of(value) if arriving is None else 8 * arriving
            tiles.append(
                Tile(
                    self.within.name(value),
                    self.extents[value],
                    size,
                    bits,
                    moves,
                    loaded and arriving is None,
                    self.first[value],
                    self.last[value],
                    self.below.get(value) if loaded and arriving is None else None,
                    None if over is None else place[over],
                )
            )
        return tiles

    def written_over(self, value: SSAValue, overwritten: set[SSAValue]) -> SSAValue | None:
        """The operand whose last user defines the value, if its bytes may be overwritten."""
        op = value.owner
        if not isinstance(op, TensorOp) or op.ACCESS is not Access.POINTWISE:
            return None
        step, extent = self.within.step[op], self.extents[value]
        for operand in operands_of(op):
            home = self.home_of(operand)
            if (
                self.last.get(home) == step
                and home not in overwritten
                and home not in self.stored
                and home not in self.from_memory
                and bits_of(home) == bits_of(value)
                and numel(shape_of(home)) == numel(shape_of(value))
                and self.extents[home] == extent
            ):
                return home
        return None


def is_statistic(value: SSAValue) -> bool:
    rows = rows_of(value.owner) if isinstance(value.owner, Operation) else None
    return rows is not None and rows.count == numel(shape_of(value))


def halo(op: TensorOp) -> int:
    """Elements of the input beside its share that windows at the edge of a tile reach: rows of
    the first spatial dimension (two of them where the op interpolates)."""
    shape = shape_of(operands_of(op)[0])
    if not isinstance(op, Pooling):
        return 2 * prod(shape[3:])
    window = op.window()
    return min(window.extent(0), shape[2]) * prod(shape[3:])


def shared_leading(small: Shape, large: Shape) -> int:
    """The product of the leading dimensions in which a value that is broadcast to another one has
    as many elements; 0 where it is not broadcast like an operand of an elementwise op."""
    padded: Sequence[int] = (1,) * (len(large) - len(small)) + tuple(small)
    if len(padded) > len(large) or any(a not in (1, b) for a, b in zip(padded, large, strict=True)):
        return 0
    same = 1
    for a, b in zip(padded, large, strict=True):
        if a != b:
            break
        same *= a
    return same
