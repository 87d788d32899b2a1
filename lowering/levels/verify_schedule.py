"""Proof of the streams and events of a program: the checker of the runtime replays them, which
shares no code with the scheduler. A problem that it finds is a bug of the compiler."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import target_for
from ge.runtime.check.schedule import require_schedule
from ge.transforms.rewriting.passes import TargetPass


class VerifySchedulePass(TargetPass):
    """Prove that streams and events lead to an end, in the order that the numbers need, within the
    target's limits and the bytes that the program states."""

    name = "verify-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            require_schedule(op, target_for(main, self.target))
