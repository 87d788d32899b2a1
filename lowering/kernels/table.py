"""Which lowering writes the tile program of a kernel: its author's, else one by an op that it has,
else by its engine."""

from collections.abc import Callable

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.cache import AppendOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.indexing import ScatterElementsOp, ScatterNdOp, TensorScatterOp, TopKOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.access import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.lowering.kernels.append import lower_append
from ge.lowering.kernels.attention import lower_attention
from ge.lowering.kernels.by_hand import by_hand, lower_by_hand
from ge.lowering.kernels.convolution import lower_convolution
from ge.lowering.kernels.launch import Launch, NotLowered, Written
from ge.lowering.kernels.matmul import lower_matmul
from ge.lowering.kernels.moves import is_repeat, lower_moves, moves
from ge.lowering.kernels.resize import lower_resize
from ge.lowering.kernels.scatter import lower_scatter
from ge.lowering.kernels.scatter_elements import lower_scatter_elements
from ge.lowering.kernels.sliding import lower_sliding
from ge.lowering.kernels.top_k import lower_top_k
from ge.lowering.kernels.transposed import lower_transposed
from ge.lowering.kernels.vector import lower_vector

BY_OP: dict[type[TensorOp], Callable[[Launch], Written]] = {
    AppendOp: lower_append,
    AttentionOp: lower_attention,
    ConvOp: lower_convolution,
    ConvTransposeOp: lower_transposed,
    PoolOp: lower_sliding,
    ScatterElementsOp: lower_scatter_elements,
    ScatterNdOp: lower_scatter,
    TensorScatterOp: lower_scatter,
    TopKOp: lower_top_k,
}
LOWERINGS: dict[Engine, Callable[[Launch], Written]] = {
    Engine.CUBE: lower_matmul,
    Engine.VECTOR: lower_vector,
}


def lowering_of(launch: Launch) -> Callable[[Launch], Written]:
    """Raises NotLowered where there is none."""
    if by_hand(launch) is not None:
        return lower_by_hand
    kinds = {type(op) for op in launch.body.ops}
    if found := [lowering for kind, lowering in BY_OP.items() if kind in kinds]:
        return found[0]
    if any(isinstance(op, ResizeOp) and not is_repeat(op) for op in launch.body.ops):
        return lower_resize
    engine = launch.kernel.engine.data
    rows = any(op.ACCESS is Access.ROWS for op in launch.body.ops)
    if engine is Engine.VECTOR and moves(launch) and not rows:
        return lower_moves
    if engine not in LOWERINGS:
        raise NotLowered(f"nothing is lowered for engine {engine}")
    return LOWERINGS[engine]
