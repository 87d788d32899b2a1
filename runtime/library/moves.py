"""Kernels that move elements: transposes, slices, concatenations, pads, rows at indices, repeated
elements, and the elementwise ops between them.

Results are cut into boxes of rows and columns, which the cores share. Columns are the last
dimension; rows are the dimension that lies last in an input, where that is another one (a
transposed tile: both sides move along their memory), else the one before. A result of a
concatenation has apart boxes for each of its operands. Views next to device memory are none: there
the memref has the shape of their other side.
A kernel that writes one number everywhere stores a tile of it as often as it takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise, product
from math import ceil, isqrt, prod
from typing import Any, TypeAlias

from xdsl.ir import Block, SSAValue

from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.indexing import GatherElementsOp, GatherNdOp, GatherOp
from ge.dialects.graph.shape import BroadcastToOp, TileOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.graph.support.elementwise_bases import Unary
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.boxes import MOVING, Access, Box, plus
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    align_up,
    constant_ints,
    element_type,
    is_static,
    numel,
    shape_of,
)
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar, ceil_div, minimum
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written, decided, is_open
from ge.runtime.library.programs import fitted
from ge.runtime.library.pulling import Pull
from ge.runtime.library.rows.vector import LEAST, place, turns_of
from ge.runtime.library.tile_ops import long_dims, tile_shape

MOST_SINGLE = 1 << 20  # elements at indices that are moved one by one

Gathering: TypeAlias = GatherOp | GatherElementsOp | GatherNdOp


def moves(launch: Launch) -> bool:
    """True if a kernel moves elements, other than by views."""
    return any(op.ACCESS in MOVING - {Access.VIEW} or is_repeat(op) for op in launch.body.ops)


def is_repeat(op: object) -> bool:
    """True if each element of the result is one of the operand's, which comes several times."""
    if isinstance(op, ResizeOp):
        return all(n is not None for n in op.repeats().values())
    return isinstance(op, TileOp)


def lower_moves(launch: Launch) -> Written:
    """Moves, with elementwise ops between them, by pieces of the results."""
    values = *launch.body.inputs, *(x for op in launch.body.ops for x in op.results)
    widths = [bitwidth(element_type(x)) for x in values]
    if any(numel(shape_of(x)) == 0 for x in values):
        raise NotLowered("it has no elements")
    if min(widths) < 8:
        raise NotLowered("elements of less than a byte are not moved")
    targets, views = [Target.of(out) for out in launch.body.outputs], viewed(launch)
    regions = [region for target in targets for region in regions_of(launch, target, views)]
    step = BLOCK * 8 // min(widths)
    total = sum(numel(shape_of(t.value)) for t in targets)
    cut = partial(by_pieces, launch, views, regions, step)
    if is_open():  # boxes may be longer than those that were decided for
        return fitting(launch, cut, decided(int))[1]
    elements, written = fitting(launch, cut, elements_of(launch, total))
    decided(lambda: elements)
    return written


def elements_of(launch: Launch, total: int) -> int:
    """Number of elements of a box, so that each core has several."""
    each = ceil(total / launch.target.vector_cores)
    return max(ceil(each / turns_of(launch, each)), LEAST)


def fitting(launch: Launch, cut: Callable[[int], Written], elements: int) -> tuple[int, Written]:
    """The elements of a box, or fewer, so that its tiles fit, and the program. Raises NotLowered
    where none does."""
    while (written := fitted(launch, cut(elements))) is None:
        if elements == 1:
            raise NotLowered("its smallest tiles do not fit into ub")
        elements //= 2
    return elements, written


# ---- results ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A result, and the value that is stored there: its memref has the value's dimensions, those
    of `repeats` several times (beside each other with `inner`, else one after the other)."""

    out: SSAValue
    value: SSAValue
    repeats: Mapping[int, int] = field(default_factory=dict[int, int])
    inner: bool = False

    @classmethod
    def of(cls, out: SSAValue) -> "Target":
        value = out
        while isinstance(op := value.owner, TensorOp) and op.ACCESS is Access.VIEW:
            value = op.operands[0]
        if isinstance(op, TensorOp) and is_repeat(op):
            sizes = zip(shape_of(value), shape_of(op.operands[0]), strict=True)
            repeats = {i: m // n for i, (m, n) in enumerate(sizes) if m != n}
            return cls(out, op.operands[0], repeats, isinstance(op, ResizeOp))
        return cls(out, value)

    @property
    def shape(self) -> Shape:
        """Shape of the memref."""
        shape: list[int] = []
        for i, d in enumerate(shape_of(self.value)):
            several = [self.repeats[i]] if i in self.repeats else []
            shape += [d, *several] if self.inner else [*several, d]
        return tuple(shape) or (1,)

    def places(self, box: Box) -> Iterator[tuple[tuple[Scalar, ...], tuple[int, ...]]]:
        """The offsets in the memref of each time that a box stands there, and the dimensions along
        which it has several elements."""
        ranges = [range(self.repeats.get(i, 1)) for i in range(len(box.sizes))]
        for times in product(*ranges):
            starts, long = list[Scalar](), list[int]()
            for i, (offset, size) in enumerate(box.spans):
                several = [times[i]] if i in self.repeats else []
                if size > 1:
                    long.append(len(starts) + (0 if self.inner else len(several)))
                starts += [offset, *several] if self.inner else [*several, offset]
            yield tuple(starts) or (0,), tuple(long) or (max(len(starts) - 1, 0),)


@dataclass(frozen=True)
class Piece:
    """Boxes of one size from `begin` on, `counts` of them along each dimension, and which operand
    of each concatenation is there."""

    target: Target
    begin: tuple[int, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    parts: Mapping[ConcatOp, int]

    @property
    def count(self) -> int:
        return prod(self.counts)

    def box(self, number: Scalar) -> Box:
        extents = tuple(n * size for n, size in zip(self.counts, self.sizes, strict=True))
        at = place(number, extents, self.sizes)
        return Box(tuple(plus(a, b) for a, b in zip(at, self.begin, strict=True)), self.sizes)


def by_pieces(
    launch: Launch, views: "Views", regions: Sequence["Region"], step: int, elements: int
) -> Written:
    pieces = [p for region in regions for p in cut_region(region, elements, step)]
    total = sum(p.count for p in pieces)
    cores = min(total, launch.target.vector_cores)
    shapes = {value: (1,) for value in launch.body.inputs if not shape_of(value)}
    shapes |= {value: shape_of(view) for value, view in views.items()}
    shapes |= {r.target.out: r.target.shape for r in regions}

    def write(c: Tracer, arguments: Arguments) -> None:
        before = 0
        buffers = list[tuple[Block | None, Any, int]]()  # one piece's, and the next one's then
        for piece in pieces:
            idle = piece.count < cores  # of some cores
            pull = MovePull(
                c, launch, arguments, buffers=buffers, views=views, parts_of=piece.parts,
                in_turns=idle,
            )  # fmt: skip
            me = (c.core + (cores - before % cores)) % cores if before % cores else c.core
            if piece.count == 1 and cores == 1:
                pull.move(piece, 0, 0)
            else:
                for turn in c.range(ceil_div(piece.count - me, cores)):
                    pull.move(piece, me + turn * cores, turn)
            before += piece.count

    return Written(write, cores, shapes, engine=Engine.VECTOR)


Views: TypeAlias = Mapping[SSAValue, SSAValue]


def viewed(launch: Launch) -> Views:
    """The inputs that are read under another shape alone, and the view that is read. A constant of
    one element is nowhere to be read."""
    read = [value for value in launch.body.inputs if launch.number(value) is None]
    users: dict[SSAValue, list[TensorOp]] = {value: [] for value in read}
    for op in launch.body.ops:
        for value in {*operands_of(op)} & users.keys():
            users[value].append(op)
    found: dict[SSAValue, SSAValue] = {}
    for value, (op, *others) in ((k, ops) for k, ops in users.items() if ops):
        if not others and op.ACCESS is Access.VIEW and op.operands[0] is value:
            found[value] = op.results[0]
    return {k: x for k, x in found.items() if x not in launch.body.outputs and shape_of(x)}


# ---- how results are cut ---------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """The part of a result, by begins and ends, made of these operands of its concatenations."""

    target: Target
    reach: "Reach"
    spans: Sequence[tuple[int, int]]
    parts: Mapping[ConcatOp, int]


def regions_of(launch: Launch, target: Target, views: Views) -> Iterator[Region]:
    shape = shape_of(target.value)
    reach = Reach(launch, target.value, views)
    joins = [op for op in launch.body.ops if isinstance(op, ConcatOp) and op.result in reach.whole]
    ends = [reach.parts(op) for op in joins]
    for parts in product(*(range(len(op.inputs)) for op in joins)):
        spans = [(0, d) for d in shape]
        for found, part in zip(ends, parts, strict=True):
            dim, begin, end = found[part]
            low, high = spans[dim]
            spans[dim] = max(low, begin), min(high, end)
        if all(low < high for low, high in spans):
            yield Region(target, reach, spans, dict(zip(joins, parts, strict=True)))


def cut_region(region: Region, elements: int, step: int) -> Iterator[Piece]:
    """Boxes of about so many elements. Only at the end of a dimension may they pass their region,
    and rows of several columns are multiples of `step` long."""
    target, reach, parts = region.target, region.reach, region.parts
    shape = shape_of(target.value)
    begin = tuple(low for low, _ in region.spans)
    extents = [high - low for low, high in region.spans]
    if not shape:
        yield Piece(target, (), (), (), parts)
        return
    last, row, single = len(shape) - 1, reach.row, reach.single

    def spans(dim: int, size: int, unit: int) -> Iterator[tuple[int, int, int]]:
        """Begin, number and size of the boxes along a dimension."""
        extent = extents[dim]
        if region.spans[dim][1] == shape[dim]:
            size = evenly(extent, size, unit)
            yield 0, ceil(extent / size), size
            return
        size = min(size, extent)
        size = size // unit * unit or size
        yield 0, extent // size, size
        if extent % size:
            yield extent // size * size, 1, extent % size

    width = step if reach.one_by_one else elements
    is_line = row is None or row in single or reach.one_by_one
    height = 1 if is_line else max(elements // min(width, extents[last]), 1)
    turned = step if reach.turned else 1
    if reach.turned and row is not None and row not in single:  # long pieces on both sides
        height = max(height, min(extents[row], isqrt(elements)))
        height = evenly(extents[row], min(height, max(step, isqrt(elements))), step)
        width = max(elements // height, 1)
    several = height > 1 and row is not None and extents[row] > 1
    for at, count, cols in spans(last, width, step if several else 1):
        rows = height if several and (cols % step == 0 or cols == 1) else 1
        lines = [(0, 1, 1)] if row is None else spans(row, rows, turned if rows > 1 else 1)
        for line, number, size in lines:
            size, number = (1, number * size) if size % turned and size > 1 else (size, number)
            counts, sizes = list(extents), [1] * len(shape)
            starts = list(begin)
            if row is not None:
                counts[row], sizes[row], starts[row] = number, size, begin[row] + line
            counts[last], sizes[last], starts[last] = count, cols, begin[last] + at
            yield Piece(target, tuple(starts), tuple(counts), tuple(sizes), parts)


def evenly(extent: int, most: int, unit: int) -> int:
    """Size of boxes along a dimension: sizes that are alike, not above `most` but for the unit."""
    return align_up(ceil(extent / ceil(extent / most)), unit)


class Reach:
    """Dimensions of a stored value that move along each of the values that it is made of."""

    def __init__(self, launch: Launch, value: SSAValue, views: Views):
        self.body, self.value = launch.body, value
        self.loaded = [views.get(x, x) for x in launch.body.inputs]  # as memory has them
        self.shape = shape = shape_of(value)
        self.whole = self.boxes({})
        self.along = {d: self.boxes({d: (0, 1)}) for d, size in enumerate(shape) if size > 1}
        picks = [op.indices for op in self.body.ops if isinstance(op, Gathering)]
        picked = {d for x in picks if x in self.whole for d in self.moved(x)}
        self.one_by_one = len(shape) - 1 in picked
        if self.one_by_one and max(numel(shape_of(x)) for x in picks) > MOST_SINGLE:
            raise NotLowered("elements at indices would be moved one by one")
        self.single = picked - {len(shape) - 1}
        others = [d for d in range(len(shape) - 1) if shape[d] > 1 and d not in self.single]
        self.row = max(others, default=None)
        self.turned = False
        self.find_row()

    def boxes(self, spans: Mapping[int, Any]) -> dict[SSAValue, Box | None]:
        return self.body.boxes(self.value, Box.part(self.shape, spans))

    def moved(self, value: SSAValue) -> dict[int, set[int]]:
        """For each dimension the axes of a value along which its boxes move."""
        whole, found = self.whole.get(value), dict[int, set[int]]()
        for d, boxes in self.along.items():
            box = boxes.get(value)
            if whole is not None and box is not None and box.sizes != whole.sizes:
                pairs = enumerate(zip(box.sizes, whole.sizes, strict=True))
                found[d] = {i for i, (a, b) in pairs if a != b}
        return found

    def find_row(self) -> None:
        """The last axis of an input is that of the columns, or else of the rows."""
        inputs = [x for x in self.loaded if x in self.whole and numel(shape_of(x)) > 1]
        for value in sorted(inputs, key=lambda x: -numel(shape_of(x))):
            axis = max((i for i, d in enumerate(shape_of(value)) if d > 1), default=0)
            dims = [d for d, axes in self.moved(value).items() if axis in axes]
            if dims and len(self.shape) - 1 not in dims:
                self.row = dims[-1]
                self.turned = True
                return

    def parts(self, op: ConcatOp) -> list[tuple[int, int, int]]:
        """The dimension, and where along it each operand of a concatenation is."""
        axis = op.axis.value.data % len(shape_of(op.result))
        dims = [d for d, axes in self.moved(op.result).items() if axis in axes]
        sizes = [shape_of(x)[axis] for x in op.inputs]
        if len(dims) == 1:
            dim = dims[0]
            box = self.along[dim][op.result]
            assert box is not None
            many, ends = box.sizes[axis], [*accumulate(sizes, initial=0)]
            if all(n % many == 0 for n in sizes) and many * self.shape[dim] == sum(sizes):
                return [(dim, begin // many, end // many) for begin, end in pairwise(ends)]
        raise NotLowered("parts of a concatenation are none of its user")


# ---- tiles -----------------------------------------------------------------------------------


@dataclass
class MovePull(Pull):
    """Pulls through ops that move elements."""

    views: Views = field(default_factory=dict[SSAValue, SSAValue])
    parts_of: Mapping[ConcatOp, int] = field(default_factory=dict[ConcatOp, int])
    turn: Scalar = 0
    in_turns: bool = False
    """Whether nothing is loaded before the loop over a core's boxes: it may have none, and what it
    would load for nothing may lie where another one stores."""

    def __post_init__(self) -> None:
        shown = {x: self.arguments[k] for k, x in self.views.items()}
        self.arguments = {**self.arguments, **shown}
        self.loaded = {*self.launch.body.inputs} - {*self.views} | {*shown}

    def _level(self, box: Box) -> int:
        return len(self.open) - 1 if self.in_turns else super()._level(box)

    def move(self, piece: Piece, number: Scalar, turn: Scalar) -> None:
        """Moves one box to its places."""
        self.turn = turn
        box, value = piece.box(number), piece.target.value
        shape, found = tile_shape(box, False), self.expression(value, box)
        if not isinstance(found, v.Tile) or found.shape != shape:
            found = self.filled(shape, value, found)
        argument = self.arguments[piece.target.out]
        for starts, spans in piece.target.places(box):
            self.c.store(v.Subview(argument, starts, spans, (1,) * len(starts)), found)

    def filled(self, shape: v.Shape, like: SSAValue, found: Any) -> v.Tile:
        """A tile of its own that holds a computed expression."""
        target = self.ring(shape, like)
        self.c.assign(target, found)
        return target

    def ring(self, shape: v.Shape, like: SSAValue) -> v.Tile:
        return self._alloc(shape, element_type(like), 2)[self.turn]

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> v.Expression:
        if value in self.views.values():
            return self._load(value, box, column)
        return super().expression(value, box, column)

    def computed(self, op: TensorOp, value: SSAValue, box: Box, column: bool) -> v.Expression:
        match op:
            case TransposeOp():
                return self.transposed(op, box, column)
            case ConcatOp() if op in self.parts_of:
                index = self.parts_of[op]
                return self.expression(op.inputs[index], self.need(op, index, box), column)
            case SliceOp():
                return self.sliced(op, box, tile_shape(box, column), column)
            case SplitOp():
                part = list[SSAValue](op.results).index(value)
                return self.expression(op.input, self.need(op, 0, box, part), column)
            case PadOp():
                return self.padded(op, box, tile_shape(box, column))
            case GatherOp() | GatherElementsOp() | GatherNdOp():
                return self.gathered(op, op.input, box, column)
            case BroadcastToOp():
                found = self.expression(op.input, *self.broadcast_box(op, 0, box, column))
                return self.filled(tile_shape(box, column), value, found)
            case _:
                return super().computed(op, value, box, column)

    def transposed(self, op: TransposeOp, box: Box, column: bool) -> v.Expression:
        needed = self.need(op, 0, box)
        order = op.ints("permutation") or ()
        axes = [order[i] for i in long_dims(box)]
        if axes == sorted(axes):
            return self.expression(op.input, needed, column)
        found = self.expression(op.input, needed)
        tile = (
            found
            if isinstance(found, v.Tile)
            else self.filled(tile_shape(needed, False), op.input, found)
        )
        return self.filled(tile_shape(box, False), op.input, tile.T)

    def sliced(self, op: SliceOp, box: Box, shape: v.Shape, column: bool) -> v.Expression:
        steps = {axis: step for axis, _, _, step in op.bounds() or () if step != 1}
        needed = self.need(op, 0, box)
        if not steps:
            return self.expression(op.input, needed, column)
        if op.input not in self.loaded or any(s is None or s < 0 for s in steps.values()):
            raise NotLowered("a slice with steps is of an input, and forward")
        tile = self.ring(shape, op.input)
        known = tuple(steps.get(i) or 1 for i in range(len(box.sizes)))
        spans = tuple(long_dims(box)) or (len(box.sizes) - 1,)
        self.c.load(tile, v.Subview(self.arguments[op.input], needed.offsets, spans, known), pad=0)
        return tile

    def padded(self, op: PadOp, box: Box, shape: v.Shape) -> v.Expression:
        known = 0 if op.value is None else self.launch.number(op.value)
        if op.mode.data != "constant" or op.input not in self.loaded:
            raise NotLowered("padding is around an input, with a constant")
        if known is None:
            raise NotLowered("the number that is padded with is not in the text")
        needed, tile = self.need(op, 0, box), self.ring(shape, op.input)
        spans = zip(needed.spans, shape_of(op.input), strict=True)
        if any(isinstance(at, int) and not -n < at < d for (at, n), d in spans):
            self.c.fill(tile, known)
        else:
            self.c.load(tile, self.box(op.input, needed), pad=known)
        return tile

    def gathered(self, op: Gathering, source: SSAValue, box: Box, column: bool) -> v.Expression:
        """The elements at indices of `source`: the op's input, or an elementwise op's result
        computed from it."""
        owner, shape = source.owner, tile_shape(box, column)
        if source not in self.loaded and isinstance(owner, Unary):
            inner = self.gathered(op, owner.input, box, column)
            return v.Copied(owner, (inner,), shape, element_type(source))
        if source not in self.loaded:
            raise NotLowered("what is gathered is computed before")
        at, needed = self.need(op, 1, box), self.need(op, 0, box)
        places = at.sizes[:-1] if isinstance(op, GatherNdOp) else at.sizes
        long = [i for i, size in enumerate(places) if size > 1]
        if not long:
            return self.expression(source, self.at_indices(op, at, needed), column)
        if len(long) > 1 or long_dims(box) != long_dims(box)[-1:]:
            raise NotLowered("several rows at indices are no tile")
        dim = long[0]
        count, last = at.sizes[dim], shape_of(op.indices)[dim] - 1
        tile = self.ring((count, 1), source)
        for j in self.c.range(count):
            spans = at.spans
            spans[dim] = (minimum(plus(spans[dim][0], j), last), 1)
            place = Box.of(spans)
            if isinstance(op, GatherElementsOp):  # other places of the input go with the index
                needed = self.need(op, 0, place)
            one = self.box(source, self.at_indices(op, place, needed))
            self.c.load(tile, one, rows=(j, 1, 1))
        return tile if column else self.filled(shape, source, tile.T)

    def at_indices(self, op: Gathering, at: Box, needed: Box) -> Box:
        """The box of one slice: that of the input, at the indices that one box of them has."""
        spans, vectors = needed.spans, isinstance(op, GatherNdOp)
        first = op.batch_dims.value.data if isinstance(op, GatherNdOp) else op.axis.value.data
        for k in range(shape_of(op.indices)[-1] if vectors else 1):
            axis = (first + k) % len(spans)
            offsets = (*at.offsets[:-1], k) if vectors else at.offsets
            spans[axis] = (self.read(op.indices, offsets, shape_of(op.input)[axis]), 1)
        return Box.of(spans)

    def read(self, indices: SSAValue, offsets: Sequence[Scalar], count: int) -> Scalar:
        """The index at a place, of `count`; those below 0 count from the end."""
        constant = self.launch.constant(indices)
        if constant is not None and numel(shape_of(indices)) == 1:
            return (constant_ints(constant.result) or (0,))[0] % count
        if indices not in self.loaded:
            raise NotLowered("indices are read from device memory")
        starts = tuple(offsets) or (0,) * len(self.arguments[indices].shape)
        box = v.Subview(self.arguments[indices], starts, (), (1,) * len(starts))
        return self.c.read_index(box, count)


MOST_BYTES = 32768  # of a tile: twice as long as what reaches the full rate


def lower_fill(launch: Launch) -> Written:
    """Raises NotLowered where ops stand beside it, or its shape is not in the text."""
    op, *others = launch.body.ops
    shape, element = shape_of(op.results[0]), element_type(op.results[0])
    if others or not isinstance(op, FillOp) or launch.body.inputs:
        raise NotLowered("what is filled is computed with, too, or its shape is an operand")
    if not is_static(shape) or not numel(shape) or bitwidth(element) < 8:
        raise NotLowered(f"there are no tiles for graph.fill of {op.results[0].type}")
    size, cores, number = numel(shape), launch.target.vector_cores, op.value.value.data
    unit, most = BLOCK * 8 // bitwidth(element), MOST_BYTES * 8 // bitwidth(element)
    each = min(align_up(ceil(size / cores), unit), max(most, unit))
    count = ceil(size / each)

    def write(c: Tracer, given: Arguments) -> None:
        tile = c.ub(1, each, element)
        c.fill(tile, number)
        for i in c.share(count):
            c.store(given[op.result][i * each :], tile)

    return Written(write, min(count, cores), {op.result: (size,)})
