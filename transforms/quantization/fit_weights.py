"""Fit the integers of weights to samples: rounded so that outputs of layers are nearest to those of
the float weight, not each weight to the nearest number of its grid.

    %wq = graph.quantize %w, %sw to i8 axis 1             %wq = graph.constant dense<...> (i8)
    %wd = graph.dequantize %wq, %sw axis 1       ->       %wd = graph.dequantize %wq, %sw axis 1

GPTQ (Frantar et al., arXiv 2210.17323), on the grids that insert-quantization makes, for all of
its schemes. With H the sum of x x^T over the rows x that a layer multiplies, weights are rounded
one input after the other, those that are large first, and what an error does to the outputs is made
up for by the inputs that are left: by the Cholesky factor of the inverse of H. Convolutions are
matrices of their patches, of each group by itself. Rows come from the quantized model, so that
rounding of activations is known to the weights. For 8 bits this also is what methods that choose
between rounding up and down are for (AdaRound, Nagel et al., arXiv 2004.10568).

An output channel keeps its nearest numbers unless its error on these rows falls, and the model
keeps them in all layers unless its outputs have less noise, on samples that were not fitted to and
on those that the verdict is of. The table has, for each layer, the differences from the nearest
numbers. Exceptions: weights that are computed, batches of matrices, embedding tables, and layers
whose input has the batch elsewhere than first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.support.effort import TimeIsUp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import numel, shape_of
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.data.accuracy import decibels
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.numbers.quantization import spread_of, to_small_float
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.channel_groups import takes_factors
from ge.transforms.quantization.data import Calibration, Samples
from ge.transforms.quantization.emitting import code_limits, codes_name
from ge.transforms.quantization.layers import Layer, layers
from ge.transforms.quantization.observe import (
    ObservedOp,
    Observer,
    Watcher,
    rows_of,
    whole_matrix,
)
from ge.transforms.quantization.schemes import INT8, scheme_of
from ge.transforms.quantization.table import packed_codes
from ge.transforms.quantization.trials import LEAST_GAIN, Trials, trials_of, tried
from ge.transforms.rewriting import remarks

NAME = "fit-weights"
ROWS = 8  # for each input of a layer, over all samples
DAMPING = 0.01  # of the mean power of inputs, as the authors have it
BLOCK = 64  # inputs after which errors are taken to all others
BYTES = 512 << 20  # that the sums of products of layers take at a time

Matrix = NDArray[np.float64]
Nearest = Callable[[Matrix], Matrix]


@dataclass
class Weight:
    """A weight of the quantized model and what is known of its inputs. Matrices are [groups,
    inputs, outputs]; `products` [groups, inputs, inputs]."""

    pair: QuantizeOp
    observer: Observer
    readers: list[Layer] = field(default_factory=list[Layer])
    products: Matrix | None = None

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The places in the weight of the elements of the matrix."""
        shape = shape_of(self.pair.input)
        index = np.arange(numel(shape)).reshape(shape)
        matrix = whole_matrix(self.readers[0].linear, index)[0]
        return np.ascontiguousarray(matrix.swapaxes(1, 2))

    def matrix(self, array: Array) -> Matrix:
        spread = np.broadcast_to(array, shape_of(self.pair.input)).astype(np.float64)
        return spread.reshape(-1)[self.places]

    def add(self, layer: Layer, count: int, step: ObservedOp) -> None:
        """Add the products of rows that a layer reads in a chunk of `count` samples."""
        x = step.chunk.rows(step.operands[0])
        if x is None or not x.size:
            return
        rows = rows_of(layer.linear, x, -(-ROWS * self.places.shape[1] // count))
        rows = rows.reshape(len(rows), -1, rows.shape[-1]).astype(np.float64)
        products = rows.swapaxes(1, 2) @ rows
        self.products = products if self.products is None else self.products + products

    def nearest(self, codes: Matrix) -> Matrix:
        """Numbers of the grid, in steps of the scale."""
        to = self.pair.to
        if is_float(to):
            return to_small_float(codes, dtype_of(to), saturate=True).astype(np.float64)
        return np.clip(np.rint(codes), *code_limits(to))

    def fitted(self) -> tuple[str, float] | None:
        """The fitted codes, as the table has them, and by how many dB the error of outputs is less;
        None if by nothing."""
        spread, constant = spread_of(self.pair), self.observer.constant
        weight, stored = constant(self.pair.input), constant(self.pair.result)
        if self.products is None or not np.isfinite(self.products).all():
            return None
        scale = self.matrix(spread(constant(self.pair.scale), weight))
        zero = np.zeros_like(scale)
        if self.pair.zero_point is not None:
            zero = self.matrix(spread(constant(self.pair.zero_point), weight))
        exact, before = self.matrix(weight), self.matrix(stored)
        codes = compensated(exact, scale, zero, self.products, self.nearest)
        old, new = (self.errors(exact - (c - zero) * scale) for c in (before, codes))
        if not (better := new < old).any():
            return None
        flat = stored.reshape(-1).copy()
        flat[self.places] = np.where(better, codes, before).astype(stored.dtype)
        differences = flat.view(np.uint8) - stored.reshape(-1).view(np.uint8)
        text = packed_codes(codes_name(self.pair), differences.tobytes())
        return text, decibels(float(old.sum()), float(np.where(better, new, old).sum()))

    def errors(self, difference: Matrix) -> Matrix:
        """The error of each output, [groups, 1, outputs]."""
        assert self.products is not None
        return (difference * (self.products @ difference)).sum(1, keepdims=True)


def compensated(
    weight: Matrix, scale: Matrix, zero: Matrix, products: Matrix, nearest: Nearest
) -> Matrix:
    """Codes of a weight [groups, inputs, outputs]: see above."""
    power = np.diagonal(products, axis1=1, axis2=2)
    order = np.argsort(-power, 1, "stable")
    column, row = order[:, :, None], order[:, None]
    left, scale, zero = (np.take_along_axis(a, column, 1) for a in (weight, scale, zero))
    products = np.take_along_axis(np.take_along_axis(products, column, 1), row, 2)
    damping = DAMPING * power.mean(1) + np.finfo(np.float64).tiny
    count = products.shape[1]
    damped: Matrix = products + damping[:, None, None] * np.eye(count)
    inverse = cast(Matrix, np.linalg.inv(damped))
    symmetric = (inverse + inverse.swapaxes(1, 2)) / 2
    factor = cast(Matrix, np.linalg.cholesky(symmetric))  # lower
    codes = np.empty_like(left)
    for first in range(0, count, BLOCK):
        end = min(first + BLOCK, count)
        errors = np.empty((len(left), end - first, left.shape[2]))
        for i in range(first, end):
            codes[:, i] = nearest(left[:, i] / scale[:, i] + zero[:, i])
            error = left[:, i] - (codes[:, i] - zero[:, i]) * scale[:, i]
            errors[:, i - first] = error / factor[:, i, i, None]
            later = factor[:, i + 1 : end, i, None]
            left[:, i + 1 : end] -= later * errors[:, i - first, None]
        left[:, end:] -= factor[:, end:, first:end] @ errors
    result = np.empty_like(codes)
    np.put_along_axis(result, column, codes, 1)
    return result


def weights_of(main: FuncOp) -> list[Weight]:
    """The weights of a model in QDQ form that can be fitted, each with the layers that read it."""
    observer, found = Observer(main), dict[Operation, Weight]()
    for layer in layers(main):
        pair = layer.op.operands[1].owner
        if not takes_factors(layer.op, observer.constants) or not isinstance(pair, DequantizeOp):
            continue
        if isinstance(stored := pair.input.owner, QuantizeOp):
            found.setdefault(stored, Weight(stored, observer)).readers.append(layer)
    return list(found.values())


def in_parts(weights: Sequence[Weight]) -> Iterator[list[Weight]]:
    """The weights, as many at a time as there is room for their products."""
    part, size = list[Weight](), 0
    for weight in weights:
        groups, inputs, _ = weight.places.shape
        size += 8 * groups * inputs**2
        if part and size > BYTES:
            yield part
            part, size = [], 8 * groups * inputs**2
        part.append(weight)
    yield part


def fits(main: FuncOp, samples: Samples) -> dict[str, tuple[str, float]]:
    """Return what is fitted for the layers of a model in QDQ form, by their names."""
    found: dict[str, tuple[str, float]] = {}
    for part in in_parts(weights_of(main)):
        watchers: dict[Operation, Watcher] = {
            layer.op: cast(Watcher, partial(weight.add, layer, samples.count))
            for weight in part
            for layer in weight.readers
        }
        Observer(main).run(samples, watchers)
        for weight in part:
            if (fitted := weight.fitted()) is not None:
                found |= {layer.name: fitted for layer in weight.readers}
            weight.products = None
    return found


def fit_weights(trials: Trials, calibration: Calibration) -> None:
    """Add the fitted codes of all layers to the table, unless the outputs gain nothing."""
    samples, table = trials.given.canonical, calibration.table
    own = samples.count * 3 // 4 if samples.count > 3 else samples.count
    found = fits(trials.quantized({})[0], samples.part(0, own))
    others = samples.part(own % samples.count, samples.count)
    judges = trials, replace(trials, given=others)

    def change(fitted: dict[str, str]) -> None:
        table.fitted = fitted

    def noise() -> float:
        return max(judge.noise({}) for judge in judges)

    rounded: list[dict[str, str]] = [{}, {name: text for name, (text, _) in found.items()}]
    try:
        decision = tried(rounded, change, noise, LEAST_GAIN)
    except TimeIsUp:
        table.fitted = {}
        raise
    table.fitted = decision.chosen
    if not decision.chosen:
        remarks.missed(NAME, trials.main, "weights keep nearest numbers: outputs gain nothing")
    for name in decision.chosen:
        op, db = trials.layers[name].op, found[name][1]
        calibration.facts(name, op).fitted_db = db
        remarks.applied(NAME, op, f"'{name}' has {db:.1f} dB less error of its weight")


@dataclass(frozen=True)
class FitWeightsPass(CalibratedPass):
    """Round weights so that the outputs of layers are nearest to those of floats, by samples.
    `scheme`, `skip`, `asymmetric`: what insert-quantization has; `target`: what multiplies; `data`:
    a file with samples (.npz), else what is at hand."""

    name = NAME

    scheme: str = INT8
    skip: tuple[str, ...] = ()
    asymmetric: bool = False
    target: str = DEFAULT_TARGET

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if calibration.samples is None or calibration.table.fitted:
            return
        scheme, target = scheme_of(self.scheme), Target.load(self.target)
        trials = trials_of(main, calibration, scheme, target, self.skip, not self.asymmetric)
        fit_weights(trials, calibration)
