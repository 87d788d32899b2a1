"""The memories of a core are planned: two passes in a row.

    npu_task.kernel @add_0 on vector tiling <[32] blocks 1 buffers 2> {
becomes
    npu_task.kernel @add_0 on vector tiling <[16] blocks 1 buffers 2>
        core <ub [in0 64 at [0, 64], in1 64 at [128, 192], op0 64 at [256, 320]]> {
"""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ge.transforms.memory.assign_core_offsets import AssignCoreOffsetsPass
from ge.transforms.memory.fit_tilings import FitTilingsPass
from ge.transforms.rewriting.passes import PassSequence


@dataclass(frozen=True)
class PlanCoreMemoryPass(PassSequence):
    """Make the tiles of kernels smaller that have no plan of the core's memories (fit-tilings), and
    give each kernel its plan (assign-core-offsets)."""

    name = "plan-core-memory"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    print_plans: bool = False
    """Print a table of each kernel's buffers on the standard error."""

    def parts(self) -> tuple[ModulePass, ...]:
        return FitTilingsPass(self.target), AssignCoreOffsetsPass(self.target, self.print_plans)
