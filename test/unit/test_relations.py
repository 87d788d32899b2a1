"""What relations between the numbers before and after a pass let through."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ge.runtime.data.arrays import Array
from ge.transforms.rewriting.passes import (
    FAR,
    BitExact,
    Decibels,
    Relation,
    Ulps,
    bits_differ,
    relation_of,
    ulp_distance,
)

FLOATS: list[Any] = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
INF, NAN = np.inf, np.nan


def array(*values: float, dtype: Any = np.float32) -> Array:
    return np.array(values, np.float64).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@given(bits=st.integers(0, 2**64 - 1))
def test_neighbours_are_one_ulp_apart(dtype: Any, bits: int):
    size = np.dtype(dtype).itemsize
    a = np.array([bits % 2 ** (8 * size)], f"u{size}").view(dtype)
    if np.isfinite(a).all():
        up = np.nextafter(a, np.array([INF]).astype(dtype))
        assert ulp_distance(a, up)[0] == (0 if (a == up).all() else 1)
        assert ulp_distance(up, a)[0] == ulp_distance(a, up)[0]
        assert ulp_distance(a, a)[0] == 0


def test_ulps_of_what_is_no_number():
    a, b = array(0.0, NAN, NAN, 1.0, 3.4028234663852886e38), array(-0.0, NAN, 1.0, NAN, INF)
    assert ulp_distance(a, b).tolist() == [0, 0, FAR, FAR, 1]
    assert bits_differ(a, b).tolist() == [True, False, True, True, True]


CASES: list[tuple[Relation, tuple[float, ...], tuple[float, ...], bool]] = [
    (BitExact(), (1.0, NAN, INF), (1.0, NAN, INF), True),
    (BitExact(), (0.0,), (-0.0,), False),
    (BitExact(), (1.0,), (1.0000001,), False),
    (Ulps(4), (8.0, 1.0), (8.0, 1.000003), True),  # 4 ULPs of 8 are 3.8e-6
    (Ulps(4), (8.0, 1.0), (8.0, 1.000005), False),
    (Ulps(4, each=True), (8.0, 1.0), (8.0, 1.000003), False),
    (Ulps(4, each=True), (8.0, 1.0), (8.0, 1.0000003), True),
    (Ulps(4), (0.0, 1.0), (-0.0, 1.0), True),
    (Ulps(4), (NAN, 1.0), (0.0, 1.0), False),
    (Ulps(4), (1.0, INF), (1.0, -INF), False),
    (Ulps(4), (INF, 1.0), (3e38, 1.0), False),
    (Ulps(4, overflow=True), (INF, 1.0), (3e38, 1.0), True),
    (Ulps(4, overflow=True), (3e38, 1.0), (INF, 1.0), False),
    (Decibels(40), (1.0,) * 100, (1.009,) * 100, True),
    (Decibels(40), (1.0,) * 100, (1.011,) * 100, False),
    (Decibels(40), (1.0, NAN), (1.0, 0.0), False),
    (Decibels(40), (1.0, INF), (1.0, INF), True),
]


@pytest.mark.parametrize(("relation", "before", "after", "holds"), CASES)
def test_relation(
    relation: Relation, before: tuple[float, ...], after: tuple[float, ...], holds: bool
):
    text = relation.difference(array(*before), array(*after))
    assert (text is None) == holds, text


def test_types_and_shapes_stay():
    for relation in (BitExact(), Ulps(), Decibels()):
        assert relation.difference(array(1.0), array(1.0, dtype=np.float64))
        assert relation.difference(array(1.0), array(1.0, 1.0))
        assert relation.difference(array(), array()) is None
        one, two, nine = (np.array([n], np.int32) for n in (1, 2, 9))
        assert relation.difference(one, one) is None
        assert relation.difference(one, nine)
        assert (relation.difference(one, two) is None) == isinstance(relation, Decibels)


def test_what_rounding_of_the_inputs_does_is_excused():
    before, after = array(1.0, 2.0), array(1.0, 2.001)
    assert Ulps().difference(before, after)
    assert Ulps().difference(before, after, [array(1.0, 2.0005)]) is None
    assert Ulps().difference(before, after, [array(1.0, 2.0001)])
    assert Ulps().difference(array(1.0, INF), array(1.0, 3.0), [array(1.0, 5.0)]) is None
    one, two = np.array([1]), np.array([2])
    assert Ulps().difference(one, two, [two]) is None
    assert Ulps().difference(one, two, [one])
    assert BitExact().difference(before, after, [array(1.0, 2.0005)])


def test_a_pass_without_a_relation_keeps_every_bit():
    assert relation_of(object()) == BitExact()
