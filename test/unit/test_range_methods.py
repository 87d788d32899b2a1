"""Methods for ranges of activations: what they give, that they depend on no order, the guard."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.func import ReturnOp
from xdsl.parser import Parser

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, normal, written

from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import quantization
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrate import CalibratePass
from ge.transforms.quantization.data import Calibration, Chunk, Samples, calibrating
from ge.transforms.quantization.insert_quantization import Limits
from ge.transforms.quantization.layers import layers
from ge.transforms.quantization.observe import ObservedOp, Observer
from ge.transforms.quantization.schemes import RangeMethod, range_method_of
from ge.transforms.quantization.search_ranges import BINS, Histogram, SearchRangesPass
from ge.transforms.quantization.table import Range
from ge.transforms.quantization.trials import Trials, outputs

METHODS = ("average", "kl", "percentile:99", "minmax", "search")
CHUNK = 8


def histogram(x: Array) -> Histogram:
    low, high = float(x.min()), float(x.max())
    return Histogram(low, high, np.histogram(x, BINS, (low, high))[0].astype(np.int64))


@given(st.integers(0, 1000), st.floats(50.5, 100))
def test_a_percentile_has_its_share_of_the_elements(seed: int, percent: float):
    x = normal(2000, seed=seed)
    low, high = histogram(x).percentiles(percent)
    inside = ((x >= low - 1e-5) & (x <= high + 1e-5)).mean()
    assert inside >= percent / 100 - 1e-9
    if percent < 98:
        size = float(np.ptp(x)) / BINS
        less = ((x >= low + 2 * size) & (x <= high - 2 * size)).mean()
        assert less < percent / 100 + 0.01


def test_all_elements_are_the_whole_range():
    x = normal(500, seed=3)
    assert histogram(x).percentiles(100) == pytest.approx((x.min(), x.max()))


def test_divergence_leaves_rare_large_elements_out():
    bulk = normal(20000, seed=1)
    low, high = histogram(np.append(bulk, [12, -12]).astype(np.float32)).least_divergence(256)
    assert -9 < low < -3
    assert 3 < high < 9
    even = np.linspace(-1, 1, 50000, dtype=np.float32)
    assert histogram(even).least_divergence(256) == pytest.approx((-1, 1), rel=0.1)


def network(x: Expr) -> Expr:
    return (x @ x.lift(normal(8, 8, seed=1))).tanh() @ x.lift(normal(8, 4, seed=2))


def samples_of(x: Array) -> Samples:
    return Samples({"in0": x}, {"in0": 0}, len(x), CHUNK)


def ranges(method: str, x: Array) -> dict[str, Range]:
    module = written(network, Tensor(CHUNK, 8))
    calibration = Calibration(samples=samples_of(x))
    with calibrating(calibration):
        CalibratePass().apply(context(), module)
        SearchRangesPass(method=method).apply(context(), module)
    return calibration.table.ranges


@pytest.mark.parametrize("method", METHODS)
def test_ranges_depend_on_no_order(method: str):
    x = normal(37, 8, seed=4)
    shuffled = np.random.default_rng(2).permutation(x)
    assert ranges(method, x) == ranges(method, shuffled)


def test_a_method_cuts_off_what_layers_do_not_need():
    """One element that is much larger than all others, and counts little."""
    x = normal(400, 8, seed=5)
    x[7, 3] = 14
    whole, cut = ranges("minmax", x), ranges("percentile:99.9", x)
    assert whole["in0"][1] == 14
    assert cut["in0"][1] <= whole["in0"][1]
    assert all(
        a[0] <= b[0] <= b[1] <= a[1] for a, b in zip(whole.values(), cut.values(), strict=True)
    )


@pytest.mark.parametrize(("without", "loss"), [(1.0, "3.0 dB"), (0.0, "inf dB")])
def test_where_outputs_lose_ranges_stay_min_max(
    monkeypatch: pytest.MonkeyPatch, without: float, loss: str
):
    x, told, noises = normal(64, 8, seed=6), list[Diagnostic](), iter([2.0, without])
    monkeypatch.setattr(Trials, "noise", lambda self, precisions, few=True: next(noises))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr("ge.transforms.quantization.search_ranges.LEAST_GAIN", 1e9)
    with diagnostic_handler(told.append):
        assert ranges("percentile:90", x) == ranges("minmax", x)
    assert f"ranges are those of minmax: outputs gain {loss}" in told[-1].message


@pytest.mark.parametrize(("noises", "best"), [
    ((2.0, 1.0, 3.0), "minmax"), ((2.0, 3.0, 1.0), "percentile:99.9"),
    ((2.0, 1.99, 3.0), "search"),
])  # fmt: skip
def test_the_search_is_judged_by_outputs(
    monkeypatch: pytest.MonkeyPatch, noises: tuple[float, ...], best: str
):
    x = np.append(normal(400, 8, seed=5), np.full((1, 8), 14, np.float32), 0)
    monkeypatch.setattr("ge.transforms.quantization.search_ranges.LEAST_GAIN", 1e9)
    monkeypatch.setattr("ge.transforms.quantization.search_ranges.promises", bool)
    given = iter((1.0, 2.0, *noises))

    def noise(_: Trials, __: Mapping[str, str], few: bool = True) -> float:
        return next(given) if few else 1.0

    monkeypatch.setattr(Trials, "noise", noise)
    others, found, whole = (ranges(m, x) for m in ("percentile:99.9", "search", "minmax"))
    assert (found == whole) == (best == "minmax")
    assert (found == others) == (best == "percentile:99.9")


def test_a_search_that_promises_layers_little_is_not_tried(monkeypatch: pytest.MonkeyPatch):
    x, told = normal(64, 8, seed=6), list[Diagnostic]()
    monkeypatch.setattr("ge.transforms.quantization.search_ranges.CLEARLY", 0.0)
    monkeypatch.delattr(Trials, "noise")
    with diagnostic_handler(told.append):
        assert ranges("search", x) == ranges("minmax", x)
    assert "ranges are those of minmax: layers gain little by others" in told[-1].message


def test_elements_of_half_precision_are_counted():
    x = (normal(16, 8, seed=7) * 0.001).astype(np.float16)
    low, high = float(x.min()), float(x.max())
    seen = Histogram(low, high)
    seen.watch(ObservedOp(ReturnOp(), [x], [], Chunk({}, 0, 16, 16)))
    assert (seen.counts == histogram(x.astype(np.float64)).counts).all()


@pytest.mark.parametrize(("alpha", "low"), [(1.0, -0.2785), (0.5, -0.557), (-1.0, -math.inf)])
def test_silu_goes_lower_with_a_smaller_alpha(alpha: float, low: float):
    text = f"""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = graph.silu %x alpha {alpha} : (tensor<4xf32>) -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }}"""
    main = main_function(Parser(context(), text).parse_module())
    assert main is not None
    (op, _) = main.body.block.ops
    least, most = Limits(Observer(main)).of(op.results[0])
    assert least == pytest.approx(low)
    assert most == math.inf


def test_a_model_may_return_constants_and_empty_tensors():
    text = """
    func.func @main(%x: tensor<8x8xf32>) -> (tensor<2xf32>, tensor<8x0xf32>, tensor<8x4xf32>) {
      %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %e = graph.constant dense<> : tensor<8x0xf32>
      %w = graph.constant dense<0.5> : tensor<8x4xf32>
      %0 = graph.matmul %x, %e : (tensor<8x8xf32>, tensor<8x0xf32>) -> tensor<8x0xf32>
      %1 = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      func.return %c, %0, %1 : tensor<2xf32>, tensor<8x0xf32>, tensor<8x4xf32>
    }"""
    main = main_function(Parser(context(), text).parse_module())
    assert main is not None
    assert len(layers(main)) == 1  # a weight without elements has no range
    x = normal(11, 8, seed=8)
    found = outputs(main, Samples({"x": x}, {"x": 0}, len(x), CHUNK))
    assert [a.shape for a in found.values()] == [(4,), (11, 0), (11, 4)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("octav", "one of search, minmax, average, kl, percentile:99.99, not 'octav'"),
        ("percentile", "one of search"),
        ("percentile:30", "a percentile above 50 and at most 100"),
        ("percentile:x", "one of search"),
    ],
)
def test_methods_that_are_none(text: str, message: str):
    with pytest.raises(GeError) as error:
        range_method_of(text)
    assert message in str(error.value)


def test_the_option_reaches_the_pass():
    passes = quantization(Options(quantize="int8", ranges="percentile:99.9"))
    (search,) = (p for p in passes if isinstance(p, SearchRangesPass))
    assert RangeMethod.parsed(search.method).percent == 99.9
