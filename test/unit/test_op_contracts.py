"""What holds for every elementwise, reducing and broadcasting op, on random shapes: the kernel
gives an array of the type that `infer` says, for dynamic dimensions too, and the same however its
operands lie in memory; a kernel that takes `out=` writes the same there, also in place."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, Block, SSAValue

sys.path.insert(0, str(Path(__file__).parent))
from each_op import takes

from ge.dialects.graph import Graph
from ge.dialects.graph.elementwise import (
    PREDICATES,
    BitcastOp,
    CastOp,
    ClampOp,
    CompareOp,
    Elementwise,
    SelectOp,
    ShiftOp,
)
from ge.dialects.graph.reduction import REDUCE_KINDS, ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.support.element_types import ELEMENT_TYPES, bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, is_refinement, tensor
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, dtype_of, type_of

TYPES = [row.type for row in ELEMENT_TYPES if not row.storage_only]
ELEMENTWISE = [
    op
    for op in Graph.operations
    if issubclass(op, Elementwise) and op not in (SelectOp, CastOp, BitcastOp)
]
PARAMS: dict[type[TensorOp], dict[str, Any]] = {
    CompareOp: {"predicate": list(PREDICATES)},
    ShiftOp: {"direction": ["left", "right"]},
}
BASE = settings(max_examples=settings().max_examples // 4, derandomize=True)


def value(shape: tuple[int, ...], element: Attribute) -> SSAValue:
    return Block(arg_types=[tensor(shape, element)]).args[0]


def random(shape: tuple[int, ...], element: Attribute, seed: int) -> Array:
    """Small numbers of both signs where the type has them (shifts by negative numbers and
    divisions by zero included)."""
    rng = np.random.default_rng(seed)
    dtype = dtype_of(element)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0 if dtype.kind == "u" else -5, 6, shape), dtype)
    return np.asarray(rng.standard_normal(shape) * 3, dtype)


def same(a: Array, b: Array) -> bool:
    equal = np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)
    return a.dtype == b.dtype and a.shape == b.shape and equal


def with_unknown_dims(shape: tuple[int, ...], mask: int) -> tuple[int, ...]:
    return tuple(DYNAMIC if mask >> i & 1 else d for i, d in enumerate(shape))


def check(op_class: type[TensorOp], arrays: list[Array], mask: int = 0, **params: Any) -> None:
    """Build the op with static and with dynamic operand types, and run its kernel."""
    types = [type_of(a) for a in arrays]
    absent = [None] * (len(op_class.get_irdl_definition().operands) - len(arrays))
    op = op_class.of(*(value(t.get_shape(), t.element_type) for t in types), *absent, **params)
    op.verify()
    result = np.asarray(numbers.evaluate(op, arrays)[0])
    assert type_of(result) == op.results[0].type
    views = [np.array(a, order="F") for a in arrays]
    assert result.tobytes() == np.asarray(numbers.evaluate(op, views)[0]).tobytes()
    unknown = [value(with_unknown_dims(t.get_shape(), mask), t.element_type) for t in types]
    dynamic = op_class.of(*unknown, *absent, **params)
    assert is_refinement(type_of(result), dynamic.results[0].type)

    kernel = numbers.find(op_class)
    assert kernel is not None
    if kernel.into:
        check_into(numbers.prepare(op), arrays, result)


def check_into(function: Any, arrays: list[Array], expected: Array) -> None:
    with np.errstate(all="ignore"):
        out = np.empty_like(expected)
        function(*arrays, out=out)
        assert same(out, expected)
        for i, array in enumerate(arrays):
            if array.dtype == expected.dtype and array.shape == expected.shape:
                copies = [a.copy() for a in arrays]
                function(*copies, out=copies[i])
                assert same(copies[i], expected), f"operand {i} overwritten in place"


@pytest.mark.parametrize("op_class", ELEMENTWISE, ids=lambda op: op.name)
@BASE
@given(data=st.data(), mask=st.integers(0, 15), seed=st.integers(0, 1000))
def test_elementwise(op_class: type[Elementwise], data: st.DataObject, mask: int, seed: int):
    element = data.draw(st.sampled_from([t for t in TYPES if takes(op_class, t)]))
    count = len(op_class.get_irdl_definition().operands)
    shapes = data.draw(mutually_broadcastable_shapes(num_shapes=count, min_side=0, max_dims=4))
    arrays = [random(s, element, seed + i) for i, s in enumerate(shapes.input_shapes)]
    choices = PARAMS.get(op_class, {})
    params = {name: data.draw(st.sampled_from(values)) for name, values in choices.items()}
    check(op_class, arrays, mask, **params)


@BASE
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_dims=4),
    element=st.sampled_from(TYPES),
    mask=st.integers(0, 15),
)
def test_select(shapes: Any, element: Attribute, mask: int):
    condition, a, b = shapes.input_shapes
    arrays = [random(condition, i1, 0)]
    check(SelectOp, [*arrays, random(a, element, 1), random(b, element, 2)], mask)


@BASE
@given(
    shape=array_shapes(min_dims=0, max_dims=3, min_side=0),
    element=st.sampled_from([t for t in TYPES if bitwidth(t) > 8]),
    scalars=st.sampled_from([(), (1,)]),
)
def test_clamp(shape: tuple[int, ...], element: Attribute, scalars: tuple[int, ...]):
    arrays = [random(shape, element, 0), random(scalars, element, 1), random(scalars, element, 2)]
    check(ClampOp, arrays)


@BASE
@given(
    shape=array_shapes(min_dims=0, max_dims=3, min_side=0),
    source=st.sampled_from(TYPES),
    to=st.sampled_from(TYPES),
    mask=st.integers(0, 7),
)
def test_conversions(shape: tuple[int, ...], source: Attribute, to: Attribute, mask: int):
    array = random(shape, source, 0)
    check(CastOp, [array], mask, to=to)
    if bitwidth(source) == bitwidth(to):
        check(BitcastOp, [array], mask, to=to)


@BASE
@given(
    data=st.data(),
    shape=array_shapes(min_dims=0, max_dims=4, min_side=0),
    element=st.sampled_from(TYPES),
    kind=st.sampled_from(REDUCE_KINDS),
    keep_dims=st.booleans(),
    mask=st.integers(0, 15),
)
def test_reduce(
    data: st.DataObject,
    shape: tuple[int, ...],
    element: Attribute,
    kind: str,
    keep_dims: bool,
    mask: int,
):
    axes = data.draw(st.sets(st.sampled_from(range(len(shape))))) if shape else set[int]()
    axes = [a - len(shape) if data.draw(st.booleans()) else a for a in axes]
    is_mean_of_integers = kind == "mean" and dtype_of(element).kind in "iu"
    if (element == i1 and kind not in ("max", "min")) or (is_mean_of_integers and 0 in shape):
        return
    array = random(shape, element, 0)
    check(ReduceOp, [array], mask, kind=kind, keep_dims=keep_dims, axes=axes or None)
    if axes:
        op = ReduceOp.of(
            value(shape, element), value((len(axes),), i64), kind=kind, keep_dims=keep_dims
        )
        (result,) = numbers.evaluate(op, [array, np.array(axes)])
        assert is_refinement(type_of(np.asarray(result)), op.result.type)


@BASE
@given(
    data=st.data(),
    shape=array_shapes(min_dims=1, max_dims=4),
    element=st.sampled_from([t for t in TYPES if bitwidth(t) > 8]),
    flags=st.tuples(st.booleans(), st.booleans()),
    mask=st.integers(0, 15),
)
def test_along_an_axis(
    data: st.DataObject,
    shape: tuple[int, ...],
    element: Attribute,
    flags: tuple[bool, bool],
    mask: int,
):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = random(shape, element, 0)
    for kind in ("max", "min"):
        params = {"keep_dims": flags[0], "select_last_index": flags[1]}
        check(ArgReduceOp, [array], mask, kind=kind, axis=axis, **params)
    for kind in ("sum", "prod"):
        params = {"exclusive": flags[0], "reverse": flags[1]}
        check(CumulativeOp, [array], mask, kind=kind, axis=axis, **params)


@BASE
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=4),
    element=st.sampled_from(TYPES),
)
def test_broadcast_to(shapes: Any, element: Attribute):
    a, b = shapes.input_shapes
    array = random(a, element, 0)
    check(BroadcastToOp, [array], shape=b)
