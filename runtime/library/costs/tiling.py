"""How a kernel is cut into tiles that fit on the core, for the cost model and for the compiler.

The tiling of a kernel is found by a small search over those that fit, by the model of `cost.py`.
What it depends on (sizes, element types, work, target) is the key under which it is kept, so that
equal kernels are searched once in a process; beyond that it is kept in the program's text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.work import Work
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cube import matmuls, round_up
from ge.runtime.library.costs.cube_search import cube_kernel, cube_tiling
from ge.runtime.library.costs.pipes import Pipes
from ge.runtime.library.costs.structure import once
from ge.runtime.library.costs.vector import vector_footprint, vector_kernel, vector_shape
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


@dataclass(frozen=True, slots=True)
class BufferRequest:
    """A buffer that a kernel needs in a memory of the core."""

    name: str
    bytes: int
    copies: int
    # The first and the last step of the tile loop that use it; None: all.
    steps: tuple[int, int] | None
    over: str | None = None  # the buffer whose bytes it takes over at its first step


@once
def core_buffers(
    op: TensorOp | Body, tiling: TilingAttr, target: Target
) -> dict[str, list[BufferRequest]]:
    """The buffers of one core for a kernel with static shapes, by memory."""
    body, buffers, align = Body.of(op), tiling.buffers.data, target.core_alignment
    by_memory: dict[str, list[BufferRequest]] = {name: [] for name in target.core_memories}
    if len(tiling.sizes) == 3:
        kernel = cube_kernel(body, target)
        m, n, k = tiling.sizes
        for memory, name, size, copies in kernel.own_buffers(m, n, k, buffers):
            by_memory[memory].append(BufferRequest(name, round_up(size, align), copies, None))
        parts = kernel.parts(m, n)
    else:
        parts = [(vector_footprint(op, target), tiling.sizes[0], 0)]
    for footprint, tile, columns in parts:
        for p in footprint.placed(tile, buffers, align, columns):
            over = None if p.tile.over is None else footprint.tiles[p.tile.over].name
            by_memory["ub"].append(BufferRequest(p.tile.name, p.bytes, p.copies, p.steps, over))
    return {name: merged(needs) for name, needs in by_memory.items() if needs}


def tile_unit(op: TensorOp | Body, tiling: TilingAttr, target: Target) -> int:
    """What the sizes of a kernel's tiles are multiples of."""
    if len(tiling.sizes) == 3:
        return min(target.cube_tiles, default=FRACTAL)
    kernel = vector_kernel(Body.of(op), target)
    unit = kernel.row if kernel.row > 1 and kernel.rows_fit else FRACTAL
    return lcm(unit, kernel.shape.packed or 1)


def merged(buffers: Iterable[BufferRequest]) -> list[BufferRequest]:
    """One buffer for each name: an input that is read before and after a matmul stays."""
    by_name: dict[str, BufferRequest] = {}
    for b in buffers:
        if (same := by_name.get(b.name)) is not None:
            b = BufferRequest(b.name, max(b.bytes, same.bytes), max(b.copies, same.copies), None)
        by_name[b.name] = b
    return list(by_name.values())


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
