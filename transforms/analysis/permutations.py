"""Orders of dimensions: dimension `i` of what a transpose gives is dimension `order[i]` of what it
reads."""

from collections.abc import Sequence
from typing import TypeAlias

Order: TypeAlias = tuple[int, ...]


def inverse(order: Sequence[int]) -> Order:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def composed(first: Sequence[int], then: Sequence[int]) -> Order:
    return tuple([first[i] for i in then])


def is_identity(order: Sequence[int]) -> bool:
    return list(order) == list(range(len(order)))


def last_swapped(rank: int) -> Order:
    """The order that exchanges the last two dimensions."""
    return (*range(rank - 2), rank - 1, rank - 2)
