"""Memory is planned, checked and certified: three passes in a row.

    %1 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @relu_0 on 1 ins(%0 : ...) outs(%1 : ...)
becomes
    %1 = npu_task.slot arena 0 : memref<64xf32, hbm>
    npu_task.launch @relu_0 on 1 ins(%0 : ...) outs(%1 : ...)
with the attributes of `assign-offsets` and the certificate of `certify-plan`.
"""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ge.transforms.memory.assign_offsets import AssignOffsetsPass
from ge.transforms.memory.certify_plan import CertifyPlanPass
from ge.transforms.memory.check_capacity import CheckCapacityPass
from ge.transforms.rewriting.passes import PassSequence


@dataclass(frozen=True)
class PlanMemoryPass(PassSequence):
    """Give each buffer of @main a fixed place in device memory (assign-offsets), check that the
    device has as much (check-capacity), and state a certificate (certify-plan)."""

    name = "plan-memory"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    alignment: int = 0
    """Bytes that offsets are multiples of, a power of two; 0: the target's."""
    reuse: bool = True
    """Whether buffers may share bytes."""
    search: int = 0
    """Steps that a search for the smallest packing may take where the quick methods leave a gap
    to the lower bound."""
    limit: int = 0
    """Bytes that the arena may take; 0: what the target has beside weights, inputs and outputs."""
    no_reuse: tuple[str, ...] = ()
    """Kinds of ops (`matmul`, `fused_op.conv`): what launches with one of them write shares bytes
    with nothing."""
    print_liveness: bool = False
    """Print a table of the buffers that share bytes, with their lifetimes and offsets, on the
    standard error."""
    waits: bool = True
    """Whether tasks may be made to wait for others, for a smaller arena."""

    def parts(self) -> tuple[ModulePass, ...]:
        offsets = AssignOffsetsPass(
            target=self.target,
            alignment=self.alignment,
            reuse=self.reuse,
            search=self.search,
            no_reuse=self.no_reuse,
            print_liveness=self.print_liveness,
            waits=self.waits,
        )
        return offsets, CheckCapacityPass(target=self.target, limit=self.limit), CertifyPlanPass()
