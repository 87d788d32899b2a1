"""Activation functions in the spellings of exporters: found, and the same numbers."""

import sys
from collections.abc import Callable
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, f64

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, half, normal, op_names, run, written

from ge.lowering.driver.compiler import context
from ge.transforms.graph.composites.find_activations import FindActivationsPass

Formula = Callable[[Expr], Expr]

C = sqrt(2 / pi)


def found(module: ModuleOp, aggressive: bool = False) -> list[str]:
    FindActivationsPass(aggressive).apply(context(), module)
    module.verify()
    return op_names(module)


def gelu_tanh_inner(x: Expr) -> Expr:
    return (x + x**3 * 0.044715) * C


FOUND: dict[str, dict[str, Formula]] = {
    "gelu": {
        "torch": lambda x: x * ((x / sqrt(2)).erf() + 1) * 0.5,
        "torch, half first": lambda x: 0.5 * ((x / sqrt(2)).erf() + 1.0) * x,
        "half of x first": lambda x: (0.5 * x) * (1 + (x * sqrt(0.5)).erf()),
        "by the distribution function": lambda x: x * (0.5 + 0.5 * (x * sqrt(0.5)).erf()),
        "divided by two": lambda x: (x + x * (x / sqrt(2)).erf()) / 2,
        "with splats": lambda x: x * ((x / np.full(8, sqrt(2))).erf() + np.full((1, 8), 1.0)) * 0.5,
        "gpt2": lambda x: x * 0.5 * (gelu_tanh_inner(x).tanh() + 1),
        "cube as products": lambda x: 0.5 * x * (1 + ((x * x * x * 0.044715 + x) * C).tanh()),
        "square and x": lambda x: 0.5 * x * (1 + (x * C * (1 + 0.044715 * x * x)).tanh()),
        "power of two": lambda x: 0.5 * x * (1 + ((0.044715 * x**2 + 1) * x * C).tanh()),
        "tanh as a sigmoid": lambda x: x * (2 * gelu_tanh_inner(x)).sigmoid(),
        "tanh as a sigmoid, factored": lambda x: (
            (x * (2 * C * 0.044715 * x**2 + 2 * C)).sigmoid() * x
        ),
        "tanh as a quotient": lambda x: x / (1 + (-2 * gelu_tanh_inner(x)).exp()),
        "quick": lambda x: x * (1.702 * x).sigmoid(),
    },
    "silu": {
        "torch": lambda x: x * x.sigmoid(),
        "quotient": lambda x: x / (1 + (-x).exp()),
        "reciprocal": lambda x: ((x * -1).exp() + 1).reciprocal() * x,
        "swish": lambda x: (x * 1.5).sigmoid() * x,
        "tanh": lambda x: x * 0.5 * (1 + (x * 0.5).tanh()),
    },
    "sigmoid": {
        "quotient": lambda x: 1 / (1 + (-x).exp()),
        "reciprocal": lambda x: ((-x).exp() + 1).reciprocal(),
        "tanh": lambda x: 0.5 + 0.5 * (x / 2).tanh(),
    },
    "mish": {
        "torch": lambda x: x * x.softplus().tanh(),
        "written out": lambda x: (1 + x.exp()).log().tanh() * x,
    },
    "hard_swish": {
        "torch": lambda x: x * (x + 3).clamp(0, 6) / 6,
        "relu6": lambda x: x * ((x + 3).relu().minimum(6) / 6),
        "limits": lambda x: (x + 3).maximum(0).minimum(6) * (1 / 6) * x,
        "hard_sigmoid": lambda x: x * x.hard_sigmoid(alpha=1 / 6, beta=0.5),
    },
    "hard_sigmoid": {
        "torch": lambda x: (x + 3).clamp(0, 6) / 6,
        "line": lambda x: (0.2 * x + 0.5).clamp(0, 1),
    },
    "relu": {"maximum": lambda x: x.maximum(0)},
    "leaky_relu": {"where": lambda x: x.compare("gt", 0).where(x, x * 0.1)},
    "elu": {"where": lambda x: x.compare("gt", 0).where(x, (x.exp() - 1) * 0.7)},
    "softplus": {
        "threshold": lambda x: x.compare("gt", 20).where(x, (1 + x.exp()).log()),
        "stable": lambda x: x.maximum(0) + (1 + (-x.abs()).exp()).log(),
    },
}

CASES = [(name, text) for name, forms in FOUND.items() for text in forms]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_found(name: str, text: str) -> None:
    formula = FOUND[name][text]
    before, after = (written(formula, Tensor(4, 8)) for _ in range(2))
    assert found(after) == [name]
    x = normal(4, 8) * 3
    agree(run(before, x), run(after, x), 2e-6)


@pytest.mark.parametrize(("name", "text"), [c for c in CASES if c[0] != "softplus"])
def test_found_in_half_precision(name: str, text: str) -> None:
    if text == "with splats":
        pytest.skip("splats of another size")
    formula = FOUND[name][text]
    before, after = (written(formula, half(4, 8)) for _ in range(2))
    assert found(after) == [name]
    x = normal(4, 8, dtype=np.float16) * 3
    agree(run(before, x), run(after, x), 4e-3)


def test_properties() -> None:
    texts = {
        "torch": "none",
        "gpt2": "tanh",
        "quick": "sigmoid",
    }
    for text, approximate in texts.items():
        module = written(FOUND["gelu"][text], Tensor(4))
        if approximate != "none":
            found(module)
            assert f"approximate {approximate} " in str(module)
    module = written(lambda x: (x * 1.5).sigmoid() * x, Tensor(4))
    found(module)
    assert "alpha 1.500000e+00 " in str(module)


NOT_FOUND: dict[str, Formula] = {
    "another root": lambda x: x * ((x / 1.5).erf() + 1) * 0.5,
    "another half": lambda x: x * ((x / sqrt(2)).erf() + 1) * 0.6,
    "another one": lambda x: x * ((x / sqrt(2)).erf() + 1.1) * 0.5,
    "another cubic": lambda x: x * 0.5 * (((x + x**3 * 0.05) * C).tanh() + 1),
    "another x": lambda x: x.relu() * ((x / sqrt(2)).erf() + 1) * 0.5,
    "sigmoid of a line": lambda x: x * (x + 1).sigmoid(),
    "another bound": lambda x: x * (x + 3).clamp(0, 5) / 6,
    "a low bound": lambda x: (x + 3).clamp(-1, 6) / 6,
    "the other branch": lambda x: x.compare("lt", 0).where(x, x * 0.1),
    "overflow": lambda x: (1 + x.exp()).log(),
    "late overflow": lambda x: x.compare("gt", 100).where(x, (1 + x.exp()).log()),
    "early threshold": lambda x: x.compare("gt", 3).where(x, (1 + x.exp()).log()),
}


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    module = written(NOT_FOUND[text], Tensor(4, 8))
    before = op_names(module)
    names = [n for n in found(module) if n not in ("relu", "clamp")]
    assert names == [n for n in before if n not in ("relu", "clamp")]


WRITTEN_OUT: dict[str, Formula] = {
    "erf": lambda x: x * ((x * 0.70710678).erf() + 1) * 0.5,
    "tanh": lambda x: 0.5 * x * (1 + ((x + x**3 * 0.044715) * 0.7978845608).tanh()),
    "hard_swish": lambda x: x * (x * 0.16666667 + 0.5).clamp(0, 1),
    "softplus": lambda x: x.compare("gt", 20).where(x, (1 + x.exp()).log()),
}
"""With the digits that f32 has."""


@pytest.mark.parametrize("text", WRITTEN_OUT)
def test_constants_are_as_near_as_the_computed_type_needs(text: str) -> None:
    module = written(WRITTEN_OUT[text], Tensor(4, 8))
    assert len(found(module)) == 1
    module = written(WRITTEN_OUT[text], Tensor(4, 8, element=f64))
    x = normal(4, 8, dtype=np.float64) * 8
    numbers = run(module, x)
    assert {"hard_swish", "gelu", "softplus"}.isdisjoint(found(module))
    agree(numbers, run(module, x), 1e-15)


@pytest.mark.parametrize(("name", "text"), [c for c in CASES if c[1] != "threshold"])
def test_found_in_double_precision(name: str, text: str) -> None:
    formula = FOUND[name][text]
    before, after = (written(formula, Tensor(4, 8, element=f64)) for _ in range(2))
    assert found(after) == [name]
    x = normal(4, 8, dtype=np.float64) * 3
    agree(run(before, x), run(after, x), 4e-15)


def test_aggressive() -> None:
    module = written(NOT_FOUND["overflow"], Tensor(4))
    assert found(module, aggressive=True) == ["softplus"]


def test_a_use_outside_blocks() -> None:
    def formula(x: Expr) -> tuple[Expr, Expr]:
        t = (x / sqrt(2)).erf()
        return x * (t + 1) * 0.5, t

    module = written(formula, Tensor(4))
    assert "gelu" not in found(module)


def test_a_cheap_part_may_be_used_outside() -> None:
    def formula(x: Expr) -> tuple[Expr, Expr]:
        scaled = x / sqrt(2)
        return x * (scaled.erf() + 1) * 0.5, scaled

    assert found(written(formula, Tensor(4))) == ["div", "gelu"]


def test_the_shape_must_be_that_of_x() -> None:
    module = written(lambda x: x * ((x / np.full((2, 4), sqrt(2))).erf() + 1) * 0.5, Tensor(4))
    assert "gelu" not in found(module)
    module = written(lambda x: x * x.sigmoid() * np.ones((1, 4)), Tensor(4))
    assert found(module) == ["silu", "mul"]


def test_dynamic_shapes() -> None:
    from ge.dialects.support.types import DYNAMIC

    before, after = (written(FOUND["gelu"]["torch"], Tensor(DYNAMIC, 8)) for _ in range(2))
    assert found(after) == ["gelu"]
    agree(run(before, normal(3, 8)), run(after, normal(3, 8)), 2e-6)
    # eight times 1 could be the other operand's dimension
    splats = written(FOUND["gelu"]["with splats"], Tensor(8, DYNAMIC))
    assert "gelu" not in found(splats)


def test_casts_around() -> None:
    def formula(x: Expr) -> Expr:
        return FOUND["gelu"]["torch"](x.to(f32)).to(f16)

    before, after = (written(formula, half(4, 8)) for _ in range(2))
    assert found(after) == ["gelu"]
    x = normal(4, 8, dtype=np.float16)
    agree(run(before, x), run(after, x), 1e-3)


def test_one_after_the_other() -> None:
    def formula(x: Expr) -> Expr:
        y = x * x.sigmoid()
        return y * ((y / sqrt(2)).erf() + 1) * 0.5

    assert found(written(formula, Tensor(4))) == ["silu", "gelu"]
