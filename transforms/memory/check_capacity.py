"""Refuse a memory plan that takes more memory than it may, and show what is live at the peak.

    func.func @main(...) attributes {npu_task.arena_bytes = 1536 : i64, ...} {
stays as it is where the device has as much; else

    error: the program needs 68719478272 bytes (arena ...), 910_merged has 68719476736
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ge.dialects.npu_task.program_info import figure
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.transforms.memory.over_limit import OverLimitError, describe_peak, size_text
from ge.transforms.memory.planned_slots import lives_of_slots


def plan_figure(func: FuncOp, name: str) -> int:
    """A number of the plan, in bytes. Raises GeError where there is none."""
    if (stated := figure(func, name)) is None:
        raise error_at(func, f"@main states no npu_task.{name}", "run assign-offsets first")
    return stated


def check_capacity(func: FuncOp, target: Target, limit: int) -> None:
    """Raises OverLimitError for more than `limit` bytes (0: no limit), or than the target has."""
    names = ("arena_bytes", "weight_bytes", "io_bytes", "lower_bound_bytes", "alignment")
    arena, weights, io, bound, alignment = (plan_figure(func, name) for name in names)
    kept = figure(func, "state_bytes") or 0
    room = target.hbm_bytes - weights - io - kept
    most = min(room, limit or room)
    if arena <= most:
        return
    message = f"the arena needs {arena} bytes, its limit is {limit}"
    if arena > room:
        states = f", state {kept}" if kept else ""
        message = (
            f"the program needs {arena + weights + io + kept} bytes (arena {arena}, weights "
            f"{weights}, inputs and outputs {io}{states}), {target.name} has {target.hbm_bytes}"
        )
    if weights > target.hbm_bytes:
        peak, has = [], size_text(target.hbm_bytes)
        message = f"the weights alone take {size_text(weights)}, {target.name} has {has}"
    else:
        peak = describe_peak(func, lives_of_slots(func), alignment)
    raise OverLimitError(func, message, peak, arena, bound, most)


@dataclass(frozen=True)
class CheckCapacityPass(ModulePass):
    """Refuse a plan of @main that takes more bytes than a limit, or than the target has."""

    name = "check-capacity"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    limit: int = 0
    """Bytes that the arena may take; 0: what the target has beside weights, inputs and outputs."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.limit < 0:
            raise GeError(f"the limit is a number of bytes, not {self.limit}")
        if (main := main_function(op)) is not None:
            check_capacity(main, target_for(main, self.target), self.limit)
