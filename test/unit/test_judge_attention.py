"""Attention that stays float, as its results on samples would be far off in integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ge.dialects.graph.attention import AttentionOp
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import quantization
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrate import CalibratePass
from ge.transforms.quantization.data import Calibration, Samples, calibrating
from ge.transforms.quantization.insert_quantization import InsertQuantizationPass
from ge.transforms.quantization.judge_attention import JudgeAttentionPass

from .writing import Expr, Tensor, normal, written

CHUNK, SHAPE = 8, (2, 32, 128)  # heads, tokens, elements
X = np.random.default_rng(0).standard_normal((40, *SHAPE), np.float32)


MERGED: dict[str, Any] = {"target": "910_merged"}  # where wide attention pays in integers


def weight(seed: int) -> Array:
    """Which leaves values about as large as they are."""
    return normal(SHAPE[-1], SHAPE[-1], seed=seed) / 4


def attention(x: Expr) -> Expr:
    q, k, v = (x @ x.lift(weight(i)) for i in range(3))
    return x.op(AttentionOp, q, k, v, [], None, None)


def of_large_scores(x: Expr) -> Expr:
    q, k, v = (x @ x.lift(weight(i)) * 20.0 for i in range(3))
    return x.op(AttentionOp, q, k, v, [], None, None)


def judged(formula: Callable[[Expr], Expr], x: Array = X, **options: Any) -> Calibration:
    module = written(formula, Tensor(CHUNK, *SHAPE))
    calibration = Calibration(samples=Samples({"in0": x}, {"in0": 0}, len(x), CHUNK))
    with calibrating(calibration):
        for p in (
            CalibratePass(),
            JudgeAttentionPass(**MERGED | options),
            InsertQuantizationPass(**MERGED),
        ):
            p.apply(context(), module)
    module.verify()
    return calibration


def test_attention_that_is_exact_enough_is_quantized() -> None:
    calibration = judged(attention)
    assert not calibration.table.layers
    assert {f.scheme for f in calibration.layers.values()} == {"int8"}


def test_attention_that_is_not_exact_in_integers_stays_float() -> None:
    calibration = judged(of_large_scores)
    (name,) = calibration.table.layers
    facts = calibration.layers[name]
    assert facts.scheme == calibration.table.layers[name] == "float"
    assert facts.reason.startswith("in integers its results have ")
    assert "int8" in {f.scheme for f in calibration.layers.values()}


@pytest.mark.parametrize("options", [{"skip": (".*",)}, {"scheme": "int16"}])
def test_what_stays_float_anyway_is_not_judged(options: dict[str, Any]) -> None:
    assert not judged(of_large_scores, **options).table.layers


def test_a_table_has_what_was_judged() -> None:
    assert any(isinstance(p, JudgeAttentionPass) for p in quantization(Options(quantize="int8")))
    table = judged(of_large_scores).table
    module = written(of_large_scores, Tensor(CHUNK, *SHAPE))
    with calibrating(Calibration(table)):
        for p in (CalibratePass(), JudgeAttentionPass(**MERGED), InsertQuantizationPass(**MERGED)):
            p.apply(context(), module)
    assert "rounded_weights" not in str(module)
