"""Tile programs of matmuls, against the bodies of their kernels."""

import sys
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge.runtime.tiles.kernel import TileKernel

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

Batch: TypeAlias = tuple[list[int], list[int], list[int]]


def text(shapes: list[list[int]], element: str, result: str, flags: str = "") -> str:
    types = ["tensor<" + "x".join(map(str, [*s, ""])) + element + ">" for s in shapes[:2]]
    out = "tensor<" + "x".join(map(str, [*shapes[2], ""])) + result + ">"
    return (
        f"func.func @main(%a: {types[0]}, %b: {types[1]}) -> {out} {{\n"
        f"  %0 = graph.matmul %a, %b {flags} : ({types[0]}, {types[1]}) -> {out}\n"
        f"  func.return %0 : {out}\n}}"
    )


def matmul(
    m: int,
    n: int,
    k: int,
    element: str = "f16",
    batch: Batch = ([], [], []),
    turned: tuple[bool, bool] = (False, False),
) -> str:
    lhs = [*batch[0], k, m] if turned[0] else [*batch[0], m, k]
    rhs = [*batch[1], n, k] if turned[1] else [*batch[1], k, n]
    names = ("transpose_lhs", "transpose_rhs")
    flags = ", ".join(f"{f} = true" for f, on in zip(names, turned, strict=True) if on)
    result = "i32" if element == "i8" else element
    return text([lhs, rhs, [*batch[2], m, n]], element, result, f"{{{flags}}}" if flags else "")


BATCHES: list[Batch] = [
    ([], [], []),
    ([3], [3], [3]),
    ([3], [], [3]),
    ([], [2], [2]),
    ([2, 3], [2, 1], [2, 3]),
    ([1, 2], [3, 1], [3, 2]),
    ([2, 2, 2], [2, 1, 2], [2, 2, 2]),
]


@settings(max_examples=14, deadline=None)
@given(
    st.tuples(*[st.integers(1, 70)] * 3),
    st.sampled_from(["f16", "bf16", "f32", "i8"]),
    st.sampled_from(BATCHES),
    st.tuples(st.booleans(), st.booleans()),
)
def test_all_layouts(
    sizes: tuple[int, int, int],
    element: str,
    batch: Batch,
    turned: tuple[bool, bool],
) -> None:
    compare(matmul(*sizes, element, batch, turned), all_lowered=True)


@pytest.mark.parametrize("sizes", [(1, 700, 300), (130, 70, 1100), (600, 17, 33)])
def test_ragged_ends(sizes: tuple[int, int, int]) -> None:
    compare(matmul(*sizes), all_lowered=True, orders=2)


def test_steps_of_l1_load_while_the_cube_works() -> None:
    """Long sums take hardly longer than the busiest pipe of a core."""
    result = lowered(matmul(1024, 1024, 4096))
    time = TileKernel(result.pairs[0][1], result.target).time()
    assert time.cores == result.target.cube_cores
    assert time.core_us < 1.1 * max(p.busy_us for p in time.pipes)


def test_other_element_types_are_not_lowered() -> None:
    result = lowered(text([[4, 4], [4, 4], [4, 4]], "i32", "i32"))
    assert not result.pairs
    assert "the cube does not multiply i32 by i32" in result.reasons[0]
