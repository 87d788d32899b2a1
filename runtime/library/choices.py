"""Which of the cuts that a lowering knows for a kernel it takes.

A lowering lists its candidates with the one that its estimate calls the fastest first, and takes
the first that fits. While a kernel is tuned (`tuning.py`), or where tunings are at hand, another
one may come first: that which is asked for by its text.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, TypeVar

from ge.dialects.support.context import at_hand, having
from ge.runtime.library.launch import NotLowered

T = TypeVar("T")


@dataclass
class Choice:
    """What is asked for, and what there is: the texts of up to `most` candidates, the fastest by
    estimate first. A text that no candidate has, or one that does not fit, asks for nothing:
    `taken` is the one that was looked at last."""

    wanted: str = ""
    most: int = 0
    seen: list[str] = field(default_factory=list[str])
    taken: str = ""

    @property
    def is_passed_over(self) -> bool:
        return self.wanted not in ("", self.taken)


@dataclass
class Decisions:
    """What is decided while a program is written for some sizes, in order; then `again` it is so
    for others, which are extents."""

    made: list[Any] = field(default_factory=list[Any])
    again: bool = False

    def next(self) -> Any:
        """Raises NotLowered where at the first sizes nothing more was decided."""
        if not self.made:
            raise NotLowered("its program is cut in another way at other sizes")
        return self.made.pop(0)


def deciding(decisions: Decisions) -> AbstractContextManager[Decisions]:
    return having(decisions)


def is_open() -> bool:
    """Whether a program is written for more sizes than one: what depends on how many there are of
    something is decided as for any number."""
    return (decisions := at_hand(Decisions)) is not None and decisions.again


def decided(find: Callable[[], T]) -> T:
    """What is found, or was found for the sizes that a program is cut for."""
    if (decisions := at_hand(Decisions)) is None:
        return find()
    if decisions.again:
        return decisions.next()
    place = len(decisions.made)
    decisions.made[place:] = [found := find()]
    return found


def noted(candidates: Iterable[T], decisions: Decisions) -> Iterator[T]:
    """The candidates; the last one that is looked at is decided for."""
    place = len(decisions.made)
    for candidate in candidates:
        decisions.made[place:] = [candidate]
        yield candidate


def choosing(choice: Choice) -> AbstractContextManager[Choice]:
    return having(choice)


def is_free() -> bool:
    """Whether lowerings choose cuts by themselves."""
    return at_hand(Choice) is None and at_hand(Decisions) is None


def is_passed_over() -> bool:
    """Whether a cut is asked for that is none, or does not fit."""
    return (choice := at_hand(Choice)) is not None and choice.is_passed_over


def in_order(candidates: Iterable[T], text: Callable[[T], str] = str) -> Iterable[T]:
    """The candidates, of which the fastest by estimate comes first, or that which is asked for."""
    if (decisions := at_hand(Decisions)) is not None:
        return [decisions.next()] if decisions.again else noted(candidates, decisions)
    if (choice := at_hand(Choice)) is None:
        return candidates
    listed = list(candidates)
    choice.seen += (text(c) for c in islice(listed, choice.most - len(choice.seen)))
    return looked_at([*(c for c in listed if text(c) == choice.wanted), *listed], choice, text)


def looked_at(candidates: Iterable[T], choice: Choice, text: Callable[[T], str]) -> Iterator[T]:
    """The candidates; the last one that is looked at is taken."""
    for candidate in candidates:
        choice.taken = text(candidate)
        yield candidate


def chosen(candidates: Callable[[], Iterable[T]], cycles: Callable[[T, float], float]) -> T | None:
    """The fastest candidate by estimate, or that which is asked for. `cycles` of one: any number
    from `most` on where it takes so many, or does not fit."""
    if at_hand(Choice) is None or at_hand(Decisions) is not None:
        return decided(lambda: fastest(candidates(), cycles))
    found = ((cycles(candidate, inf), candidate) for candidate in candidates())
    ranked = sorted((pair for pair in found if pair[0] < inf), key=lambda pair: pair[0])
    return next(iter(in_order([candidate for _, candidate in ranked])), None)


def fastest(candidates: Iterable[T], cycles: Callable[[T, float], float]) -> T | None:
    """The first of the fastest; None where there is none."""
    best, least = None, inf
    for candidate in candidates:
        if (found := cycles(candidate, least)) < least:
            best, least = candidate, found
    return best
