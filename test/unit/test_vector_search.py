"""The search for tilings of vector kernels, where targets state cycles of instructions: it finds
what looking at all tilings does, and longer kernels take no less time. Targets with split cores
(910b2) and with merged ones (310p3)."""

from collections.abc import Callable
from math import ceil
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Block

from ge.dialects.fused_op import Body
from ge.dialects.graph.activation import SigmoidOp
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.normalization import RmsNormOp, SoftmaxOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import tensor
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cost import task_time
from ge.runtime.library.costs.vector import VectorShape, vector_kernel, vector_shape
from ge.runtime.library.costs.vector_search import (
    Bound,
    fastest,
    numbers_of_blocks,
    tile_sizes,
    total_us,
)

TARGETS = [Target.load("910b2"), Target.load("310p3")]

Kind = Callable[[int, int, Any], TensorOp]


def values(*types: Any) -> Any:
    return Block(arg_types=[tensor(shape, element) for shape, element in types]).args


def softmax(rows: int, length: int, element: Any) -> TensorOp:
    return SoftmaxOp.of(*values(((rows, length), element)), axis=1)


def rms_norm(rows: int, length: int, element: Any) -> TensorOp:
    return RmsNormOp.of(*values(((rows, length), element), ((length,), element)))


def sigmoid(rows: int, length: int, element: Any) -> TensorOp:
    return SigmoidOp.of(*values(((rows, length), element)))


def add(rows: int, length: int, element: Any) -> TensorOp:
    return AddOp.of(*values(*[((rows, length), element)] * 2))


KINDS = st.sampled_from([softmax, rms_norm, sigmoid, add])
ROWS = st.one_of(st.integers(1, 100), st.integers(1, 3000))
LENGTHS = st.one_of(st.integers(2, 300), st.integers(2, 6000))
ELEMENTS = st.sampled_from([f16, bf16, f32])
MORE = st.one_of(st.just(0), st.integers(1, 100))


def us(op: TensorOp, target: Target) -> float:
    """The time of a launch in isolation."""
    time = task_time(op, Engine.VECTOR, None, target)
    assert time is not None
    return time.total_us


def shape_of(op: TensorOp, target: Target) -> VectorShape:
    return vector_shape(op, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@given(KINDS, ROWS, LENGTHS, ELEMENTS)
@example(softmax, 253, 98, f32)
@example(softmax, 1, 98, f32)
@example(softmax, 24, 64, f32)
@example(softmax, 48, 5000, f16)
@example(sigmoid, 21, 224, f16)
def test_twice_as_many_take_no_less(
    target: Target, kind: Kind, rows: int, length: int, element: Any
) -> None:
    """Twice the rows, and rows of twice the length as long as they stay on the core. All counts of
    bytes and cycles are doubled exactly, so that nothing is rounded another way."""
    time = us(kind(rows, length, element), target)
    assert us(kind(2 * rows, length, element), target) >= time
    longer = kind(rows, 2 * length, element)
    if vector_kernel(Body.of(longer), target).rows_fit:
        assert us(longer, target) >= time * (1 - 1e-12)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@given(KINDS, ROWS, LENGTHS, ELEMENTS, MORE, MORE)
@example(softmax, 675, 18, f16, 10, 0)
@example(softmax, 1193, 3, bf16, 0, 25)
@example(softmax, 96, 64, f32, 1, 0)
@example(sigmoid, 45, 103, bf16, 0, 38)
@example(sigmoid, 95, 133, f16, 1, 0)
@example(add, 50, 97, bf16, 0, 1)
def test_more_takes_no_less(
    target: Target, kind: Kind, rows: int, length: int, element: Any, more: int, longer: int
) -> None:
    """Some more rows, and some more elements in each, but for rounding."""
    larger = kind(rows + more, length + longer, element)
    if vector_kernel(Body.of(larger), target).rows_fit:
        assert us(larger, target) >= us(kind(rows, length, element), target) * (1 - 1e-12)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@settings(max_examples=settings().max_examples // 3)
@given(KINDS, st.integers(1, 300), st.integers(2, 400), ELEMENTS)
@example(softmax, 253, 98, f32)
@example(softmax, 300, 400, bf16)
def test_nothing_that_is_left_out_is_faster(
    target: Target, kind: Kind, rows: int, length: int, element: Any
) -> None:
    shape = shape_of(kind(rows, length, element), target)
    unit = shape.unit
    units = ceil(shape.elements / unit)
    sizes = units if shape.most == shape.elements else shape.most // unit
    everything = (
        total_us(shape, min(size * unit, shape.elements), blocks)
        for size in range(1, sizes + 1)
        for blocks in range(1, min(ceil(units / size), target.vector_cores) + 1)
    )
    assert total_us(shape, *fastest(shape)) <= min(everything) * (1 + 1e-12)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@settings(max_examples=settings().max_examples // 2)
@given(KINDS, ROWS, LENGTHS, ELEMENTS)
def test_bounds_are_bounds(
    target: Target, kind: Kind, rows: int, length: int, element: Any
) -> None:
    shape = shape_of(kind(rows, length, element), target)
    unit = shape.unit
    units = ceil(shape.elements / unit)
    for number in list(numbers_of_blocks(shape, units))[::5]:
        share = ceil(units / number)
        blocks = ceil(units / share)
        bound = Bound.of(shape, blocks)
        for size in tile_sizes(shape, share, units)[::3]:
            tile, rounds = min(size * unit, shape.elements), ceil(share / size)
            time = total_us(shape, tile, blocks) * (1 + 1e-12)
            assert bound.transfers_us(rounds) <= time
            assert bound.us(tile, rounds) <= time


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("kind", [softmax, rms_norm, sigmoid, add], ids=lambda k: k.__name__)
def test_few_tilings_are_looked_at(target: Target, kind: Kind) -> None:
    for rows, length in ((8192, 8192), (2000, 3000), (253, 98), (1, 4000), (4096, 1024)):
        shape = shape_of(kind(rows, length, f32), target)
        calls = list[Any]()

        class Counted(VectorShape):
            def pipes(self, *tiling: Any) -> Any:
                calls.append(tiling)
                return super().pipes(*tiling)

        facts = [getattr(shape, name) for name in VectorShape.__dataclass_fields__]
        fastest(Counted(*facts))
        assert len(calls) <= 60


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(1, 3000), st.integers(2, 5000))
def test_the_busiest_core_has_whole_rounds(rows: int, length: int) -> None:
    """A block that has one row more than others keeps them waiting for all of it."""
    target = TARGETS[0]
    shape = shape_of(softmax(rows, length, f32), target)
    rounds = ceil(rows / 48)
    shared = shape.pipes(length, 48, rounds > 1)
    busy = softmax(48 * rounds, length, f32)
    full = shape_of(busy, target).pipes(length, 48, rounds > 1)
    assert shared.vector_us == pytest.approx(full.vector_us)
    assert shared.load_us == pytest.approx(full.load_us)
    assert shared.time(target).in_us == pytest.approx(full.time(target).in_us)
