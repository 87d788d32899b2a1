"""Kernels for the vector cores."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import ceil, prod

from xdsl.ir import SSAValue

from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, numel, shape_of
from ge.dialects.tile.types import BLOCK, Memory
from ge.lowering.kernels.launch import Arguments, Launch, NotLowered, Written
from ge.lowering.kernels.programs import bytes_left
from ge.lowering.kernels.pulling import Pull, is_pointwise
from ge.lowering.tiles.indices import Scalar
from ge.lowering.tiles.tracing import Tracer

LEAST = 1024  # elements of a box, so that instructions are worth their start


def lower_vector(launch: Launch) -> Written:
    """Elementwise ops, whose operands broadcast."""
    body = launch.body
    for op in body.ops:
        if not is_pointwise(op):
            raise NotLowered(f"there are no tiles for {op.name}")
    shape = shape_of(body.outputs[0])
    if any(shape_of(out) != shape for out in body.outputs):
        raise NotLowered("its results differ in shape")
    written = partial(elementwise, launch, shape)
    return written(box_sizes(shape, launch, written))


def elementwise(launch: Launch, shape: Shape, sizes: Shape) -> Written:
    """By boxes of the results."""
    body = launch.body
    count = prod(ceil(d / size) for d, size in zip(shape, sizes, strict=True))
    cores = min(count, launch.target.vector_cores)

    def write(c: Tracer, arguments: Arguments) -> None:
        pull = Pull(c, launch, arguments)
        for i in shared(c, count, cores):
            for out in body.outputs:
                pull.store(out, Box(place(i, shape, sizes), sizes))

    scalars = {v: (1,) for v in (*body.inputs, *body.outputs) if shape_of(v) == ()}
    return Written(write, cores, scalars)


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


def box_sizes(shape: Shape, launch: Launch, written: Callable[[Shape], Written]) -> Shape:
    """The largest boxes of a result that fit, of those that leave something to do for each core, if
    possible two times. Raises NotLowered where none fits."""
    if not shape:
        return ()
    widths = [bitwidth(element_type(v)) for v in values_of(launch)]
    step = BLOCK * 8 // min(widths)  # columns whose rows are multiples of 32 bytes for all
    elements = max(ceil(numel(shape) / launch.target.vector_cores / 2), LEAST)
    room: dict[Memory, int] = {}
    while elements >= 1:
        sizes = cut(shape, elements, step)
        room = bytes_left(launch, written(sizes))
        if min(room.values()) >= 0:
            return sizes
        elements //= 2
    raise NotLowered(f"its smallest tiles need {-room[Memory.UB]} bytes of ub more than there are")


def cut(shape: Shape, elements: int, step: int) -> Shape:
    """Boxes of a shape of about so many elements: parts of rows, or several rows."""
    row = next((i for i in reversed(range(len(shape) - 1)) if shape[i] > 1), None)
    sizes = [1] * len(shape)
    cols = min(shape[-1], elements)
    rows = 1 if row is None else min(shape[row], max(elements // cols, 1))
    if rows > 1 or cols < shape[-1]:
        cols = align_up(cols, step)
    if row is not None:
        sizes[row] = rows
    sizes[-1] = cols
    return tuple(sizes)


def values_of(launch: Launch) -> Iterator[SSAValue]:
    yield from launch.body.inputs
    for op in launch.body.ops:
        yield from op.results
