"""The passes that make quantized layers more exact: floats stay equal, errors fall, and what was
decided is the same for any order of samples, and again from the table alone."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, normal, run, written

from ge.dialects.graph.activation import GeluOp, ReluOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.elementwise import ClampOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import LayerNormOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrate import CalibratePass, range_of
from ge.transforms.quantization.channel_scales import SPAN
from ge.transforms.quantization.correct_bias import CorrectBiasPass
from ge.transforms.quantization.data import CalibratedPass, Calibration, Samples, calibrating
from ge.transforms.quantization.equalize_channels import EqualizeChannelsPass
from ge.transforms.quantization.layer_samples import (
    SCHEMES,
    LayerSamples,
    Scheme,
    canonical,
    collect,
    folds,
    rounded_activation,
    rounded_weight,
    scheme_of,
)
from ge.transforms.quantization.layers import layers
from ge.transforms.quantization.search_ranges import SearchRangesPass
from ge.transforms.quantization.smooth_activations import SmoothActivationsPass
from ge.transforms.quantization.table import Table

BATCH = 8


def main_of(module: ModuleOp) -> FuncOp:
    main = main_function(module)
    assert main is not None
    return main


def samples_of(array: Array, chunk: int = BATCH) -> Samples:
    return Samples({"arg0": array}, {"arg0": 0}, len(array), chunk)


def apply(module: ModuleOp, calibration: Calibration, *passes: CalibratedPass) -> Calibration:
    with calibrating(calibration):
        for p in passes:
            p.apply(context(), module)
    module.verify()
    return calibration


def all_passes() -> list[CalibratedPass]:
    return [
        CalibratePass(), EqualizeChannelsPass(), SmoothActivationsPass(), SearchRangesPass(),
    ]  # fmt: skip


def snr(reference: Array, other: Array) -> float:
    noise = np.square(reference.astype(np.float64) - other).sum()
    return float(10 * np.log10(np.square(reference.astype(np.float64)).sum() / noise))


def uneven(channels: int, factor: float = 60.0) -> Array:
    """Factors of channels, some of which are much larger than the others."""
    return np.where(np.arange(channels) % 4 == 1, factor, 1.0).astype(np.float32)


# ---- networks ----------------------------------------------------------------------------------


def mobile(x: Expr) -> Expr:
    """Convolutions with limits between them, one by channel, whose channels differ in size."""
    size = uneven(8, 0.02)
    first = x.lift(normal(8, 3, 1, 1, seed=1) * 2)
    depthwise = x.lift(normal(8, 1, 3, 3, seed=2) * size[:, None, None, None])
    last = x.lift(normal(5, 8, 1, 1, seed=3) / size[:, None, None])
    bias = x.lift(np.full(8, 0.5, np.float32))
    limits = x.lift(np.float32(0)), x.lift(np.float32(6))
    y = x.op(ConvOp, x, first, bias)
    y = x.op(ClampOp, y, *limits)
    y = x.op(ConvOp, y, depthwise, x.lift(normal(8, seed=4) * size), pads=[1, 1, 1, 1], group=8)
    y = x.op(ReluOp, y)
    return x.op(ConvOp, y, last)
