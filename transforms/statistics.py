"""How often each rule matched and was applied, for the report of a compilation."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class RuleCount:
    """`matched`: places where the rule's pattern was found; `applied`: where it was carried out."""

    matched: int = 0
    applied: int = 0


_counts: ContextVar[dict[str, RuleCount] | None] = ContextVar("rule_counts", default=None)


@contextmanager
def collecting() -> Generator[dict[str, RuleCount]]:
    """Collect what passes count inside the `with` block: rule name -> counts."""
    counts: dict[str, RuleCount] = {}
    token = _counts.set(counts)
    try:
        yield counts
    finally:
        _counts.reset(token)


def count(rule: str, matched: int = 1, applied: int = 1) -> None:
    """Add to a rule's counts; nothing happens when nobody collects."""
    counts = _counts.get()
    if counts is not None:
        entry = counts.setdefault(rule, RuleCount())
        entry.matched += matched
        entry.applied += applied
