"""Objects that a compilation has at hand: at most one value of a class, visible to all code that
runs inside of a `with` block. Weights, samples, tunings, counters and listeners are given in this
way, as xDSL hands nothing but a `Context` to passes and nothing to patterns.

    with having(Clashes()) as clashes:
        ...                      # there `at_hand(Clashes)` is this one
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

T = TypeVar("T")

_AT_HAND: ContextVar[Mapping[type, object]] = ContextVar("at_hand", default={})


def at_hand(kind: type[T]) -> T | None:
    return cast(T | None, _AT_HAND.get().get(kind))


@contextmanager
def having(value: T, kind: type | None = None) -> Generator[T]:
    """Have the value at hand inside of the `with` block, as one of `kind` (of its own class, if
    that is not given); None: have none."""
    kind = kind or type(value)
    before = _AT_HAND.get().get(kind)
    _AT_HAND.set({**_AT_HAND.get(), kind: value})
    try:
        yield value
    finally:  # a generator may end after blocks that began in it: those of other classes stay
        _AT_HAND.set({**_AT_HAND.get(), kind: before})
