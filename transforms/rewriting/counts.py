"""The rules of the optimizer by name: how often each matched and was applied, for the report of a
compilation, and which are disabled."""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ge.dialects.support.context import at_hand, having


@dataclass
class RuleCount:
    """How often a rule's pattern matched, and how often the match was rewritten."""

    matched: int = 0
    applied: int = 0


class RuleCounts(dict[str, RuleCount]):
    """By rule."""


def collecting() -> AbstractContextManager[RuleCounts]:
    """Collect the counts by rule inside the `with` block."""
    return having(RuleCounts())


def counts_at_hand() -> Mapping[str, RuleCount]:
    """What is collected now."""
    return at_hand(RuleCounts) or {}


def count(rule: str, matched: int = 1, applied: int = 1) -> None:
    """Add to a rule's counts, if they are collected."""
    counts = at_hand(RuleCounts)
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


class DisabledRules(frozenset[str]):
    """By name."""


def disabling(rules: Collection[str]) -> AbstractContextManager[DisabledRules]:
    """Disable rules inside the `with` block, besides those disabled around it."""
    return having(DisabledRules([*rules, *disabled_at_hand()]))


def disabled_at_hand() -> frozenset[str]:
    """The rules that are disabled now."""
    return at_hand(DisabledRules) or frozenset()


def is_enabled(rule: str) -> bool:
    return rule not in disabled_at_hand()
