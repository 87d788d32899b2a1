"""What counts as rounding when random graphs are compared (`test/bench/random_noise.py`)."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, f64
from xdsl.parser import Parser

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
sys.path.insert(0, str(Path(__file__).parent))
from random_graphs import Reference
from random_rounding import STEPS, NoiseOp, ShuffleOp, disturbed, in_float64, with_noise
from sums import assert_matmul
from writing import Expr, Tensor, half, run, written

from ge.lowering.driver.compiler import context
from ge.runtime import numbers
from ge.runtime.device.session import Session
from ge.transforms.rewriting.passes import BitExact, Ulps, last_place, ulp_distance

Formula = Callable[[Expr], Expr]


def root_mean_square_norm(x: Expr, wide: bool = False) -> Expr:
    """A norm, in float32 inside if `wide`, of which small elements are made large."""
    y = x.to(f32) if wide else x
    normed = (y * (y * y).mean(1).sqrt().reciprocal()).to(f16)
    return (normed * 2e-3 * 6e4 * 30).tanh()


def scaled_norm(x: Expr, wide: bool = False) -> Expr:
    """A norm, in float32 inside if `wide`, whose results overflow before they are small again."""
    y = x.to(f32) if wide else x
    return (y * (y * y).mean(1).sqrt().reciprocal()).to(f16) * 6e4 * 1e-2


def interleaved(x: Expr) -> Expr:
    """The halves of rows of 64, an element of each in turn."""
    return x.reshape(4, 2, 32).transpose(0, 2, 1).reshape(4, 64)


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
    "overflow before and behind a norm": (
        lambda x: scaled_norm(x.reshape(128, 2)),
        lambda x: scaled_norm(x.reshape(128, 2), wide=True),
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
    "a number of the other sign than runs that overflow": (
        lambda x: ((x.abs() + 65472.0) - 65472.0) * 2,
        lambda x: x.abs() * -2 - 2e3,
    ),
    "a product of other pairs": (
        lambda x: x @ x.transpose(1, 0),
        lambda x: interleaved(x) @ x.transpose(1, 0),
    ),
    "an infinity behind a norm that no rounding makes": (
        lambda x: scaled_norm(x.reshape(128, 2)),
        lambda x: scaled_norm(x.reshape(128, 2), wide=True) * 1e4 * 1e-4,
    ),
    "a number where overflows meet": (
        lambda x: (x * x - x * x * 0.5).tanh(),
        lambda x: (
            (x.to(f32) * x.to(f32) - (x * x * 0.5).to(f32)).to(f16).tanh()
            + (x.abs() - 200).maximum(0) * 1e-3
        ),
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


def test_a_part_of_a_sum_may_overflow() -> None:
    """One order of terms gives 0, another one infinity."""
    large = np.array([[3e38, -3e38, 3e38, -3e38]], np.float32)
    formulas: list[Formula] = [
        lambda x: x.reduce("sum", 1),
        lambda x: x.reshape(1, 2, 2).transpose(0, 2, 1).reshape(1, 4).reduce("sum", 1),
    ]
    modules = [written(f, Tensor(1, 4)) for f in formulas]
    assert [float(run(m, large)[0][0, 0]) for m in modules] == [0.0, np.inf]
    reference = Reference(modules[0])
    reference.runner.trials = [replace(t, inputs={"in0": large}) for t in reference.runner.trials]
    reference.runner.first = reference.runner.run(modules[0])
    assert reference.difference(modules[1], Ulps()) is None
    other = written(lambda x: x.reduce("sum", 1) + math.nan, Tensor(1, 4))
    assert reference.difference(other, Ulps()) is not None


def test_sums_in_another_order() -> None:
    """Both operands of a product have their terms in the same one."""
    module = with_noise(written(lambda x, y: x @ y, Tensor(4, 64), Tensor(64, 8)))
    assert sum(isinstance(op, ShuffleOp) for op in module.walk()) == 2
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((4, 64), (64, 8)))
    (got,) = run(module, x, y)
    assert_matmul(got, x, y)


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


def test_noise_in_float64_has_the_steps_of_the_type() -> None:
    """The same between two powers of two, in runs of float64 as in those of float16."""
    x = np.repeat(np.array([0.2196, 0.1251, 0.2499, 1.0, -1.9, 6e-8]), 50)
    module = in_float64(with_noise(written(lambda x: x.sin(), half(len(x)))), throughout=True)
    op = next(op for op in module.walk() if isinstance(op, NoiseOp))
    moved = numbers.prepare(op)(x)
    for number in np.unique(x):
        of = x == number
        step = last_place(abs(number), np.dtype(np.float16))
        if abs(number) < 1e-7:
            step = float(np.finfo(np.float16).smallest_subnormal)
        steps = set(np.round((moved - x)[of] / step).astype(int).tolist())
        assert steps == set(range(-STEPS, STEPS + 1))


def test_more_inputs_are_tried_where_rounding_explains_a_difference() -> None:
    """But not on extremes, where it nearly always does."""
    before, after = (written(f, half(4, 64)) for f in EXPLAINED["cancellation"])
    reference = Reference(before)
    assert reference.difference(after, Ulps()) is None
    assert reference.rounding.doubts
    assert all(other.rounding.doubts for other in reference.others)
    first, *others = [next(iter(r.runner.trials[0].inputs.values())) for r in reference.others]
    assert all(not np.array_equal(first, other) for other in others)
