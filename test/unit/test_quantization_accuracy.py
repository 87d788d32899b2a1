"""The passes that make quantized layers more exact: floats stay equal, errors fall, and what was
decided is the same for any order of samples, and again from the table alone."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, normal, op_names, run, written

from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.elementwise import ClampOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import LayerNormOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import context
from ge.lowering.driver.program import count_layers
from ge.runtime.data.arrays import Array
from ge.transforms.quantization import observe, search_ranges
from ge.transforms.quantization.calibrate import CalibratePass, range_of, set_range
from ge.transforms.quantization.correct_bias import CorrectBiasPass, Estimate
from ge.transforms.quantization.data import Calibration, Samples, calibrating
from ge.transforms.quantization.equalize_channels import EqualizeChannelsPass
from ge.transforms.quantization.insert_quantization import InsertQuantizationPass, quantizer
from ge.transforms.quantization.layers import layers
from ge.transforms.quantization.observe import (
    LayerSamples,
    collect,
    folds,
    rounded_weight,
)
from ge.transforms.quantization.schemes import SCHEMES, scheme_of
from ge.transforms.quantization.search_ranges import SearchRangesPass
from ge.transforms.quantization.smooth_activations import SmoothActivationsPass
from ge.transforms.quantization.table import parsed
from ge.transforms.quantization.trials import Trials

CHUNK = 8
IMAGE = Tensor(CHUNK, 3, 6, 6)
ROWS = Tensor(CHUNK, 5, 8)


def main_of(module: ModuleOp) -> FuncOp:
    main = main_function(module)
    assert main is not None
    return main


def samples_of(array: Array) -> Samples:
    return Samples({"in0": array}, {"in0": 0}, len(array), CHUNK)


def apply(module: ModuleOp, calibration: Calibration, *passes: ModulePass) -> Calibration:
    with calibrating(calibration):
        for p in passes:
            p.apply(context(), module)
    module.verify()
    return calibration


def before_insertion() -> list[ModulePass]:
    return [
        CalibratePass(), EqualizeChannelsPass(), SmoothActivationsPass(), SearchRangesPass(),
    ]  # fmt: skip


def errors(module: ModuleOp, samples: Samples) -> list[float]:
    """The error of the output of each layer, with inputs quantized over the ranges they have."""
    every = np.ones(samples.count, np.bool_)
    found: list[float] = []
    for op, layer in collect(main_of(module), samples).items():
        bounds = range_of(op.operands[0])
        assert bounds is not None
        found += layer.errors(every, [bounds], SCHEMES["int8"])
    return found


# ---- networks ----------------------------------------------------------------------------------


def uneven(channels: int, factor: float) -> Array:
    """Factors of channels, some of which are much larger than the others."""
    return np.where(np.arange(channels) % 4 == 1, factor, 1.0).astype(np.float32)


def mobile(x: Expr) -> Expr:
    """A convolution, limits, one by channel, relu, and one that reads channels that are small."""
    size = uneven(8, 50.0)
    y = x.op(ConvOp, x, normal(8, 3, 1, 1, seed=1), np.full(8, 0.5, np.float32))
    y = x.op(ClampOp, y, np.float32(0), np.float32(6))
    by_channel = normal(8, 1, 3, 3, seed=2) * size[:, None, None, None]
    y = x.op(ConvOp, y, by_channel, normal(8, seed=4) * size, pads=[1, 1, 1, 1], group=8)
    y = x.op(ReluOp, y)
    return x.op(ConvOp, y, normal(5, 8, 1, 1, seed=3) / size[:, None, None])


def transposed(x: Expr) -> Expr:
    """Transposed convolutions, with groups."""
    size = uneven(4, 40.0)
    weight = normal(3, 4, 2, 2, seed=1) * size[:, None, None]
    y = x.op(ReluOp, x.op(ConvTransposeOp, x, weight, strides=[2, 2]))
    weight = normal(4, 3, 3, 3, seed=2) / size[:, None, None, None]
    y = x.op(ReluOp, x.op(ConvTransposeOp, y, weight, group=2))
    return x.op(ConvOp, y, normal(2, 3, 1, 1, seed=3), group=2)


def transformer(x: Expr) -> Expr:
    """A norm with channels that are large before two layers, one of which a third follows."""
    size = uneven(8, 40.0)
    y = x.op(LayerNormOp, x, size * (1 + normal(8, seed=1) / 8), size * normal(8, seed=2) / 8)
    weight = normal(8, 6, seed=3) / size[:, None]
    first = y @ x.lift(weight)
    second = x.op(MatmulOp, y, (normal(8, 4, seed=4) / size[:, None]).T.copy(), transpose_rhs=True)
    return (first + x.lift(normal(6, seed=5))).tanh() @ x.lift(normal(6, 4, seed=6)) + second


NETWORKS = {"mobile": (mobile, IMAGE), "transposed": (transposed, Tensor(CHUNK, 3, 4, 4)),
            "transformer": (transformer, ROWS)}  # fmt: skip


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> tuple[Callable[[], ModuleOp], Samples]:
    formula, argument = NETWORKS[request.param]
    dims = argument.type.get_shape()[1:]
    return lambda: written(formula, argument), samples_of(normal(3 * CHUNK, *dims, seed=9))


Network = tuple[Callable[[], ModuleOp], Samples]


# ---- rewrites ----------------------------------------------------------------------------------


def test_floats_stay_equal_and_errors_of_layers_fall(network: Network) -> None:
    make, samples = network
    before, after = make(), make()
    apply(before, Calibration(samples=samples), CalibratePass())
    table = apply(after, Calibration(samples=samples), *before_insertion()).table
    assert table.vectors
    x = samples.arrays["in0"][:CHUNK]
    agree(run(before, x), run(after, x), 1e-5)
    small, large = errors(after, samples), errors(before, samples)
    assert sum(small) < sum(large) / 20
    # ranges are up to 1.25 times as wide, for samples to come
    assert all(a < 1.25**2 * b for a, b in zip(small, large, strict=True))


def ratio(reference: Array, other: Array) -> float:
    """The signal-to-noise ratio in dB."""
    noise = np.square(reference.astype(np.float64) - other).sum()
    return float(10 * np.log10(np.square(reference, dtype=np.float64).sum() / noise))


def test_new_samples_come_out_nearer_to_float(network: Network) -> None:
    make, samples = network
    x = normal(*samples.arrays["in0"][:CHUNK].shape, seed=77)
    reference = run(make(), x)
    ratios: list[float] = []
    for passes in ([CalibratePass()], before_insertion()):
        module = make()
        passes += [InsertQuantizationPass(), CorrectBiasPass()]
        apply(module, Calibration(samples=samples), *passes)
        ratios.append(min(map(ratio, reference, run(module, x))))
    assert ratios[1] > ratios[0] + 6
    assert ratios[1] > 26


def test_the_table_alone_makes_the_same_module(network: Network) -> None:
    make, samples = network
    decided, again = make(), make()
    table = apply(decided, Calibration(samples=samples), *before_insertion()).table
    apply(again, Calibration(parsed(table.text())), *before_insertion())
    assert str(again) == str(decided)


def test_the_order_of_samples_does_not_matter(network: Network) -> None:
    make, samples = network
    order = np.random.default_rng(1).permutation(samples.count)
    shuffled = samples_of(samples.arrays["in0"][order])
    texts = [
        apply(make(), Calibration(samples=s), *before_insertion()).table.text()
        for s in (samples, shuffled)
    ]
    assert texts[0] == texts[1]


def test_equal_channels_stay() -> None:
    def formula(x: Expr) -> Expr:
        return (x @ x.lift(np.eye(8, 6))) @ x.lift(np.ones((6, 4), np.float32))

    samples = samples_of(np.where(normal(16, 5, 8, seed=2) < 0, -1, 1).astype(np.float32))
    module = written(formula, ROWS)
    names = op_names(module)
    table = apply(module, Calibration(samples=samples), *before_insertion()).table
    assert not table.vectors
    assert op_names(module) == names


def test_one_sample_decides_by_itself() -> None:
    module = written(mobile, IMAGE)
    calibration = Calibration(samples=samples_of(normal(1, 3, 6, 6, seed=2)))
    table = apply(module, calibration, *before_insertion()).table
    assert table.vectors["equalize-channels"]


def test_a_channel_that_is_zero_has_a_factor() -> None:
    def formula(x: Expr) -> Expr:
        weight = normal(8, 6, seed=1) * uneven(6, 100.0)
        weight[:, 2] = 0
        return x.op(ReluOp, x @ x.lift(weight)) @ x.lift(
            normal(6, 4, seed=3) / uneven(6, 100.0)[:, None]
        )

    module, samples = written(formula, ROWS), samples_of(normal(16, 5, 8, seed=2))
    before = run(module, samples.arrays["in0"][:CHUNK])
    table = apply(module, Calibration(samples=samples), *before_insertion()).table
    factors = next(iter(table.vectors["equalize-channels"].values()))
    assert np.isfinite(factors).all()
    assert min(factors) > 0
    agree(before, run(module, samples.arrays["in0"][:CHUNK]), 1e-5)


def test_weights_alone_are_smoothed_too() -> None:
    module, samples = written(transformer, ROWS), samples_of(normal(16, 5, 8, seed=2))
    smooth = SmoothActivationsPass(scheme="w4a16")
    table = apply(module, Calibration(samples=samples), CalibratePass(), smooth).table
    assert table.vectors["smooth-activations"]


def test_a_scheme_has_a_name() -> None:
    assert scheme_of("w4a16").block == 32
    with pytest.raises(GeError, match="scheme is one of int8, "):
        scheme_of("w3")


def blocks(count: int) -> Callable[[Expr], Expr]:
    """Layers in pairs, each behind a norm whose channels are uneven."""
    size = uneven(8, 40.0)

    def formula(x: Expr) -> Expr:
        for i in range(count):
            y = x.op(LayerNormOp, x, size, size)
            y = y @ x.lift(normal(8, 8, seed=i) / size[:, None])
            x = x + y.tanh() @ x.lift(normal(8, 8, seed=100 + i))
        return x

    return formula


def calls_on(count: int) -> int:
    """How often functions of the passes before insertion are called, for a number of blocks."""
    module, samples = written(blocks(count), ROWS), samples_of(normal(CHUNK, 5, 8, seed=2))
    calls = 0

    def counting(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "quantization" in frame.f_code.co_filename

    sys.setprofile(counting)
    try:
        apply(module, Calibration(samples=samples), *before_insertion(), InsertQuantizationPass())
    finally:
        sys.setprofile(None)
    return calls


def test_three_times_the_layers_take_three_times_the_calls() -> None:
    assert calls_on(6) < 3.3 * calls_on(2)


# ---- ranges ------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_smallest_range_has_a_step(symmetric: bool) -> None:
    (value,) = test.TestOp(result_types=[TensorType(f32, [4])]).results
    set_range(value, (0.0, 5e-324))
    scale, _ = quantizer(value, i8, symmetric)
    assert scale == np.finfo(np.float32).smallest_normal


def test_ranges_never_leave_what_an_op_can_return() -> None:
    def formula(x: Expr) -> Expr:
        clamped = x.op(ClampOp, x, np.float32(-0.5), np.float32(0.5))
        return clamped @ x.lift(normal(8, 4, seed=1))

    module, samples = written(formula, ROWS), samples_of(normal(16, 5, 8, seed=2))
    apply(module, Calibration(samples=samples), CalibratePass(), SearchRangesPass())
    assert range_of(layers(main_of(module))[0].input) == (-0.5, 0.5)


def test_ranges_of_values_without_tails_stay_and_the_table_has_them() -> None:
    def formula(x: Expr) -> Expr:
        return x @ x.lift(normal(8, 4, seed=1))

    module = written(formula, ROWS)
    array = np.random.default_rng(1).uniform(-1, 1, (64, 5, 8)).astype(np.float32)
    c = Calibration(samples=samples_of(array))
    apply(module, c, CalibratePass(), SearchRangesPass())
    bounds = range_of(main_of(module).args[0])
    assert bounds == c.table.ranges["in0"]
    assert bounds == pytest.approx((-1, 1), abs=0.01)


def test_ranges_are_tried_without_the_layers_that_stay_float(monkeypatch: pytest.MonkeyPatch):
    def formula(x: Expr) -> Expr:
        return (x @ x.lift(normal(8, 8, seed=1))).tanh() @ x.lift(normal(8, 4, seed=2))

    tried: list[list[str]] = []

    def noise(trials: Trials, precisions: Mapping[str, str], few: bool = True) -> float:
        tried.append([facts.scheme for facts in trials.quantized({})[1].values()])
        return 0.0

    monkeypatch.setattr(Trials, "noise", noise)
    monkeypatch.setattr(search_ranges, "LEAST_GAIN", 100)  # any range is tried
    search = SearchRangesPass(method="percentile:99", skip=("in0",))
    calibration = Calibration(samples=samples_of(normal(64, 5, 8, seed=3)))
    apply(written(formula, ROWS), calibration, CalibratePass(), search)
    assert tried == [["float", "int8"]] * 4  # on a few samples, and on all


# ---- what is kept of samples ---------------------------------------------------------------------


def test_every_sample_is_judged_once_by_what_others_decide() -> None:
    for count in (1, 2, 3, 4, 9):
        judged = np.zeros(count, np.int64)
        for others, part in folds(count):
            judged += part
            assert count == 1 or not (others & part).any()
            assert others.any()
        assert (judged == 1).all()


def test_samples_have_one_order() -> None:
    array = normal(6, 5, 8)
    first, second = (
        next(samples_of(a).canonical.chunks()).inputs["in0"] for a in (array, array[::-1].copy())
    )
    assert np.array_equal(first, second)


def test_ranges_are_those_of_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "SAMPLES", CHUNK)
    array = normal(4 * CHUNK, 5, 8, seed=3)
    for layer in collect(main_of(written(transformer, ROWS)), samples_of(array)).values():
        assert len(layer.low) == CHUNK
        assert (layer.bounds[0] <= layer.low.min(0)).all()
        assert (layer.bounds[1] > layer.high.max(0)).any()


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_are_those_that_the_layer_multiplies(name: str) -> None:
    """Without rounding, divided rows against multiplied weights give the same outputs."""
    formula, argument = NETWORKS[name]
    samples = samples_of(normal(16, *argument.type.get_shape()[1:], seed=3))
    for layer in collect(main_of(written(formula, argument)), samples).values():
        before = layer.outputs
        layer.divide(np.linspace(0.5, 2, layer.low.shape[1]).astype(np.float32))
        LayerSamples.__post_init__(layer)
        np.testing.assert_allclose(layer.outputs, before, rtol=1e-4, atol=1e-4)


def test_padding_of_blocks_does_not_count() -> None:
    weight = normal(1, 3, 40)
    back = rounded_weight(weight, SCHEMES["w4a16"])
    assert back.shape == weight.shape
    assert np.abs(back - weight).max() < np.ptp(weight) / 15


# ---- biases ------------------------------------------------------------------------------------


def quantized_layers(x: Expr) -> Expr:
    """Two layers whose weights are rounded coarsely."""

    def pair(value: Expr, scale: float) -> Expr:
        quantized = x.op(QuantizeOp, value, np.float32(scale), to=i8)
        return x.op(DequantizeOp, quantized, np.float32(scale))

    y = x.op(ConvOp, pair(x, 0.05), pair(x.lift(normal(4, 3, 3, 3, seed=1)), 0.4))
    y = x.op(ReluOp, y)
    bias = x.lift(normal(6, seed=3))
    y = y.reduce("mean", 2, 3, keep=False)
    return pair(y, 0.05) @ pair(x.lift(normal(4, 6, seed=2)), 0.4) + bias


def test_what_may_be_chance_is_not_corrected() -> None:
    whole, parts, single = Estimate(), Estimate(), Estimate()
    vectors = np.stack([normal(40, seed=1), 3 + normal(40, seed=2), np.zeros(40)], 1)
    whole.add(vectors)
    for i in range(0, 40, 7):
        parts.add(vectors[i : i + 7])
    np.testing.assert_allclose(whole.shrunk(), parts.shrunk(), rtol=1e-9)
    noise, shift, nothing = whole.shrunk()
    assert abs(noise) < abs(vectors[:, 0].mean()) * 0.6
    assert shift == pytest.approx(vectors[:, 1].mean(), rel=0.01)
    assert nothing == 0
    single.add(vectors[:1])
    assert not single.shrunk().any()


def test_the_mean_of_each_output_is_right_after_correction() -> None:
    samples = samples_of(normal(16, 3, 6, 6, seed=5) + 1)
    module = written(quantized_layers, IMAGE)
    reference = written(quantized_layers, IMAGE)
    for op in list(reference.walk()):
        if isinstance(op, DequantizeOp):
            assert isinstance(op.input.owner, QuantizeOp)
            op.result.replace_all_uses_with(op.input.owner.input)
    c = Calibration(samples=samples)
    chunks = [samples.arrays["in0"][i : i + CHUNK] for i in (0, CHUNK)]
    wanted, before = ([run(m, x)[0] for x in chunks] for m in (reference, module))
    apply(module, c, CorrectBiasPass())
    after = [run(module, x)[0] for x in chunks]
    assert len(c.table.vectors["correct-bias"]) == 2
    wrong = np.abs(np.mean(wanted, (0, 1)) - np.mean(before, (0, 1)))
    left = np.abs(np.mean(wanted, (0, 1)) - np.mean(after, (0, 1)))
    assert left.max() < wrong.max() / 5

    again = written(quantized_layers, IMAGE)
    apply(again, Calibration(parsed(c.table.text())), CorrectBiasPass())
    assert str(again) == str(module)


def test_a_float_layer_that_reads_codes_of_another_has_no_integer_weights() -> None:
    def formula(x: Expr) -> Expr:
        codes = x.op(QuantizeOp, x, np.float32(0.5), to=i8)
        return x.op(DequantizeOp, codes, np.float32(0.5)) @ x.lift(normal(8, 4, seed=1))

    counts = count_layers(written(formula, ROWS))
    assert counts == {"integer": 0, "integer weights": 0, "float": 1}
