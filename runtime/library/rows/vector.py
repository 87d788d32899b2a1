"""Kernels for the vector cores: elementwise ops, reductions, norms, and the ops between them.

Results are cut into boxes, which the cores share. Where elements are reduced, a box has whole rows;
where not even one of them fits, its parts come one after the other, once for each reduction and
once for the results.

The largest elements of rows, and their places, are computed one after the other:

    for b in share(blocks of rows)
      load x[b..]; left = numbers of columns
      for i in range(k)
        value = largest of those that are left;  place = least number of one that equals it
        store value, place to column i;  left = left without place

Each pass goes over all of the row, so that it is slow where k is large. A nan is the largest there
is. The smallest elements are computed in the same way; where only nan is left, the first one is
taken."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import ceil, nan, prod
from typing import NamedTuple

from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import AndOp, OrOp
from ge.dialects.graph.indexing import TopKOp
from ge.dialects.graph.quantization import Granular
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.support.parameters import highest, lowest
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written, in_order
from ge.runtime.library.programs import first_fitting, halves
from ge.runtime.library.pulling import Pull
from ge.runtime.library.rows.axes import Rewritten, rewritten
from ge.runtime.library.rows.simple_ops import EXACT
from ge.runtime.library.tile_ops import long_dims

LEAST = 1024  # elements of a box, so that instructions are worth their start
MOST_TURNS = 4  # of a core, where boxes could be as large as they fit: each starts all instructions


def lower_vector(launch: Launch) -> Written:
    new = rewritten(launch)
    return new.original(first_fitting(new, in_order(tilings(new)), partial(by_boxes, new)))


class VectorCut(NamedTuple):
    """Sizes of boxes, and the number of tiles of each for loads and stores."""

    sizes: Shape
    copies: int = 2

    def __str__(self) -> str:
        return f"{self.sizes}" if self.copies > 1 else f"{self.sizes} alone"


def by_boxes(launch: Rewritten, cut: VectorCut) -> Written:
    """A program by boxes of the results, of these sizes; of a dimension that is reduced they are
    parts. Raises NotLowered if boxes would store elements of a result again."""
    sizes, copies = cut
    shape, reduced, row = launch.shape, launch.reduced, row_dim(launch)
    along = {i for i, d in enumerate(shape) if sizes[i] < d and i not in reduced}
    extents = [shape_of(out) for out in launch.body.outputs]
    if any(len(e) < len(shape) or e[i] == 1 for e in extents for i in along):
        raise NotLowered("a result has not all dimensions along which others are cut")
    spread = tuple(1 if i in reduced else d for i, d in enumerate(shape))
    count = prod(ceil(d / size) for d, size in zip(spread, sizes, strict=True))
    cores = min(count, launch.target.vector_cores)
    parts = {dim: sizes[dim] for dim in reduced}

    def write(c: Tracer, arguments: Arguments) -> None:
        pull = Pull(c, launch, arguments, parts=parts, copies=copies)

        def box_of(out: SSAValue, offsets: Sequence[Scalar]) -> Box:
            extents = shape_of(out)
            if len(extents) != len(offsets):  # one number
                return Box.whole(extents)
            spans = zip(extents, offsets, sizes, strict=True)
            return Box.of([(at, size) if extent > 1 else (0, 1) for extent, at, size in spans])

        def store(outs: list[SSAValue], offsets: Sequence[Scalar]) -> None:
            """Compute all results, then store them: no store holds up an instruction that reads the
            same tile."""
            boxes = [box_of(out, offsets) for out in outs]
            tiles = [
                pull.result(out, box, long_dims(box) == [row])
                for out, box in zip(outs, boxes, strict=True)
            ]
            for out, box, tile in zip(outs, boxes, tiles, strict=True):
                c.store(pull.box(out, box), tile)

        def in_parts(outs: list[SSAValue], offsets: list[Scalar], dims: Sequence[int]) -> None:
            if not dims:
                store(outs, offsets)
                return
            for i in c.range(ceil(shape[dims[0]] / sizes[dims[0]])):
                offsets[dims[0]] = i * sizes[dims[0]]
                in_parts(outs, offsets, dims[1:])

        # Results come together after all reductions: they may lie over what these read
        together: dict[tuple[int, ...], list[SSAValue]] = {}
        for out in dict.fromkeys(launch.body.outputs):
            long = len(shape_of(out)) == len(shape)
            dims = tuple(d for d in sorted(reduced) if long and sizes[d] < shape_of(out)[d])
            together.setdefault(dims, []).append(out)
        for i in shared(c, count, cores):
            offsets = list(place(i, spread, sizes))
            for dims in sorted(together, key=len):
                in_parts(together[dims], list(offsets), dims)

    return Written(write, cores, engine=Engine.VECTOR)


def shared(c: Tracer, count: int, cores: int) -> Iterable[Scalar]:
    """The numbers below `count` that are this core's. No core is without one."""
    if count > cores:
        return c.share(count)
    return (c.core if count > 1 else 0,)


def place(number: Scalar, shape: Shape, sizes: Shape) -> tuple[Scalar, ...]:
    """The place of box `number`, of those of these sizes that cover a shape; the last dimension is
    the fastest."""
    boxes = [ceil(extent / size) for extent, size in zip(shape, sizes, strict=True)]
    offsets: list[Scalar] = []
    for dim in reversed(range(len(boxes))):
        if boxes[dim] == 1:
            offsets.append(0)
            continue
        is_first = prod(boxes[:dim]) == 1
        at = number if is_first else number % boxes[dim]
        offsets.append(at if sizes[dim] == 1 else at * sizes[dim])
        number = 0 if is_first else number // boxes[dim]
    return tuple(reversed(offsets))


# ---- sizes -----------------------------------------------------------------------------------


def row_dim(launch: Rewritten) -> int | None:
    """The dimension that the rows of tiles are of; columns are of the last one. It is reduced where
    that is needed in a tile; where a dimension outside of others is, and results alone are computed
    of the reduction, tiles are added, whose rows are of one that stays."""
    last = len(launch.shape) - 1
    inner = [d for d in launch.reduced if d != last]
    outputs = [shape_of(out) for out in launch.body.outputs]
    within = [d for d in range(max(inner, default=last) + 1, last) if launch.shape[d] > 1]
    if inner and within and all(len(s) == last + 1 and s[d] == 1 for s in outputs for d in inner):
        return max(within)
    others = inner or [d for d in range(last) if launch.shape[d] > 1 and d not in launch.reduced]
    return max(others, default=None)


def tilings(launch: Rewritten) -> Iterator[VectorCut]:
    """Sizes of boxes, the best first: the largest that leave work for each core, if possible
    several times, and then smaller and smaller ones. Before rows that would be loaded again are cut
    into parts, whole ones are tried without a second tile of loads and stores, as CANN's norms have
    it (ops-nn, norm/rms_norm)."""
    shape, reduced, row = launch.shape, launch.reduced, row_dim(launch)
    last = len(shape) - 1
    spread = prod(d for i, d in enumerate(shape) if i not in reduced)
    cores = launch.target.vector_cores
    whole_each, turns = work_of(launch, spread, prod(shape[d] for d in reduced))
    each = ceil(whole_each / turns)
    in_tile = {last} if row is None else {row, last}
    whole = {d: shape[d] for d in in_tile & reduced}
    free = [d for d in sorted(in_tile - reduced, reverse=True)]
    step = BLOCK * 8 // min(bitwidth(element_type(v)) for v in values_of(launch))
    block = step * max(launch.target.gm_block_bytes // BLOCK, 1)

    columns = columns_of_block(launch)
    again = bool(whole) and is_loaded_again(launch)
    turned = any(isinstance(op, TransposeOp) for op in launch.body.ops)
    accumulated = any(isinstance(op, CumulativeOp) for op in launch.body.ops)

    def sizes(elements: int, parts: dict[int, int]) -> Shape:
        found = [1] * len(shape)
        for dim, size in parts.items():
            found[dim] = size
        for dim in free:
            most = min(shape[dim], columns) if dim == last else shape[dim]
            found[dim] = max(min(most, elements), 1)
            elements //= found[dim]
        cut = next((d for d in free if found[d] < shape[d]), None)
        if cut is not None:
            unit = block if cut == last and found[cut] >= LEAST else 1
            others, beside = spread // shape[cut], prod(found) // found[cut]
            found[cut] = even(found[cut], shape[cut], others, cores, unit, beside)
        if row is not None and turned and found[row] > 1:
            found[row] = align_up(found[row], step)
        rows = 1 if row is None else found[row]
        if accumulated and shape[last] > 1 and row is not None:
            found[row], found[last] = (align_up(found[d], step) for d in (row, last))
        elif rows > 1 and found[last] > 1:
            found[last] = align_up(found[last], step)
        return tuple(found)

    while True:
        yield VectorCut(sizes(each, whole))
        if each > (step if last in free else 1):
            each, turns = next_turns(each, turns, whole_each)
            continue
        if again and all(whole[d] == shape[d] for d in whole):
            yield VectorCut(sizes(each, whole), copies=1)
        longest = row if row in whole and whole[row] > 1 else last
        if longest not in whole or whole[longest] <= (step if longest == last else 1):
            return
        half = ceil(whole[longest] / 2)
        whole[longest] = align_up(half, step) if longest == last else half


def is_loaded_again(launch: Rewritten) -> bool:
    """True if rows that come in parts are loaded several times: for several reductions, or for
    results that are as long."""
    shapes = [shape_of(out) for out in launch.body.outputs]
    long = any(
        len(s) == len(launch.shape) and any(s[d] > 1 for d in launch.reduced) for s in shapes
    )
    return long or sum(isinstance(op, ReduceOp) for op in launch.body.ops) > 1


def work_of(launch: Launch, spread: int, length: int) -> tuple[int, int]:
    """Elements of the dimensions that are not reduced for a core, each with `length` others, and
    the number of boxes that it works on one after the other."""
    each = ceil(spread / launch.target.vector_cores)
    if each * length < 4 * LEAST:
        return max(each, ceil(LEAST / length)), 1
    return each, turns_of(launch, each * length)


def turns_of(launch: Launch, elements: int) -> int:
    """Number of boxes that a core works on one after the other: as the first load and the last
    store are by themselves, as many as full-rate transfers need, and at least two."""
    ends = (*launch.body.inputs, *launch.body.outputs)
    size = elements * max(bitwidth(element_type(v)) for v in ends) // 8
    return max(2, min(size // launch.target.full_rate_bytes, MOST_TURNS))


def next_turns(each: int, turns: int, of: int) -> tuple[int, int]:
    """The next smaller size of boxes than `each`, and their number, of so many: a quarter more, as
    boxes should be large."""
    while ceil(of / turns) >= each:
        turns += ceil(turns / 4)
    return ceil(of / turns), turns


def columns_of_block(launch: Rewritten) -> int:
    """Columns that have one scale a row: several blocks of them would be spread one by one."""
    found = [launch.shape[-1]]
    for op in launch.body.ops:
        if isinstance(op, Granular) and op.axis is not None and op.block_size.value.data:
            rank = len(shape_of(op.input))  # of scales without blocks the axis may be another one
            if normalize_axis(op.axis.value.data, rank) == rank - 1:
                found.append(op.block_size.value.data)
    return min(found)


def even(size: int, extent: int, others: int, cores: int, unit: int, beside: int) -> int:
    """A size not below half of this one, and a multiple of `unit` if there is one, with which no
    core has more to do than needed: of a dimension of so many elements, beside so many others; a
    box has as many elements `beside` each of it, and takes its starts, too."""

    def most(size: int) -> int:
        return ceil(ceil(extent / size) * others / cores) * (size * beside + LEAST)

    longest, shortest = size // unit * unit, align_up((size - 1) // 2 + 1, unit)
    if longest < shortest:
        return size
    fewest, boxes = ceil(extent / longest), ceil(extent / shortest)
    if (longest - shortest) // unit <= boxes - fewest:
        return min(range(longest, shortest - 1, -unit), key=most)
    sizes = (align_up(ceil(extent / count), unit) for count in range(fewest, boxes + 1))
    # the shortest of each number of boxes; of sizes that are as good the longest
    return min((*(s for s in sizes if shortest <= s <= longest), shortest), key=most)


def values_of(launch: Launch) -> Iterator[SSAValue]:
    yield from launch.body.inputs
    for op in launch.body.ops:
        yield from op.results


MOST_PASSES = 1024


def lower_top_k(launch: Launch) -> Written:
    """The first elements of sorted rows."""
    op = launch.only(TopKOp)
    shape, count = shape_of(op.input), shape_of(op.values)[-1]
    check(op)
    lines, cols = prod(shape[:-1]), shape[-1]
    rows = min(ceil(lines / launch.target.vector_cores), 64)
    return first_fitting(launch, halves(rows), partial(by_rows, launch, op, (lines, cols, count)))


def check(op: TopKOp) -> None:
    """Raises NotLowered if there is no program for it here."""
    shape, element, count = shape_of(op.input), element_type(op.input), op.ints("k")
    if count is None or numel(shape) == 0 or count[0] == 0:
        raise NotLowered("how many elements are found is not in the text")
    if normalize_axis(op.axis.value.data, len(shape)) != len(shape) - 1:
        raise NotLowered("elements are sorted along another dimension than the last")
    if count[0] > MOST_PASSES or shape[-1] > EXACT:
        raise NotLowered(f"{count[0]} elements of {shape[-1]} would each pass over the whole row")
    if bitwidth(element) < 8:
        raise NotLowered("elements of less than a byte are not sorted")


def by_rows(launch: Launch, op: TopKOp, sizes: tuple[int, int, int], rows: int) -> Written:
    """A program with so many rows at a time; `sizes`: lines, columns, and the k elements of each
    line."""
    lines, cols, count = sizes
    blocks = ceil(lines / rows)
    cores = min(blocks, launch.target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        passes = Passes(c, op, given, rows, cols)
        for i in shared(c, blocks, cores):
            passes.write(i, i * rows, count)

    shapes: dict[SSAValue, Shape] = {op.input: (lines, cols)}
    return Written(write, cores, shapes | dict.fromkeys(op.results, (lines, count)))


class Passes:
    """The program, while it is written."""

    def __init__(self, c: Tracer, op: TopKOp, given: Arguments, rows: int, cols: int) -> None:
        self.c, self.op, self.given, self.cols = c, op, given, cols
        element = element_type(op.input)
        wide = align_up(cols, BLOCK * 8 // min(bitwidth(element), 32))
        self.source = c.ub(rows, wide, element, copies=2)
        self.candidates = c.ub(rows, wide, element)
        self.left, self.hits = c.ub(rows, wide, f32), c.ub(rows, wide, f32)
        self.value = c.ub(rows, 1, element, copies=2)
        self.first = c.ub(rows, 1, f32)
        self.place, self.stored = c.ub(rows, 1, f32), c.ub(rows, 1, i64, copies=2)

    def write(self, turn: Scalar, line: Scalar, count: int) -> None:
        c, op, none = self.c, self.op, float(self.cols)
        x = c.load(self.source[turn], self.given[op.input][line:, 0:], pad=0)
        numbers = v.cast(v.columns(self.left.shape[1]), f32)
        c.assign(self.left, v.where(numbers < none, numbers, none))
        for i in c.range(count):
            self.find(x, self.value[i], none)
            c.store(self.given[op.values][line:, i], self.value[i])
            c.assign(self.stored[i], v.cast(self.place, i64))
            c.store(self.given[op.indices][line:, i], self.stored[i])
            self.left[:] = v.where(v.compare("eq", self.left, self.place), none, self.left)

    def find(self, x: v.Tile, value: v.Tile, none: float) -> None:
        """The next element of each row, and its place."""
        c, is_largest = self.c, bool(self.op.largest.value.data)
        worst = (lowest if is_largest else highest)(x.element)
        worst = float(not is_largest) if x.element == i1 else worst
        is_left, last = self.left < none, is_float(x.element) and not is_largest  # where nan is
        is_number = v.binary(AndOp, is_left, v.compare("eq", x, x)) if last else is_left
        self.candidates[:] = v.where(is_number, x, worst)
        c.assign(value, (v.rowmax if is_largest else v.rowmin)(self.candidates))
        equal = v.compare("eq", x, value)
        if is_float(x.element) and is_largest:
            equal = v.binary(OrOp, equal, v.compare("ne", x, x))
        self.hits[:] = v.where(v.binary(AndOp, is_left, equal), self.left, none)
        self.place[:] = v.rowmin(self.hits)
        if last:
            self.first[:] = v.rowmin(self.left)
            value[:] = v.where(self.place < none, value, nan)
            self.place[:] = v.where(self.place < none, self.place, self.first)
