"""Which axes of operands go with an axis of a result, by brute force: what lies behind the first n
elements never changes the first n of the result by a bit, and neither does cutting it off."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i64
from xdsl.utils.exceptions import VerifyException

sys.path.insert(0, str(Path(__file__).parent))

from box_cases import CASES, F, Operands, built, limits_of, random, value

from ge.dialects.graph import indexing as x
from ge.dialects.graph import pooling as p
from ge.dialects.graph import recurrent as u
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import CumulativeOp
from ge.dialects.graph.slicing import PadOp
from ge.dialects.support.boxes import each_axes, prefix_axes, says_boxes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of
from ge.runtime import numbers
from ge.runtime.data.arrays import Array

LSTM = [((4, 3, 2), F), ((1, 8, 2), F), ((1, 8, 2), F)]
MORE: list[tuple[type[TensorOp], Operands, dict[str, Any]]] = [
    (ConvOp, [((1, 2, 6), F), ((3, 2, 3), F)], {"pads": [2, 0]}),  # causal
    (u.LstmOp, [*LSTM, None, ((3,), i64, 5)], {}),
    (u.LstmOp, LSTM, {"direction": "reverse"}),
    (AttentionOp, [((1, 2, 5, 4), F)] * 3, {"causal": True}),
    (PadOp, [((4, 5), F)], {"pads": [0, 2, 0, 1], "mode": "edge"}),
    (ConvTransposeOp, [((1, 2, 3), F), ((2, 3, 2), F)], {"strides": [2]}),
    (ResizeOp, [((1, 2, 3), F)], {"scales": [1.0, 1.0, 2.0]}),
    (p.MaxPoolIndicesOp, [((3, 4, 2), F)], {"kernel": [1]}),
    (x.ScatterElementsOp, [((3, 4), F), ((1, 4), i64, range(-1, 0)), ((1, 4), F)], {"axis": 0}),
]  # fmt: skip
ALL = [*CASES, *MORE]


def evaluated(op: TensorOp, arrays: Sequence[Array], result: int) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(numbers.evaluate(op, arrays)[result])


def along(array: Array, axes: frozenset[int], n: int) -> tuple[slice, ...]:
    return tuple(slice(n) if a in axes else slice(None) for a in range(array.ndim))


def cut(
    case: tuple[type[TensorOp], Operands, dict[str, Any]], axes: Sequence[frozenset[int]], n: int
) -> TensorOp | None:
    """The op on the first n elements of operands; None where it does not take them."""
    kind, operands, params = case
    rest = iter(axes)

    def less(operand: Any) -> Any:
        if operand is None or isinstance(operand, list):
            return operand and [less(o) for o in operand]
        own = next(rest)
        shape = tuple(n if a in own else d for a, d in enumerate(operand[0]))
        return (shape, *operand[1:])

    shapes = {k: v for k, v in params.items() if k in ("shape", "sizes")}
    try:
        return None if shapes else built(kind, [less(o) for o in operands], params)
    except VerifyException:
        return None


@pytest.mark.parametrize("case", ALL, ids=[f"{i}-{c[0].name}" for i, c in enumerate(ALL)])
def test_what_lies_behind_does_not_count(
    case: tuple[type[TensorOp], Operands, dict[str, Any]],
):
    op, limits = built(*case), limits_of(case[1])
    rng = np.random.default_rng(0)
    for result, axis in ((r, a) for r, v in enumerate(op.results) for a in range(len(shape_of(v)))):
        for axes in (each_axes(op, axis, result), prefix_axes(op, axis, result)):
            if axes is None:
                continue
            length = next(shape_of(v)[min(a)] for v, a in zip(op.operands, axes, strict=True) if a)
            for n in range(1, length):
                arrays, others = (
                    [random(rng, *v) for v in zip(op.operands, limits, strict=True)]
                    for _ in range(2)
                )
                for i, (array, own) in enumerate(zip(arrays, axes, strict=True)):
                    others[i] = np.array(others[i] if own else array)
                    others[i][along(array, own, n)] = array[along(array, own, n)]
                got, changed = (evaluated(op, a, result) for a in (arrays, others))
                first = along(got, frozenset((axis,)), n * got.shape[axis] // length)
                assert got[first].tobytes() == changed[first].tobytes()
                if (smaller := cut(case, axes, n)) is not None:
                    parts = [a[along(a, own, n)] for a, own in zip(arrays, axes, strict=True)]
                    short = evaluated(smaller, parts, result)
                    if short.shape == got[first].shape:
                        np.testing.assert_allclose(short, got[first], rtol=1e-5, atol=1e-5)


def test_what_is_known_of_elements_is_known_of_the_first_ones():
    for case in ALL:
        op = built(*case)
        for axis in range(len(shape_of(op.results[0]))):
            each, prefix = each_axes(op, axis), prefix_axes(op, axis)
            if each is not None and prefix is not None:
                assert all(a <= b for a, b in zip(each, prefix, strict=True))


NONE: frozenset[int] = frozenset()


def ax(*axes: int) -> frozenset[int]:
    return frozenset(axes)


def test_what_goes_forward_needs_what_comes_before():
    lstm = built(u.LstmOp, LSTM, {})
    assert [prefix_axes(lstm, a) for a in range(4)] == [
        (ax(0), NONE, NONE), None, (ax(1), NONE, NONE), None,
    ]  # fmt: skip
    assert [prefix_axes(lstm, 0, 1), prefix_axes(lstm, 1, 1)] == [None, (ax(1), NONE, NONE)]
    backward = built(u.LstmOp, LSTM, {"direction": "reverse"})
    assert prefix_axes(backward, 0) is None
    causal, centred = (
        built(ConvOp, [((1, 2, 6), F), ((3, 2, 3), F)], {"pads": pads}) for pads in ([2, 0], [1, 1])
    )
    assert [each_axes(causal, 2), prefix_axes(causal, 2)] == [None, (ax(2), NONE)]
    assert prefix_axes(centred, 2) is None
    larger = built(*MORE[-4])
    assert [each_axes(larger, 2), prefix_axes(larger, 2)] == [None, (ax(2), NONE)]
    attention = built(AttentionOp, [((1, 2, 5, 4), F)] * 3, {"causal": True})
    assert each_axes(attention, 2) == (ax(2), NONE, NONE)
    assert prefix_axes(attention, 2) == (ax(2), ax(2), ax(2))
    total = CumulativeOp.of(value((3, 4), F), kind="sum", axis=1, reverse=True)
    assert [prefix_axes(total, a) for a in (0, 1)] == [(ax(0),), None]


def test_sizes_count_where_indices_may_count_from_the_end():
    where = built(p.MaxPoolIndicesOp, [((3, 4, 2), F)], {"kernel": [1]})
    assert [each_axes(where, 1, r) for r in (0, 1)] == [(ax(1),), None]
    assert each_axes(where, 0, 1) == (ax(0),)
    placed = built(x.ScatterNdOp, [((3, 4), F), ((2, 1), i64), ((2, 4), F)], {})
    assert each_axes(placed, 0) is None
    assert each_axes(placed, 1) == (ax(1), NONE, ax(1))


def test_nothing_is_known_of_an_op_without_boxes():
    unknown = x.NonZeroOp.of(value((3, 4), F))
    assert not says_boxes(unknown)
    assert each_axes(unknown, 1) is None
    assert says_boxes(SoftmaxOp.of(value((3, 4), F)))
