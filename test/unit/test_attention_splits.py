"""Cores that share the keys of attention where tiles of queries are fewer than cores."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import f16

from ge.dialects.targets.target import Target
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.attention import attention as attention_lowering
from ge.runtime.library.attention import tiles as attention_tiles
from ge.runtime.library.attention.tiles import AttentionProblem, estimate, splits_for, tiles_for

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_attention import attention
from tile_lowering import Lowered, compare, lowered

TARGET = Target.load("910b2")


@pytest.fixture(autouse=True, scope="module")
def tiles_are_found_anew() -> Iterator[None]:
    """What they follow from changes in tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_lowering, "tiles_for", attention_tiles.tiles_for.__wrapped__)
        yield


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 16 keys; they are always shared, as if merging took no time."""
    monkeypatch.setattr(attention_tiles, "ROWS", (32, 16))
    monkeypatch.setattr(attention_tiles, "KEYS", (16,))
    monkeypatch.setattr(attention_tiles, "SPLITS", (3,))
    monkeypatch.setattr(attention_tiles, "merging", lambda *_: -1e9)


def is_shared(result: Lowered) -> bool:
    ((_, program),) = result.pairs
    assert bool(program.workspace) == bool(program.barriers)
    return bool(program.workspace)


FLAGS = ("", "left_window 20 offset 70", "softcap 3.0")


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "flags",
    [
        "causal true offset 60",
        *(pytest.param(flags, marks=pytest.mark.soak) for flags in FLAGS),
    ],
)
def test_splits_are_merged(flags: str) -> None:
    """In any order of cores and pipes the same bits, and proved."""
    shapes = [2, 4, 3, 16], [2, 2, 80, 16], [2, 2, 80, 24]
    result = compare(attention(*shapes, "f16", flags), all_lowered=True, orders=2)
    assert is_shared(result)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "undefined", [*(pytest.param(u, marks=pytest.mark.soak) for u in ("zero", "guard")), "nan"]
)
def test_rows_without_a_key_in_any_split(undefined: str) -> None:
    """Query 0 sees none, later ones those of one split or of more."""
    shapes = [1, 1, 40, 16], [1, 1, 48, 16], [1, 1, 48, 16]
    flags = f"causal true offset -1 undefined {undefined}"
    assert is_shared(compare(attention(*shapes, "f32", flags), all_lowered=True))


@pytest.mark.usefixtures("always")
def test_what_is_rounded_relative_to_keys_before_is_not_shared() -> None:
    shapes = [1, 1, 4, 16], [1, 1, 80, 16], [1, 1, 80, 16]
    mask = ("tensor<4x80xf16>",)
    assert not is_shared(compare(attention(*shapes, "f16", "", mask), all_lowered=True))


@pytest.mark.parametrize(("keys", "shares"), [(128, False), (2048, True)])
def test_keys_are_shared_where_it_pays(keys: int, shares: bool) -> None:
    shapes = [1, 4, 1, 64], [1, 1, keys, 64], [1, 1, keys, 64]
    assert is_shared(lowered(attention(*shapes))) == shares


def test_shared_keys_take_less_time() -> None:
    """One query of 4 heads; 8 cores and more instead of one."""
    text = attention([1, 4, 1, 64], [1, 1, 8192, 64], [1, 1, 8192, 64])

    def time() -> float:
        ((_, program),) = lowered(text).pairs
        return TileKernel(program, TARGET).time().core_us

    shared = time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_tiles, "SPLITS", ())
        assert time() > 2 * shared


def test_a_barrier_that_takes_long_does_not_pay() -> None:
    p = AttentionProblem(2, 1, 1024, 64, 64, f16, ())
    for target, pays in ((TARGET, True), (replace(TARGET, cross_flag_cycles=1e6), False)):
        _, tiles, _ = tiles_for(p, target)[0]
        least = min(estimate(p, tiles, target, n) for n in splits_for(p, tiles, target))
        assert (least < estimate(p, tiles, target)) == pays
