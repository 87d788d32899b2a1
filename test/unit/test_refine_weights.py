"""Weights that are stored more exactly than w8a16 has them: where outputs gain by it, and only
there."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

sys.path.insert(0, str(Path(__file__).parent))
from test_quantization_accuracy import CHUNK, apply, samples_of
from writing import Expr, Tensor, normal, run, written

from ge.runtime.data.arrays import Array
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.choose_precision import ChoosePrecisionPass
from ge.transforms.quantization.data import Calibration
from ge.transforms.quantization.fit_weights import FitWeightsPass
from ge.transforms.quantization.insert_quantization import InsertQuantizationPass
from ge.transforms.quantization.refine_weights import RefineWeightsPass
from ge.transforms.quantization.schemes import GROUPS, W8A16
from ge.transforms.quantization.table import Table, parsed

Formula = Callable[[Expr], Expr]
SHAPE = Tensor(CHUNK, 8, 128)
X = normal(96, 8, 128, seed=1)
LARGE = normal(8, 128, seed=2) * np.array([[50]] + [[1]] * 7)
EXACT = np.round(normal(128, 48, seed=4) * 20).clip(-127, 127)
EXACT[0] = 127  # every column has the code of its largest number


def chain(x: Expr) -> Expr:
    y = (x @ x.lift(normal(128, 96, seed=5) / 8)).tanh()
    return y @ x.lift(normal(96, 48, seed=6) / 7)


def exact(x: Expr) -> Expr:
    """Codes of columns are the weight, those of groups are not."""
    return x @ x.lift(EXACT / 128)


def placed(x: Expr) -> Expr:
    """A table is 1024 of 18 thousand weights, and one of its rows is large."""
    return chain(x + x.lift(LARGE))


def mostly_table(x: Expr) -> Expr:
    return (x + x.lift(LARGE)) @ x.lift(normal(128, 4, seed=5))


def wide(x: Expr) -> Expr:
    """The weights take time."""
    y = (x @ x.lift(normal(128, 2048, seed=5) / 8)).tanh()
    return y @ x.lift(normal(2048, 64, seed=6) / 40)


def refined(formula: Formula, scheme: str = W8A16, table: Table | None = None) -> Table:
    module = written(formula, SHAPE)
    calibration = Calibration(table or Table(), samples_of(X))
    return apply(module, calibration, RefineWeightsPass(scheme=scheme)).table


@pytest.mark.parametrize(
    ("formula", "scheme", "wanted"),
    [
        (chain, W8A16, [GROUPS, GROUPS]),
        (chain, GROUPS, []),  # nothing is left to choose
        (chain, "w4a16", []),
        (exact, W8A16, []),
        (placed, W8A16, [GROUPS, GROUPS, "int16"]),
        (placed, GROUPS, ["int16"]),
        (mostly_table, GROUPS, []),
    ],
)
def test_what_outputs_gain_by(formula: Formula, scheme: str, wanted: list[str]) -> None:
    assert sorted(refined(formula, scheme).layers.values(), reverse=True) == wanted


def test_a_layer_of_the_table_keeps_what_that_says() -> None:
    first = next(iter(refined(chain).layers))
    assert refined(chain, table=Table(layers={first: W8A16})).layers[first] == W8A16


def noise(module: ModuleOp, formula: Formula) -> float:
    (want,), (got,) = (run(m, X[:CHUNK]) for m in (written(formula, SHAPE), module))
    return float(np.square(got - want).sum() / np.square(want).sum())


def program(formula: Formula, table: Table, samples: Array | None = None) -> ModuleOp:
    module = written(formula, SHAPE)
    given = Calibration(table, None if samples is None else samples_of(samples))
    apply(module, given, InsertQuantizationPass(W8A16, asymmetric=True))
    return module


def test_the_table_gives_the_same_program_without_samples() -> None:
    table = refined(placed)
    again = program(placed, parsed(table.text()))
    assert str(again) == str(program(placed, table, X))
    assert noise(again, placed) < noise(program(placed, Table()), placed) / 2
    assert "axis 0 block_size 32" in str(again)


def test_codes_are_fitted_on_the_grids_of_groups() -> None:
    module = written(chain, SHAPE)
    passes = (p(scheme=W8A16, asymmetric=True) for p in (RefineWeightsPass, FitWeightsPass))
    table = apply(module, Calibration(samples=samples_of(X)), *passes).table
    assert all(text.startswith("i8x32 ") for text in table.fitted.values())
    assert len(table.fitted) == 2
    nearest = Table(layers=table.layers)
    assert noise(program(chain, table), chain) < noise(program(chain, nearest), chain)
    columns = Table(fitted=table.fitted)  # codes of another grid are no codes of this one
    assert str(program(chain, columns)) == str(program(chain, Table()))


def test_an_accuracy_is_met_by_groups_before_floats() -> None:
    calibration, choose = Calibration(samples=samples_of(X)), ChoosePrecisionPass(scheme=W8A16)
    apply(written(wide, SHAPE), calibration, choose)
    (before,) = calibration.left.values()
    assert not calibration.table.layers
    calibration = Calibration(samples=samples_of(X), accuracy=Accuracy("snr", before + 4))
    apply(written(wide, SHAPE), calibration, RefineWeightsPass(), choose)
    assert [*calibration.table.layers.values()] == [GROUPS]
