"""Attention over keys that stand in several tensors: a cache, and what is new."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16, f32

from ge.dialects.targets.target import Target
from ge.dialects.tile.types import Memory
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.attention.attention import first_that_fits
from ge.runtime.library.attention.facts import Heads, Way
from ge.runtime.library.attention.tiles import AttentionProblem, tiles_for
from ge.runtime.library.launch import NotLowered, Written

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_attention import attention
from tile_lowering import compare, lowered


def decode(batch: int, heads: int, key_heads: int, past: int, size: int = 128) -> str:
    """One token: its query and key are rotated, the key is put behind the cache."""
    q, n, c, p, k = (
        f"tensor<{batch}x{h}x{t}x{e}xbf16>"
        for h, t, e in (
            (heads, 1, size),
            (key_heads, 1, size),
            (1, 1, size // 2),
            (key_heads, past, size),
            (key_heads, past + 1, size),
        )
    )
    body = (
        f"%0 = graph.rotary_embedding %xq, %xc, %xs : ({q}, {c}, {c}) -> {q}\n"
        f"%1 = graph.rotary_embedding %xn, %xc, %xs : ({n}, {c}, {c}) -> {n}\n"
        f"%2 = graph.concat %xp, %1 axis 2 : ({p}, {n}) -> {k}\n"
        f"%3 = graph.attention %0, %2, %xv offset {past} : ({q}, {k}, {k}) -> {q}\n"
    )
    types = {"q": q, "c": c, "s": c, "n": n, "p": p, "v": k}
    names, kinds = ", ".join(f"%{i}" for i in types), ", ".join(types.values())
    arguments = ", ".join(f"%{i}: {t}" for i, t in types.items())
    inner = ", ".join(f"%x{i}: {t}" for i, t in types.items())
    return (
        f"func.func @main({arguments}) -> ({k}, {q}) {{\n"
        f"%k, %y = fused_op.flash_attention({names}) : ({kinds}) -> ({k}, {q}) {{\n"
        f"^bb0({inner}):\n{body}fused_op.yield %2, %3 : {k}, {q}\n}}\n"
        f"func.return %k, %y : {k}, {q}\n}}"
    )


@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(
    st.integers(1, 4),
    st.sampled_from([(1, 1), (4, 4), (8, 2), (32, 2), (6, 1)]),
    st.integers(1, 600),
    st.sampled_from(["910b2", "310p3"]),
)
def test_a_token_and_its_cache(batch: int, heads: tuple[int, int], past: int, target: str) -> None:
    """Heads that share keys are rows of a tile, though they are computed; the last box of the cache
    ends where the new key begins, whatever their order is."""
    compare(decode(batch, *heads, past), target, all_lowered=True, orders=3)


def work_us(text: str) -> float:
    module = lowered(text)
    ((_, program),) = module.pairs
    time = TileKernel(program, module.target).time()
    return max(time.core_us, time.hbm_us)


@pytest.mark.parametrize("past", [1023, 1535])
def test_what_is_fused_takes_no_longer_than_its_parts(past: int) -> None:
    """Attention alone, and a copy of the cache, which HBM sets the pace of."""
    shapes = [[32, 16, 1, 128], [32, 4, past + 1, 128], [32, 4, past + 1, 128]]
    copy_us = 2 * 32 * 4 * past * 128 * 2 / 1.18e6
    assert work_us(decode(32, 16, 4, past)) < work_us(attention(*shapes)) + copy_us


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"vector_cycles": {"add": 2.0}}, "'vector_cycles' has no instruction"),
        ({"l0c_out_rate": 0.0, "ub_out_rate": 0.0}, "does not state 'l0c_out_rate'"),
    ],
)
def test_a_target_that_lacks_a_fact_says_which(facts: dict[str, Any], missing: str) -> None:
    """And the family that needs it."""
    target = replace(Target.load("910b2"), **facts)
    problem = AttentionProblem(4, 128, 128, 64, 64, f16, ())
    with pytest.raises(NotLowered, match=f"attention takes facts of 910b2: .*{missing}"):
        tiles_for(problem, target)


@pytest.mark.parametrize("rows", [0, 32, 64])
def test_few_tiles_are_tried_beside_which_others_do_not_fit(rows: int) -> None:
    """Programs of few of many ways are written: those of the smallest tiles say that there is no
    room for others of so many rows."""
    problem = AttentionProblem(1, 4096, 4096, 512, 512, f32, ())
    heads = Heads(1, 4096, False)
    ranked = [(heads, None, *way) for _, *way in tiles_for(problem, Target.load("910b2"))]
    tried, program = list[Way](), Written(lambda c, given: None, 1)

    def written(way: Way) -> Written | Memory:
        tried.append(way)
        return program if way[2].rows <= rows else Memory.L1

    if rows:
        assert first_that_fits(ranked, written) is program
        assert tried[-1] == next(way for way in ranked if way[2].rows <= rows)
    else:
        with pytest.raises(NotLowered, match="no tiles fit"):
            first_that_fits(ranked, written)
    assert len(ranked) > 200
    assert len(tried) <= 2 * len({way[2].rows for way in ranked})


def test_tiles_that_fill_more_are_not_tried() -> None:
    """Where UB is full, ways that have as much in it and more are known to fail."""
    problem = AttentionProblem(1, 4096, 4096, 128, 128, f16, ())
    heads = Heads(1, 4096, False)
    ranked = [(heads, None, *way) for _, *way in tiles_for(problem, Target.load("910b2"))]
    tried, program = list[Way](), Written(lambda c, given: None, 1)

    def written(way: Way) -> Written | Memory:
        tried.append(way)
        return program if way[2].rows * way[2].keys * way[2].copies <= 64 * 128 else Memory.UB

    assert first_that_fits(ranked, written) is program
    assert 2 * len(tried) < ranked.index(tried[-1])
