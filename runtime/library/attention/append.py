"""Appending to a cache that stays where it is: the rows alone are written.

    %3 = graph.append %cache, %rows at %length axis 2      rows [b, h, i] to [b, h, length - n + i]

What computes the rows is computed by tiles. The place is read from device memory; where rows lie in
blocks, so is the block, and no two blocks are in the same place.
"""

from math import ceil, prod

from xdsl.ir import SSAValue

from ge.dialects.graph.cache import AppendOp
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.pulling import Pull
from ge.runtime.library.rows.vector import place, shared

MOST = 8192  # elements of a box


def lower_append(launch: Launch) -> Written:
    """Rows that are appended to a cache in device memory."""
    (op,) = (op for op in launch.body.ops if isinstance(op, AppendOp))
    numbers = [v for v in (op.length, op.table) if v is not None]
    if not {op.cache, *numbers} <= {*launch.body.inputs} or [*launch.body.outputs] != [op.result]:
        raise NotLowered("there is none for what appends to a cache that is computed")
    rank, rows = len(shape_of(op.cache)), shape_of(op.rows)
    axis = normalize_axis(op.axis.value.data, rank)
    if axis == rank - 1:
        raise NotLowered("elements are appended within rows")
    sizes = boxes(op, axis)
    count = prod(ceil(d / n) for d, n in zip(rows, sizes, strict=True))
    cores = min(count, launch.target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        pull = Pull(c, launch, given)
        for i in shared(c, count, cores):
            offsets = place(i, rows, sizes)
            tile = pull.tile(op.rows, Box(offsets, sizes))
            to = list(offsets)
            to[axis] = row_of(c, op, given, offsets[axis], axis)
            c.store(pull.box(op.result, Box(tuple(to), sizes)), tile)

    shapes: dict[SSAValue, Shape] = {v: (numel(shape_of(v)),) for v in numbers}
    return Written(write, cores, shapes)


def boxes(op: AppendOp, axis: int) -> Shape:
    """Sizes of boxes of the rows: of one row of the cache, and along its longest other dimension if
    rows of tiles have multiples of 32 bytes."""
    rows, narrow = shape_of(op.rows), bitwidth(element_type(op.rows))
    sizes = [1] * len(rows)
    sizes[-1] = min(rows[-1], MOST)
    others = [d for d in range(len(rows) - 1) if d != axis]
    if others and sizes[-1] * narrow % (8 * BLOCK) == 0:
        longest = max(others, key=lambda d: rows[d])
        sizes[longest] = min(rows[longest], max(MOST // sizes[-1], 1))
    return tuple(sizes)


def row_of(c: Tracer, op: AppendOp, given: Arguments, number: Scalar, axis: int) -> Scalar:
    """Where in the cache a row belongs."""
    size, count = shape_of(op.cache)[axis], shape_of(op.rows)[axis]
    end = c.now(c.read(given[op.length][0], below=size + 1, least=count))
    row = c.now(end - count + number)
    if op.table is None:
        return row
    table: Argument = given[op.table]
    block = size // table.shape[0]
    place = c.read(table[row // block], below=table.shape[0], distinct=True)
    return c.now(place * block + row % block)
