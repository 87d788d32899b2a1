"""Numbers that remember what they follow from are what their expressions are."""

from math import ceil, floor, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ge.dialects.support.dims import Extent, Polynomial, value_of

SIZES = {"a": 100003, "b": 700001}


def extent(name: str) -> Extent:
    size = Polynomial.named(name)
    assert size is not None
    return Extent(SIZES[name], size)


@st.composite
def computed(draw: st.DrawFn) -> int:
    """What some steps of arithmetic make of two sizes."""
    numbers: list[int] = [extent("a"), extent("b"), draw(st.integers(1, 300))]
    for _ in range(draw(st.integers(1, 6))):
        x, y = draw(st.sampled_from(numbers)), draw(st.sampled_from(numbers))
        n = draw(st.integers(1, 130))
        made = (
            x + y,
            x - y,
            n - x,
            x * n,
            n * y,
            x * y,
            x // n,
            x % n,
            ceil(x / n),
            -(-x // n),
            -x,
        )
        numbers.append(draw(st.sampled_from(made)))
    return numbers[-1]


@given(computed(), st.integers(1, 500), st.integers(1, 500))
def test_a_number_is_its_expression_at_all_sizes(number: int, a: int, b: int):
    if not isinstance(number, Extent):
        return
    text = str(number.size)
    assert value_of(text, SIZES) == int(number)
    found = value_of(text, {"a": a, "b": b})
    assert found is not None
    assert found % number.divisor == 0


def test_what_depends_on_no_size_is_a_plain_number():
    a, b = extent("a"), extent("b")
    assert type((64 * a) % 16) is int
    assert (64 * a) % 16 == 0
    assert type(a - a) is int
    assert a * b * 64 // b == 64 * a
    assert prod((a, b, 64)) // (a * b) == 64
    assert floor(64 * a / 64) == a


def test_an_extent_is_no_number():
    a, b = extent("a"), extent("b")
    assert a != 100003
    assert a != 1
    assert a % 16 != a % 16 + 1
    assert a > 1
    assert a == extent("a") != b
    assert hash(a) == hash(extent("a"))
    assert {a: 1, 100003: 2}[100003] == 2
    assert max(a, 3) is a
    assert min(a, 3) == 3


A, B = extent("a"), extent("b")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (ceil(A / 64), "((a + 63) // 64)"),
        (-(-A // 64), "((a + 63) // 64)"),
        (ceil(64 * A / 64), "a"),
        (4 * A * B + 1, "4 * a * b + 1"),
        ((64 * A + B) // 64, "(b // 64) + a"),
    ],
)
def test_expressions_are_short(number: Extent, text: str):
    assert str(number.size) == text


def test_times_a_fraction_it_is_a_number():
    """Also where the other one is 0: nothing is divided by it."""
    a = extent("a")
    assert (a * 0.0, 0.5 * a, a + 0.5) == (0.0, int(a) / 2, int(a) + 0.5)
