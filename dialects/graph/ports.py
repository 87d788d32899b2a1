"""Attributes of a module and of the arguments and results of its functions, by name."""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation

from ge.dialects.support.dims import Range
from ge.dialects.support.types import array_ints

# of an argument or result
NAME = "graph.name"  # in the model
DIMS = "graph.dims"  # names of its dimensions, "" for those that have none
SEQUENCE = "graph.sequence"  # the sequence of the model of which it is an element
SEED = "graph.seed"  # it is what random numbers follow from (see `random.py`), given by the session

RANGE = "graph.range"  # of an argument or of results of ops: the least and the largest element

# of @main
DIM_RANGES = "graph.dim_ranges"  # the least and the largest size of dimensions, -1 for no largest
# dimensions of the model that have no name of their own here, and the sizes that they have
DIM_RELATIONS = "graph.dim_relations"  # {mask = "past + 1"}
# by the name of a dimension of gears the axes of outputs that are cut where inputs are
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


def dim_ranges(main: Operation) -> dict[str, Range]:
    """The sizes that dimensions may have, by name, where they are stated."""
    table = main.attributes.get(DIM_RANGES)
    ranges: dict[str, Range] = {}
    for name, attr in table.data.items() if isinstance(table, DictionaryAttr) else ():
        if isinstance(attr, DenseArrayBase) and len(ends := array_ints(cast(Attribute, attr))) == 2:
            ranges[name] = Range(ends[0], None if ends[1] < 0 else ends[1])
    return ranges


def state_ranges(main: Operation, ranges: Mapping[str, Range]) -> None:
    ends = {n: (r.least, -1 if r.most is None else r.most) for n, r in ranges.items()}
    arrays = {n: DenseArrayBase.from_list(i64, list(e)) for n, e in ends.items()}
    main.attributes[DIM_RANGES] = DictionaryAttr(arrays)


def dim_relations(main: Operation) -> dict[str, str]:
    """The dimensions that follow from others, by name, as expressions of these."""
    table = main.attributes.get(DIM_RELATIONS)
    items = table.data.items() if isinstance(table, DictionaryAttr) else ()
    return {name: text.data for name, text in items if isinstance(text, StringAttr)}


def state_relations(main: Operation, relations: Mapping[str, str]) -> None:
    if relations:
        texts = {name: StringAttr(text) for name, text in relations.items()}
        main.attributes[DIM_RELATIONS] = DictionaryAttr(texts)


def port(name: str) -> dict[str, Attribute]:
    return {NAME: StringAttr(name)}


def argument_attributes(func: FuncOp, index: int) -> Mapping[str, Attribute]:
    return {} if func.arg_attrs is None else func.arg_attrs.data[index].data


def input_name(func: FuncOp, index: int) -> str:
    """The name by which an input of a function is given; the name in the text says nothing."""
    return name_of(argument_attributes(func, index)) or f"arg{index}"


def is_seed(arg: BlockArgument) -> bool:
    """True if it is an argument that a session gives for random numbers."""
    func = arg.block.parent_op()
    return isinstance(func, FuncOp) and SEED in argument_attributes(func, arg.index)
