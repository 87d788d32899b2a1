"""Tiles of a kernel become smaller until its buffers have offsets on a core.

    npu_task.kernel @region_0 on vector tiling <[2048] blocks 24 buffers 2> {
becomes
    npu_task.kernel @region_0 on vector tiling <[1536] blocks 24 buffers 2> {

A tiling is chosen by what is live at one time, which the offsets may exceed where they leave holes
between buffers. A kernel keeps its tiling where no smaller one has a plan either.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.tiling import tile_unit
from ge.transforms.memory.core_plans import core_plan, core_target, tiled_kernels


def smaller_tilings(kernel: KernelOp, tiling: TilingAttr, target: Target) -> Iterator[TilingAttr]:
    """Tilings of the same kind with smaller tiles, the largest first."""
    sizes, blocks = tiling.sizes, tiling.blocks.data
    unit = tile_unit(kernel.main, tiling, target)
    while (largest := max(sizes[:2])) > unit:
        at = sizes.index(largest)
        less = max(largest * 3 // 4 // unit * unit, unit)
        sizes = (*sizes[:at], less, *sizes[at + 1 :])
        yield TilingAttr.of(sizes, blocks, 2)


@dataclass(frozen=True)
class FitTilingsPass(ModulePass):
    """Make the tiles of kernels smaller whose buffers have no place in the memories of a core."""

    name = "fit-tilings"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = core_target(op, self.target)
        for kernel, tiling in tiled_kernels(op):
            main = kernel.main
            if core_plan(main, tiling, target) is None:
                smaller = smaller_tilings(kernel, tiling, target)
                fitting = (t for t in smaller if core_plan(main, t, target) is not None)
                kernel.tiling = next(fitting, tiling)
