"""Proof of the streams and events of a program: the checker of the runtime replays them, which
shares no code with the scheduler. A problem that it finds is a bug of the compiler."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import target_for
from ge.runtime.check.schedule import require_schedule


@dataclass(frozen=True)
class VerifySchedulePass(ModulePass):
    """Prove that streams and events lead to an end, in the order that the numbers need, within the
    target's limits and the bytes that the program states."""

    name = "verify-schedule"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            require_schedule(op, target_for(main, self.target))
