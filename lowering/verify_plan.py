"""Proof of the program: the checker of the runtime looks at it, which shares no code with what
made it. A problem that it finds is a bug of the compiler."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.diagnostics import error_at
from ge.runtime.sanitizer import check_plan

SHOWN = 5
"""Problems that the error shows."""


@dataclass(frozen=True)
class VerifyPlanPass(ModulePass):
    """Prove that the memory plan and the events of a program are safe in every run."""

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if problems := check_plan(op):
            texts = [p.message for p in problems[:SHOWN]]
            more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
            raise error_at(problems[0].op, f"the plan is not safe: {'; '.join(texts)}{more}")
