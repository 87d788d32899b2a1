"""Proof of the program: the checker of the runtime looks at it, which shares no code with what
made it. A problem that it finds is a bug of the compiler."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.runtime.check.memory import require_safe


class VerifyPlanPass(ModulePass):
    """Prove that the memory plan and the events of a program are safe in every run."""

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        require_safe(op)
