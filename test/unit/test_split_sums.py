"""Cores that share the terms of a matmul's sums (split-K)."""

import sys
from pathlib import Path

import pytest

from ge.lowering.kernels import blocks, matmul
from ge.runtime.tiles.kernel import TileKernel

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear
from test_lower_operands import weights
from tile_lowering import Lowered, compare, lowered


def is_shared(result: Lowered) -> bool:
    ((_, program),) = result.pairs
    assert bool(program.workspace) == bool(program.barriers)
    return bool(program.workspace)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cores share each block's terms, as if merging took no time."""
    monkeypatch.setattr(matmul, "SPLITS", (3,))
    monkeypatch.setattr(blocks, "merging", lambda *_: -1e9)


def plain(m: int, k: int, n: int, dtype: str = "f16") -> str:
    a, b, c = (f"tensor<{s}x{dtype}>" for s in (f"{m}x{k}", f"{k}x{n}", f"{m}x{n}"))
    return f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %r = graph.matmul %a, %b : ({a}, {b}) -> {c}
      func.return %r : {c}
    }}"""


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "text",
    [
        linear(*weights(1, 2048, 96, "i4", block=32)),
        linear(*weights(5, 2000, 200)),
        linear(*weights(16, 2048, 70, turned=True)),
    ],
)
def test_parts_are_added_in_their_order(text: str) -> None:
    """In any order of cores and pipes the same bits, and proved."""
    assert is_shared(compare(text, all_lowered=True, orders=2))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_sums_that_would_be_stored_as_they_are(dtype: str) -> None:
    assert is_shared(compare(plain(3, 5000, 48, dtype), all_lowered=True, orders=1))


@pytest.mark.usefixtures("always")
def test_many_rows_are_not_shared() -> None:
    assert not is_shared(lowered(linear(*weights(40, 512, 96))))


@pytest.mark.parametrize(("text", "shares"), [
    (linear(*weights(1, 4096, 4096, "i4", block=32)), True),
    (linear(*weights(1, 64, 64)), False),
    (plain(1, 4096, 4096), False),  # the vector cores would have to be started
])  # fmt: skip
def test_terms_are_shared_where_it_pays(text: str, shares: bool) -> None:
    assert is_shared(lowered(text)) == shares


def test_weights_of_4_bits_by_one_row_take_half_the_time() -> None:
    """Narrow blocks have short rows, each of which takes the vector cores a start to load."""

    def time() -> float:
        result = lowered(linear(*weights(1, 2048, 2048, "i4", block=32)))
        ((_, program),) = result.pairs
        return TileKernel(program, result.target).time().core_us

    shared = time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "SPLITS", ())
        assert time() > 1.8 * shared
