"""The form that results of nodes of the model have in a quantized program, as attributes of @main:
as codes, and divided by a factor for each channel. With it they can be compared with those of the
model.

    graph.codes = {"/conv1" = [0.02 : f64, 3 : i64]}             scale and zero point, by turns
    graph.divided = [{nodes = ["/conv1", "/relu1"], axes = array<i64: 1, 1>,
                      by = array<f32: 0.5, 2.0>}]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from xdsl.ir import Attribute, Operation

from ge.dialects.support.types import array_ints

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
