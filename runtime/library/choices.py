"""Which of the cuts that a lowering knows for a kernel it takes.

A lowering lists its candidates with the one that its estimate calls the fastest first, and takes
the first that fits. While a kernel is tuned (`tuning.py`), or where tunings are at hand, another
one may come first: that which is asked for by its text.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from ge.dialects.support.context import setting

T = TypeVar("T")


@dataclass
class Choice:
    """What is asked for, and what there is: the texts of up to `most` candidates, the fastest by
    estimate first. A text that no candidate has asks for nothing."""

    wanted: str = ""
    most: int = 0
    seen: list[str] = field(default_factory=list[str])


_choice: ContextVar[Choice | None] = ContextVar("choice", default=None)


def choosing(choice: Choice) -> AbstractContextManager[Choice | None]:
    return setting(_choice, choice)


def in_order(candidates: Iterable[T], text: Callable[[T], str] = str) -> Iterable[T]:
    """The candidates, of which the fastest by estimate comes first, or that which is asked for."""
    choice = _choice.get()
    if choice is None:
        return candidates
    listed = list(candidates)
    choice.seen += (text(c) for c in islice(listed, choice.most - len(choice.seen)))
    return [*(c for c in listed if text(c) == choice.wanted), *listed]


def chosen(
    fastest: Callable[[], T | None], candidates: Callable[[], Iterable[tuple[float, T]]]
) -> T | None:
    """The fastest candidate by estimate, or that which is asked for. `candidates`: all of them, and
    the estimates, which nobody asks for otherwise."""
    if _choice.get() is None:
        return fastest()
    ranked = sorted(candidates(), key=lambda c: c[0])
    return next(iter(in_order([candidate for _, candidate in ranked])), None)
