"""Attributes of a module and of the arguments and results of its functions, by name."""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute

NAME = "graph.name"
"""The model's name of an input or output."""
DIMS = "graph.dims"
"""The names of its dimensions, "" for those that have none."""
SEQUENCE = "graph.sequence"
"""The model's name of the sequence of which it is an element."""

PAYLOAD = "graph.payload"
"""Of a module: the file with its weights, which stands beside the text."""
HASH = "graph.payload_hash"
"""Of a module: what the header of that file must be."""


def name_of(table: Mapping[str, Attribute]) -> str | None:
    name = table.get(NAME)
    return name.data if isinstance(name, StringAttr) else None


def dims_of(table: Mapping[str, Attribute], rank: int) -> tuple[str, ...]:
    """The names of the dimensions of an argument or result; "" where they do not fit its rank."""
    dims = table.get(DIMS)
    texts = cast(ArrayAttr[Attribute], dims).data if isinstance(dims, ArrayAttr) else ()
    names = tuple(t.data if isinstance(t, StringAttr) else "" for t in texts)
    return names if len(names) == rank else ("",) * rank


def port(name: str) -> dict[str, Attribute]:
    """The attributes of an argument or result that has a name."""
    return {NAME: StringAttr(name)}
