"""Choice of the lowering that writes the tile program of a kernel: its author's, else one by an op
that it has, else by its engine."""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module

from ge.dialects.fused_op import multiplies
from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.indexing import (
    GatherElementsOp,
    ScatterElementsOp,
    ScatterNdOp,
    TensorScatterOp,
    TopKOp,
)
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.types import Memory
from ge.runtime.library.launch import Launch, NotLowered, Written, by_hand, lower_by_hand
from ge.runtime.library.programs import left_by, program_of

BY_OP: dict[type[TensorOp], str] = {
    AppendOp: "scatter.lower_append",
    AttentionOp: "attention.attention.lower_attention",
    ConvOp: "convolution.convolution.lower_convolution",
    ConvTransposeOp: "convolution.convolution.lower_transposed",
    FillOp: "moves.lower_fill",
    GatherElementsOp: "elements.lower_gather_elements",
    PoolOp: "windows.pooling.lower_pool",
    ScatterElementsOp: "elements.lower_scatter_elements",
    ScatterNdOp: "scatter.lower_scatter",
    TensorScatterOp: "scatter.lower_scatter",
    TopKOp: "rows.vector.lower_top_k",
}
BY_ENGINE: dict[Engine, str] = {
    Engine.CUBE: "matmul.matmul.lower_matmul",
    Engine.VECTOR: "rows.vector.lower_vector",
}


@cache
def lowering_at(place: str) -> Callable[[Launch], Written]:
    """The lowering of a module of this folder: most programs need few of them."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"ge.runtime.library.{module}"), name)


def lowering_of(launch: Launch) -> Callable[[Launch], Written]:
    """The lowering of a launch. Raises NotLowered if there is none, as for a launch that runs on no
    core."""
    engine = launch.kernel.engine.data
    if engine not in BY_ENGINE:
        raise NotLowered(f"nothing is lowered for engine {engine}")
    if by_hand(launch) is not None:
        return lower_by_hand
    if any(numel(shape_of(out)) == 0 for out in launch.body.outputs):
        raise NotLowered("it has no elements")
    kinds = {type(op) for op in launch.body.ops}
    if found := [place for kind, place in BY_OP.items() if kind in kinds]:
        return lowering_at(found[0])
    if engine is Engine.VECTOR and len(launch.body.ops) > 1:
        from ge.runtime.library.rows.side_by_side import lower_side_by_side, parts_of

        if len(parts := parts_of(launch.body)) > 1:
            return partial(lower_side_by_side, parts, lambda part: lowering_of(part)(part))
    from ge.runtime.library.moves import is_repeat, lower_moves, moves
    from ge.runtime.library.rows.simple_ops import lower_plain_ops, needs_plain_ops

    if needs_plain_ops(launch):
        return partial(lower_plain_ops, lambda plain: lowering_of(plain)(plain))
    if any(isinstance(op, ResizeOp) and not is_repeat(op) for op in launch.body.ops):
        return lowering_at("windows.resize.lower_resize")
    rows = any(op.ACCESS is Access.ROWS for op in launch.body.ops)
    if engine is Engine.VECTOR and moves(launch) and not rows:
        return lower_moves
    cube = engine is Engine.CUBE and any(map(multiplies, launch.body.ops))
    return lowering_at(BY_ENGINE[Engine.CUBE if cube else Engine.VECTOR])


def program_that_fits(launch: Launch) -> KernelOp:
    """The program of a launch. Raises NotLowered where there is none, or where a core has no room
    for its buffers."""
    program = program_of(launch, "asked", lowering_of(launch)(launch))
    left = left_by(program, launch.target)
    if full := [memory for memory in Memory if left.get(memory, 0) < 0]:
        raise NotLowered(f"its tiles do not fit into {full[0]}")
    return program
