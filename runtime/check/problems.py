"""Results of checks: problems, and the names by which they call ops."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.diagnostics import error_at, listing, location_of

# The kind of each rule that a proof checks; docs/proofs.md says them, in this order. M: memory,
# P: state, S: tasks on streams, T: tile programs, F: figures, C: the certificate, K: kernels,
# G: sizes between gears, D: many devices
RULES = {
    "M1": "race", "M2": "unwritten", "M3": "overwritten", "M4": "alias", "M5": "alias",
    "M6": "bounds", "M7": "alignment", "M8": "bounds", "M9": "bounds", "M10": "bounds",
    "M11": "batch", "M12": "batch", "M13": "buffer", "M14": "buffer", "M15": "buffer",
    "M16": "buffer", "M17": "buffer", "M18": "loop", "M19": "loop", "M20": "buffer",
    **dict.fromkeys([f"P{i}" for i in range(1, 11)], "state"),
    "S1": "stream", "S2": "stream", "S3": "stream", "S4": "lost wake-up", "S5": "reused",
    "S6": "reused", "S7": "cap", "S8": "useless", "S9": "runs", "S10": "runs",
    "T1": "race", "T2": "race", "T3": "race", "T4": "race", "T5": "unwritten", "T6": "unwritten",
    "T7": "unwritten", "T8": "left", "T9": "overwritten", "T10": "overwritten",
    "T11": "overwritten", "T12": "event", "T13": "event", "T14": "event", "T15": "deadlock",
    "T16": "deadlock", "T17": "deadlock", "T18": "capacity", "T19": "bounds", "T20": "bounds",
    "T21": "bounds", "T22": "buffer", "T23": "loop", "T24": "loop",
    "F1": "figure", "F2": "figure", "F3": "figure", "F4": "capacity", "F5": "pinned",
    "F6": "pinned",
    **dict.fromkeys([f"C{i}" for i in range(1, 8)], "certificate"),
    "K1": "core", "K2": "core",
    **dict.fromkeys([f"G{i}" for i in range(1, 8)], "padding"),
    "D1": "devices", "D2": "devices", "D3": "devices", "D4": "deadlock", "D5": "deadlock",
    "D6": "race", "D7": "race", "D8": "race", "D9": "devices", "D10": "devices", "D11": "devices",
    "D12": "devices", "D13": "padding", "D14": "capacity", "D15": "figure", "D16": "stages",
    "D17": "devices", "D18": "devices", "D19": "devices",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of a program, and the op that has it."""

    rule: str  # that is broken
    text: str
    op: Operation = field(compare=False)

    @property
    def kind(self) -> str:
        return RULES[self.rule]

    @property
    def message(self) -> str:
        return f"{self.text} [{self.rule}]"

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
    """Problems by their text and place, each once."""

    found: dict[tuple[str, Operation, Operation | None], Problem] = field(
        default_factory=dict[tuple[str, Operation, Operation | None], Problem]
    )

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST_PROBLEMS

    def add(self, rule: str, text: str, op: Operation, other: Operation | None = None) -> None:
        if not self.full:
            self.found.setdefault((rule, op, other), Problem(rule, text, op))
