"""Kernels that move data: against plain definitions, views, and errors at run time."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import i64

from ge.dialects.graph import creation, indexing, shape, slicing
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, tensor
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, element_of, type_of


def built(op: type[TensorOp], arrays: Sequence[Array | None], **params: Any) -> TensorOp:
    """The op on values of these arrays' types, with every dimension dynamic."""
    types = [tensor((DYNAMIC,) * a.ndim, element_of(a.dtype)) for a in arrays if a is not None]
    values = iter(test.TestOp(result_types=types).results)
    return op.of(*(None if a is None else next(values) for a in arrays), **params)


def run(op: type[TensorOp], *arrays: Array | None, **params: Any) -> Any:
    result = numbers.evaluate(built(op, arrays, **params), [a for a in arrays if a is not None])
    return result if len(result) > 1 else result[0]


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_slice_bounds_are_those_of_python_but_for_a_start_before_the_dimension():
    for dim, start, end, step in product(
        range(5), range(-6, 7), range(-6, 7), (-3, -2, -1, 1, 2, 3)
    ):
        first, count = slicing.slice_bounds(start, end, step, dim)
        places = [first + i * step for i in range(count)]
        if step > 0 or start >= -dim:
            assert places == list(range(dim))[start:end:step]
        else:  # clamped to the first element, where Python takes none
            assert places == ([0] if dim and (end + dim if end < 0 else end) < 0 else [])


def test_constant_pad_by_definition():
    for dim, before, after in product(range(4), range(-5, 6), range(-5, 6)):
        size = dim + before + after
        if size < 0:
            continue
        x = np.arange(1, dim + 1, dtype=np.int32)
        wanted = [x[i - before] if 0 <= i - before < dim else 9 for i in range(size)]
        value = np.array(9, np.int32)
        got = run(slicing.PadOp, x, ints(before, after), None, value)
        assert got.tolist() == wanted


@pytest.mark.parametrize(
    "got",
    [
        run(shape.ReshapeOp, X, None, shape=(6, -1)),
        run(shape.TransposeOp, X, permutation=(2, 0, 1)),
        run(shape.UnsqueezeOp, X, None, axes=(0,)),
        run(shape.BroadcastToOp, X, None, shape=(5, 1, 3, 1)),
        run(slicing.SliceOp, X, None, None, None, None, starts=(-1,), ends=(-9,), steps=(-1,)),
        run(slicing.SplitOp, X, None, axis=1, sizes=(1, 2), results=2)[1],
        run(indexing.GatherOp, X, np.array(1, np.int32), axis=1),
    ],
)
def test_results_are_views(got: Array):
    assert np.shares_memory(got, X)


@pytest.mark.parametrize(
    ("op", "arrays", "params", "message"),
    [
        (indexing.GatherOp, (X, ints(0, 2)), {}, "index 2 is out of bounds"),
        (indexing.GatherOp, (X, ints(-3)), {}, "index -3 is out of bounds"),
        (indexing.GatherOp, (X, np.array(4, np.int64)), {"axis": 2}, "index 4 is out of bounds"),
        (indexing.GatherElementsOp, (X, np.full((1, 1, 1), 3)), {"axis": 1}, "out of bounds"),
        (indexing.GatherElementsOp, (X, np.zeros((3, 1, 1), np.int64)), {"axis": 1}, "only 2"),
        (indexing.GatherNdOp, (X, ints(9)), {}, "index 9 is out of bounds"),
        (indexing.ScatterElementsOp, (X, np.full((1, 1, 1), 2), X[:1, :1, :1]), {}, "bounds"),
        (indexing.ScatterNdOp, (X, np.array([[7]]), X[:1]), {}, "index 7 is out of bounds"),
        (indexing.TensorScatterOp, (X, X[:, :2], ints(0, 2)), {"axis": 1}, "write index 2"),
        (indexing.TopKOp, (X, ints(5)), {}, "k is 5, but the dimension is 4"),
        (indexing.OneHotOp, (ints(1), ints(-1), X[0, 0, :2]), {}, "depth is -1"),
        (indexing.CompressOp, (X, np.ones(5, np.bool_)), {"axis": 0}, "out of bounds"),
        (shape.ReshapeOp, (X, ints(5, -1)), {}, "does not divide into parts of 5"),
        (shape.ReshapeOp, (X, ints(5, 5)), {}, "cannot reshape"),
        (shape.SqueezeOp, (X, ints(0)), {}, "size not equal to one"),
        (shape.UnsqueezeOp, (X, ints(9)), {}, "axis 9 is out of range"),
        (shape.BroadcastToOp, (X, ints(5)), {}, "shape mismatch"),
        (shape.ReverseSequenceOp, (X, ints(1, 4)), {"batch_axis": 0, "time_axis": 1}, "lengths"),
        (slicing.SplitOp, (X, ints(1, 1)), {"axis": 1, "results": 2}, "add up to 2"),
        (slicing.PadOp, (X, ints(1, 1), None, None), {}, "2 elements where 6 are expected"),
        (slicing.SliceOp, (X, ints(0), ints(1), None, ints(0)), {}, "a step is 0"),
        (creation.RangeOp, (ints(0), ints(3), ints(0)), {}, "delta is 0"),
        (creation.FillOp, (ints(-1),), {"value": 0}, "negative dimensions"),
        (creation.FillOp, (ints(1 << 31, 1 << 31),), {"value": 0}, "more than this machine has"),
        (creation.EyeOp, (ints(1 << 31, 1 << 31),), {"element": i64}, "more than this machine"),
        (creation.RangeOp, (ints(0), ints(1 << 60), ints(1)), {}, "more than this machine has"),
        (shape.BroadcastToOp, (X[:, :, :1], ints(1 << 60)), {}, "more than this machine has"),
        (shape.TileOp, (X, ints(1 << 30, 1 << 30, 1)), {}, "more than this machine has"),
        (slicing.PadOp, (X, ints(*(1 << 30,) * 6), None, None), {}, "more than this machine has"),
        (indexing.OneHotOp, (ints(1), ints(1 << 60), X[0, 0, :2]), {}, "more than this machine"),
    ],
)
def test_errors_at_run_time(
    op: type[TensorOp], arrays: tuple[Array, ...], params: dict[str, Any], message: str
):
    with pytest.raises(GeError, match=message):
        run(op, *arrays, **params)


@pytest.mark.parametrize("dtype", [np.float32, np.uint64, np.int8])
def test_top_k_takes_the_lower_of_equal_indices_first(dtype: type[np.generic]):
    x = np.array([3, 1, 3, 2, 3, 1], dtype)
    values, indices = run(indexing.TopKOp, x, None, k=4)
    assert (values.tolist(), indices.tolist()) == ([3, 3, 3, 2], [0, 2, 4, 3])
    values, indices = run(indexing.TopKOp, x, None, k=3, largest=False)
    assert (values.tolist(), indices.tolist()) == ([1, 1, 2], [1, 5, 3])


def test_unique_in_order_of_first_occurrence():
    x = np.array([5, 2, 5, 7, 2], np.float32)
    results = run(indexing.UniqueOp, x, sorted=False)
    expected = [[5, 2, 7], [0, 1, 3], [0, 1, 0, 2, 1], [2, 2, 1]]
    assert [r.tolist() for r in results] == expected
    rows = run(indexing.UniqueOp, np.stack([x, x]), axis=1, sorted=False)
    assert [r.tolist() for r in rows] == [[expected[0]] * 2, *expected[1:]]


def test_one_hot_places_negative_indices_from_the_end_and_others_nowhere():
    got = run(indexing.OneHotOp, ints(-1, 0, 3, -4), None, ints(5, 7), depth=3)
    assert got.tolist() == [[5, 5, 7], [7, 5, 5], [5, 5, 5], [5, 5, 5]]


def test_nonzero_of_a_scalar_has_no_rows():
    assert run(indexing.NonZeroOp, np.array(3.0, np.float32)).shape == (0, 1)


def test_a_gather_reads_what_it_gathers():
    big, few = np.zeros((1000, 64), np.float32), np.zeros(4, np.int64)
    values = test.TestOp(result_types=[type_of(big), type_of(few)]).results
    work = indexing.GatherOp.of(*values).work()
    assert work is not None
    assert (work.macs, work.read, work.written) == (0, 4 * 64 * 4 + 4 * 8, 4 * 64 * 4)
