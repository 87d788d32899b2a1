"""The rules of the optimizer by name: how often each matched and was applied, for the report of a
compilation, and which are disabled."""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass

from ge.dialects.support.context import setting


@dataclass
class RuleCount:
    """How often a rule's pattern matched, and how often the match was rewritten."""

    matched: int = 0
    applied: int = 0


_counts: ContextVar[dict[str, RuleCount] | None] = ContextVar("rule_counts", default=None)


def collecting() -> AbstractContextManager[dict[str, RuleCount]]:
    """Collect the counts by rule inside the `with` block."""
    return setting(_counts, dict[str, RuleCount]())


def counts_at_hand() -> Mapping[str, RuleCount]:
    """What is collected now."""
    return _counts.get() or {}


def count(rule: str, matched: int = 1, applied: int = 1) -> None:
    """Add to a rule's counts, if they are collected."""
    counts = _counts.get()
    if counts is not None:
        entry = counts.setdefault(rule, RuleCount())
        entry.matched += matched
        entry.applied += applied


_declared: dict[str, str] = {}


def declare(rule: str, what: str) -> str:
    """Register a rule that is no class or function of its own; returns its name."""
    _declared[rule] = what
    return rule


def declared() -> dict[str, str]:
    return dict(_declared)


_disabled: ContextVar[Collection[str]] = ContextVar("disabled_rules", default=())


def disabling(rules: Collection[str]) -> AbstractContextManager[Collection[str]]:
    """Disable rules inside the `with` block, besides those disabled around it."""
    return setting(_disabled, frozenset(rules).union(_disabled.get()))


def disabled_at_hand() -> frozenset[str]:
    """The rules that are disabled now."""
    return frozenset(_disabled.get())


def is_enabled(rule: str) -> bool:
    return rule not in _disabled.get()
