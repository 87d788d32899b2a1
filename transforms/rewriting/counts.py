"""The rules of the optimizer by name: how often each matched and was applied, for the report of a
compilation, and which are disabled.

Debug counters leave out applications of rules, to find the one that does harm, as LLVM's:

    ge-opt --mlir-debug-counter=find-gelu-skip=3,find-gelu-count=1    only the fourth gelu

`allows` is asked before a rule is applied, where it matches: by rules that are patterns, by local
rules, and by rules that merge launches. Of other patterns, those of plug-ins perhaps, each try
counts, as for mlir-opt. What is no pattern is done with its pass, which the counter
`pass-execution` leaves out as a whole.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from xdsl.ir import Operation

from ge.dialects.support.context import at_hand, having
from ge.dialects.support.diagnostics import SourceLocation, location_of


@dataclass
class RuleCount:
    """Numbers of times that a rule's pattern matched and that the match was rewritten."""

    matched: int = 0
    applied: int = 0


class RuleCounts(dict[str, RuleCount]):
    """By rule."""


def collecting() -> AbstractContextManager[RuleCounts]:
    """Collect the counts by rule inside the `with` block."""
    return having(RuleCounts())


def counts_at_hand() -> Mapping[str, RuleCount]:
    """Return the counts that are collected now."""
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


PASSES, APPLICATIONS = "pass-execution", "rule-application"

"""The counters of all passes, and of all applications of rules."""


@dataclass
class DebugCounter:
    """Lets `count` (None: any number) pass after the first `skip`."""

    skip: int = 0
    count: int | None = None
    seen: int = 0
    last: tuple[str, SourceLocation] = ("", SourceLocation())  # what it let pass at last, and where

    def take(self, name: str, location: SourceLocation) -> bool:
        self.seen += 1
        passes = self.seen > self.skip
        passes &= self.count is None or self.seen <= self.skip + self.count
        if passes:
            self.last = name, location
        return passes


class Counters(dict[str, DebugCounter]):
    """Counters by name; with `all_names` also of what no flag names, to be printed."""

    def __init__(self, all_names: bool = False) -> None:
        self.all_names = all_names

    def counter(self, name: str) -> DebugCounter | None:
        return self.setdefault(name, DebugCounter()) if self.all_names else self.get(name)

    def allow(self, rule: str, location: SourceLocation) -> bool:
        """Return whether the counter of a rule lets it pass, and that of all rules."""
        both = [c for n in (rule, APPLICATIONS) if (c := self.counter(n)) is not None]
        return all([c.take(rule, location) for c in both])  # each of them counts

    def text(self) -> str:
        """A table as of `mlir-opt --mlir-print-debug-counter`."""
        rows = [
            f"{name:30}: {{{c.seen},{c.skip},{-1 if c.count is None else c.count}}}"
            for name, c in sorted(self.items())
        ]
        return "\n".join(["DebugCounter counters: {seen,skip,count}", *rows])


def counting(counters: Counters | None) -> AbstractContextManager[Counters | None]:
    """Let these counters decide inside the `with` block what is applied; None: everything is."""
    return having(counters, Counters)


def is_counting() -> bool:
    return at_hand(Counters) is not None


def allows(rule: str, op: Operation) -> bool:
    """Return whether a rule that matches may be applied at an op; this counts as one
    application."""
    counters = at_hand(Counters)
    return counters is None or counters.allow(rule, location_of(op))


def allows_pass(name: str) -> bool:
    """Return whether a pass may be run; this counts as one run."""
    counters = at_hand(Counters)
    counter = None if counters is None else counters.counter(PASSES)
    return counter is None or counter.take(name, SourceLocation())
