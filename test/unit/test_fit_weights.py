"""Weights that are fitted to samples: errors of layers never rise, the table has what was decided,
and floats of 4 bits are those of the formats."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

sys.path.insert(0, str(Path(__file__).parent))
from test_quantization_accuracy import CHUNK, NETWORKS, apply, main_of, samples_of
from writing import Expr, Tensor, normal, run, written

import ge
from ge.dialects.support.diagnostics import warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_of
from ge.dialects.targets.target import Target
from ge.lowering.driver.cache import compile_file
from ge.lowering.driver.compiler import load
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import weights_of as keys_of
from ge.runtime.numbers.quantization import spread_of
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.calibrate import CalibratePass
from ge.transforms.quantization.choose_precision import ChoosePrecisionPass
from ge.transforms.quantization.data import Calibration, calibrating
from ge.transforms.quantization.fit_weights import FitWeightsPass, compensated, fits, weights_of
from ge.transforms.quantization.insert_quantization import InsertQuantizationPass
from ge.transforms.quantization.observe import Observer, Watcher, rounded_weight
from ge.transforms.quantization.schemes import SCHEMES, scheme_of
from ge.transforms.quantization.table import Table, parsed, unpacked_codes
from ge.transforms.quantization.trials import Trials

Floats = NDArray[np.float64]
TARGET = Target.load("950pr")


def nearest(codes: Floats) -> Floats:
    return np.clip(np.rint(codes), -8, 7)


def correlated(rows: int, inputs: int, seed: int) -> Array:
    """Rows whose elements have much in common, as those of networks do."""
    return normal(rows, 3, seed=seed) @ normal(3, inputs, seed=seed + 1) + 0.1 * normal(
        rows, inputs, seed=seed + 2
    )


def test_errors_are_made_up_for_by_other_inputs() -> None:
    rows = correlated(400, 40, 1).astype(np.float64)
    weight = normal(1, 40, 12, seed=4).astype(np.float64)
    scale, zero = np.full_like(weight, 0.4), np.ones_like(weight)
    codes = compensated(weight, scale, zero, (rows.T @ rows)[None], nearest)
    assert (codes == nearest(codes)).all()
    error, before = (
        np.square(rows @ (weight - (c - zero) * scale)[0]).sum()
        for c in (codes, nearest(weight / scale + zero))
    )
    assert error < before / 4


def test_inputs_that_have_nothing_in_common_are_rounded_to_nearest() -> None:
    weight = normal(2, 5, 3, seed=1).astype(np.float64)
    scale, zero = np.full_like(weight, 0.3), np.zeros_like(weight)
    products = np.stack([np.diag([3.0, 0, 1, 7, 2])] * 2)  # an input that is always 0 too
    codes = compensated(weight, scale, zero, products, nearest)
    assert (codes == nearest(weight / scale)).all()


@pytest.mark.parametrize("scheme", ["int8", "w8a16", "w4a16", "mxfp4", "nvfp4", "fp8", "dynamic"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_output_has_more_error_than_with_nearest_numbers(name: str, scheme: str) -> None:
    formula, shape = NETWORKS[name]
    module = written(formula, shape)
    samples = samples_of(normal(16, *shape_of(main_of(module).args[0])[1:], seed=2))
    calibration = apply(module, Calibration(samples=samples), CalibratePass())
    trials = Trials(main_of(module), samples, scheme_of(scheme), TARGET)
    with calibrating(calibration):
        copy, _ = trials.quantized({})
    weights = weights_of(copy)
    assert weights
    for weight in weights:
        for layer in weight.readers:
            watch: Watcher = partial(weight.add, layer, samples.count)
            Observer(copy).run(samples, {layer.op: watch})
        stored, pair = weight.observer.constant(weight.pair.result), weight.pair
        exact, scale = (weight.observer.constant(v) for v in (pair.input, pair.scale))
        scale = np.broadcast_to(spread_of(pair)(scale, exact), exact.shape)
        if (found := weight.fitted()) is None:
            continue
        added = np.frombuffer(unpacked_codes(found[0])[1], np.uint8).reshape(stored.shape)
        codes = (stored.view(np.uint8) + added).view(stored.dtype)
        old, new = (
            weight.errors(weight.matrix(exact) - weight.matrix(c.astype(np.float32) * scale))
            for c in (stored, codes)
        )
        assert (new <= old * (1 + 1e-4)).all()
        assert new.sum() < old.sum()
        assert abs(10 * np.log10(old.sum() / new.sum()) - found[1]) < 0.01
    assert fits(copy, samples)


def chain(x: Expr) -> Expr:
    """Two layers, whose inputs have much in common."""
    y = (x @ x.lift(normal(64, 48, seed=5) / 8)).tanh()
    return y @ x.lift(normal(48, 8, seed=6) / 7)


X = correlated(96, 64, 7)


def chained() -> ModuleOp:
    return written(chain, Tensor(CHUNK, 64))


def fitted(x: Array, scheme: str = "w4a16") -> tuple[ModuleOp, Table]:
    module = chained()
    passes = FitWeightsPass(scheme=scheme, target="950pr"), InsertQuantizationPass(scheme)
    calibration = apply(module, Calibration(samples=samples_of(x)), *passes)
    return module, calibration.table


def noise(module: ModuleOp) -> float:
    (want,), (got,) = (run(m, X[:CHUNK]) for m in (chained(), module))
    return float(np.square(got - want).sum() / np.square(want).sum())


@pytest.mark.parametrize("scheme", ["w4a16", "mxfp4", "nvfp4"])
def test_outputs_gain(scheme: str) -> None:
    module, table = fitted(X, scheme)
    plain = chained()
    apply(plain, Calibration(), InsertQuantizationPass(scheme))
    assert len(table.fitted) == 2
    assert noise(module) < noise(plain) / 2


def test_the_table_gives_the_same_program_for_any_order_of_samples() -> None:
    module, table = fitted(X)
    assert fitted(np.random.default_rng(1).permutation(X))[1].fitted == table.fitted
    again = chained()
    apply(again, Calibration(parsed(table.text())), InsertQuantizationPass("w4a16"))
    assert str(again) == str(module)
    other = chained()  # a scheme of other codes
    apply(other, Calibration(parsed(table.text())), InsertQuantizationPass("w8a16"))
    plain = chained()
    apply(plain, Calibration(), InsertQuantizationPass("w8a16"))
    assert str(other) == str(plain)


@pytest.mark.parametrize("scheme", ["w4a16", "int8", "mxfp4"])
def test_fitted_codes_are_weights_of_the_program(scheme: str, tmp_path: Path) -> None:
    model, data, out = (str(tmp_path / name) for name in ("m.mlir", "x.npz", "p.mlir"))
    Path(model).write_text(str(chained()))
    name = "in0"
    np.savez(data, **{name: X})
    program = ge.compile(
        model, quantize=scheme, calibration=data, fit_weights=True, target="950pr", tiles=False
    )
    program.save(out, None)
    keys = [key for key in keys_of(program.module) if key.startswith("fitted.")]
    assert len(keys) == 1  # the other is short
    facts = program.report()["quantization"]["layers"]
    assert all(entry["fitted_db"] > 1 for entry in facts)
    sessions = [ge.Session(p.module, p.payload) for p in (program, load(out))]
    want, got = (session.run({name: X[:CHUNK]}) for session in sessions)
    assert all(np.array_equal(got[key], want[key]) for key in want)


def test_an_accuracy_is_met_by_fitted_weights_before_floats() -> None:
    module, calibration = chained(), Calibration(samples=samples_of(X))
    apply(module, calibration, ChoosePrecisionPass(scheme="w4a16"))
    (before,) = calibration.left.values()
    calibration = Calibration(samples=samples_of(X), accuracy=Accuracy("snr", before + 1))
    table = apply(module, calibration, ChoosePrecisionPass(scheme="w4a16")).table
    assert table.fitted
    assert not table.layers


def test_what_is_no_code_is_refused() -> None:
    for text in ("'i4 nothing'", "'i4 AAAA'"):
        with pytest.raises(ValueError, match="codes that are fitted"):
            parsed(f"[fitted]\nx = {text}")


def test_samples_are_needed(tmp_path: Path) -> None:
    model = tmp_path / "m.mlir"
    model.write_text(
        "func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {\n"
        "  %w = graph.constant dense<1.5> : tensor<4x3xf32>\n"
        "  %y = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>\n"
        "  func.return %y : tensor<2x3xf32>\n}\n"
    )
    with pytest.raises(GeError, match="weights are fitted to samples"):
        compile_file(str(model), Options(quantize="w8a16", fit_weights=True))
    table = tmp_path / "t.toml"
    table.write_text("")
    told: list[str] = []
    with warning_handler(lambda d: told.append(str(d))):
        compile_file(
            str(model), Options(quantize="w8a16", fit_weights=True, calibration=str(table))
        )
    assert any("t.toml has none, give samples in its place" in text for text in told)
    with pytest.raises(GeError, match="target 910b2 has no rate for matmuls of f4E2M1FN; 950pr"):
        compile_file(str(model), Options(quantize="mxfp4", target="910b2"))


def mxfp4(blocks: Array) -> Array:
    largest = np.abs(blocks).max(-1, keepdims=True)
    scale = np.exp2(np.ceil(np.log2(largest / 6)))
    return (blocks / scale).astype(ml_dtypes.float4_e2m1fn).astype(np.float32) * scale


def nvfp4(blocks: Array) -> Array:
    whole = np.exp2(np.ceil(np.log2(np.abs(blocks).max() / 6 / 448)))
    exact = np.abs(blocks).max(-1, keepdims=True) / 6 / whole
    scale = exact.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * whole
    codes = np.clip(blocks / scale, -6, 6).astype(ml_dtypes.float4_e2m1fn)
    return codes.astype(np.float32) * scale


@pytest.mark.parametrize("reference", [mxfp4, nvfp4])
def test_floats_of_4_bits_are_those_of_the_format(reference: Callable[[Array], Array]) -> None:
    scheme = SCHEMES[reference.__name__]
    weight = normal(1, 6, 64, seed=3) * np.float32(0.05)
    want = reference(weight.reshape(1, 6, -1, scheme.block)).reshape(weight.shape)
    got = rounded_weight(weight, scheme)
    assert np.array_equal(got, want)
    assert not rounded_weight(np.zeros((1, 2, 40), np.float32), scheme).any()
