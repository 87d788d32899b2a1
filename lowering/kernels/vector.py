"""Kernels for the vector cores."""

from math import ceil

from ge.dialects.support.access import Access
from ge.dialects.support.types import element_type, numel, shape_of
from ge.lowering.kernels.launch import Arguments, Launch, NotLowered, Written
from ge.lowering.tiles.tracing import Tracer
from ge.lowering.tiles.values import Apply

TILE = 4096  # elements of a tile


def lower_vector(launch: Launch) -> Written:
    """One elementwise op on operands of one shape."""
    op, body = launch.kernel.main, launch.body
    (out,) = body.outputs
    shapes = {shape_of(v) for v in (*body.inputs, out)}
    if len(body.ops) != 1 or op.ACCESS is not Access.POINTWISE or len(shapes) != 1:
        raise NotLowered(f"there is none for {op.name}")
    size, operands = numel(shape_of(out)), op.operands
    tiles = ceil(size / TILE)

    def write(c: Tracer, arguments: Arguments) -> None:
        rings = [c.ub(1, TILE, element_type(v), copies=2) for v in operands]
        result = c.ub(1, TILE, element_type(out), copies=2)
        for i in c.share(tiles):
            for ring, value in zip(rings, operands, strict=True):
                c.load(ring[i], arguments[value][i * TILE :], pad=1)
            args = tuple(ring[i] for ring in rings)
            result[i] = Apply(type(op), args, (1, TILE), element_type(out))
            c.store(arguments[out][i * TILE :], result[i])

    flat = {v: (size,) for v in (*body.inputs, out)}
    return Written(write, min(tiles, launch.target.vector_cores), flat)
