"""What a check says: a problem, and the names by which problems call ops."""

from dataclasses import dataclass, field

from xdsl.ir import Operation

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.diagnostics import place_of


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a program, and at which op."""

    # The rule that is broken: race, unwritten, overwritten, alias, bounds, alignment, buffer, loop,
    # stream, event, lost wake-up, deadlock, reused, cap, capacity, figure, certificate, pinned,
    # core; useless for what costs time alone
    kind: str
    message: str
    op: Operation = field(compare=False)

    def __str__(self) -> str:
        place = str(place_of(self.op))
        return f"{place}: {self.message}" if place else self.message


def name_of(op: Operation) -> str:
    """What a message calls an op."""
    return f"launch of @{op.callee}" if isinstance(op, LaunchOp) else op.name


def placed(op: Operation) -> str:
    """An op and where it comes from."""
    place = str(place_of(op))
    return f"{name_of(op)} ({place})" if place else name_of(op)
