"""The canonicalization patterns of ops on tensors. They stand above the dialects (they fold with
kernels), which therefore only ask for them: `-canonicalize` of every tool that has ge's passes
applies them, as do ge's passes `simplify-...`."""

from collections.abc import Callable
from typing import TypeAlias

from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait

Patterns: TypeAlias = Callable[[type[Operation]], tuple[RewritePattern, ...]]

_load: list[Callable[[], Patterns]] = []


def provide(load: Callable[[], Patterns]) -> None:
    """State where the patterns are; `load` imports them when they are asked for first."""
    _load[:] = [load]


class Canonicalized(HasCanonicalizationPatternsTrait):
    """The patterns that ge has for ops of this class. A plug-in's op may have its own besides."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        return _load[0]()(op) if _load else ()

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()  # they depend on the class of the op
