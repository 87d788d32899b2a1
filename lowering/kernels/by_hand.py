"""Kernels by hand (`ge.FusedOp(kernel=gemm.returning(...))`, `@ge.tile.program(MyOp)`): what their
authors wrote is the tile program of their launches."""

from ge.dialects.fused_op import USER_KERNELS, CustomOp
from ge.dialects.support.types import shape_of
from ge.lowering.kernels.launch import Arguments, Launch, NotLowered, Written
from ge.lowering.tiles.api import Returning, program_for
from ge.lowering.tiles.tracing import Tracer


def by_hand(launch: Launch) -> Returning | None:
    """The kernel by hand that a launch is of."""
    if not isinstance(main := launch.kernel.main, CustomOp):
        return program_for(main)
    function = USER_KERNELS.get().functions.get(main.kind.data)
    return function if isinstance(function, Returning) else None


def lower_by_hand(launch: Launch) -> Written:
    """Raises NotLowered for operands that memrefs cannot be."""
    values, kernel = (*launch.body.inputs, *launch.body.outputs), by_hand(launch)
    assert kernel is not None
    if any(not shape_of(v) for v in values):
        raise NotLowered("arguments of a kernel by hand have at least one dimension")

    def write(c: Tracer, given: Arguments) -> None:
        kernel.write(c, [given[v] for v in values])

    return Written(write, kernel.options.get("cores"))
