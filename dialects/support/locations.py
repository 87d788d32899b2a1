"""Locations of ops that are made of several."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation

# Locations that one op keeps of those that became it: an op that thousands are folded into, one
# after the other, would name all of them each time.
MOST_LOCATIONS = 32


def place(file: StringAttr, line: int, column: int) -> FileLineColLoc:
    """As `FileLineColLoc(file, IntAttr(line), IntAttr(column))`, without the checks of an attribute
    made from unknown ones: each op of a text has one."""
    location = FileLineColLoc.__new__(FileLineColLoc)
    for name, value in ("filename", file), ("line", _number(line)), ("column", _number(column)):
        object.__setattr__(location, name, value)
    return location


@lru_cache(maxsize=1024)
def _number(value: int) -> IntAttr:
    return IntAttr(value)


def fuse_locations(ops: Iterable[Operation]) -> LocationAttr:
    """The distinct locations of the ops in order, `MOST_LOCATIONS` at most, as one."""
    parts: dict[Attribute, None] = {}
    for op in ops:
        location = op.location
        inner = (
            cast(ArrayAttr[Attribute], location.locations)
            if isinstance(location, FusedLoc)
            else [location]
        )
        parts.update((part, None) for part in inner if not isinstance(part, UnknownLoc))
        if len(parts) >= MOST_LOCATIONS:
            break
    if len(parts) > 1:
        return FusedLoc(tuple(parts)[:MOST_LOCATIONS], NoneAttr())
    return cast(LocationAttr, next(iter(parts), UnknownLoc()))


def names_in(location: Attribute) -> Iterator[str]:
    """The names of nodes of the model in a location."""
    match location:
        case NameLoc():
            yield location.desc.data
        case FusedLoc():
            for part in cast(ArrayAttr[Attribute], location.locations):
                yield from names_in(part)
        case _:
            pass
