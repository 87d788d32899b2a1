"""Kernels that write one number everywhere: a tile of it, stored as often as it takes."""

from math import ceil

from ge.dialects.graph.creation import FillOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type, is_static, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written

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
