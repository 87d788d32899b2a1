"""How a kernel is cut into tiles that fit on the core, for the cost model and for the compiler.

The tiling of a kernel is found by a small search over those that fit, by the model of `cost.py`.
What it depends on (sizes, element types, work, target) is the key under which it is kept, so that
equal kernels are searched once in a process; beyond that it is kept in the program's text.
"""

from ge.dialects.fused_op import Body
from ge.dialects.interfaces import TensorOp, Work
from ge.dialects.npu_task import Engine, TilingAttr
from ge.dialects.target import Target
from ge.runtime.cube_kernels import cube_kernel, cube_tiling, limits, products
from ge.runtime.pipes import Pipes
from ge.runtime.vector_kernels import VectorKernel, vector_tiling


def static_work(body: Body) -> Work | None:
    """The work of a body whose values have static shapes, else None."""
    return body.work() if body.is_static else None


def choose_tiling(op: TensorOp | Body, engine: Engine, target: Target) -> TilingAttr | None:
    """The tiling with the least time by the cost model among those that fit on the core; None
    for dynamic shapes and for engines that do not tile."""
    body = Body.of(op)
    if static_work(body) is None or engine not in (Engine.CUBE, Engine.VECTOR):
        return None
    if engine is Engine.CUBE and products(body):
        return cube_tiling(cube_kernel(body, target))
    return vector_tiling(VectorKernel(body, target).shape)


def pipes(body: Body, tiling: TilingAttr | None, target: Target) -> Pipes:
    """What a launch of a static body on the cores asks of each pipe, with the tiling given or the
    best one."""
    if products(body) if tiling is None else len(tiling.sizes) == 3:
        kernel = cube_kernel(body, target)
        tiling = tiling or cube_tiling(kernel)
        m, n, k = tiling.sizes
        return kernel.pipes(m, n, k, tiling.blocks.data, tiling.buffers.data == 2)
    shape = VectorKernel(body, target).shape
    tiling = tiling or vector_tiling(shape)
    (tile,) = tiling.sizes
    return shape.pipes(tile, tiling.blocks.data, tiling.buffers.data == 2)


def on_core_bytes(op: TensorOp | Body, tiling: TilingAttr, target: Target) -> dict[str, int]:
    """Bytes that one core needs in each of its memories: l1, l0a, l0b, l0c, ub."""
    body, buffers = Body.of(op), tiling.buffers.data
    if len(tiling.sizes) == 3:
        return cube_kernel(body, target).on_core(*tiling.sizes, buffers)
    width = VectorKernel(body, target).width
    return {"l1": 0, "l0a": 0, "l0b": 0, "l0c": 0, "ub": tiling.sizes[0] * width * buffers}


def fits(usage: dict[str, int], target: Target) -> bool:
    """Whether the on-core bytes of a tiling are within the target's."""
    return all(usage[name] <= limit for name, limit in limits(target).items())
