"""Each kernel says where its tiles are in the memories of a core.

    npu_task.kernel @linear_0 on cube tiling <[64, 64, 128] blocks 24 buffers 2> {
becomes
    npu_task.kernel @linear_0 on cube tiling <[64, 64, 128] blocks 24 buffers 2>
        core <l1 [lhs 16384 at [0, 16384], rhs 16384 at [32768, 49152]],
              l0a [lhs 16384 at [0, 16384]], l0b [rhs 16384 at [0, 16384]],
              l0c [sum 16384 at [0]],
              ub [op0 4096 at [0, 4096], in2 256 at [8192], op1 4096 at [8448, 12544]]> {

(`dialects/npu_task/core_plan.py` explains the text.) What a fused op computes inside has no memory
outside the core; these are its lifetimes on it. `runtime/costs/core_tiles.py` says what a tile
needs and when; the offsets come from the packing that the arena uses, in multiples of the target's
alignment on the core. A tiling is chosen by what is live at one time, which the plan may exceed
where holes are left between buffers: then the tile is made smaller. A kernel for which nothing fits
is left without a plan. `ge-check` proves the plans by code of its own (`runtime/check/cores.py`).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.npu_task.core_plan import CoreBuffer, CorePlanAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.runtime.costs.tiling import Needed, core_buffers, tile_unit
from ge.transforms.memory.packing import intervals, pack
from ge.transforms.memory.print_liveness import aligned_rows

SEARCH = 5_000
"""Steps of the search for offsets within a memory where the quick methods find none."""


def place(buffers: Sequence[Needed], limit: int) -> tuple[CoreBuffer, ...] | None:
    """Offsets for the buffers of one memory; None when no packing within the limit was found."""
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


def plan(kernel: KernelOp, tiling: TilingAttr, target: Target) -> CorePlanAttr | None:
    """The plan of a kernel with a tiling; None when it does not fit."""
    found: list[tuple[str, tuple[CoreBuffer, ...]]] = []
    for memory, needed in core_buffers(kernel.main, tiling, target).items():
        if (placed := place(needed, target.core_memories[memory])) is None:
            return None
        found.append((memory, placed))
    return CorePlanAttr(tuple(found))


def smaller(kernel: KernelOp, target: Target) -> Iterator[TilingAttr]:
    """The tiling of a kernel, and smaller ones of the same kind."""
    tiling = kernel.tiling
    assert tiling is not None
    yield tiling
    sizes, blocks = tiling.sizes, tiling.blocks.data
    unit = tile_unit(kernel.main, tiling, target)
    while (largest := max(sizes[:2])) > unit:
        at = sizes.index(largest)
        less = max(largest * 3 // 4 // unit * unit, unit)
        sizes = (*sizes[:at], less, *sizes[at + 1 :])
        yield TilingAttr.of(sizes, blocks, 2)


def plan_kernel(kernel: KernelOp, target: Target) -> None:
    """Give a kernel its plan, with a smaller tile if need be."""
    kernel.core = None
    for tiling in smaller(kernel, target):
        if (found := plan(kernel, tiling, target)) is not None:
            kernel.tiling, kernel.core = tiling, found
            return


def table(kernel: KernelOp, target: Target) -> str:
    """The plan of a kernel for people."""
    assert kernel.tiling is not None
    title = f"@{kernel.sym_name.data} on {kernel.engine.data}, tiles of "
    title += " x ".join(map(str, kernel.tiling.sizes)) + ", "
    title += "double-buffered" if kernel.tiling.buffers.data == 2 else "one buffer"
    if kernel.core is None:
        return f"{title}: no plan fits"
    rows: list[tuple[str, ...]] = [("memory", "buffer", "bytes", "offsets", "steps")]
    used: list[str] = []
    for memory, buffers in kernel.core.data:
        top = max(offset + b.bytes for b in buffers for offset in b.offsets)
        used.append(f"{memory} {top} of {target.core_memories[memory]}")
        for b in buffers:
            steps = "all" if b.steps is None else f"{b.steps[0]} to {b.steps[1]}"
            rows.append((memory, b.name, str(b.bytes), ", ".join(map(str, b.offsets)), steps))
    return "\n".join([f"{title}: {', '.join(used)} bytes", *aligned_rows(rows)])


@dataclass(frozen=True)
class PlanCoreMemoryPass(ModulePass):
    """Plan the memories of a core for each kernel: buffers for its tiles, and their offsets."""

    name = "plan-core-memory"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    print_plans: bool = False
    """Print a table of each kernel's buffers on the standard error."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        target = target_for(op if main is None else main, self.target)
        for kernel in op.ops:
            if not isinstance(kernel, KernelOp) or kernel.tiling is None:
                continue
            if kernel.engine.data in (Engine.CUBE, Engine.VECTOR):
                plan_kernel(kernel, target)
                if self.print_plans:
                    print(table(kernel, target), file=sys.stderr)
