"""Tile programs of running sums, positions of extremes and the first elements in order, against the
kernels' bodies: bit for bit, since sums are added in the body's order."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array, dtype_of, kind_of
from ge.runtime.device.random_inputs import random_array

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

FEW = settings(max_examples=settings().max_examples // 8, derandomize=True, deadline=None)


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def function(op: str, source: str, result: str) -> str:
    return f"func.func @main(%a: {source}) -> {result} {{\n{op}\nreturn %r : {result}\n}}"


def running(
    shape: Shape,
    element: str,
    axis: int,
    kind: str = "sum",
    backward: bool = False,
    ex: bool = False,
) -> str:
    flags = f"exclusive {str(ex).lower()} reverse {str(backward).lower()}"
    t = tensor(shape, element)
    return function(f"%r = graph.cumulative {kind} %a axis {axis} {flags} : ({t}) -> {t}", t, t)


def extreme(
    shape: Shape, element: str, axis: int, kind: str = "max", last: bool = False, keep: bool = True
) -> str:
    kept = [1 if i == axis else d for i, d in enumerate(shape) if keep or i != axis]
    source, result = tensor(shape, element), tensor(kept, "i64")
    flags = f"axis {axis} keep_dims {str(keep).lower()}"
    flags += f" select_last_index {str(last).lower()}"
    op = f"%r = graph.arg_reduce {kind} %a {flags} : ({source}) -> {result}"
    return function(op, source, result)


def equal_ones(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Few different numbers, and some nan."""
    array = random_array(rng, element, shape)
    if kind_of(array.dtype) != "f":
        return array
    array = np.round(array.astype(np.float32) * 2).astype(array.dtype)
    array.reshape(-1)[rng.integers(0, array.size, max(array.size // 200, 1))] = np.nan
    return array


SUMS = {
    "rows": running((12, 33), "f32", 0),
    "columns": running((40, 33), "f16", 1),
    "products": running((9, 33), "f32", 0, "prod"),
    "backwards": running((3, 50, 20), "f32", 1, backward=True),
    "without the element": running((3, 50, 20), "f32", 1, ex=True),
    "both": running((4, 61), "f16", 1, backward=True, ex=True),
    "integers of a vector": running((70,), "i64", 0),
    "an inner dimension": running((5, 6, 7, 8), "i32", 2),
    "parts of a long row": running((1, 1600), "f32", 1),
}


OF_OTHERS = {"rows", "backwards", "without the element", "of a vector", "of short numbers"}
"""Cases whose rules others have."""


def cases(texts: Mapping[str, str]) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.soak if n in OF_OTHERS else []) for n in texts]


@pytest.mark.parametrize("name", cases(SUMS))
def test_running_sums(name: str) -> None:
    compare(SUMS[name], all_lowered=True, exact=True, orders=0 if "parts" in name else 1)


@FEW
@given(
    st.lists(st.integers(2, 20), min_size=1, max_size=3),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
def test_running_sums_of_any_shape(shape: list[int], axis: int, backward: bool, ex: bool) -> None:
    text = running(tuple(shape), "f32", axis % len(shape), backward=backward, ex=ex)
    compare(text, all_lowered=True, exact=True)


def test_running_sums_between_elementwise_ops() -> None:
    t = tensor((20, 30), "f32")
    ops = [
        f"%0 = graph.exp %a : ({t}) -> {t}",
        f"%1 = graph.cumulative sum %0 axis 1 : ({t}) -> {t}",
        f"%r = graph.mul %1, %a : ({t}, {t}) -> {t}",
    ]
    assert len(compare(function("\n".join(ops), t, t), all_lowered=True).pairs) == 1


def test_long_sums_from_the_end_are_not_lowered() -> None:
    (reason,) = lowered(running((1, 100000), "f32", 1, backward=True)).reasons
    assert "running sums of 100000 elements are in parts" in reason


EXTREMES = {
    "of rows": extreme((40, 300), "f32", 1),
    "of columns": extreme((40, 30), "f16", 0, keep=False),
    "the last of the least": extreme((3, 50, 20), "f32", 1, "min", last=True),
    "of rows in parts": extreme((1, 50257), "f16", 1, last=True),
    "of a vector": extreme((7,), "f32", 0, keep=False),
    "of integers": extreme((5, 6, 7, 8), "i32", 2, "min"),
    "of short numbers": extreme((4, 100), "bf16", 1),
}


@pytest.mark.parametrize("name", cases(EXTREMES))
def test_positions_of_extremes(name: str) -> None:
    compare(EXTREMES[name], all_lowered=True, exact=True, orders=1, make=equal_ones)


def any_numbers(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Of few different ones, nan and infinities among them."""
    found = rng.choice([np.nan, np.inf, -np.inf, 0, 1, -1], tuple(shape))
    return found.astype(dtype_of(element))


def best(shape: Shape, count: int, element: str, largest: bool = True, axis: int = -1) -> str:
    source = tensor(shape, element)
    size = [count if i == axis % len(shape) else d for i, d in enumerate(shape)]
    values, places = tensor(size, element), tensor(size, "i64")
    flags = f"axis {axis} largest {str(largest).lower()}"
    return (
        f"func.func @main(%a: {source}) -> ({values}, {places}) {{\n"
        f"%r, %s = graph.top_k %a k {count} {flags} : ({source}) -> ({values}, {places})\n"
        f"return %r, %s : {values}, {places}\n}}"
    )


BEST = {
    "of experts": best((40, 64), 8, "f32"),
    "of short numbers": best((3, 5, 70), 3, "bf16"),
    "of one long row": best((1, 3000), 5, "f16"),
    "of a vector": best((100,), 4, "f32"),
    "the smallest integers": best((7, 33), 2, "i32", largest=False),
    "of truth values": best((9, 20), 20, "i1"),
    "the smallest, nan at last": best((5, 20), 20, "f16", largest=False),
}


@pytest.mark.parametrize("name", BEST)
def test_the_first_elements_in_order(name: str) -> None:
    make = any_numbers if "nan" in name else equal_ones
    compare(BEST[name], all_lowered=True, exact=True, orders=1, make=make)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (best((4, 2000), 1025, "f32"), "would each pass over the whole row"),
        (best((4, 100), 3, "f32", axis=0), "sorted along another dimension"),
        (best((1, 50257), 2, "f32"), "the least takes 1206528 bytes of ub"),
    ],
)
def test_what_is_not_sorted_says_why(text: str, reason: str) -> None:
    assert reason in lowered(text).reasons[0]
