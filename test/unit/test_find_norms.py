"""Normalizations in the spellings of exporters: found, and the same numbers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, half, normal, op_names, run, written

from ge.dialects.graph.normalization import GroupNormOp
from ge.dialects.support.types import DYNAMIC
from ge.lowering.driver.compiler import context
from ge.transforms.graph.composites.find_norms import FindNormsPass

Formula = Callable[..., Any]
EPS = 1e-5


def found(module: ModuleOp) -> list[str]:
    FindNormsPass().apply(context(), module)
    module.verify()
    return op_names(module)


def centered(x: Expr, *axes: int) -> Expr:
    return x - x.mean(*axes)


def layer_norm(x: Expr, *axes: int) -> Expr:
    d = centered(x, *(axes or (-1,)))
    return d / ((d * d).mean(*(axes or (-1,))) + EPS).sqrt()


def by_reciprocal(x: Expr) -> Expr:
    d = centered(x, -1)
    return d * ((d**2).mean(-1) + EPS).sqrt().reciprocal()


def by_power(x: Expr) -> Expr:
    d = centered(x, 2)
    return (EPS + (d**2).mean(2)) ** -0.5 * d


def with_sums(x: Expr) -> Expr:
    n = x.shape[-1]
    d = x - x.reduce("sum", -1) / n
    return d / ((d * d).reduce("sum", -1) * (1 / n) + EPS).sqrt()


def with_two_differences(x: Expr) -> Expr:
    m = x.mean(-1)
    return (x - m) / (((x - m) ** 2.0).mean(-1) + EPS).sqrt()


def without_kept_dims(x: Expr) -> Expr:
    batch, tokens, _ = x.shape
    d = x - x.mean(-1, keep=False).reshape(batch, tokens, 1)
    return d / ((d * d).mean(-1, keep=False).reshape(batch, tokens, 1) + EPS).sqrt()


PLAIN: dict[str, Formula] = {
    "quotient": layer_norm,
    "two dimensions": lambda x: layer_norm(x, 1, 2),
    "reciprocal": by_reciprocal,
    "power": by_power,
    "sums": with_sums,
    "two differences": with_two_differences,
    "dimensions not kept": without_kept_dims,
}


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize("affine", ["", "scale", "bias", "scale and bias"])
def test_layer_norm(text: str, affine: str) -> None:
    def formula(x: Expr, w: Expr, b: Expr) -> Expr:
        y = PLAIN[text](x)
        if "scale" in affine:
            y = y * w
        return b + y if "bias" in affine else y

    arguments = Tensor(2, 3, 8), Tensor(8), Tensor(8)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert found(after) == ["layer_norm"]
    arrays = normal(2, 3, 8) * 3 + 1, normal(8, seed=1), normal(8, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def test_tensorflow_layer_norm() -> None:
    """x (r w) + (b - m (r w))"""

    def formula(x: Expr, w: Expr, b: Expr) -> Expr:
        m = x.mean(-1)
        d = x - m
        rw = ((d * d).mean(-1) + EPS).sqrt().reciprocal() * w
        return x * rw + (b - m * rw)

    arguments = Tensor(2, 3, 8), Tensor(8), Tensor(8)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert found(after) == ["layer_norm"]
    arrays = normal(2, 3, 8), normal(8, seed=1), normal(8, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


RMS: dict[str, Formula] = {
    "llama": lambda x, w: w * (x * ((x**2.0).mean(-1) + EPS).sqrt().reciprocal()),
    "quotient": lambda x, w: x / ((x * x).mean(-1) + EPS).sqrt() * w,
    "t5": lambda x, w: w * (x * ((x * x).mean(-1) + EPS) ** -0.5),
    "sum of squares": lambda x, w: x * (x.reduce("sum_square", -1) / 8 + EPS) ** -0.5 * w,
    "scaled root": lambda x, w: x * (((x * x).mean(-1) + EPS) ** -0.5 * w),
}


@pytest.mark.parametrize("text", RMS)
def test_rms_norm(text: str) -> None:
    before, after = (written(RMS[text], Tensor(2, 3, 8), Tensor(8)) for _ in range(2))
    assert found(after) == ["rms_norm"]
    arrays = normal(2, 3, 8), normal(8, seed=1)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def test_gemma_norm() -> None:
    def formula(x: Expr, w: Expr) -> Expr:
        return x * ((x * x).mean(-1) + EPS) ** -0.5 * (1 + w)

    assert found(written(formula, Tensor(2, 3, 8), Tensor(8))) == ["add", "rms_norm"]


@pytest.mark.parametrize("scale_first", [False, True])
def test_norm_of_halves_computed_in_float32(scale_first: bool) -> None:
    def formula(x: Expr, w: Expr) -> Expr:
        wide = x.to(f32)
        y = wide * ((wide**2.0).mean(-1) + EPS).sqrt().reciprocal()
        return (y * w.to(f32)).to(f16) if scale_first else w * y.to(f16)

    before, after = (written(formula, half(2, 3, 8), half(8)) for _ in range(2))
    assert found(after) == ["rms_norm"]
    arrays = normal(2, 3, 8, dtype=np.float16), normal(8, seed=1, dtype=np.float16)
    agree(run(before, *arrays), run(after, *arrays), 2e-3)


def test_wide_scale_of_a_narrow_norm() -> None:
    def formula(x: Expr, w: Expr) -> Expr:
        return (layer_norm(x.to(f32)) * w).to(f16)

    before, after = (written(formula, half(2, 3, 8), Tensor(8)) for _ in range(2))
    assert found(after) == ["layer_norm"]
    arrays = normal(2, 3, 8, dtype=np.float16), normal(8, seed=1)
    agree(run(before, *arrays), run(after, *arrays), 1e-3)


def test_two_norms_and_a_residual() -> None:
    def formula(x: Expr, w: Expr) -> Expr:
        y = layer_norm(x) * w
        return layer_norm(x + y) * w

    assert found(written(formula, Tensor(2, 3, 8), Tensor(8))) == [
        "layer_norm",
        "add",
        "layer_norm",
    ]


def norm_by_op(x: Expr, groups: int) -> Expr:
    y = x.reshape(0, groups, -1)
    one, zero = np.ones(groups), np.zeros(groups)
    return y.op(GroupNormOp, y, one, zero, groups=groups, epsilon=EPS).reshape(*x.shape)


GROUPED: dict[str, Formula] = {
    "instance norm": lambda x: norm_by_op(x, 4),
    "written out": lambda x: layer_norm(x.reshape(2, 4, -1)).reshape(*x.shape),
    "five dimensions": lambda x: layer_norm(x.reshape(2, 4, 2, 3, 5), 2, 3, 4).reshape(*x.shape),
}


@pytest.mark.parametrize("text", GROUPED)
@pytest.mark.parametrize("affine", [False, True])
def test_group_norm(text: str, affine: bool) -> None:
    def formula(x: Expr, w: Expr, b: Expr) -> Expr:
        return GROUPED[text](x) * w + b if affine else GROUPED[text](x)

    arguments = Tensor(2, 8, 3, 5), Tensor(8, 1, 1), Tensor(1, 8, 1, 1)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert [n for n in found(after) if n != "reshape"] == ["group_norm"]
    assert "groups 4 " in str(after)
    arrays = normal(2, 8, 3, 5), normal(8, 1, 1, seed=1), normal(1, 8, 1, 1, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def test_instance_norm() -> None:
    def formula(x: Expr, w: Expr, b: Expr) -> Expr:
        return layer_norm(x, 2, 3) * w + b

    arguments = Tensor(2, 8, 3, 5), Tensor(8, 1, 1), Tensor(8, 1, 1)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert [n for n in found(after) if n != "reshape"] == ["group_norm"]
    assert "groups 8 " in str(after)
    arrays = normal(2, 8, 3, 5), normal(8, 1, 1, seed=1), normal(8, 1, 1, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)


def test_dynamic_shapes() -> None:
    def formula(x: Expr, w: Expr, b: Expr) -> Expr:
        return layer_norm(x) * w + b

    arguments = Tensor(DYNAMIC, DYNAMIC, 8), Tensor(8), Tensor(8)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert found(after) == ["layer_norm"]
    arrays = normal(2, 3, 8), normal(8, seed=1), normal(8, seed=2)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)

    def grouped(x: Expr) -> Expr:
        y = x.reshape(0, 4, -1)
        y = y.op(GroupNormOp, y, np.ones(4), np.zeros(4), groups=4)
        return y.reshape(0, 8, 3, 5)

    before, after = (written(grouped, Tensor(DYNAMIC, 8, 3, 5)) for _ in range(2))
    assert found(after) == ["group_norm"]
    agree(run(before, normal(2, 8, 3, 5)), run(after, normal(2, 8, 3, 5)), 1e-5)


def other_eps(x: Expr) -> Expr:
    d = centered(x, -1)
    return d / (((d * d).mean(-1)).sqrt() + EPS)


NOT_FOUND: dict[str, Formula] = {
    "the number outside of the root": other_eps,
    "another mean": lambda x: (x - x.mean(1)) / ((x * x).mean(-1) + EPS).sqrt(),
    "another dimension": lambda x: (
        (x - x.mean(1)) / (((x - x.mean(1)) ** 2.0).mean(1) + EPS).sqrt()
    ),
    "squared mean": lambda x: (
        centered(x, -1) / ((x * x).mean(-1) - x.mean(-1) * x.mean(-1) + EPS).sqrt()
    ),
    "another sum": lambda x: x / ((x * x).reduce("sum", -1) * 0.2 + EPS).sqrt(),
    "cubes": lambda x: x / ((x**3.0).mean(-1) + EPS).sqrt(),
    "of something else": lambda x: x.exp() / ((x * x).mean(-1) + EPS).sqrt(),
}


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    module = written(NOT_FOUND[text], Tensor(2, 3, 8))
    before = op_names(module)
    assert found(module) == before


def test_not_a_scale() -> None:
    """A factor for each token, and one that comes from elsewhere, stay products."""
    for dims in ((2, 3, 1), (2, 1, 8), (2, 3, 8)):
        module = written(lambda x, w: layer_norm(x) * w, Tensor(2, 3, 8), Tensor(*dims))
        assert found(module) == ["layer_norm", "mul"]


def test_not_a_group_norm() -> None:
    # the groups are not runs of channels: batch and channels mix
    module = written(lambda x: layer_norm(x.reshape(4, 4, -1)).reshape(*x.shape), Tensor(2, 8, 15))
    assert "group_norm" not in found(module)
    module = written(lambda x: layer_norm(x.reshape(2, 4, -1)).reshape(2, 4, 30), Tensor(2, 8, 15))
    assert "group_norm" not in found(module)
    module = written(lambda x: layer_norm(x.reshape(2, 5, -1)).reshape(2, 8, 15), Tensor(2, 8, 15))
    assert "group_norm" not in found(module)


def test_a_root_that_is_used_outside() -> None:
    def formula(x: Expr) -> tuple[Expr, Expr]:
        d = centered(x, -1)
        root = ((d * d).mean(-1) + EPS).sqrt()
        return d / root, root

    assert "layer_norm" not in found(written(formula, Tensor(2, 8)))


def test_a_mean_may_be_used_outside() -> None:
    def formula(x: Expr) -> tuple[Expr, Expr]:
        m = x.mean(-1)
        d = x - m
        return d / ((d * d).mean(-1) + EPS).sqrt(), m

    assert sorted(found(written(formula, Tensor(2, 8)))) == ["layer_norm", "reduce"]
