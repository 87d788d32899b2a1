"""What a check says: a problem, and the names by which problems call ops."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.diagnostics import error_at, listing, location_of


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a program, and at which op."""

    # The rule that is broken: race, unwritten, overwritten, alias, bounds, alignment, buffer, loop,
    # stream, event, lost wake-up, reused, deadlock, cap, capacity, figure, certificate, pinned,
    # core, runs; useless for what costs time alone
    kind: str
    message: str
    op: Operation = field(compare=False)

    def __str__(self) -> str:
        location = str(location_of(self.op))
        return f"{location}: {self.message}" if location else self.message


def name_of(op: Operation) -> str:
    return f"launch of @{op.callee}" if isinstance(op, LaunchOp) else op.name


def require_none(problems: Sequence[Problem], what: str) -> None:
    """Raises GeError that lists the problems of a plan or schedule, if there are any."""
    if problems:
        hint = "compile the model again; if the compiler made it, this is a bug of the compiler"
        text = f"the {what} is not safe: {listing([p.message for p in problems])}"
        raise error_at(problems[0].op, text, hint)


def placed(op: Operation) -> str:
    location = str(location_of(op))
    return f"{name_of(op)} ({location})" if location else name_of(op)


MOST_PROBLEMS = 20  # of one kernel


@dataclass
class Problems:
    """Problems by what is said and where, each once."""

    found: dict[tuple[str, Operation, Operation | None], Problem] = field(
        default_factory=dict[tuple[str, Operation, Operation | None], Problem]
    )

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST_PROBLEMS

    def add(self, kind: str, text: str, op: Operation, other: Operation | None = None) -> None:
        if not self.full:
            self.found.setdefault((kind, op, other), Problem(kind, text, op))
