"""Rotary embedding in the spellings of exporters: found, and the same numbers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, half, normal, op_names, run, written

from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.types import DYNAMIC
from ge.lowering.driver.compiler import context
from ge.transforms.graph.composites.find_rotary import FindRotaryPass

Formula = Callable[..., Any]


def found(module: ModuleOp) -> list[str]:
    FindRotaryPass().apply(context(), module)
    module.verify()
    return op_names(module)


def cut(x: Expr, start: int, end: int, step: int = 1) -> Expr:
    bounds = {"starts": (start,), "ends": (end,), "axes": (-1,), "steps": (step,)}
    return x.op(SliceOp, x, None, None, None, None, **bounds)


def concat(*parts: Expr, axis: int = -1) -> Expr:
    return parts[0].op(ConcatOp, list(parts), axis=axis)


def unsqueeze(x: Expr, *axes: int) -> Expr:
    return x.op(UnsqueezeOp, x, None, axes=axes)


def halves(x: Expr) -> tuple[Expr, Expr]:
    return cut(x, 0, 8), cut(x, 8, 2**63 - 1)


def split(x: Expr) -> tuple[Expr, Expr]:
    return x.op(SplitOp, x, None, axis=3, sizes=(8, 8), results=2)


def steps(x: Expr) -> tuple[Expr, Expr]:
    return cut(x, 0, 16, 2), cut(x, 1, 16, 2)


def of_pairs(x: Expr) -> tuple[Expr, Expr]:
    pairs = x.reshape(0, 0, 0, -1, 2)
    second = cut(pairs, 1, 2)
    return pairs.op(GatherOp, pairs, np.int64(0), axis=4), x.op(SqueezeOp, second, None, axes=(-1,))


def rotated(a: Expr, b: Expr, negate: Formula = lambda b: -b) -> Expr:
    return concat(negate(b), a)


def rotate_half(x: Expr) -> Expr:
    return rotated(*halves(x))


def rotate_neighbours(x: Expr) -> Expr:
    a, b = steps(x)
    return concat(unsqueeze(-b, -1), unsqueeze(a, -1)).reshape(2, 4, 6, 16)


FULL: dict[str, Formula] = {
    "llama": lambda x, c, s: x * c + rotate_half(x) * s,
    "other order": lambda x, c, s: s * rotate_half(x) + c * x,
    "minus one": lambda x, c, s: x * c + rotated(*halves(x), lambda b: b * -1.0) * s,
    "split": lambda x, c, s: x * c + rotated(*split(x)) * s,
    "neighbours": lambda x, c, s: x * c + rotate_neighbours(x) * s,
}


def pairwise(parts: Formula, join: Formula) -> Formula:
    def formula(x: Expr, c: Expr, s: Expr) -> Expr:
        a, b = parts(x)
        return join(a * c - b * s, a * s + b * c)

    return formula


def flat(a: Expr, b: Expr) -> Expr:
    return concat(unsqueeze(a, 4), unsqueeze(b, 4)).reshape(2, 4, 6, -1)


HALF: dict[str, Formula] = {
    "halves": pairwise(halves, concat),
    "split": pairwise(split, concat),
    "steps": pairwise(steps, flat),
    "pairs": pairwise(of_pairs, flat),
}

X = Tensor(2, 4, 6, 16)


@pytest.mark.parametrize("text", FULL)
def test_full_tables(text: str) -> None:
    arguments = X, Tensor(1, 1, 6, 16), Tensor(6, 16)
    before, after = (written(FULL[text], *arguments) for _ in range(2))
    assert found(after) == ["rotary_embedding"]
    arrays = normal(2, 4, 6, 16), normal(1, 1, 6, 16, seed=1), normal(6, 16, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


@pytest.mark.parametrize("text", HALF)
def test_half_tables(text: str) -> None:
    arguments = X, Tensor(1, 1, 6, 8), Tensor(6, 8)
    before, after = (written(HALF[text], *arguments) for _ in range(2))
    assert found(after) == ["rotary_embedding"]
    arrays = normal(2, 4, 6, 16), normal(1, 1, 6, 8, seed=1), normal(6, 8, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def test_tables_from_twice_a_half() -> None:
    def formula(x: Expr, y: Expr, angles: Expr) -> tuple[Expr, Expr]:
        both = concat(angles, angles)
        c, s = (unsqueeze(t.to(f16), 1) for t in (both.cos() * 1.5, both.sin()))
        return FULL["llama"](x, c, s), FULL["llama"](y, c, s)

    arguments = half(2, 4, 6, 16), half(2, 1, 6, 16), Tensor(2, 6, 8)
    before, after = (written(formula, *arguments) for _ in range(2))
    tables = ["cos", "mul", "sin", "cast", "unsqueeze", "cast", "unsqueeze"]
    assert sorted(found(after)) == sorted([*tables, *["rotary_embedding"] * 2])
    assert "full_tables" not in str(after)
    arrays = (normal(*a.type.get_shape(), dtype=np.float16) for a in arguments[:2])
    inputs = (*arrays, normal(2, 6, 8))
    agree(run(before, *inputs), run(after, *inputs), 1e-2)


def test_part_of_the_elements() -> None:
    def formula(x: Expr, c: Expr, s: Expr) -> Expr:
        front, rest = cut(x, 0, 16), cut(x, 16, 24)
        return concat(FULL["llama"](front, c, s), rest)

    arguments = Tensor(2, 4, 6, 24), Tensor(6, 16), Tensor(6, 16)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert found(after) == ["rotary_embedding"]
    arrays = normal(2, 4, 6, 24), normal(6, 16, seed=1), normal(6, 16, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def test_computed_in_float32() -> None:
    def formula(x: Expr, c: Expr, s: Expr) -> Expr:
        return FULL["llama"](x.to(f32), c, s).to(f16)

    before, after = (
        written(formula, half(2, 4, 6, 16), Tensor(6, 16), Tensor(6, 16)) for _ in range(2)
    )
    assert found(after) == ["rotary_embedding"]
    arrays = normal(2, 4, 6, 16, dtype=np.float16), normal(6, 16, seed=1), normal(6, 16, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-3)


def test_dynamic_shapes() -> None:
    arguments = Tensor(DYNAMIC, 4, DYNAMIC, 16), Tensor(DYNAMIC, 1, DYNAMIC, 16)
    before, after = (written(FULL["llama"], *arguments, arguments[1]) for _ in range(2))
    names = found(after)
    # the tables could have more rows than x
    assert "rotary_embedding" not in names
    arguments = Tensor(2, 4, DYNAMIC, 16), Tensor(1, 1, 16)
    before, after = (written(FULL["llama"], *arguments, arguments[1]) for _ in range(2))
    assert found(after) == ["rotary_embedding"]
    arrays = normal(2, 4, 3, 16), normal(1, 1, 16, seed=1), normal(1, 1, 16, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def wrong_order(x: Expr, c: Expr, s: Expr) -> Expr:
    a, b = halves(x)
    return x * c + concat(b, -a) * s


NOT_FOUND: dict[str, Formula] = {
    "the other sign": wrong_order,
    "no sign": lambda x, c, s: x * c + concat(*halves(x)[::-1]) * s,
    "of something else": lambda x, c, s: x.exp() * c + rotate_half(x) * s,
    "another cut": lambda x, c, s: x * c + concat(-cut(x, 6, 16), cut(x, 0, 6)) * s,
}


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    module = written(NOT_FOUND[text], X, Tensor(6, 16), Tensor(6, 16))
    assert "rotary_embedding" not in found(module)
