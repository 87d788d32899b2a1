"""Attributes that the dialect states of functions, arguments, results, modules and ops, by name.

Attributes of a module and of the arguments and results of its functions, by name.

The form that results of nodes of the model have in a quantized program, as attributes of @main:
as codes, and divided by a factor for each channel. With it they can be compared with those of the
model.

    graph.codes = {"/conv1" = [0.02 : f64, 3 : i64]}             scale and zero point, by turns
    graph.divided = [{nodes = ["/conv1", "/relu1"], axes = array<i64: 1, 1>,
                      by = array<f32: 0.5, 2.0>}]

State: an input that is the last run's output and stays on the device between runs.

    func.func @main(%past: ... {graph.name = "past", graph.state = "present"}) -> (... {graph.name
        = "present"})

The output has the input's shape, or is larger along one axis: rows were appended to those read."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.irdl import BaseAttr, RangeOf

from ge.dialects.graph.sharding import (
    PARAMETERS,
    PARTS,
    SHARDING,
    UNSEEN,
    WHOLE,
    ShardingAttr,
)
from ge.dialects.support.constraints import F64, INTS, Named
from ge.dialects.support.definitions import (
    ARGUMENT,
    FLAG,
    FUNCTION,
    MODULE,
    NUMBER,
    OP,
    RESULT,
    TABLE,
    TEXT,
    TEXTS,
    Stated,
)
from ge.dialects.support.dims import Range, size_of, symbols
from ge.dialects.support.element_types import type_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.patterns import UserPattern, expanded, user_pattern
from ge.dialects.support.types import DYNAMIC, Shape, array_ints, shape_text

# of an argument or result
NAME = "graph.name"  # in the model
DIMS = "graph.dims"  # names of its dimensions, "" for those that have none
SEQUENCE = "graph.sequence"  # the sequence of the model of which it is an element
VALUES = "graph.values"  # of an op or argument: names of its values in the model, and their numbers
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


def padding_of(func: FuncOp) -> dict[str, str | dict[str, tuple[int, ...]]]:
    """For each dimension of gears, by name, the axes along which outputs are cut where it is
    padded, or the reason why it must not be."""
    table = func.attributes.get(PADDING)
    result: dict[str, str | dict[str, tuple[int, ...]]] = {}
    for name, entry in table.data.items() if isinstance(table, DictionaryAttr) else ():
        if isinstance(entry, StringAttr):
            result[name] = entry.data
        elif isinstance(entry, DictionaryAttr):
            axes = entry.data.items()
            result[name] = {
                n: array_ints(cast(Attribute, a)) for n, a in axes if isinstance(a, DenseArrayBase)
            }
    return result


def argument_attributes(func: FuncOp, index: int) -> Mapping[str, Attribute]:
    return {} if func.arg_attrs is None else func.arg_attrs.data[index].data


def input_name(func: FuncOp, index: int) -> str:
    """The name by which an input of a function is given; the name in the text says nothing."""
    return name_of(argument_attributes(func, index)) or f"arg{index}"


def is_seed(arg: BlockArgument) -> bool:
    """True if it is an argument that a session gives for random numbers."""
    func = arg.block.parent_op()
    return isinstance(func, FuncOp) and SEED in argument_attributes(func, arg.index)


CODES, DIVIDED = "graph.codes", "graph.divided"

Codes: TypeAlias = Mapping[str, Sequence[tuple[float, int]]]  # scales and zero points


@dataclass(frozen=True, slots=True)
class Divided:
    """The results of nodes, each divided by factors along an axis."""

    axes: Mapping[str, int]
    by: Sequence[float]


def codes_of(main: Operation) -> Codes:
    """The codes of results, by the names of their nodes."""
    table, found = main.attributes.get(CODES), dict[str, list[tuple[float, int]]]()
    for name, attr in table.data.items() if isinstance(table, DictionaryAttr) else ():
        numbers = _items(attr)
        for scale, zero in zip(numbers[::2], numbers[1::2], strict=False):
            if isinstance(scale, FloatAttr) and isinstance(zero, IntegerAttr):
                found.setdefault(name, []).append((scale.value.data, zero.value.data))
    return found


def state_codes(main: Operation, codes: Codes) -> None:
    """State them beside those that are stated already."""
    known = {name: dict.fromkeys(pairs) for name, pairs in codes_of(main).items()}
    for name, pairs in codes.items():
        known.setdefault(name, {}).update(dict.fromkeys(pairs))
    arrays = {
        name: ArrayAttr([a for s, z in pairs for a in (FloatAttr(s, f64), IntegerAttr(z, i64))])
        for name, pairs in known.items()
    }
    main.attributes[CODES] = DictionaryAttr(arrays)


def divided_in(main: Operation) -> list[Divided]:
    """The divisions in the order in which they were made: the same results may be divided several
    times."""
    found: list[Divided] = []
    for entry in _items(main.attributes.get(DIVIDED)):
        table: Mapping[str, Attribute] = entry.data if isinstance(entry, DictionaryAttr) else {}
        nodes, axes, by = table.get("nodes"), table.get("axes"), table.get("by")
        names = [n.data for n in _items(nodes) if isinstance(n, StringAttr)]
        if isinstance(axes, DenseArrayBase) and isinstance(by, DenseArrayBase):
            places = dict(zip(names, array_ints(cast(Attribute, axes)), strict=False))
            found.append(Divided(places, [float(v) for v in by.get_values()]))
    return found


def state_divided(main: Operation, axes: Mapping[str, int], by: Iterable[float]) -> None:
    """State that results were divided, after those that are stated already."""
    entry: dict[str, Attribute] = {
        "nodes": ArrayAttr([StringAttr(name) for name in axes]),
        "axes": DenseArrayBase.from_list(i64, list(axes.values())),
        "by": DenseArrayBase.from_list(f32, list(by)),
    }
    main.attributes[DIVIDED] = ArrayAttr(
        [*_items(main.attributes.get(DIVIDED)), DictionaryAttr(entry)]
    )


def _items(attr: Attribute | None) -> Sequence[Attribute]:
    return cast(ArrayAttr[Attribute], attr).data if isinstance(attr, ArrayAttr) else ()


# of an argument
STATE = "graph.state"  # the name of the result that it is in the next run
LENGTH = "graph.length"  # the dimension of states whose rows it counts, with those of this run
STEP = "graph.step"  # how many of them this run appends
BLOCK = "graph.block"  # rows of a block of states, of which the argument says where each lies


@dataclass(frozen=True, slots=True)
class Typed:
    """A named input or output."""

    name: str
    element: Attribute
    shape: Shape

    def __str__(self) -> str:
        return f"'{self.name}' of {type_name(self.element)} {shape_text(self.shape)}"


def state_pairs(
    patterns: Mapping[str, str] | Sequence[str],
    inputs: Sequence[Typed],
    outputs: Sequence[Typed],
) -> dict[str, str]:
    """Input -> the output that it becomes, by patterns: regular expressions of whole names of
    inputs, each with the output's name, in which `\\1` stands for a group (as texts: with = between
    them). Raises GeError for a pattern that fits nothing, and for types that do not fit."""
    pairs: dict[str, str] = {}
    by_name = {o.name: o for o in outputs}
    for expression, template in _parsed(patterns):
        matches = [(i, m) for i in inputs if (m := expression.fullmatch(i.name))]
        if not matches:
            hint = _near(expression.pattern, [i.name for i in inputs], "inputs")
            raise GeError(f"state '{expression.pattern}' is no input", hint=hint)
        for port, match in matches:
            try:
                name = expanded(match, template)
            except ValueError as e:
                raise GeError(f"state '{template}' is no name of an output: {e}") from None
            if name not in by_name:
                raise GeError(f"state '{port.name}' becomes no output '{name}'",
                              hint=_that_fit(port, outputs))  # fmt: skip
            if (other := pairs.get(port.name, name)) != name:
                outs = f"'{other}' and '{name}'"
                raise GeError(f"input '{port.name}' has two states: it becomes {outs}")
            if (first := next((i for i, o in pairs.items() if o == name), port.name)) != port.name:
                raise GeError(f"output '{name}' is the state of two inputs, '{first}' and "
                              f"'{port.name}'")  # fmt: skip
            growing_axis(port, by_name[name])
            pairs[port.name] = name
    return pairs


WORDS = re.compile("past|cache|state|hidden|memory", re.I)  # in names of values that are handed on


def likely_states(
    inputs: Sequence[Typed], outputs: Sequence[Typed]
) -> dict[str, list[tuple[str, str]]]:
    """Pattern -> the inputs and outputs that look like state by it: names are equal from the first
    digit on, types fit, and the output has more rows, or the name of the input says so."""
    found: dict[str, list[tuple[str, str]]] = {}
    by_rest: dict[str, list[tuple[str, Typed]]] = {}
    for output in outputs:
        if (parts := _at_digit(output.name)) is not None:
            by_rest.setdefault(parts[1], []).append((parts[0], output))
    for port in inputs:
        parts = _at_digit(port.name)
        for before, output in by_rest.get(parts[1], ()) if parts else ():
            if not _fits(port, output):
                continue
            grows = growing_axis(port, output) is not None
            if parts and (grows or WORDS.search(port.name)) and before != parts[0]:
                pattern = f"{re.escape(parts[0])}(.*)={before}\\1"
                found.setdefault(pattern, []).append((port.name, output.name))
                break
    return found


def _at_digit(name: str) -> tuple[str, str] | None:
    match = re.search(r"\d", name)
    start = 0 if match is None else match.start()
    return (name[:start], name[start:]) if start else None


def growing_axis(port: Typed, becomes: Typed) -> int | None:
    """The axis along which a state grows from run to run; None for one that keeps its shape.
    Raises GeError for an input and an output that are no state."""
    a, b = port.shape, becomes.shape
    grown = [i for i, (m, n) in enumerate(zip(a, b, strict=False)) if m != n or m == n == DYNAMIC]
    fits = port.element == becomes.element and len(a) == len(b)
    known = [i for i in grown if DYNAMIC not in (a[i], b[i])]
    if not fits or len(known) > 1 or any(a[i] > b[i] for i in known):
        hint = "a state keeps its type, or gets rows along one axis"
        raise GeError(f"state {port} does not fit output {becomes}", hint=hint)
    return known[0] if known else None


def _parsed(
    patterns: Mapping[str, str] | Sequence[str],
) -> Iterator[tuple[UserPattern, str]]:
    texts = patterns.items() if isinstance(patterns, Mapping) else map(split_pattern, patterns)
    for pattern, template in texts:
        if not isinstance(pattern, str) or not isinstance(template, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GeError(f"state {pattern!r}: {template!r}: expected two names, input and output")
        yield user_pattern(pattern, "state"), template


def split_pattern(text: str) -> tuple[str, str]:
    pattern, equals, template = str(text).rpartition("=")
    if not equals or not pattern or not template:
        raise GeError(f"state '{text}': expected INPUT=OUTPUT")
    return pattern, template


def split_capacity(text: str) -> tuple[str, int]:
    """Read NAME=N. Raises GeError that says what is expected."""
    name, equals, number = text.rpartition("=")
    if not (equals and name and number.isascii() and number.isdecimal() and 0 < int(number)):
        raise GeError(f"state capacity '{text}': expected NAME=2048, a dimension and its size")
    return name, int(number)


def split_layout(text: str) -> int:
    """The rows of a block, 0 for state that is contiguous."""
    kind, _, number = text.partition(":")
    if text in ("", "contiguous"):
        return 0
    if kind != "paged" or not (number.isascii() and number.isdecimal() and int(number)):
        hint = "contiguous, or paged:128: rows of a block, a positive number"
        raise GeError(f"state layout '{text}': expected {hint}")
    return int(number)


def growing_symbol(func: FuncOp) -> str | None:
    """The dimension along which states with a capacity grow; None where none does."""
    names = (table.data.get(LENGTH) for table in func.arg_attrs or ())
    return next((name.data for name in names if isinstance(name, StringAttr)), None)


def steps_beyond(name: str, symbol: str) -> int | None:
    """Difference of a dimension from another one, by its name: 1 for `past + 1` and `past`; None
    for another dimension."""
    if symbols(name) != (symbol,):
        return None
    first, second = (size_of(name, {symbol: n}) for n in (0, 1))
    return first if first is not None and second == first + 1 else None


def _that_fit(port: Typed, outputs: Sequence[Typed]) -> str:
    """The outputs that an input may become: names alone say little, as exporters number them."""
    fitting = [output.name for output in outputs if _fits(port, output)]
    if fitting:
        return f"outputs of its type are {', '.join(fitting)}"
    return f"no output is of its type; outputs: {', '.join(o.name for o in outputs) or 'none'}"


def _fits(port: Typed, output: Typed) -> bool:
    try:
        growing_axis(port, output)
    except GeError:
        return False
    return True


def _near(name: str, names: Sequence[str], what: str) -> str:
    if near := get_close_matches(name.replace("\\", ""), names, 1):
        return f"did you mean '{near[0]}'?"
    return f"{what}: {', '.join(names) or 'none'}"


BOUNDS = Named(ArrayAttr.constr(RangeOf(F64).of_length(2)), "the least and the largest number, f64")
TABLES = Named(ArrayAttr.constr(BaseAttr(DictionaryAttr)), "a list of dictionaries")

STATED = {
    NAME: Stated(TEXT, (ARGUMENT, RESULT)),
    DIMS: Stated(TEXTS, (ARGUMENT, RESULT)),
    SEQUENCE: Stated(TEXT, (ARGUMENT, RESULT)),
    VALUES: Stated(TABLE, (ARGUMENT, OP)),
    SEED: Stated(FLAG, (ARGUMENT,)),
    STATE: Stated(TEXT, (ARGUMENT,)),
    LENGTH: Stated(TEXT, (ARGUMENT,)),
    STEP: Stated(NUMBER, (ARGUMENT,)),
    BLOCK: Stated(NUMBER, (ARGUMENT,)),
    RANGE: Stated(BOUNDS, (ARGUMENT, OP)),
    DIM_RANGES: Stated(TABLE, (FUNCTION,)),
    DIM_RELATIONS: Stated(TABLE, (FUNCTION,)),
    PADDING: Stated(TABLE, (FUNCTION,)),
    CODES: Stated(TABLE, (FUNCTION,)),
    DIVIDED: Stated(TABLES, (FUNCTION,)),
    PAYLOAD: Stated(TEXT, (MODULE,)),
    HASH: Stated(TEXT, (MODULE,)),
    SHARDING: Stated(Named(BaseAttr(ShardingAttr), "a #graph.sharding"), (ARGUMENT, RESULT, OP)),
    WHOLE: Stated(INTS, (ARGUMENT, RESULT, OP)),
    PARTS: Stated(TABLE, (MODULE,)),
    UNSEEN: Stated(TABLE, (MODULE,)),
    PARAMETERS: Stated(TEXTS, (MODULE,)),
}
