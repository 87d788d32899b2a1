"""Remarks of what each optimization did and nearly did: `--remarks` of ge-opt and ge-compile, and
`expected-remark` in a FileCheck test.

A pass says `applied("fuse-linear", op, "bias, gelu and residual in the epilogue")`, or
`missed("fuse-linear", op, "the matmul is used twice", loss_us=1.2)` where a rule nearly matched.
Test `wanted()` before computing a costly text.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from ge.dialects.support import diagnostics
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.diagnostics import RemarkFacts
from ge.dialects.support.remark_kinds import RemarkKind


@dataclass(frozen=True)
class Remark:
    """One remark about one op."""

    rule: str
    applied: bool
    op: str  # name of the op, `graph.matmul`
    where: str  # its source location
    why: str  # what was done, or the condition that failed
    loss_us: float | None = None  # time that the missed chance costs, where it was estimated
    gain_us: float | None = None  # time that what was done saves, where it was estimated

    def __str__(self) -> str:
        state = "applied" if self.applied else "missed"
        loss = "" if self.loss_us is None else f" (about {self.loss_us:.1f} us)"
        gain = "" if self.gain_us is None else f"{self.gain_us:.1f} us saved"
        why = f": {self.why or gain}" if self.why or gain else ""
        return f"{self.rule} {state}{why}{loss}"


class Remarks(list[Remark]):
    """In the order in which they were made."""


def collecting() -> AbstractContextManager[Remarks]:
    """Collect the remarks of passes inside the `with` block."""
    return having(Remarks())


def wanted() -> bool:
    """Return whether anybody collects remarks or listens to diagnostics."""
    return at_hand(Remarks) is not None or diagnostics.listening()


def applied(rule: str, op: Operation, why: str = "", gain_us: float | None = None) -> None:
    if wanted():
        _add(op, Remark(rule, True, op.name, "", why, gain_us=gain_us))


def missed(rule: str, op: Operation, why: str, loss_us: float | None = None) -> None:
    if wanted():
        _add(op, Remark(rule, False, op.name, "", why, loss_us))


def _add(op: Operation, remark: Remark) -> None:
    kind = RemarkKind.PASSED if remark.applied else RemarkKind.MISSED
    us = remark.gain_us if remark.applied else remark.loss_us
    facts = RemarkFacts(kind, remark.rule, remark.why, us)
    diagnostics.remark(op, str(remark), facts)
    if (remarks := at_hand(Remarks)) is not None:
        remarks.append(replace(remark, where=str(diagnostics.location_of(op))))
