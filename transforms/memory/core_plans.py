"""Plans of a core's memories: offsets for the buffers that a kernel's tiles need.

What a fused op computes inside has no memory outside the core; these are its lifetimes on it.
`runtime/library/costs/core_tiles.py` says what a tile needs and when, in multiples of the target's
alignment on the core; the offsets come from the packing that the arena uses.
"""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.npu_task.core_plan import CoreBuffer, CorePlanAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.costs.structure import once
from ge.runtime.library.costs.tiling import BufferRequest, core_buffers
from ge.transforms.memory.packing import intervals, pack

SEARCH = 5_000
"""Steps of the search for offsets within a memory where the quick methods find none."""


def place(buffers: Sequence[BufferRequest], limit: int) -> tuple[CoreBuffer, ...] | None:
    """Offsets for the buffers of one memory; None where no packing keeps the limit."""
    last = max((b.steps[1] for b in buffers if b.steps), default=0)
    owner: dict[str, str] = {}
    items: dict[tuple[str, int], tuple[int, int, int]] = {}
    for b in buffers:
        begin, end = b.steps or (0, last)
        if b.over is not None:  # one item with what it takes the bytes of
            owner[b.name] = owner.get(b.over, b.over)
            size, start, _ = items[owner[b.name], 0]
            items[owner[b.name], 0] = size, start, end
        else:
            items.update({(b.name, i): (b.bytes, begin, end) for i in range(b.copies)})
    sizes, starts, ends = zip(*items.values(), strict=True)
    problem = intervals(sizes, starts, ends)
    if problem.lower_bound > limit:
        return None
    packing = pack(problem)
    if packing.peak > limit:
        packing = pack(problem, SEARCH)
    if packing.peak > limit:
        return None
    offsets = dict(zip(items, packing.offsets, strict=True))
    return tuple(
        CoreBuffer(
            b.name,
            b.bytes,
            tuple(offsets[owner.get(b.name, b.name), i] for i in range(b.copies)),
            b.steps,
        )
        for b in buffers
    )


@once
def core_plan(op: TensorOp | Body, tiling: TilingAttr, target: Target) -> CorePlanAttr | None:
    """The plan of a kernel of `op`; None when it does not fit."""
    memories: list[tuple[str, tuple[CoreBuffer, ...]]] = []
    for memory, needed in core_buffers(op, tiling, target).items():
        if (placed := place(needed, target.core_memories[memory])) is None:
            return None
        memories.append((memory, placed))
    return CorePlanAttr(tuple(memories))


def core_target(module: ModuleOp, name: str) -> Target:
    return target_for(main_function(module) or module, name)


def tiled_kernels(module: ModuleOp) -> Iterator[tuple[KernelOp, TilingAttr]]:
    """The kernels that run on cores in tiles, but for those with a tile program, which says itself
    what lies where on a core."""
    for op in module.ops:
        if not isinstance(op, KernelOp) or op.tiles is not None:
            continue
        if op.engine.data in (Engine.CUBE, Engine.VECTOR):
            if (tiling := op.tiling) is not None:
                yield op, tiling
