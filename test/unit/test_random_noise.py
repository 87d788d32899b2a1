"""What counts as rounding when random graphs are compared (`test/bench/random_noise.py`)."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, f64
from xdsl.parser import Parser

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
sys.path.insert(0, str(Path(__file__).parent))

from random_graphs import Reference
from random_noise import STEPS, NoiseOp, disturbed, in_float64, with_noise
from writing import Expr, Tensor, half, written

from ge.lowering.driver.compiler import context
from ge.runtime.device.session import Session
from ge.transforms.rewriting.relations import BitExact, Ulps, ulp_distance

Formula = Callable[[Expr], Expr]


def root_mean_square_norm(x: Expr, wide: bool = False) -> Expr:
    """A norm, in float32 inside if `wide`, of which small elements are made large."""
    y = x.to(f32) if wide else x
    normed = (y * (y * y).mean(1).sqrt().reciprocal()).to(f16)
    return (normed * 2e-3 * 6e4 * 30).tanh()


EXPLAINED: dict[str, tuple[Formula, Formula]] = {
    "cancellation": (lambda x: (x + 3e4) - 3e4, lambda x: x * 1),
    "infinities that meet": (
        lambda x: (x @ x.transpose(1, 0)) @ x,
        lambda x: x @ (x.transpose(1, 0) @ x),
    ),
    "the sign of zero": (lambda x: (x - x).reciprocal(), lambda x: ((x - x) * -1).reciprocal()),
    "a quotient of rounding": (lambda x: (x * 1.1 - x) / x, lambda x: x / x * 0.1),
    "a comparison of near numbers": (
        lambda x: (x * 0.1 + x * 0.2).compare("ge", x * 0.3),
        lambda x: x.compare("eq", x),
    ),
    "overflow in between": (
        lambda x: (x * x).mean(1).sqrt(),
        lambda x: (x.to(f32) * x.to(f32)).mean(1).sqrt().to(f16),
    ),
    "overflow before a cast that is a copy": (
        lambda x: ((x * x).to(f16) - (x * x).to(f16)).tanh(),
        lambda x: (x.to(f32) * x.to(f32) - x.to(f32) * x.to(f32)).tanh().to(f16),
    ),
    "rounding beside overflow": (
        lambda x: x * (x * x).mean(1).sqrt().reciprocal() + 1,
        lambda x: (x.to(f32) * (x.to(f32) * x.to(f32)).mean(1).sqrt().reciprocal()).to(f16) + 1,
    ),
    "denormals beside overflow": (
        lambda x: root_mean_square_norm(x.reshape(128, 2)),
        lambda x: root_mean_square_norm(x.reshape(128, 2), wide=True),
    ),
    "overflow of one of two terms": (
        lambda x: (x * x - x * x * 0.5).tanh(),
        lambda x: (x.to(f32) * x.to(f32) - (x * x * 0.5).to(f32)).to(f16).tanh(),
    ),
    "overflow of a sum": (
        lambda x: (x - x.mean(1)) * ((x - x.mean(1)) ** 2).mean(1).sqrt().reciprocal(),
        lambda x: (
            (x - (x / 64).reduce("sum", 1))
            * ((x - (x / 64).reduce("sum", 1)) ** 2).mean(1).sqrt().reciprocal()
        ),
    ),
}
"""Pairs of graphs that differ by rounding and by the range of types alone."""

MISMATCHES: dict[str, tuple[Formula, Formula]] = {
    "another constant": (lambda x: (x * 1.702).sigmoid(), lambda x: (x * 1.8).sigmoid()),
    "beside cancellation": (lambda x: (x + 10) - 10, lambda x: x * 1.02),
    "a tie": (lambda x: x.compare("ge", x), lambda x: x.compare("gt", x)),
    "a lost nan": (lambda x: x.sqrt(), lambda x: x.abs().sqrt()),
    "a number where one run alone overflows": (
        lambda x: ((x.abs() + 65472.0) - 65472.0) * 2,
        lambda x: x.abs() * 2 + 1e3,
    ),
    "a new infinity": (lambda x: x * 2, lambda x: x * 1e4 * 2e-4),
}


def difference(before: Formula, after: Formula) -> str | None:
    modules = [written(f, half(4, 64)) for f in (before, after)]
    return Reference(modules[0]).difference(modules[1], Ulps())


@pytest.mark.parametrize("name", EXPLAINED)
def test_explained(name: str) -> None:
    assert difference(*EXPLAINED[name]) is None


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(name: str) -> None:
    assert difference(*MISMATCHES[name]) is not None


def test_bits_of_a_narrow_type_stay_those_of_that_type() -> None:
    module = Parser(
        context(),
        "func.func @main(%x: tensor<4xbf16>) -> tensor<4xbf16> {\n"
        "  %0 = graph.mul %x, %x : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>\n"
        "  %1 = graph.bitcast %0 to i16 : (tensor<4xbf16>) -> tensor<4xi16>\n"
        "  %2 = graph.bitcast %1 to bf16 : (tensor<4xi16>) -> tensor<4xbf16>\n"
        "  func.return %2 : tensor<4xbf16>\n}",
    ).parse_module()
    x = np.array([1.0, -2.5, 3.0, 0.5])
    for throughout in (False, True):
        (got,) = Session(in_float64(module, throughout)).run({"arg0": x}).values()
        assert got.tolist() == (x * x).tolist()


def test_float64_is_tried_where_it_has_room() -> None:
    """Its products are finite: nothing is put down to its range."""
    formulas: list[Formula] = [lambda x: x * x * 0.5, lambda x: (x * 0.5) * x]
    modules = [written(f, Tensor(4, 64, element=f64)) for f in formulas]
    reference = Reference(modules[0])
    assert reference.difference(modules[1], Ulps()) is None
    assert not reference.rounding.explained


def test_scalar_results() -> None:
    """They are compared as others are, bit by bit too."""
    scalar = [written(lambda x, n=n: x * n, Tensor()) for n in (2.0, 3.0)]
    for relation in (BitExact(), Ulps()):
        text = Reference(scalar[0]).difference(scalar[1], relation)
        assert text is not None
        assert "became" in text


def test_nothing_excuses_bits_that_must_stay() -> None:
    modules = [written(f, Tensor(4, 64)) for f in EXPLAINED["cancellation"]]
    assert Reference(modules[0]).difference(modules[1], BitExact()) is not None


def test_ops_that_choose_have_no_noise() -> None:
    module = with_noise(written(lambda x: x.abs().maximum(0.5).transpose(1, 0), Tensor(4, 8)))
    assert not any(isinstance(op, NoiseOp) for op in module.walk())
    module = with_noise(written(lambda x: x @ x, Tensor(4, 4)))
    assert sum(isinstance(op, NoiseOp) for op in module.walk()) == 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_disturbed(dtype: type[np.floating]) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    x = np.array([*special, 1.0, -1.0, 6e-8, -6e-8, np.finfo(dtype).max] * 50, dtype)
    y = disturbed(x, np.random.default_rng(0))
    assert y.dtype == x.dtype
    assert np.array_equal(np.signbit(y)[x != 0], np.signbit(x)[x != 0])
    assert set(np.signbit(y[x == 0]).tolist()) == {False, True}
    kept = np.isnan(x) | np.isinf(x) | (x == 0)
    assert np.array_equal(y[kept], x[kept], equal_nan=True)
    assert set(ulp_distance(x, y)[~kept].tolist()) == set(range(STEPS + 1))
