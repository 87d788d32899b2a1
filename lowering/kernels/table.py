"""Which lowering writes the tile program of a kernel: one row for each kind."""

from collections.abc import Callable

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.npu_task.attributes import Engine
from ge.lowering.kernels.attention import lower_attention
from ge.lowering.kernels.launch import Launch, NotLowered, Written
from ge.lowering.kernels.matmul import lower_matmul
from ge.lowering.kernels.vector import lower_vector

LOWERINGS: dict[Engine, Callable[[Launch], Written]] = {
    Engine.CUBE: lower_matmul,
    Engine.VECTOR: lower_vector,
}


def lowering_of(launch: Launch) -> Callable[[Launch], Written]:
    """Raises NotLowered where there is none."""
    if any(isinstance(op, AttentionOp) for op in launch.body.ops):
        return lower_attention
    engine = launch.kernel.engine.data
    if engine not in LOWERINGS:
        raise NotLowered(f"nothing is lowered for engine {engine}")
    return LOWERINGS[engine]
