"""Views of buffers: which bytes they are, whether they meet, and what they are views of."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from ge.dialects.npu_task.control import LoopOp
from ge.dialects.npu_task.memory import ByteBox, MemoryView, boxes_of, owner_of, trips, view_of
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context

OWNER = create_ssa_value(MemRefType(f32, (1000,)))


@pytest.mark.parametrize(
    ("shape", "strides", "boxes"),
    [
        ((4, 8), (8, 1), (ByteBox(12, 128),)),
        ((4, 2), (8, 1), (ByteBox(12, 8, ((4, 32),)),)),
        ((2, 3, 2), (24, 8, 1), (ByteBox(12, 8, ((6, 32),)),)),
        ((2, 3, 2), (32, 8, 1), (ByteBox(12, 8, ((2, 128), (3, 32))),)),
        ((4, 1), (8, 1), (ByteBox(12, 4, ((4, 32),)),)),
        ((3, 4), (0, 1), (ByteBox(12, 16),)),
        ((2, 3), (2, 1), (ByteBox(12, 20),)),
        ((0, 3), (3, 1), ()),
    ],
)
def test_bytes_of_a_view(
    shape: tuple[int, ...], strides: tuple[int, ...], boxes: tuple[ByteBox, ...]
):
    assert MemoryView(OWNER, 3, shape, strides, f32).region.boxes == boxes


dims = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=3)


def elements(low: int, width: int, dims: list[tuple[int, int]]) -> set[int]:
    starts = product(*(range(0, n * s, s) if s else (0,) for n, s in dims))
    return {low + sum(at) + i for at in starts for i in range(width)}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3), dims), min_size=2, max_size=2))
def test_boxes_are_the_bytes_and_meet_where_they_share_one(
    views: list[tuple[int, int, list[tuple[int, int]]]],
):
    found = [boxes_of(*view) or [] for view in views]
    want = [elements(*view) for view in views]
    for boxes, expected in zip(found, want, strict=True):
        assert {b for box in boxes for b in elements(box.low, box.width, [*box.dims])} == expected
        assert max(box.high for box in boxes) == max(expected) + 1
    meet = any(a.meets(b) for a in found[0] for b in found[1])
    assert meet == bool(want[0] & want[1])


@given(dims)
def test_injective_views(dims: list[tuple[int, int]]):
    view = MemoryView(OWNER, 0, tuple(n for n, _ in dims), tuple(s for _, s in dims), f32)
    count = 1
    for n, _ in dims:
        count *= n
    assert view.is_injective() == (len(elements(0, 1, dims)) == count)


def test_a_scattered_view_is_taken_for_all_of_its_buffer():
    view = MemoryView(OWNER, 0, (1000, 1000, 1000), (1001, 1000, 999), f32)
    assert view.region.high >= 4 * view.end


HBM = '"hbm">'
V = f"memref<4xf32, strided<[1], offset: 4>, {HBM}"
NUMBER, TRUTH = f"memref<i64, {HBM}", f"memref<i1, {HBM}"
LOOPS = f"""
func.func @main() {{
  %n = npu_task.constant dense<3> : tensor<i64> as {NUMBER}
  %s = npu_task.slot arena 0 : memref<8xf32, {HBM}
  %v = memref.reinterpret_cast %s to offset: [4], sizes: [4], strides: [1]
    : memref<8xf32, {HBM} to {V}
  %w = memref.reinterpret_cast %v to offset: [6], sizes: [2], strides: [1]
    : {V} to memref<2xf32, strided<[1], offset: 6>, {HBM}
  npu_task.loop trip %n : {NUMBER} carried(%v : {V}) order [1] stacked [] {{
  ^bb0(%i: {NUMBER}, %g: {TRUTH}, %a: {V}):
    npu_task.loop trip %n : {NUMBER} carried(%a : {V}) order [1] stacked [] {{
    ^bb0(%j: {NUMBER}, %h: {TRUTH}, %b: {V}):
      %p = memref.reinterpret_cast %b to offset: [5], sizes: [1], strides: [1]
        : {V} to memref<1xf32, strided<[1], offset: 5>, {HBM}
      npu_task.yield %h, %b : {TRUTH}, {V}
    }}
    npu_task.yield %g, %a : {TRUTH}, {V}
  }}
  func.return
}}
"""


def test_views_count_from_their_owner():
    """Also through views of views, and through the arguments of loops in loops."""
    module = parse_module(context(), SourceText("in.mlir", LOOPS))
    module.verify()
    values: dict[str, SSAValue] = {}
    for op in module.walk():
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            values[value.name_hint or ""] = value
    for name, offset, sizes in (("w", 6, (2,)), ("a", 4, (4,)), ("b", 4, (4,)), ("p", 5, (1,))):
        view = view_of(values[name])
        assert view.owner is values["s"]
        assert (view.offset, view.sizes, view.strides) == (offset, sizes, (1,))
    assert owner_of(values["i"]) is values["i"]
    assert [trips(op) for op in module.walk() if isinstance(op, LoopOp)] == [(3, 3), (3, 3)]
