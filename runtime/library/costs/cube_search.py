"""The kernel of a body with matmuls, by what its target is, and the fastest tiling for it."""

from dataclasses import replace
from functools import lru_cache

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike
from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.work import Work
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.cube import AttentionKernel, CubeKernel, round_up
from ge.runtime.library.costs.split_cores import SplitAttentionKernel, SplitCubeKernel
from ge.runtime.library.costs.structure import once


@once
def cube_kernel(op: TensorOp | Body, target: Target) -> CubeKernel:
    """The kernel of a body that has matmuls. Raises ValueError for a dynamic shape."""
    body = Body.of(op)
    main = max(body.ops, key=lambda op: body.work_of(op).macs)
    attends = isinstance(main, AttentionLike)
    if target.split_cores:
        return (SplitAttentionKernel if attends else SplitCubeKernel).of(body, target)
    return (AttentionKernel if attends else CubeKernel).of(body, target)


@lru_cache(maxsize=1024)
def tiles_by_cycles(kernel: CubeKernel) -> list[tuple[float, int, tuple[int, int, int]]]:
    """The candidates in the order of their cycles, larger tiles first. Kernels that differ in what
    surrounds the matmuls share them."""
    return sorted((kernel.cycles(*tile), -tile[0] * tile[1], tile) for tile in kernel.candidates())


@lru_cache(maxsize=8192)
def cube_tiling(kernel: CubeKernel) -> TilingAttr:
    """The fastest tiling. Tiles are tried in the order of the time of the core alone, a lower
    bound, so that most need not be looked at."""
    t = kernel.target
    best, fastest = float("inf"), None
    lhs, rhs = replace(kernel.lhs, vector=0.0), replace(kernel.rhs, vector=0.0)
    bare = replace(kernel, work=Work(), vector=0.0, epilogue=None, prologue=None)
    alone = replace(bare, lhs=lhs, rhs=rhs)
    for cycles, _, (m, n, k) in tiles_by_cycles(alone):
        if cycles / t.cycles_per_us >= best:
            break
        if not kernel.fits_ub(m, n, k):
            continue
        blocks = kernel.blocks(m, n)
        double = kernel.loads(m, n, k, blocks) > 1
        total = kernel.pipes(m, n, k, blocks, double).time(t).total_us
        if total < best:
            best, fastest = total, (m, n, k)
    if fastest is not None:
        return kernel.tiling(*fastest)
    # No tile fits twice where there are more operands, or longer heads, than the core has memory
    # for: take one of the smallest once, of the cube's own size if need be.
    size = min(t.cube_tiles, default=FRACTAL)
    wide = round_up(kernel.p.n, size) if kernel.whole_rows else size
    used = kernel.on_core(size, wide, FRACTAL, 1)
    if any(used[name] > limit for name, limit in t.core_memories.items()):
        size = FRACTAL
        wide = round_up(kernel.p.n, size) if kernel.whole_rows else size
    return TilingAttr.of((size, wide, FRACTAL), kernel.blocks(size, wide), 1)
