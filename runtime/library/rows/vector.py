"""Kernels for the vector cores: elementwise ops, reductions, norms, and what is between them.

Results are cut into boxes, which the cores share. Where elements are reduced, a box has whole rows;
where not even one of them fits, its parts come one after the other, once for each reduction and
once for the results.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import ceil, prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from ge.dialects.graph.quantization import Granular
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, shape_of
from ge.dialects.tile.types import BLOCK, Memory
from ge.runtime.library.choices import in_order
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.places import long_dims
from ge.runtime.library.programs import bytes_left, fits
from ge.runtime.library.pulling import Pull
from ge.runtime.library.rows.axes import Rewritten, rewritten

LEAST = 1024  # elements of a box, so that instructions are worth their start
MOST_TURNS = 4  # of a core, where boxes could be as large as they fit: each starts all instructions


def lower_vector(launch: Launch) -> Written:
    new = rewritten(launch)
    return new.original(fitting(new, tilings(new), partial(by_boxes, new)))


class VectorCut(NamedTuple):
    """Sizes of boxes, and how many tiles there are of each for what is loaded and stored."""

    sizes: Shape
    copies: int = 2

    def __str__(self) -> str:
        return f"{self.sizes}" if self.copies > 1 else f"{self.sizes} alone"


def by_boxes(launch: Rewritten, cut: VectorCut) -> Written:
    """By boxes of the results, of these sizes; of a dimension that is reduced they are parts.
    Raises NotLowered where boxes would store elements of a result again."""
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
            """All are computed first: no store holds up what reads the same tile."""
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

    return Written(write, cores)


def shared(c: Tracer, count: int, cores: int) -> Iterable[Scalar]:
    """The numbers below `count` that are this core's. No core is without one."""
    if count > cores:
        return c.share(count)
    return (c.core if count > 1 else 0,)


def place(number: Scalar, shape: Shape, sizes: Shape) -> tuple[Scalar, ...]:
    """Where box `number` is, of those of these sizes that cover a shape; the last dimension is the
    fastest."""
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


def fitting(
    launch: Rewritten, candidates: Iterator[VectorCut], written: Callable[[VectorCut], Written]
) -> Written:
    """The program of the first cut that fits. Raises NotLowered where none do."""
    last: Written | NotLowered = NotLowered("")
    for cut in in_order(candidates):
        try:
            if fits(launch, last := written(cut)):
                return last
        except NotLowered as e:  # smaller ones may have no such tiles
            last = e
    if isinstance(last, NotLowered):
        raise last
    missing = -bytes_left(launch, last)[Memory.UB]
    raise NotLowered(f"its tiles need {missing} bytes of ub more than there are")


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
    """Sizes of boxes, the best first: the largest that leave something to do for each core, if
    possible several times, and then smaller and smaller ones. Before rows that would be loaded
    again are cut into parts, whole ones are tried without a second tile of what comes and goes, as
    CANN's norms have it (ops-nn, norm/rms_norm)."""
    shape, reduced, row = launch.shape, launch.reduced, row_dim(launch)
    last = len(shape) - 1
    spread = prod(d for i, d in enumerate(shape) if i not in reduced)
    cores = launch.target.vector_cores
    each = ceil(spread / cores)  # of what is not reduced, for a core
    length = prod(shape[d] for d in reduced)
    if each * length >= 4 * LEAST:
        each = ceil(each / turns_of(launch, each * length))
    else:
        each = max(each, ceil(LEAST / length))
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
            found[cut] = even(found[cut], shape[cut], spread // shape[cut], cores, unit)
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
            each = ceil(each / 2)
            continue
        if again and all(whole[d] == shape[d] for d in whole):
            yield VectorCut(sizes(each, whole), copies=1)
        longest = row if row in whole and whole[row] > 1 else last
        if longest not in whole or whole[longest] <= (step if longest == last else 1):
            return
        half = ceil(whole[longest] / 2)
        whole[longest] = align_up(half, step) if longest == last else half


def is_loaded_again(launch: Rewritten) -> bool:
    """Whether rows that come in parts are loaded several times: for several reductions, or for
    results that are as long."""
    shapes = [shape_of(out) for out in launch.body.outputs]
    long = any(
        len(s) == len(launch.shape) and any(s[d] > 1 for d in launch.reduced) for s in shapes
    )
    return long or sum(isinstance(op, ReduceOp) for op in launch.body.ops) > 1


def turns_of(launch: Launch, elements: int) -> int:
    """Boxes that a core works on one after the other, of what it has: as the first load and the
    last store are by themselves, as many as full-rate transfers need, and at least two."""
    ends = (*launch.body.inputs, *launch.body.outputs)
    size = elements * max(bitwidth(element_type(v)) for v in ends) // 8
    return max(2, min(size // launch.target.full_rate_bytes, MOST_TURNS))


def columns_of_block(launch: Rewritten) -> int:
    """Columns that have one scale a row: several blocks of them would be spread one by one."""
    found = [launch.shape[-1]]
    for op in launch.body.ops:
        if isinstance(op, Granular) and op.axis is not None and op.block_size.value.data:
            rank = len(shape_of(op.input))  # of scales without blocks the axis may be another one
            if normalize_axis(op.axis.value.data, rank) == rank - 1:
                found.append(op.block_size.value.data)
    return min(found)


def even(size: int, extent: int, others: int, cores: int, unit: int) -> int:
    """A size not below half of this one, and a multiple of `unit` if there is one, with which no
    core has more to do than needed: of a dimension of so many elements, beside so many others."""

    def most(size: int) -> int:
        return ceil(ceil(extent / size) * others / cores) * size

    return min(range(size // unit * unit, (size - 1) // 2, -unit), key=most, default=size)


def values_of(launch: Launch) -> Iterator[SSAValue]:
    yield from launch.body.inputs
    for op in launch.body.ops:
        yield from op.results
