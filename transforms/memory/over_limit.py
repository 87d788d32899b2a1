"""The error about a program that needs too much memory, with the buffers live at the peak."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import align_up, element_type, shape_of
from ge.transforms.analysis.aliasing import users_of
from ge.transforms.analysis.liveness import Lifetime, Liveness

SHOWN = 10  # buffers


class OverLimitError(GeError):
    """A plan that takes more bytes than it may. `limit` is below 0 where even an empty arena is too
    much."""

    def __init__(
        self, func: FuncOp, message: str, peak: list[str], arena: int, lower_bound: int, limit: int
    ) -> None:
        hint = "use smaller shapes, or a target with more memory"
        super().__init__(message, str(location_of(func)), hint, peak)
        self.arena, self.lower_bound, self.limit = arena, lower_bound, limit


def size_text(size: int) -> str:
    """Bytes for people."""
    gib = 1 << 30
    return f"{size / gib:.1f} GiB" if size >= gib else f"{size / (1 << 20):.1f} MiB"


def describe_peak(func: FuncOp, liveness: Liveness, alignment: int) -> list[str]:
    """Lines about the task at which the most bytes are live, and the largest buffers there."""
    live = liveness.live_at_peak(alignment)
    if not live:
        return []
    order = {op: i for i, op in enumerate(func.walk())}

    def users(life: Lifetime) -> list[Operation]:
        return sorted(users_of(life.buffer), key=lambda op: order.get(op, -1))

    step = users(max(live, key=lambda b: b.start))[0]
    total = sum(b.bytes for b in live)
    padded = sum(align_up(b.bytes, alignment) for b in live)
    text = f"the peak is at {describe(step)}, with {len(live)} buffers of {total} bytes"
    lines = [f"{text}{f', {padded} with padding to {alignment}' * (padded > total)}:"]
    live.sort(key=lambda b: (-b.bytes, b.start))
    for life in live[:SHOWN]:
        ops = users(life)
        shape = "x".join(map(str, (*shape_of(life.buffer), element_type(life.buffer))))
        lines.append(
            f"{life.bytes} bytes ({shape}): made by {describe(ops[0])}, "
            f"last used by {describe(ops[-1])}"
        )
    if rest := live[SHOWN:]:
        lines.append(f"{sum(b.bytes for b in rest)} bytes: {len(rest)} smaller buffers")
    if isinstance(around := step.parent_op(), IfOp | CaseOp | LoopOp):
        lines.append(
            f"that is inside of {describe(around)}: what is made there is neither computed again "
            "nor taken to the host, and what is used there stays through all of it"
        )
    return lines


def describe(op: Operation) -> str:
    """The kernel or name of an op, and its source location."""
    name = f"@{op.callee}" if isinstance(op, LaunchOp) else op.name.partition(".")[2]
    location = location_of(op)
    where = location.name or str(location)
    return f"{name} ({where})" if where else name
