"""Each kernel says where its tiles are in the memories of a core.

    npu_task.kernel @linear_0 on cube tiling <[64, 64, 128] blocks 24 buffers 2> {
becomes
    npu_task.kernel @linear_0 on cube tiling <[64, 64, 128] blocks 24 buffers 2>
        core <l1 [lhs 16384 at [0, 16384], rhs 16384 at [32768, 49152]],
              l0a [lhs 16384 at [0, 16384]], l0b [rhs 16384 at [0, 16384]],
              l0c [sum 16384 at [0]],
              ub [op0 4096 at [0, 4096], in2 256 at [8192], op1 4096 at [8448, 12544]]> {

A kernel for which nothing fits has no plan, and one with a tile program needs none: the program
allocates its buffers, and is proved as it is (`runtime/check/tiles.py`). `ge-check` proves plans by
code of its own (`runtime/check/cores.py`).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.streams import print_result
from ge.dialects.targets.target import Target
from ge.transforms.memory.core_plans import core_plan, core_target, tiled_kernels
from ge.transforms.memory.print_liveness import aligned_rows


def table(kernel: KernelOp, tiling: TilingAttr, target: Target) -> str:
    """The plan of a kernel for people."""
    title = f"@{kernel.sym_name.data} on {kernel.engine.data}, tiles of "
    title += " x ".join(map(str, tiling.sizes)) + ", "
    title += "double-buffered" if tiling.buffers.data == 2 else "one buffer"
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
class AssignCoreOffsetsPass(ModulePass):
    """Give the buffers of each kernel's tiles offsets in the memories of a core."""

    name = "assign-core-offsets"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    print_plans: bool = False
    """Print a table of each kernel's buffers; on standard error where the module is printed."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = core_target(op, self.target)
        for kernel, tiling in tiled_kernels(op):
            kernel.core = core_plan(kernel.main, tiling, target)
            if self.print_plans:
                print_result(table(kernel, tiling, target))
