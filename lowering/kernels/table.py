"""Which lowering writes the tile program of a kernel: one row for each kind."""

from collections.abc import Callable

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.npu_task.attributes import Engine
from ge.lowering.kernels.convolution import lower_convolution
from ge.lowering.kernels.launch import Launch, NotLowered, Written
from ge.lowering.kernels.matmul import lower_matmul
from ge.lowering.kernels.vector import lower_vector

LOWERINGS: dict[Engine, Callable[[Launch], Written]] = {
    Engine.CUBE: lower_matmul,
    Engine.VECTOR: lower_vector,
}


def lowering_of(launch: Launch) -> Callable[[Launch], Written]:
    """Raises NotLowered where there is none."""
    if any(isinstance(op, ConvOp) for op in launch.body.ops):
        return lower_convolution
    engine = launch.kernel.engine.data
    if engine not in LOWERINGS:
        raise NotLowered(f"nothing is lowered for engine {engine}")
    return LOWERINGS[engine]
