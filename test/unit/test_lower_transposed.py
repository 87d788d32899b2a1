"""Tile programs of transposed convolutions, against the bodies of their kernels."""

import sys
from collections.abc import Sequence
from math import gcd
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_convolution import AFTER, Shape, tensor
from tile_lowering import compare, lowered


def transposed(
    x: Shape,
    w: Shape,
    out: Shape,
    flags: str = "",
    element: str = "f32",
    bias: bool = False,
    after: str = "",
) -> str:
    """`after`: ops on %0, whose type is T, with %r of that type and %s for each channel; the last
    one is %1."""
    result = tensor(out, "i32" if element == "i8" else element)
    types = tensor(x, element), tensor(w, element), tensor(out[1:2], element)
    column = tensor((1, out[1], *(1 for _ in out[2:])), element)
    given_bias, bias_type = (" bias %b", f", {types[2]}") if bias else ("", "")
    arguments = zip("xwbrs", (*types, result, column), strict=True)
    used = [f"%{n}: {t}" for n, t in arguments if f"%{n}" in f"%x %w {given_bias} {after}"]
    after = after.replace("T", result).replace("S", column)
    return (
        f"func.func @main({', '.join(used)}) -> {result} {{\n"
        f"  %0 = graph.conv_transpose %x, %w{given_bias} {flags} : "
        f"({types[0]}, {types[1]}{bias_type}) -> {result}\n{after}\n"
        f"  func.return {'%1' if after else '%0'} : {result}\n}}"
    )


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_numbers(data: st.DataObject) -> None:
    """Any kernel (a smaller one than the stride, too), stride, dilation, pads and groups."""
    rank = data.draw(st.sampled_from([1, 2, 2, 3]))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    image, kernel = numbers(1, 8 if rank < 3 else 4), numbers(1, 4 if rank < 3 else 3)
    strides, more, begin, end = numbers(1, 3), numbers(0, 2), numbers(0, 1), numbers(0, 1)
    pairs = zip(strides, numbers(1, 2), strict=True)
    dilations = [n if gcd(step, n) == 1 else 1 for step, n in pairs]
    sizes = zip(image, strides, kernel, dilations, begin, end, strict=True)
    result = [(i - 1) * s + (k - 1) * d + 1 - b - e for i, s, k, d, b, e in sizes]
    more = [n % step for n, step in zip(more, strides, strict=True)]
    more[-1] = -result[-1] % strides[-1]
    result = [a + b for a, b in zip(result, more, strict=True)]
    assume(min(result) >= 1)
    group, ins, outs = (data.draw(st.integers(1, n)) for n in (2, 30, 20))
    element = data.draw(st.sampled_from(["f16", "f32", "i8"]))
    flags = (
        f"strides {strides} pads {begin + end} dilations {dilations} "
        f"group {group} output_padding [{', '.join(map(str, more))}]"
    )
    x, w = (2, ins * group, *image), (ins * group, outs, *kernel)
    out = 2, outs * group, *result
    text = transposed(x, w, out, flags, element, element != "i8" and data.draw(st.booleans()))
    compare(text, data.draw(st.sampled_from(["910b2", "310p3"])), all_lowered=True)


@pytest.mark.parametrize(
    "after",
    [pytest.param(name, marks=pytest.mark.soak if name == "relu" else []) for name in AFTER],
)
def test_ops_on_the_result(after: str) -> None:
    """What is added has the memref of the result: a place of each phase."""
    flags = "strides [2, 2] pads [1, 1, 1, 1]"
    text = transposed((1, 9, 3, 4), (9, 20, 4, 4), (1, 20, 6, 8), flags, "f16", True, AFTER[after])
    compare(text, all_lowered=True, orders=1)


def test_infinities_meet_no_element_that_a_phase_lacks() -> None:
    """A kernel of 3 elements has two of them in one phase, one in the other."""

    def infinite(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        array = random_array(rng, element, shape)
        if shape[1] == 5:
            array[0, 2, 1, 1] = float("inf")
        return array

    flags = "strides [2, 2] pads [1, 1, 0, 0]"
    text = transposed((1, 5, 4, 4), (5, 7, 3, 3), (1, 7, 8, 8), flags)
    compare(text, all_lowered=True, make=infinite)


REASONS = {
    "9 columns of its result are no multiple of the stride": (
        (1, 4, 4, 4), (4, 4, 3, 3), (1, 4, 9, 9), "strides [2, 2]"
    ),
    "its strides and dilations have a divisor in common": (
        (1, 4, 3, 3), (4, 4, 2, 2), (1, 4, 8, 8),
        "strides [2, 2] dilations [2, 2] output_padding [1, 1]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_what_has_no_program(reason: str) -> None:
    found = lowered(transposed(*REASONS[reason]))
    assert not found.pairs
    assert any(reason in r for r in found.reasons), found.reasons
