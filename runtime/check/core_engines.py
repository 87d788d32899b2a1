"""Which engine may run a kernel: matmuls the cube, shape arithmetic the host, the rest the vector
cores."""

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.npu_task.attributes import Engine, is_dynamic
from ge.dialects.npu_task.ops import KernelOp


def engine_problem(kernel: KernelOp) -> str | None:
    """Why the engine of a kernel cannot run it."""
    engine, op = kernel.engine.data, kernel.main
    members = op.members if isinstance(op, FusedOp) else [op]
    work = op.work()
    matmul = any(o.ALWAYS_MACS for o in members) if work is None else work.macs > 0
    if engine is Engine.DMA:
        return "DMA copies between host and device, and runs no kernel"
    if matmul and engine is not Engine.CUBE:
        return f"matmuls run on the cube, not on {engine}"
    multiplies = matmul or (work is None and any(o.IS_MATMUL for o in members))
    if engine is Engine.CUBE and not multiplies:
        return f"the cube computes matmuls, and there are none in {op.name}"
    shapes = all(is_shape_arithmetic(o) for o in members)
    if engine is Engine.HOST and not shapes and not any(is_dynamic(r.type) for r in op.results):
        return f"the host does shape arithmetic only, not {op.name}"
    return None
