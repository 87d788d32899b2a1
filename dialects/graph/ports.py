"""Attributes of a module and of the arguments and results of its functions, by name."""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

# of an argument or result
NAME = "graph.name"  # in the model
DIMS = "graph.dims"  # names of its dimensions, "" for those that have none
SEQUENCE = "graph.sequence"  # the sequence of the model of which it is an element

# of @main: by the name of a dimension of gears the axes of outputs that are cut where inputs are
# padded along it, or a text that says why they must not be
PADDING = "graph.padding"

# of a module
PAYLOAD = "graph.payload"  # the file with its weights, beside the IR
HASH = "graph.payload_hash"  # of the header of that file


def name_of(table: Mapping[str, Attribute]) -> str | None:
    name = table.get(NAME)
    return name.data if isinstance(name, StringAttr) else None


def dims_of(table: Mapping[str, Attribute], rank: int) -> tuple[str, ...]:
    """The names of the dimensions; "" where they do not fit the rank."""
    dims = table.get(DIMS)
    texts = cast(ArrayAttr[Attribute], dims).data if isinstance(dims, ArrayAttr) else ()
    names = tuple(t.data if isinstance(t, StringAttr) else "" for t in texts)
    return names if len(names) == rank else ("",) * rank


def port(name: str) -> dict[str, Attribute]:
    return {NAME: StringAttr(name)}


def argument_attributes(func: FuncOp, index: int) -> Mapping[str, Attribute]:
    return {} if func.arg_attrs is None else func.arg_attrs.data[index].data
