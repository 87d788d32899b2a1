"""Memory is planned, checked and certified: three passes in a row.

    %1 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @relu_0 on 1 ins(%0 : ...) outs(%1 : ...)
becomes
    %1 = npu_task.slot arena 0 : memref<64xf32, hbm>
    npu_task.launch @relu_0 on 1 ins(%0 : ...) outs(%1 : ...)
with the attributes of `assign-offsets` and the certificate of `certify-plan`.
"""

from dataclasses import dataclass, fields

from xdsl.passes import ModulePass

from ge.transforms.memory.assign_offsets import AssignOffsetsPass
from ge.transforms.memory.certify_plan import CertifyPlanPass
from ge.transforms.memory.check_capacity import CheckCapacityPass
from ge.transforms.rewriting.passes import PassSequence


@dataclass(frozen=True)
class PlanMemoryPass(PassSequence, AssignOffsetsPass):
    """Give each buffer of @main a fixed place in device memory (assign-offsets), check that the
    device has as much (check-capacity), and state a certificate (certify-plan)."""

    name = "plan-memory"

    limit: int = 0
    """Bytes that the arena may take; 0: what the target has beside weights, inputs and outputs."""

    def parts(self) -> tuple[ModulePass, ...]:
        own = {f.name: getattr(self, f.name) for f in fields(AssignOffsetsPass)}
        capacity = CheckCapacityPass(target=self.target, limit=self.limit)
        return AssignOffsetsPass(**own), capacity, CertifyPlanPass()
