"""The search for cuts of matmuls: it finds the fastest one of all, and computes few of them."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16, f32, i8, i32

from ge.dialects.targets.target import Target
from ge.runtime.library.launch import fastest
from ge.runtime.library.matmul import blocks
from ge.runtime.library.matmul.blocks import (
    Computing,
    MatmulCut,
    Matrices,
    all_cuts,
    best_cut,
    cuts,
    cycles,
    largest_of,
    least_cycles,
)

B2 = Target.load("910b2")


def matmul(m: int, n: int, k: int, **more: Any) -> Matrices:
    return Matrices(1, m, n, k, f16, f16, (1, 1), (k, n), **more)


def of_all(ps: tuple[Matrices, ...], target: Target) -> MatmulCut | None:
    """The first of the fastest cuts, each of which is computed."""
    return fastest(all_cuts(ps, target), lambda cut, _: cycles(Counter(ps), target, cut))


@st.composite
def matrices(draw: st.DrawFn) -> Matrices:
    batch, element = draw(st.integers(1, 3)), draw(st.sampled_from([f16, f32, i8]))
    m, n, k = (draw(st.sampled_from([1, 7, 77, 300, 2048, 11008, 70000])) for _ in range(3))
    computing = Computing(2, 0.1, 1.0, draw(st.booleans()), (0, 0))
    return Matrices(
        *(batch, m, n, k, element, i32 if element == i8 else element),
        (batch, draw(st.sampled_from([1, batch]))),
        (k, n),
        terms=draw(st.integers(1, 2)),
        after=draw(st.sampled_from([None, (("add", 32, False),)])),
        computing=(None, draw(st.sampled_from([None, computing]))),
        splits=draw(st.sampled_from([1, 1, 4])),
        by_tables=element == i8 and draw(st.booleans()),
        may_run=draw(st.booleans()),
    )


@given(matrices(), st.booleans(), st.sampled_from(["910b2", "310p3", "950pr"]))
def test_no_fastest_cut_is_left_out(p: Matrices, with_another: bool, name: str) -> None:
    """What blocks take at least is no more than what any of their cuts does."""
    another = Matrices(*(1, p.m, 640, p.k, p.element, p.result), (1, 1), (p.k, 640))
    ps, target = (p, another) if with_another else (p,), Target.load(name)
    assert best_cut(ps, target) == of_all(ps, target)
    largest, units = largest_of(ps)
    for m, n in blocks.block_sizes(largest, units, target):
        bound = least_cycles(Counter(ps), m, n, target)
        for cut in cuts(largest, m, n, units, target):
            assert bound <= cycles(Counter(ps), target, cut)


@pytest.mark.parametrize("sizes", [(197, 768, 3072), (2048, 4096, 4096), (2, 1280, 1280)])
def test_few_cuts_are_computed(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ps, paces, pace = (matmul(*sizes, may_run=True),), list[MatmulCut](), blocks.pace

    def counted(cut: MatmulCut, *more: Any) -> tuple[float, float]:
        paces.append(cut)
        return pace(cut, *more)

    monkeypatch.setattr(blocks, "pace", counted)
    best_cut.cache_clear()
    best_cut(ps, B2)
    assert 0 < 2 * len(paces) < len([*all_cuts(ps, B2)])
