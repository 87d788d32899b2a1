"""Tile programs that put updates into a copy of a tensor, against the kernels' bodies: bit for bit,
whatever order the cores' pipes run in."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

from ge.dialects.support.types import Shape
from ge.dialects.tile.compute import ScatterOp
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import Make, compare, lowered

from ge.runtime.cores.kernel import TileKernel


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def function(op: str, types: Sequence[str], attributes: str = "") -> str:
    """Of the input, the indices and the updates."""
    arguments = ", ".join(f"%{n}: {t}" for n, t in zip("abc", types, strict=False))
    operands = "%a, %c at %b" if "tensor_scatter" in op else "%a, %b, %c"
    order = (types[0], types[2], types[1]) if "tensor_scatter" in op else types
    line = f"%r = graph.{op} {operands} {attributes} : ({', '.join(order)}) -> {types[0]}"
    return f"func.func @main({arguments}) -> {types[0]} {{\n{line}\nreturn %r : {types[0]}\n}}"


def indices_below(below: Sequence[int], least: Sequence[int]) -> Make:
    """Of vectors of indices, for each place its own range."""

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if str(element) != "i64":
            return random_array(rng, element, shape)
        return rng.integers(least, below, (*shape[:-1], len(below))).reshape(tuple(shape))

    return make


def rows(
    shape: Shape, places: Shape, depth: int, element: str, reduction: str = "none"
) -> tuple[str, Make]:
    types = [tensor(s, e) for s, e in (
        (shape, element), ((*places, depth), "i64"), ((*places, *shape[depth:]), element)
    )]  # fmt: skip
    size = shape[:depth]
    make = indices_below(size, [-d for d in size])
    return function("scatter_nd", types, f"reduction {reduction}"), make


def elements(
    shape: Shape, axis: int, count: int, element: str, reduction: str = "none"
) -> tuple[str, Make]:
    size = tuple(count if i == axis else d for i, d in enumerate(shape))
    types = [tensor(shape, element), tensor(size, "i64"), tensor(size, element)]
    make = indices_below([shape[axis]] * size[-1], [-shape[axis]] * size[-1])
    return function("scatter_elements", types, f"axis {axis} reduction {reduction}"), make


def cache(shape: Shape, axis: int, count: int, mode: str) -> tuple[str, Make]:
    size = tuple(count if i == axis else d for i, d in enumerate(shape))
    types = [tensor(shape, "f16"), tensor(shape[:1], "i64"), tensor(size, "f16")]
    most = shape[axis] - count + 1 if mode == "linear" else 3 * shape[axis]
    make = indices_below([most] * shape[0], [0] * shape[0])
    return function("tensor_scatter", types, f"axis {axis} mode {mode}"), make


def total_us(text: str) -> float:
    found = lowered(text)
    ((_, program),) = found.pairs
    return TileKernel(program, found.target).time().total_us


def test_sums_are_shared_by_all_cores() -> None:
    """4096 updates of 2048 numbers: 2 x 16 MiB come and go once each, not for each core."""
    text, _ = rows((2048, 2048), (4096,), 1, "f32", "add")
    assert total_us(text) < 4 * 33.6 / 1.4  # MB over TB/s: input, updates, what is added to, result
    more, _ = rows((2048, 2048), (8192,), 1, "f32", "add")
    assert total_us(more) < 2.1 * total_us(text)


def test_updates_pass_all_rows_of_a_box_at_once() -> None:
    few, many = (total_us(elements((n, 40000), 0, 4, "f32", "max")[0]) for n in (4, 32))
    assert many < 8 * few


def gathered(shape: Shape, axis: int, count: int, element: str, index: str = "i64") -> str:
    size = tuple(count if i == axis else d for i, d in enumerate(shape))
    x, k, y = tensor(shape, element), tensor(size, index), tensor(size, element)
    return (
        f"func.func @main(%a: {x}, %b: {k}) -> {y} {{\n"
        f"%r = graph.gather_elements %a, %b axis {axis} : ({x}, {k}) -> {y}\n"
        f"return %r : {y}\n}}"
    )


def indices_of(size: int, index: str) -> Make:
    def make(rng: np.random.Generator, kind: Attribute, shape: Sequence[int]) -> Array:
        if str(kind) != index:
            return random_array(rng, kind, shape)
        return rng.integers(-size, size, tuple(shape)).astype(index.replace("i", "int"))

    return make


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_elements_are_gathered(data: st.DataObject) -> None:
    """Along any axis, at indices from either end. Short vectors of integers are for the host."""
    element = data.draw(st.sampled_from(["f16", "f32", "i8"]))
    least = 1 + (element == "i8")
    shape = tuple(data.draw(st.lists(st.integers(2, 40), min_size=least, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    index = data.draw(st.sampled_from(["i32", "i64"]))
    text = gathered(shape, axis, data.draw(st.integers(1, 60)), element, index)
    target = data.draw(st.sampled_from(["910b2", "310p3"]))
    make = indices_of(shape[axis], index)
    compare(text, target, all_lowered=True, exact=True, make=make, orders=1)


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_what_is_gathered_is_reduced(kind: str) -> None:
    """As in losses, whatever is one launch of it."""
    text = f"""
func.func @main(%a: tensor<3x5xf32>, %b: tensor<3x1xi64>) -> tensor<f32> {{
  %0 = graph.gather_elements %a, %b axis 1
    : (tensor<3x5xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %1 = graph.neg %0 : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %2 = graph.squeeze %1 axes [1] : (tensor<3x1xf32>) -> tensor<3xf32>
  %r = graph.reduce {kind} %2 keep_dims false : (tensor<3xf32>) -> tensor<f32>
  return %r : tensor<f32>
}}"""
    compare(text, all_lowered=True, make=indices_of(5, "i64"), orders=1)


def test_elements_of_a_long_axis_are_gathered_in_parts() -> None:
    text = gathered((9000, 9), 0, 700, "f32", "i32")
    compare(text, all_lowered=True, exact=True, make=indices_of(9000, "i32"))
    times = [total_us(gathered((4000, 96 * n), 0, 4000, "f32")) for n in (8, 16)]
    assert times[1] < 2.2 * times[0]


CASES = {
    "rows, some several times": rows((20, 72), (30,), 1, "f32"),
    "ragged rows": rows((20, 70), (2, 7), 1, "f16"),
    "rows by two numbers": rows((9, 8, 70), (5,), 2, "i8"),
    "single elements": rows((9, 7), (30,), 2, "f32"),
    "sums of rows": rows((20, 72), (50,), 1, "f32", "add"),
    "sums of elements": rows((50,), (90,), 1, "f16", "add"),
    "long rows": rows((9, 7200), (3,), 1, "i8"),
    "elements of columns": elements((40, 72), 0, 5, "f32"),
    "elements of rows": elements((40, 70), 1, 4, "f16"),
    "sums": elements((90,), 0, 20, "f32", "add"),
    "products": elements((3, 5, 7), 2, 9, "f16", "mul"),
    "largest": elements((3, 50, 20), 1, 9, "i8", "max"),
    "least": elements((4, 100), 0, 3, "f32", "min"),
    "a cache": cache((2, 3, 50, 16), 2, 4, "linear"),
    "a cache that goes on at its begin": cache((2, 50, 16), 1, 4, "circular"),
}


@pytest.mark.parametrize("name", CASES)
def test_scatter(name: str) -> None:
    text, make = CASES[name]
    compare(text, all_lowered=True, exact=True, make=make, orders=2)


ONE_BY_ONE = {
    "rows whole": elements((5, 700), 1, 300, "f32", "mul"),
    "columns": elements((2, 1500, 40), 1, 70, "f32", "max"),
    "a part of an axis for each core": elements((40000,), 0, 500, "i8", "min"),
    "an axis in parts, and columns that end before": elements((6000, 9), 0, 300, "f32", "add"),
    "halves": elements((900, 70), 0, 40, "bf16"),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_updates_of_a_long_axis_are_put_one_by_one(name: str) -> None:
    text, make = ONE_BY_ONE[name]
    compare(text, all_lowered=True, exact=True, make=make, orders=2)
    ((_, program),) = lowered(text).pairs
    assert any(isinstance(op, ScatterOp) for op in program.walk())


NONE = {
    'stores do not combine by "mul"': rows((9, 72), (3,), 1, "f32", "mul"),
    "stores do not add bf16 as the kernel does": rows((9, 72), (3,), 1, "bf16", "add"),
    "elements at indices would be moved one by one": rows((9, 9), (140000,), 2, "f32"),
    "what bf16 is combined to is rounded once": elements((4, 100), 1, 3, "bf16", "add"),
}


@pytest.mark.parametrize("reason", NONE)
def test_what_has_no_program_says_why(reason: str) -> None:
    assert reason in lowered(NONE[reason][0]).reasons[0]


def test_what_the_host_computes_has_no_program() -> None:
    """As of indices that are put in order, of a few integers."""
    result = lowered(function("scatter_elements", [tensor([50], "i32")] * 3))
    assert not result.pairs
    assert "nothing is lowered for engine host" in result.reasons[0]
