"""How a kernel is cut into tiles that fit on the core, for the cost model and for the compiler.

The tiling of a kernel is found by a small search over those that fit, by the model of `cost.py`.
What it depends on (sizes, element types, work, target) is the key under which it is kept, so that
equal kernels are searched once in a process; beyond that it is kept in the program's text.
"""

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.work import Work
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cube import matmuls
from ge.runtime.library.costs.cube_search import cube_kernel, cube_tiling
from ge.runtime.library.costs.pipes import Pipes
from ge.runtime.library.costs.structure import once
from ge.runtime.library.costs.vector import vector_kernel, vector_shape
from ge.runtime.library.costs.vector_search import vector_tiling


def static_work(body: Body) -> Work | None:
    return body.work() if body.is_static else None


@once
def choose_tiling(op: TensorOp | Body, engine: Engine, target: Target) -> TilingAttr | None:
    """The fastest tiling that fits on the core; None for dynamic shapes and engines that do not
    tile."""
    body = Body.of(op)
    if static_work(body) is None or engine not in (Engine.CUBE, Engine.VECTOR):
        return None
    if engine is Engine.CUBE and matmuls(body):
        return cube_tiling(cube_kernel(body, target))
    return vector_tiling(vector_shape(body, target))


def pipes(body: Body, tiling: TilingAttr | None, target: Target) -> Pipes:
    """What a launch of a static body asks of each pipe, with this tiling or the best one. A tiling
    for more cores than there are runs on those that there are."""
    if matmuls(body) if tiling is None else len(tiling.sizes) == 3:
        kernel = cube_kernel(body, target)
        tiling = tiling or cube_tiling(kernel)
        m, n, k = tiling.sizes
        blocks = min(tiling.blocks.data, target.cube_cores)
        return kernel.pipes(m, n, k, blocks, tiling.buffers.data == 2)
    shape = vector_shape(body, target)
    tiling = tiling or vector_tiling(shape)
    (tile,) = tiling.sizes
    blocks = min(tiling.blocks.data, target.vector_cores)
    return shape.pipes(tile, blocks, tiling.buffers.data == 2)


@once
def on_core_bytes(op: TensorOp | Body, tiling: TilingAttr, target: Target) -> dict[str, int]:
    """Bytes that one core needs in each of its memories."""
    body, buffers = Body.of(op), tiling.buffers.data
    if len(tiling.sizes) == 3:
        return cube_kernel(body, target).on_core(*tiling.sizes, buffers)
    return {
        **dict.fromkeys(target.core_memories, 0),
        "ub": vector_kernel(body, target).on_core(tiling.sizes[0], buffers),
    }


@once
def over_core(op: TensorOp | Body, target: Target) -> str | None:
    """Why even the smallest tile of a static body with matmuls does not fit on a core; None when
    one does, and for other bodies."""
    body = Body.of(op)
    if not matmuls(body):
        return None
    used = on_core_bytes(body, cube_tiling(cube_kernel(body, target)), target)
    for memory, limit in target.core_memories.items():
        if used[memory] > limit:
            return f"a small tile needs {used[memory]} bytes of {limit} in {memory}"
    return None


def fits(usage: dict[str, int], target: Target) -> bool:
    return all([usage[name] <= limit for name, limit in target.core_memories.items()])
